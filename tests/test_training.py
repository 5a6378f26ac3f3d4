"""Training: every way learns the same, reports the same, and refuses what cannot be trained, in words."""

import itertools
import math
from dataclasses import replace

import keras
import numpy as np
import pytest

from helpers import datasets, models, timing, training, ways
from helpers.comparing import Comparison
from helpers.devices import Device
from helpers.errors import NotEnoughMemoryError, ParameterError, TrainingError
from helpers.examples import Dataset
from helpers.tasks import Task
from helpers.training import Training

CLOUD = datasets.two_clouds(20_000)
TASK = Task(CLOUD, models.two_clouds, "binary_crossentropy", 0.1, ("accuracy",), models.two_clouds_loss_by_column)


@pytest.fixture(scope="module")
def trained():
    """Every way, 15 epochs of 10 steps, on the second of two devices, in turn."""
    runs = {label: way.start(TASK, batch_size=2000, device="CPU:1", seed=1) for label, way in ways.WAYS.items()}
    return training.in_turn(runs, epochs=15)


@pytest.mark.parametrize("label", list(ways.WAYS))
def test_every_way_returns_the_same_kind_of_value(trained, label):
    """Seconds per epoch with the first apart, steps, history, device, flags."""
    found = trained[label]

    assert isinstance(found, Training) and found.way == label
    assert found.epochs.n == 14 and found.epochs.device == Device("CPU", 1)
    assert found.epochs.first > found.epochs.median  # it traces
    assert (found.steps, found.batch_size) == (10, 2000)
    assert len(found.history["loss"]) == 15 and found.history["loss"][0] > found.history["loss"][-1]
    assert found.flags["jit_compile"] is (ways.WAYS[label] in (ways.epoch_xla, ways.epoch_xla_by_column))
    assert found.flags["dtype"] == "float32"
    assert found.step.median == pytest.approx(found.epochs.median / 10)


def test_all_ways_learn_the_same(trained):
    """At least 94 %, and within half a percent of each other."""
    accuracies = [found.final["accuracy"] for found in trained.values()]

    assert len(accuracies) == 6
    assert min(accuracies) >= 0.94
    assert max(accuracies) - min(accuracies) <= 0.005


def test_a_way_can_be_called_alone():
    """The short form trains on CPU:0."""
    found = ways.epoch_function(TASK, batch_size=5000, epochs=3)

    assert found.epochs.n == 2 and found.steps == 4 and found.epochs.device == Device("CPU", 0)


def test_epochs_are_trained_in_turn():
    """A B A B: a busy moment hits both."""
    order = []

    def prepare(model, task, batch_size, seed):
        name = next(names)
        return lambda: (order.append(name) or 1.0, {"loss": 0.5})

    names = iter("AB")
    fake = replace(ways.fit, prepare=prepare)
    runs = {name: fake.start(TASK, batch_size=2000) for name in "AB"}

    trained = training.in_turn(runs, epochs=3)

    assert order == list("ABABAB")
    assert trained["A"].epochs.first == 1.0 and trained["A"].epochs.values == (1.0, 1.0)


@pytest.mark.parametrize("batch_size", [0, -1, "32", 2.0, True, None, 20_001])
def test_an_impossible_batch_size_is_refused_before_training(batch_size):
    """Keras would train with 32 for 0, and not at all for others."""
    for way in ways.WAYS.values():
        with pytest.raises(ParameterError, match=r"batch_size = .* a whole number from 1 to 20,000"):
            way.start(TASK, batch_size=batch_size)


def test_batch_sizes_are_compared_only_if_all_of_them_can_be_trained():
    """All are looked at before the first is trained; two do not make a line with an error."""
    assert training.batch_sizes_to_compare([32, 4, 32, 8], 32) == [4, 8, 32]
    with pytest.raises(ParameterError, match="batch_size = 33 is not possible"):
        training.batch_sizes_to_compare([4, 8, 33], 32)
    with pytest.raises(ParameterError, match="2 different batch sizes are too few: 4, 8"):
        training.batch_sizes_to_compare([4, 8, 4], 32)


