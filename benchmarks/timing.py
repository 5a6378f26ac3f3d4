"""The kit's timing beside torch.utils.benchmark and pyperf, on the same work: do they agree, and at what cost?

    .venv/bin/python benchmarks/timing.py --rounds 5 --json timing.json

The work is SHA-256, over and over: it needs no memory, one thread and no library of either environment, so
nothing but the timing differs. Each contestant is a process of its own, in turn; ratios are taken within a
round. All keep their defaults, but to save time pyperf starts 3 processes of values of 50 ms, not 20 of
100 ms, and adaptive_autorange gives up after 3 s, as the kit does, not after 10.
Every time is in seconds per call of the work.
"""

import argparse
import contextlib
import functools
import hashlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import side_by_side

from helpers.timing import format_seconds, measure, quartiles

SIZES = {format_seconds(size): size for size in (10e-6, 100e-6, 1e-3, 10e-3, 100e-3)}  # seconds of work, about
AIMED, AGREED = tuple(SIZES)[2:], 0.03  # from 1 ms on, the kit is to be within 3 % of every peer
LONG, MOST_BEYOND = "10 ms", 0.01  # there, the kit's calls are to take at most 1 % more than their work
BUSY = {f"{LONG}, {count} busy": count for count in sorted({1, os.cpu_count() or 1})}  # processes beside the work
LINE = "{:16} {:15} {:>8} {:>18} {:>25}  {}".format


class Work:
    """Some work to be timed; as a yardstick it keeps the seconds of each of its calls by a bare clock."""

    def __init__(self, repeats: int):
        self.repeats, self.seconds = repeats, []
        self.result = None  # what a call returns: the kit reads the device back from it

    def __call__(self):
        start = time.perf_counter()
        hashlib.pbkdf2_hmac("sha256", b"kit", b"peers", self.repeats)
        self.seconds.append(time.perf_counter() - start)
        return self.result


def calibrate() -> dict[str, int]:
    """Return how many repeats each size of work takes here."""
    one, many = Work(1), Work(10_000)
    for work in [one, many] * 7:
        work()
    start, repeat = min(one.seconds), (min(many.seconds) - min(one.seconds)) / (many.repeats - 1)
    return {what: 1 + max(0, round((size - start) / repeat)) for what, size in SIZES.items()}


@contextlib.contextmanager
def keep_busy(count: int) -> Iterator[list[subprocess.Popen]]:
    """Let `count` processes compute beside the block; they end with it, or when this process is gone."""
    code = f"import os\nprint(flush=True)\nwhile os.getppid() == {os.getpid()}: sum(range(100_000))"
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in started:
            process.stdout.readline()  # from here on it computes
        yield started
    finally:
        for process in started:
            process.kill()
            process.communicate()


def with_kit(_plan) -> Callable:
    """Return the kit's way to measure, with TensorFlow and its device started; each result is read back."""
    from helpers import devices

    place = devices.find("CPU:0")
    tensor = devices.load_tensorflow().zeros(())

    def by_kit(_what: str, work: Work) -> tuple:
        work.result = tensor
        found = measure(work, place)
        return found.values, found.calls_per_value, [found.steadiness] if found.steadiness != "steady" else []

    return by_kit


def with_torch(kind: str, _plan, **limit) -> Callable:
    """Return one of the two ways in which torch's Timer measures."""
    from torch.utils import benchmark

    def by_torch(_what: str, work: Work) -> tuple:
        found = getattr(benchmark.Timer("work()", globals={"work": work}), f"{kind}_autorange")(**limit)
        warnings = [line.split("WARNING: ")[1] for line in repr(found).splitlines() if "WARNING: " in line]
        return found.times, found.number_per_run, warnings

    return by_torch


def with_pyperf(plan: Sequence) -> Callable:
    """Return the way of pyperf's Runner, which starts this file anew for each process that it measures in."""
    import pyperf

    runner = pyperf.Runner(processes=3, min_time=0.05, program_args=(__file__, "--way", "pyperf", json.dumps(plan)))
    runner.argparser.add_argument("--way", nargs=2)
    if runner.parse_args().worker:
        for what, repeats, _ in plan:
            runner.bench_func(what, Work(repeats))  # all but the one whose turn it is return at once
        sys.exit()

    def by_pyperf(what: str, work: Work) -> tuple:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            found = runner.bench_func(what, work)
        for run in found.get_runs():  # pyperf's own record, since its calls happen in other processes
            for calls, value in (*run.warmups, *((run.get_loops(), value) for value in run.values)):
                work.seconds += [value] * calls
        return found.get_values(), None, [line[2:] for line in said.getvalue().splitlines() if line[:2] == "* "]

    return by_pyperf


WAYS = {
    "kit": with_kit,
    "torch, blocked": functools.partial(with_torch, "blocked"),
    "torch, adaptive": functools.partial(with_torch, "adaptive", max_run_time=3.0),
    "pyperf": with_pyperf,
}


def answer(work: Work, wall: float, values: Sequence[float], calls_per_value: int | None, warnings: list) -> dict:
    """Compare a measurement of `wall` seconds with the work's own record, whose last calls are those of the values.

    `beyond_s` is what a call took beyond its work, `added_s` the part of it that the values report.
    """
    beyond = (wall - sum(work.seconds)) / len(work.seconds)
    found = {"median_s": statistics.median(values), "warnings": warnings, "beyond_s": beyond}
    if calls_per_value:
        last = work.seconds[-len(values) * calls_per_value :]
        bare = [statistics.mean(last[i : i + calls_per_value]) for i in range(0, len(last), calls_per_value)]
        found["added_s"] = statistics.median(value - own for value, own in zip(values, bare, strict=True))
        found["bare_s"] = statistics.median(bare)
    return found


