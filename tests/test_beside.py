"""Predictions as the notebooks show them beside measurements."""

import math
from dataclasses import replace

import pytest

from helpers import beside, calibrate, chapter, models, predict
from helpers.predict import Prediction
from helpers.timing import Measurement

PARTS = {"host": 1e-3, "launch": 1e-3, "transfer": 0.0, "compute": 1e-3, "memory": 1e-3}
STEP = Prediction("model", "Tesla T4", "fit", 10, PARTS, 0.4, ())


def test_devices_keep_the_names_they_were_asked_for_and_compute_in_float32():
    """The notebooks switch TF32 off, so a card that has it is predicted without."""
    found = beside.machines(["T4", "RTX 3090"])

    assert [(name, machine.name) for name, machine in found.items()] == [
        ("T4", "Tesla T4"),
        ("RTX 3090", "GeForce RTX 3090"),
    ]
    assert found["RTX 3090"] == predict.machine("RTX 3090", dtype="float32")


def test_batches_that_do_not_fit_are_left_out():
    """No prediction stands where the device would fail."""
    small = replace(predict.machine("T4"), memory_bytes=100_000_000)

    found = beside.steps(models.bigger_network(), [1, 16, 10_000], small)

    assert list(found) == [1, 16]
    assert found[16] == predict.step_time(models.bigger_network(), 16, small)


def test_python_may_take_what_it_was_measured_to_take_here():
    """The other parts stay; the measured part is as uncertain as the computer is unsteady."""
    found = beside.with_host(STEP, 9e-3)

    assert found.parts == {**PARTS, "host": 9e-3} and found.seconds == pytest.approx(12e-3)
    assert found.spread == pytest.approx(math.hypot(0.25 * 0.4, 0.75 * calibrate.reference().spread_all))
    network, machine = models.two_clouds(), predict.machine("T4")
    assert beside.steps(network, [10], machine, hosts={10: 0.5})[10].parts["host"] == 0.5


@pytest.mark.parametrize("network", chapter.NETWORKS)
def test_fifteen_epochs_are_all_steps_and_the_looks_between_them(network):
    """A look is the way forward alone, so it takes less than a step."""
    machine = predict.machine("T4")
    batch, pictures, looks = chapter.NETWORKS[network]

    step = predict.step_time(getattr(models, network)(), batch, machine).seconds
    whole = beside.fifteen_epochs(network, machine)

    alone = 15 * math.ceil(pictures / batch) * step
    assert alone < whole.seconds < alone + 15 * math.ceil(looks / batch) * step
    assert whole.low < whole.seconds < whole.high


def test_a_prediction_is_never_shown_without_its_interval():
    """As a time and as a ratio; the lower limit of the time is the upper one of the ratio."""
    exact = replace(STEP, spread=math.log(2) / predict.WIDTH)

    assert beside.shown(exact) == "4.0 ms (2.0 ms to 8.0 ms)"
    assert beside.times_faster(8e-3, exact) == "2.0 (1.0 to 4.0)"


def test_predictions_never_share_a_column_with_measurements():
    """One column is measured; each device has two of its own, with words where a size does not fit."""
    measured = {size: Measurement("step", None, 1.0, (8e-3,) * 7) for size in (1, 10)}

    found = beside.table(measured, {"T4": {1: STEP}}, "CPU:0", "batch size")

    assert list(found) == ["CPU:0, measured", "predicted: T4", "predicted: T4, times faster"]
    assert list(found["CPU:0, measured"]) == ["8.0 ms"] * 2
    assert found.loc[1, "predicted: T4"] == beside.shown(STEP) and found.loc[10, "predicted: T4"] == "does not fit"
    assert list(beside.table(measured, {}, "CPU:0", "batch size")) == ["CPU:0, measured"]
