"""Measure the constants of a device: what operations of every kind and size cost there, and each way of training.

The single operations are those of `probes`. What surrounds them is measured by training stacks of tiny layers,
where there is next to nothing to compute: two depths tell what starting an operation costs, two numbers of steps
what an epoch costs. Everything is kept as a record, and the constants are computed from what the record holds.
"""

import json
import logging
import math
import statistics
from collections.abc import Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace

from helpers import costs, datasheet, devices, probes, results, timing, training, ways, work
from helpers.costs import Costs, Curve
from helpers.examples import Dataset
from helpers.parameters import PROJECT
from helpers.pieces import KINDS, Piece, stream
from helpers.tasks import Task

EXPERIMENT = "calibration"
WAYS = {"fit": ways.fit, "steps_per_execution": ways.fit_many_steps, "resident": ways.resident}
WIDTH = 4  # of a tiny layer
SHALLOW, DEEP = 2, 16  # layers
FEW, MANY = 20, 80  # steps of an epoch
ROWS, FEATURES = 8, 4  # of a tiny batch
QUARTILES_APART = 1.349  # standard deviations of a normal distribution
LEAST = 5e-7  # seconds of an operation beyond its start: less cannot be told from nothing
MORE_ROWS, MORE_FEATURES = 2048, 256  # of a batch with much in each row
MOST_ROWS = 20_000  # of a batch with little in each row
# (layers, steps, rows) of each tiny training; 0 layers: `wide`.
TINY = (
    (SHALLOW, FEW, ROWS),
    (DEEP, FEW, ROWS),
    (SHALLOW, MANY, ROWS),
    (SHALLOW, FEW, MOST_ROWS),
    (0, FEW, MORE_ROWS),
)


@dataclass(frozen=True)
class Host:
    """What a way of training costs besides the operations of its steps, in seconds."""

    start: float  # of one operation within it
    per_step: float
    per_variable: float  # of a step, for each variable that it is given
    per_epoch: float
    per_row: float  # of the batch that is put together
    per_value: float  # in its rows


@dataclass(frozen=True)
class Calibration:
    """The constants of one device."""

    name: str  # of the hardware
    place: str  # as TensorFlow numbers it: "CPU:0"
    kind: str  # "CPU" or "GPU"
    costs: Costs
    hosts: Mapping[str, Host]  # by the name of a way: see WAYS
    memory_bytes: int | None
    spread_each: float  # of one operation: standard deviation of the logarithm of predicted over measured
    spread_all: float  # of all together, since the machine is not always equally fast
    operations: tuple[tuple[Piece, float], ...]  # as measured: seconds beyond those of the smallest of its kind


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


@contextmanager
def many_trainings():
    """Keep TensorFlow from warning: it takes the functions of many models for one that is traced ever again."""
    logger = devices.load_tensorflow().get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


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
    with many_trainings():
        surroundings = _surroundings(device, rounds)
    for (way, depth, steps, rows), epochs in surroundings.items():
        record.add(f"{way}, {depth} layers", epochs, way=way, depth=depth, steps=steps, rows=rows)
    return read(record.content)


def _surroundings(device, rounds: int) -> dict[tuple, timing.Measurement]:
    """Return the seconds of an epoch of tiny trainings, by (way, depth, steps, rows); depth 0 is `wide`."""
    runs = {}
    for name, way in WAYS.items():
        for depth, steps, rows in TINY:
            model, features = (partial(stack, depth), FEATURES) if depth else (wide, MORE_FEATURES)
            task = _task(model, steps * rows, features)
            runs[name, depth, steps, rows] = way.start(task, batch_size=rows, device=device)
    return {key: training.epochs for key, training in training.in_turn(runs, epochs=rounds + 1).items()}


@cache
def reference() -> Calibration:
    """Return the calibration that is shipped with the course."""
    (path,) = (PROJECT / "results" / "reference").glob(f"{EXPERIMENT}--CPU*.json")
    return read(json.loads(path.read_text(encoding="utf-8")))


def read(content: Mapping) -> Calibration:
    """Compute the constants from a record of `measure`."""
    operations, surroundings = [], {}
    for row in content["measurements"]:
        median = statistics.median(row["values"])
        if "piece" in row:
            operations.append((Piece(row["piece"], 1, row["flop"], tuple(row["sizes"])), median))
        else:
            surroundings[row["way"], row["depth"], row["steps"], row["rows"]] = median
    on_gpu = content["device"]["kind"] == "GPU"
    _require_all(operations, surroundings)
    kinds = _kinds(operations, on_gpu)
    plain = Costs(0.0, kinds, overlap=on_gpu, turn=datasheet.TURN if on_gpu else None)
    hosts = _hosts(surroundings, plain)
    memory = content["machine"]["memory_bytes"] if content["device"]["kind"] == "CPU" else None
    device = content["device"]
    spreads = _spread_each(operations, plain), _unsteadiness(content["measurements"])
    beyond_start = tuple(row for kind in KINDS for row in _of_kind(operations, kind, on_gpu))
    return Calibration(device["name"], device["used"], device["kind"], plain, hosts, memory, *spreads, beyond_start)


def _require_all(operations: list[tuple[Piece, float]], surroundings: Mapping[tuple, float]) -> None:
    """Raise `ValueError` for a record that was cut off, or comes from another version of the course."""
    sizes = {kind: len(names.split(",")) for kind, names in KINDS.items()}
    wrong = {piece.kind for piece, _ in operations if sizes.get(piece.kind) != len(piece.sizes)}
    lacks = set(KINDS) - {"loop"} - {piece.kind for piece, _ in operations}
    trained = {(way, *shape) for way in WAYS for shape in TINY}
    if wrong or lacks or set(surroundings) != trained:
        raise ValueError(f"it is not complete: {', '.join(sorted(wrong | lacks)) or 'tiny trainings'}")


