"""The networks of the course together with what they learn, each under one name.

Notebooks with one network put their own task together, in sight of the reader; this is for those that go
through all of them, and for the benchmarks.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from helpers import datasets, models, published
from helpers.errors import ParameterError
from helpers.tasks import Task


@dataclass(frozen=True)
class Workload:
    """One of the course's trainings."""

    title: str
    batch_size: int  # as published; the question's bigger network names none, so it gets the one of CIFAR-10
    examples: int  # as published; of the generated roads as many as the course uses
    model: Callable  # returns a fresh Keras model
    make: Callable  # (limit) -> Task

    def task(self, limit: int | None = None) -> Task:
        """Return what is to be learnt, from the first `limit` examples; None takes all."""
        return self.make(self.examples if limit is None else limit)


def _two_clouds(points: int) -> Task:
    return Task(
        datasets.two_clouds(points),
        models.two_clouds,
        "binary_crossentropy",
        0.1,
        ("accuracy",),
        models.two_clouds_loss_by_column,
    )


def _digits(model: Callable, limit: int) -> Task:
    data = datasets.load("mnist", limit)
    return Task(data.train, model, models.cross_entropy, 1e-3, ("accuracy",), test=data.test)


def _cifar_cnn(limit: int) -> Task:
    data = datasets.load("cifar10", limit)
    loss = "sparse_categorical_crossentropy"
    return Task(data.train, models.cifar_cnn, loss, 1e-3, ("accuracy",), test=data.test)


def _bigger_network(pictures: int) -> Task:
    return Task(datasets.road_images(pictures), models.bigger_network, "mean_squared_error", 1e-3)


_MENDED_CNN = partial(models.mnist_cnn, softmax=False)  # with the larger steps of notebook 05
_DIGITS = len(published.MNIST.train)

KNOWN = {
    "two_clouds": Workload("two clouds", 100_000, datasets.PUBLISHED_POINTS, models.two_clouds, _two_clouds),
    "mnist_mlp": Workload("MNIST MLP", 100, _DIGITS, models.mnist_mlp, partial(_digits, models.mnist_mlp)),
    "mnist_cnn": Workload("MNIST CNN", 100, _DIGITS, _MENDED_CNN, partial(_digits, _MENDED_CNN)),
    "cifar_cnn": Workload("CIFAR CNN", 128, len(published.CIFAR10.train), models.cifar_cnn, _cifar_cnn),
    "bigger_network": Workload("bigger network", 128, 512, models.bigger_network, _bigger_network),
    "recurrent": Workload("recurrent", 100, _DIGITS, models.recurrent, partial(_digits, models.recurrent)),
    "transformer": Workload("transformer", 100, _DIGITS, models.transformer, partial(_digits, models.transformer)),
}


def find(name: str) -> Workload:
    """Return the workload of this name, or raise `ParameterError`."""
    if name not in KNOWN:
        raise ParameterError(
            f"There is no workload {name!r}.", f"Accepted are {', '.join(KNOWN)}.", "Correct the name."
        )
    return KNOWN[name]
