"""Measure what limits a device: how fast it moves bytes, and how fast it computes.

Rates are the best of all values, not the middle one: a ceiling is what the device can do.
"""

from helpers import devices, timing

VECTOR = 20_000_000  # float32 numbers: 80 MB, more than most caches hold
MATRIX = 2000  # rows and columns: large enough to keep every core busy


def bytes_per_second(device, *, seconds: float = 3.0) -> float:
    """Return the memory bandwidth: two long vectors are added, so each is read, and one is written."""
    tf, device = devices.load_tensorflow(), devices.find(device)
    with tf.device(str(device)):
        total, vector = tf.Variable(tf.zeros(VECTOR)), tf.zeros(VECTOR)
    adding = timing.measure(lambda: total.assign_add(vector), device, label="adding", seconds=seconds)
    return 3 * 4 * VECTOR / min(adding.values)


def flop_per_second(device, *, seconds: float = 3.0) -> float:
    """Return the rate of a large product of two float32 matrices, in floating-point operations per second."""
    tf, device = devices.load_tensorflow(), devices.find(device)
    with tf.device(str(device)):
        a, b = (tf.random.stateless_normal((MATRIX, MATRIX), seed=(0, place)) for place in (1, 2))
    product = timing.measure(lambda: tf.matmul(a, b), device, label="product", seconds=seconds)
    return 2 * MATRIX**3 / min(product.values)