def contest(way: str, plan: Sequence) -> dict[str, dict]:
    """Measure in one way all work of the plan, whose rows are (what, repeats, busy processes)."""
    measured, found = WAYS[way](plan), {}
    for what, repeats, busy in plan:
        work = Work(repeats)
        with keep_busy(busy):
            start = time.perf_counter()
            taken = measured(what, work)
            wall = time.perf_counter() - start
        found[what] = answer(work, wall, *taken)
    return found


def by_way(answers: Mapping[str, list[dict]], what: str, key: str = "median_s") -> dict[str, list[float]]:
    """Return one value a round, in seconds, of each way that has it."""
    return {way: [a[what][key] for a in found] for way, found in answers.items() if key in found[0][what]}


def divided(ones: Mapping[str, list[float]], others: Mapping[str, list[float]]) -> dict[str, list[float]]:
    """Return the ratio of each round for each way."""
    return {way: [one / other for one, other in zip(ones[way], others[way], strict=True)] for way in ones}


def print_rows(what: str, seconds: Mapping, ratios: Mapping, words: Mapping) -> list[dict]:
    """Print a line for each way (seconds, ratios, what they mean); return the rows for other programs."""
    rows = side_by_side.rows_of(what, seconds)
    for row in rows:
        way, half = row["way"], f"{format_seconds(row['low_s'])} to {format_seconds(row['high_s'])}"
        low, high = quartiles(ratios[way])
        ratio = f"{statistics.median(ratios[way]):.4f} ({low:.4f} to {high:.4f})"
        print(LINE(what, way, format_seconds(row["median_s"]), half, ratio, words.get(way, "")).rstrip())
    return rows


def print_agreement(answers: Mapping[str, list[dict]]) -> list[dict]:
    """Print what each way reports, and where the kit is further from it than it aims at."""
    print(LINE("work", "way", "median", "middle half", "kit / this way", f"within {AGREED:.0%}?"))
    rows, missed = [], []
    for what in SIZES:
        seconds = by_way(answers, what)
        ratios = divided(dict.fromkeys(seconds, seconds["kit"]), seconds)
        far = [way for way in ratios if abs(statistics.median(ratios[way]) - 1) > AGREED]
        rows += print_rows(what, seconds, ratios, {way: "no" if way in far else "yes" for way in ratios})
        missed += [f"{what} beside {way}" for way in far if what in AIMED]
    print(f"Aim, within {AGREED:.0%} from {AIMED[0]} on: {'missed at ' if missed else 'met'}{'; '.join(missed)}.")
    return rows


def print_cost(answers: Mapping[str, list[dict]]) -> list[dict]:
    """Print what a call takes beyond its work, and which part of that is reported as if it were work."""
    print("\n" + LINE("per call", "way", "seconds", "middle half", "share of the work", "").rstrip())
    rows = []
    for key, words in (("beyond_s", "beyond"), ("added_s", "reported")):
        for what in SIZES:
            seconds = by_way(answers, what, key)
            rows += print_rows(f"{what}, {words}", seconds, divided(seconds, by_way(answers, what)), {})
    share = statistics.median(divided(by_way(answers, LONG, "beyond_s"), by_way(answers, LONG))["kit"])
    verdict = "met" if share <= MOST_BEYOND else "missed"
    print(f"Aim, kit at most {MOST_BEYOND:.0%} beyond {LONG}: {verdict} ({share:.2%}).")
    return rows


def print_noise(answers: Mapping[str, list[dict]]) -> list[dict]:
    """Print what each way reports while other processes compute, and in how many rounds it warns, and how."""
    print("\n" + LINE("other processes", "way", "median", "middle half", "this / 0 busy", "warnings"))
    rows = []
    for what, label in {LONG: f"{LONG}, 0 busy", **dict(zip(BUSY, BUSY, strict=True))}.items():
        words = {}
        for way, found in answers.items():
            warned = [a[what]["warnings"][0] for a in found if a[what]["warnings"]]
            words[way] = f"{len(warned)} of {len(found)}{': ' if warned else ''}{max(warned, default='', key=len)}"
        seconds = by_way(answers, what)
        rows += print_rows(label, seconds, divided(seconds, by_way(answers, LONG)), words)
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--way"]:  # one contestant, in its own process; pyperf appends options for its own
        print(json.dumps(contest(sys.argv[2], json.loads(sys.argv[3]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way runs (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the tables here as well")
    options = parser.parse_args()
    if not side_by_side.PEERS.exists():
        sys.exit("PyTorch and pyperf have an environment of their own, which is missing: type `make bench`.")
    repeats = calibrate()
    plan = [(what, repeats[what], 0) for what in SIZES] + [(what, repeats[LONG], count) for what, count in BUSY.items()]
    python = dict.fromkeys(WAYS, str(side_by_side.PEERS)) | {"kit": sys.executable}
    commands = {way: [python[way], __file__, "--way", way, json.dumps(plan)] for way in WAYS}
    answers = side_by_side.in_turn(commands, options.rounds)
    rows = print_agreement(answers) + print_cost(answers) + print_noise(answers)
    floor_s = {what: statistics.median(by_way(answers, what, "bare_s")["kit"]) for what in SIZES}
    side_by_side.write_json(options.json, options.rounds, rows, floor_s)


if __name__ == "__main__":
    main()
