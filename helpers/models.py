"""The networks of the two texts, as plain Keras. None is compiled: the way of training does that.

A model needs TensorFlow, which is imported inside the functions.
"""


def two_clouds():
    """Return the question's network: one neuron that tells which of two clouds a point (x, y) belongs to."""
    import keras

    return keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(1, activation="sigmoid")],
        name="two_clouds",
    )


def bigger_network():
    """Return the question's bigger network: five convolutions and four dense layers, for (66, 200, 3) pictures.

    It was made to steer a car: M. Bojarski et al., "End to End Learning for Self-Driving Cars" (2016),
    https://arxiv.org/abs/1604.07316. Its one output is the steering.
    """
    import keras
    from keras import layers

    return keras.Sequential(
        [
            keras.Input((66, 200, 3)),
            layers.Conv2D(24, 5, strides=2, activation="elu"),
            layers.Conv2D(36, 5, strides=2, activation="elu"),
            layers.Conv2D(48, 5, strides=2, activation="elu"),
            layers.Conv2D(64, 3, activation="elu"),
            layers.Conv2D(64, 3, activation="elu"),
            layers.Flatten(),
            layers.Dense(100, activation="elu"),
            layers.Dense(50, activation="elu"),
            layers.Dense(10, activation="elu"),
            layers.Dense(1),
        ],
        name="bigger_network",
    )


def two_clouds_loss_by_column(model, x, y):
    """Return the question's loss for a batch that is stored by column: `x` is (2, n) and `y` is (n,).

    It is binary cross-entropy, with the network's two steps written out. Every array is as long as the batch
    along its last axis, along which the compiler computes several numbers at once. The gradient of the loss
    with respect to the neuron's sum is p - y, so no logarithm is needed to train.
    """
    import tensorflow as tf

    @tf.custom_gradient
    def cross_entropy(total):
        error = tf.sigmoid(total) - y
        right = tf.maximum(1 - tf.abs(error), 1e-7)  # the probability given to the right cloud
        count = tf.cast(tf.size(y), y.dtype)
        return -tf.reduce_mean(tf.math.log(right)), lambda upstream: upstream / count * error

    kernel, bias = model.trainable_variables
    return cross_entropy(tf.linalg.matvec(x, kernel.value[:, 0], transpose_a=True) + bias.value)