@pytest.mark.parametrize("epochs", [0, 1, -3, "5", 2.5])
def test_too_few_epochs_are_refused(epochs):
    """The first epoch is kept apart, so one alone leaves nothing."""
    with pytest.raises(ParameterError, match="at least 2"):
        ways.fit(TASK, batch_size=2000, epochs=epochs)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_are_counted_before_training(bad):
    """One of them would spread to every weight."""
    x = CLOUD.x.copy()
    x[7, 1] = x[9, 0] = bad

    with pytest.raises(TrainingError, match="2 values of x in two_clouds are not finite in float32"):
        ways.fit.start(replace(TASK, data=replace(CLOUD, x=x)), batch_size=2000)


def test_labels_that_do_not_match_are_refused():
    """The faults that Keras calls ambiguous cardinality."""
    for y in (CLOUD.y.T, CLOUD.y[:, 0]):
        with pytest.raises(TrainingError, match="20,000 examples in x, but y has the shape"):
            ways.fit.start(replace(TASK, data=replace(CLOUD, y=y)), batch_size=2000)


@pytest.mark.parametrize("x", [[[1.0, 2.0]] * 20_000, CLOUD.x.astype(object), CLOUD.x.astype(str)])
def test_data_that_are_no_numbers_are_refused(x):
    """Lists, objects and text."""
    with pytest.raises(TrainingError, match="no array of numbers"):
        ways.fit.start(replace(TASK, data=replace(CLOUD, x=x)), batch_size=2000)


def test_float64_beyond_float32_is_not_finite():
    """The network computes in float32."""
    with pytest.raises(TrainingError, match="40,000 values of x in two_clouds are not finite in float32"):
        ways.fit.start(replace(TASK, data=replace(CLOUD, x=CLOUD.x.astype("float64") * 1e300)), batch_size=2000)


@pytest.mark.parametrize("rate", [0, -1.0, math.nan, math.inf, "0.1", True, None])
def test_an_impossible_learning_rate_is_refused(rate):
    """Before it turns every weight into nonsense."""
    with pytest.raises(ParameterError, match="learning_rate"):
        ways.fit.start(replace(TASK, learning_rate=rate), batch_size=2000)


@pytest.mark.parametrize("wrong", [{"loss": "nonsense"}, {"metrics": ("nonsense",)}])
def test_a_task_that_keras_cannot_train_is_said_in_words(wrong):
    """Keras' own words, with what to do."""
    with pytest.raises(TrainingError, match=r"cannot be trained: .*Correct the task"):
        ways.fit.start(replace(TASK, **wrong), batch_size=2)


def test_data_of_another_shape_are_refused():
    """With both shapes, and without a page of numbers."""
    with pytest.raises(TrainingError, match=r"inputs of shape \(2,\), but those of road_images have \(66, 200, 3\)"):
        ways.fit.start(replace(TASK, data=datasets.road_images(4)), batch_size=2)


def test_weights_that_are_no_numbers_are_found_in_the_end():
    """The loss by column is bounded, so it stays a number when the weights do not."""
    with pytest.raises(TrainingError, match="the loss became nan"):
        ways.epoch_xla_by_column(replace(TASK, learning_rate=1e38), batch_size=2000, epochs=3)


def test_a_training_stays_as_it_was_returned():
    """More epochs make another one."""
    run = ways.epoch_function.start(TASK, batch_size=5000)
    with pytest.raises(TrainingError, match="trained for 0 epochs"):
        run.training()
    for _ in range(2):
        run.epoch()

    early = run.training()
    run.epoch()

    assert len(early.history["loss"]) == 2 and len(run.training().history["loss"]) == 3


def test_no_example_is_no_training():
    """Not a division by nothing."""
    empty = replace(CLOUD, x=CLOUD.x[:0], y=CLOUD.y[:0])
    with pytest.raises(TrainingError, match="no example"):
        ways.fit.start(replace(TASK, data=empty), batch_size=1)


def test_all_ways_do_the_same_mathematics():
    """With a single batch, nothing is left to chance: the weights agree after three epochs."""
    found = []
    for way in ways.WAYS.values():
        run = way.start(TASK, batch_size=20_000, seed=3)
        for _ in range(3):
            run.epoch()
        found.append(np.concatenate([np.ravel(variable) for variable in run.model.get_weights()]))

    for weights in found[1:]:
        np.testing.assert_allclose(weights, found[0], rtol=1e-4, atol=1e-5)


