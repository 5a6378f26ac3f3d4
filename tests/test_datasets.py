"""The data: exactly the question's, and pictures that can be learnt from."""

from dataclasses import replace

import numpy as np
import picture_files as files
import pytest

from helpers import cli, datasets, stand_ins
from helpers.errors import DataError, NotEnoughMemoryError, ParameterError, TrainingError
from helpers.published import CIFAR10, MNIST


def test_two_clouds_are_the_numbers_of_the_question():
    """NumPy's global generator with seed 0, both coordinates of the first cloud, then of the second."""
    state = np.random.get_state()
    np.random.seed(0)
    first = np.array([np.random.normal(13, 2, 50), np.random.normal(12, 2, 50)]).T
    second = np.array([np.random.normal(8, 2, 50), np.random.normal(6, 2, 50)]).T
    np.random.set_state(state)

    cloud = datasets.two_clouds(100, "float64")

    assert cloud.x.dtype == cloud.y.dtype == "float64"
    assert np.array_equal(cloud.x, np.vstack((first, second)))
    assert np.array_equal(cloud.y, np.append(np.zeros(50), np.ones(50))[:, None])


def test_two_clouds_come_at_the_published_size_as_float32():
    """A million points, and the same numbers, rounded."""
    cloud = datasets.two_clouds()

    assert cloud.x.shape == (1_000_000, 2) and cloud.y.shape == (1_000_000, 1)
    assert cloud.x.dtype == cloud.y.dtype == "float32"
    assert np.array_equal(cloud.x, datasets.two_clouds(1_000_000, "float64").x.astype("float32"))
    assert cloud.x.mean(axis=0) == pytest.approx([10.5, 9], abs=0.01)
    assert cloud.about == {"name": "two_clouds", "source": cloud.source, "stand_in": False}


@pytest.mark.parametrize("points", [0, -2, 7, 10.0, "10", True, None])
def test_clouds_of_impossible_size_are_refused(points):
    """Both clouds have the same number of points."""
    with pytest.raises(ParameterError, match="even whole number"):
        datasets.two_clouds(points)


@pytest.mark.parametrize("make", [datasets.two_clouds, datasets.road_images])
def test_data_that_does_not_fit_is_refused_before_it_is_made(make):
    """In words, with how much it needs."""
    with pytest.raises(NotEnoughMemoryError, match=r"CPU:0 needs [\d,.]+ GB"):
        make(10**12)


def test_a_sample_keeps_points_and_labels_together():
    """Rows are drawn from everywhere, none twice, always the same with the same seed."""
    cloud = datasets.two_clouds(1000)

    part = cloud.sample(200, seed=1)

    label_of = {tuple(point): label for point, label in zip(cloud.x, cloud.y[:, 0], strict=True)}
    assert len({tuple(point) for point in part.x}) == len(part) == 200
    assert all(label_of[tuple(point)] == label for point, label in zip(part.x, part.y[:, 0], strict=True))
    assert 50 < part.y.sum() < 150
    assert np.array_equal(part.x, cloud.sample(200, seed=1).x)
    assert not np.array_equal(part.x, cloud.sample(200, seed=2).x)
    with pytest.raises(ParameterError, match=r"1001 examples cannot be drawn from 1,000\."):
        cloud.sample(1001)


@pytest.mark.parametrize("count", [0, -1, "3", 2.5, True, None])
def test_numbers_that_are_no_counts_are_refused(count):
    """Before NumPy says something about shapes."""
    with pytest.raises(ParameterError, match="cannot be made"):
        datasets.road_images(count)
    with pytest.raises(ParameterError, match="cannot be drawn"):
        datasets.two_clouds(10).sample(count)


def test_clouds_of_whole_numbers_are_refused():
    """They would lose their fractions without a word."""
    with pytest.raises(ParameterError, match="'float32' and 'float64'"):
        datasets.two_clouds(10, "int8")


def test_road_images_show_where_the_road_goes():
    """Near the horizon, the middle of the road lies to the side that is to be learnt."""
    roads = datasets.road_images(50, seed=3)

    assert roads.x.shape == (50, 66, 200, 3) and roads.y.shape == (50, 1)
    assert roads.x.dtype == roads.y.dtype == "float32"
    assert roads.x.min() >= 0 and roads.x.max() <= 1 and np.abs(roads.y).max() <= 1
    is_grey = np.ptp(roads.x[:, 3], axis=-1) < 0.02  # in the fields, green is stronger than red and blue
    middle = (is_grey * np.arange(200)).sum(axis=1) / is_grey.sum(axis=1)
    assert np.corrcoef(middle, roads.y[:, 0])[0, 1] > 0.98
    assert np.array_equal(roads.x, datasets.road_images(50, seed=3).x)
    assert not np.array_equal(roads.x, datasets.road_images(50, seed=4).x)


