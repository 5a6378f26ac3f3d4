"""Predict the time of a training step on a device that may not be here, and the batch size from which one wins.

    step = host + launch + transfer + compute + memory

`work` counts what the model asks for, `calibrate` and `datasheet` say what that costs. Every time is in seconds, and
comes with an interval in which four of five measurements should lie.
"""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from helpers import calibrate, datasheet, hardware, work
from helpers.calibrate import WAYS, Calibration, Host
from helpers.costs import Costs
from helpers.errors import NotEnoughMemoryError, ParameterError
from helpers.hardware import Hardware
from helpers.pieces import Piece
from helpers.work import FLOAT, Work

INSIDE = 0.8  # the share of measurements that an interval should hold
WIDTH = statistics.NormalDist().inv_cdf((1 + INSIDE) / 2)  # in standard deviations
LARGEST_BATCH = 2**16
USABLE = 0.9  # of a device's memory: the rest is its library's
LINK = 0.5  # share of a link's rate that a copy from ordinary memory reaches
COPY = 2e-5  # seconds to begin a copy to a GPU
UNKNOWN_SPREAD = math.log(2)  # layers that are estimated from their shapes may well be off by a factor of two
PARTS = ("host", "launch", "transfer", "compute", "memory")


@dataclass(frozen=True)
class Machine:
    """A device and the computer around it, with everything that a prediction needs."""

    name: str
    place: str | None  # as TensorFlow numbers it: "CPU:0"; None: it is not here
    kind: str  # "CPU" or "GPU"
    costs: Costs
    hosts: Mapping[str, Host]
    spread_each: float  # of one operation: standard deviation of the logarithm of predicted over measured
    spread_all: float  # of all together
    memory_bytes: float | None
    link_bytes_per_s: float | None  # None: the data are there already


@dataclass(frozen=True)
class Prediction:
    """The predicted time of one training step."""

    model: str
    device: str
    way: str
    batch: int
    parts: Mapping[str, float]  # seconds, see PARTS
    spread: float
    estimated: tuple[str, ...]  # kinds of layers that were estimated from their shapes
    is_here: bool = False  # whether the device was calibrated, and not only looked up

    @property
    def seconds(self) -> float:
        return sum(self.parts.values())

    @property
    def low(self) -> float:
        return self.seconds * math.exp(-WIDTH * self.spread)

    @property
    def high(self) -> float:
        return self.seconds * math.exp(WIDTH * self.spread)

    @property
    def limit(self) -> str:
        """The part that takes most of the time."""
        return max(self.parts, key=self.parts.get)


def machine(
    device: "Calibration | Hardware | Machine | str", *, dtype: str | None = None, flop_per_cycle: float = 0
) -> Machine:
    """Return a device with its costs: a calibrated one, or one of the catalogue by name.

    The computer around a GPU of the catalogue is taken to be the one of the reference calibration. `dtype` is what
    a GPU computes in; None is TensorFlow's choice: TF32 where there is TF32, else float32. `flop_per_cycle` is what
    the build of TensorFlow uses of each core of a CPU; 0 is all that there is, 8 an old build for every processor.
    """
    if isinstance(device, Machine):
        return device
    if isinstance(device, Calibration):
        return Machine(
            device.name,
            device.place,
            device.kind,
            device.costs,
            device.hosts,
            device.spread_each,
            device.spread_all,
            device.memory_bytes,
            None,
        )
    found = device if isinstance(device, Hardware) else hardware.find(device)
    constants = datasheet.constants()
    start = constants[f"start_{found.kind}"]
    dtype = dtype or ("tf32" if "tf32" in found.peak_flops else "float32")
    hosts = {way: replace(host, start=start) for way, host in calibrate.reference().hosts.items()}
    return Machine(
        found.name,
        None,
        found.kind.upper(),
        datasheet.costs(found, start, dtype=dtype, flop_per_cycle=flop_per_cycle),
        hosts,
        0.0,
        datasheet.spread(found.kind),
        found.memory_bytes,
        found.link_bytes_per_s if found.kind == "gpu" else None,
    )


