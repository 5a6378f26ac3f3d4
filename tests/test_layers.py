"""Times of layers: every layer that computes, and the optimizer, each on its own device."""

import keras
import numpy as np
import pytest

from helpers import layers
from helpers.devices import Device

pytestmark = pytest.mark.alone


@pytest.fixture
def network():
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(2, 3, name="conv"),
            keras.layers.MaxPooling2D(2, name="pool"),
            keras.layers.Flatten(name="flat"),
            keras.layers.Dense(3, name="small"),
            keras.layers.Dense(1500, name="large"),
            keras.layers.Dense(1500, name="larger"),
        ]
    )
    model.compile("adam", "mse", jit_compile=False)
    model.optimizer.build(model.trainable_variables)
    return model


def test_every_layer_but_the_reshaping_ones_and_the_optimizer_is_timed(tf, network):
    """On the device asked for; what computes a thousand times more takes longer; weights stay as they are."""
    before = [weights.copy() for weights in network.get_weights()]

    found = layers.times(network, batch_size=16, device="CPU:0", seconds=0.1)

    assert list(found) == ["conv", "pool", "small", "large", "larger", "optimizer"]
    assert {m.device for m in found.values()} == {Device("CPU", 0)}
    assert found["larger"].median > 3 * found["small"].median
    assert found["optimizer"].median > 2 * found["small"].median
    assert all(map(np.array_equal, before, network.get_weights()))


def test_only_the_first_layer_computes_no_gradient_for_its_input(tf, network):
    """Nobody needs one for the pictures."""
    first = layers._forward_and_back(network.layers[0], 4, is_first=True)()
    later = layers._forward_and_back(network.layers[3], 4, is_first=False)()

    assert [g.shape for g in first[1]] == [(3, 3, 1, 2), (2,)]
    assert [g.shape for g in later[1]] == [(4, 18), (18, 3), (3,)]
