"""The ways of training: the same network, data and optimizer, and ever less that happens outside of TensorFlow.

Call any of them: `fit(task, batch_size=…, epochs=…)`. All take the same and return a `Training`. They differ in
who holds the data, how it is shuffled, and how often Python has a say. `WAYS` lists them in the order of the
course.
"""

import math
import time
from collections.abc import Callable, Iterable

from helpers import devices
from helpers.errors import ParameterError
from helpers.examples import Dataset
from helpers.timing import clocked
from helpers.training import Task, Way

MOST_STEPS = 100  # per execution: more gain nothing, and keep Python from showing or stopping anything


def fit_epochs(model, **options) -> Callable:
    """Return a callable that lets Keras train one epoch; the clock covers the epoch, not fit's preparations."""
    import keras

    wait = devices.load_tensorflow().test.experimental.sync_devices

    class Clock(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            wait()
            self.start = time.perf_counter()

        def on_epoch_end(self, epoch, logs=None):
            wait()
            self.seconds, self.logs = time.perf_counter() - self.start, dict(logs)

    def epoch():
        clock = Clock()
        model.fit(**options, epochs=1, verbose=0, callbacks=[clock])
        return clock.seconds, clock.logs

    return epoch


def _prepare_fit(model, task: Task, batch_size: int, _seed: int) -> Callable:
    return fit_epochs(model, x=task.data.x, y=task.data.y, batch_size=batch_size, shuffle=True)


def pipeline(data: Dataset, batch_size: int, seed: int):
    """Return batches made once, kept, and prepared ahead; every epoch takes them in a new order."""
    import tensorflow as tf

    data = data.sample(len(data), seed)
    x, y = tf.constant(data.x), tf.constant(data.y)
    starts = tf.data.Dataset.range(0, len(data), batch_size)
    # Slices of many rows: to cut a million single rows and to batch them again would take seconds.
    batches = starts.map(lambda start: (x[start : start + batch_size], y[start : start + batch_size])).cache()
    return batches.shuffle(min(math.ceil(len(data) / batch_size), 10_000), seed=seed).prefetch(2)


def _prepare_pipeline(model, task: Task, batch_size: int, seed: int) -> Callable:
    return fit_epochs(model, x=pipeline(task.data, batch_size, seed), shuffle=False)


def _prepare_many_steps(model, task: Task, batch_size: int, seed: int) -> Callable:
    model.steps_per_execution = min(MOST_STEPS, math.ceil(len(task.data) / batch_size))
    return _prepare_pipeline(model, task, batch_size, seed)


def _resident(task: Task, batch_size: int, seed: int):
    """Put all full batches on the device: x shaped (steps, batch, …), y (steps, batch, 1), rows shuffled once."""
    import tensorflow as tf

    steps = len(task.data) // batch_size
    data = task.data.sample(steps * batch_size, seed)
    shapes = (steps, batch_size, *data.x.shape[1:]), (steps, batch_size, *data.y.shape[1:])
    return tuple(tf.constant(v.reshape(shape), "float32") for v, shape in zip((data.x, data.y), shapes, strict=True))


def _function_epochs(model, x, y, loss: Callable, seed: int, jit_compile: bool) -> Callable:
    """Return a callable that trains one epoch in one TensorFlow function over data that lies on the device."""
    import numpy as np
    import tensorflow as tf

    steps = x.shape[0]

    @tf.function(jit_compile=jit_compile)
    def epoch(order):
        for i in tf.range(steps):
            with tf.GradientTape() as tape:
                value = loss(tf.gather(x, order[i]), tf.gather(y, order[i]))
            gradients = tape.gradient(value, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)

    draw = np.random.default_rng(seed)

    def run():
        # The order is an argument: XLA would compile anew for every order that it draws itself from a seed.
        order = tf.constant(draw.permutation(steps), tf.int64)
        seconds, _ = clocked(lambda: epoch(order))
        return seconds, {"loss": loss(x[order[-1]], y[order[-1]])}  # of the last batch, after the clock

    return run


def _prepare_function(model, task: Task, batch_size: int, seed: int) -> Callable:
    x, y = _resident(task, batch_size, seed)
    return _function_epochs(
        model, x, y, lambda x, y: model.compute_loss(x, y, model(x, training=True)), seed, model.jit_compile
    )


def _prepare_by_column(model, task: Task, batch_size: int, seed: int) -> Callable:
    import tensorflow as tf

    if task.loss_by_column is None:
        raise ParameterError(
            f"{task.data.name} has no loss for data stored by column.",
            "This way needs one, because it depends on the network.",
            "Take another way of training.",
        )
    x, y = _resident(task, batch_size, seed)
    loss = task.loss_by_column
    return _function_epochs(
        model, tf.transpose(x, [0, 2, 1]), y[..., 0], lambda x, y: loss(model, x, y), seed, jit_compile=True
    )


fit = Way("fit on NumPy arrays", False, "rows", math.ceil, _prepare_fit)
fit_pipeline = Way("fit on tf.data", False, "batches", math.ceil, _prepare_pipeline)
fit_many_steps = Way("fit, many steps per call", False, "batches", math.ceil, _prepare_many_steps)
epoch_function = Way("one function per epoch", False, "batches", math.floor, _prepare_function)
epoch_xla = Way("one XLA function per epoch", True, "batches", math.floor, _prepare_function)
epoch_xla_by_column = Way("XLA, data by column", True, "batches", math.floor, _prepare_by_column)

WAYS = {way.label: way for way in (fit, fit_pipeline, fit_many_steps, epoch_function, epoch_xla, epoch_xla_by_column)}


def rungs(numbers: Iterable[int]) -> dict[str, Way]:
    """Return ways by their number, counted from 1 in the order of `WAYS`; the first always, to compare with."""
    labels = list(WAYS)
    wrong = [number for number in numbers if not 1 <= number <= len(labels)]
    if wrong:
        raise ParameterError(
            f"There is no rung {wrong[0]}.",
            f"Accepted are 1 to {len(labels)}: {', '.join(labels)}.",
            "Correct rungs and run again.",
        )
    return {labels[number - 1]: WAYS[labels[number - 1]] for number in sorted({1, *numbers})}
