"""Files of pictures: every usual form gives the same numbers, and everything else is refused in words."""

import hashlib
import pickle

import numpy as np
import picture_files as files
import pytest
from picture_files import SMALL_CIFAR, SMALL_MNIST

from helpers import image_files
from helpers.errors import DataError


@pytest.fixture
def contents(monkeypatch):
    """CIFAR-10's pickles for the small set, whose sums are taken for the published ones."""
    found = files.batches(SMALL_CIFAR)
    monkeypatch.setattr(image_files, "BATCHES", files.sums(found))
    return found


def only(images, folder):
    """Return the one source that a folder holds."""
    found = list(image_files.sources(images, folder))
    assert len(found) == 1
    return found[0]


def everything(images, source, dtype="uint8"):
    """Return both parts, whole."""
    parts = ("train", "test")
    return [image_files.read(source, part, [range(images.examples(part))], images, dtype)[0] for part in parts]


def assert_is(images, found):
    """Compare with the arrays that all files were made from."""
    expected = files.arrays(images)
    for part, (x, y) in zip(("train", "test"), found, strict=True):
        assert x.dtype == "uint8" and y.dtype == "int32" and x.shape[1:] == images.shape
        assert np.array_equal(x.reshape(expected[f"x_{part}"].shape), expected[f"x_{part}"])
        assert np.array_equal(y, expected[f"y_{part}"])


MNIST_FORMS = {
    "npz": lambda folder: files.write_npz(folder, SMALL_MNIST),
    "idx": lambda folder: files.write_idx(folder, SMALL_MNIST),
    "idx, gz": lambda folder: files.write_idx(folder, SMALL_MNIST, packed=True),
    "idx with a dot": lambda folder: files.write_idx(folder, SMALL_MNIST, dot="."),
    "torchvision": lambda folder: files.write_idx(folder / "MNIST" / "raw", SMALL_MNIST),
}


@pytest.mark.parametrize("form", list(MNIST_FORMS))
def test_mnist_is_read_from_every_usual_form(form, tmp_path):
    """As Keras, torchvision and the first publication keep it."""
    MNIST_FORMS[form](tmp_path)

    assert_is(SMALL_MNIST, everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path)))


CIFAR_FORMS = {
    "npz": lambda folder, _: files.write_npz(folder, SMALL_CIFAR),
    "folder": lambda folder, pickles: files.write_batches(folder / "cifar-10-batches-py", pickles),
    "the folder itself": files.write_batches,
    "Keras, unpacked": lambda folder, pickles: files.write_batches(
        folder / "cifar-10-batches-py-target" / "cifar-10-batches-py", pickles
    ),
    "archive": lambda folder, pickles: files.write_archive(folder / "cifar-10-python.tar.gz", pickles),
    "Keras' archive": lambda folder, pickles: files.write_archive(
        folder / "cifar-10-batches-py-target_archive", pickles
    ),
}


@pytest.mark.parametrize("form", list(CIFAR_FORMS))
def test_cifar_is_read_from_every_usual_form(form, tmp_path, contents):
    """Also where Keras itself ignores it: an unpacked folder, the archive under its web name."""
    CIFAR_FORMS[form](tmp_path, contents)

    assert_is(SMALL_CIFAR, everything(SMALL_CIFAR, only(SMALL_CIFAR, tmp_path)))


def test_float32_is_between_0_and_1(tmp_path):
    """Divided by 255, and never float64 on the way."""
    path = files.write_npz(tmp_path, SMALL_MNIST)
    x, _ = everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path), "float32")[0]

    with np.load(path) as stored:
        np.testing.assert_allclose(x[..., 0], stored["x_train"] / 255, atol=1e-6)
    assert x.dtype == "float32"


def test_only_the_files_with_wanted_rows_are_read(tmp_path, contents):
    """Rows 5 to 14 lie in the first two batches; the third may be anything."""
    files.write_batches(tmp_path, {**contents, "data_batch_3": b"not read"})
    source = only(SMALL_CIFAR, tmp_path)

    ((x, y), (last, _)) = image_files.read(source, "train", [range(5, 15), range(45, 50)], SMALL_CIFAR, "uint8")

    expected = files.arrays(SMALL_CIFAR)
    assert np.array_equal(x, expected["x_train"][5:15]) and np.array_equal(y, expected["y_train"][5:15])
    assert np.array_equal(last, expected["x_train"][45:50])
    with pytest.raises(DataError, match="data_batch_3 is not the published file"):
        image_files.read(source, "train", [range(25)], SMALL_CIFAR, "uint8")