def _kinds(operations: list[tuple[Piece, float]], on_gpu: bool) -> dict[str, costs.Formula | Curve]:
    """Return what each kind of piece costs, without what TensorFlow needs to start an operation from Python."""
    by_kind = {kind: _of_kind(operations, kind, on_gpu) for kind in KINDS}
    fresh = _fresh(by_kind["stream"])
    usual = {kind: [row for row in rows if row[0].result <= costs.FRESH] for kind, rows in by_kind.items() if rows}
    found = {kind: costs.fit_formula(rows, per_fresh=fresh) for kind, rows in usual.items() if "product" in kind}
    least = found["product"].per_flop  # a convolution is at best a product of the same size
    found |= {kind: costs.fit_formula(rows, least, fresh) for kind, rows in usual.items() if "convolution" in kind}
    for kind in usual.keys() - found.keys():
        values, seconds = zip(*((sum(piece.sizes), seconds) for piece, seconds in usual[kind]), strict=True)
        found[kind] = Curve(values, seconds, fresh)
    return {**found, "loop": costs.Formula(0.0, 0.0, (0.0, 0.0))}


def _of_kind(operations: list[tuple[Piece, float]], kind: str, on_gpu: bool) -> list[tuple[Piece, float]]:
    """Return the rows of a kind in order of size, without the smallest, and without the seconds that it takes.

    On a GPU the next operation is started while one runs, so there a time is the longer of both, and not their sum.
    """
    rows = [row for row in operations if row[0].kind == kind]
    if not rows:
        return []
    (_, started), *others = sorted(rows, key=lambda row: (row[0].flop, sum(row[0].sizes)))
    if on_gpu:
        return [(piece, seconds if seconds > 1.5 * started else LEAST) for piece, seconds in others]
    return [(piece, max(seconds - started, LEAST)) for piece, seconds in others]


def _fresh(streams: list[tuple[Piece, float]]) -> float:
    """Return the seconds per value by which fresh memory makes a result slower; 0 where it does not."""
    rate = {piece.result > costs.FRESH: seconds / piece.result for piece, seconds in streams}  # the largest of both
    return max(0.0, rate[True] - rate[False])


def _spread_each(operations: list[tuple[Piece, float]], plain: Costs) -> float:
    """Return how far the formulas are from what they were fitted to: a standard deviation that 4 of 5 agree with."""
    kinds = [kind for kind in KINDS if "product" in kind or "convolution" in kind]
    rows = [row for kind in kinds for row in _of_kind(operations, kind, plain.overlap)]
    errors = sorted(abs(math.log(plain.seconds(piece).total / seconds)) for piece, seconds in rows)
    return errors[math.ceil(0.8 * len(errors)) - 1] / statistics.NormalDist().inv_cdf(0.9)


def _unsteadiness(rows: Iterable[Mapping]) -> float:
    """Return by how much the same work varied, as a standard deviation of the logarithm: the middle one of all rows."""
    halves = [(timing.quartiles(row["values"]), statistics.median(row["values"])) for row in rows]
    return statistics.median((high - low) / middle for (low, high), middle in halves) / QUARTILES_APART


def rows_of(asked: work.Work) -> Piece:
    """Return the piece by which the resident way looks up the rows of a batch."""
    return stream(asked.input_values, asked.input_values, kind="rows")


def _hosts(epochs: Mapping[tuple, float], plain: Costs) -> dict[str, Host]:
    """Return what surrounds the operations, by way.

    What an operation costs in a graph is told by the ways without Python between the steps. What more a deep network
    costs `fit`, goes with its variables, which Python hands over in every step.
    """
    hosts = {way: _host(way, epochs, plain) for way in WAYS if way != "fit"}
    return {"fit": _host("fit", epochs, plain, hosts["steps_per_execution"].start), **hosts}


def _host(way: str, epochs: Mapping[tuple, float], plain: Costs, start: float | None = None) -> Host:
    """Solve for all tiny trainings: epoch = per epoch + steps × (per step + number × each + rows × per row + …).

    The number is that of operations where `start` is to be found, and that of variables where it is known.
    """
    import numpy as np
    from scipy.optimize import nnls

    features, rest = [], []
    for (of_way, depth, steps, rows), seconds in epochs.items():
        if of_way != way:
            continue
        model = wide() if depth == 0 else stack(depth)
        asked = work.of(model, rows, fused_adam=WAYS[way].fused_adam)
        number = asked.starts if start is None else asked.variables
        features.append([1, steps, steps * number, steps * rows, steps * asked.input_values])
        pieces = [*asked.pieces, *([rows_of(asked)] if way == "resident" else [])]
        known = replace(plain, start=start or 0.0).total(pieces).total
        rest.append(max(0.0, seconds - steps * known) / seconds)
    scale = np.array(features).max(axis=0) / np.median(list(epochs.values()))
    relative = np.array(features) / scale / [[s] for key, s in epochs.items() if key[0] == way]
    per_epoch, per_step, each, per_row, per_value = map(float, nnls(relative, rest)[0] / scale)
    if start is None:
        return Host(max(LEAST, each), per_step, 0.0, per_epoch, per_row, per_value)
    return Host(start, per_step, each, per_epoch, per_row, per_value)
