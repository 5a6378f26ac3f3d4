"""Measure what was predicted, and say how far off the predictions were."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from helpers import predict, workloads
from helpers.calibrate import WAYS
from helpers.predict import Machine, Prediction

SHORTEST = 0.3  # seconds that an epoch should take, so that its beginning matters little
MOST_STEPS, FEWEST_STEPS = 100, 2


@dataclass(frozen=True)
class Trial:
    """One prediction, and what was measured."""

    title: str  # of the network
    prediction: Prediction
    beginning: float  # seconds that each step has to carry of what it takes to begin an epoch
    measured: float  # seconds of an epoch, divided by its steps: the median of several epochs

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


def steps_for(expected: float) -> int:
    """Return how many steps an epoch should have, when one is expected to take so many seconds."""
    return max(FEWEST_STEPS, min(MOST_STEPS, math.ceil(SHORTEST / expected)))


def trials(
    names: Iterable[str],
    batches: Iterable[int],
    machine: Machine,
    *,
    ways: Iterable[str] = tuple(WAYS),
    epochs: int = 4,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Trial]:
    """Yield predicted and measured steps of the course's networks on a machine that is here, the ways in turn.

    The prediction is made first. Batches that would not fit in memory are left out.
    """
    device = machine.place
    for name in names:
        workload = workloads.find(name)
        model = workload.task(1).model()
        for batch in batches:
            if batch > predict.largest_batch(model, machine):
                continue
            tell(f"{workload.title}, batch {batch}")
            expected = {way: predict.step_time(model, batch, machine, way) for way in ways}
            steps = steps_for(max(found.seconds for found in expected.values()))
            task = replace(workload.task(steps * batch), test=None)
            runs = {way: WAYS[way].start(task, batch_size=batch, device=device) for way in ways}
            for run in runs.values():
                run.epoch()  # traces, compiles, makes its data
            for _ in range(epochs - 1):
                for run in runs.values():
                    run.epoch()
            for way, run in runs.items():
                beginning = machine.hosts[way].per_epoch / steps
                yield Trial(workload.title, expected[way], beginning, statistics.median(run.seconds[1:]) / steps)
