"""The published sets of pictures: what they look like, how the chapter cuts them, where they are to be had."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Images:
    """What a published set of pictures looks like, and where it is published."""

    name: str
    shape: tuple[int, int, int]  # height, width, colours
    classes: tuple[str, ...]
    label_counts: Mapping[str, tuple[int, ...]]  # how often each class occurs in "train" and in "test"
    train: range  # rows of the published training part that are trained with; the rest is for validation
    validation: range
    url: str
    sha256: str  # of the file behind the URL, as Keras 3.15 has it
    title: str

    def examples(self, part: str) -> int:
        return sum(self.label_counts[part])

    @property
    def file(self) -> str:
        """The name of the published file."""
        return self.url.rpartition("/")[2]


MNIST = Images(
    name="mnist",
    shape=(28, 28, 1),
    classes=tuple("0123456789"),
    label_counts={
        "train": (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
        "test": (980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009),
    },
    # as TensorFlow 1's own reader, which the chapter uses, cut it
    train=range(5_000, 60_000),
    validation=range(5_000),
    url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
    sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    title="MNIST, handwritten digits (Y. LeCun, C. Cortes, C. Burges)",
)
CIFAR10 = Images(
    name="cifar10",
    shape=(32, 32, 3),
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    label_counts={"train": (5000,) * 10, "test": (1000,) * 10},
    train=range(40_000),  # Keras' validation_split takes the last rows
    validation=range(40_000, 50_000),
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
    title="CIFAR-10, small colour pictures (A. Krizhevsky, 2009)",
)
KNOWN = {images.name: images for images in (MNIST, CIFAR10)}
