"""The work of a training step: by hand, against Keras and TensorFlow, and for models of every make."""

import math
import time

import keras
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keras import layers

from helpers import counting, fused, models, pieces, work
from helpers.errors import ParameterError
from helpers.pieces import Piece

WEIGHTS = {"product_weights", "convolution_weights", "sum"}  # gradients for a kernel, and for a bias


def dense_model(*units: int, features: int = 3, **options):
    """Return a chain of Dense layers."""
    return keras.Sequential([keras.Input((features,)), *(layers.Dense(count, **options) for count in units)])


def flop(found) -> float:
    """Return the flop of some pieces."""
    return sum(piece.starts * piece.flop for piece in found)


def kinds_back(layer) -> list[str]:
    """Return the kinds of a layer's pieces on the way back."""
    return [piece.kind for piece in layer.back]


def refusal(model, *arguments, **options) -> str:
    """Return the words of a `ParameterError`."""
    with pytest.raises(ParameterError) as caught:
        work.of(model, *arguments, **options)
    assert len(caught.value.args) == 3
    return str(caught.value)


def test_a_dense_layer_by_hand():
    """Two examples of three values into four units with ReLU; it stands first, so its input needs no gradient."""
    (layer,) = work.of(dense_model(4, activation="relu"), 2).layers

    assert layer.parameters == 3 * 4 + 4
    assert layer.output == (2, 4)
    assert layer.forward == (
        Piece("product", 1, 48, (6, 12, 8)),  # (2, 3) @ (3, 4): 2 · 2 · 3 · 4 flop
        Piece("stream", 1, 12, (12, 8), in_place=True),  # reads 8 sums and 4 biases
        Piece("stream", 1, 8, (8, 8), in_place=True),  # ReLU
    )
    assert layer.back == (
        Piece("stream", 1, 16, (16, 8), in_place=True),  # reads 8 gradients and 8 outputs
        Piece("sum", 1, 8, (8, 4)),  # over the examples: the gradient of the biases
        Piece("product_weights", 1, 48, (6, 8, 12)),  # (3, 2) @ (2, 4)
    )
    assert layer.flop_forward == 48 + 12 + 8
    assert layer.flop_back == 16 + 8 + 48
    assert layer.starts == 6
    assert layer.bytes == 4 * ((6 + 12 + 8) + (12 + 8) + (8 + 8) + (16 + 8) + (8 + 4) + (6 + 8 + 12)) == 496


def test_a_convolution_by_hand():
    """Two pictures of 4 × 4 pixels and 3 channels; 5 filters of 3 × 3 fit into 2 × 2 places. It stands second."""
    model = keras.Sequential([keras.Input((4, 4, 3)), layers.Conv2D(3, 1), layers.Conv2D(5, 3, activation="relu")])
    # input: 2 · 4 · 4 · 3 values; kernel: 3 · 3 · 3 · 5; output: 2 · 2 · 2 · 5; windows: 2 · 2 · 2 of 3 · 3 · 3
    sizes = (96, 135, 40, 216)
    product = 2 * 40 * 27  # flop: each of 40 outputs is a sum of 27 terms

    _, layer = work.of(model, 2).layers

    assert layer.parameters == 135 + 5
    assert layer.forward == (
        Piece("convolution", 1, product, sizes),
        Piece("stream", 1, 45, (45, 40), in_place=True),  # reads 40 sums and 5 biases
        Piece("stream", 1, 40, (40, 40), in_place=True),
    )
    assert layer.back == (
        Piece("stream", 1, 80, (80, 40), in_place=True),
        Piece("sum", 1, 40, (40, 5)),
        Piece("convolution_weights", 1, product, sizes),
        Piece("convolution_input", 1, product, sizes),
    )
    assert layer.flop_forward == 2160 + 45 + 40
    assert layer.flop_back == 80 + 40 + 2160 + 2160
    # the three convolutions touch 96 + 135 + 40 values each; their windows lie in the input
    assert layer.bytes == 4 * (3 * 271 + (45 + 40) + (40 + 40) + (80 + 40) + (40 + 5)) == 4572


