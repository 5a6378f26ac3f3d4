"""What a layer makes TensorFlow compute, against the graph that Keras and TensorFlow build for it."""

import math
from collections import Counter

import keras
import pytest
from keras import layers

from helpers import pieces, work
from helpers.pieces import Piece

# Operations that touch no values: they look, name, or change a shape.
FREE = {"Identity", "IdentityN", "ReadVariableOp", "Reshape", "Squeeze", "ExpandDims", "StopGradient", "Shape"}
FREE |= {"ShapeN", "StridedSlice", "BroadcastGradientArgs", "NoOp"}
CONSTANT = {"Const", "Placeholder"}
PRODUCTS = {"MatMul", "BatchMatMulV2", "Einsum", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"}
BATCH = 8
# name: a layer, the shape of its input, and how far its values may be from the graph's. The graph of dropout scales
# and shifts its random numbers, by 1 and 0: TensorFlow leaves that out when it runs. In that of attention, copies are
# hidden in its products.
LAYERS = {
    "dense": (lambda: layers.Dense(60, activation="relu"), (500,), 0.02),
    "dense by position": (lambda: layers.Dense(60, activation="relu"), (30, 48), 0.02),
    "convolution": (lambda: layers.Conv2D(6, 3, padding="same", activation="relu"), (12, 12, 8), 0.02),
    "layer normalisation": (layers.LayerNormalization, (30, 48), 0.1),
    "batch normalisation": (layers.BatchNormalization, (12, 12, 8), 0.2),
    "dropout": (lambda: layers.Dropout(0.3), (500,), 0.35),
    "attention": (lambda: layers.MultiHeadAttention(4, 12), (30, 48), 0.4),
    "gelu": (lambda: layers.Activation("gelu"), (500,), 0.2),
    "softmax": (lambda: layers.Activation("softmax"), (500,), 0.2),
    "tanh": (lambda: layers.Activation("tanh"), (500,), 0.02),
    "silu": (lambda: layers.Activation("silu"), (500,), 0.2),
    "pooling": (lambda: layers.MaxPooling2D(2), (12, 12, 8), 0.02),
}


def with_and_without(make, shape: tuple[int, ...]):
    """Return a model that ends in a layer, and the same model without it; weights stand before the layer in both."""
    inputs = keras.Input(shape)
    before = layers.Dense(shape[-1], use_bias=False)(inputs)
    layer = make()
    after = layer(before, before) if isinstance(layer, layers.MultiHeadAttention) else layer(before)
    return keras.Model(inputs, after), keras.Model(inputs, before)


def graph_of(tf, model):
    """Return the graph of a pass forward and back, and those of its operations whose results are needed."""

    def step(x, upstream):
        with tf.GradientTape() as tape:
            y = model(x, training=True)
        return y, tape.gradient(y, model.trainable_variables, output_gradients=upstream)

    shapes = [tf.TensorSpec((BATCH, *shape[1:])) for shape in (model.input_shape, model.output_shape)]
    graph = tf.function(step).get_concrete_function(*shapes).graph
    needed, left = set(), [tensor.op for tensor in graph.outputs] + list(graph.control_outputs)
    while left:
        operation = left.pop()
        if operation not in needed:
            needed.add(operation)
            left += [tensor.op for tensor in operation.inputs] + list(operation.control_inputs)
    return graph, needed


def values(tensor) -> float:
    """Return the size of a tensor in values of four bytes; what is no array of numbers has none."""
    known = tensor.shape.rank is not None and None not in tensor.shape
    return math.prod(tensor.shape) * tensor.dtype.size / 4 if known and tensor.dtype.size else 0


def counted(tf, model) -> Counter:
    """Return how many operations are started in the graph of a model, and what they read and write."""
    found = Counter()
    for operation in graph_of(tf, model)[1]:
        kind = "products" if operation.type in PRODUCTS else "others"
        found["not constant"] += operation.type not in CONSTANT
        if operation.type not in FREE | CONSTANT:
            found["computing"] += 1
            found[kind] += 1
            found[kind, "values"] += sum(map(values, [*operation.inputs, *operation.outputs]))
    return found


def in_graph(tf, make, shape: tuple[int, ...]) -> Counter:
    """Return what a layer adds to a graph."""
    model, before = (counted(tf, model) for model in with_and_without(make, shape))
    model.subtract(before)
    return model


def of_last_layer(make, shape: tuple[int, ...]) -> list[Piece]:
    """Return the pieces of a layer that stands after one that learns."""
    last = work.of(with_and_without(make, shape)[0], BATCH).layers[-1]
    return [*last.forward, *last.back]


def is_product(piece: Piece) -> bool:
    """Say whether a piece is one of those that the graph has in `PRODUCTS`."""
    return "product" in piece.kind or "convolution" in piece.kind


@pytest.mark.parametrize(("make", "shape", "near"), LAYERS.values(), ids=list(LAYERS))
def test_a_layer_reads_and_writes_what_its_graph_does(tf, make, shape, near):
    """Exactly as many products and as large; of the rest, as many values."""
    graph = in_graph(tf, make, shape)

    found = of_last_layer(make, shape)

    products, others = ([p for p in found if is_product(p) is which] for which in (True, False))
    assert sum(piece.starts for piece in products) == graph["products"]
    assert sum(piece.values for piece in products) == pytest.approx(graph["products", "values"], rel=0.02)
    assert sum(piece.values for piece in others) == pytest.approx(graph["others", "values"], rel=near)


@pytest.mark.parametrize(("make", "shape"), [row[:2] for row in LAYERS.values()], ids=list(LAYERS))
def test_a_layer_starts_as_many_operations_as_its_graph(tf, make, shape):
    """At least all that compute; at most all but the constants."""
    graph = in_graph(tf, make, shape)

    starts = sum(piece.starts for piece in of_last_layer(make, shape))

    assert 0.8 * graph["computing"] <= starts <= 1.2 * graph["not constant"]


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "SimpleRNN"])
def test_a_recurrent_layer_starts_the_operations_of_its_loops_once_a_step(tf, kind):
    """TensorFlow runs a loop by three more operations for each variable that it carries."""
    steps, keep = 7, {} if kind == "SimpleRNN" else {"use_cudnn": False}
    shape, make = (steps, 20), lambda: getattr(layers, kind)(12, **keep)
    graph, needed = graph_of(tf, with_and_without(make, shape)[0])
    library = {function.signature.name: function for function in graph.as_graph_def().library.function}
    loops = [operation for operation in needed if "While" in operation.type]
    turns = [library[loop.get_attr(part).name] for loop in loops for part in ("body", "cond")]
    nodes = [node.op for turn in turns for node in turn.node_def]
    carried = sum(len(loop.inputs) for loop in loops)

    found = of_last_layer(make, shape)

    a_step = sum(piece.starts for piece in found if piece.starts % steps == 0) / steps
    assert sum(piece.starts for piece in found if is_product(piece)) == steps * nodes.count("MatMul")
    assert sum(node not in FREE | CONSTANT for node in nodes) <= a_step
    assert a_step <= sum(node not in CONSTANT for node in nodes) + 3 * carried


