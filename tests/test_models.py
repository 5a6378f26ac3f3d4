"""The networks: those of the texts, in every number."""

import keras
import numpy as np

from helpers import models


def test_the_small_network_is_one_neuron():
    """Two weights and a bias, and a probability."""
    network = models.two_clouds()

    assert network.count_params() == 3
    assert [type(layer).__name__ for layer in network.layers] == ["Dense"]
    assert network.layers[0].activation is keras.activations.sigmoid


def test_the_bigger_network_has_the_shapes_of_the_question():
    """Five convolutions without padding, four dense layers, ELU everywhere but at the end."""
    network = models.bigger_network()

    assert network.count_params() == 252_219
    shapes = [(31, 98, 24), (14, 47, 36), (5, 22, 48), (3, 20, 64), (1, 18, 64), (1152,), (100,), (50,), (10,), (1,)]
    assert [layer.output.shape[1:] for layer in network.layers] == shapes
    activations = [layer.activation for layer in network.layers if hasattr(layer, "activation")]
    assert activations == [keras.activations.elu] * 8 + [keras.activations.linear]


def test_the_loss_by_column_is_kerass_loss(tf):
    """Value and gradient, also where the network is certain and wrong."""
    network = models.two_clouds()
    network.layers[0].set_weights([np.array([[1.5], [-2.0]], "float32"), np.array([0.25], "float32")])
    x = np.array([[0.1, 0.2], [3.0, -1.0], [-2.0, 1.0], [0.5, 0.5], [8.0, 1.0], [2.0, -2.0]], "float32")
    y = np.array([0, 1, 1, 0, 1, 0], "float32")
    with tf.GradientTape() as tape:
        expected = keras.losses.BinaryCrossentropy()(y[:, None], network(x))
    expected_gradients = tape.gradient(expected, network.trainable_variables)

    with tf.GradientTape() as tape:
        loss = models.two_clouds_loss_by_column(network, tf.constant(x.T), tf.constant(y))
    gradients = tape.gradient(loss, network.trainable_variables)

    assert abs(float(loss) - float(expected)) < 1e-4
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4)


def spread(layer):
    """Return the standard deviation of a layer's weights, and its biases."""
    weights, biases = layer.get_weights()
    return weights.std(), biases


def test_the_mlp_begins_as_the_chapter_says():
    """784, 1000, 10; weights and biases from N(0, 1); logits."""
    network = models.mnist_mlp()

    assert network.count_params() == 785 * 1000 + 1001 * 10 and network.output_shape == (None, 10)
    hidden, last = network.layers[1:]
    assert hidden.activation is keras.activations.relu and last.activation is keras.activations.linear
    for layer in (hidden, last):
        deviation, biases = spread(layer)
        assert 0.95 < deviation < 1.05 and 0.3 < biases.std() < 1.7


def test_the_mlp_can_begin_as_keras_does():
    """Smaller weights, no biases."""
    deviation, biases = spread(models.mnist_mlp("glorot_uniform").layers[1])

    assert abs(deviation - (2 / 1784) ** 0.5) < 0.001 and not biases.any()


def test_the_mnist_cnn_is_the_chapters():
    """16 and 36 windows of 5 × 5 with pooling, 1764 to 128, dropout 0.2; truncated normal, biases 0.1."""
    network = models.mnist_cnn()

    assert [layer.output.shape[1:] for layer in network.layers] == [
        (28, 28, 16), (14, 14, 16), (14, 14, 36), (7, 7, 36), (1764,), (128,), (128,), (10,),
    ]  # fmt: skip
    assert network.count_params() == 416 + 14_436 + 1765 * 128 + 1290
    assert network.layers[6].rate == 0.2
    assert network.layers[-1].activation is keras.activations.softmax
    assert models.mnist_cnn(softmax=False).layers[-1].activation is keras.activations.linear
    for layer in (network.layers[2], network.layers[5]):
        deviation, biases = spread(layer)
        assert 0.08 < deviation < 0.1 and np.allclose(biases, 0.1)  # cut off at two deviations
        assert np.abs(layer.get_weights()[0]).max() <= 0.2


def test_the_cifar_cnn_is_the_chapters():
    """32 and 64 windows of 3 × 3, each with dropout 0.25 before pooling; 4096 to 1024 to 10."""
    network = models.cifar_cnn()

    kinds = "Conv2D Dropout MaxPooling2D Conv2D Dropout MaxPooling2D Flatten Dropout Dense Dropout Dense".split()
    assert [type(layer).__name__ for layer in network.layers] == kinds
    assert {layer.rate for layer in network.layers if hasattr(layer, "rate")} == {0.25}
    assert network.count_params() == 896 + 18_496 + 4097 * 1024 + 1025 * 10
    assert network.layers[-1].activation is keras.activations.softmax
    plain = models.cifar_cnn(dropout=False)
    assert plain.count_params() == network.count_params() and len(plain.layers) == 7


def test_the_cross_entropy_takes_logits_whatever_they_are(tf):
    """Softmax's output counts as logits too: the chapter's bug, which Keras' own loss would undo."""
    labels, logits = np.array([1, 0]), np.array([[1.0, 3.0], [0.0, 2.0]], "float32")

    found = models.cross_entropy(tf.constant(labels, tf.float32), tf.constant(logits)).numpy()

    np.testing.assert_allclose(found, np.log(np.exp(logits).sum(axis=1)) - logits[[0, 1], labels], rtol=1e-5)
    perfect = tf.one_hot([3], 10)
    assert abs(float(models.cross_entropy(tf.constant([3]), perfect)[0]) - (np.log(np.e + 9) - 1)) < 1e-5


def test_the_bug_survives_training_with_keras(tf):
    """`fit` reports the loss of softmax twice, not of the logits before."""
    network = models.mnist_cnn()
    network.compile("sgd", models.cross_entropy, jit_compile=False)
    x, y = np.random.default_rng(0).random((4, 28, 28, 1), "float32") * 20, np.array([0, 1, 2, 3])
    expected = float(tf.reduce_mean(models.cross_entropy(y, network(x))))
    undone = float(tf.reduce_mean(models.cross_entropy(y, tf.math.log(network(x)))))

    assert abs(network.evaluate(x, y, verbose=0) - expected) < 1e-4 < 1e-2 < abs(undone - expected)
