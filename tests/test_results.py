"""Records: whole or not at all, and never trusted when read."""

import getpass
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers import results
from helpers.devices import Device
from helpers.errors import RecordError
from helpers.timing import Measurement

CPU = Device("CPU", 0)
FLAGS = {"jit_compile": False, "dtype": "float32"}


@pytest.fixture
def settings(tmp_path):
    return SimpleNamespace(preset="quick", devices=(CPU,), seed=0, results_dir=tmp_path / "records", sizes=[100, 200])


def measured(device=CPU, seconds=0.5) -> Measurement:
    return Measurement("product", device, 1.0, (seconds, seconds + 0.1, seconds + 0.2))


def write(settings) -> Path:
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured(), size=100)
    record.add("product", measured(seconds=2.0), size=200)
    return record.path


def test_a_record_says_what_was_measured_where_and_how(settings):
    """The form that all later notebooks and other machines rely on."""
    content = json.loads(write(settings).read_text())

    assert (content["schema"], content["experiment"]) == (1, "matmul_sweep")
    assert content["device"] | {"name": ""} == {"asked": "CPU:0", "used": "CPU:0", "name": "", "kind": "CPU"}
    assert set(content["machine"]) == {"cpu", "usable_cpus", "memory_bytes", "system", "gpus"}
    assert set(content["flags"]) >= {"jit_compile", "dtype", "tf32", "onednn", "intra_op_threads"}
    assert content["versions"]["tensorflow"].startswith("2.")
    assert content["parameters"] == {"preset": "quick", "devices": ["CPU:0"], "seed": 0, "sizes": [100, 200]}
    row = {"label": "product", "unit": "s", "values": [0.5, 0.6, 0.7], "first": 1.0, "size": 100}
    assert content["measurements"][0] == row


def test_the_file_is_named_after_experiment_device_and_time(settings):
    """Names sort by experiment and time, and are allowed on Windows."""
    first, second = write(settings), write(settings)

    assert first != second
    experiment, device, utc, short_id = first.stem.split("--")
    assert (experiment, device, utc[-1], len(short_id)) == ("matmul_sweep", "CPU0", "Z", 8)
    assert ":" not in first.name


def test_a_record_does_not_tell_who_or_where(settings):
    """Records are sent to others."""
    text = write(settings).read_text()

    for private in (getpass.getuser() + "@", socket.gethostname(), str(settings.results_dir), str(Path.home()) + "/"):
        assert private not in text


def test_the_device_comes_from_the_result(settings):
    """A record of one device takes no measurement of another."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured())

    with pytest.raises(RecordError, match="ran on CPU:1, but this record is of CPU:0"):
        record.add("product", measured(device=Device("CPU", 1)))
    with pytest.raises(RecordError, match="its result does not tell, but this record is of CPU:0"):
        record.add("product", measured(device=None))
    with pytest.raises(RecordError, match="ran on CPU:0, but this record is of GPU:0"):
        results.start("matmul_sweep", Device("GPU", 0), settings, flags=FLAGS).add("product", measured())


def test_what_cannot_be_stored_is_refused_and_the_record_goes_on(settings, tf):
    """One slip must not spoil the measurements before and after it."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured(), size=100)

    for name, value in (("dtype", tf.float16), ("shape", tf.TensorShape(3))):
        with pytest.raises(RecordError, match="cannot be stored"):
            record.add("product", measured(), **{name: value})
    for name in ("n", "kind", "unit", "values", "median"):
        with pytest.raises(RecordError, match=f"{name} means something else"):
            record.add("product", measured(), **{name: 1})
    record.add("product", measured(), size=200)

    assert list(results.read(settings.results_dir)[0]["size"]) == [100, 200]
    with pytest.raises(RecordError, match="cannot be stored"):
        results.start("matmul_sweep", CPU, settings, flags=FLAGS | {"dtype": tf.float32})


