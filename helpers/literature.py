"""Published measurements on machines that are not here, and what the cost model says of them.

`literature.toml` holds what was measured and where it was published; here its workloads are built again.
"""

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from helpers import datasheet, hardware, pieces, work
from helpers.hardware import Hardware
from helpers.pieces import Piece

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("literature.toml")
VGG16 = [
    *(f"conv {filters} 3x3 same relu" if filters else "pool 2" for filters in
      (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)),
    "flatten", "dense 4096 relu", "dense 4096 relu", "dense 1000 softmax",
]  # fmt: skip
# How software starts operations ("session": TensorFlow 1), what a step of fit adds, and whether an optimizer is one
# operation for each variable or a dozen.
SOFTWARE = {
    "keras1": ("_session", "step_keras_1", "row_keras_1", False),
    "tf1": ("_session", None, None, True),
    "tfkeras": ("", "step_keras_2", None, True),
    "torch": ("", None, None, True),
}
VALIDATION = 0.5  # Python's share of a step of fit that a step of validation takes: no optimizer, no loop of its own


@dataclass(frozen=True)
class Figure:
    """One published time."""

    report: str
    source: str
    what: str  # which of the report's figures
    device: Hardware
    host: str  # key of the CPU beside a GPU; "" where it was not named
    measured: float  # seconds
    dtype: str
    flop_per_cycle: float  # that the CPU's build could use; 0: all
    era: str
    batch: int
    train: tuple[Piece, ...]  # of one step
    look: tuple[Piece, ...]  # of one step of validation
    steps: int  # 0: one call, without Python around it
    looks: int  # steps of validation
    begins: bool  # the start of the session is inside

    def predicted(self, constants: Mapping[str, float]) -> float:
        """Return the seconds that the cost model expects with these constants."""
        start, step, row, _ = SOFTWARE[self.era]
        costs = datasheet.costs(
            self.device,
            constants[f"start_{self.device.kind}{start}"],
            dtype=self.dtype,
            flop_per_cycle=self.flop_per_cycle,
            using=constants,
        )
        seconds = costs.total(self.train).total
        if not self.steps:
            return seconds
        python = constants[step]
        seconds += python + (constants[row] * self.batch if row else 0.0)
        looked = VALIDATION * python + costs.total(self.look).total if self.looks else 0.0
        begin = constants[f"begin_{self.device.kind}"] if self.begins else 0.0
        return begin + self.steps * seconds + self.looks * looked


@cache
def figures() -> tuple[Figure, ...]:
    """Return all figures whose device is in the catalogue. Building their networks takes a few seconds."""
    reports = tomllib.loads(FILE.read_text(encoding="utf-8"))["report"]
    return tuple(
        _figure(report, figure)
        for report in reports
        for figure in report["figures"]
        if figure["device"] in hardware.known()
    )


def sources() -> list[str]:
    """Return the sources of the figures, in the order of the file."""
    return list(dict.fromkeys(figure.source for figure in figures()))


def again(report: str, batch: int) -> list[Figure]:
    """Return the figures of a report as they would be with another batch size; their times were not published."""
    reports = tomllib.loads(FILE.read_text(encoding="utf-8"))["report"]
    (found,) = (each for each in reports if each["id"] == report)
    return [_figure({**found, "batch": batch}, {**figure, "seconds": math.nan}) for figure in found["figures"]]


def _figure(report: Mapping, figure: Mapping) -> Figure:
    both = {**report, **figure}
    trained = report["kind"] in ("fit", "fit_filters")
    batch, look_batch = both.get("batch", 1), both.get("val_batch", both.get("batch", 1))
    train, look = _pieces(both, batch), ()
    if trained and report["val_samples"]:
        look = tuple(piece for layer in work.of(_network(both), look_batch).layers for piece in layer.forward)
    times = report.get("epochs", 1) if figure.get("per") == "total" else 1
    return Figure(
        report=report["id"],
        source=report["publisher"],
        what=", ".join(f"{name} {both[name]}" for name in ("batch", "filters", "dtype", "build") if name in figure),
        device=hardware.known()[figure["device"]],
        host=figure.get("host", ""),
        measured=figure["seconds"],
        dtype=figure.get("dtype", "float32"),
        flop_per_cycle=both["simd"],
        era=report["era"],
        batch=batch,
        train=train,
        look=look,
        steps=times * math.ceil(report["samples"] / batch) if trained else 0,
        looks=times * math.ceil(report["val_samples"] / look_batch) if trained else 0,
        begins=bool(both.get("begins", figure.get("per") == "total")),
    )