def test_the_loss_and_adam_by_hand():
    """Adam passes 12 times over each variable, and does 10 operations on single numbers beside."""
    found = work.of(dense_model(4, activation="relu"), 2)

    loss, *adam = found.rest
    assert loss == Piece("stream", 30, 16, (16, 8))  # 8 outputs and as many labels
    assert adam == [
        Piece("stream", 12, 18, (18, 12)),  # 12 weights; a pass reads one array or two
        Piece("stream", 10, 1, (1, 1)),
        Piece("stream", 12, 6, (6, 4)),  # 4 biases
        Piece("stream", 10, 1, (1, 1)),
    ]
    assert (found.variables, found.trainable, found.frozen, found.kept) == (2, 16, 0, 2)
    assert found.flop == (68 + 72) + 30 * 16 + (12 * 18 + 10) + (12 * 6 + 10)
    assert found.bytes == 496 + 4 * (30 * 24 + 12 * 30 + 20 + 12 * 10 + 20)
    assert found.starts == 6 + 30 + 22 + 22
    # parameters, their gradients, two means for each; the input; the output, kept; and its gradient, twice
    assert found.memory == 4 * (16 * 4 + 6 + 8 + 2 * 8)


def test_fused_adam_is_one_operation_for_each_variable():
    """It reads the variable, both means and the gradient, and writes all but the gradient."""
    _, *adam = work.of(dense_model(4), 2, fused_adam=True).rest

    assert adam[0] == Piece("update", 1, 48, (48, 36))
    assert [piece.kind for piece in adam] == ["update", "stream", "update", "stream"]


def optimizer_graph(tf, optimizer, count: int):
    """Return the operations of an update of `count` variables of 1000 numbers, and the optimizer."""
    variables = [keras.Variable(np.ones(1000, "float32")) for _ in range(count)]
    optimizer.build(variables)
    update = tf.function(lambda *gradients: optimizer.apply(list(gradients), variables))
    graph = update.get_concrete_function(*[tf.TensorSpec((1000,))] * count).graph
    free = {"Const", "Placeholder", "Identity", "NoOp", "ReadVariableOp"}
    return [operation for operation in graph.get_operations() if operation.type not in free]


def touched(tf, operations) -> float:
    """Return how many arrays of 1000 numbers some operations read and write."""
    tensors = [tensor for operation in operations for tensor in (*operation.inputs, *operation.outputs)]
    return sum(math.prod(tensor.shape) for tensor in tensors if tensor.dtype != tf.resource) / 1000


@pytest.mark.parametrize("name", work.OPTIMIZERS)
def test_an_optimizer_does_what_its_graph_does(tf, name):
    """The second variable adds to the graph what each variable takes."""
    optimizer = getattr(keras.optimizers, name)()
    one, two = optimizer_graph(tf, getattr(keras.optimizers, name)(), 1), optimizer_graph(tf, optimizer, 2)
    kept = [variable for variable in optimizer.variables if math.prod(variable.shape) == 1000]

    (size,) = (piece for piece in work.of(dense_model(1, features=1000, use_bias=False), 1, optimizer=name).rest[1:2])
    small, passes, slots = work.OPTIMIZERS[name]

    assert small + passes == pytest.approx(len(two) - len(one), rel=0.2, abs=3)
    assert size.values / 1000 == pytest.approx(touched(tf, two) - touched(tf, one), rel=0.3, abs=2)
    assert slots == len(kept) / 2


def test_fused_adam_does_what_its_graph_does(tf):
    """One operation, and a few on single numbers."""
    one, two = (optimizer_graph(tf, fused.adam(0.001), count) for count in (1, 2))

    assert sum(operation.type == "ResourceApplyAdam" for operation in two) == 2
    assert work.FUSED[0] == pytest.approx(len(two) - len(one) - 1, abs=4)


@pytest.mark.parametrize("name", ["two_clouds", "bigger_network", "mnist_mlp", "mnist_cnn", "cifar_cnn"])
def test_flop_agree_with_the_profiler_and_with_keras(name):
    """Forward and back; activations and pooling, which the others do not count, come on top."""
    model = getattr(models, name)()
    counts = {count.name: count for count in counting.by_layer(model)}
    batch = 50

    found = work.of(model, batch)

    forward, back = (sum(getattr(each, part) for each in found.layers) for part in ("flop_forward", "flop_back"))
    apart = 2 * batch if name == "two_clouds" else 0  # one sigmoid for five flop
    assert forward == pytest.approx(counting.profiled_flop(model, (batch, *model.input_shape[1:])), rel=0.02, abs=apart)
    assert forward + back == pytest.approx(batch * counting.training_flop(model), rel=0.02, abs=3 * apart)
    for each in found.layers:
        products = [p for p in each.forward if "product" in p.kind or "convolution" in p.kind]
        bias = math.prod(each.output) if products else 0
        assert flop(products) + bias == batch * counts[each.name].flop
    assert [each.parameters for each in found.layers] == [layer.count_params() for layer in model.layers]
    assert found.trainable == model.count_params()


