"""Fused parts of a step: the same Adam, and dropout that drops the same share, from fewer random numbers."""

import keras
import numpy as np
import pytest

from helpers import fused

DROPOUT = keras.layers.Dropout


def network(rate=0.25, **options):
    return keras.Sequential([keras.Input((1000,)), DROPOUT(rate, seed=3, **options), keras.layers.Dense(2)])


def twenty_steps(tf, optimizer, jit_compile) -> list[np.ndarray]:
    draw = np.random.default_rng(0)
    variables = [keras.Variable(np.ones((3, 4), "float32")), keras.Variable(2.0)]
    optimizer.build(variables)
    apply = tf.function(lambda *gradients: optimizer.apply(list(gradients), variables), jit_compile=jit_compile)
    for number in range(20):
        if number == 10:
            optimizer.learning_rate.assign(0.01)
        apply(*(tf.constant(draw.normal(size=variable.shape), "float32") for variable in variables))
    assert int(optimizer.iterations) == 20
    return [variable.numpy() for variable in variables]


@pytest.mark.parametrize("jit_compile", [False, True])
def test_adam_in_one_operation_is_kerass_adam(tf, jit_compile):
    """Twenty steps along the same gradients, for a matrix and a scalar, with a rate that changes."""
    theirs, ours = (twenty_steps(tf, make(0.05), jit_compile) for make in (keras.optimizers.Adam, fused.adam))

    for expected, found in zip(theirs, ours, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert abs(found - 1).max() > 0.1  # they went somewhere


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.2, 0.003])
def test_bytes_drop_the_share_that_is_asked_for(tf, rate):
    """Within four standard deviations; what is kept is made larger, so that the mean stays."""
    layer = fused.with_dropout(network(rate), "bytes").layers[0]
    ones = tf.ones((300, 1000))

    out = layer(ones, training=True).numpy()

    dropped = float((out == 0).mean())
    assert dropped == pytest.approx(rate, abs=4 * (rate * (1 - rate) / out.size) ** 0.5)
    assert out[out != 0] == pytest.approx(1 / (1 - rate))


def test_values_are_dropped_one_by_one_and_anew_each_time(tf):
    """Four values share a random number of 32 bits, but not their fate."""
    layer = fused.with_dropout(network(0.5), "bytes").layers[0]
    ones = tf.ones((300, 1000))

    first, second = (layer(ones, training=True).numpy() != 0 for _ in range(2))

    for shift in (1, 2, 3, 4):
        assert np.mean(first[:, shift:] == first[:, :-shift]) == pytest.approx(0.5, abs=0.01)
    assert np.mean(first == second) == pytest.approx(0.5, abs=0.01)


def test_the_same_seed_drops_the_same(tf):
    """A run can be repeated."""
    ones = tf.ones((3, 1000))

    one, other = (fused.with_dropout(network(), "bytes").layers[0](ones, training=True) for _ in range(2))

    np.testing.assert_array_equal(one, other)


def test_nothing_is_dropped_when_nothing_is_learnt(tf):
    """Nor with "none", where training uses every value."""
    ones = tf.ones((2, 1000))

    np.testing.assert_array_equal(fused.with_dropout(network(), "bytes").layers[0](ones, training=False), ones)
    np.testing.assert_array_equal(fused.with_dropout(network(), "none").layers[0](ones, training=True), ones)


@pytest.mark.parametrize("kind", ["bytes", "none"])
def test_all_other_layers_are_shared(kind):
    """What one learns, the other knows."""
    model = network()

    twin = fused.with_dropout(model, kind)

    assert twin.layers[1] is model.layers[1]
    assert twin.layers[0] is not model.layers[0] and isinstance(twin.layers[0], DROPOUT)


def test_dropout_with_a_shape_of_its_own_is_left_as_it_is():
    """It drops whole columns, which bytes for single values would not do."""
    model = network(noise_shape=(1, 1000))

    assert fused.with_dropout(model, "bytes").layers[0] is model.layers[0]
