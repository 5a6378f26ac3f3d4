"""Count what a Keras network needs, by layer: parameters, floating-point operations, bytes.

Counts are for one example. An operation is one multiplication or one addition, so a term of a sum takes two.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from helpers.errors import ParameterError

FLOAT = 4  # bytes of a float32


@dataclass(frozen=True)
class LayerCount:
    """What one layer needs for one example, on the way forward."""

    name: str
    kind: str  # the class of the layer: "Dense"
    output: tuple[int, ...]  # without the batch
    parameters: int
    flop: int

    @property
    def values(self) -> int:
        """How many numbers the layer puts out; training keeps them for the way back."""
        return math.prod(self.output)


def by_layer(model) -> list[LayerCount]:
    """Return the counts of every layer of a sequential model, in order.

    Multiplications, sums and biases count; activations and pooling do not.
    """
    counts = []
    for layer in model.layers:
        kind = type(layer).__name__
        if kind not in _FLOP:
            raise ParameterError(
                f"The operations of a {kind} layer ({layer.name}) are not known here.",
                f"Known are {', '.join(_FLOP)}.",
                "Add its formula to helpers/counting.py, and a line to its test.",
            )
        output = tuple(layer.output.shape[1:])
        counts.append(LayerCount(layer.name, kind, output, layer.count_params(), _FLOP[kind](layer, output)))
    return counts


def _conv_flop(layer, output: tuple[int, ...]) -> int:
    """Each number of the result is a sum over the kernel's window, for every input channel, plus a bias."""
    *window, channels, _ = layer.kernel.shape
    return math.prod(output) * (2 * math.prod(window) * channels + layer.use_bias)


def _dense_flop(layer, output: tuple[int, ...]) -> int:
    return math.prod(output) * (2 * layer.kernel.shape[0] + layer.use_bias)


def _no_flop(_layer, _output) -> int:
    return 0


_FLOP: dict[str, Callable] = {
    "Conv2D": _conv_flop,
    "Dense": _dense_flop,
    "Flatten": _no_flop,
    "Activation": _no_flop,
    "Dropout": _no_flop,
    "MaxPooling2D": _no_flop,
}


def profiled_flop(call: Callable, *shapes: tuple[int, ...]) -> int:
    """Return what TensorFlow's own profiler counts for `call` on float32 tensors of these shapes.

    The profiler reads a graph, so nothing is computed. It knows no activation functions and no optimizer.
    """
    import tensorflow as tf

    return _profile(tf.function(call).get_concrete_function(*map(tf.TensorSpec, shapes)).graph)


def training_flop(model) -> int:
    """Return the operations of a training step for one example: forward, and on the way back twice as much.

    There, each layer computes a gradient for its weights and one for its input, except that nobody needs one
    for the input of the first that has weights. The loss and the optimizer are left out.
    """
    flop = [count.flop for count in by_layer(model) if count.flop]
    return 3 * sum(flop) - sum(flop[:1])


def _profile(graph) -> int:
    import logging

    import tensorflow as tf
    from tensorflow.python.profiler import model_analyzer, option_builder

    options = option_builder.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)  # TensorFlow warns that its own profiler uses an old function of its own
    try:
        return model_analyzer.profile(graph, options=options, cmd="op").total_float_ops
    finally:
        logger.setLevel(level)


def training_bytes(model, batch_size: int) -> int:
    """Return about how much memory one training step needs with Adam, in bytes.

    For every parameter: itself, its gradient, and two running means. For every example: its input and the
    outputs of the layers, which are kept for the way back. There, each layer needs its own output, all before
    it, and the gradients at both of its ends; the layer that needs most decides. The first layer computes no
    gradient for the pictures. What a library takes for itself is not counted.
    """
    counts = by_layer(model)
    values = [math.prod(model.input_shape[1:]), *(count.values for count in counts)]
    on_the_way_back = max(
        sum(values[: place + 2]) + values[place + 1] + (values[place] if place else 0) for place in range(len(counts))
    )
    parameters = sum(count.parameters for count in counts)
    return FLOAT * (4 * parameters + batch_size * on_the_way_back)


def largest_batch(model, memory: int) -> int:
    """Return the largest batch that can be trained in `memory` bytes, 0 if not even one example fits."""
    fixed = training_bytes(model, 0)
    per_example = training_bytes(model, 1) - fixed
    return max(0, int((memory - fixed) // per_example))