@pytest.fixture
def places(tmp_path, monkeypatch):
    """An own course folder, Keras cache and $COURSE_DATA, no internet, and small sets under the real names."""
    small = {"mnist": files.SMALL_MNIST, "cifar10": files.SMALL_CIFAR}
    monkeypatch.setattr("helpers.published.KNOWN", small)
    monkeypatch.setattr(datasets, "PROJECT", tmp_path / "course")
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "given folder ü"))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.setenv("COURSE_OFFLINE", "1")
    found = [tmp_path / "given folder ü", tmp_path / "course" / "data", tmp_path / "keras" / "datasets"]
    for folder in found:
        folder.mkdir(parents=True)
    return found


def test_pictures_are_looked_for_in_order(places):
    """$COURSE_DATA, data/, Keras' cache; then a stand-in that says so."""
    for folder in places:
        files.write_npz(folder, files.SMALL_MNIST)
    for folder, name in zip(places, ("$COURSE_DATA", "data/", "Keras' cache"), strict=True):
        found = datasets.load("mnist")
        assert found.train.source == f"mnist.npz in {name}" and not found.train.stand_in and found.mark == ""
        (folder / "mnist.npz").unlink()

    found = datasets.load("mnist")

    assert found.about == {"name": "mnist", "source": "made by the course", "stand_in": True}
    assert found.mark == "stand-in" and "STAND-IN" in str(found) and "`course data`" in str(found)
    assert found.problems == ("mnist.npz was not fetched, because $COURSE_OFFLINE is set.",)


def test_the_cut_is_the_chapters(places):
    """MNIST: the first rows are for validation. CIFAR-10: the last ones."""
    for images in (files.SMALL_MNIST, files.SMALL_CIFAR):
        files.write_npz(places[0], images)
        stored, found = files.arrays(images), datasets.load(images.name, dtype="uint8")

        for part, rows in ((found.train, images.train), (found.validation, images.validation)):
            assert np.array_equal(part.x.squeeze(), stored["x_train"][rows.start : rows.stop])
            assert np.array_equal(part.y, stored["y_train"][rows.start : rows.stop])
        assert np.array_equal(found.test.x.squeeze(), stored["x_test"])
        assert found.train.classes == images.classes and len(found.train.classes) == 10
        found.train.check()


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_limit_keeps_the_first_of_each_part(name, real, dtype, places):
    """In the dtype that was asked for, real or not."""
    images = {"mnist": files.SMALL_MNIST, "cifar10": files.SMALL_CIFAR}[name]
    if real:
        files.write_npz(places[0], images)

    found, whole = datasets.load(name, 7, dtype), datasets.load(name, dtype=dtype)

    assert found.train.stand_in is not real
    for part, all_of_it in ((found.train, whole.train), (found.validation, whole.validation), (found.test, whole.test)):
        assert len(part) == min(7, len(all_of_it))
        assert part.x.shape[1:] == images.shape and part.x.dtype == dtype and part.y.dtype == "int32"
        assert part.x.max() > (0.5 if dtype == "float32" else 127)
        assert np.array_equal(part.y, all_of_it.y[:7]) or not real


@pytest.mark.parametrize("limit", [0, -1, "3", 2.5, True])
def test_an_impossible_limit_is_refused(limit):
    """Before anything is read."""
    with pytest.raises(ParameterError, match="limit = .* is not possible"):
        datasets.load("mnist", limit)


def test_unknown_names_and_dtypes_are_refused():
    """With those that exist."""
    with pytest.raises(ParameterError, match=r"no data set 'MNIST' to load. Accepted are 'mnist', 'cifar10'"):
        datasets.load("MNIST")
    with pytest.raises(ParameterError, match="'float32' and 'uint8'"):
        datasets.load("mnist", dtype="float64")


def test_a_damaged_file_is_named_left_alone_and_the_next_place_is_used(places):
    """Also one that Keras would delete."""
    for folder in places[::2]:
        (folder / "mnist.npz").write_bytes(b"half a file")
    files.write_idx(places[1], files.SMALL_MNIST, packed=True)

    found = datasets.load("mnist")

    assert found.train.source == "four idx files in data/"
    (problem,) = found.problems
    assert problem.startswith("mnist.npz cannot be used") and "($COURSE_DATA)" in problem
    assert str(places[0]) not in problem  # a record and a notebook tell no path
    assert [(folder / "mnist.npz").read_bytes() for folder in places[::2]] == [b"half a file"] * 2


def test_nothing_is_written_where_pictures_are_read(places):
    """The folders may be shared and read-only."""
    files.write_npz(places[0], files.SMALL_MNIST)
    before = {path: path.stat().st_mtime_ns for path in places[0].parent.rglob("*")}

    datasets.load("mnist")

    assert {path: path.stat().st_mtime_ns for path in places[0].parent.rglob("*")} == before


def test_what_is_missing_is_fetched_once(places, monkeypatch):
    """Into data/ of the course, and from there the next time."""
    calls = []

    def fetch(url, folder, sha256):
        calls.append((url, folder, sha256))
        return files.write_npz(folder, files.SMALL_MNIST)

    monkeypatch.setattr("helpers.download.fetch", fetch)
    monkeypatch.delenv("COURSE_OFFLINE")

    assert [datasets.load("mnist").train.source for _ in range(2)] == ["mnist.npz in data/"] * 2
    assert calls == [(files.MNIST.url, places[1], files.MNIST.sha256)]


