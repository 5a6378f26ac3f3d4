"""The ways of training: the same network, data and optimizer, and ever less that happens outside of TensorFlow.

Call any of them: `fit(task, batch_size=…, epochs=…)`. All take the same and return a `Training`. They differ in
who holds the data, how it is shuffled, and how often Python has a say. `WAYS` lists them in the order of the
course.
"""

import math
import time
from collections.abc import Callable, Iterable
from functools import partial

from helpers import devices
from helpers.errors import ParameterError
from helpers.tasks import Task
from helpers.timing import clocked, waiter
from helpers.training import Way

MOST_STEPS = 100  # per execution: more gain nothing, and keep Python from showing or stopping anything


def fit_epochs(model, **options) -> Callable:
    """Return a callable that lets Keras train one epoch; the clock covers the epoch, not fit's preparations."""
    import keras

    wait = waiter()

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
    return fit_epochs(model, x=task.data.x, y=task.data.y, batch_size=batch_size, shuffle=task.shuffle)


def pipeline(task: Task, batch_size: int, seed: int, device="CPU:0"):
    """Return batches made once, kept, and prepared ahead, on a GPU too; every epoch takes them in a new order."""
    import tensorflow as tf

    device = devices.parse(device)
    data = task.data.sample(len(task.data), seed) if task.shuffle else task.data
    with tf.device("CPU:0"):  # where every pipeline works
        x, y = tf.constant(data.x), tf.constant(data.y)
        starts = tf.data.Dataset.range(0, len(data), batch_size)
        # Slices of many rows: to cut a million single rows and to batch them again would take seconds.
        batches = starts.map(lambda start: (x[start : start + batch_size], y[start : start + batch_size])).cache()
        if task.shuffle:
            batches = batches.shuffle(min(math.ceil(len(data) / batch_size), 10_000), seed=seed)
        if device == devices.parse("CPU:0"):
            return batches.prefetch(2)
        return batches.apply(tf.data.experimental.prefetch_to_device(str(device), 2))  # must be the last


def _prepare_pipeline(model, task: Task, batch_size: int, seed: int) -> Callable:
    device = devices.where(model.trainable_variables)[0]
    steps = math.ceil(len(task.data) / batch_size)  # a pipeline that ends on a GPU does not know its length
    return fit_epochs(model, x=pipeline(task, batch_size, seed, device), steps_per_epoch=steps, shuffle=False)


def prepare_many_steps(model, task: Task, batch_size: int, seed: int, prepare: Callable = _prepare_fit) -> Callable:
    """Return one epoch of `fit` on NumPy arrays in which Python has a say only once in many steps."""
    model.steps_per_execution = min(MOST_STEPS, math.ceil(len(task.data) / batch_size))
    return prepare(model, task, batch_size, seed)


def _orders(count: int, task: Task, seed: int) -> Callable:
    """Return a callable that gives the next epoch's order of `count` things, as a tensor.

    The order is an argument of every function: XLA would compile anew for each that it draws itself from a seed.
    """
    import numpy as np
    import tensorflow as tf

    draw = np.random.default_rng(seed)
    return lambda: tf.constant(draw.permutation(count) if task.shuffle else np.arange(count), tf.int64)


def _resident(task: Task, batch_size: int, seed: int):
    """Put all full batches on the device: x shaped (steps, batch, …), y (steps, batch, 1), rows shuffled once."""
    import tensorflow as tf

    steps = len(task.data) // batch_size
    data = task.data.sample(steps * batch_size, seed) if task.shuffle else task.data
    shapes = (steps, batch_size, *data.x.shape[1:]), (steps, batch_size, *data.y.shape[1:])
    full = data.x[: steps * batch_size], data.y[: steps * batch_size]
    return tuple(tf.constant(v.reshape(shape), "float32") for v, shape in zip(full, shapes, strict=True))


def _function_epochs(model, x, y, loss: Callable, next_order: Callable, jit_compile: bool) -> Callable:
    """Return a callable that trains one epoch in one TensorFlow function over data that lies on the device."""
    import tensorflow as tf

    steps = x.shape[0]

    @tf.function(jit_compile=jit_compile)
    def epoch(order):
        for i in tf.range(steps):
            with tf.GradientTape() as tape:
                value = loss(tf.gather(x, order[i]), tf.gather(y, order[i]))
            gradients = tape.gradient(value, model.trainable_variables)
            model.optimizer.apply(gradients, model.trainable_variables)

    def run():
        order = next_order()
        seconds, _ = clocked(lambda: epoch(order))
        return seconds, {"loss": loss(x[order[-1]], y[order[-1]])}  # of the last batch, after the clock

    return run


def _prepare_function(model, task: Task, batch_size: int, seed: int) -> Callable:
    x, y = _resident(task, batch_size, seed)
    return _function_epochs(
        model,
        x,
        y,
        lambda x, y: model.compute_loss(x, y, model(x, training=True)),
        _orders(len(x), task, seed),
        model.jit_compile,
    )