def weights_of(model):
    """Return a number that depends on every weight."""
    return sum(variable.value[0] for variable in model.trainable_variables)


@pytest.mark.parametrize("label", list(ways.WAYS))
def test_a_loss_that_is_no_number_is_never_a_result(tf, label):
    """Times of a training that went wrong are not returned."""
    task = replace(TASK, learning_rate=1e38)
    if ways.WAYS[label] is ways.epoch_xla_by_column:
        task = replace(task, loss_by_column=lambda model, x, y: math.inf * (0 * tf.reduce_sum(weights_of(model)) + 1))

    with pytest.raises(TrainingError, match=r"the loss became (nan|inf|-inf) in epoch \d"):
        ways.WAYS[label](
            replace(task, loss="mean_squared_error", data=replace(CLOUD, y=CLOUD.y + 2e38)), batch_size=2000, epochs=5
        )


def test_too_much_data_is_refused_in_words(monkeypatch):
    """Before anything is copied to the device."""
    monkeypatch.setattr("helpers.devices.free_memory", lambda device: 1000)

    with pytest.raises(NotEnoughMemoryError, match="CPU:0 needs"):
        ways.epoch_function.start(TASK, batch_size=2000)


def test_the_way_by_column_needs_its_own_loss():
    """Other networks get words instead of a wrong answer."""
    with pytest.raises(ParameterError, match="no loss for data stored by column"):
        ways.epoch_xla_by_column.start(replace(TASK, loss_by_column=None), batch_size=2000)


def test_the_pipeline_gives_all_rows_in_a_new_order_of_batches():
    """Nothing is lost or doubled, and no epoch begins like the last."""
    batches = ways.pipeline(replace(TASK, data=CLOUD.sample(1000)), 110, seed=0)

    epochs = [[x.numpy() for x, _ in batches] for _ in range(3)]

    for epoch in epochs:
        assert sorted(len(x) for x in epoch) == [10, *[110] * 9]
        assert len({tuple(row) for row in np.concatenate(epoch)}) == 1000
    assert any(not np.array_equal(a[0], b[0]) for a, b in itertools.combinations(epochs, 2))


