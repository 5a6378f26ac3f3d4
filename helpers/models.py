"""The networks of the two texts, and two more to predict, as plain Keras.

None is compiled: the way of training does that. A model needs TensorFlow, which is imported inside the functions.
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


def mnist_mlp(initial=None):
    """Return the chapter's network for MNIST: 1000 ReLU units between the pixels and ten outputs.

    It puts out logits. The chapter draws all weights and biases from a normal distribution with deviation 1;
    `initial` is another way to begin, by Keras' name of it ("glorot_uniform" is Keras' own), with biases of 0.
    """
    import keras
    from keras import layers

    drawn = keras.initializers.RandomNormal(stddev=1.0)
    begin = {"kernel_initializer": initial or drawn, "bias_initializer": "zeros" if initial else drawn}
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(1000, activation="relu", **begin),
            layers.Dense(10, **begin),
        ],
        name="mnist_mlp",
    )


def mnist_cnn(softmax: bool = True):
    """Return the chapter's convolutional network for MNIST, with its initialisation.

    With `softmax` it puts out probabilities, as the chapter's does; without, logits: the mended version.
    """
    import keras
    from keras import layers

    begin = {
        "kernel_initializer": keras.initializers.TruncatedNormal(stddev=0.1),
        "bias_initializer": keras.initializers.Constant(0.1),
    }
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 5, padding="same", activation="relu", **begin),
            layers.MaxPooling2D(2),
            layers.Conv2D(36, 5, padding="same", activation="relu", **begin),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            layers.Dense(128, activation="relu", **begin),
            layers.Dropout(0.2),
            layers.Dense(10, activation="softmax" if softmax else None, **begin),
        ],
        name="mnist_cnn",
    )


def cifar_cnn(dropout: bool = True):
    """Return the chapter's network for CIFAR-10, which puts out probabilities; its dropout can be left out."""
    import keras
    from keras import layers

    def drop():
        return [layers.Dropout(0.25)] if dropout else []

    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            *drop(),
            layers.MaxPooling2D(2),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            *drop(),
            layers.MaxPooling2D(2),
            layers.Flatten(),
            *drop(),
            layers.Dense(1024, activation="relu"),
            *drop(),
            layers.Dense(10, activation="softmax"),
        ],
        name="cifar_cnn",
    )


def recurrent():
    """Return a small recurrent network, which reads a digit row by row: 28 steps of an LSTM with 64 units.

    It is in neither of the texts: it is there to be predicted.
    """
    import keras
    from keras import layers

    return keras.Sequential(
        [keras.Input((28, 28, 1)), layers.Reshape((28, 28)), layers.LSTM(64), layers.Dense(10)], name="recurrent"
    )


def transformer():
    """Return a small transformer, which looks at the 28 rows of a digit all at once: two blocks of attention.

    Each block is that of A. Vaswani et al., "Attention Is All You Need" (2017), https://arxiv.org/abs/1706.03762,
    without dropout. It is in neither of the texts: it is there to be predicted.
    """
    import keras
    from keras import layers

    inputs = keras.Input((28, 28, 1))
    rows = layers.Dense(64)(layers.Reshape((28, 28))(inputs))
    for _ in range(2):
        seen = layers.MultiHeadAttention(num_heads=4, key_dim=16)(rows, rows)
        rows = layers.LayerNormalization()(layers.Add()([rows, seen]))
        changed = layers.Dense(64)(layers.Dense(128, activation="relu")(rows))
        rows = layers.LayerNormalization()(layers.Add()([rows, changed]))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(rows)), name="transformer")


def cross_entropy(labels, logits):
    """Return the softmax cross-entropy of each example: `labels` are class numbers (n,), `logits` (n, classes)."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, "int32"), logits=logits)
