"""The work by which a device is calibrated: single operations of every kind, from small to large.

None of them has the sizes of a network of the course, which are to be predicted and not looked up.
"""

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from helpers import costs
from helpers.pieces import Piece, product, stream

# The first of each kind is as small as can be: what it costs is what Python needs to start it.
# (m, k, n): the forward product is (m, k) @ (k, n). Few rows and many, weights that fit in a cache and that do not.
PRODUCTS = (
    (1, 2, 1),
    (8, 64, 64), (32, 256, 200), (100, 700, 500), (400, 900, 512), (1, 2000, 900), (16, 1500, 600), (2048, 48, 64),
    (1500, 500, 24), (64, 3000, 700), (900, 900, 900), (3000, 30, 120), (200, 100, 10), (1, 300, 100), (8, 600, 300),
)  # fmt: skip
# (batch, height, width, channels, filters, window, stride): one channel and many, pictures small and large.
CONVOLUTIONS = (
    (1, 3, 3, 1, 1, 3, 1),
    (8, 30, 30, 1, 12, 3, 1), (64, 24, 24, 3, 16, 3, 1), (8, 60, 100, 3, 12, 5, 2), (16, 12, 12, 24, 48, 3, 1),
    (64, 16, 16, 12, 24, 5, 1), (128, 8, 8, 40, 48, 3, 1), (1, 32, 32, 8, 16, 3, 1), (4, 24, 24, 16, 72, 3, 1),
    (200, 12, 12, 8, 40, 3, 1), (16, 30, 60, 20, 30, 5, 2), (2, 14, 14, 128, 96, 3, 1), (200, 20, 20, 2, 20, 5, 1),
    (400, 24, 24, 3, 24, 3, 1), (1, 60, 100, 3, 20, 5, 2), (1, 12, 12, 48, 48, 3, 1), (16, 20, 20, 1, 24, 5, 1),
)  # fmt: skip
# (products at once, m, k, n)
BATCHES_OF_PRODUCTS = (
    (1, 1, 2, 1),
    (16, 8, 8, 8),
    (32, 24, 12, 24),
    (400, 24, 12, 24),
    (64, 64, 32, 64),
    (2000, 20, 20, 20),
)
VALUES = (
    64,
    4096,
    30_000,
    100_000,
    400_000,
    1_500_000,
    6_000_000,
    12_000_000,
)  # the last one gets fresh memory, see costs.FRESH
PICTURES = ((1, 2), (1, 16), (10, 16), (100, 16), (1000, 16))  # how many, of n × n × n values, for pooling


class Probe(NamedTuple):
    """One operation to measure: what it is, and the call that does it."""

    piece: Piece
    call: Callable

    @property
    def label(self) -> str:
        return f"{self.piece.kind} {' '.join(f'{size:.0f}' for size in self.piece.sizes)}"


def of(device) -> list[Probe]:
    """Return all probes, with their data on the device (1 GB). TensorFlow runs where its data are."""
    import tensorflow as tf

    with tf.device(str(device)):
        return [*_products(tf), *_convolutions(tf), *_batched(tf), *_streams(tf), *_pools(tf)]


def _numbers(tf, *shape: int):
    return tf.random.stateless_normal(shape, (1, 2))


def _products(tf) -> Iterator[Probe]:
    multiply = tf.raw_ops.MatMul
    for m, k, n in PRODUCTS:
        a, b, g = _numbers(tf, m, k), _numbers(tf, k, n), _numbers(tf, m, n)
        yield Probe(product(m, k, n), lambda a=a, b=b: multiply(a=a, b=b))
        yield Probe(product(m, n, k, "product_input"), lambda g=g, b=b: multiply(a=g, b=b, transpose_b=True))
        yield Probe(product(k, m, n, "product_weights"), lambda a=a, g=g: multiply(a=a, b=g, transpose_a=True))