@pytest.mark.parametrize("jit_compile", [False, True])
def test_one_function_sees_every_batch_once_in_a_new_order(tf, jit_compile):
    """The loss of the last one is what comes back."""
    x = tf.reshape(tf.range(6, dtype=tf.float32), (6, 1, 1))
    model = models.two_clouds()
    model.compile("sgd", "mse", jit_compile=jit_compile)
    model.optimizer.build(model.trainable_variables)
    seen = tf.Variable(tf.zeros(7))  # six batches of the epoch, then the last one for its loss
    place = tf.Variable(0)

    def loss(x_batch, _y):
        seen.scatter_nd_update([[place]], [x_batch[0, 0]])
        place.assign_add(1)
        return x_batch[0, 0] + 0 * tf.reduce_sum(weights_of(model))

    epoch = ways._function_epochs(model, x, x, loss, ways._orders(6, TASK, seed=0), jit_compile=jit_compile)
    orders = []
    for _ in range(3):
        place.assign(0)
        _, logs = epoch()
        *order, last = seen.numpy().tolist()
        orders.append(order)
        assert float(logs["loss"]) == last == order[-1]

    assert all(sorted(order) == [0, 1, 2, 3, 4, 5] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_rows_that_fill_no_batch_are_trained_by_fit_only():
    """The number of steps says which way it was."""
    odd = replace(TASK, data=CLOUD.sample(1000))

    assert ways.fit(odd, batch_size=300, epochs=2).steps == 4
    assert ways.epoch_function(odd, batch_size=300, epochs=2).steps == 3


@pytest.mark.alone
def test_the_clock_waits_for_the_device(tf, asynchronous):
    """A queued product is inside the clock; afterwards nothing is left to wait for."""
    a = tf.random.stateless_normal((1500, 1500), seed=(0, 1))
    timing.clocked(lambda: tf.matmul(a, a))

    seconds, _ = timing.clocked(lambda: tf.matmul(a, a))
    rest, _ = timing.clocked(lambda: None)

    assert rest < seconds / 10


def test_rungs_are_ways_by_their_number():
    """The first is always there, because the others are compared with it."""
    assert list(ways.rungs([4, 2])) == [list(ways.WAYS)[place] for place in (0, 1, 3)]
    assert list(ways.rungs(range(1, 7))) == list(ways.WAYS)
    with pytest.raises(ParameterError, match=r"no rung 7\. Accepted are 1 to 6: fit on NumPy arrays"):
        ways.rungs([1, 7])


class ByHand:
    """One neuron for each of two clouds, in low-level TensorFlow."""

    def __init__(self, task, batch_size, seed):
        import tensorflow as tf

        self.tf, self.data, self.batch_size = tf, task.data, batch_size
        self.draw = np.random.default_rng(seed)
        self.variables = [tf.Variable(tf.zeros((2, 2))), tf.Variable(tf.zeros(2))]
        self.rows = []

    def outputs(self, x):
        weights, biases = self.variables
        return self.tf.matmul(x, weights) + biases

    def train_epoch(self):
        order = self.draw.permutation(len(self.data))
        for start in range(0, len(order), self.batch_size):
            rows = order[start : start + self.batch_size]
            self.rows.extend(rows)
            with self.tf.GradientTape() as tape:
                loss = self.tf.reduce_mean(models.cross_entropy(self.data.y[rows], self.outputs(self.data.x[rows])))
            for variable, gradient in zip(self.variables, tape.gradient(loss, self.variables), strict=True):
                variable.assign_sub(0.02 * gradient)
        return {"loss": loss}


def two_classes(count):
    """Return clouds whose labels are class numbers."""
    part = CLOUD.sample(count)
    return replace(part, y=part.y[:, 0].astype("int32"), classes=("first", "second"))


@pytest.fixture(scope="module")
def by_hand():
    """Five epochs of 1000 points, with 300 to validate and 500 to test, on the second device."""
    parts = {"data": two_classes(1000), "validation": two_classes(300), "test": two_classes(500)}
    task = replace(TASK, loss=models.cross_entropy, **parts)
    run = training.by_hand("by hand", ByHand, task, batch_size=64, device="CPU:1", seed=3)
    return run, training.in_turn({"by hand": run}, epochs=5)["by hand"]


def test_a_network_written_by_hand_is_trained_like_any_other(by_hand):
    """The same record: seconds per epoch with the first apart, device, steps, history, final."""
    run, found = by_hand

    assert found.way == "by hand" and found.epochs.n == 4 and found.epochs.device == Device("CPU", 1)
    assert (found.steps, found.batch_size, found.examples) == (16, 64, 1000)
    assert found.flags == {"jit_compile": False, "dtype": "float32", "shuffles": "rows"}
    assert sorted(run.model.rows) == sorted(list(range(1000)) * 5)
    assert found.history["loss"][0] > found.history["loss"][-1]


def test_validation_is_looked_at_after_every_epoch_with_a_clock_of_its_own(by_hand):
    """And test data once, in the end."""
    run, found = by_hand

    assert found.validation.n == 4 and found.looks == 300 and found.validation.device == Device("CPU", 1)
    assert len(found.history["val_accuracy"]) == len(found.history["val_loss"]) == 5
    test = run.task.test
    outputs = run.model.outputs(test.x).numpy()
    assert found.final["accuracy"] == pytest.approx(np.mean(outputs.argmax(axis=1) == test.y), abs=1e-6)
    assert found.final["loss"] == pytest.approx(float(np.mean(models.cross_entropy(test.y, outputs))), rel=1e-5)
    hits = run.model.outputs(run.task.validation.x).numpy().argmax(axis=1) == run.task.validation.y
    assert found.history["val_accuracy"][-1] == pytest.approx(np.mean(hits), abs=1e-6)
    assert found.history["val_loss"][-1] < found.history["val_loss"][0]


def test_a_model_of_keras_is_validated_and_tested_as_keras_would(tf):
    """Loss and accuracy over all rows, however they are cut into batches."""
    parts = {"data": two_classes(100), "validation": two_classes(300), "test": two_classes(500)}

    def model():
        import keras

        return keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])

    task = replace(TASK, model=model, loss=models.cross_entropy, **parts)
    run = ways.fit.start(task, batch_size=50)
    for _ in range(2):
        run.epoch()

    found = run.training()

    loss, accuracy = run.model.evaluate(parts["test"].x, parts["test"].y, verbose=0)
    assert found.final == pytest.approx({"loss": loss, "accuracy": accuracy}, rel=1e-4)
    loss, accuracy = run.model.evaluate(parts["validation"].x, parts["validation"].y, verbose=0)
    assert found.history["val_loss"][-1] == pytest.approx(loss, rel=1e-4)
    assert found.history["val_accuracy"][-1] == pytest.approx(accuracy, rel=1e-4)