@pytest.mark.parametrize("name", ["bigger_network", "mnist_mlp", "mnist_cnn", "cifar_cnn"])
def test_memory_is_at_least_what_the_most_demanding_layer_needs(name):
    """`counting` looks at each layer of a chain in turn; this count takes all outputs, for models of every make."""
    model = getattr(models, name)()

    assert 0.97 <= work.of(model, 100).memory / counting.training_bytes(model, 100) < 1.5


def test_memory_grows_with_the_batch_in_a_straight_line():
    """What is left at a batch of none is parameters, gradients, and what the optimizer keeps."""
    model = models.mnist_mlp()

    one, two, three = (work.of(model, batch).memory for batch in (10, 20, 30))

    assert two - one == three - two > 0
    assert 2 * one - two == 4 * 4 * model.count_params()
    assert work.of(model, 10, optimizer="SGD").memory == one - 2 * 4 * model.count_params()


def test_only_the_first_layer_that_learns_needs_no_gradient_for_its_input():
    """Nobody learns from the data's own gradient."""
    model = keras.Sequential([keras.Input((4, 4, 3)), layers.Rescaling(2.0), layers.Flatten(), layers.Dense(4)])
    model.add(layers.Dense(2))

    scaled, _, first, second = work.of(model, 2).layers

    assert scaled.back == ()
    assert kinds_back(first) == ["sum", "product_weights"]
    assert kinds_back(second) == ["sum", "product_weights", "product_input"]


def test_a_frozen_layer_gets_no_gradient_for_its_weights_and_no_update():
    """The gradient passes through it to the layer before."""
    model = dense_model(4, 5, 2, activation="relu")
    model.layers[1].trainable = False

    found = work.of(model, 2)

    first, frozen, last = found.layers
    assert kinds_back(frozen) == ["stream", "product_input"]
    assert WEIGHTS & set(kinds_back(first)) and WEIGHTS & set(kinds_back(last))
    assert (found.variables, found.trainable, found.frozen) == (4, 16 + 12, 25)
    assert found.memory < work.of(dense_model(4, 5, 2), 2).memory


def test_nothing_goes_back_through_layers_that_are_frozen_from_the_beginning():
    """As in a network that was trained before and gets a new end."""
    model = dense_model(4, 5, 2, activation="relu")
    model.layers[0].trainable = model.layers[1].trainable = False

    *frozen, last = work.of(model, 2).layers

    assert [each.back for each in frozen] == [(), ()]
    assert kinds_back(last) == ["stream", "sum", "product_weights"]


def test_a_shared_layer_counts_once_for_each_call():
    """It computes twice, and is updated once."""
    inputs, shared = keras.Input((3,)), layers.Dense(3)
    once, twice = keras.Model(inputs, shared(inputs)), keras.Model(inputs, shared(shared(inputs)))

    found = work.of(twice, 2)

    first, second = found.layers
    assert first.forward == second.forward == work.of(once, 2).layers[0].forward
    assert kinds_back(first) == ["sum", "product_weights"]
    assert kinds_back(second) == ["sum", "product_weights", "product_input"]
    assert (found.variables, found.trainable) == (2, 12)


@pytest.mark.parametrize("make", [keras.Sequential, lambda chain: keras.Model(chain[0], chain[2](chain[1](chain[0])))])
def test_a_model_inside_a_model_counts_as_its_layers(make):
    """Sequential or functional; gradients pass into it."""
    inner = make([keras.Input((4,)), layers.Dense(5, activation="relu"), layers.Dense(6)])
    nested = keras.Sequential([keras.Input((3,)), layers.Dense(4), inner, layers.Dense(2)])
    flat = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dense(5, activation="relu")])
    flat.add(layers.Dense(6))
    flat.add(layers.Dense(2))

    found, expected = work.of(nested, 2), work.of(flat, 2)

    assert list(found.pieces) == list(expected.pieces)
    assert [each.output for each in found.layers] == [(2, 4), (2, 5), (2, 6), (2, 2)]


