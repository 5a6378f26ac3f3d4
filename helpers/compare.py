"""The chapter's table from the records of any machines: 15 epochs of each network on each device, and who wins.

Only like is compared with like. Records of other machines are untrusted text: what the table shows of them
is printable, and whoever shows it as HTML must escape it. Times are in seconds.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from helpers import results
from helpers.chapter import NETWORKS, Part, Whole, whole
from helpers.comparing import Comparison
from helpers.devices import parse
from helpers.timing import Measurement, format_seconds

# The chapter's result for its three programs; it gives no seconds that could be compared, and names no CPU.
PUBLISHED = "published: GeForce GT 720, TensorFlow 1, 15 epochs: about 30 % less time than its CPU, on average"
PUBLISHED_LESS = 0.30


@dataclass(frozen=True)
class Row:
    """15 epochs of one network on one device, from one record."""

    network: str
    folder: str
    machine: tuple  # processor and usable cores
    environment: str  # "CPU" or "GPU": what TensorFlow was built for
    device: str  # "GPU:0"
    device_name: str
    conditions: dict  # what must be alike in two runs that are compared
    training: Part
    validation: Part
    steps: int
    accuracy: float | None  # on the test pictures; None for a stand-in
    utc: str
    file: str
    base: "Row | None" = None  # the CPU's row to compare with; None for that row itself

    @cached_property
    def whole(self) -> Whole:
        return whole(self.network, self.training, self.validation)

    @property
    def kind(self) -> str:
        return parse(self.device).kind

    @property
    def is_base(self) -> bool:
        """Whether others are compared with this row, and it with none."""
        return self.base is None and self.kind == "CPU"

    @property
    def place(self) -> tuple:
        """What a row stands for: only one is shown for each, and base rows are looked for by it."""
        alike = tuple(value for name, value in self.conditions.items() if name not in ("epochs", "pictures"))
        return (self.folder, self.machine, self.environment, self.device, self.device_name, *alike)

    @property
    def step(self) -> Measurement:
        values = tuple(seconds / self.steps for seconds in self.training.values)
        return Measurement(self.device, parse(self.device), self.training.first / self.steps, values)

    @property
    def unlike(self) -> list[str]:
        """What keeps this row from being compared with its base: "epochs 15 against 4"."""
        base = self.base.conditions if self.base else self.conditions
        return [f"{n} {value} against {base[n]}" for n, value in self.conditions.items() if value != base[n]]

    @property
    def verdict(self) -> str:
        """Say how the device stands against the CPU, from the epochs after the first."""
        if self.base is None:
            return "" if self.is_base else "not compared: there is no CPU run"
        if self.unlike:
            return f"not compared: {', '.join(self.unlike)}"
        return Comparison(self.base.step, self.step).verdict

    @property
    def opponent(self) -> str:
        """The device to compare with and its time."""
        if self.base is None:
            return ""
        where = "" if self.base.machine == self.machine else f" of another machine ({self.base.device_name})"
        return f"{self.base.device}{where}, {format_seconds(self.base.whole.seconds)}"

    @property
    def less(self) -> float | None:
        """By which share of the CPU's time this is shorter; None where nothing is compared."""
        return None if self.base is None or self.unlike else 1 - self.whole.seconds / self.base.whole.seconds


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
                "test accuracy": "stand-in" if row.accuracy is None else f"{row.accuracy:.1%}",
            }
            for row in self.rows
        ]
        return pd.DataFrame(shown)

    def reductions(self) -> list[str]:
        """Return in words how much less time each device took on average, as the chapter reports it."""
        found = {}
        for row in self.rows:
            if row.less is not None:
                found.setdefault(row.place, {})[row.network] = row.less
        lines = []
        for (folder, _, environment, device, name, *_), less in found.items():
            mean = statistics.mean(less.values())
            lines.append(
                f"{device} · {name} ({environment} environment, {folder}): {abs(mean):.0%} "
                f"{'less' if mean >= 0 else 'more'} time than the CPU it is compared with, on average over "
                f"{len(less)} of {len(NETWORKS)} networks"
            )
        return [*lines, PUBLISHED]

    def __str__(self) -> str:
        if not self.rows:
            lines = ["No record of the three networks was found. Run notebooks 04, 05 and 06 first."]
        else:
            lines = [self.table().to_string(index=False), "", *self.reductions()]
        if self.left_out:
            lines.append(f"{self.left_out} more runs are not shown: a longer or a newer one of the same kind is.")
        return "\n".join([*lines, *(f"Not used: {problem}" for problem in self.problems)])


