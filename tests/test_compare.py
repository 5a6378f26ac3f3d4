"""The chapter's table: only like is compared with like, and nothing in a record can break it."""

import json
import math
from html.parser import HTMLParser
from pathlib import Path

import pytest

from helpers import chapter, cli, compare
from helpers.chapter import Part

THREADS = {"intra_op_threads": 0, "inter_op_threads": 0}


def record(
    network="mnist_mlp",
    seconds=4.0,
    *,
    device="CPU:0",
    name=None,
    cuda=None,
    utc="2026-11-30T12:00:00Z",
    cpu="AMD EPYC",
    epochs=15,
    examples=None,
    batch=None,
    accuracy=0.95,
    version="chapter",
    stand_in=False,
    **flags,
) -> dict:
    """Return the record of a training with epochs of `seconds` seconds each, and a tenth for validation."""
    usual, pictures, looks = chapter.NETWORKS[network]
    batch = batch or usual
    examples = examples or pictures
    varied = {"version": version, "way": "Keras", "jit_compile": flags.get("jit_compile", False), "batch_size": batch}
    spread = [seconds * (1 + 0.001 * place) for place in range(epochs - 1)]
    times = {
        "epoch": {"values": spread, "first": seconds + 1, "examples": examples, "steps": -(-examples // batch)},
        "validation": {"values": [t / 10 for t in spread], "first": seconds / 10, "examples": min(looks, examples)},
    }
    return {
        "schema": 1,
        "experiment": network,
        "utc": utc,
        "device": {"asked": device, "used": device, "name": name or cpu, "kind": device[:3]},
        "machine": {"cpu": cpu, "usable_cpus": 2, "memory_bytes": 10**10, "system": "Linux", "gpus": []},
        "versions": {"tensorflow": "2.21.0", "cuda": cuda},
        "flags": {"jit_compile": False, "dtype": "float32", "tf32": False, "onednn": "default", **THREADS, **flags},
        "parameters": {"preset": "full"},
        "data": {"name": "mnist", "source": "mnist.npz", "stand_in": stand_in},
        "measurements": [{"label": label, "unit": "s", **row, **varied} for label, row in times.items()],
        "notes": [],
        "final": {"test_accuracy": accuracy, "test_loss": 0.1},
    }


def write(folder: Path, *records: dict) -> Path:
    """Write records into a folder."""
    folder.mkdir(exist_ok=True)
    for place, content in enumerate(records, start=len(list(folder.iterdir()))):
        (folder / f"{content['experiment']}--{place}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


GPU = {"device": "GPU:0", "name": "NVIDIA T4", "cuda": "12.5.1"}


def test_15_epochs_are_added_up_when_all_were_trained():
    """First epoch and validation included, nothing calculated."""
    part = Part(5.0, [4.0] * 14, 55_000)

    found = chapter.whole("mnist_mlp", 100, part, Part(0.5, [0.4] * 14, 5_000))

    assert found.seconds == pytest.approx(5 + 56 + 0.5 + 5.6) and found.low == found.high == found.seconds
    assert str(found) == "67 s"
    assert str(chapter.whole("mnist_mlp", 1000, part, Part(0.5, [0.4] * 14, 5_000))) == "67 s (batches of 1,000)"


def test_15_epochs_are_scaled_up_from_fewer_with_their_limits():
    """Epochs of 11,000 of 55,000 digits take a fifth; tracing happens once."""
    found = chapter.whole(
        "mnist_mlp", 100, Part(3.0, [0.9, 1.0, 1.1, 1.0], 11_000), Part(0.1, [0.1, 0.1, 0.1, 0.1], 5_000)
    )

    assert found.seconds == pytest.approx(2.0 + 15 * 5 * 1.0 + 15 * 0.1)
    assert found.low == pytest.approx(2.0 + 15 * 5 * 0.9 + 1.5) and found.high == pytest.approx(2 + 15 * 5 * 1.1 + 1.5)
    assert "from 5 epochs of 11,000 pictures" in str(found) and " to " in str(found)


def test_the_gpu_is_compared_with_the_cpu_of_the_same_machine(tmp_path):
    """Also when the two environments wrote into two folders, and another machine comes first."""
    other = write(tmp_path / "other", record(seconds=99.0, cpu="Intel"))
    cpu = write(tmp_path / "cpu", record(seconds=4.0))
    gpu = write(tmp_path / "gpu", record(seconds=4.0, cuda="12.5.1"), record(seconds=1.0, **GPU))

    found = compare.chapter(other, cpu, gpu)

    (row,) = [row for row in found.rows if row.device == "GPU:0"]
    assert row.base.folder == "cpu" and row.verdict == "4.0 times faster"
    assert row.less == pytest.approx(1 - (1 + 15 * 1.1) / (1 + 15 * 4.4), abs=0.01)
    verdicts = {(Path(row.folder).name, row.environment): row.verdict for row in found.rows if row.device == "CPU:0"}
    assert any("(1 of them too close to call)" in line for line in found.reductions())
    assert verdicts == {("other", "CPU"): "", ("cpu", "CPU"): "", ("gpu", "GPU"): "too close to call"}


def test_a_gpu_without_any_cpu_is_not_compared(tmp_path):
    """It is no base either."""
    found = compare.chapter(write(tmp_path / "r", record(**GPU)))

    assert [row.verdict for row in found.rows] == ["not compared: there is no CPU run"]
    assert found.rows[0].less is None and not found.rows[0].is_base


def test_both_times_stand_beside_every_speed_up(tmp_path):
    """A ratio alone hides what became slower."""
    table = compare.chapter(write(tmp_path / "r", record(), record(seconds=1.0, **GPU))).table()

    (row,) = table[table["device"].str.startswith("GPU")].to_dict("records")
    assert row["15 epochs"].endswith(" s") and row["against"].startswith("CPU:0, ") and row["against"].endswith(" s")
    assert row["training is"] == "4.0 times faster" and row["test accuracy"] == "95.0%"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"jit_compile": True}, "jit_compile True against False"),
        ({"tf32": True}, "TF32 True against False"),
        ({"dtype": "float16"}, "dtype float16 against float32"),
        ({"epochs": 4}, "epochs 4 against 15"),
        ({"examples": 1000}, "pictures 1000 against 55000"),
        ({"stand_in": True}, "stand-in True against False"),
        ({"onednn": "0"}, "oneDNN 0 against default"),
        ({"intra_op_threads": 1}, "threads 1+0 against 0+0"),
        ({"batch": 1000}, "batch size 1000 against 100"),
    ],
)
def test_unlike_runs_are_not_compared_and_the_table_says_why(change, words, tmp_path):
    """Never a speed-up that something else than the device explains."""
    found = compare.chapter(write(tmp_path / "r", record(), record(seconds=1.0, **{**GPU, **change})))

    (row,) = [row for row in found.rows if row.device == "GPU:0"]
    assert row.verdict == f"not compared: {words}" and row.less is None
    assert words in str(found) and found.reductions() == [compare.PUBLISHED]
    assert ("stand-in" in found.table()["test accuracy"].tolist()) is ("stand_in" in change)


