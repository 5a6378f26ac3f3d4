"""Levers: which apply, measured in turn, stopped when too slow, and the advice that follows."""

import subprocess
from dataclasses import replace

import pytest

from helpers import lever_plots, levers, plots, training, ways, workloads
from helpers.devices import Device
from helpers.elsewhere import Elsewhere, Request
from helpers.errors import ParameterError, TrainingError
from helpers.levers import Lever, Outcome
from helpers.timing import Measurement
from helpers.training import Training

CPU = Device("CPU", 0)
FIT = levers.LEVERS[0]
CLOUDS = workloads.find("two_clouds").task(2000)


def labels_for(name: str, device: Device) -> list[str]:
    model = workloads.find(name).task(20).model()
    return [lever.label for lever in levers.LEVERS if lever.only(model, device)]


def scripted(label: str, seconds) -> Lever:
    """A lever whose epochs take the seconds given, whatever the network does."""

    def prepare(model, task, batch_size, seed):
        times = iter(seconds)
        return lambda: (next(times), {"loss": 0.5})

    return Lever(label, replace(ways.fit, label=label, prepare=prepare), f"the reason of {label}")


def outcome(lever: Lever, seconds: float, batch_size: int = 10) -> Outcome:
    epochs = Measurement(lever.label, CPU, 9.0, (seconds * 0.99, seconds, seconds, seconds * 1.01))
    found = Training(lever.label, epochs, 10, batch_size, 100, {"loss": [0.5] * 5}, {"accuracy": 0.9, "loss": 0.1}, {})
    return Outcome(lever, found, 100)


def test_levers_are_chosen_by_number_and_the_base_is_always_there():
    """Without something to compare with, a time says nothing."""
    assert [lever.label for lever in levers.choose([6, 2])] == [
        "as people write it",
        "larger batches",
        "one function per epoch",
    ]
    with pytest.raises(ParameterError, match=r"no lever 99\..*1 to 18: as people write it, "):
        levers.choose([99])


def test_only_levers_that_mean_something_are_tried():
    """No dropout, no levers of dropout; TF32 is for GPUs, oneDNN for CPUs."""
    on_cpu, on_gpu = labels_for("two_clouds", CPU), labels_for("two_clouds", Device("GPU", 0))

    assert not {"dropout from bytes", "no dropout", "without TF32"} & set(on_cpu)
    assert {"oneDNN on", "one thread", "XLA", "all together"} <= set(on_cpu)
    assert "without TF32" in on_gpu and not {"oneDNN on", "huge pages", "one thread"} & set(on_gpu)
    assert {"dropout from bytes", "no dropout"} <= set(labels_for("cifar_cnn", CPU))


def test_a_training_is_measured_with_each_lever():
    """Larger batches make fewer steps of as many examples; each outcome knows where it ran."""
    chosen = levers.choose([2, 6])

    found = levers.measure(CLOUDS, chosen, batch_size=100, epochs=3, device="CPU:1")

    assert list(found) == ["as people write it", "larger batches", "one function per epoch"]
    assert [one.training.batch_size for one in found.values()] == [100, 400, 100]
    assert all(one.examples == 2000 and one.example.n == 2 for one in found.values())
    assert all(one.training.epochs.device == Device("CPU", 1) for one in found.values())
    base = found["as people write it"]
    assert base.example.median == pytest.approx(base.training.epochs.median / 2000)
    assert [one.training.way for one in found.values()] == list(found)
    with pytest.raises(ParameterError, match="epochs = 1"):
        levers.measure(CLOUDS, chosen, batch_size=100, epochs=1)


def test_a_lever_that_is_too_slow_is_stopped_after_its_second_epoch():
    """The others go on; five times slower is still measured in full."""
    chosen = [scripted("base", [9, 1, 1, 1]), scripted("slow", [9, 5.1]), scripted("fine", [9, 4.9, 4.9, 4.9])]

    found = levers.measure(CLOUDS, chosen, batch_size=100, epochs=4)

    assert {label: one.training.epochs.n for label, one in found.items()} == {"base": 3, "slow": 1, "fine": 3}
    assert found["slow"].verdict(found["base"]) == "5 times slower, stopped"
    assert found["fine"].verdict(found["base"]) == "too close to call"  # three values are too few


