"""Measuring: the clock is a fake where time itself is tested; TensorFlow is always real."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import timing
from helpers.devices import Device
from helpers.errors import DeviceError, ParameterError
from helpers.timing import Measurement, format_digits, format_seconds

pytestmark = pytest.mark.alone


class Work:
    """Calls that move a clock of their own: the first by `first` seconds, the others by `each` in turn."""

    def __init__(self, each, first: float = 1.0):
        self.now, self.calls = 0.0, 0
        self.first, self.each = first, each

    def clock(self) -> float:
        return self.now

    def __call__(self) -> None:
        self.now += self.first if self.calls == 0 else self.each[self.calls % len(self.each)]
        self.calls += 1

    def measure(self, seconds: float = 1000) -> Measurement:
        return timing.measure(self, label="work", seconds=seconds, clock=self.clock)


def test_the_first_call_is_kept_apart():
    """Tracing and compilation are not what a call costs."""
    measurement = Work(each=[0.5], first=30).measure()

    assert measurement.first == 30
    assert measurement.values == (0.5,) * 7
    assert measurement.median == 0.5


def test_steady_work_stops_early_and_unsteady_work_goes_on():
    """Seven values that agree are enough; more are taken while they do not, but not for ever."""
    steady, unsteady = Work(each=[1.0, 1.01]).measure(), Work(each=[1.0, 1.0, 2.0, 2.0]).measure()

    assert (steady.n, steady.is_steady, steady.steadiness) == (7, True, "steady")
    assert (unsteady.n, unsteady.is_steady) == (30, False)
    assert unsteady.steadiness.startswith("unsteady: the middle half spans")


def test_the_time_limit_ends_a_measurement_with_what_there_is():
    """Work that takes longer than the limit gives one value, and the words admit it."""
    measurement = Work(each=[100.0], first=120).measure(seconds=10)

    assert measurement.values == (100.0,)
    assert measurement.steadiness == "only 1 value within the time limit"
    assert Work(each=[1.0, 1.0, 2.0, 2.0]).measure(seconds=15).n < 15


def test_short_calls_share_a_clock():
    """A clock of 5 ms is not disturbed by waiting for the device; the value is still one call's."""
    measurement = Work(each=[0.001]).measure()

    assert measurement.calls_per_value == 8
    assert measurement.values == pytest.approx([0.001] * 7)


def test_drift_is_said_in_words():
    """A chip that heats up gets slower from value to value, though they lie close together."""
    measurement = Measurement("work", None, 1.0, tuple(1.01**i for i in range(10)))

    assert measurement.steadiness == "drifting: 9% slower from first to last value"


def test_callables_are_measured_in_turn():
    """A B A B: a busy moment hits both."""
    work, order = Work(each=[1.0, 1.3, 1.6]), []

    def call(name):
        def run():
            order.append(name)
            work()

        return run

    found = timing.in_turn({"a": call("a"), "b": call("b")}, seconds=1000, clock=work.clock)

    assert "".join(order[4:]) == "ab" * found["a"].n  # the first four calls warm up
    assert found["a"].n == found["b"].n >= 7


@pytest.mark.parametrize(
    ("calls", "options", "words"),
    [
        ({}, {}, "cannot be measured.*Write `lambda:`"),
        ([print], {}, "cannot be measured"),
        ({"a": 5}, {}, "cannot be measured"),
        ({"a": print}, {"seconds": 0}, "seconds = 0 is no time limit"),
        ({"a": print}, {"seconds": float("nan")}, "no time limit"),
        ({"a": print}, {"seconds": None}, "settings.seconds"),
        ({"a": print, "b": print}, {"device": {"a": "CPU:0"}}, "no device for b"),
        ({"a": print}, {"device": {"x": "CPU:0"}}, "no device for a"),
    ],
)
def test_what_cannot_be_measured_is_refused(calls, options, words):
    """In words, before anything runs."""
    with pytest.raises(ParameterError, match=words):
        timing.in_turn(calls, **options)


def test_slow_first_calls_do_not_use_up_the_time_limit():
    """Compilation may take longer than the whole measurement."""
    measurement = Work(each=[0.5], first=30).measure(seconds=10)

    assert measurement.n == 7


