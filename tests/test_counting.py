"""Counts of parameters, operations and bytes, against Keras and TensorFlow's profiler."""

import keras
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers

from helpers import counting, memory, models
from helpers.errors import ParameterError


def test_every_layer_of_the_bigger_network_agrees_with_the_profiler():
    """Operations layer by layer and in total; parameters as in Keras' summary."""
    network = models.bigger_network()

    counts = counting.by_layer(network)

    for count, layer in zip(counts, network.layers, strict=True):
        assert count.flop == counting.profiled_flop(layer, (1, *layer.input.shape[1:]))
        assert count.parameters == layer.count_params()
    assert sum(count.parameters for count in counts) == network.count_params() == 252_219
    assert sum(count.flop for count in counts) == counting.profiled_flop(network, (1, 66, 200, 3)) == 53_859_717


def test_training_takes_three_times_the_operations_less_one_gradient(tf):
    """For dense layers, the profiler's count of the real gradients agrees but for loss and biases."""
    network = keras.Sequential([keras.Input((10,)), layers.Dense(6, use_bias=False), layers.Dense(1, use_bias=False)])

    def gradients(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(network(x))
        return tape.gradient(loss, network.trainable_variables)

    profiled = counting.profiled_flop(gradients, (1, 10))

    assert counting.training_flop(network) == 3 * (120 + 12) - 120
    assert counting.training_flop(network) == pytest.approx(profiled, abs=10)


@settings(max_examples=10, deadline=None)
@given(
    filters=st.integers(1, 5),
    kernel=st.sampled_from([1, 2, 3, (2, 3)]),
    strides=st.sampled_from([1, 2]),
    padding=st.sampled_from(["valid", "same"]),
    use_bias=st.booleans(),
)
def test_convolutions_of_every_kind_agree_with_the_profiler(filters, kernel, strides, padding, use_bias):
    """Windows that are not square, strides, padding, no bias."""
    options = {"strides": strides, "padding": padding, "use_bias": use_bias}
    network = keras.Sequential([keras.Input((7, 9, 3)), layers.Conv2D(filters, kernel, **options)])

    (count,) = counting.by_layer(network)

    assert count.flop == counting.profiled_flop(network, (1, 7, 9, 3))
    assert count.parameters == network.count_params()


def test_a_layer_whose_formula_is_missing_is_named():
    """No count is better than a count that leaves something out."""
    network = keras.Sequential([keras.Input((4, 2)), layers.LSTM(3, name="memory")])

    with pytest.raises(ParameterError, match=r"operations of a LSTM layer \(memory\) are not known"):
        counting.by_layer(network)


def test_the_memory_of_a_step_is_counted():
    """Weights four times; for each example what the most demanding layer needs on the way back."""
    network = keras.Sequential([keras.Input((10,)), layers.Dense(6), layers.Dense(2)])
    first_layer = 10 + 6 + 6  # its input, its output, the gradient of its output
    second_layer = 10 + 6 + 2 + 2 + 6  # all outputs, and the gradients at both of its ends

    assert counting.training_bytes(network, 0) == 4 * 4 * (66 + 14)
    assert counting.training_bytes(network, 5) - counting.training_bytes(network, 0) == 5 * 4 * second_layer
    assert second_layer > first_layer


@pytest.mark.alone
def test_the_count_is_near_what_a_step_takes(tf):
    """A step of the bigger network, without its pictures, which are there before it begins."""
    network, batch = models.bigger_network(), 192
    network.compile("adam", "mean_squared_error", jit_compile=False)
    x, y = tf.ones((batch, 66, 200, 3)), tf.ones((batch, 1))
    network.train_on_batch(x, y)  # traces, and makes the variables of Adam

    measured = memory.peak_bytes(lambda: network.train_on_batch(x, y), "CPU:0")

    assert 0.6 < measured / (counting.training_bytes(network, batch) - 4 * batch * 66 * 200 * 3) < 1.7


def test_the_largest_batch_just_fits():
    """One more example does not; and nothing fits where not even the weights do."""
    network = models.bigger_network()

    largest = counting.largest_batch(network, 10**9)

    assert counting.training_bytes(network, largest) <= 10**9 < counting.training_bytes(network, largest + 1)
    assert counting.largest_batch(network, 1000) == 0
