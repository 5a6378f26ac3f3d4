"""Time a callable honestly: keep the first call apart, wait for the device, repeat until steady.

Every time is in seconds per call. TensorFlow is imported inside functions only.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from helpers import devices
from helpers.devices import Device
from helpers.errors import ParameterError

STEADY_SPREAD = 0.10  # interquartile range / median; above it we call a measurement unsteady
ENOUGH_VALUES = 7  # fewer say little about a spread; from 7 on one outlier at each end does no harm
MOST_VALUES = 30  # a spread that this many have not settled belongs to the machine, not to chance
SHORTEST_VALUE = 0.005  # seconds; shorter calls share a clock, or waiting for the device would be in them


@dataclass(frozen=True)
class Measurement:
    """Repeated timings of one piece of work on one device."""

    label: str
    device: Device | None  # read back from the result; None if the result does not say
    first: float  # seconds; includes tracing, compilation and memory pools
    values: tuple[float, ...]  # seconds per call, warm, in the order taken
    calls_per_value: int = 1

    def __post_init__(self):
        if not self.values or not all(0 < value < math.inf for value in self.values):
            raise ValueError(f"{self.label}: need times above 0 s, got {self.values}")

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def low(self) -> float:
        """The lower quartile."""
        return quartiles(self.values)[0]

    @property
    def high(self) -> float:
        """The upper quartile."""
        return quartiles(self.values)[1]

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median."""
        return (self.high - self.low) / self.median

    @property
    def is_steady(self) -> bool:
        return self.n >= ENOUGH_VALUES and self.spread <= STEADY_SPREAD

    @property
    def steadiness(self) -> str:
        """Say in words how far the median can be trusted."""
        if self.n < ENOUGH_VALUES:
            return f"only {self.n} value{'s' * (self.n > 1)} within the time limit"
        if not self.is_steady:
            return f"unsteady: the middle half spans {self.spread:.0%} of the median"
        drift = _drift(self.values)
        if abs(drift) >= 0.03:
            return f"drifting: {abs(drift):.0%} {'slower' if drift > 0 else 'faster'} from first to last value"
        return "steady"

    @property
    def shown(self) -> str:
        """The median with its unit, in the digits it deserves."""
        return format_seconds(self.median, self.high - self.low)

    @property
    def middle_half(self) -> str:
        """The quartiles, between which half of the values lie."""
        return " to ".join(format_seconds(edge, self.high - self.low) for edge in (self.low, self.high))

    def __str__(self) -> str:
        place = f" on {self.device}" if self.device else ""
        first = format_seconds(self.first)
        return (
            f"{self.label}{place}: {self.shown} (middle half {self.middle_half}, n = {self.n}; first call {first}); "
            f"{self.steadiness}"
        )

    def _repr_pretty_(self, printer, _cycle) -> None:
        printer.text(str(self))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _drift(values: Sequence[float]) -> float:
    """Return the relative change along a straight line through the values; 0 where they follow none."""
    order = range(len(values))
    if len(set(values)) == 1 or abs(statistics.correlation(order, values)) < 0.9:
        return 0.0
    return statistics.linear_regression(order, values).slope * (len(values) - 1) / statistics.median(values)


def format_seconds(seconds: float, uncertainty: float = 0.0) -> str:
    """Write a time with its unit, in as many digits (2 to 4) as `uncertainty`, in seconds, leaves it."""
    if seconds == 0 or not math.isfinite(seconds):
        return f"{seconds:g} s"
    digits = 2
    if uncertainty > 0:
        digits += math.floor(math.log10(abs(seconds))) - math.floor(math.log10(uncertainty)) - 1
        digits = min(4, max(2, digits))
    rounded = float(f"{seconds:.{digits - 1}e}")
    units = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
    scale, unit = next((u for u in reversed(units) if abs(rounded) >= u[0] * (1 - 1e-9)), units[0])
    return f"{format_digits(rounded / scale, digits)} {unit}"


def format_digits(number: float, digits: int = 2) -> str:
    """Write a number with that many significant digits, never as 1e+03."""
    if number == 0 or not math.isfinite(number):
        return f"{number:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(float(f"{number:.{digits - 1}e}"))))
    return f"{round(number, decimals):,.{max(0, decimals)}f}"


def waiter() -> Callable[[], None]:
    """Return a callable that waits until every device is done.

    Where CPUs alone compute, and each call returns when it is done, it has nothing to do: TensorFlow's own
    `sync_devices` would wake threads that sleep, which takes up to 0.4 ms after 10 ms of other work.
    """
    tf = devices.load_tensorflow()
    is_done = tf.config.experimental.get_synchronous_execution() and all(
        device.device_type == "CPU" for device in tf.config.list_logical_devices()
    )
    return (lambda: None) if is_done else tf.test.experimental.sync_devices


