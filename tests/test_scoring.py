"""Predicted against measured: the arithmetic of scores, and one real comparison."""

import math

import pytest

from helpers import calibrate, levers, predict, scoring
from helpers.predict import Crossover, Prediction
from helpers.timing import Measurement


def trial(expected: float, measured: float, spread: float = 0.2) -> scoring.Trial:
    prediction = Prediction("model", "device", "fit", 8, {"compute": expected}, spread, ())
    return scoring.Trial("model", prediction, 0.0, Measurement("fit", None, 1.0, (measured,) * 3))


def test_the_score_of_known_errors():
    """Off by 0 to 90 percent: the middle lies at 45, nine of ten below 80."""
    found = scoring.score([trial(1 + percent / 100, 1.0) for percent in range(0, 100, 10)])

    assert found.count == 10 and math.isclose(found.median_error, 0.45) and math.isclose(found.worst_but_a_tenth, 0.8)
    assert found.inside == 0.3  # 1.0, 1.1, 1.2: the interval reaches down to 1/1.29 of the prediction


def test_what_it_takes_to_begin_an_epoch_is_predicted_too():
    """Few steps carry more of it each."""
    prediction = Prediction("model", "device", "fit", 8, {"compute": 1.0}, 0.2, ())

    found = scoring.Trial("model", prediction, 0.5, Measurement("fit", None, 2.0, (1.5, 1.5, 1.5)))

    assert found.ratio == 1 and found.is_inside


@pytest.mark.parametrize(
    ("predicted", "measured", "agrees"),
    [
        (10, 19, True),
        (10, 21, False),
        (10, 4, False),
        (None, None, True),
        (None, 40, True),
        (1, 1, True),
        (1, 16, False),
    ],
)
def test_crossovers_agree_within_a_factor_of_two(predicted, measured, agrees):
    """Never within the batches that were looked at counts as their end: 64."""
    expected = Crossover("a", "b", predicted, None, None, 2**16)

    assert scoring.Crossed("model", expected, measured, {1: 0.5, 8: 1.0, 64: 2.0}).agrees is agrees


def test_a_step_is_predicted_and_measured_in_each_way(tf):
    """The result ran where it was asked to, and both times stand side by side."""
    here = predict.machine(calibrate.reference())

    (found,) = scoring.trials(["two_clouds"], [500], here, epochs=3)

    assert [each.prediction.way for each in found] == list(calibrate.WAYS)
    assert all(each.measurement.n == 2 and str(each.measurement.device) == "CPU:0" for each in found)
    assert all(each.title == "two clouds" and 1e-6 < each.measured < 1 for each in found)


def test_a_batch_that_does_not_fit_is_left_out(tf):
    """Nothing is trained that the device cannot hold."""
    from dataclasses import replace

    small = replace(predict.machine(calibrate.reference()), memory_bytes=2e6)

    assert list(scoring.trials(["mnist_mlp"], [128], small)) == [[]]


@pytest.mark.long
def test_a_crossover_is_measured_between_a_process_with_one_thread_and_this_one(tf):
    """Both sides train in turn; the ratio is that of their steps."""
    here = predict.machine(calibrate.reference())

    found = scoring.crossed("two_clouds", [2, 4], (here, "resident", levers.ONE_THREAD), (here, "fit", {}), epochs=3)

    assert set(found.ratios) == {2, 4} and all(0 < ratio < 1 for ratio in found.ratios.values())
    assert found.measured is None
