"""Count the work of a training step of any Keras model, layer by layer, from its layers and shapes alone.

Nothing is computed and nothing is traced, so that counting takes milliseconds. See `pieces` for what is counted.
"""

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

from helpers import pieces
from helpers.errors import ParameterError
from helpers.examples import is_whole
from helpers.pieces import Piece

FLOAT = 4  # bytes of a float32

# For each optimizer: (operations on few numbers, passes over all numbers of a variable, numbers kept for each).
# Counted in the graphs of Keras 3.15.
OPTIMIZERS = {
    "SGD": (2, 2, 0),
    "RMSprop": (4, 9, 1),
    "Adagrad": (3, 6, 1),
    "Adadelta": (6, 14, 2),
    "Adam": (10, 12, 2),
    "AdamW": (11, 14, 2),
    "Adamax": (8, 10, 2),
    "Nadam": (18, 15, 2),
}
DROPOUTS = ("keras", "bytes", "none")
FUSED = (9, 1, 2)  # `fused.adam`: one operation, and the powers that it wants
_FOUND = weakref.WeakKeyDictionary()  # models that are neither Sequential nor functional, as graphs of layers
LOSS = 30  # operations of a loss and its gradient: counted in the graph of a cross-entropy


@dataclass(frozen=True)
class LayerWork:
    """What one layer asks for in one training step."""

    name: str
    kind: str  # the class of the layer: "Dense"
    output: tuple[int, ...]  # with the batch
    parameters: int
    forward: tuple[Piece, ...]
    back: tuple[Piece, ...]
    known: bool  # False: estimated from the shapes

    @property
    def results(self) -> float:
        """How many values are kept for the way back: the output, or more where there is a loop or attention inside."""
        if self.kind in ("Flatten", "Reshape", "Identity", "ConvertToTensor"):
            return 0  # the same values under another shape
        inner = sum(piece.starts * piece.result for piece in self.forward if "product" in piece.kind)
        return max(math.prod(self.output), inner)

    @property
    def flop_forward(self) -> float:
        return sum(piece.starts * piece.flop for piece in self.forward)

    @property
    def flop_back(self) -> float:
        return sum(piece.starts * piece.flop for piece in self.back)

    @property
    def bytes(self) -> float:
        """What its operations read and write, there and back."""
        return FLOAT * sum(piece.values for piece in self.forward + self.back)

    @property
    def starts(self) -> int:
        """How many operations are started, there and back."""
        return sum(piece.starts for piece in self.forward + self.back)