def test_a_functional_model_with_two_inputs():
    """Both ways are counted, and so are both inputs."""
    left, right = keras.Input((3,)), keras.Input((5,))
    joined = layers.Concatenate()([layers.Dense(4)(left), layers.Dense(4)(right)])
    model = keras.Model([left, right], [layers.Dense(2)(joined), layers.Dense(1)(joined)])

    found = work.of(model, 10)

    assert sorted(each.kind for each in found.layers) == ["Concatenate"] + ["Dense"] * 4
    assert (found.input_values, found.outputs, found.trainable) == (80, 30, model.count_params())
    (joins,) = (each for each in found.layers if each.kind == "Concatenate")
    assert [piece.sizes for piece in joins.forward] == [(80, 80)]


class Chain(keras.Model):
    """A model of its own class, whose call() only calls layers, or one operation of TensorFlow between them."""

    def __init__(self, between=lambda values: values):
        super().__init__()
        self.first, self.second = layers.Dense(4, activation="relu"), layers.Dense(2)
        self.between = between

    def call(self, inputs):
        return self.second(self.between(self.first(inputs)))


def test_a_model_of_its_own_class_counts_as_its_layers():
    """It has shapes once it was called."""
    model = Chain()
    model(np.ones((1, 3), "float32"))

    found = work.of(model, 2)

    assert [each.kind for each in found.layers] == ["Dense", "Dense"]
    assert list(found.pieces) == [
        *(piece for each in work.of(dense_model(4, activation="relu"), 2).layers for piece in each.forward + each.back),
        *(piece for piece in work.of(dense_model(2, features=4), 2).layers[0].forward),
        *work.of(keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dense(2)]), 2).layers[1].back,
        *found.rest,
    ]


def test_a_model_whose_layers_cannot_be_listed_is_refused_in_words(tf):
    """What TensorFlow computes by itself, Keras does not see."""
    model = Chain(between=tf.abs)
    model(np.ones((1, 3), "float32"))

    words = refusal(model, 2)

    assert f"layers of {model.name} cannot be listed: its call() says A KerasTensor cannot be used" in words
    assert "keras.Model(inputs, outputs)" in words


@pytest.mark.parametrize("make", [lambda: keras.Sequential([layers.Dense(4)]), Chain])
def test_a_model_without_shapes_is_refused_in_words(make):
    """Nobody knows how large its weights will be."""
    words = refusal(make(), 2)

    assert "has no shapes yet" in words and "keras.Input(shape)" in words


def test_a_length_that_depends_on_the_data_is_refused_in_words():
    """There is nothing to multiply."""
    model = keras.Sequential([keras.Input((None, 8)), layers.Dense(4)])

    words = refusal(model, 2)

    assert "(None, None, 8)" in words and "keras.Input((200, 8))" in words


@pytest.mark.parametrize("batch", [0, -3, True, 1.5, 8.0, "8", None, math.nan])
def test_a_batch_that_is_no_whole_number_above_0_is_refused_in_words(batch):
    """True counts as a slip, not as 1."""
    assert f"batch = {batch!r} is not possible. Accepted is a whole number from 1." in refusal(dense_model(1), batch)


def test_a_whole_number_of_numpy_is_a_batch():
    """It comes out of tables."""
    found = work.of(dense_model(1), np.int64(8))

    assert found.batch == 8 and type(found.batch) is int


@pytest.mark.parametrize("optimizer", ["adam", "Lion", "", None])
def test_an_optimizer_that_is_not_known_is_refused_in_words(optimizer):
    """The known ones are listed."""
    words = refusal(dense_model(1), 2, optimizer=optimizer)

    assert f"optimizer {optimizer!r}" in words and all(name in words for name in work.OPTIMIZERS)


def test_a_layer_that_is_not_known_is_estimated_and_named():
    """Its matrices are multiplied with every position; without matrices it touches its values a few times."""

    class Scaled(layers.Dense):
        pass

    model = keras.Sequential([keras.Input((3,)), Scaled(4), Scaled(2), layers.UnitNormalization(), layers.Dense(1)])

    found = work.of(model, 2)

    assert found.unknown == ("Scaled", "UnitNormalization")
    first, second, plain, _ = found.layers
    assert Piece("product", 1, 48, (6, 12, 8)) in first.forward
    assert {"product_weights", "product_input"} <= set(kinds_back(second))
    assert plain.flop_forward == 2 * 4 and {piece.kind for piece in plain.forward + plain.back} == {"stream"}


