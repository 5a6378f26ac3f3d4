"""Forecasts: which devices, which batches, and what is said about them."""

import json
import shutil
from dataclasses import replace

import pytest

from helpers import calibrate, forecast, hardware, machine, models, parameters, predict
from helpers.errors import ParameterError
from helpers.predict import Comparison, Crossover, Prediction

SHIPPED = next((parameters.PROJECT / "results" / "reference").glob("calibration--*.json"))
OWN = {"cpu": "my CPU", "usable_cpus": 6}


@pytest.fixture(scope="module")
def cnn(tf):
    return models.mnist_cnn()


@pytest.fixture(scope="module")
def late(tf):
    """A GPU with a tenth of a second before each step: it loses until batches are large."""
    t4 = predict.machine("T4")
    hosts = {way: replace(host, per_step=host.per_step + 0.1) for way, host in t4.hosts.items()}
    return replace(t4, name="late", hosts=hosts)


@pytest.fixture(scope="module")
def reference(tf):
    return forecast.reference()


@pytest.fixture
def results_dir(tf, tmp_path, monkeypatch):
    """An empty folder for records, of a machine whose name is known."""
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path))
    monkeypatch.setattr(machine, "describe", lambda: OWN)
    return tmp_path


def keep(results_dir, name: str, utc: str = "2026-01-01T00:00:00Z", faster: float = 1, **own):
    """Store the shipped calibration under another name, date, speed, and machine; return what the file holds."""
    content = json.loads(SHIPPED.read_text(encoding="utf-8"))
    content["utc"] = utc
    content["machine"] |= OWN | own
    content["device"]["name"] = name
    for row in content["measurements"]:
        row["values"] = [value / faster for value in row["values"]]
    path = results_dir / f"calibration--CPU0--{name.replace(' ', '_')}.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def names(*asked: str) -> list[str]:
    return [device.name for device in forecast.machines(asked)[0]]


@pytest.mark.parametrize(
    ("text", "batches"),
    [
        ("32", [32]),
        ("8,1, 100,8", [1, 8, 100]),
        ("1..8", [1, 2, 4, 8]),
        ("10 .. 100", [10, 16, 32, 64, 100]),
        ("5..5", [5]),
        ("1048576", [2**20]),
    ],
)
def test_batches_are_read(text, batches):
    """One, several, or both ends and the powers of two between."""
    assert forecast.batches(text) == batches


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "a", "8..1", "1..2..3", "1...8", "1,", "1048577", "9" * 5000])
def test_other_batches_are_refused(text):
    """With what is accepted."""
    with pytest.raises(ParameterError, match="32, or 1,8,100, or 1..4096"):
        forecast.batches(text)


def test_without_names_it_is_the_reference_and_a_gpu_that_many_can_borrow(results_dir):
    """As long as this machine is not calibrated, and also where there is no folder yet."""
    assert names() == [f"reference: {calibrate.reference().name}", "Tesla T4"]
    shutil.rmtree(results_dir)
    assert names() == [f"reference: {calibrate.reference().name}", "Tesla T4"]


def test_without_names_it_is_this_machine_once_it_is_calibrated(results_dir):
    """The newest record counts, whatever its file is called."""
    keep(results_dir, "a new", "2026-03-01T00:00:00Z")
    keep(results_dir, "old", "2026-02-01T00:00:00Z")

    assert names() == ["here: a new", "Tesla T4"]
    assert names("RTX 4090", "Here", "reference") == [
        "GeForce RTX 4090", "here: a new", f"reference: {calibrate.reference().name}"
    ]  # fmt: skip


def test_here_is_as_fast_as_it_was_measured(results_dir, cnn):
    """The constants come from its own record."""
    keep(results_dir, "fast", faster=10)

    (here,), _ = forecast.machines(["here"])

    ratio = predict.compare(cnn, 1024, forecast.reference(), here).ratio
    assert 8 < ratio < 12 and here.place == "CPU:0"


@pytest.mark.parametrize("own", [{"cpu": "other CPU"}, {"usable_cpus": 5}])
def test_a_calibration_of_another_machine_does_not_count(results_dir, own):
    """Another processor, or other cores of it."""
    keep(results_dir, "other", **own)

    with pytest.raises(ParameterError, match="This machine is not calibrated.*course predict --calibrate"):
        forecast.machines(["here"])