def step_time(model, batch: int, device, way: str = "fit") -> Prediction:
    """Return the predicted time of one training step of a Keras model with Adam.

    `device` is what `machine` takes, `way` a key of `calibrate.WAYS`. Raise `ParameterError` for what is not known,
    `NotEnoughMemoryError` for a batch that the device cannot hold.
    """
    found = machine(device)
    asked = _work(model, batch, way)
    if found.memory_bytes and asked.memory > USABLE * found.memory_bytes:
        raise _too_large(model, batch, found, way)
    return _predicted(asked, found, way)


def _work(model, batch: int, way: str) -> Work:
    if way not in WAYS:
        raise ParameterError(
            f"There is no way of training {way!r} here.", f"Accepted are {', '.join(WAYS)}.", "Correct the way."
        )
    return work.of(model, batch, fused_adam=WAYS[way].fused_adam, dropout=WAYS[way].dropout)


def _predicted(asked: Work, device: Machine, way: str) -> Prediction:
    host = device.hosts[way]
    costs = replace(device.costs, start=host.start)
    each = [costs.seconds(piece) for piece in asked.pieces]
    if way == "resident":  # rows are looked up where they lie
        each.append(costs.seconds(calibrate.rows_of(asked)))
    parts = dict.fromkeys(PARTS, 0.0)
    put_together = host.per_row * asked.batch + host.per_value * asked.input_values
    parts["host"] = host.per_step + host.per_variable * asked.variables + put_together
    parts.update(zip(("launch", "compute", "memory"), map(sum, zip(*each, strict=True)), strict=True))
    if device.link_bytes_per_s and way != "resident":
        copy = COPY + asked.input_values * FLOAT / (LINK * device.link_bytes_per_s)
        hidden = sum(parts.values()) if way == "steps_per_execution" else 0.0  # batches are sent ahead
        parts["transfer"] = max(0.0, copy - hidden)
    # Errors of single operations partly cancel in a sum; what changes the speed of the whole machine does not.
    squares = sum(part.total**2 for part in each) / sum(parts.values()) ** 2
    guessed = UNKNOWN_SPREAD if asked.unknown else 0.0
    spread = math.hypot(device.spread_all, device.spread_each * math.sqrt(squares), guessed)
    return Prediction(asked.name, device.name, way, asked.batch, parts, spread, asked.unknown, bool(device.place))


def largest_batch(model, device, way: str = "fit") -> int:
    """Return the largest batch that the device can hold, at most `LARGEST_BATCH`; 0 where not even one example fits."""
    found = machine(device)
    one, two = (_work(model, batch, way).memory for batch in (1, 2))
    if not found.memory_bytes:
        return LARGEST_BATCH
    left = USABLE * found.memory_bytes - (2 * one - two)  # memory grows with the batch along a straight line
    return max(0, min(LARGEST_BATCH, int(left / (two - one))))


def _too_large(model, batch: int, device: Machine, way: str) -> NotEnoughMemoryError:
    most = largest_batch(model, device, way)
    wanted = _work(model, batch, way).memory
    return NotEnoughMemoryError(
        f"{model.name} at batch {batch:,} needs about {wanted / 2**30:.1f} GB; "
        f"{device.name} has {device.memory_bytes / 2**30:.1f} GB.",
        f"The largest batch that fits is {'at least' if most == LARGEST_BATCH else 'about'} {most:,}."
        if most
        else "Not even one example fits.",
        "Take a smaller batch." if most else "Take a device with more memory, or a smaller network.",
    )


@dataclass(frozen=True)
class Comparison:
    """How much faster one device is predicted to be than another, for one batch."""

    a: Prediction
    b: Prediction

    @property
    def ratio(self) -> float:
        """How many times faster b is."""
        return self.a.seconds / self.b.seconds

    @property
    def interval(self) -> tuple[float, float]:
        """Where four of five measured ratios should lie.

        Two devices of the catalogue share what is wrong with their constants, so their ratio is known better.
        """
        both = math.hypot(self.a.spread, self.b.spread)
        looked_up = not (self.a.is_here or self.b.is_here)
        width = WIDTH * (min(both, datasheet.spread("ratio")) if looked_up else both)
        return self.ratio * math.exp(-width), self.ratio * math.exp(width)

    @property
    def winner(self) -> str | None:
        """The name of the faster device; None where the interval holds 1."""
        low, high = self.interval
        return self.b.device if low > 1 else self.a.device if high < 1 else None


