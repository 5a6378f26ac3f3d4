"""Measure the constants of a device: what operations of every kind and size cost there, and each way of training.

The single operations are those of `probes`. What surrounds them is measured by training stacks of tiny layers,
where there is next to nothing to compute: two depths tell what starting an operation costs, two numbers of steps
what an epoch costs. Everything is kept as a record, and the constants are computed from what the record holds.
"""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace

from helpers import costs, devices, probes, results, timing, training, ways, work
from helpers.costs import Costs, Curve
from helpers.examples import Dataset
from helpers.pieces import KINDS, Piece
from helpers.tasks import Task

EXPERIMENT = "calibration"
WAYS = {"fit": ways.fit, "steps_per_execution": ways.fit_many_steps, "resident": ways.resident}
WIDTH = 4  # of a tiny layer
SHALLOW, DEEP = 2, 16  # layers
FEW, MANY = 20, 80  # steps of an epoch
ROWS, FEATURES = 8, 4  # of a tiny batch
LEAST = 5e-7  # seconds of an operation beyond its start: less cannot be told from nothing
MORE_ROWS, MORE_FEATURES = 2048, 256  # of a batch that has to be put together


@dataclass(frozen=True)
class Host:
    """What a way of training costs besides the operations of its steps, in seconds."""

    start: float  # of one operation within it
    per_step: float
    per_epoch: float
    per_value: float  # of the batch that is put together


@dataclass(frozen=True)
class Calibration:
    """The constants of one device."""

    device: str  # as TensorFlow names the hardware
    kind: str  # "CPU" or "GPU"
    costs: Costs
    hosts: Mapping[str, Host]  # by the name of a way: see WAYS
    memory_bytes: int | None


def stack(depth: int):
    """Return a network of tiny layers: the deeper, the more operations, with nothing to compute."""
    import keras

    layers = [keras.layers.Dense(WIDTH, activation="relu") for _ in range(depth - 1)]
    return keras.Sequential([keras.Input((FEATURES,)), *layers, keras.layers.Dense(1)], name=f"stack_{depth}")


def wide():
    """Return a network of one neuron with many inputs."""
    import keras

    return keras.Sequential([keras.Input((MORE_FEATURES,)), keras.layers.Dense(1)], name="wide")


def _task(model, rows: int, features: int) -> Task:
    import numpy as np

    draw = np.random.default_rng(0)
    x, y = draw.random((rows, features), "float32"), draw.integers(0, 2, (rows, 1)).astype("float32")
    data = Dataset("random numbers", x, y, "made here")
    return Task(data, model, "mean_squared_error", 1e-3, ("mean_squared_error",))


def measure(settings: SimpleNamespace, device="CPU:0", *, seconds: float = 0.25, rounds: int = 5) -> Calibration:
    """Calibrate a device, store the record in `settings.results_dir`, and return the constants; about a minute.

    `seconds` limits each single operation, `rounds` the epochs of each tiny training.
    """
    device = devices.find(device)
    operations = probes.of(device)
    calls = {probe.label: probe.call for probe in operations}
    found = timing.in_turn(calls, device, seconds=seconds)
    record = results.start(EXPERIMENT, device, settings, flags={"jit_compile": False, "dtype": "float32"})
    for probe in operations:
        piece = probe.piece
        record.add(probe.label, found[probe.label], piece=piece.kind, flop=piece.flop, sizes=list(piece.sizes))
    for (way, depth, steps, rows), epochs in _surroundings(device, rounds).items():
        record.add(f"{way}, {depth} layers", epochs, way=way, depth=depth, steps=steps, rows=rows)
    return read(record.content)


def _surroundings(device, rounds: int) -> dict[tuple, timing.Measurement]:
    """Return the seconds of an epoch of tiny trainings, by (way, depth, steps, rows); depth 0 is `wide`."""
    runs = {}
    for name, way in WAYS.items():
        for depth, steps in ((SHALLOW, FEW), (DEEP, FEW), (SHALLOW, MANY)):
            task = _task(lambda depth=depth: stack(depth), steps * ROWS, FEATURES)
            runs[name, depth, steps, ROWS] = way.start(task, batch_size=ROWS, device=device)
        task = _task(wide, FEW * MORE_ROWS, MORE_FEATURES)
        runs[name, 0, FEW, MORE_ROWS] = way.start(task, batch_size=MORE_ROWS, device=device)
    return {key: training.epochs for key, training in training.in_turn(runs, epochs=rounds + 1).items()}