def test_validation_data_that_cannot_be_used_is_refused_before_training():
    """As the training data is."""
    broken = replace(CLOUD, y=CLOUD.y[:5])
    with pytest.raises(TrainingError, match="20,000 examples in x"):
        ways.fit.start(replace(TASK, validation=broken), batch_size=2000)


def test_small_batches_are_cut_for_wide_layers(monkeypatch):
    """A batch's widest layer takes 80 MB at most, and every row comes once."""
    from helpers import evaluation

    data = two_classes(1000)
    found = list(evaluation._batches(data, None, 100_000))

    assert [len(x) for x, _ in found] == [200] * 5
    assert np.array_equal(np.concatenate([x for x, _ in found]), data.x)


def pictures(count: int = 250) -> Dataset:
    """Return small random pictures of four classes; 250 leave a rest after batches of 64."""
    draw = np.random.default_rng(0)
    x = draw.random((count, 8, 8, 1), "float32")
    return Dataset("pictures", x, (4 * x.mean((1, 2, 3))).astype("int32") % 4, "made up", classes=tuple("abcd"))


def small_cnn(dropout=0.0):
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(dropout, seed=1),
            keras.layers.Dense(4, activation="softmax"),
        ]
    )


ROW_WAYS = {
    "fit": ways.fit,
    "tf.data": ways.fit_pipeline,
    "tf.data, many steps": ways.fit_many_steps,
    "many steps": replace(ways.fit, prepare=ways.prepare_many_steps),
    "step function": replace(ways.fit, prepare=ways.prepare_step_function),
    "epoch function": replace(ways.fit, prepare=ways.prepare_epoch_function),
    "XLA": replace(ways.fit, prepare=ways.prepare_epoch_function, jit_compile=True),
    "fused Adam": replace(ways.fit, fused_adam=True),
    "best": ways.resident,
}


@pytest.mark.long
def test_the_same_rows_in_the_same_order_give_the_same_numbers():
    """After an epoch with a rest, both the losses on the way and the loss in the end agree within 1e-3."""
    task = Task(pictures(), small_cnn, "sparse_categorical_crossentropy", 0.01, ("accuracy",), shuffle=False)
    found = {}
    for label, way in ROW_WAYS.items():
        run = way.start(task, batch_size=64, seed=2)
        for _ in range(2):
            run.epoch()
        found[label] = run.training()

    base = found["fit"]
    assert base.steps == 4 and base.history["loss"][1] < 0.99 * base.history["loss"][0]
    for label, other in found.items():
        assert other.final["loss"] == pytest.approx(base.final["loss"], rel=1e-3), label
        assert other.history["loss"] == pytest.approx(base.history["loss"], rel=1e-3), label
        assert other.flags["shuffles"] == "nothing"


def test_batches_of_rows_are_the_same_for_the_ways_over_whole_batches():
    """Two clouds by column take the first rows first, when nothing is shuffled."""
    task = replace(TASK, shuffle=False)
    losses = []
    for way in (ways.fit, ways.epoch_function, ways.epoch_xla, ways.epoch_xla_by_column):
        run = way.start(task, batch_size=2000, seed=2)
        run.epoch()
        losses.append(float(run.evaluate(task.data)["loss"]))

    assert losses[1:] == pytest.approx([losses[0]] * 3, rel=1e-3)


