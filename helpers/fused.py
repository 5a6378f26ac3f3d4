"""Two parts of a training step with less work for the same result: Adam, and the random numbers of dropout.

Keras writes both with general operations, so that they run on every backend. Classes that need Keras are made
inside the functions.
"""

import functools


def adam(learning_rate: float):
    """Return Keras' Adam, which updates each variable in one TensorFlow operation instead of a dozen.

    The formula is the same (Kingma and Ba, 2015, https://arxiv.org/abs/1412.6980, end of section 2). Keras' own
    reads and writes every number of a variable about ten times, TensorFlow's `ResourceApplyAdam` once.
    """
    return _adam_class()(float(learning_rate))


@functools.cache
def _adam_class():
    import keras
    import tensorflow as tf

    class FusedAdam(keras.optimizers.Adam):
        def update_step(self, gradient, variable, learning_rate):
            step = tf.cast(self.iterations + 1, variable.dtype)
            place = self._get_variable_index(variable)
            mean, square = (slots[place].value for slots in (self._momentums, self._velocities))
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=mean.handle,
                v=square.handle,
                beta1_power=tf.pow(tf.cast(self.beta_1, step.dtype), step),
                beta2_power=tf.pow(tf.cast(self.beta_2, step.dtype), step),
                lr=tf.cast(learning_rate, step.dtype),
                beta1=self.beta_1,
                beta2=self.beta_2,
                epsilon=self.epsilon,
                grad=tf.cast(gradient, step.dtype),
            )

    return FusedAdam


def with_dropout(model, kind: str):
    """Return a Sequential or functional model that shares all layers with `model`, but for its Dropout layers.

    "bytes": they draw one byte for each value (two where a byte cannot tell the rate) in place of four. The same
    share is dropped, with other random numbers. "none": nothing is dropped, so that less is asked of the network.
    A Dropout with a `noise_shape`, and a subclass of it, stay as they are.
    """
    import keras

    def swap(layer):
        if type(layer) is not keras.layers.Dropout or layer.noise_shape is not None:
            return layer
        changes = {"rate": 0.0} if kind == "none" else {}
        return _dropout_class().from_config({**layer.get_config(), **changes})

    return keras.models.clone_model(model, clone_function=swap)


@functools.cache
def _dropout_class():
    import keras
    import tensorflow as tf

    class ByteDropout(keras.layers.Dropout):
        def call(self, inputs, training=False):
            if not training or self.rate == 0:
                return inputs
            return inputs * tf.cast(self._keeps(tf.shape(inputs)), inputs.dtype) * (1 / (1 - self.rate))

        def _keeps(self, shape):
            """Return True for each value that is kept, drawn for each with the probability 1 - rate."""
            bits, small = (8, tf.uint8) if (256 * self.rate).is_integer() else (16, tf.uint16)
            count = tf.reduce_prod(shape)
            per_word = 32 // bits
            words = tf.random.stateless_uniform(
                [-(-count // per_word)], self.seed_generator.next(), minval=None, maxval=None, dtype=tf.uint32
            )
            numbers = tf.reshape(tf.reshape(tf.bitcast(words, small), [-1])[:count], shape)
            return tf.cast(numbers, tf.int32) >= round(2**bits * self.rate)

    return ByteDropout
