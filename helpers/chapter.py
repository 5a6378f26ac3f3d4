"""The chapter's experiment: three networks, 15 epochs each, in seconds; written to records, and made a table again.

Times are in seconds.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.comparing import median_interval
from helpers.published import CIFAR10, MNIST
from helpers.results import Record
from helpers.timing import format_seconds
from helpers.training import Training

EPOCHS = 15
# network: (batch size, pictures to train with, pictures to validate with), as in the chapter
NETWORKS = {
    "mnist_mlp": (100, len(MNIST.train), len(MNIST.validation)),
    "mnist_cnn": (100, len(MNIST.train), len(MNIST.validation)),
    "cifar_cnn": (128, len(CIFAR10.train), len(CIFAR10.validation)),
}


@dataclass(frozen=True)
class Whole:
    """The time of 15 epochs with all pictures, validation after each included."""

    seconds: float
    low: float
    high: float  # the median epoch lies between these with 84 %; equal where all 15 epochs were trained
    note: str  # "" for the chapter's experiment, else what it was calculated from, or how it differs

    def __str__(self) -> str:
        shown = format_seconds(self.seconds, self.high - self.low)
        if self.low == self.high:
            return f"{shown} ({self.note})" if self.note else shown
        low, high = (format_seconds(edge, self.high - self.low) for edge in (self.low, self.high))
        return f"{shown} ({low} to {high}; {self.note})"


@dataclass(frozen=True)
class Part:
    """What was measured of a training or of its validation: the first epoch apart, and how many examples each had."""

    first: float
    values: Sequence[float]
    examples: int

    def scaled(self, examples: int) -> tuple[float, float, float]:
        """Return the seconds of 15 epochs with so many examples, and their limits.

        The first epoch takes longer, because it traces, but that happens once whatever the number of examples.
        """
        middle, (low, high) = statistics.median(self.values), median_interval(self.values)
        factor, extra = EPOCHS * examples / self.examples, max(0.0, self.first - middle)
        return extra + middle * factor, extra + low * factor, extra + high * factor


def whole(network: str, batch_size: int, training: Part, validation: Part) -> Whole:
    """Return the time of the chapter's 15 epochs of a network, measured or scaled up from what was measured."""
    batch, examples, looks = NETWORKS[network]
    notes = [] if batch_size == batch else [f"batches of {batch_size:,}"]
    epochs = len(training.values) + 1
    if (epochs, training.examples, validation.examples) == (EPOCHS, examples, looks):
        seconds = math.fsum([training.first, *training.values, validation.first, *validation.values])
        return Whole(seconds, seconds, seconds, ", ".join(notes))
    parts = zip(training.scaled(examples), validation.scaled(looks), strict=True)
    notes.insert(0, f"from {epochs} epochs of {training.examples:,} pictures")
    return Whole(*map(sum, parts), ", ".join(notes))


def whole_of(network: str, trained: Training) -> Whole:
    """Return the time of 15 epochs that a training stands for."""
    parts = ((trained.epochs, trained.examples), (trained.validation, trained.looks))
    return whole(network, trained.batch_size, *(Part(found.first, found.values, count) for found, count in parts))


def add(record: Record, version: str, trained: Training) -> None:
    """Add the epochs of a training to a record, and its looks at the validation pictures.

    `version` says which training it was: that of the table is "chapter".
    """
    switches = {name: trained.flags[name] for name in ("jit_compile", "dtype")}
    varied = {"version": version, "way": trained.way, "batch_size": trained.batch_size, **switches}
    varied["test_accuracy"] = trained.final["accuracy"]
    record.add("epoch", trained.epochs, examples=trained.examples, steps=trained.steps, **varied)
    record.add("validation", trained.validation, examples=trained.looks, **varied)
    if version == "chapter":
        record.finish(trained.final["accuracy"], trained.final["loss"])