def _row_step(model, task: Task) -> Callable:
    """Return one training step on the rows that it is given the numbers of; all rows lie on the device."""
    import tensorflow as tf

    x = tf.constant(task.data.x, "float32")
    y = tf.constant(task.data.y, None if task.data.classes else "float32")

    def step(rows):
        batch, labels = tf.gather(x, rows), tf.gather(y, rows)
        with tf.GradientTape() as tape:
            loss = model.compute_loss(batch, labels, model(batch, training=True))
            scaled = model.optimizer.scale_loss(loss)  # for float16; the same number otherwise
        model.optimizer.apply(tape.gradient(scaled, model.trainable_variables), model.trainable_variables)
        return loss

    return step


def prepare_step_function(model, task: Task, batch_size: int, seed: int) -> Callable:
    """Return one epoch with a function per step, called from a loop in Python; rows as `fit` takes them."""
    count = len(task.data)
    step = _traced(_row_step(model, task), model.jit_compile)

    def epoch(order):
        batches = [order[start : start + batch_size] for start in range(0, count, batch_size)]
        return sum(len(rows) * step(rows) for rows in batches) / count

    return _run_in_new_order(epoch, _orders(count, task, seed))


def prepare_epoch_function(model, task: Task, batch_size: int, seed: int) -> Callable:
    """Return one epoch in one function over rows that lie on the device, as `fit` trains it.

    Every row comes in a new order, the last batch need not be full, and the loss is the mean over the epoch.
    """
    import tensorflow as tf

    count = len(task.data)
    steps, rest = divmod(count, batch_size)
    step = _row_step(model, task)

    def epoch(order):
        full = tf.reshape(order[: steps * batch_size], (steps, batch_size))
        total = tf.zeros(())
        for i in tf.range(steps):
            total += batch_size * step(tf.gather(full, i))
        if rest:
            total += rest * step(order[steps * batch_size :])
        return total / count

    return _run_in_new_order(_traced(epoch, model.jit_compile), _orders(count, task, seed))


def _traced(call: Callable, jit_compile: bool) -> Callable:
    """Return a function of rows as a TensorFlow function, traced when it first meets so many of them.

    A tf.function by itself would warn: it takes those of several trainings for one that is traced ever again.
    """
    import tensorflow as tf

    function, known = tf.function(call, jit_compile=jit_compile), {}

    def run(rows):
        if len(rows) not in known:
            known[len(rows)] = function.get_concrete_function(rows)
        return known[len(rows)](rows)

    return run


def _run_in_new_order(epoch: Callable, next_order: Callable) -> Callable:
    def run():
        seconds, loss = clocked(lambda: epoch(next_order()))  # `fit` draws its order on the clock, too
        return seconds, {"loss": loss}

    return run


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
        model,
        tf.transpose(x, [0, 2, 1]),
        y[..., 0],
        lambda x, y: loss(model, x, y),
        _orders(len(x), task, seed),
        jit_compile=True,
    )


fit = Way("fit on NumPy arrays", False, "rows", math.ceil, _prepare_fit)
fit_pipeline = Way("fit on tf.data", False, "batches", math.ceil, _prepare_pipeline)
fit_many_steps = Way(
    "fit, many steps per call", False, "batches", math.ceil, partial(prepare_many_steps, prepare=_prepare_pipeline)
)
epoch_function = Way("one function per epoch", False, "batches", math.floor, _prepare_function)
epoch_xla = Way("one XLA function per epoch", True, "batches", math.floor, _prepare_function)
epoch_xla_by_column = Way("XLA, data by column", True, "batches", math.floor, _prepare_by_column)

WAYS = {way.label: way for way in (fit, fit_pipeline, fit_many_steps, epoch_function, epoch_xla, epoch_xla_by_column)}

# Rows lie on the device, each epoch is one function, Adam is one operation, dropout draws bytes.
resident = Way(
    "rows on the device, fused", False, "rows", math.ceil, prepare_epoch_function, fused_adam=True, dropout="bytes"
)


def best(task: Task) -> Way:
    """Return the fastest way to train this, of those in float32 that learn the same as `fit` but for chance.

    Where the loss is known for data stored by column, that is XLA on such data: two clouds. It shuffles batches, and
    leaves out rows that fill none. For every other network it is `resident`, without XLA, which is slow on a CPU for
    convolutions in a loop and for dropout (benchmarks/README.md). Convolutions on a CPU also gain from oneDNN, which
    TensorFlow switches on by itself on some CPUs only: set TF_ENABLE_ONEDNN_OPTS=1 before TensorFlow is imported.
    On a GPU nothing of this is measured.
    """
    return epoch_xla_by_column if task.loss_by_column else resident


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