def test_the_advice_is_the_largest_gain_that_changes_nothing():
    """Neither what learns something else nor all together is advised; a slower lever least of all."""
    faster, fastest = scripted("faster", ()), scripted("fastest", ())
    outcomes = {
        "base": outcome(FIT, 1.0),
        "faster": outcome(faster, 0.8),
        "fastest": outcome(fastest, 0.5),
        "unfair": outcome(replace(scripted("unfair", ()), learns="in fewer steps"), 0.1),
        "slower": outcome(scripted("slower", ()), 3.0),
        "all together": outcome(levers.LEVERS[-1], 0.2),
    }

    assert levers.advice("MLP", outcomes) == (
        "MLP is limited by the reason of fastest, so first: fastest (2.0 times faster)."
    )
    del outcomes["fastest"], outcomes["faster"]
    assert levers.advice("MLP", outcomes).startswith("MLP: no single lever makes it faster here.")
    few = replace(
        outcomes["base"], training=replace(outcomes["base"].training, epochs=Measurement("", CPU, 1.0, (1.0,)))
    )
    assert levers.advice("MLP", {"base": few}) == "MLP: nothing can be said from so few epochs."


def test_every_lever_says_what_it_relieves_and_has_its_own_name():
    """The advice is made of these words."""
    assert all(lever.limited_by for lever in levers.LEVERS[1:])
    assert len({lever.label for lever in levers.LEVERS}) == len(levers.LEVERS)
    marked = {lever.label for lever in levers.LEVERS if lever.changes_learning}
    assert marked == {"larger batches", "bfloat16", "float16", "no dropout"}


@pytest.mark.parametrize("before", [True, False])
def test_tf32_is_off_while_its_lever_trains_and_as_before_afterwards(tf, before):
    """A switch of the whole process must not leak into the other trainings, nor change what its user set."""
    config = tf.config.experimental
    seen, usual = [], config.tensor_float_32_execution_enabled()

    class Model:
        def fit(self, **_options):
            seen.append(config.tensor_float_32_execution_enabled())
            raise InterruptedError

    epoch = levers._prepare_parity(Model(), CLOUDS, 10, 0)
    config.enable_tensor_float_32_execution(before)
    try:
        with pytest.raises(InterruptedError):
            epoch()
        assert seen == [False] and config.tensor_float_32_execution_enabled() is before
    finally:
        config.enable_tensor_float_32_execution(usual)


@pytest.mark.long
def test_levers_with_an_environment_run_in_processes_that_end(monkeypatch):
    """With their variables; a lever that fails takes the others with it."""
    started = []

    class Seen(Elsewhere):
        def __init__(self, *given):
            super().__init__(*given)
            started.append((*given, self._process))

    monkeypatch.setattr(levers, "Elsewhere", Seen)
    broken = scripted("broken", [1])  # its second epoch raises StopIteration

    with pytest.raises(StopIteration):
        levers.measure(CLOUDS, [FIT, levers.LEVERS[-1], broken], batch_size=100, epochs=2)

    ((request, environment, process),) = started
    assert request.way == replace(ways.best(CLOUDS), label="all together") and request.batch_size == 100
    assert environment == {**levers.ONEDNN, **levers.HUGE_PAGES}
    assert process.poll() is not None


@pytest.fixture
def request_of():
    return Request(CLOUDS, ways.epoch_function, 100, "CPU:0", 0)


@pytest.mark.long
def test_a_training_elsewhere_takes_its_turns_like_any_other(request_of):
    """Epochs are timed over there, and what comes back is a usual training."""
    here = ways.fit.start(CLOUDS, batch_size=100)

    with Elsewhere(request_of, {"TF_NUM_INTRAOP_THREADS": "1"}) as other:
        found = training.in_turn({"elsewhere": other, "here": here}, epochs=3)

    assert found["elsewhere"].way == "one function per epoch" and found["elsewhere"].steps == 20
    assert found["elsewhere"].epochs.n == 2 and found["elsewhere"].epochs.device == CPU
    assert found["elsewhere"].final["accuracy"] > 0.9
    assert other._process.poll() is not None  # it has ended


def test_the_environment_reaches_the_other_process_and_its_words_come_back(request_of):
    """Keras refuses a backend that does not exist."""
    with pytest.raises(TrainingError, match=r"(?s)the process that trained it ended: .*nonsense"):
        Elsewhere(request_of, {"KERAS_BACKEND": "nonsense"})


