"""What limits a device, against NumPy; and how much memory work takes, against a known amount."""

import time

import numpy as np
import pytest

from helpers import ceilings, memory

pytestmark = pytest.mark.alone


def test_the_rate_of_a_product_is_near_that_of_numpy():
    """Both come from tuned libraries on the same cores; a slip in the formula would be off by 2 or by 1000."""
    a = np.random.default_rng(0).standard_normal((1000, 1000), dtype="float32")
    times = []
    for _ in range(8):
        start = time.perf_counter()
        a @ a
        times.append(time.perf_counter() - start)

    rate = ceilings.flop_per_second("CPU:0", seconds=0.5)

    assert 1 / 8 < rate / (2 * 1000**3 / min(times)) < 8


def test_the_bandwidth_is_near_that_of_a_numpy_addition():
    """The same three passes over 80 MB."""
    total, vector = np.zeros(20_000_000, "float32"), np.ones(20_000_000, "float32")
    times = []
    for _ in range(8):
        start = time.perf_counter()
        total += vector
        times.append(time.perf_counter() - start)

    rate = ceilings.bytes_per_second("CPU:0", seconds=0.5)

    assert 1 / 8 < rate / (12 * 20_000_000 / min(times)) < 8


def test_the_peak_is_what_was_held_at_once():
    """Two arrays of 100 MB at the same time; what is set free before the end counts too."""

    def work():
        first = np.ones(25_000_000, "float32")
        second = first + 1
        return float(second[0])

    assert 190e6 < memory.peak_bytes(work, "CPU:0") < 300e6