def test_the_average_is_over_the_networks_of_a_device(tmp_path):
    """75 %, 50 % and 25 % less are 50 % less on average, as the chapter counts."""
    records = []
    for network, share in zip(chapter.NETWORKS, (0.25, 0.5, 0.75), strict=True):
        records += [record(network, 4.0), record(network, 4.0 * share, **GPU)]

    (line, published) = compare.chapter(write(tmp_path / "r", *records)).reductions()

    assert "GPU:0 · NVIDIA T4" in line and "over 3 of 3 networks" in line
    assert abs(int(line.split("%")[0].split()[-1]) - 50) <= 1
    assert "GT 720" in published and "about 30 % less" in published


def test_the_longest_and_newest_of_several_runs_is_shown(tmp_path):
    """And how many are not."""
    runs = [
        record(seconds=2.0, epochs=2, utc="2026-12-03T00:00:00Z"),
        record(seconds=3.0, utc="2026-12-01T00:00:00Z"),
        record(seconds=4.0, utc="2026-12-02T00:00:00Z"),
        record(seconds=9.0, version="Keras"),
    ]

    found = compare.chapter(write(tmp_path / "r", *runs))

    (row,) = found.rows
    assert row.training.values[0] == 4.0 and found.left_out == 2 and "of the same kind is: 2." in str(found)


def spoilt(name: str) -> dict:
    found = record()
    epoch = found["measurements"][0]
    if name == "no validation":
        found["measurements"].pop()
    elif name == "no final":
        del found["final"]
    else:
        epoch |= {
            "zero steps": {"steps": 0},
            "wrong steps": {"steps": 1},
            "text": {"steps": "<b>"},
            "huge": {"examples": 10**400},
            "a tiny time": {"values": [5e-324] * 14},
            "one validation less": {"values": epoch["values"][1:]},
            "no switch": {"jit_compile": None},
            "a switch that is none": {"tf32": 1},
        }.get(name, {})
    if name == "no device":
        found["device"]["used"] = None
    return found