def test_an_activation_that_is_not_known_is_named_too():
    """It counts as tanh does."""
    odd, tanh = (work.of(dense_model(4, activation=name), 2) for name in ("hard_shrink", "tanh"))

    assert odd.unknown == ("Dense",) and tanh.unknown == ()
    assert odd.layers[0].forward == tanh.layers[0].forward


def test_cheaper_ways_cost_less():
    """Adam in one operation; four random numbers out of one; no dropout at all."""
    model = models.cifar_cnn()
    plain, adam, drawn, none = (
        work.of(model, 32, **options)
        for options in ({}, {"fused_adam": True}, {"dropout": "bytes"}, {"dropout": "none"})
    )

    assert adam.bytes < plain.bytes and adam.starts < plain.starts - 8 * 10
    assert plain.bytes > drawn.bytes > none.bytes and plain.starts > drawn.starts > none.starts
    assert none.layers[1].forward == none.layers[1].back == ()


def random_numbers(found) -> float:
    """Return how many values of random numbers are drawn."""
    return sum(piece.values for piece in found.pieces if piece.kind == "random")


def test_dropout_draws_a_number_for_each_value_or_for_every_four():
    """And a model that was changed by `fused` counts the same."""
    model = models.mnist_cnn()

    drawn = work.of(fused.with_dropout(model, "bytes"), 32)

    assert random_numbers(work.of(model, 32)) == 32 * 128
    assert random_numbers(drawn) == 32 * 128 / 4
    assert list(drawn.pieces) == list(work.of(model, 32, dropout="bytes").pieces)


def test_a_model_of_sixty_layers_is_counted_at_once():
    """Nothing is computed and nothing is traced."""
    model = dense_model(*[8] * 60)
    start = time.perf_counter()

    found = work.of(model, 32)

    assert time.perf_counter() - start < 0.5
    assert len(found.layers) == 60


KINDS_OF_LAYERS = {
    "dense": lambda n: layers.Dense(n, activation="gelu"),
    "convolution": lambda n: layers.Conv1D(n, 2, padding="same", activation="relu"),
    "attention": lambda n: layers.MultiHeadAttention(1, n),
    "lstm": lambda n: layers.LSTM(n, return_sequences=True),
    "normalisation": lambda n: layers.LayerNormalization(),
    "batch normalisation": lambda n: layers.BatchNormalization(),
    "dropout": lambda n: layers.Dropout(0.1 * n),
    "pooling": lambda n: layers.MaxPooling1D(2, padding="same"),
    "not known": lambda n: layers.UnitNormalization(),
}


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(KINDS_OF_LAYERS)), st.integers(1, 5)), max_size=3), st.integers(1, 99))
def test_flop_and_bytes_are_proportional_to_the_batch_but_for_a_fixed_part(chain, batch):
    """The fixed part is the update; no part is ever negative."""
    inputs = x = keras.Input((4, 3))
    for kind, size in chain:
        layer = KINDS_OF_LAYERS[kind](size)
        x = layer(x, x) if kind == "attention" else layer(x)
    model = keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))

    one, two, three = (work.of(model, times * batch) for times in (1, 2, 3))

    for what in ("flop", "bytes", "memory"):
        first, second, third = (getattr(found, what) for found in (one, two, three))
        assert third - second == pytest.approx(second - first, rel=1e-9)
        assert second - first > 0 and first >= second - first
    assert one.starts == two.starts == three.starts
    assert all(min(piece.starts, piece.flop, *piece.sizes, piece.result) >= 0 for piece in one.pieces)


def test_every_kind_of_layer_of_the_course_is_known():
    """Nothing in it has to be estimated."""
    names = ("two_clouds", "bigger_network", "mnist_mlp", "mnist_cnn", "cifar_cnn", "recurrent", "transformer")

    assert {name: work.of(getattr(models, name)(), 1).unknown for name in names} == dict.fromkeys(names, ())
    assert set(pieces.KINDS) >= {piece.kind for name in names for piece in work.of(getattr(models, name)(), 1).pieces}