def test_every_epoch_has_a_new_order_unless_nothing_is_shuffled():
    """All numbers occur once in each."""
    orders = ways._orders(50, TASK, seed=0)
    still = ways._orders(50, replace(TASK, shuffle=False), seed=0)

    first, second = (orders().numpy().tolist() for _ in range(2))

    assert first != second and sorted(first) == sorted(second) == list(range(50))
    assert still().numpy().tolist() == still().numpy().tolist() == list(range(50))


def test_batches_are_prepared_on_the_device_that_trains(tf):
    """CPU:1 stands in for a GPU; prefetching there is the last step of the pipeline."""
    x, y = next(iter(ways.pipeline(TASK, 2000, seed=0, device="CPU:1")))

    assert x.device.endswith("CPU:1") and y.device.endswith("CPU:1") and x.shape == (2000, 2)


def test_the_best_way_is_one_choice_for_each_network():
    """By column where the network has a loss for it; else rows on the device."""
    assert ways.best(TASK) is ways.epoch_xla_by_column
    assert ways.best(replace(TASK, loss_by_column=None)) is ways.resident
    assert ways.resident.label not in ways.WAYS  # nothing takes it silently


@pytest.mark.parametrize(
    ("way", "policy", "dtype"),
    [
        (ways.fit, "mixed_bfloat16", "bfloat16"),
        (ways.resident, "mixed_bfloat16", "bfloat16"),
        (ways.resident, "mixed_float16", "float16"),
    ],
)
def test_numbers_of_half_the_size_learn_nearly_the_same(way, policy, dtype):
    """The weights stay float32; the policy of the process is the same afterwards."""
    task = Task(pictures(), small_cnn, "sparse_categorical_crossentropy", 0.01, shuffle=False)

    exact = way(task, batch_size=64, epochs=2)
    found = replace(way, dtype_policy=policy)(task, batch_size=64, epochs=2)

    assert found.flags["dtype"] == dtype and exact.flags["dtype"] == "float32"
    assert 0 < abs(found.final["loss"] / exact.final["loss"] - 1) < 0.05
    assert keras.config.dtype_policy().name == "float32"


def test_dropout_can_be_drawn_from_bytes_or_left_out():
    """Both only where they are asked for; without dropout the numbers are those of a network that has none."""
    task = Task(pictures(), lambda: small_cnn(0.5), "sparse_categorical_crossentropy", 0.01, shuffle=False)
    plain = replace(task, model=small_cnn)

    none = replace(ways.fit, dropout="none")(task, batch_size=64, epochs=2)
    without = ways.fit(plain, batch_size=64, epochs=2)
    drawn = {kind: replace(ways.fit, dropout=kind)(task, batch_size=64, epochs=2) for kind in ("keras", "bytes")}

    assert none.final["loss"] == pytest.approx(without.final["loss"], rel=1e-5)
    assert drawn["bytes"].history["loss"][0] != drawn["keras"].history["loss"][0]
    assert drawn["bytes"].history["loss"][0] == pytest.approx(drawn["keras"].history["loss"][0], rel=0.2)
    assert drawn["bytes"].flags["dropout"] == "bytes" and none.flags["dropout"] == "none"


def test_a_network_written_by_hand_shuffles_by_itself():
    """Rows in their order cannot be asked of it."""
    with pytest.raises(TrainingError, match="shuffles by itself"):
        training.by_hand("mine", lambda *_: None, replace(TASK, shuffle=False), batch_size=10)


@pytest.mark.alone
def test_the_best_way_is_not_slower_than_fit(tf):
    """On a network with much to optimise, where it gains most."""

    def wide():
        dense = [keras.layers.Dense(800) for _ in range(3)]
        return keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), *dense])

    task = Task(replace(pictures(), classes=tuple(map(str, range(800)))), wide, models.cross_entropy, 1e-4)
    runs = {way.label: way.start(task, batch_size=25) for way in (ways.fit, ways.best(task))}

    fit, best = training.in_turn(runs, epochs=8).values()

    assert Comparison(fit.step, best.step).ratio > 1
