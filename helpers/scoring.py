"""Measure what was predicted, and say how far off the predictions were."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple

from helpers import devices, predict, workloads
from helpers.calibrate import WAYS, many_trainings
from helpers.elsewhere import Elsewhere, Request
from helpers.predict import Crossover, Machine, Prediction
from helpers.tasks import Task
from helpers.timing import Measurement
from helpers.training import Run
from helpers.workloads import Workload

SHORTEST = 0.3  # seconds that an epoch should take, so that its beginning matters little
LEAST = 1e-6  # seconds of an epoch beyond its beginning
MOST_STEPS, FEWEST_STEPS = 100, 2


@dataclass(frozen=True)
class Trial:
    """One prediction, and what was measured."""

    title: str  # of the network
    prediction: Prediction
    beginning: float  # seconds that each step has to carry of what it takes to begin an epoch
    measurement: Measurement  # seconds of an epoch, divided by its steps

    @property
    def measured(self) -> float:
        return self.measurement.median

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return (self.prediction.seconds + self.beginning) / self.measured

    @property
    def error(self) -> float:
        """How far the prediction is off, as a share of what was measured."""
        return abs(self.ratio - 1)

    @property
    def is_inside(self) -> bool:
        """Whether the measurement lies in the predicted interval."""
        return self.prediction.low <= self.measured - self.beginning <= self.prediction.high


class Score(NamedTuple):
    """How far many predictions were off."""

    count: int
    median_error: float
    worst_but_a_tenth: float  # the 90th percentile of the errors
    inside: float  # the share of measurements within their interval
    middle_ratio: float


def score(found: Sequence[Trial]) -> Score:
    """Return how far predictions were off, over all of them."""
    errors = sorted(trial.error for trial in found)
    return Score(
        len(found),
        statistics.median(errors),
        errors[math.ceil(0.9 * len(errors)) - 1],
        sum(trial.is_inside for trial in found) / len(found),
        statistics.median(trial.ratio for trial in found),
    )


def trials(
    names: Iterable[str],
    batches: Sequence[int],
    device: Machine,
    *,
    ways: Sequence[str] = tuple(WAYS),
    epochs: int = 4,
) -> Iterator[list[Trial]]:
    """Yield predicted and measured steps, the ways in turn: a list for each network and batch.

    The prediction is made first. A batch that does not fit in the device's memory gives an empty list. `epochs`
    counts the first one, which is not measured.
    """
    for name in names:
        workload = workloads.find(name)
        model = workload.model()
        for batch in batches:
            fits = batch <= min(predict.largest_batch(model, device, way) for way in ways)
            expected = {way: predict.step_time(model, batch, device, way) for way in ways} if fits else {}
            yield _measured(workload, expected, device, epochs) if fits else []


def _steps(seconds: float) -> int:
    """Return how many steps an epoch should have when one is expected to take so long."""
    return max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(SHORTEST / seconds)))


def _measured(workload: Workload, expected: Mapping[str, Prediction], device: Machine, epochs: int) -> list[Trial]:
    longest = max(expected.values(), key=lambda prediction: prediction.seconds)
    batch = longest.batch
    task = replace(workload.task(_steps(longest.seconds) * batch), test=None)
    steps = len(task.data) // batch  # a published set of pictures has only so many
    runs = {way: WAYS[way].start(task, batch_size=batch, device=device.place) for way in expected}
    with many_trainings():
        for _ in range(epochs):
            for run in runs.values():
                run.epoch()
    return [
        Trial(workload.title, expected[way], device.hosts[way].per_epoch / steps, _per_step(run, steps))
        for way, run in runs.items()
    ]


def _per_step(run: Run, steps: int) -> Measurement:
    used = devices.verify(list(run.variables), run.device)
    first, *others = (seconds / steps for seconds in run.seconds)
    return Measurement(run.label, used, first, tuple(others))


class Crossed(NamedTuple):
    """A crossover as predicted and as measured: the batch from which `b` is faster than `a`."""

    title: str
    predicted: Crossover
    measured: float | None  # None: never, within the batches that were measured
    ratios: dict[int, float]  # how many times faster b was, by batch

    @property
    def agrees(self) -> bool:
        """Whether both are within a factor of two, or lie beyond the same end of the measured batches."""
        first, *_, last = self.ratios
        ends = [min(max(batch or math.inf, first), last) for batch in (self.predicted.batch, self.measured)]
        return max(ends) <= 2 * min(ends)


def crossed(name: str, batches: Sequence[int], a: tuple, b: tuple, *, epochs: int = 4) -> Crossed:
    """Predict and measure from which batch `b` is faster than `a`; each is (Machine, way, environment).

    What has an environment, such as `levers.ONE_THREAD`, is trained in a process of its own; both train in turn.
    """
    workload = workloads.find(name)
    model = workload.model()
    expected = predict.crossover(model, a[0], b[0], a[1], b[1])
    ratios = {}
    for batch in batches:
        seconds = min(predict.step_time(model, batch, device, way).seconds for device, way, _ in (a, b))
        task = replace(workload.task(_steps(seconds) * batch), test=None)
        with many_trainings(), ExitStack() as stack:
            runs = [_start(stack, task, batch, *which) for which in (a, b)]
            for _ in range(epochs):
                for run in runs:
                    run.epoch()
        seconds = [
            statistics.median(run.seconds[1:]) - device.hosts[way].per_epoch
            for run, (device, way, _) in zip(runs, (a, b), strict=True)
        ]
        ratios[batch] = max(seconds[0], LEAST) / max(seconds[1], LEAST)
    return Crossed(workload.title, expected, predict.first_from(list(ratios.items())), ratios)


def _start(stack: ExitStack, task: Task, batch: int, device: Machine, way: str, environment: Mapping[str, str]):
    if not environment:
        return WAYS[way].start(task, batch_size=batch, device=device.place)
    return stack.enter_context(Elsewhere(Request(task, WAYS[way], batch, device.place, 0), environment))
