"""The benchmarks: their contestants learn the same, run in turn, and are reported as DESIGN says."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


@pytest.fixture
def side_by_side(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import side_by_side

    return side_by_side


@pytest.fixture
def two_clouds(monkeypatch):
    """The benchmark, with a fiftieth of the points."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import two_clouds

    monkeypatch.setattr(two_clouds, "POINTS", 20_000)
    monkeypatch.setattr(two_clouds, "BATCH", 2_000)
    return two_clouds


def contestant(name: str, log: Path) -> list[str]:
    answer = json.dumps({"seconds": 1.5})
    code = f"open({str(log)!r}, 'a').write({name!r}); print('noise'); print({answer!r})"
    return [sys.executable, "-c", code]


def test_contestants_run_in_turn_each_in_a_process(side_by_side, tmp_path, capsys):
    """A B A B: the last line of each is its answer."""
    log = tmp_path / "log"

    answers = side_by_side.in_turn({name: contestant(name, log) for name in "AB"}, rounds=2)

    assert log.read_text() == "ABAB"
    assert answers == {"A": [{"seconds": 1.5}] * 2, "B": [{"seconds": 1.5}] * 2}
    assert "round 2 of 2: B" in capsys.readouterr().err


def test_a_contestant_that_fails_ends_the_benchmark_with_its_words(side_by_side):
    """A table with a hole would be read as a result."""
    with pytest.raises(SystemExit, match="no such thing"):
        side_by_side.ask([sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(SystemExit, match="gave no answer"):
        side_by_side.ask([sys.executable, "-c", "pass"])


def test_the_report_is_the_one_of_the_design(side_by_side, tmp_path, capsys):
    """Medians and quartiles; ratios to the first row and to the floor; the same as JSON."""
    rows = side_by_side.rows_of("work", {"slow": [4.0, 2.0, 3.0], "fast": [0.5, 0.5, 0.5]})

    side_by_side.print_table(rows, {"work": 0.25})
    side_by_side.write_json(str(tmp_path / "report.json"), 3, rows, {"work": 0.25})

    assert rows[0] == {"what": "work", "way": "slow", "median_s": 3.0, "low_s": 2.5, "high_s": 3.5}
    table = capsys.readouterr().out.splitlines()
    assert table[2].split() == ["fast", "500", "ms", "500", "ms", "to", "500", "ms", "6.00", "2.00"]
    assert table[3] == "floor of work: 250 ms"
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert set(report) == {"machine", "rounds", "rows", "floor_s"}
    assert report["rounds"] == 3 and report["rows"] == rows and report["floor_s"] == {"work": 0.25}


@pytest.mark.parametrize("shuffle_rows", [False, True])
def test_the_plain_numpy_loop_learns_as_much_as_the_kit(two_clouds, shuffle_rows):
    """It would be no peer otherwise."""
    seconds, accuracy = two_clouds.numpy_loop(shuffle_rows)

    assert seconds > 0 and 0.94 <= accuracy <= 0.98


def test_the_kits_ways_are_contestants(two_clouds):
    """Fifteen warm epochs, after one that is not counted."""
    seconds, accuracy = two_clouds.kit("one function per epoch")

    assert seconds > 0 and 0.94 <= accuracy <= 0.98


def test_a_missing_environment_of_the_peers_is_said_in_words(two_clouds, side_by_side, monkeypatch, tmp_path):
    """Before anything runs."""
    monkeypatch.setattr(side_by_side, "PEERS", tmp_path / "python")
    monkeypatch.setattr(sys, "argv", ["two_clouds.py"])

    with pytest.raises(SystemExit, match="type `make bench`"):
        two_clouds.main()


def test_many_records_are_read_into_one_table(tmp_path, monkeypatch):
    """Each network and processor has its row; the peak and the seconds are reported."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    import many_records

    many_records.make(tmp_path, 30)

    assert many_records.rows_of(tmp_path) >= 60 and many_records.table_of(tmp_path) > 30 * 80
    assert many_records.bytes_of(tmp_path) > 30 * 1000