@pytest.mark.parametrize(
    "fault",
    [
        "no validation",
        "no final",
        "zero steps",
        "wrong steps",
        "text",
        "huge",
        "a tiny time",
        "one validation less",
        "no switch",
        "a switch that is none",
        "no device",
    ],
)
def test_a_record_without_what_the_table_needs_is_named_and_skipped(fault, tmp_path):
    """The others are shown all the same."""
    found = compare.chapter(write(tmp_path / "r", record(), spoilt(fault)))

    assert len(found.rows) == 1
    assert len(found.problems) == 1 and found.problems[0].startswith("mnist_mlp--1.json: ")


def test_damaged_empty_and_nan_bearing_files_are_named(tmp_path):
    """None of them stops the table."""
    folder = write(tmp_path / "r", record())
    (folder / "empty.json").write_text("")
    (folder / "nan.json").write_text(json.dumps(record() | {"final": {"test_accuracy": math.nan, "test_loss": 1.0}}))
    (folder / "foreign.json").write_text('{"results": []}')

    found = compare.chapter(folder)

    assert len(found.rows) == 1
    assert {problem.split(":")[0] for problem in found.problems} == {"empty.json", "nan.json", "foreign.json"}


class Tags(HTMLParser):
    """Collects the tags of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)


EVIL = "$\\frac{1}{$ <script>alert(1)</script><img src=x onerror=alert(2)> \x1b[31mred \u202e"


def test_markup_in_a_device_name_is_shown_and_never_executed(tmp_path, capsys):
    """In the terminal, in the notebook's table, on the page and in the picture."""
    folder = write(tmp_path / "r", record(), record(seconds=1.0, **{**GPU, "name": EVIL}))
    page = tmp_path / "class.html"

    assert cli.main(["compare", str(folder), "--html", str(page)]) == 0

    printed = capsys.readouterr().out
    assert "<script>alert(1)" in printed and "\x1b" not in printed and "\u202e" not in printed
    text = page.read_text(encoding="utf-8")
    assert "&lt;script&gt;alert(1)" in text and "\x1b" not in text
    assert set(Tags(text).found) <= {
        "html", "meta", "title", "style", "h1", "div", "table", "tr", "th", "td", "ul", "li", "img",
    }  # fmt: skip
    assert Tags(text).found.count("img") == 1
    assert "<script" not in compare.chapter(folder).table()._repr_html_()


def test_the_command_prints_the_table_and_says_when_there_is_none(tmp_path, capsys):
    """With exit codes for scripts."""
    assert cli.main(["compare", str(write(tmp_path / "r", record(), record(seconds=1.0, **GPU)))]) == 0
    assert "4.0 times faster" in capsys.readouterr().out

    assert cli.main(["compare", str(tmp_path / "nowhere")]) == 1
    printed = capsys.readouterr().out
    assert "No record of the three networks was found there. Run notebooks 04, 05 and 06 first." in printed
    assert "nowhere cannot be read" in printed


def test_a_page_is_written_only_where_a_page_may_be(tmp_path, capsys):
    """Not over a record, not into a folder that is not there."""
    folder = write(tmp_path / "r", record())
    mine = folder / "mnist_mlp--0.json"
    before = mine.read_bytes()

    for page, words in ((mine, "does not end in .html"), (tmp_path / "missing" / "x.html", "No such file")):
        assert cli.main(["compare", str(folder), "--html", str(page)]) == 2
        assert words in capsys.readouterr().err

    assert mine.read_bytes() == before


def test_a_table_tells_only_the_end_of_a_path(tmp_path):
    """As much as tells the folders apart."""
    (tmp_path / "ann").mkdir()
    (tmp_path / "bob").mkdir()
    folders = [write(tmp_path / name / "results", record()) for name in ("ann", "bob")]

    assert [row.folder for row in compare.chapter(*folders).rows] == ["ann/results", "bob/results"]
    assert str(tmp_path) not in str(compare.chapter(folders[0]))
    same = tmp_path / "bob" / ".." / "ann" / "results"
    assert len(compare.chapter(folders[0], same, folders[0]).rows) == 1


def test_very_many_values_do_not_hang(tmp_path):
    """A record may hold a hundred thousand."""
    long = record(epochs=20_001)

    assert len(compare.chapter(write(tmp_path / "r", record(), {**long, "device": record(**GPU)["device"]})).rows) == 2