@dataclass(frozen=True)
class Work:
    """What one training step of a model asks for."""

    name: str
    batch: int
    layers: tuple[LayerWork, ...]
    rest: tuple[Piece, ...]  # the loss and the optimizer
    input_values: int  # of the batch
    outputs: int  # values of the batch
    variables: int  # that learn
    trainable: int  # parameters in them
    frozen: int
    kept: int  # numbers that the optimizer keeps for each parameter

    @property
    def pieces(self) -> Iterator[Piece]:
        for layer in self.layers:
            yield from layer.forward
            yield from layer.back
        yield from self.rest

    @property
    def flop(self) -> float:
        return sum(piece.starts * piece.flop for piece in self.pieces)

    @property
    def bytes(self) -> float:
        return FLOAT * sum(piece.values for piece in self.pieces)

    @property
    def starts(self) -> int:
        return sum(piece.starts for piece in self.pieces)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The layers that were estimated from their shapes, by kind."""
        return tuple(dict.fromkeys(layer.kind for layer in self.layers if not layer.known))

    @property
    def memory(self) -> float:
        """About how many bytes training needs: parameters, gradients, what the optimizer keeps, and all outputs.

        The outputs are kept for the way back. The largest gradient stands beside them.
        """
        results = [layer.results for layer in self.layers]
        parameters = self.trainable * (2 + self.kept) + self.frozen
        return FLOAT * (parameters + self.input_values + sum(results) + 2 * max(results, default=0))


def of(model, batch: int, *, optimizer: str = "Adam", fused_adam: bool = False, dropout: str = "keras") -> Work:
    """Return the work of a training step on `batch` examples.

    `dropout` is that of `tasks.compiled`: "keras", "bytes", "none". Raise `ParameterError` for a batch below 1, a
    model without shapes, shapes that depend on the data, and an optimizer that is not known.
    """
    if not is_whole(batch) or batch < 1:
        raise ParameterError(
            f"batch = {batch!r} is not possible.", "Accepted is a whole number from 1.", "Correct it and try again."
        )
    if dropout not in DROPOUTS:
        raise ParameterError(
            f"dropout = {dropout!r} is not possible.", f"Accepted are {', '.join(DROPOUTS)}.", "Correct it."
        )
    if optimizer not in OPTIMIZERS:
        raise ParameterError(
            f"The optimizer {optimizer!r} is not known here.",
            f"Accepted are {', '.join(OPTIMIZERS)}.",
            "Take the one that is most like yours.",
        )
    functional = _functional(model)
    layers = tuple(_layers(functional, int(batch), dropout))
    trainable = [math.prod(variable.shape) for variable in model.trainable_variables]
    frozen = model.count_params() - sum(trainable)
    outputs = sum(math.prod(_shape(tensor, batch)) for tensor in functional.outputs)
    inputs = sum(math.prod(_shape(tensor, batch)) for tensor in functional.inputs)
    small, passes, kept = FUSED if fused_adam else OPTIMIZERS[optimizer]
    rest = [pieces.stream(2 * outputs, outputs, LOSS)]
    for size in trainable:
        if fused_adam:
            rest += [pieces.stream(4 * size, 3 * size, kind="update"), pieces.small(small)]
        else:
            rest += [pieces.stream(1.5 * size, size, passes), pieces.small(small)]
    return Work(
        model.name, int(batch), layers, tuple(rest), inputs, outputs, len(trainable), sum(trainable), frozen, kept
    )


def _functional(model):
    """Return the model as a graph of layers, which Keras keeps for Sequential and functional models."""
    import keras

    if isinstance(model, keras.Sequential):
        model = model._functional or model
    if hasattr(model, "_nodes_by_depth"):
        return model
    if not getattr(model, "built", False) or not getattr(model, "_build_shapes_dict", None):
        raise ParameterError(
            f"{getattr(model, 'name', model)!r} has no shapes yet.",
            "Accepted is a Keras model that knows the shape of its input.",
            "Begin it with keras.Input(shape), or call it once on a batch.",
        )
    if model in _FOUND:
        return _FOUND[model]
    shapes = model._build_shapes_dict
    try:
        shape = shapes.get("input_shape") or next(iter(shapes.values()))
        inputs = keras.tree.map_shape_structure(lambda each: keras.Input(each[1:]), shape)
        _FOUND[model] = keras.Model(inputs, model.call(inputs))
        return _FOUND[model]
    except Exception as error:  # the user's own code may raise anything
        raise ParameterError(
            f"The layers of {model.name} cannot be listed: its call() says {str(error).strip().splitlines()[0]}",
            "Accepted are Sequential and functional models, and others whose call() only calls layers.",
            "Build it from keras.Input and layers: keras.Model(inputs, outputs).",
        ) from error


def _layers(model, batch: int, dropout: str, gradients: set | None = None) -> Iterator[LayerWork]:
    """Yield the work of every call of a layer, in order.

    `gradients` holds the tensors for which a gradient is needed: those after the first layer that learns.
    """
    gradients = set() if gradients is None else gradients
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            if node.is_input:
                continue
            layer, back = node.operation, any(id(tensor) in gradients for tensor in node.input_tensors)
            learns = bool(getattr(layer, "trainable_variables", ()))
            if learns or back:
                gradients |= {id(tensor) for tensor in node.outputs}
            inner = getattr(layer, "_functional", layer)
            if hasattr(inner, "_nodes_by_depth"):
                inner = _with_shapes(inner, node.input_tensors)
                yield from _layers(inner, batch, dropout, {id(t) for t in inner.inputs} if back else set())
            else:
                yield _work(layer, node, batch, dropout, learns, back)


def _with_shapes(inner, tensors: list):
    """Return an inner model for the shapes that it is called with: its own may be open, as in keras.applications."""
    import keras

    if all(None not in tensor.shape[1:] for tensor in inner.inputs):
        return inner
    inputs = [keras.Input(tensor.shape[1:], dtype=tensor.dtype) for tensor in tensors]
    return keras.Model(inputs, inner.call(inputs if len(inputs) > 1 else inputs[0]))


def _work(layer, node, batch: int, dropout: str, learns: bool, back: bool) -> LayerWork:
    kind = type(layer).__name__
    _require_usual(layer)
    shapes = [_shape(tensor, batch) for tensor in node.input_tensors]
    output = _shape(node.outputs[0], batch)
    if kind == "Dropout" and dropout == "bytes":
        count = pieces.byte_dropout
    elif kind == "Dropout" and dropout == "none":
        count = pieces.nothing
    else:
        count = pieces.LAYERS.get(kind, pieces.unknown)
    found = count(layer, shapes, output)
    parameters = sum(math.prod(variable.shape) for variable in getattr(layer, "weights", ()))
    on_the_way_back = (
        *(found.through if learns or back else ()),
        *(found.weights if learns else ()),
        *(found.input if back else ()),
    )
    known = found.known and kind in pieces.LAYERS
    return LayerWork(layer.name, kind, output, parameters, found.forward, on_the_way_back, known)


def _require_usual(layer) -> None:
    """Raise for what would be counted wrongly in silence."""
    dtype, order = getattr(layer, "compute_dtype", None) or "float32", getattr(layer, "data_format", "channels_last")
    if dtype in ("float16", "bfloat16", "float64"):
        raise ParameterError(
            f"{layer.name} computes in {dtype}.",
            "Predictions are for models in float32.",
            "Build the model with keras.config.set_dtype_policy('float32').",
        )
    if order == "channels_first":
        raise ParameterError(
            f"{layer.name} has its channels first.",
            "Predictions are for channels last, which is Keras' default.",
            "Build the model with keras.config.set_image_data_format('channels_last').",
        )


def _shape(tensor, batch: int) -> tuple[int, ...]:
    if not tensor.shape:
        return ()
    _, *others = tensor.shape
    if None in others:
        raise ParameterError(
            f"The shape {tuple(tensor.shape)} of {tensor.name} depends on the data.",
            "Accepted are models whose shapes are fixed, but for the batch.",
            "Give keras.Input every length: keras.Input((200, 8)), not keras.Input((None, 8)).",
        )
    return (batch, *others)