def test_values_of_xla_flags_stay_private(settings, monkeypatch):
    """They may be paths."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/home/alice/secret --xla_cpu_multi_thread_eigen=false")

    content = json.loads(write(settings).read_text())

    assert content["flags"]["xla_flags"] == ["xla_dump_to", "xla_cpu_multi_thread_eigen"]


def test_flags_that_decide_a_timing_must_be_given(settings):
    """Nobody can tell later whether XLA compiled the work."""
    with pytest.raises(RecordError, match="lack dtype and jit_compile"):
        results.start("matmul_sweep", CPU, settings, flags={})


def test_the_table_has_a_row_for_each_measurement(settings):
    """Quartiles, what was varied, and where it ran."""
    write(settings)

    table, problems = results.read(settings.results_dir)

    assert problems == []
    assert list(table["size"]) == [100, 200] and list(table["device"]) == ["CPU:0"] * 2
    assert list(table["median"]) == pytest.approx([0.6, 2.1])
    assert list(table["low"]) == pytest.approx([0.55, 2.05]) and list(table["n"]) == [3, 3]


def test_what_json_cannot_hold_is_written_as_null(settings):
    """NaN in a file would make it unreadable for strict parsers."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS | {"ratio": float("nan")})
    record.note("a note alone is a record as well")

    content = json.loads(record.path.read_text(), parse_constant=pytest.fail)
    assert content["flags"]["ratio"] is None and content["notes"] == ["a note alone is a record as well"]


def spoil(path: Path, kind: str) -> None:
    text = path.read_text()
    content = json.loads(text)
    spoilt = {
        "truncated": text[:-10],
        "empty": "",
        "not JSON": "<<<<<<< HEAD\n" + text,
        "NaN": text.replace("0.5", "NaN", 1),
        "another schema": json.dumps(content | {"schema": 2}),
        "a list": "[1, 2]",
        "no measurements": json.dumps({k: v for k, v in content.items() if k != "measurements"}),
        "text for times": json.dumps(content | {"measurements": [content["measurements"][0] | {"values": ["<b>"]}]}),
        "a huge number": text.replace("0.5", "1" + "0" * 400, 1),
        "1e999": text.replace("0.5", "1e999", 1),
        "a device that is none": text.replace('"used": "CPU:0"', '"used": "<img src=x onerror=alert(1)>"'),
        "no times": json.dumps(content | {"measurements": [content["measurements"][0] | {"values": []}]}),
        "deep": "[" * 100_000,
        "not UTF-8": None,
    }[kind]
    path.write_bytes(b"\xff\xfe{" if spoilt is None else spoilt.encode())


@pytest.mark.parametrize(
    "kind",
    [
        "truncated",
        "empty",
        "not JSON",
        "NaN",
        "1e999",
        "a huge number",
        "another schema",
        "a list",
        "no measurements",
        "text for times",
        "no times",
        "a device that is none",
        "deep",
        "not UTF-8",
    ],
)
def test_a_bad_file_is_named_and_left_alone(settings, kind):
    """The good records beside it are read all the same."""
    good, bad = write(settings), write(settings)
    spoil(bad, kind)
    before = bad.read_bytes()

    table, problems = results.read(settings.results_dir)

    assert set(table["file"]) == {good.name}
    assert len(problems) == 1 and problems[0].startswith(f"{bad.name}: ") and len(problems[0]) > len(bad.name) + 5
    assert bad.read_bytes() == before


def test_a_folder_that_is_not_there_is_named(tmp_path):
    """An empty table, with its columns, and a reason."""
    table, problems = results.read(tmp_path / "nowhere")

    assert table.empty and list(table.columns) == list(results.COLUMNS)
    assert problems == [f"{tmp_path / 'nowhere'} cannot be read (No such file or directory)"]


