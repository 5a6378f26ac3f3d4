"""How long the chapter's table takes over thousands of records, and how much memory.

The records are copies of those that are shipped, with another processor in each: as from a large class.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

WHAT = "records"


def make(folder: Path, count: int) -> None:
    """Write `count` records of the three networks."""
    from helpers.chapter import NETWORKS
    from helpers.parameters import PROJECT

    shipped = PROJECT / "results" / "reference"
    originals = [json.loads(path.read_text()) for name in NETWORKS for path in sorted(shipped.glob(f"{name}--*.json"))]
    for place in range(count):
        record = originals[place % len(originals)]
        record["machine"]["cpu"] = record["device"]["name"] = f"processor {place // len(originals)}"
        (folder / f"{record['experiment']}--{place}.json").write_text(json.dumps(record))


def bytes_of(folder: Path) -> int:
    """Return how many bytes there are, after reading them all: the least that anything must do."""
    return sum(len(path.read_bytes()) for path in folder.iterdir())


def table_of(folder: Path) -> int:
    """Return the length of the chapter's table, as `course compare` prints it."""
    from helpers import compare

    return len(str(compare.chapter(folder)))


def rows_of(folder: Path) -> int:
    """Return the rows of the table of all measurements."""
    from helpers import results

    return len(results.read(folder)[0])


WAYS = {"results.read": rows_of, "course compare": table_of, "every byte read": bytes_of}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="how many records (default 10,000)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each way runs (default 3)")
    parser.add_argument("--json", metavar="FILE", help="write the table here as well")
    parser.add_argument("--way", nargs=2, help=argparse.SUPPRESS)  # one contestant and its folder, in its own process
    options = parser.parse_args()
    if options.way:
        import resource

        way, folder = options.way
        start = time.perf_counter()
        size = WAYS[way](Path(folder))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
        print(json.dumps({"seconds": seconds, "size": size, "peak_bytes": peak}))
        return

    import side_by_side

    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.count)
        commands = {way: [sys.executable, __file__, "--way", way, folder] for way in WAYS}
        answers = side_by_side.in_turn(commands, options.rounds)
    floor_s = {WHAT: statistics.median(answer["seconds"] for answer in answers.pop("every byte read"))}
    rows = side_by_side.rows_of(WHAT, {way: [a["seconds"] for a in found] for way, found in answers.items()})
    side_by_side.print_table(rows, floor_s)
    for way, found in answers.items():
        print(f"{way}: at most {max(answer['peak_bytes'] for answer in found) / 1e6:,.0f} MB")
    side_by_side.write_json(options.json, options.rounds, rows, floor_s)


if __name__ == "__main__":
    main()
