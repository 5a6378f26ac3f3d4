"""The chapter's table from the records of any machines: 15 epochs of each network on each device, and who wins.

Only like is compared with like. Records of other machines are untrusted text: what the table shows of them
is printable, and whoever shows it as HTML must escape it. Times are in seconds.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from helpers import results
from helpers.chapter import NETWORKS
from helpers.chapter_rows import Row, rows_of
from helpers.comparing import TOO_CLOSE

# The chapter's result for its three programs; it gives no seconds that could be compared, and names no CPU.
PUBLISHED_LESS = 0.30
PUBLISHED = (
    f"published: GeForce GT 720, TensorFlow 1, 15 epochs: about {100 * PUBLISHED_LESS:.0f} % less time than its CPU, "
    "on average"
)


@dataclass(frozen=True)
class Chapter:
    """The chapter's table over all folders."""

    rows: Sequence[Row]
    left_out: int  # runs of which a longer or a newer one is shown
    problems: Sequence[str]

    def table(self):
        """Return it as pandas text, ready to be shown."""
        import pandas as pd

        several = len({row.folder for row in self.rows}) > 1
        shown = [
            {
                "network": row.network,
                **({"folder": row.folder} if several else {}),
                "device": f"{row.device} · {row.device_name}",
                "environment": row.environment,
                "15 epochs": str(row.whole),
                "against": row.opponent,
                "training is": row.verdict,
                "test accuracy": row.learnt,
            }
            for row in self.rows
        ]
        return pd.DataFrame(shown)

    def reductions(self) -> list[str]:
        """Return in words how much less time each device took on average, as the chapter reports it."""
        found = {}
        for row in self.rows:
            if row.less is not None:
                found.setdefault(row.place[:-1], []).append(row)  # networks have batch sizes of their own
        lines = []
        for (folder, _, environment, device, name, *_), rows in found.items():
            mean = statistics.mean(row.less for row in rows)
            close = sum(row.verdict == TOO_CLOSE for row in rows)
            lines.append(
                f"{device} · {name} ({environment} environment, {folder}): {abs(mean):.0%} "
                f"{'less' if mean >= 0 else 'more'} time than the CPU it is compared with, on average over "
                f"{len(rows)} of {len(NETWORKS)} networks" + (f" ({close} of them too close to call)" if close else "")
            )
        return [*lines, PUBLISHED]

    def __str__(self) -> str:
        if not self.rows:
            lines = ["No record of the three networks was found there. Run notebooks 04, 05 and 06 first."]
        else:
            lines = [self.table().to_string(index=False), "", *self.reductions()]
        if self.left_out:
            lines.append(f"Runs not shown, because a longer or a newer one of the same kind is: {self.left_out}.")
        return "\n".join([*lines, *(f"Not used: {problem}" for problem in self.problems)])


def chapter(*folders: str | Path) -> Chapter:
    """Read the records of folders and return the chapter's table; earlier folders come first."""
    folders = list(dict.fromkeys(Path(folder).resolve() for folder in folders))  # one folder by two names is one
    table, problems = results.read(*folders)
    names = _short(folders)
    rows, faults = rows_of(table, names)
    kept = {}
    for row in sorted(rows, key=lambda row: (len(row.training.values) * row.training.examples, row.utc)):
        kept[row.network, row.place] = row  # the last one stays: most epochs, then newest
    order = sorted(kept.values(), key=lambda r: (list(NETWORKS).index(r.network), names.index(r.folder), r.place[2:5]))
    base = _bases(order)
    found = [replace(row, base=base(row)) for row in order]
    return Chapter(found, len(rows) - len(found), [*problems, *faults])


def _short(folders: Sequence[Path]) -> list[str]:
    """Return as much of the end of each path as tells it from the others; a page tells no more."""
    longest = max((len(folder.parts) for folder in folders), default=1)
    for length in range(1, longest + 1):
        names = ["/".join(folder.parts[-length:]) for folder in folders]
        if len(set(names)) == len(folders):
            break
    return names


def _bases(rows: Sequence[Row]) -> Callable[[Row], Row | None]:
    """Return how to find the CPU row to compare with: of the same machine if it has one, and of the CPU environment.

    A machine's first CPU row is compared with nothing. A GPU prefers a run that was made like its own.
    """
    on_machine, anywhere = {}, {}
    for row in (row for row in rows if row.kind == "CPU"):
        on_machine.setdefault((row.network, row.machine), []).append(row)
        anywhere.setdefault(row.network, row)

    def base(row: Row) -> Row | None:
        def distance(other: Row) -> tuple:
            return row.kind != "CPU" and other.conditions != row.conditions, other.environment != "CPU"

        same = on_machine.get((row.network, row.machine))
        found = min(same, key=distance) if same else anywhere.get(row.network)
        return None if found is row else found

    return base