def _convolutions(tf) -> Iterator[Probe]:
    raw = tf.raw_ops
    for batch, height, width, channels, filters, window, stride in CONVOLUTIONS:
        x, kernel = _numbers(tf, batch, height, width, channels), _numbers(tf, window, window, channels, filters)
        how = {"strides": [1, stride, stride, 1], "padding": "SAME"}
        g = raw.Conv2D(input=x, filter=kernel, **how)
        positions = math.prod(g.shape[:3])
        sizes = (math.prod(x.shape), math.prod(kernel.shape), math.prod(g.shape), positions * window**2 * channels)
        flop = 2 * positions * math.prod(kernel.shape)
        main, to_input, to_weights = (
            Piece(f"convolution{what}", 1, flop, sizes) for what in ("", "_input", "_weights")
        )
        yield Probe(main, lambda x=x, f=kernel, how=how: raw.Conv2D(input=x, filter=f, **how))
        back, sizes_of = {**how, "out_backprop": g}, {"x": tf.shape(x), "kernel": tf.shape(kernel)}
        yield Probe(
            to_input,
            lambda s=sizes_of["x"], f=kernel, back=back: raw.Conv2DBackpropInput(input_sizes=s, filter=f, **back),
        )
        yield Probe(
            to_weights,
            lambda x=x, s=sizes_of["kernel"], back=back: raw.Conv2DBackpropFilter(input=x, filter_sizes=s, **back),
        )


def _batched(tf) -> Iterator[Probe]:
    for count, m, k, n in BATCHES_OF_PRODUCTS:
        a, b = _numbers(tf, count, m, k), _numbers(tf, count, k, n)
        piece = Piece("batched_product", 1, 2 * count * m * k * n, (count * m * k, count * k * n, count * m * n))
        yield Probe(piece, lambda a=a, b=b: tf.raw_ops.BatchMatMulV2(x=a, y=b))


def _streams(tf) -> Iterator[Probe]:
    raw = tf.raw_ops
    key, counter = raw.StatelessRandomGetKeyCounter(seed=[1, 2])
    philox, first = tf.constant(1), tf.constant(0)  # made here: to make them anew would take longer than small work
    for n in VALUES:
        x = _numbers(tf, n)
        yield Probe(stream(n, n), lambda x=x: raw.Relu(features=x))
        if n > costs.FRESH:
            return
        yield Probe(stream(n, n, kind="function"), lambda x=x: raw.Tanh(x=x))
        yield Probe(stream(n, 1, kind="sum"), lambda x=x: raw.Sum(input=x, axis=first))
        shape = tf.constant([n])
        yield Probe(
            stream(0, n, kind="random"),
            lambda n=shape: raw.StatelessRandomUniformV2(shape=n, key=key, counter=counter, alg=philox),
        )
        table, rows = tf.reshape(x[: n // 64 * 64], (-1, 64)), tf.random.shuffle(tf.range(n // 64), seed=1)
        piece = stream(len(rows) * 64, len(rows) * 64, kind="rows")
        yield Probe(piece, lambda t=table, r=rows: raw.GatherV2(params=t, indices=r, axis=first))
        yield _update(tf, n)


def _update(tf, n: int) -> Probe:
    variable, mean, square = (tf.Variable(tf.zeros(n)) for _ in range(3))
    gradient = tf.ones(n)
    names = {"beta1_power": 0.9, "beta2_power": 0.99, "lr": 1e-9, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-7}
    options = {name: tf.constant(number) for name, number in names.items()}

    def call():
        tf.raw_ops.ResourceApplyAdam(var=variable.handle, m=mean.handle, v=square.handle, grad=gradient, **options)
        return gradient  # says where it ran

    return Probe(stream(4 * n, 3 * n, kind="update"), call)


def _pools(tf) -> Iterator[Probe]:
    raw, how = tf.raw_ops, {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    for pictures, n in PICTURES:
        x = _numbers(tf, pictures, n, n, n)
        y = raw.MaxPool(input=x, **how)
        read, written = math.prod(x.shape), math.prod(y.shape)
        yield Probe(stream(read, written, kind="pool"), lambda x=x: raw.MaxPool(input=x, **how))
        yield Probe(
            stream(read + 2 * written, read, kind="pool_input"),
            lambda x=x, y=y: raw.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, **how),
        )