def test_work_still_queued_when_the_call_returns_is_counted(tf, asynchronous):
    """The asynchronous executor returns at once, as a GPU does; the measured time is that of the work."""
    matrix = tf.random.normal((1500, 1500))

    def product():
        return tf.matmul(matrix, matrix)

    values = {True: [], False: []}
    for _ in range(8):  # other programs only ever make a value longer, so the fastest settle
        for is_synchronous in values:
            tf.config.experimental.set_synchronous_execution(is_synchronous)
            values[is_synchronous] += timing.measure(product, "CPU:0").values
        ratio = min(values[False]) / min(values[True])
        if 0.8 <= ratio <= 1.2:
            break

    assert ratio == pytest.approx(1, abs=0.2)


def test_earlier_work_does_not_run_on_the_clock(tf, asynchronous):
    """A queue that is not empty when the clock starts would be charged to the first call."""
    matrix = tf.random.normal((1000, 1000))
    work = timing.measure(lambda: tf.matmul(matrix, matrix), "CPU:0").median
    for _ in range(30):
        queued = tf.matmul(matrix, matrix)

    first = timing.measure(lambda: tf.constant(1.0) + 1, "CPU:0").first

    assert queued.shape == (1000, 1000)
    assert first < 10 * work


@pytest.mark.parametrize("kind", ["tensor", "tuple", "dict", "None", "NumPy", "function", "predict"])
def test_whatever_comes_back_is_waited_for(tf, asynchronous, kind):
    """Eager code, tf.function and model.predict, with any result, take as long as the product inside."""
    matrix = tf.random.normal((1000, 1000))
    variable = tf.Variable(matrix)

    def assign():
        variable.assign(tf.matmul(matrix, matrix))

    model = tf.keras.Sequential([tf.keras.Input((1000,)), tf.keras.layers.Dense(1000, use_bias=False)])
    model.compile(jit_compile=False)
    rows = matrix.numpy()
    traced = tf.function(lambda: tf.matmul(matrix, matrix), jit_compile=False)
    calls = {
        "tensor": lambda: tf.matmul(matrix, matrix),
        "tuple": lambda: (tf.matmul(matrix, matrix), 1),
        "dict": lambda: {"product": [tf.matmul(matrix, matrix)]},
        "None": assign,
        "NumPy": lambda: tf.matmul(matrix, matrix).numpy(),
        "function": traced,
        "predict": lambda: model.predict(rows, batch_size=1000, verbose=0),
    }
    product = timing.measure(lambda: tf.matmul(matrix, matrix).numpy(), "CPU:0")

    measurement = timing.measure(calls[kind], "CPU:0")

    assert min(measurement.values) > 0.5 * min(product.values)
    read_back = None if kind in ("None", "NumPy", "predict") else Device("CPU", 0)
    assert measurement.device == read_back


def test_a_measurement_is_labelled_with_the_device_it_ran_on(tf):
    """Two logical CPUs: work sent to the second is measured there, and the label comes from the result."""
    measurement = timing.measure(lambda: tf.ones((10, 10)) + 1, "cpu:1", label="sum")

    assert measurement.device == Device("CPU", 1)
    assert str(measurement).startswith("sum on CPU:1: ")


def test_each_callable_can_have_its_own_device(tf):
    """A CPU and a GPU are compared in turn, each on its own."""
    names = {"first": "CPU:0", "second": "CPU:1"}
    found = timing.in_turn({name: lambda: tf.ones((10, 10)) + 1 for name in names}, names, seconds=0.1)

    assert [str(found[name].device) for name in names] == ["CPU:0", "CPU:1"]


@pytest.mark.parametrize("device", ["GPU:99", "CPU:7", "TPU:0", ""])
def test_a_device_that_does_not_exist_is_refused_before_anything_runs(device):
    """Soft placement would measure the CPU and say GPU."""
    ran = []

    with pytest.raises(DeviceError):
        timing.measure(lambda: ran.append(1), device)
    assert ran == []


def test_a_result_from_another_device_is_no_measurement(tf):
    """Work that slips away to another device is noticed after the first call."""

    def slips_away():
        with tf.device("CPU:0"):
            return tf.ones(3) + 1

    with pytest.raises(DeviceError, match="sent to CPU:1, but its result came from CPU:0"):
        timing.measure(slips_away, "CPU:1")


@pytest.mark.parametrize("values", [(), (0.0,), (-1.0,), (float("nan"),), (float("inf"),)])
def test_impossible_times_are_refused(values):
    """A clock that stood still is a fault of the measurement, not a fast machine."""
    with pytest.raises(ValueError, match="need times above 0"):
        Measurement("work", None, 1.0, values)


