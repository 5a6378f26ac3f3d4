"""Train on one device, several ways in turn, and record the time of every epoch.

The ways themselves are in `ways`. Times are in seconds per epoch.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from helpers import devices, evaluation
from helpers.devices import Device
from helpers.errors import ParameterError, TrainingError
from helpers.examples import is_whole
from helpers.tasks import Task, check, check_batch_size, compiled
from helpers.timing import Measurement, clocked


@dataclass(frozen=True)
class Training:
    """What came of a training. Who waits for what, and how the data is shuffled, depends on the way."""

    way: str
    epochs: Measurement  # seconds per epoch, the first apart; the device is where the weights and the loss lie
    steps: int  # per epoch
    batch_size: int
    examples: int
    history: dict[str, list[float]]  # a mean over the epoch, or what the last batch gives after its step: see `ways`
    final: dict[str, float]  # loss and metrics over the test data, after the last epoch
    flags: dict  # for a record: `jit_compile`, `dtype`, `shuffles`
    validation: Measurement | None = None  # seconds of each look at the validation data
    looks: int = 0  # examples at each of them

    @property
    def step(self) -> Measurement:
        """The times of the epochs, as seconds per step."""
        epochs, label = self.epochs, f"step of {self.batch_size:,}"
        return Measurement(
            label, epochs.device, epochs.first / self.steps, tuple(t / self.steps for t in epochs.values)
        )


@dataclass
class Run:
    """A training under way: `epoch` adds one epoch, `training` returns what came of all so far."""

    label: str
    task: Task
    device: Device
    batch_size: int
    steps: int  # per epoch: a last batch that is not full counts only where the way trains it
    flags: dict
    model: object  # what learns: a Keras model, or what `by_hand` was given
    variables: Sequence
    train_epoch: Callable  # () -> (seconds, {"loss": …})
    evaluate: Callable  # (Dataset) -> {"loss": …}
    seconds: list[float] = field(default_factory=list)
    validation_seconds: list[float] = field(default_factory=list)
    history: dict[str, list[float]] = field(default_factory=dict)

    def epoch(self) -> None:
        """Train for one epoch, or raise `TrainingError` when the loss is no number any more."""
        with _on(self.device):
            seconds, logs = self.train_epoch()
            self._require_numbers(float(logs["loss"]), f"in epoch {len(self.seconds) + 1}")
            if self.task.validation is not None:
                look, found = clocked(lambda: self.evaluate(self.task.validation))
                logs = {**logs, **{f"val_{name}": value for name, value in found.items()}}
                self.validation_seconds.append(look)
        self.seconds.append(seconds)
        for name, value in logs.items():
            self.history.setdefault(name, []).append(float(value))

    def _require_numbers(self, loss: float, when: str) -> None:
        if not math.isfinite(loss):
            self.seconds.clear()
            raise TrainingError(
                f"{self.label}: the loss became {loss} {when}.",
                "Only a training whose loss stays a number counts; its times are not kept.",
                "Take a smaller learning rate, or look for unusual values in the data.",
            )

    def training(self) -> Training:
        """Return what came of at least two epochs."""
        if len(self.seconds) < 2:
            raise TrainingError(
                f"{self.label} was trained for {len(self.seconds)} epochs.",
                "At least 2 are needed: the first is kept apart.",
                "Call epoch() again.",
            )
        with _on(self.device):
            devices.verify(list(self.variables), self.device)
            final = self.evaluate(self.task.data if self.task.test is None else self.task.test)
            used = devices.verify(final, self.device)
        final = {name: float(value) for name, value in final.items()}
        self._require_numbers(final["loss"], "in the end")
        history = {name: list(values) for name, values in self.history.items()}
        looks = _measurement("validation", used, self.validation_seconds) if self.validation_seconds else None
        epochs = _measurement(self.label, used, self.seconds)
        return Training(
            self.label,
            epochs,
            self.steps,
            self.batch_size,
            len(self.task.data),
            history,
            final,
            self.flags,
            looks,
            len(self.task.validation or ()),
        )


def _measurement(label: str, used: Device | None, seconds: Sequence[float]) -> Measurement:
    first, *others = seconds
    return Measurement(label, used, first, tuple(others))


def _on(device: Device):
    return devices.load_tensorflow().device(str(device))


@dataclass(frozen=True)
class Way:
    """A way of training. Call it to train: every way takes the same and returns a `Training`."""

    label: str
    jit_compile: bool
    shuffles: str  # what is in a new order in every epoch: "rows" or "batches"
    rounding: Callable[[float], int]  # what becomes of a last batch that is not full
    prepare: Callable  # (model, task, batch_size, seed) -> a callable that trains one epoch: (seconds, {"loss": …})
    fused_adam: bool = False  # see `fused`
    dropout: str = "keras"  # or "bytes", "none": see `fused`
    dtype_policy: str = "float32"  # Keras' name of it: "mixed_bfloat16", …

    def start(self, task: Task, *, batch_size: int, device="CPU:0", seed: int = 0) -> Run:
        """Return a training that has not begun, for `in_turn`."""
        device = devices.find(device)
        check(task, batch_size, device)
        with _on(device):
            model = compiled(
                task,
                self.jit_compile,
                seed,
                fused_adam=self.fused_adam,
                dropout=self.dropout,
                dtype_policy=self.dtype_policy,
            )
            train_epoch = self.prepare(model, task, int(batch_size), seed)
        return Run(
            label=self.label,
            task=task,
            device=device,
            batch_size=int(batch_size),
            steps=self.rounding(len(task.data) / batch_size),
            flags=self._flags(model, task),
            model=model,
            variables=model.trainable_variables,
            train_epoch=train_epoch,
            evaluate=partial(evaluation.of_keras, model),
        )

    def _flags(self, model, task: Task) -> dict:
        return {
            "jit_compile": self.jit_compile,
            "dtype": model.compute_dtype,
            "shuffles": self.shuffles if task.shuffle else "nothing",
            "fused_adam": self.fused_adam,
            "dropout": self.dropout,
        }

    def __call__(self, task: Task, *, batch_size: int, epochs: int, device="CPU:0", seed: int = 0) -> Training:
        """Train for at least 2 epochs: the first is kept apart."""
        run = self.start(task, batch_size=batch_size, device=device, seed=seed)
        return in_turn({self.label: run}, epochs=epochs)[self.label]


def by_hand(label: str, make: Callable, task: Task, *, batch_size: int, device="CPU:0", seed: int = 0) -> Run:
    """Return a training that has not begun, of a network that was written without Keras' models.

    `make(task, batch_size, seed)` returns it, with `variables`, `outputs(x)`, and `train_epoch()`, which trains
    on all rows once, in a new order, and returns {"loss": …}. It must not use XLA.
    """
    if not task.shuffle:
        raise TrainingError(
            f"{label} shuffles by itself, but the task asks for rows in their order.",
            "A network written by hand takes them in a new order in every epoch.",
            "Leave shuffle=False out of the task.",
        )
    device = devices.find(device)
    check(task, batch_size, device)
    with _on(device):
        network = make(task, int(batch_size), seed)
    return Run(
        label=label,
        task=task,
        device=device,
        batch_size=int(batch_size),
        steps=math.ceil(len(task.data) / batch_size),
        flags={"jit_compile": False, "dtype": network.variables[0].dtype.name, "shuffles": "rows"},
        model=network,
        variables=network.variables,
        train_epoch=lambda: clocked(network.train_epoch),
        evaluate=partial(evaluation.of_outputs, network.outputs, task.loss),
    )


def in_turn(runs: Mapping[str, Run], *, epochs: int) -> dict[str, Training]:
    """Train several runs in turn, an epoch of each, so that a busy moment hits all of them alike."""
    check_epochs(epochs)
    for _ in range(epochs):
        for run in runs.values():
            run.epoch()
    return {label: run.training() for label, run in runs.items()}


def check_epochs(epochs: int) -> None:
    """Raise for fewer than two epochs."""
    if not is_whole(epochs) or epochs < 2:
        raise ParameterError(
            f"epochs = {epochs!r} is not possible.",
            "Accepted is a whole number of at least 2: the first epoch is kept apart.",
            "Correct epochs and run again.",
        )


def batch_sizes_to_compare(sizes: Iterable[int], count: int) -> list[int]:
    """Return different batch sizes in order, at least three as a line needs, or raise `ParameterError`."""
    different = sorted(set(sizes))
    for size in different:
        check_batch_size(size, count)
    if len(different) < 3:
        raise ParameterError(
            f"{len(different)} different batch sizes are too few: {', '.join(map(str, different))}.",
            "At least three are needed to tell the fixed cost from the cost per example.",
            "Add to batch_sizes, or set it to None.",
        )
    return different