def test_a_failed_download_ends_in_a_stand_in(places, monkeypatch):
    """With the reason."""

    def fetch(*_):
        raise DataError("mnist.npz was not fetched: no.", "It is looked for elsewhere.", "Try again.")

    monkeypatch.setattr("helpers.download.fetch", fetch)
    monkeypatch.setenv("COURSE_OFFLINE", "0")

    found = datasets.load("mnist")

    assert found.train.stand_in and found.problems == (
        "mnist.npz was not fetched: no. It is looked for elsewhere. Try again.",
    )


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_a_stand_in_can_be_learnt_and_is_always_the_same(name, places):
    """A straight line through 30 parts of a picture tells the classes apart far better than chance."""
    images = {"mnist": MNIST, "cifar10": CIFAR10}[name]
    (x, y), (x_test, y_test) = stand_ins.make(images, [2000, 500], "float32")
    again, _ = stand_ins.make(images, [2000, 500], "float32")[0]

    flat, flat_test = (values.reshape(len(values), -1)[:, ::7] for values in (x, x_test))
    weights = np.linalg.lstsq(flat, np.eye(10)[y], rcond=None)[0]

    assert np.mean((flat_test @ weights).argmax(axis=1) == y_test) > 0.5
    assert set(y) == set(range(10)) and np.array_equal(x, again)
    assert x.min() >= 0 and x.max() <= 1


@pytest.mark.long
def test_cifar_as_float32_needs_less_than_one_and_a_half_gigabytes(tmp_path, python):
    """At the published size: 60,000 pictures, read, cut, divided."""
    labels = (np.arange(50_000) % 10).astype("uint8")
    np.savez(
        tmp_path / "cifar10.npz",
        x_train=np.zeros((50_000, 32, 32, 3), "uint8"),
        y_train=labels[:, None],
        x_test=np.zeros((10_000, 32, 32, 3), "uint8"),
        y_test=labels[:10_000, None],
    )
    code = """
import tracemalloc
from helpers import datasets
import numpy
tracemalloc.start()
data = datasets.load("cifar10")
print(data.train.stand_in, data.train.x.dtype, len(data.train))
print(tracemalloc.get_traced_memory()[1] / 1e9)
"""
    facts, gigabytes = python(code, COURSE_DATA=str(tmp_path)).splitlines()

    assert facts == "False float32 40000"
    assert 0.7 < float(gigabytes) < 1.5


def test_the_inventory_says_what_is_here_and_how_to_get_the_rest(places):
    """Found, damaged and missing; the address and the folder."""
    files.write_npz(places[1], files.SMALL_MNIST)
    (places[0] / "mnist.npz").write_bytes(b"")

    found = datasets.inventory()

    (is_here, mnist), (cifar_is_here, cifar) = found["mnist"], found["cifar10"]
    assert is_here and "mnist.npz in data/" in mnist and "all pictures are there" in mnist
    assert "$COURSE_DATA: mnist.npz cannot be used" in mnist
    assert not cifar_is_here and "not here" in cifar and files.CIFAR10.url in cifar
    assert all(str(place) in cifar for place in places)


def test_labels_that_are_no_class_are_refused():
    """Keras would train to nonsense, or stop in the middle."""
    data = datasets.Dataset("mnist", np.zeros((3, 2), "float32"), np.array([0, 1, 2]), "here", classes=("a", "b"))

    with pytest.raises(TrainingError, match=r"labels of mnist go from 0 to 2\. There are 2 classes"):
        data.check()
    with pytest.raises(TrainingError, match=r"y has the shape \(3, 1\).* one label: \(n,\)\. Use y.reshape\(-1\)"):
        replace(data, y=data.y[:, None]).check()


def test_course_data_prints_the_inventory(places, capsys):
    """1 as long as something is missing, for scripts."""
    files.write_npz(places[0], files.SMALL_MNIST)

    assert cli.main(["data"]) == 1
    files.write_npz(places[0], files.SMALL_CIFAR)
    assert cli.main(["data"]) == 0

    first, second = capsys.readouterr().out.split("mnist: ")[1:]
    assert "not here" in first and "not here" not in second


def test_a_folder_that_is_not_there_is_said(places, monkeypatch):
    """Also a home that nobody has."""
    for folder in ("/nowhere/at/all", "~nobody-of-this-name/data"):
        monkeypatch.setenv("COURSE_DATA", folder)

        assert datasets.load("mnist", 5).problems[0] == "$COURSE_DATA names a folder that is not there."


def test_the_published_sets_are_cut_as_the_chapter_cuts_them():
    """55,000 and 5,000 digits, the first for validation; 40,000 and 10,000 pictures, the last for validation."""
    assert (MNIST.validation, MNIST.train) == (range(5_000), range(5_000, 60_000))
    assert (CIFAR10.train, CIFAR10.validation) == (range(40_000), range(40_000, 50_000))
    assert [images.examples(part) for images in (MNIST, CIFAR10) for part in ("train", "test")] == [
        60_000, 10_000, 50_000, 10_000,
    ]  # fmt: skip