def test_saving_that_fails_keeps_what_was_saved(settings, monkeypatch):
    """The old file stays until the new one is complete."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured(), size=100)
    before = record.path.read_bytes()

    def disk_full(*_args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(results.os, "fsync", disk_full)
    with pytest.raises(RecordError, match="cannot be written: No space left on device.*results_dir"):
        record.add("product", measured(), size=200)

    assert record.path.read_bytes() == before


def test_a_folder_that_cannot_be_written_is_named_in_words(settings, tmp_path):
    """A file stands where the folder should be."""
    (tmp_path / "records").write_text("I am a file")

    with pytest.raises(RecordError, match="cannot be written.*A folder is needed"):
        write(settings)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_killed_while_it_saves_loses_no_earlier_record(settings, stop):
    """It saves without pause; whenever it dies, all files that exist are whole."""
    earlier = write(settings)
    code = f"""
from types import SimpleNamespace
from helpers import results
from helpers.devices import Device
from helpers.timing import Measurement
cpu = Device("CPU", 0)
settings = SimpleNamespace(preset="quick", devices=(cpu,), seed=0, results_dir={str(settings.results_dir)!r})
record = results.start("matmul_sweep", cpu, settings, flags={FLAGS})
size = 0
while True:
    size += 1
    record.add("product", Measurement("product", cpu, 1.0, (0.1,) * 50), size=size)
    print(size, flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in child.stdout:
        if int(line) == 20:
            os.kill(child.pid, stop)
            break
    child.stdout.close()
    child.wait(timeout=60)

    table, problems = results.read(settings.results_dir)

    assert problems == []
    assert set(table["file"]) > {earlier.name}
    assert len(table[table["file"] != earlier.name]) >= 20


def test_the_new_file_is_complete_before_it_takes_the_place_of_the_old_one(settings, monkeypatch):
    """There is no moment at which the record's own name stands for half a file."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured(), size=100)
    before, seen = record.path.read_bytes(), []
    replace = os.replace

    def watch(draft, target):
        seen.append((len(json.loads(Path(draft).read_text())["measurements"]), Path(target).read_bytes() == before))
        replace(draft, target)

    monkeypatch.setattr(results.os, "replace", watch)
    record.add("product", measured(), size=200)

    assert seen == [(2, True)]
    assert [path.name for path in settings.results_dir.iterdir()] == [record.path.name]


def test_the_records_that_are_shipped_are_whole():
    """Those of the stored outputs: the published sweep, with all ten sizes."""
    table, problems = results.read(Path(__file__).parent.parent / "results" / "reference")
    sweep = table[table["experiment"] == "matmul_sweep"]

    assert problems == []
    assert list(sweep["size"]) == list(range(500, 5001, 500))
    assert set(table["preset"]) == {"full"}


def test_how_well_it_learnt_is_added_in_the_end(settings):
    """And read back, with what decides whether two runs may be compared."""
    record = results.start("matmul_sweep", CPU, settings, flags=FLAGS)
    record.add("product", measured(), size=100, jit_compile=True)
    record.add("product", measured(), size=200)
    record.finish(0.75, 0.5)

    table, problems = results.read(settings.results_dir)

    assert problems == [] and json.loads(record.path.read_text())["final"] == {"test_accuracy": 0.75, "test_loss": 0.5}
    assert list(table["final_accuracy"]) == [0.75, 0.75] and list(table["jit_compile"]) == [True, False]
    assert set(table["asked"]) == {"CPU:0"} and set(table["dtype"]) == {"float32"} and set(table["folder"]) == {0}
    assert list(table["values"]) == [measured().values] * 2
    with pytest.raises(RecordError, match="cannot be stored"):
        record.finish(1.5, 0.5)


def test_names_of_other_machines_cannot_steer_a_terminal(settings):
    """Escape sequences and signs that turn the direction of text become question marks."""
    path = write(settings)
    content = json.loads(path.read_text())
    content["device"]["name"] = "a\x1b[31m\u202eb"
    content["machine"]["cpu"] = "c\nd"
    path.write_text(json.dumps(content))

    table, _ = results.read(settings.results_dir)

    assert set(table["device_name"]) == {"a?[31m?b"} and set(table["cpu"]) == {"c?d"}