def clocked(call: Callable) -> tuple[float, object]:
    """Return the seconds of a call, waiting for the device at both ends, and its result."""
    wait = waiter()
    wait()
    start = time.perf_counter()
    result = call()
    wait()
    return time.perf_counter() - start, result


class _Subject:
    """One callable under the clock."""

    def __init__(self, label: str, call: Callable, device: Device | None, clock: Callable[[], float]):
        self.label, self.call, self.device, self.clock = label, call, device, clock
        self.values: list[float] = []
        self.calls_per_value = 1
        self.seen: set[Device | None] = set()  # where results came from, over all values
        self.first = self._time(1)

    def _time(self, calls: int) -> float:
        """Return the seconds of `calls` calls in a row, waiting at both ends; read back where the last one ran."""
        tf, wait = devices.load_tensorflow(), waiter()
        with tf.device(str(self.device)) if self.device else nullcontext():
            wait()  # earlier work must not run on our clock
            start = self.clock()
            for _ in range(calls - 1):
                self.call()
            result = self.call()
            wait()  # a GPU call returns before its work is done
            seconds = self.clock() - start
        self.seen.add(self._read_back(result))
        return seconds

    def _read_back(self, result) -> Device | None:
        """Return the one device that the result names; None if it names none, or several by free choice."""
        if self.device:
            return devices.verify(result, self.device)
        found = devices.where(result)
        return found[0] if len(found) == 1 else None

    def warm_up(self) -> None:
        """Call again until that takes long enough for the clock, which also finds the calls per value."""
        while self._time(self.calls_per_value) < SHORTEST_VALUE:
            self.calls_per_value *= 2

    def take_value(self) -> None:
        self.values.append(self._time(self.calls_per_value) / self.calls_per_value)

    def measurement(self) -> Measurement:
        used = next(iter(self.seen)) if len(self.seen) == 1 else None
        return Measurement(self.label, used, self.first, tuple(self.values), self.calls_per_value)


def in_turn(
    calls: Mapping[str, Callable],
    device: str | Device | Mapping[str, str | Device] | None = None,
    *,
    seconds: float = 3.0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Measurement]:
    """Measure several callables in turn (A B A B …), so that a busy moment hits all of them alike.

    `device` is one for all, or one per label; each callable runs there, and its result must come from
    there. None leaves the choice to TensorFlow. Repeats until every one is steady, until there are 30 values
    of each, or until `seconds` per callable have passed since the first calls; each gets one value at
    least. A call that raises ends the measurement.
    """
    _check_request(calls, device, seconds)
    asked = device if isinstance(device, Mapping) else dict.fromkeys(calls, device)
    chosen = {label: None if asked[label] is None else devices.find(asked[label]) for label in calls}
    subjects = [_Subject(label, call, chosen[label], clock) for label, call in calls.items()]
    end = clock() + seconds * len(calls)
    for subject in subjects:
        if subject.first < seconds:
            subject.warm_up()
    while True:
        for subject in subjects:
            subject.take_value()
        found = {subject.label: subject.measurement() for subject in subjects}
        is_settled = all(measurement.is_steady or measurement.n >= MOST_VALUES for measurement in found.values())
        if is_settled or clock() >= end:
            return found


def _check_request(calls, device, seconds) -> None:
    """Raise `ParameterError` for what cannot be measured."""
    if not isinstance(calls, Mapping) or not calls or not all(map(callable, calls.values())):
        raise ParameterError(
            f"{calls!r:.200} cannot be measured.",
            "Accepted are callables, each with its label: {'product': lambda: tf.matmul(a, b)}.",
            "Write `lambda:` before the work, so that it can be repeated.",
        )
    if isinstance(device, Mapping) and set(calls) - set(device):
        raise ParameterError(
            f"There is no device for {', '.join(sorted(set(calls) - set(device)))}.",
            "Accepted is one device for all, or one for each label.",
            "Add it; None leaves the choice to TensorFlow.",
        )
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < math.inf:
        raise ParameterError(
            f"seconds = {seconds!r} is no time limit.",
            "Accepted is a number above 0.",
            "Give the seconds that each measurement may take: in a notebook, settings.seconds.",
        )


def measure(call: Callable, device: str | Device | None = None, *, label: str = "work", **options) -> Measurement:
    """Measure one callable: see `in_turn`, which takes the same options."""
    return in_turn({label: call}, device, **options)[label]
