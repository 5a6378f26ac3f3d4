"""Checkpoints: a training goes on as if nothing had been, or says why it cannot."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import datasets, models, replicas
from helpers.checkpoints import KEPT, Checkpoints
from helpers.errors import ClusterError
from helpers.tasks import Task


@pytest.fixture(scope="module")
def pictures():
    """Made-up pictures, and the network for them, whose dropout draws random numbers."""
    random = np.random.default_rng(0)
    data = datasets.Dataset(
        "pictures",
        random.random((16, 28, 28, 1), "float32"),
        random.integers(0, 10, 16).astype("int32"),
        "made up",
        classes=tuple("0123456789"),
    )
    return Task(data, models.mnist_cnn, "sparse_categorical_crossentropy", 1e-3)


def begun(task, folder=None, way=replicas.mirrored):
    run = way.start(task, batch_size=8, seed=1)
    return run, Checkpoints(run.model, folder)


@pytest.fixture(scope="module")
def folder(tf, pictures, tmp_path_factory):
    """The checkpoints of two epochs; what an undisturbed training learns in four is beside them."""
    place = tmp_path_factory.mktemp("kept")
    run, kept = begun(pictures, place / "checkpoints")
    assert kept.restore() == 0
    for _ in range(4):
        run.epoch()
        if len(run.seconds) <= 2:
            kept.save()
    np.save(place / "losses.npy", run.history["loss"])
    return place


@pytest.mark.parametrize("way", [replicas.mirrored, replicas.one])
def test_a_training_goes_on_as_if_nothing_had_been(pictures, folder, way):
    """The rows come in the same order, and Adam remembers the same; dropout, too, with the same replicas."""
    run, kept = begun(pictures, folder / "checkpoints", way)

    done = kept.restore()
    run.epoch()
    run.epoch()

    losses = np.load(folder / "losses.npy")
    exactly = 1e-4 if way is replicas.mirrored else 0.3
    assert done == 2 and run.history["loss"] == pytest.approx(losses[2:], rel=exactly)
    assert abs(losses[0] - run.history["loss"][0]) > 1e-3  # it did not begin again
    first, second = run.model.copies(run.model.model.trainable_variables[0]) * (1 if way is replicas.mirrored else 2)
    assert np.array_equal(first, second)


def test_a_checkpoint_that_was_cut_off_is_not_taken_up(pictures, tmp_path):
    """What is there before its name is written down does not count."""
    run, kept = begun(pictures, tmp_path)
    run.epoch()
    kept.save()
    told = (tmp_path / "checkpoint").read_text()
    run.epoch()
    kept.save()
    (tmp_path / "checkpoint").write_text(told)  # as before the second was complete
    (tmp_path / "ckpt-2.index").write_bytes(b"half")

    again, restored = begun(pictures, tmp_path)

    assert restored.restore() == 1 and again.model.epochs == 1


def test_only_the_last_are_kept(pictures, tmp_path):
    """A long training does not fill the disk."""
    run, kept = begun(pictures, tmp_path)

    for run.model.epochs in range(1, KEPT + 3):
        kept.save()

    assert sorted(path.stem for path in tmp_path.glob("*.index")) == ["ckpt-3", "ckpt-4"]


def test_without_a_folder_nothing_is_kept(pictures):
    """And a training begins at the beginning."""
    run, kept = begun(pictures)

    kept.save()

    assert kept.restore() == 0


def test_a_worker_that_is_not_the_keeper_writes_nothing(pictures, tmp_path):
    """Two would write over each other's files."""
    run = replicas.one.start(pictures, batch_size=8)

    Checkpoints(run.model, tmp_path / "kept", is_keeper=False).save()

    assert not (tmp_path / "kept").exists()


def test_another_network_s_checkpoints_are_refused(pictures, folder):
    """In words, with the folder."""
    other = Task(datasets.two_clouds(20), models.two_clouds, "binary_crossentropy", 0.1)
    run = replicas.one.start(other, batch_size=8)

    with pytest.raises(ClusterError, match="checkpoints cannot be used.*Give another folder"):
        Checkpoints(run.model, folder / "checkpoints").restore()


def test_damaged_checkpoints_are_refused(pictures, tmp_path):
    """And left alone."""
    run, kept = begun(pictures, tmp_path)
    kept.save()
    (data,) = tmp_path.glob("*.data-*")
    data.write_bytes(b"no weights")

    with pytest.raises(ClusterError, match="cannot be used"):
        begun(pictures, tmp_path)[1].restore()
    assert data.read_bytes() == b"no weights"


def test_a_place_that_is_no_folder_is_said_in_words(pictures, tmp_path):
    """A file, for example."""
    (tmp_path / "file").write_text("")

    with pytest.raises(ClusterError, match="file cannot be used"):
        begun(replace(pictures), tmp_path / "file")[1].save()