def _pieces(report: Mapping, batch: int) -> tuple[Piece, ...]:
    if report["kind"] in ("matmul", "linear"):
        return (pieces.product(*report["mkn"]),)
    if report["kind"] == "reduce":
        return (pieces.stream(report["elements"], 1, kind="sum"),)
    if report["kind"] == "vgg16":
        found = work.of(_network(report), batch)
        back = report["mode"] == "train"
        return tuple(p for layer in found.layers for p in (layer.forward + layer.back if back else layer.forward))
    fused = SOFTWARE[report["era"]][-1]
    return tuple(work.of(_network(report), batch, optimizer=_OPTIMIZER[report["optimizer"]], fused_adam=fused).pieces)


_OPTIMIZER = {name.lower(): name for name in work.OPTIMIZERS}


def _network(report: Mapping):
    if report["kind"] == "vgg16":
        shape, layers = (224, 224, 3), VGG16
    elif report["kind"] == "fit_filters":
        convolution = f"conv {report['filters']} 3x3 same relu"
        shape = report["input"]
        layers = [convolution, convolution, "flatten", "dense 100 relu", "dense 100 relu", "dense 10 softmax"]
    else:
        shape, layers = report["input"], report["layers"]
    return _built(tuple(shape), tuple(layers))


@lru_cache(maxsize=1)  # figures of one network stand together, and VGG16 is large
def _built(shape: tuple[int, ...], layers: tuple[str, ...]):
    import keras

    return keras.Sequential([keras.Input(shape), *map(_layer, layers)])


def _layer(text: str):
    """Return the Keras layer that a few words describe: "conv 32 3x3 same relu", "dense 10 softmax", "pool 2".

    All weights are 0: to draw those of VGG16 at random would take seconds.
    """
    from keras import layers

    kind, *rest = text.split()
    if kind == "conv":
        filters, window, padding, *activation = rest
        return layers.Conv2D(
            int(filters),
            tuple(map(int, window.split("x"))),
            padding=padding,
            activation=_or(activation),
            kernel_initializer="zeros",
        )
    if kind == "dense":
        units, *activation = rest
        return layers.Dense(int(units), activation=_or(activation), kernel_initializer="zeros")
    return {
        "bn": layers.BatchNormalization,
        "pool": lambda: layers.MaxPooling2D(int(rest[0])),
        "dropout": lambda: layers.Dropout(0.25),
        "flatten": layers.Flatten,
    }[kind]()


def _or(activation: list[str]) -> str | None:
    return activation[0] if activation else None


def within_two(ratios: Iterable[float]) -> float:
    """Return the share of ratios between a half and two."""
    ratios = list(ratios)
    return sum(0.5 <= ratio <= 2 for ratio in ratios) / len(ratios)


def blind() -> list[tuple[Figure, float]]:
    """Return every figure with its prediction, by constants that were fitted without its source."""
    return [(figure, figure.predicted(datasheet.constants(figure.source))) for figure in figures()]


def pairs(predictions: Iterable[tuple[Figure, float]]) -> list[tuple[Figure, Figure, float, float]]:
    """Return (GPU, its CPU, measured and predicted times faster) wherever a report has both."""
    predictions = list(predictions)
    return [
        (gpu, cpu, cpu.measured / gpu.measured, cpu_expected / expected)
        for gpu, expected in predictions
        for cpu, cpu_expected in predictions
        if gpu.device.kind == "gpu" and (cpu.device.key, cpu.report, cpu.batch) == (gpu.host, gpu.report, gpu.batch)
    ]