def chapter(*folders: str | Path) -> Chapter:
    """Read the records of folders and return the chapter's table; earlier folders come first."""
    table, problems = results.read(*folders)
    names = _short(folders)
    rows, faults = _rows(table, names)
    kept = {}
    for row in sorted(rows, key=lambda row: (len(row.training.values) * row.training.examples, row.utc)):
        kept[row.network, row.place] = row  # the last one stays: most epochs, then newest
    order = sorted(kept.values(), key=lambda r: (list(NETWORKS).index(r.network), names.index(r.folder), r.place[2:5]))
    base = _bases(order)
    found = [replace(row, base=base(row)) for row in order]
    return Chapter(found, len(rows) - len(found), [*problems, *faults])


def _short(folders: Sequence[str | Path]) -> list[str]:
    """Return as much of the end of each path as tells it from the others; a page tells no more."""
    parts = [Path(folder).absolute().parts for folder in folders]
    for length in range(1, max(map(len, parts), default=1)):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(set(parts)):
            return names
    return [str(folder) for folder in folders]


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


def _rows(table, names: Sequence[str]) -> tuple[list[Row], list[str]]:
    """Return a row for each record that holds the chapter's training, and what is wrong with others."""
    rows, problems = [], []
    if "version" not in table:
        return rows, problems
    wanted = table[table["experiment"].isin(NETWORKS) & (table["version"] == "chapter")]
    files = {}
    for row in wanted.to_dict("records"):
        files.setdefault((row["folder"], row["file"]), {})[row["label"]] = row
    for (_, file), parts in files.items():
        try:
            rows.append(_row(parts["epoch"], parts["validation"], names))
        except (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError) as error:
            problems.append(f"{file}: no usable training of the chapter in it ({type(error).__name__}: {error})")
    return rows, problems


def _row(epoch: dict, validation: dict, names: Sequence[str]) -> Row:
    examples, steps, batch = (_count(epoch[name], name) for name in ("examples", "steps", "batch_size"))
    if steps not in (examples // batch, -(-examples // batch)) or len(epoch["values"]) != len(validation["values"]):
        raise ValueError(f"{steps} steps do not fit {examples} examples, or epochs and validations differ")
    if not isinstance(epoch["device"], str) or not str(epoch["dtype"]).isidentifier():
        raise ValueError("its device or its dtype is not known")
    training, looks = (
        Part(_seconds(row["first"]), [_seconds(v) for v in row["values"]], _count(row["examples"], "examples"))
        for row in (epoch, validation)
    )
    conditions = {
        "stand-in": epoch["stand_in"],
        "dtype": epoch["dtype"],
        "jit_compile": _switch(epoch["jit_compile"], "jit_compile"),
        "TF32": _switch(epoch["tf32"], "tf32"),
        "oneDNN": str(epoch["onednn"])[:20],
        "threads": f"{epoch['intra_op_threads']}+{epoch['inter_op_threads']}"[:20],
        "TensorFlow": str(epoch["tensorflow"])[:20],
        "epochs": len(training.values) + 1,
        "pictures": examples,
        "batch size": batch,
    }
    accuracy = None if epoch["stand_in"] else _share(epoch["final_accuracy"])
    return Row(
        network=epoch["experiment"],
        folder=names[epoch["folder"]],
        machine=(epoch["cpu"], epoch["cores"]),
        environment=epoch["environment"],
        device=epoch["device"],
        device_name=epoch["device_name"],
        conditions=conditions,
        training=training,
        validation=looks,
        steps=steps,
        accuracy=accuracy,
        utc=epoch["utc"],
        file=epoch["file"],
    )


def _count(value, name: str) -> int:
    if isinstance(value, bool) or value != int(value) or not 1 <= value <= 10**9:
        raise ValueError(f"{name} is {value!r:.50}")
    return int(value)


def _switch(value, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.20}, not true or false")
    return value


def _share(value) -> float:
    if value is None or not 0 <= value <= 1:
        raise ValueError("it has no accuracy in the end: was the run cut off?")
    return float(value)


def _seconds(value) -> float:
    if isinstance(value, bool) or not 1e-9 < value < 1e9:
        raise ValueError(f"a time is {value!r:.50}")
    return float(value)
