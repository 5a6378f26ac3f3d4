"""What a layer makes TensorFlow compute: the pieces of its training step, by kind and size.

A piece is one kind of operation, started once or several times. Its sizes are numbers of float32 values for each
start. How often operations are started was counted in the graphs that Keras 3.15 and TensorFlow 2.21 build; a
test counts again. A flop is one multiplication or one addition.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

Shape = tuple[int, ...]


class Piece(NamedTuple):
    """One kind of operation on values of one size."""

    kind: str  # one of KINDS
    starts: int  # how often an operation is started
    flop: float  # of one start
    sizes: tuple[float, ...]  # values of one start; what they are depends on the kind, see KINDS
    in_place: bool = False  # the result takes the memory of an input that nobody needs any more
    looped: bool = False  # one start for each step of a loop, which cuDNN would run as one operation

    @property
    def values(self) -> float:
        """How many values all starts together read and write."""
        return self.starts * sum(self.sizes[:3])

    @property
    def result(self) -> float:
        """How many values one start writes into memory of its own."""
        place = {"convolution_input": 0, "convolution_weights": 1}.get(self.kind, min(2, len(self.sizes) - 1))
        return 0.0 if self.in_place or self.kind == "update" else self.sizes[place]


# Which sizes a piece of each kind has.
KINDS = {
    "product": "left, right, result",  # of two matrices, on the way forward
    "product_input": "left, right, result",  # the gradient for the input: by a transposed matrix
    "product_weights": "left, right, result",  # the gradient for the weights: a transposed matrix by another
    "batched_product": "left, right, result",  # many small products in one operation: attention
    "convolution": "input, kernel, output, windows",  # windows: each output's part of the input, written out
    "convolution_input": "input, kernel, output, windows",
    "convolution_weights": "input, kernel, output, windows",
    "stream": "read, written",  # value by value: a sum, a comparison, a copy
    "function": "read, written",  # value by value, with exp, tanh or the like
    "sum": "read, written",  # many values become few
    "random": "read, written",
    "pool": "read, written",
    "pool_input": "read, written",
    "rows": "read, written",  # rows of a table are looked up, or added to
    "update": "read, written",  # one operation that updates a variable
    "loop": "read, written",  # what a loop costs beside the operations in it
}


class Layer(NamedTuple):
    """The pieces of one layer."""

    forward: tuple[Piece, ...]
    weights: tuple[Piece, ...] = ()  # on the way back: the gradients for its weights
    input: tuple[Piece, ...] = ()  # on the way back: the gradient for its input
    known: bool = True  # False: estimated from the shapes
    through: tuple[Piece, ...] = ()  # on the way back: what both gradients need


def stream(read: float, written: float, starts: int = 1, kind: str = "stream") -> Piece:
    """Return a piece that does about one operation for each value."""
    return Piece(kind, starts, max(read, written), (read, written))


def product(m: int, k: int, n: int, kind: str = "product", starts: int = 1) -> Piece:
    """Return (m, k) @ (k, n): k multiplications and k additions for each result."""
    return Piece(kind, starts, 2 * m * k * n, (m * k, k * n, m * n))


# Passes over the values: (streams, functions) forward and (streams, functions) on the way back.
ACTIVATIONS = {
    "linear": ((0, 0), (0, 0)),
    "relu": ((1, 0), (1, 0)),
    "relu6": ((1, 0), (1, 0)),
    "leaky_relu": ((1, 0), (1, 0)),
    "elu": ((0, 1), (1, 0)),
    "selu": ((0, 1), (1, 0)),
    "sigmoid": ((0, 1), (1, 0)),
    "tanh": ((0, 1), (1, 0)),
    "softplus": ((0, 1), (0, 1)),
    "exponential": ((0, 1), (1, 0)),
    "silu": ((1, 1), (8, 1)),
    "gelu": ((4, 1), (10, 1)),
    "softmax": ((1, 1), (3, 0)),
}


def activation(name: str, values: int) -> tuple[list[Piece], list[Piece]]:
    """Return the pieces of an activation on the way forward and on the way back; an unknown one counts as tanh."""
    passes = ACTIVATIONS.get(name, ACTIVATIONS["tanh"])
    forward, back = (
        [
            piece
            for count, kind, read in ((streams, "stream", reads), (functions, "function", 1))
            for piece in [stream(read * values, values, count, kind)] * bool(count)
        ]
        for (streams, functions), reads in zip(passes, (1, 2), strict=True)
    )
    return forward, back


def _name(layer) -> str:
    """Return the name of a layer's activation, "linear" if it has none."""
    found = getattr(layer, "activation", None)
    if found is None:
        return "linear"
    return getattr(found, "__name__", None) or _OWN_NAME.get(type(found).__name__, type(found).__name__)