def compare(model, batch: int, a, b, way: str = "fit", way_b: str | None = None) -> Comparison:
    """Return how much faster `b` is predicted to be than `a`."""
    return Comparison(step_time(model, batch, a, way), step_time(model, batch, b, way_b or way))


@dataclass(frozen=True)
class Crossover:
    """The batch size from which b is faster than a."""

    a: str
    b: str
    batch: float | None  # None: see `word`
    low: float | None  # b may be faster from here on; None: it may never be
    high: float | None  # b is surely faster from here on; None: that cannot be said of any batch
    largest: int  # that was looked at

    @property
    def word(self) -> str:
        """ "always", "never" (b does not win the largest batches), or "from" the batch on."""
        return "never" if self.batch is None else "always" if self.batch <= 1 else "from"


def crossover(model, a, b, way: str = "fit", way_b: str | None = None) -> Crossover:
    """Return the batch size from which `b` is predicted to be faster than `a`, up to what both can hold."""
    a, b, way_b = machine(a), machine(b), way_b or way
    sides = [(largest_batch(model, device, each), device, each) for device, each in ((a, way), (b, way_b))]
    most, device, each = min(sides, key=lambda side: side[0])
    if not most:
        raise _too_large(model, 1, device, each)
    curve = [
        (
            batch,
            Comparison(_predicted(_work(model, batch, way), a, way), _predicted(_work(model, batch, way_b), b, way_b)),
        )
        for batch in _batches(most)
    ]
    batch, low, high = (
        first_from([(batch, pair.interval[place] if place is not None else pair.ratio) for batch, pair in curve])
        for place in (None, 1, 0)
    )
    return Crossover(a.name, b.name, batch, low, high, most)


def _batches(most: int) -> Iterator[int]:
    batch = 1
    while batch < most:
        yield batch
        batch *= 2
    yield most


def first_from(curve: Sequence[tuple[int, float]]) -> float | None:
    """Return from which batch on a ratio stays above 1, between the batches of the curve; None if it never does.

    `curve` holds (batch, ratio), in the order of the batches.
    """
    above = None
    for (batch, ratio), later in zip(reversed(curve), [None, *reversed(curve)], strict=False):
        if ratio <= 1:
            if later is None:
                return None
            share = math.log(1 / ratio) / math.log(later[1] / ratio)
            return batch * (later[0] / batch) ** share
        above = batch
    return above


def operation_time(piece: Piece, device) -> Prediction:
    """Return the predicted time of one operation alone, a product of two matrices for example."""
    found = machine(device)
    costs = replace(found.costs, start=found.hosts["resident"].start)
    parts = {
        **dict.fromkeys(PARTS, 0.0),
        **dict(zip(("launch", "compute", "memory"), costs.seconds(piece), strict=True)),
    }
    spread = math.hypot(found.spread_all, found.spread_each)
    return Prediction(piece.kind, found.name, "once", 1, parts, spread, (), bool(found.place))


def by_layer(model, batch: int, device, way: str = "fit") -> list[tuple[str, str, float]]:
    """Return (name, kind, seconds) of each layer, forward and back, and of the rest of the step."""
    found = machine(device)
    asked = _work(model, batch, way)
    costs = replace(found.costs, start=found.hosts[way].start)
    rows = [(layer.name, layer.kind, costs.total(layer.forward + layer.back).total) for layer in asked.layers]
    whole = _predicted(asked, found, way)
    rows.append(("loss and optimizer", "", costs.total(asked.rest).total))
    rows.append(("host and data", "", whole.seconds - sum(seconds for *_, seconds in rows)))
    return rows