@pytest.mark.long
def test_what_is_wrong_with_the_training_is_said_as_it_would_be_here(request_of):
    """Not every failure is one of memory."""
    with pytest.raises(ParameterError, match="batch_size = 3000 is not possible"):
        Elsewhere(replace(request_of, batch_size=3000), {})


def test_a_process_that_dies_is_said_in_words(request_of, monkeypatch):
    """As when the system kills it for its memory; nothing hangs."""
    dead = subprocess.Popen
    code = "import pickle, sys; pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps(None)); "
    monkeypatch.setattr(subprocess, "Popen", lambda command, **options: dead([command[0], "-c", code], **options))
    other = Elsewhere(request_of, {})
    other._process.wait()

    with pytest.raises(TrainingError, match="one function per epoch: the process that trained it ended without a word"):
        other.epoch()
    other.close()


def test_the_picture_shows_gains_losses_and_what_learns_something_else():
    """Bars are percents of the first outcome's time; one that is too long is cut and says so."""
    gain, loss = scripted("gain", ()), scripted("loss", ())
    other = replace(scripted("other", ()), learns="in fewer steps")
    found = {
        "A": {"base": outcome(FIT, 1.0), "gain": outcome(gain, 0.5), "loss": outcome(loss, 3.0)},
        "B": {"base": outcome(FIT, 1.0), "gain": outcome(gain, 1.0), "other": outcome(other, 0.25)},
    }

    left, right = lever_plots.time_left(found, plots.new_axes(2))

    widths = [bar.get_width() for bar in left.patches]
    assert widths == pytest.approx([50, lever_plots.WIDEST])
    assert [text.get_text() for text in left.texts] == ["50 %", "300 %", "not here"]
    assert [label.get_text() for label in left.get_yticklabels()] == ["gain", "loss", "other"]
    inks = [plots.mpl.colors.to_hex(bar.get_facecolor(), keep_alpha=False).upper() for bar in left.patches]
    assert inks == [lever_plots.HELPS, lever_plots.HURTS]
    assert [bar.get_hatch() for bar in right.patches] == [None, "///"]
    slow = replace(outcome(loss, 8.0), is_stopped=True)
    few = replace(slow, training=replace(slow.training, epochs=Measurement("", CPU, 1.0, (8.0,))))
    alone, _ = lever_plots.time_left(
        {"A": {"base": outcome(FIT, 1.0), "loss": few}, "B": found["B"]}, plots.new_axes(2)
    )
    assert plots.mpl.colors.to_hex(alone.patches[0].get_facecolor()).upper() == lever_plots.HURTS
    assert plots.mpl.colors.to_hex(right.patches[0].get_facecolor()) == lever_plots.NEITHER


def test_the_picture_of_inputs_says_how_many_times_longer_an_epoch_takes():
    """Against batches that lie ready."""
    rows = {"slow": {"training": 3.0, "input alone": 2.0}, "fast": {"training": 1.5, "input alone": 0.5}}

    ax = lever_plots.input_ladder(rows, 1.0, plots.new_axes())

    assert [bar.get_width() for bar in ax.patches] == [3.0, 2.0, 1.5, 0.5]
    assert [text.get_text().strip() for text in ax.texts] == ["3.0 times", "1.5 times"]


@pytest.mark.parametrize(
    "name",
    [
        name if name in ("two_clouds", "mnist_mlp") else pytest.param(name, marks=pytest.mark.long)
        for name in workloads.KNOWN
    ],
)
def test_every_workload_fits_together(name):
    """Network, data and loss, in the published sizes; the limit is obeyed."""
    work = workloads.find(name)

    task = work.task(20)
    run = ways.resident.start(task, batch_size=10)
    run.epoch()

    assert len(task.data) == 20 and run.steps == 2
    assert {"two_clouds": 100_000, "cifar_cnn": 128, "bigger_network": 128}.get(name, 100) == work.batch_size


def test_an_unknown_workload_is_said_in_words():
    """With those that there are."""
    with pytest.raises(ParameterError, match="no workload 'mlp'.*two_clouds, mnist_mlp"):
        workloads.find("mlp")


def test_the_published_sizes_are_taken_where_nothing_is_said():
    """Half a million points in each cloud."""
    assert len(workloads.find("two_clouds").task().data) == 1_000_000
    assert (workloads.find("mnist_mlp").examples, workloads.find("cifar_cnn").examples) == (55_000, 40_000)
