"""Loss and metrics over a whole data set, in batches that need little memory. Nothing is trained."""

import math
from collections.abc import Callable

from helpers.examples import Dataset

WIDEST = 32 * 32 * 64  # values of the widest layer of the course's networks, for one example


def of_keras(model, data: Dataset, rows: int | None = None) -> dict:
    """Return loss and metrics over all data (or its first rows), as tensors.

    Keras' own `evaluate` would trace another function, which takes longer than this does.
    """
    widest = max(math.prod(layer.output.shape[1:]) for layer in model.layers)
    model.reset_metrics()
    for x, y in _batches(data, rows, max(widest, data.x[0].size)):
        final = model.test_step((x, y))
    model.reset_metrics()
    return final


def of_outputs(outputs: Callable, loss: Callable, data: Dataset) -> dict:
    """Return the mean loss and the accuracy over all data, as tensors."""
    import tensorflow as tf

    losses, hits = [], []
    for x, y in _batches(data, None, WIDEST):
        out = outputs(x)
        losses.append(loss(y, out))
        hits.append(tf.cast(tf.argmax(out, 1, y.dtype) == y, "float32"))
    return {"accuracy": tf.reduce_mean(tf.concat(hits, 0)), "loss": tf.reduce_mean(tf.concat(losses, 0))}


def _batches(data: Dataset, rows: int | None, widest: int):
    """Yield batches of which the widest layer's output takes 80 MB at most."""
    size = max(1, 20_000_000 // widest)
    x, y = data.x[:rows], data.y[:rows]
    for start in range(0, len(x), size):
        batch = slice(start, start + size)
        yield x[batch].astype("float32"), y[batch] if data.classes else y[batch].astype("float32")
