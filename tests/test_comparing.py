"""What measurements say together."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import comparing
from helpers.comparing import TOO_CLOSE, Comparison
from helpers.errors import ParameterError
from helpers.timing import Measurement

RANDOM = np.random.default_rng(0)


def noisy(seconds: float, noise: float = 0.03, n: int = 7, label: str = "work") -> Measurement:
    """Values around a median, one in ten of them much too long, as on a shared machine."""
    values = seconds * np.exp(noise * RANDOM.standard_normal(n))
    late = np.where(RANDOM.random(n) < 0.1, RANDOM.exponential(0.5, n), 0)
    return Measurement(label, None, seconds, tuple(values * (1 + late)))


def exactly(seconds: float, label: str = "work") -> Measurement:
    return Measurement(label, None, seconds, (seconds,) * 7)


def test_the_verdict_is_said_in_words_with_both_times():
    """A ratio alone hides whether the other one was merely slow."""
    cpu, gpu = exactly(0.048, "CPU:0"), exactly(0.024, "GPU:0")

    assert str(Comparison(cpu, gpu)) == "GPU:0 is 2.0 times faster than CPU:0 (24 ms against 48 ms)"
    assert str(Comparison(gpu, cpu)) == "CPU:0 is 2.0 times slower than GPU:0 (48 ms against 24 ms)"
    assert (
        str(Comparison(cpu, exactly(0.047, "GPU:0")))
        == "GPU:0 is too close to call against CPU:0 (47 ms against 48 ms)"
    )


def test_equal_work_is_nearly_always_too_close_to_call():
    """Noise alone must not make a winner: fewer than 3 in 100 trials may."""
    winners = sum(Comparison(noisy(1), noisy(1)).verdict != TOO_CLOSE for _ in range(1000))

    assert winners < 30


def test_a_clear_difference_is_found_in_spite_of_outliers():
    """A factor of 2 at 10 % noise is named, with the right direction, 9 times in 10."""
    verdicts = [Comparison(noisy(2, 0.1), noisy(1, 0.1)).verdict for _ in range(500)]

    assert sum(verdict.endswith("faster") for verdict in verdicts) > 450
    assert not any(verdict.endswith("slower") for verdict in verdicts)


def test_three_values_are_never_enough_for_a_verdict():
    """However far apart they lie."""
    few = Measurement("work", None, 1.0, (1.0, 1.0, 1.0))

    assert Comparison(few, exactly(9.0)).verdict == TOO_CLOSE


@given(st.lists(st.floats(0.1, 10), min_size=3, max_size=12), st.lists(st.floats(0.1, 10), min_size=3, max_size=12))
def test_turning_a_comparison_round_turns_the_verdict_round(first, second):
    """Faster becomes slower by the same factor, and a close call stays one."""
    a, b = (Measurement("work", None, 1.0, tuple(values)) for values in (first, second))

    there, back = Comparison(a, b), Comparison(b, a)

    assert back.verdict.replace("slower", "faster") == there.verdict.replace("slower", "faster")
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.interval[0] <= there.ratio <= there.interval[1]


def test_a_device_wins_from_the_size_on_where_it_never_loses_again():
    """One lucky small size does not count, and neither does a close call."""
    slower, close, faster = (
        Comparison(exactly(1), exactly(2)),
        Comparison(exactly(1), exactly(1)),
        Comparison(exactly(2), exactly(1)),
    )

    assert comparing.wins_from({100: slower, 200: faster, 300: close, 400: faster, 500: faster}) == 400
    assert comparing.wins_from({100: faster, 200: faster}) == 100
    assert comparing.wins_from({100: faster, 200: slower}) is None


def test_the_line_separates_fixed_cost_from_cost_per_item():
    """Item counts from 32 to half a million: the fixed part must not drown in the large times."""
    items = [32, 128, 1000, 10_000, 100_000, 500_000]

    line = comparing.fit_line(items, [exactly(2e-3 + 3e-8 * n) for n in items])

    assert line.fixed == pytest.approx(2e-3)
    assert line.per_item == pytest.approx(3e-8)
    assert line.fixed_share(2e-3 / 3e-8) == pytest.approx(0.5)
    assert line.seconds(1e6) == pytest.approx(0.032)


def test_the_intervals_hold_the_truth_about_as_often_as_they_say():
    """95 % intervals from 6 noisy points: at least 9 in 10 hold each of the two costs."""
    items = [10, 100, 1000, 3000, 10_000, 30_000]

    def holds():
        line = comparing.fit_line(items, [noisy(1e-3 + 1e-6 * n, 0.05, 9) for n in items])
        low, high = line.fixed_interval
        low_item, high_item = line.per_item_interval
        return low <= 1e-3 <= high, low_item <= 1e-6 <= high_item

    found = np.array([holds() for _ in range(300)])

    assert found.mean(axis=0).min() > 0.9


def test_points_off_the_line_widen_the_intervals():
    """A curve that is no line must not get a confident fixed cost."""
    items = [10, 100, 1000, 10_000]
    straight = comparing.fit_line(items, [exactly(1e-3 + 1e-6 * n) for n in items])
    bent = comparing.fit_line(items, [exactly(1e-3 + 1e-6 * n + 1e-10 * n**2) for n in items])

    def width(line):
        return line.fixed_interval[1] - line.fixed_interval[0]

    assert width(bent) > 10 * width(straight)


def test_a_fixed_cost_that_is_not_there_is_said_in_words():
    """Nothing goes below 0, and the reader is told when 0 is possible."""
    items = [100, 1000, 5000, 10_000]

    line = comparing.fit_line(items, [noisy(1e-6 * n) for n in items])

    assert line.fixed >= 0 and line.fixed_interval[0] == 0
    assert str(line).endswith("; the fixed part cannot be told from 0")


def test_two_points_are_no_fit():
    """Through two points any line fits, so nothing is learned about the error."""
    with pytest.raises(ParameterError, match="At least 3 different item counts"):
        comparing.fit_line([1, 2, 2], [exactly(1)] * 3)


def test_the_exponent_of_a_power_law_is_found():
    """n³ gives 3; a single size gives no exponent."""
    sizes = [100, 200, 400]

    assert comparing.growth_exponent(sizes, [exactly(1e-9 * n**3) for n in sizes]) == pytest.approx(3)
    assert math.isnan(comparing.growth_exponent([100], [exactly(1)]))