@pytest.mark.parametrize(
    ("make", "shape", "flop"),
    [
        # (8 · 30, 48) @ (48, 60), three times: forward, for the weights, for the input
        (lambda: layers.Dense(60), (30, 48), 3 * 2 * 8 * 30 * 48 * 60),
        # 8 · 6 · 6 positions of windows of 3 · 5 · 4 values, in two groups; 10 filters
        (lambda: layers.Conv2D(10, (3, 5), 2, "same", groups=2), (12, 12, 8), 3 * 2 * 8 * 6 * 6 * 3 * 5 * 4 * 10),
        (lambda: layers.Conv1D(10, 3), (12, 8), 3 * 2 * 8 * 10 * 3 * 8 * 10),
        # 8 · 10 · 10 positions: windows of 3 · 3 in each of 8 channels by itself, then 8 channels to 10
        (lambda: layers.SeparableConv2D(10, 3), (12, 12, 8), 3 * 2 * 8 * 100 * (3 * 3 * 8 + 8 * 10)),
        # in each of 7 steps 4 gates of 12 units, from 20 values and from the 12 units of the step before
        (lambda: layers.LSTM(12), (7, 20), 3 * 7 * 2 * 8 * (20 + 12) * 48),
        (lambda: layers.GRU(12), (7, 20), 3 * 7 * 2 * 8 * (20 + 12) * 36),
        # 4 heads of 12: four products by 48 × 48 weights, two between all pairs of 30 positions
        (lambda: layers.MultiHeadAttention(4, 12), (30, 48), 3 * 8 * 2 * (4 * 30 * 48 * 48 + 2 * 30 * 30 * 48)),
    ],
    ids=["dense", "convolution", "convolution in a row", "separable", "lstm", "gru", "attention"],
)
def test_products_take_the_flop_that_a_calculation_by_hand_gives(make, shape, flop):
    """A multiplication and an addition for each term, and on the way back twice as many."""
    found = of_last_layer(make, shape)

    assert sum(piece.starts * piece.flop for piece in found if is_product(piece)) == flop


@pytest.mark.parametrize("groups", [1, 2])
def test_the_windows_of_a_convolution_hold_all_channels(groups):
    """8 · 10 · 10 places of 3 · 3 windows with 8 channels, whichever filters look at them."""
    found = of_last_layer(lambda: layers.Conv2D(6, 3, groups=groups), (12, 12, 8))

    windows = {piece.sizes[3] for piece in found if is_product(piece)}
    assert windows == {8 * 10 * 10 * 3 * 3 * 8}


@pytest.mark.parametrize(
    ("kind", "result"),
    [("product", 30), ("convolution", 30), ("convolution_input", 10), ("convolution_weights", 20), ("update", 0)],
)
def test_the_result_of_a_piece_is_what_it_writes_into_new_memory(kind, result):
    """The gradient for an input is as large as the input; a variable is updated where it is."""
    piece = Piece(kind, 2, 100, (10, 20, 30, 90))

    assert piece.result == result
    assert piece._replace(in_place=True).result == 0
    assert piece.values == 2 * (10 + 20 + 30)  # windows are no values of their own


def test_an_activation_works_in_the_memory_of_what_it_is_applied_to():
    """Nobody needs the sums any more; the products have memory of their own."""
    found = of_last_layer(*LAYERS["dense"][:2])

    assert [piece.kind for piece in found if piece.result] == ["product", "sum", "product_weights", "product_input"]


@pytest.mark.parametrize("rate", [0, 0.5])
def test_dropout_without_a_rate_costs_nothing(rate):
    """Keras leaves the layer out."""
    found = of_last_layer(lambda: layers.Dropout(rate), (500,))

    assert bool(found) == bool(rate)


def test_a_layer_that_only_changes_a_shape_costs_nothing():
    """Its values stay where they are."""
    assert of_last_layer(layers.Flatten, (12, 8)) == []


def test_every_piece_has_the_sizes_of_its_kind():
    """`KINDS` names them."""
    found = [piece for make, shape, _ in LAYERS.values() for piece in of_last_layer(make, shape)]

    assert {piece.kind for piece in found} <= set(pieces.KINDS)
    assert all(len(piece.sizes) == len(pieces.KINDS[piece.kind].split(", ")) for piece in found)