def test_broken_calibrations_are_named_and_older_ones_used(results_dir):
    """Half a file, one that was stopped early, and one whose rows are no pieces; other experiments do not matter."""
    good = keep(results_dir, "good").read_text()
    for name, change in (
        ("stopped", lambda rows: rows[:3]),
        ("strange", lambda rows: [{**row, "sizes": []} for row in rows]),
        ("empty", lambda rows: []),
    ):
        path = keep(results_dir, name, "2026-04-01T00:00:00Z")
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "measurements": change(content["measurements"])}))
    (results_dir / "calibration--half.json").write_text(good[: len(good) // 2])
    (results_dir / "matmul_sweep--half.json").write_text("{")

    found, problems = forecast.machines(["here"])

    assert [device.name for device in found] == ["here: good"]
    named = [problem.split(".json")[0] for problem in problems]
    assert named == ["calibration--half", "calibration--CPU0--strange", "calibration--CPU0--stopped"]


def test_without_a_usable_calibration_the_broken_ones_are_named(results_dir):
    """So that nobody wonders why the one they made does not count."""
    (results_dir / "calibration--half.json").write_text("{")

    with pytest.raises(ParameterError, match="not calibrated. Not used: calibration--half.json: cannot be read"):
        forecast.machines(["here"])


def test_a_device_that_was_named_twice_is_shown_once(cnn, reference):
    """Also by two names."""
    found = forecast.of(cnn, ["T4", reference, "tesla t4"], [1])

    assert [device.name for device in found.machines] == ["Tesla T4", reference.name]


def test_the_table_has_times_and_verdicts_in_words(cnn, reference):
    """Each batch a row; all devices are compared with the first."""
    found = forecast.of(cnn, [reference, "T4", "RTX 4090"], [1, 4096])

    table = found.table()
    assert list(table.columns) == [
        "batch", reference.name, "Tesla T4", "Tesla T4 is", "GeForce RTX 4090", "GeForce RTX 4090 is"
    ]  # fmt: skip
    assert list(table["batch"]) == ["1", "4,096"]
    assert table["Tesla T4"].str.fullmatch(r"[\d.,]+ (µs|ms|s) \([\d.,]+( (µs|ms|s))? to [\d.,]+ (µs|ms|s)\)").all()
    assert table["Tesla T4 is"].iloc[-1].endswith("times faster")
    assert found.comparison("Tesla T4", 1).b.seconds == predict.step_time(cnn, 1, "T4").seconds


@pytest.mark.parametrize(
    ("a", "b", "spread", "words"),
    [
        (2.0, 1.0, 0.1, "2.0 times faster"),
        (1.0, 3.14, 0.1, "3.1 times slower"),
        (1.05, 1.0, 0.001, "1.05 times faster"),
        (2.0, 1.0, 0.5, "too close to call"),
        (1.0, 1.0, 0.0, "too close to call"),
    ],
)
def test_a_verdict_counts_only_outside_the_interval(a, b, spread, words):
    """Where the interval holds 1, nobody wins."""
    pair = [
        Prediction("m", name, "fit", 1, {"host": seconds}, spread, (), True) for name, seconds in (("a", a), ("b", b))
    ]

    assert forecast.verdict(Comparison(*pair)) == words


def test_a_batch_that_does_not_fit_is_said_with_the_largest_that_does(cnn, reference):
    """In the table, in the words, and for programs."""
    small, none = (
        replace(hardware.find("T4"), name=name, memory_bytes=size) for name, size in (("s", 10**8), ("n", 9))
    )

    found = forecast.of(cnn, [reference, small, none], [1, 1024])

    most = predict.largest_batch(cnn, small)
    assert found.table()["s"].iloc[1] == f"does not fit: at most {most:,}"
    assert found.table()["s is"].iloc[1] == "" and found.table()["n"].iloc[0] == "does not fit"
    assert "n has not enough memory for any of these batches." in found.words()
    assert [pair.largest for pair in found.crossovers] == [most]
    assert list(found.curves()) == [reference.name, "s"]
    row = found.as_json()["devices"][1]["batches"][1]
    assert row == {
        "batch": 1024, "seconds": None, "low": None, "high": None, "parts": {}, "fits": False, "largest_batch": most
    }  # fmt: skip


def test_the_crossover_is_told_from_the_side_that_wins_the_large_batches(cnn, reference, late):
    """Whichever device was named first."""
    for machines in ([reference, late], [late, reference]):
        (found,) = forecast.of(cnn, machines, [1]).crossovers
        assert (found.a, found.b, found.word) == (reference.name, "late", "from")


@pytest.mark.parametrize(
    ("batch", "low", "high", "words"),
    [
        (34.4, 12.8, 89.2, "b is predicted to be faster than a from batch 34 on (somewhere between 12 and 90)."),
        (34.4, 1, 89.2, "from batch 34 on (somewhere between 1 and 90)."),
        (34.4, 12.8, None, "from batch 34 on (or from 12 on, or not at all: it stays too close to call up to 65,536)."),
        (1, 1, 1, "b is predicted to be faster than a at every batch size."),
        (1, 1, 5.2, "at every batch size; below 6 it is too close to call."),
        (1, 1, None, "at every batch size; up to 65,536 it is too close to call."),
        (None, None, None, "b is predicted to be faster than a at none of the batch sizes up to 65,536."),
        (None, 700.9, None, "up to 65,536, though from batch 700 on it is too close to call."),
    ],
)
def test_a_crossover_is_said_with_its_interval(batch, low, high, words):
    """In every case that there is."""
    assert forecast._crossover_in_words(Crossover("a", "b", batch, low, high, 65536)).endswith(words)


def test_what_limits_each_device_is_said(cnn, late):
    """At the smallest and at the largest batch, in words that need no explanation."""
    first, *_ = forecast.of(cnn, [late], [1, 32]).words()
    changed, *_ = forecast.of(cnn, [late], [1, 16384]).words()
    alone, *_ = forecast.of(cnn, [late], [4]).words()

    python = "Python and Keras between the steps"
    assert first == f"late spends the largest part of a step on {python} at batch 1 as at batch 32."
    assert changed.startswith(f"late spends the largest part of a step on {python} at batch 1")
    assert changed.endswith(" at batch 16,384.")
    assert alone == f"late spends the largest part of a step on {python} at batch 4."
    assert set(forecast.LIMITS) == set(predict.PARTS)


def test_a_limit_that_changes_with_the_batch_is_said_twice(tf):
    """A little work is all start, much work is all arithmetic."""
    import keras

    wide = keras.Sequential([keras.Input((4096,)), keras.layers.Dense(4096)])

    words, *_ = forecast.of(wide, ["T4"], [1, 4096], "resident").words()

    assert words.endswith(
        "on moving numbers between memory and processor at batch 1, and on arithmetic at batch 4,096."
    )


def test_what_is_said_at_the_end(cnn, reference):
    """Where the figures come from, and how far they can be trusted."""
    words = forecast.of(cnn, [reference, "T4"], [1]).words()

    assert "These are predictions" in words[-1] and "TensorFlow 2.21 and Keras 3.15" in words[-1]
    assert "4 of 5" in words[-1] and "--calibrate" in words[-2]
    assert not any("--calibrate" in line for line in forecast.of(cnn, ["T4"], [1]).words())


def test_layers_that_were_estimated_are_named(tf):
    """By kind."""
    import keras

    class Doubled(keras.layers.Layer):
        def call(self, x):
            return 2 * x

    model = keras.Sequential([keras.Input((4,)), Doubled(), Doubled(), keras.layers.Dense(1)])

    found = forecast.of(model, ["T4"], [1])
    assert "Only estimated from their shapes, so less certain: Doubled." in found.words()
    assert found.as_json()["estimated"] == ["Doubled"]


def test_the_numbers_for_programs_are_plain(cnn, reference, late):
    """They survive JSON, and are those of the predictions."""
    found = forecast.of(cnn, [reference, "T4", late], [1, 64], "resident", title="my.keras")

    content = json.loads(json.dumps(found.as_json(), allow_nan=False))

    assert (content["model"], content["parameters"], content["way"]) == ("my.keras", cnn.count_params(), "resident")
    assert [(row["name"], row["calibrated"]) for row in content["devices"]] == [
        (reference.name, True), ("Tesla T4", False), ("late", False)
    ]  # fmt: skip
    row, known = content["devices"][1]["batches"][1], predict.step_time(cnn, 64, "T4", "resident")
    assert (row["seconds"], row["low"], row["high"]) == (known.seconds, known.low, known.high)
    assert row["parts"] == known.parts and row["fits"] and row["batch"] == 64
    assert [set(pair) for pair in content["crossovers"]] == [{"a", "b", "batch", "low", "high", "word"}] * 2


def test_the_page_is_for_people(cnn, reference):
    """A heading, the table, and sentences that are not too long for a terminal."""
    page = str(forecast.of(cnn, [reference, "T4"], [1, 64], title="my.keras"))

    assert page.startswith("my.keras: 242,062 parameters.\n")
    _, _, below = page.partition("* ")
    assert max(map(len, below.splitlines())) <= 100


def test_the_catalogue_is_listed_with_units():
    """One line for each device."""
    lines = forecast.catalogue().splitlines()

    assert len(lines) == 1 + len(hardware.known())
    assert lines[0].split("  ")[-1].strip().endswith("memory GB/s") and "float32 TFLOP/s" in lines[0]
    (t4,) = [line.split() for line in lines if "Tesla T4" in line]
    assert t4 == ["t4", "Tesla", "T4", "2018", "8.1", "16", "320"]


def test_each_kind_of_device_is_calibrated_once(tf):
    """A second GPU like the first would take another minute."""
    assert list(map(str, forecast.to_calibrate())) == ["CPU:0"]  # of the two that stand for several


def test_a_calibration_is_kept_where_it_is_looked_for(results_dir, monkeypatch):
    """Measured by `calibrate`; only that is replaced here, since it takes a minute."""
    asked = []
    known = calibrate.reference()
    monkeypatch.setattr(calibrate, "measure", lambda settings, device: asked.append((settings, device)) or known)
    (device,) = forecast.to_calibrate()

    assert forecast.calibrated_now(device).name == f"here: {known.name}"
    ((settings, used),) = asked
    assert settings.results_dir == results_dir == forecast.folder() and settings.devices == (used,) == (device,)
