"""Replicas learn what one device learns, each on its own device, and each its own share."""

from dataclasses import replace

import numpy as np
import pytest

from helpers import datasets, devices, models, replicas, training
from helpers.devices import Device
from helpers.errors import DeviceError, ParameterError
from helpers.tasks import Task

ROADS = datasets.two_clouds(200)
CLOUDS = Task(ROADS, models.two_clouds, "binary_crossentropy", 0.1, ("accuracy",))


@pytest.fixture(scope="module")
def digits():
    """A hundred made-up digits, and the network for them, which has no dropout."""
    random = np.random.default_rng(0)
    data = datasets.Dataset(
        "digits",
        random.random((100, 28, 28, 1), "float32"),
        random.integers(0, 10, 100).astype("int32"),
        "made up",
        classes=tuple("0123456789"),
    )
    return Task(data, models.mnist_mlp, models.cross_entropy, 1e-3, ("accuracy",))


@pytest.fixture(scope="module")
def trained(tf, digits):
    """One replica and two, three epochs in turn, with the same global batch."""
    ways = {"one": replicas.one, "two": replicas.mirrored}
    runs = {label: way.start(digits, batch_size=20, seed=3) for label, way in ways.items()}
    return runs, training.in_turn(runs, epochs=3)


def test_two_replicas_learn_what_one_learns(trained):
    """The loss after each epoch, and in the end, agree within one part in ten thousand."""
    _, found = trained

    assert len(found["one"].history["loss"]) == 3
    assert found["two"].history["loss"] == pytest.approx(found["one"].history["loss"], rel=1e-4)
    assert found["two"].final == pytest.approx(found["one"].final, rel=1e-4)
    assert found["one"].history["loss"][-1] < found["one"].history["loss"][0]


def test_what_comes_back_is_a_training_like_any_other(trained):
    """With steps, batch, device, and the number of replicas among its flags."""
    _, found = trained

    for label, count in (("one", 1), ("two", 2)):
        assert (found[label].steps, found[label].batch_size, found[label].examples) == (5, 20, 100)
        assert found[label].epochs.n == 2 and found[label].epochs.device == Device("CPU", 0)
        assert found[label].flags["replicas"] == count and found[label].flags["jit_compile"] is False
    assert [way.label for way in replicas.WAYS.values()] == list(replicas.WAYS) and len(replicas.WAYS) == 3


def test_every_weight_has_a_copy_on_every_device_and_all_copies_stay_equal(trained):
    """Soft placement could put all of them on the first."""
    model = trained[0]["two"].model

    for weight in model.model.trainable_variables:
        first, second = model.copies(weight)
        assert devices.where([first, second]) == (Device("CPU", 0), Device("CPU", 1))
        assert np.array_equal(first, second)


def test_replicas_that_lie_elsewhere_are_refused(tf, monkeypatch):
    """As after a silent move to the first device: no result is labelled with a device it did not run on."""
    monkeypatch.setattr(replicas.devices, "where", lambda _copy: (Device("CPU", 0),))

    with pytest.raises(DeviceError, match="should lie on CPU:0, CPU:1, but .* lies on CPU:0, CPU:0"):
        replicas.mirrored.start(CLOUDS, batch_size=30)


@pytest.mark.parametrize(
    ("examples", "batch", "steps", "rows"), [(200, 20, 10, 200), (200, 65, 4, 200), (199, 66, 3, 198)]
)
def test_rows_are_divided_and_at_most_a_few_are_left_out(tf, examples, batch, steps, rows):
    """Each replica gets as many; a last row alone is left out."""
    task = replace(CLOUDS, data=CLOUDS.data.sample(examples))
    model = replicas.mirrored.start(task, batch_size=batch).model
    shares = [model.strategy.experimental_local_results(model._rows(each)) for each in model.batches()]
    taken = [row for pair in shares for share in pair for row in share.numpy()]

    assert len(shares) == steps and all(len(first) == len(second) for first, second in shares)
    assert len(taken) == len(set(taken)) == rows


def test_the_order_of_rows_depends_on_the_epoch_alone(tf):
    """So a training that is taken up again goes on as it would have."""
    once, again = (replicas.one.start(CLOUDS, batch_size=50, seed=1) for _ in range(2))
    once.epoch()
    again.model.epochs = 1

    assert np.array_equal(once.model.batches(), again.model.batches())
    once.epoch()
    assert not np.array_equal(once.model.batches(), again.model.batches())
    in_order = replicas.one.start(replace(CLOUDS, shuffle=False), batch_size=50)
    assert np.array_equal(np.concatenate(in_order.model.batches()), np.arange(200))


def test_parts_of_a_step_follow_each_other(trained):
    """As many steps as asked for; the first, in which functions are traced, is not among them."""
    moments = trained[0]["two"].model.parts(3)

    assert len(moments) == 3
    times = [moment for step in moments for moment in step]
    assert times == sorted(times) and times[-1] - times[0] < 5


def test_the_parts_of_a_step_are_all_that_a_step_needs(tf, digits):
    """Done one after the other, they train: with two replicas as with one."""
    two, one = (way.start(digits, batch_size=100, seed=5) for way in (replicas.mirrored, replicas.one))
    before = two.model.model.get_weights()

    two.model.parts(1)
    one.model.parts(1)

    for here, there, began in zip(two.model.model.get_weights(), one.model.model.get_weights(), before, strict=True):
        assert np.allclose(here, there, atol=1e-5) and not np.allclose(here, began, atol=1e-4)


def test_all_reduces_are_timed_with_the_first_apart(trained):
    """The sum itself is right, too."""
    model = trained[0]["two"].model

    seconds = model.all_reduces(4000, times=3)
    summed = model._all_reduce()([model._on_each(np.ones(5, "float32"))])

    assert len(seconds) == 3 and seconds[0] > min(seconds[1:]) > 0
    assert [copy.numpy().tolist() for copy in model.strategy.experimental_local_results(summed[0])] == [[2.0] * 5] * 2


def test_the_whole_data_is_looked_at_in_the_end(trained, digits):
    """With the weights as they have become."""
    runs, found = trained

    logits = digits.data.x.reshape(100, -1)
    for weights in zip(*[iter(runs["one"].model.model.get_weights())] * 2, strict=True):
        logits = (np.maximum(logits, 0) if weights[0].shape[0] == 1000 else logits) @ weights[0] + weights[1]
    assert found["one"].final["accuracy"] == pytest.approx(np.mean(logits.argmax(1) == digits.data.y))


def test_what_is_wrong_with_the_training_is_said_as_everywhere(tf):
    """A batch of none, for example."""
    with pytest.raises(ParameterError, match="batch_size = 0"):
        replicas.mirrored.start(CLOUDS, batch_size=0)


def test_the_cpu_is_split_once_and_not_too_late(tf):
    """The tests have done it already; another number comes too late."""
    devices.split_cpu(2)

    assert len(devices.available()) == 2
    with pytest.raises(DeviceError, match="cannot be split into 3 any more.*Restart the kernel"):
        devices.split_cpu(3)