def read(content: Mapping) -> Calibration:
    """Compute the constants from a record of `measure`."""
    operations, surroundings = [], {}
    for row in content["measurements"]:
        median = statistics.median(row["values"])
        if "piece" in row:
            operations.append((Piece(row["piece"], 1, row["flop"], tuple(row["sizes"])), median))
        else:
            surroundings[row["way"], row["depth"], row["steps"], row["rows"]] = median
    kinds = _kinds(operations)
    plain = Costs(0.0, kinds, overlap=content["device"]["kind"] == "GPU")
    hosts = {way: _host(way, surroundings, plain) for way in WAYS}
    memory = content["machine"]["memory_bytes"] if content["device"]["kind"] == "CPU" else None
    return Calibration(content["device"]["name"], content["device"]["kind"], plain, hosts, memory)


def _kinds(operations: list[tuple[Piece, float]]) -> dict[str, costs.Formula | Curve]:
    """Return what each kind of piece costs, without what TensorFlow needs to start an operation from Python."""
    by_kind = {kind: _beyond_start([row for row in operations if row[0].kind == kind]) for kind in KINDS}
    fresh = _fresh(by_kind["stream"])
    usual = {kind: [row for row in rows if row[0].result <= costs.FRESH] for kind, rows in by_kind.items() if rows}
    found = {kind: costs.fit_formula(rows, per_fresh=fresh) for kind, rows in usual.items() if "product" in kind}
    least = found["product"].per_flop  # a convolution is at best a product of the same size
    found |= {kind: costs.fit_formula(rows, least, fresh) for kind, rows in usual.items() if "convolution" in kind}
    for kind in usual.keys() - found.keys():
        values, seconds = zip(*((sum(piece.sizes), seconds) for piece, seconds in usual[kind]), strict=True)
        found[kind] = Curve(values, seconds, fresh)
    return {**found, "loop": costs.Formula(0.0, 0.0, (0.0,))}


def _beyond_start(rows: list[tuple[Piece, float]]) -> list[tuple[Piece, float]]:
    """Return the rows in order of size, without the smallest, and without the seconds that it takes."""
    if not rows:
        return []
    (_, started), *others = sorted(rows, key=lambda row: (row[0].flop, sum(row[0].sizes)))
    return [(piece, max(seconds - started, LEAST)) for piece, seconds in others]


def _fresh(streams: list[tuple[Piece, float]]) -> float:
    """Return the seconds per value by which fresh memory makes a result slower; 0 where it does not."""
    rate = {piece.result > costs.FRESH: seconds / piece.result for piece, seconds in streams}  # the largest of both
    return max(0.0, rate[True] - rate[False])


def _host(way: str, surroundings: Mapping, plain: Costs) -> Host:
    """Solve: epoch = per epoch + steps × (per step + operations × start + values × per value)."""

    def of(depth: int, steps: int, rows: int):
        model = wide() if depth == 0 else stack(depth)
        return work.of(model, rows, fused_adam=WAYS[way].fused_adam), surroundings[way, depth, steps, rows]

    (shallow, few), (deep, few_deep) = of(SHALLOW, FEW, ROWS), of(DEEP, FEW, ROWS)
    broad, few_broad = of(0, FEW, MORE_ROWS)
    many = surroundings[way, SHALLOW, MANY, ROWS]
    step = (many - few) / (MANY - FEW)
    start = max(1e-7, (few_deep - few) / FEW / (deep.starts - shallow.starts))
    per_epoch = max(0.0, few - FEW * step)
    per_step = max(0.0, step - shallow.starts * start)
    rest = (few_broad - per_epoch) / FEW - per_step - broad.starts * start - plain.total(broad.pieces).total
    return Host(start, per_step, per_epoch, max(0.0, rest / broad.input_values))