def _biased(layer, main: Piece, weights: Piece, inputs: Piece, output: Shape) -> Layer:
    """Return a layer that computes sums, adds a bias, and applies its activation."""
    values = math.prod(output)
    forward, back = activation(_name(layer), values)
    bias, bias_gradient = [], []
    if layer.use_bias:
        bias, bias_gradient = [stream(values + output[-1], values)], [stream(values, output[-1], kind="sum")]
    there, back = ([piece._replace(in_place=True) for piece in part] for part in ([*bias, *forward], back))
    return Layer((main, *there), (*bias_gradient, weights), (inputs,), _name(layer) in ACTIVATIONS, tuple(back))


def dense(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of `Dense`: each row of the input by the weights."""
    rows, k, n = math.prod(output[:-1]), inputs[0][-1], output[-1]
    return _biased(
        layer,
        product(rows, k, n),
        product(k, rows, n, "product_weights"),
        product(rows, n, k, "product_input"),
        output,
    )


def convolution(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of a convolution: each output is a sum over a window of all input channels."""
    positions = math.prod(output[:-1])
    *_, channels, filters = layer.kernel.shape  # channels: of one group
    window = math.prod(layer.kernel.shape[:-2]) * channels
    sizes = (math.prod(inputs[0]), window * filters, positions * filters, positions * window * layer.groups)
    return _biased(layer, *_three(2 * positions * window * filters, sizes), output)


def _three(flop: float, sizes: tuple[float, ...]) -> list[Piece]:
    """Return the pieces of a convolution: forward, for the weights, and for the input. All do the same arithmetic."""
    return [Piece(kind, 1, flop, sizes) for kind in ("convolution", "convolution_weights", "convolution_input")]


def depthwise(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of a convolution of each channel by itself: little arithmetic for many values."""
    return _biased(layer, *_each_channel(layer.kernel, inputs[0], math.prod(output)), output)


def _each_channel(kernel, inputs: Shape, values: int) -> list[Piece]:
    """Return the pieces of a convolution that mixes no channels: forward, for the weights, and for the input."""
    window = math.prod(kernel.shape[:2])
    sizes = (math.prod(inputs), math.prod(kernel.shape), values, values * window)
    return _three(2 * values * window, sizes)


def separable(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of `SeparableConv2D`: each channel by itself, then a 1 × 1 convolution."""
    positions, filters = math.prod(output[:-1]), output[-1]
    between = layer.depthwise_kernel.shape[-2] * layer.depthwise_kernel.shape[-1]
    values = positions * between
    first, first_weights, first_input = _each_channel(layer.depthwise_kernel, inputs[0], values)
    sizes = (values, between * filters, positions * filters, values)
    main, weights, to_middle = _three(2 * values * filters, sizes)
    rest = _biased(layer, main, weights, to_middle, output)
    through = (*rest.through, to_middle)
    return Layer((first, *rest.forward), (*rest.weights, first_weights), (first_input,), rest.known, through)


def pooling(_layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of pooling over windows."""
    read, written = math.prod(inputs[0]), math.prod(output)
    back = stream(read + 2 * written, read, kind="pool_input")
    return Layer((stream(read, written, kind="pool"),), (), (back,))


def global_pooling(_layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of the mean over all positions; on the way back it is divided among them."""
    read, written = math.prod(inputs[0]), math.prod(output)
    return Layer((stream(read, written, kind="sum"),), (), (stream(written, read, 2), stream(written, written, 3)))


def dropout(layer, inputs: Sequence[Shape], _output: Shape) -> Layer:
    """Return the pieces of dropout: a random number for each value, compared, and the value kept or not."""
    values = math.prod(inputs[0])
    if not getattr(layer, "rate", True):
        return Layer(())
    drawn = values if "Spatial" not in type(layer).__name__ else inputs[0][0] * inputs[0][-1]  # whole channels
    forward = (stream(0, drawn, kind="random"), stream(drawn, drawn / 4), stream(values, values, 2), small(9))
    return Layer(forward, (), (stream(values, values, 2), small(3)))


def byte_dropout(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of `fused.with_dropout(model, "bytes")`: four values share a random number."""
    values = math.prod(inputs[0])
    if not layer.rate:
        return Layer(())
    forward = (
        stream(0, values / 4, kind="random"),
        stream(values / 4, values / 4),
        stream(values / 4, values),
        stream(2 * values, values, 1),
        small(9),
    )
    return Layer(forward, (), (stream(2 * values, values), small(1)))


def normalization(layer, inputs: Sequence[Shape], _output: Shape) -> Layer:
    """Return the pieces of a normalisation: means, differences, scales, each over all values."""
    values, few = math.prod(inputs[0]), math.prod(inputs[0]) / inputs[0][-1]
    there, back, scalars = (4, 9, 12) if hasattr(layer, "moving_mean") else (6, 15, 3)
    forward = (stream(values, few, 2, "sum"), stream(1.3 * values, values, there), small(scalars))
    backward = (stream(values, few, 4, "sum"), stream(1.3 * values, values, back), small(scalars))
    return Layer(forward, (), (), through=backward)


def embedding(_layer, _inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of a table of vectors: rows are looked up, and on the way back added to."""
    values = math.prod(output)
    rows = stream(values, values, kind="rows")
    return Layer((rows,), (rows, small(8)))


# Sums for one step of one example (gates), and operations in one turn of the loop, forward and back.
_RECURRENT = {"LSTM": (4, 35, 70), "GRU": (3, 42, 80), "SimpleRNN": (1, 24, 46)}


def recurrent(layer, inputs: Sequence[Shape], _output: Shape) -> Layer:
    """Return the pieces of a recurrent layer: a loop over the steps, each of which waits for the one before."""
    batch, steps, features = inputs[0]
    units = layer.units
    gates, turn, turn_back = _RECURRENT[type(layer).__name__]
    in_loop = _looped if _is_cudnns(layer) else tuple
    wide, values = gates * units, batch * units
    forward = in_loop(
        (
            product(batch, features, wide, starts=steps),
            product(batch, units, wide, starts=steps),
            stream(2 * batch * wide, batch * wide, 2 * steps),
            stream(values, values, steps * gates, "function"),
            stream(2 * values, values, 2 * gates * steps),
            Piece("loop", steps * turn, 0, (0, 0)),
        )
    )
    weights = in_loop(
        (
            product(features, batch, wide, "product_weights", steps),
            product(units, batch, wide, "product_weights", steps),
            stream(2 * features * wide, features * wide, steps),  # gradients are added up
            stream(2 * units * wide, units * wide, steps),
            stream(batch * wide, wide, steps, "sum"),
        )
    )
    through = in_loop(
        (
            product(batch, wide, units, "product_input", steps),
            stream(2 * values, values, 5 * gates * steps),
            Piece("loop", steps * turn_back, 0, (0, 0)),
        )
    )
    to_input = in_loop([product(batch, wide, features, "product_input", steps)])
    return Layer((*forward, small(30)), weights, to_input, through=(*through, small(40)))


def bidirectional(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of two layers, of which one reads the steps backwards."""
    both = [
        LAYERS.get(type(each).__name__, unknown)(each, inputs, output)
        for each in (layer.forward_layer, layer.backward_layer)
    ]
    parts = [tuple(a + b) for a, b in zip(*(each._replace(known=()) for each in both), strict=True)]
    return Layer(*parts)._replace(known=all(each.known for each in both))


def _is_cudnns(layer) -> bool:
    """Return whether cuDNN, where there is a GPU, would run the loop as one operation."""
    usual = _name(layer) == "tanh" and not layer.recurrent_dropout and not layer.unroll
    return usual and type(layer).__name__ in ("LSTM", "GRU") and layer.use_cudnn is not False


def _looped(found: Sequence[Piece]) -> tuple[Piece, ...]:
    return tuple(piece._replace(looped=True) for piece in found)


def attention(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of `MultiHeadAttention`: four products with weights, and two between the positions."""
    if {len(shape) for shape in inputs[:2]} != {3}:  # attention over several axes
        return unknown(layer, inputs, output)
    batch, queries, width = inputs[0]
    _, keys, other = inputs[1] if len(inputs) > 1 else inputs[0]  # Keras' order: query, value, key, masks
    heads = layer.num_heads
    key, value = heads * layer.key_dim, heads * (layer.value_dim or layer.key_dim)
    sums = [
        (queries, width, key),
        (keys, other, key),
        (keys, other, value),
        (queries, value, output[-1]),
    ]
    pairs = batch * heads * queries * keys
    between = [
        Piece("batched_product", 1, 2 * pairs * layer.key_dim, (batch * queries * key, batch * keys * key, pairs)),
        Piece("batched_product", 1, 2 * pairs * value / heads, (pairs, batch * keys * value, batch * queries * value)),
    ]
    values = batch * queries * key
    softmax, softmax_back = activation("softmax", pairs)
    # Keras multiplies each example by itself, so the gradients of the weights come one for each, and are added up.
    forward = [_each(batch, m, k, n) for m, k, n in sums] + [*between, stream(values, values, 8), *softmax, small(9)]
    weights = [_each(batch, k, m, n, shared=False) for m, k, n in sums]
    weights += [stream(batch * k * n, k * n, kind="sum") for _, k, n in sums]
    weights += [stream(values, key, 8, "sum")]
    through = [_each(batch, m, n, k) for m, k, n in sums[-1:]]
    through += [*between, *between, stream(values, values, 14), *softmax_back, small(28)]
    to_input = [_each(batch, m, n, k) for m, k, n in sums[:3]] + [stream(2 * math.prod(inputs[0]), width, 2)]
    return Layer(tuple(forward), tuple(weights), tuple(to_input), through=tuple(through))


def _each(batch: int, m: int, k: int, n: int, shared: bool = True) -> Piece:
    """Return `batch` products (m, k) @ (k, n) in one operation, with one right matrix for all, or one for each."""
    return Piece(
        "batched_product", 1, 2 * batch * m * k * n, (batch * m * k, (1 if shared else batch) * k * n, batch * m * n)
    )


def activation_layer(layer, inputs: Sequence[Shape], _output: Shape) -> Layer:
    """Return the pieces of a layer that is an activation and nothing else."""
    name = _name(layer) if hasattr(layer, "activation") else _OWN_NAME[type(layer).__name__]
    forward, back = activation(name, math.prod(inputs[0]))
    return Layer(tuple(forward), (), tuple(back), name in ACTIVATIONS)


_OWN_NAME = {"ReLU": "relu", "LeakyReLU": "leaky_relu", "ELU": "elu", "Softmax": "softmax"}


def value_by_value(_layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Return the pieces of what touches each value once: sums of layers, copies, scales."""
    read, written = sum(map(math.prod, inputs)), math.prod(output)
    return Layer((stream(read, written),), (), (stream(written, read),))


def nothing(_layer, _inputs: Sequence[Shape], _output: Shape) -> Layer:
    """Return no piece: only the shape changes."""
    return Layer(())


def unknown(layer, inputs: Sequence[Shape], output: Shape) -> Layer:
    """Estimate a layer from its shapes.

    Each matrix of weights is taken to be multiplied with every position; what has no weights, to touch each value
    a few times.
    """
    read, written = sum(map(math.prod, inputs)), math.prod(output)
    matrices = [
        variable
        for variable in getattr(layer, "trainable_variables", ())
        if len(variable.shape) > 1 and variable.name not in ("embeddings", "alpha")  # looked up, or value by value
    ]
    if not matrices:
        return Layer((stream(read, written, 2),), (), (stream(read + written, read, 2),), known=False)
    rows = math.prod(output[:-1])
    shapes = [(math.prod(variable.shape[:-1]), variable.shape[-1]) for variable in matrices]
    return Layer(
        (*(product(rows, k, n) for k, n in shapes), stream(read, written, 2)),
        tuple(product(k, rows, n, "product_weights") for k, n in shapes),
        (*(product(rows, n, k, "product_input") for k, n in shapes), stream(read + written, read, 2)),
        known=False,
    )


def small(starts: int) -> Piece:
    """Return operations on a handful of numbers: they cost their start, nothing else."""
    return Piece("stream", starts, 1, (1, 1))


LAYERS: dict[str, Callable] = {
    "Dense": dense,
    "Conv1D": convolution,
    "Conv2D": convolution,
    "Conv3D": convolution,
    "DepthwiseConv2D": depthwise,
    "SeparableConv2D": separable,
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), recurrent),
    "MultiHeadAttention": attention,
    "Embedding": embedding,
    "BatchNormalization": normalization,
    "LayerNormalization": normalization,
    "GroupNormalization": normalization,
    **{f"{kind}Pooling{n}D": pooling for kind in ("Max", "Average") for n in (1, 2, 3)},
    **{f"Global{kind}Pooling{n}D": global_pooling for kind in ("Max", "Average") for n in (1, 2, 3)},
    **dict.fromkeys(("Activation", *_OWN_NAME), activation_layer),
    "Dropout": dropout,
    **dict.fromkeys(("SpatialDropout1D", "SpatialDropout2D", "GaussianNoise"), dropout),
    "ByteDropout": byte_dropout,
    **dict.fromkeys(("Flatten", "Reshape", "InputLayer", "NoDropout", "Identity", "ConvertToTensor"), nothing),
    **dict.fromkeys(
        ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Rescaling", "Permute"),
        value_by_value,
    ),
    **dict.fromkeys(("ZeroPadding2D", "ZeroPadding1D", "Cropping2D", "UpSampling2D", "RepeatVector"), value_by_value),
    "GetItem": value_by_value,
    "Bidirectional": bidirectional,
}
