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