@given(st.lists(st.floats(1e-9, 1e5), min_size=1, max_size=40))
def test_quartiles_enclose_the_median(values):
    """For any values, and every measurement can be shown."""
    measurement = Measurement("work", None, 1.0, tuple(values))

    assert min(values) <= measurement.low <= measurement.median <= measurement.high <= max(values)
    assert measurement.spread >= 0
    assert f"n = {len(values)}" in str(measurement)


@pytest.mark.parametrize(
    ("seconds", "uncertainty", "text"),
    [
        (0.010234, 0.0009, "10.2 ms"),
        (0.010234, 0.003, "10 ms"),
        (0.010234, 0.00001, "10.23 ms"),
        (2.5e-6, 0, "2.5 µs"),
        (0.00099996, 0, "1.0 ms"),
        (1.5, 0.4, "1.5 s"),
        (1234.5, 100, "1,200 s"),
        (3e-10, 0, "0.30 ns"),
        (0, 0, "0 s"),
    ],
)
def test_times_are_shown_in_the_digits_they_deserve(seconds, uncertainty, text):
    """No more digits than the spread leaves, and the unit that needs the fewest zeros."""
    assert format_seconds(seconds, uncertainty) == text


@pytest.mark.parametrize(
    ("number", "text"), [(2.13, "2.1"), (15.2, "15"), (1234, "1,200"), (0.0456, "0.046"), (9.96, "10")]
)
def test_ratios_are_shown_in_two_digits(number, text):
    """Never as 1e+03."""
    assert format_digits(number) == text


@given(st.floats(1e-9, 1e6), st.floats(0, 1e6))
def test_a_shown_time_is_close_to_the_time(seconds, uncertainty):
    """Rounding to 2 digits or more changes a time by 5 % at most."""
    number, unit = format_seconds(seconds, uncertainty).split()

    scale = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}[unit]
    assert float(number.replace(",", "")) * scale == pytest.approx(seconds, rel=0.051)


def test_times_of_plain_numpy_agree_with_timeit(tf):
    """An independent reference: the standard library's timeit, on work that needs no waiting."""
    import timeit

    matrix = np.ones((400, 400))
    references, values = [], []
    for _ in range(8):  # in turn, until the fastest of both settle on a busy machine
        references += [seconds / 5 for seconds in timeit.repeat(lambda: matrix @ matrix, number=5, repeat=15)]
        values += timing.measure(lambda: matrix @ matrix).values
        if abs(min(values) / min(references) - 1) <= 0.5:
            break

    assert min(values) == pytest.approx(min(references), rel=0.5)


def test_a_result_on_two_devices_names_neither(tf):
    """Without a device asked for, a label would be a guess."""

    def both():
        with tf.device("CPU:0"):
            first = tf.ones(3) + 1
        with tf.device("CPU:1"):
            return first, tf.ones(3) + 1

    assert timing.measure(both, seconds=0.05).device is None


def test_work_that_changes_its_device_freely_gets_no_label(tf):
    """The last value alone would be a guess."""
    calls = []

    def wanders():
        calls.append(1)
        with tf.device(f"CPU:{len(calls) % 2}"):
            return tf.ones((300, 300)) @ tf.ones((300, 300))

    assert timing.measure(wanders, seconds=0.2).device is None


def test_work_that_moves_to_another_device_later_is_noticed(tf):
    """Every value is read back, not only the first call's."""
    calls = []

    def moves_away():
        calls.append(1)
        with tf.device("CPU:0" if len(calls) > 3 else "CPU:1"):
            return tf.ones(3) + 1

    with pytest.raises(DeviceError, match="its result came from CPU:0"):
        timing.measure(moves_away, "CPU:1")


def test_nothing_is_waited_for_where_every_call_returns_when_it_is_done(tf, asynchronous):
    """Waiting wakes threads, which costs more than a short call; asynchronous devices are waited for."""
    assert timing.waiter() is tf.test.experimental.sync_devices

    tf.config.experimental.set_synchronous_execution(True)
    assert timing.waiter()() is None and timing.waiter() is not tf.test.experimental.sync_devices


def test_a_gpu_is_always_waited_for(tf, monkeypatch):
    """Its calls return before they are done, whatever the executor."""
    gpu = SimpleNamespace(device_type="GPU")
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda *kind: [gpu])

    assert timing.waiter() is tf.test.experimental.sync_devices
