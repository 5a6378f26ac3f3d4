"""Checks of answers to the exercises from notebook 04 on. Each returns a hint, or a right `Reply`."""

import math
from collections.abc import Callable, Mapping

from helpers import counting, models, published
from helpers.replies import Reply, number
from helpers.training import Training


def _step_in_operations(answer) -> Reply | str:
    given, right = number(answer), 100 * counting.training_flop(models.mnist_mlp())
    if given is None:
        return "Give a number."
    if given == right:
        return Reply(True, f"Right: {right / 1e6:,.0f} million operations in every step.")
    if given == right / 100:
        return "That is for one digit."
    if given == 100 * sum(count.flop for count in counting.by_layer(models.mnist_mlp())):
        return "That is the way forward alone. Training goes back as well."
    return "Build the model with models.mnist_mlp(), count with counting.training_flop, and multiply by the batch."


def _bytes_of_adam(answer) -> Reply | str:
    given, right = number(answer), 7 * 4 * 795_010
    if given is None:
        return "Give a number."
    if given == right:
        return Reply(True, "Right. Divide by the bytes per second of your memory to see what that costs in every step.")
    if given == right / 4:
        return "That counts numbers. Each takes 4 bytes."
    if given in (4 * 4 * 795_010, 3 * 4 * 795_010):
        return "Add what is read and what is written."
    return "Four numbers are read for each weight and three are written. How many weights and biases are there?"


def _glorot_limit(answer) -> Reply | str:
    given, right = number(answer), (6 / (784 + 1000)) ** 0.5
    if given is None:
        return "Give a number."
    if abs(given - right) < 0.0006:
        return Reply(True, "Right. With standard deviation 1, as the chapter draws them, the weights are far larger.")
    if abs(given - (6 / (1000 + 10)) ** 0.5) < 0.001:
        return "That is the layer after it. This one has 784 inputs."
    if abs(given - right**2) < 0.0001:
        return "Take the square root."
    return "The layer has 784 inputs, one for each pixel, and 1000 outputs."


def _second_convolution(answer) -> Reply | str:
    given, places = number(answer), 14 * 14 * 36
    if given is None:
        return "Give a number."
    if given == places * 801:
        return Reply(True, "Right: 14 × 14 × 36 results, each with 400 weights that count twice, and a bias.")
    if given == places * 800:
        return "Every result has a bias, too."
    if given in (places * 401, places * 400):
        return "Each use of a weight takes a multiplication and an addition: two operations."
    if given == places * (2 * 25 + 1):
        return "Each window looks at 16 numbers per place, not at one."
    return "Multiply the results (places × windows) by the operations for one of them."


def _two_kinds(answer) -> Reply | str:
    given, right = number(answer), math.log(math.e + 1) - 1
    if given is None:
        return "Give a number."
    if abs(given - right) < 0.01:
        return Reply(True, "Right. With fewer kinds the level is lower, and the bug is harder to see.")
    if abs(given - (math.log(math.e + 9) - 1)) < 0.01:
        return "That is the level for ten kinds."
    if abs(given) < 0.001:
        return "Zero would need logits that are far apart. Here they are 1 and 0."
    return "Softmax of (1, 0) gives the right kind e / (e + 1). The loss is minus the logarithm of it."


def _larger_steps(answer) -> Reply | str:
    if not isinstance(answer, Training):
        return "Give what ways.fit returns."
    losses = answer.history.get("val_loss", [])
    if len(losses) < 2:
        return "Take the task of the notebook, with its validation digits, and at least two epochs."
    if losses[-1] < math.log(math.e + 9) - 1:
        return "That loss is below what softmax twice allows. Change the learning rate alone, not the model."
    return Reply(
        True,
        f"Right: {losses[-1]:.2f} on the validation digits so far. Larger steps learn faster, but the level stays: "
        "only the network without its own softmax gets below it.",
    )


def _smaller_dense_layer(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number."
    if given == (4 * 4 * 64 + 1) * 1024:
        return Reply(True, "Right: a quarter of what it has now. Most of the network's parameters would be gone.")
    if given == 4 * 4 * 64 * 1024:
        return "Every output has a bias, too."
    return "Every one of the 1024 outputs has a weight for each number that comes in. How many come in?"


def _hardest_class(answer) -> Reply | str:
    import numpy as np

    if not isinstance(answer, Mapping) or set(answer) != {"matrix", "class"}:
        return "Give a dict with the keys matrix and class."
    matrix, name = answer["matrix"], answer["class"]
    classes = published.CIFAR10.classes
    if not isinstance(matrix, np.ndarray) or matrix.shape != (10, 10):
        return "Take matrix as the notebook made it: ten rows of ten counts."
    if not isinstance(name, str) or name not in classes:
        return f"The class is one of {', '.join(classes)}."
    recognised = matrix.diagonal() / np.maximum(1, matrix.sum(axis=1))
    if recognised[classes.index(name)] == recognised.min():
        return Reply(True, f"Right: of each hundred, {recognised.min() * 100:.0f} are recognised.")
    if matrix.diagonal()[classes.index(name)] == matrix.diagonal().max():
        return "That is the one with the most. Which has the fewest?"
    return "Divide what lies on the diagonal by the sum of its row, and take the smallest."


def _random_numbers(answer) -> Reply | str:
    given, each = number(answer), 32 * 32 * 32 + 16 * 16 * 64 + 8 * 8 * 64 + 1024
    if given is None:
        return "Give a number."
    if given == 128 * each:
        return Reply(True, "Right: millions of random numbers in every step, and all are used once.")
    if given == each:
        return "That is for one picture. A batch has 128."
    return (
        "Add up the sizes of the four layers called dropout. Mind that each comes before a pooling layer or after one."
    )


def _times_faster(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number."
    if abs(given - 1 / 0.7) < 0.01:
        return Reply(True, "Right: what took 100 s takes 70 s, and 100 / 70 is 1.43.")
    if abs(given - 1.3) < 0.001:
        return "That would be 100 s against 77 s. What took 100 s now takes 70 s."
    if abs(given - 1 / 0.3) < 0.05:
        return "That would be 70 % less time."
    return "What took 100 s now takes 70 s. Divide."


def _with_fixed_cost(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number of seconds."
    if abs(given - 19.5) < 0.01:
        return Reply(True, "Right: 15 s stay, 45 s become 4.5 s. Three times faster, not ten.")
    if given == 6:
        return "The fixed cost does not get faster."
    if given == 21:
        return "Only what is not fixed is divided by ten: 60 - 15."
    return "Add what stays to a tenth of the rest."


def _best_possible(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number."
    if given == 4:
        return Reply(True, "Right: the fixed cost alone sets the limit. This is Amdahl's law.")
    if given == 15:
        return "That is the time in seconds. How many times shorter is it than 60 s?"
    return "With an infinitely fast GPU only the fixed cost is left. Compare it with 60 s."


CHECKS: dict[str, Callable] = {
    "04-1": _step_in_operations,
    "04-2": _bytes_of_adam,
    "04-3": _glorot_limit,
    "05-1": _second_convolution,
    "05-2": _two_kinds,
    "05-3": _larger_steps,
    "06-1": _smaller_dense_layer,
    "06-2": _hardest_class,
    "06-3": _random_numbers,
    "07-1": _times_faster,
    "07-2": _with_fixed_cost,
    "07-3": _best_possible,
}