class Trap:
    """A pickle of this writes a file when it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_pickle_with_another_sum_is_never_opened(packed, tmp_path, contents):
    """Opening it could run any program."""
    trap = tmp_path / "sprung"
    hostile = {**contents, "data_batch_1": pickle.dumps(Trap(trap))}
    if packed:
        files.write_archive(tmp_path / "cifar-10-python.tar.gz", hostile)
    else:
        files.write_batches(tmp_path / "cifar-10-batches-py", hostile)

    with pytest.raises(DataError, match="its MD5 is another"):
        everything(SMALL_CIFAR, only(SMALL_CIFAR, tmp_path))

    assert not trap.exists()
    pickle.loads(hostile["data_batch_1"]).close()  # the trap works
    assert trap.exists()


def wrong_labels():
    y = files.arrays(SMALL_MNIST)["y_train"]
    return {
        "one label more of a class": np.where(np.arange(len(y)) == 3, 4, y).astype("uint8"),
        "labels out of range": np.where(y == 9, 10, y).astype("uint8"),
        "labels that are no numbers": y.astype(str),
        "labels with a fraction": y.astype("float32"),
        "too few labels": y[:-1],
        "objects": y.astype(object),
    }


@pytest.mark.parametrize("fault", list(wrong_labels()))
def test_labels_that_are_not_the_published_ones_are_refused(fault, tmp_path):
    """Their numbers of each class are known."""
    files.write_npz(tmp_path, SMALL_MNIST, y_train=wrong_labels()[fault])

    with pytest.raises(DataError, match=r"mnist\.npz cannot be used: .+ It is left as it is"):
        everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path))


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((60, 28, 28)),
        np.zeros((60, 28, 27), "uint8"),
        np.zeros((61, 28, 28), "uint8"),
        np.zeros((60, 28, 28), "int8"),
    ],
)
def test_pictures_of_another_shape_or_dtype_are_refused(x, tmp_path):
    """float64, cropped, one too many, none."""
    files.write_npz(tmp_path, SMALL_MNIST, x_train=x)

    with pytest.raises(DataError, match=r"mnist\.npz cannot be used"):
        everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path))


@pytest.mark.parametrize("form", ["npz", "idx", "idx, gz"])
@pytest.mark.parametrize("left", [0, 3, 0.5, -1])
def test_a_file_that_was_cut_off_is_named_and_left_alone(form, left, tmp_path):
    """Empty, a few bytes, half, and all but one byte."""
    MNIST_FORMS[form](tmp_path)
    path = sorted(tmp_path.iterdir())[-1]
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * left) if isinstance(left, float) else left])
    before = hashlib.sha256(path.read_bytes()).hexdigest()

    with pytest.raises(DataError, match="cannot be used"):
        everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path))

    assert hashlib.sha256(path.read_bytes()).hexdigest() == before


def test_a_damaged_archive_is_named(tmp_path, contents):
    """Cut off, something else, or without one of its files."""
    path = tmp_path / "cifar-10-python.tar.gz"
    files.write_archive(path, contents)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"<html>Please log in</html>", b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"cifar-10-python\.tar\.gz cannot be used"):
            everything(SMALL_CIFAR, only(SMALL_CIFAR, tmp_path))
    files.write_archive(path, {name: content for name, content in contents.items() if name != "data_batch_2"})
    with pytest.raises(DataError, match="it lacks data_batch_2"):
        everything(SMALL_CIFAR, only(SMALL_CIFAR, tmp_path))


def test_arrays_that_would_not_fit_are_refused_before_they_are_made(tmp_path):
    """A small file can claim to hold a huge array."""
    np.savez_compressed(tmp_path / "mnist.npz", **{**files.arrays(SMALL_MNIST), "x_train": np.zeros(10**7, "uint8")})

    with pytest.raises(DataError, match="would take 10 MB"):
        everything(SMALL_MNIST, only(SMALL_MNIST, tmp_path))


def test_a_file_that_vanished_is_said_without_its_path(tmp_path):
    """A notebook and a record tell nothing of the reader's folders."""
    path = files.write_npz(tmp_path, SMALL_MNIST)
    source = only(SMALL_MNIST, tmp_path)
    path.unlink()

    with pytest.raises(DataError, match=r"mnist\.npz cannot be used: No such file or directory\.") as caught:
        everything(SMALL_MNIST, source)

    assert str(tmp_path) not in str(caught.value)


def test_a_folder_without_pictures_has_no_source(tmp_path):
    """Neither has one that does not exist, nor one with three of the four files."""
    files.write_idx(tmp_path, SMALL_MNIST)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()

    assert list(image_files.sources(SMALL_MNIST, tmp_path)) == []
    assert list(image_files.sources(SMALL_CIFAR, tmp_path)) == []
    assert list(image_files.sources(SMALL_MNIST, tmp_path / "nowhere")) == []
