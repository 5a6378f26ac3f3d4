"""What is to be learnt: data, network, loss; and the compiled Keras model that begins to learn it."""

import math
import numbers
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass

from helpers import devices, evaluation, fused
from helpers.devices import Device
from helpers.errors import ParameterError, TrainingError
from helpers.examples import Dataset, is_whole


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
    shuffle: bool = True  # False: every epoch takes the rows as they lie, so that ways can be compared number by number


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


def compiled(
    task: Task,
    jit_compile: bool,
    seed: int = 0,
    *,
    fused_adam: bool = False,
    dropout: str = "keras",
    dtype_policy: str = "float32",
):
    """Return a fresh Keras model that is ready to train, with all of its variables made.

    Keras would make some of them while it traces the first step, and would then have to trace it again.
    """
    import keras

    keras.utils.set_random_seed(seed)
    with _dtypes(dtype_policy):
        model = task.model() if dropout == "keras" else fused.with_dropout(task.model(), dropout)
    if model.input_shape[1:] != task.data.x.shape[1:]:
        raise TrainingError(
            f"{model.name} takes inputs of shape {model.input_shape[1:]}, but those of {task.data.name} have "
            f"{task.data.x.shape[1:]}.",
            "Both must be the same.",
            "Take other data, or another network.",
        )
    rate = float(task.learning_rate)
    optimizer = fused.adam(rate) if fused_adam else keras.optimizers.Adam(rate)
    try:
        model.compile(optimizer, task.loss, metrics=list(task.metrics), jit_compile=jit_compile)
        model.optimizer.build(model.trainable_variables)  # for float16, one around ours that scales the loss
        evaluation.of_keras(model, task.data, rows=1)
    except (ValueError, TypeError) as error:  # Keras' own words for a loss or a metric
        raise TrainingError(
            f"{model.name} cannot be trained: {error}",
            "Accepted are losses and metrics that Keras knows by name.",
            "Correct the task.",
        ) from error
    return model


@contextmanager
def _dtypes(policy: str):
    """Let every layer that is made meanwhile compute in the types of this policy."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
