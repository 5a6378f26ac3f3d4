"""Where the time of a training step goes, layer by layer."""

from collections.abc import Callable

from helpers import devices, timing
from helpers.timing import Measurement

OPTIMIZER = "optimizer"


def times(model, *, batch_size: int, device, seconds: float = 1.0) -> dict[str, Measurement]:
    """Measure every layer of a freshly compiled model on its own, forward and back, and the optimizer; all in turn.

    Each works on random numbers of its real shape, as one TensorFlow function. As in training, the first layer
    with weights computes no gradient for its input. Flatten layers are left out. A call
    of a function takes some time of its own, which is in every one of them; tracing is in none.
    """
    import tensorflow as tf

    device = devices.find(device)
    calls, is_first = {}, True
    with tf.device(str(device)):
        for layer in model.layers:
            if type(layer).__name__ != "Flatten":
                calls[layer.name] = _forward_and_back(layer, batch_size, is_first)
                is_first = is_first and not layer.trainable_variables
        calls[OPTIMIZER] = _optimizer(model)
        return timing.in_turn(calls, device, seconds=seconds)


def _forward_and_back(layer, batch_size: int, is_first: bool) -> Callable:
    import tensorflow as tf

    x = tf.random.stateless_normal((batch_size, *layer.input.shape[1:]), (0, 0))
    upstream = tf.random.stateless_normal((batch_size, *layer.output.shape[1:]), (0, 1))
    weights = [variable.value for variable in layer.trainable_variables]

    def call():
        wanted = weights if is_first and weights else [x, *weights]
        with tf.GradientTape() as tape:
            tape.watch(x)
            out = layer(x, training=True)
        return out, tape.gradient(out, wanted, output_gradients=upstream)

    return _traced(call)


def _optimizer(model) -> Callable:
    """Return the optimizer's part of a step. Its gradients are zero, so that the weights stay as they are."""
    import tensorflow as tf

    variables = model.trainable_variables
    gradients = [tf.zeros(variable.shape) for variable in variables]

    def call():
        model.optimizer.apply(gradients, variables)
        return variables[0].value

    return _traced(call)


def _traced(call: Callable) -> Callable:
    """Return a TensorFlow function that is traced already: many of one kind would make TensorFlow warn."""
    import tensorflow as tf

    return tf.function(call, jit_compile=False).get_concrete_function()
