"""Train on one device, several ways in turn, and record the time of every epoch.

The ways themselves are in `ways`. Times are in seconds per epoch.
"""

import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from helpers import devices, evaluation
from helpers.devices import Device
from helpers.errors import ParameterError, TrainingError
from helpers.examples import Dataset, is_whole
from helpers.timing import Measurement, clocked


@dataclass(frozen=True)
class Task:
    """What is to be learnt: everything but the way of training."""

    data: Dataset
    model: Callable  # returns a fresh Keras model
    loss: str | Callable  # Keras' name of it, or (labels, outputs) -> a loss for each example; see models
    learning_rate: float
    metrics: tuple[str, ...] = ()
    loss_by_column: Callable | None = None  # (model, x, y) -> loss, for a batch stored by column; see models
    validation: Dataset | None = None  # looked at after every epoch, outside of its clock
    test: Dataset | None = None  # looked at in the end; None takes all of `data`


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

    def start(self, task: Task, *, batch_size: int, device="CPU:0", seed: int = 0) -> Run:
        """Return a training that has not begun, for `in_turn`."""
        device = devices.find(device)
        check(task, batch_size, device)
        with _on(device):
            model = compiled(task, self.jit_compile, seed)
            train_epoch = self.prepare(model, task, int(batch_size), seed)
        return Run(
            label=self.label,
            task=task,
            device=device,
            batch_size=int(batch_size),
            steps=self.rounding(len(task.data) / batch_size),
            flags={"jit_compile": self.jit_compile, "dtype": model.compute_dtype, "shuffles": self.shuffles},
            model=model,
            variables=model.trainable_variables,
            train_epoch=train_epoch,
            evaluate=partial(evaluation.of_keras, model),
        )

    def __call__(self, task: Task, *, batch_size: int, epochs: int, device="CPU:0", seed: int = 0) -> Training:
        """Train for at least 2 epochs: the first is kept apart."""
        run = self.start(task, batch_size=batch_size, device=device, seed=seed)
        return in_turn({self.label: run}, epochs=epochs)[self.label]


def by_hand(label: str, make: Callable, task: Task, *, batch_size: int, device="CPU:0", seed: int = 0) -> Run:
    """Return a training that has not begun, of a network that was written without Keras' models.

    `make(task, batch_size, seed)` returns it, with `variables`, `outputs(x)`, and `train_epoch()`, which trains
    on all rows once, in a new order, and returns {"loss": …}. It must not use XLA.
    """
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
    if not is_whole(epochs) or epochs < 2:
        raise ParameterError(
            f"epochs = {epochs!r} is not possible.",
            "Accepted is a whole number of at least 2: the first epoch is kept apart.",
            "Correct epochs and run again.",
        )
    for _ in range(epochs):
        for run in runs.values():
            run.epoch()
    return {label: run.training() for label, run in runs.items()}


def check_batch_size(batch_size: int, count: int) -> None:
    """Raise for a batch size that `count` examples do not allow, and when there are none."""
    if not count:
        raise TrainingError("There is no example to train with.", "At least one is needed.", "Ask for more examples.")
    if not is_whole(batch_size) or not 1 <= batch_size <= count:
        raise ParameterError(
            f"batch_size = {batch_size!r} is not possible.",
            f"Accepted is a whole number from 1 to {count:,}, the number of examples.",
            "Correct the batch size, or ask for more examples.",
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


def check(task: Task, batch_size: int, device: Device) -> None:
    """Raise in words for what would train wrongly, or not at all."""
    count = len(task.data)
    check_batch_size(batch_size, count)
    rate = task.learning_rate
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real) or not 0 < rate < math.inf:
        raise ParameterError(
            f"learning_rate = {rate!r} is not possible.",
            "Accepted is a number above 0.",
            "0.001 is a usual one for Adam.",
        )
    for part in (task.data, task.validation, task.test):
        if part is not None:
            part.check()
            check_batch_size(1, len(part))
    devices.require_memory(device, 3 * (task.data.x.nbytes + task.data.y.nbytes))  # here, there, and a shuffled copy


def compiled(task: Task, jit_compile: bool, seed: int = 0):
    """Return a fresh Keras model that is ready to train, with all of its variables made.

    Keras would make some of them while it traces the first step, and would then have to trace it again.
    """
    import keras

    keras.utils.set_random_seed(seed)
    model = task.model()
    if model.input_shape[1:] != task.data.x.shape[1:]:
        raise TrainingError(
            f"{model.name} takes inputs of shape {model.input_shape[1:]}, but those of {task.data.name} have "
            f"{task.data.x.shape[1:]}.",
            "Both must be the same.",
            "Take other data, or another network.",
        )
    optimizer = keras.optimizers.Adam(float(task.learning_rate))
    try:
        model.compile(optimizer, task.loss, metrics=list(task.metrics), jit_compile=jit_compile)
        optimizer.build(model.trainable_variables)
        evaluation.of_keras(model, task.data, rows=1)
    except (ValueError, TypeError) as error:  # Keras' own words for a loss or a metric
        raise TrainingError(
            f"{model.name} cannot be trained: {error}",
            "Accepted are losses and metrics that Keras knows by name.",
            "Correct the task.",
        ) from error
    return model
