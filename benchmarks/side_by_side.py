"""What the benchmarks share: contestants in processes of their own, in turn, and one table in the end."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from helpers import machine
from helpers.timing import format_digits, format_seconds, quartiles

PROJECT = Path(__file__).resolve().parent.parent
PEERS = PROJECT / ".venv-bench" / "bin" / "python"  # the environment of the peers: `make bench` makes it


def ask(command: Sequence[str]) -> dict:
    """Return the last line that a contestant printed, which is JSON; its own words on failure."""
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode:
        sys.exit(f"{' '.join(command)} ended with {answer.returncode}:\n{answer.stderr[-2000:]}")
    try:
        return json.loads(answer.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        sys.exit(f"{' '.join(command)} gave no answer:\n{answer.stdout[-2000:]}")


def in_turn(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[dict]]:
    """Run every contestant once a round (A B C, A B C, …), and return their answers; say on stderr how far it is."""
    answers = {name: [] for name in commands}
    start, total = time.monotonic(), rounds * len(commands)
    for done in range(total):
        name = list(commands)[done % len(commands)]
        answers[name].append(ask(commands[name]))
        left = (time.monotonic() - start) / (done + 1) * (total - done - 1)
        place = f"round {done // len(commands) + 1} of {rounds}: {name}"
        print(f"{place} ({done + 1} of {total}, about {left / 60:.0f} min left)", file=sys.stderr, flush=True)
    return answers


def rows_of(what: str, seconds: Mapping[str, Sequence[float]]) -> list[dict]:
    """Return the rows of a report: median and quartiles of each contestant."""
    rows = []
    for way, values in seconds.items():
        low, high = quartiles(values)
        rows.append({"what": what, "way": way, "median_s": statistics.median(values), "low_s": low, "high_s": high})
    return rows


def print_table(rows: Sequence[dict], floor_s: Mapping[str, float]) -> None:
    """Print medians, middle halves, how many times faster than the first row of its kind, how many times the floor."""
    print(f"{'way':38} {'median':>9} {'middle half':>20} {'times faster':>13} {'times floor':>12}")
    for what in dict.fromkeys(row["what"] for row in rows):
        alike = [row for row in rows if row["what"] == what]
        for row in alike:
            half = f"{format_seconds(row['low_s'])} to {format_seconds(row['high_s'])}"
            faster, floor = alike[0]["median_s"] / row["median_s"], row["median_s"] / floor_s[what]
            shown = f"{format_seconds(row['median_s']):>9} {half:>20} {format_digits(faster, 3):>13}"
            print(f"{row['way']:38} {shown} {format_digits(floor, 3):>12}")
        print(f"floor of {what}: {format_seconds(floor_s[what])}")


def write_json(path: str | None, rounds: int, rows: Sequence[dict], floor_s: Mapping[str, float]) -> None:
    """Write the report for other programs, if a file was asked for."""
    if path:
        report = {"machine": machine.describe(), "rounds": rounds, "rows": rows, "floor_s": floor_s}
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(report, indent=1), encoding="utf-8")
