"""The rows of the chapter's table: what a record says of 15 epochs of one network on one device.

Records of other machines are untrusted: what does not make sense is refused. Times are in seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from helpers.chapter import EPOCHS, NETWORKS, Part, Whole, whole
from helpers.comparing import Comparison
from helpers.devices import parse
from helpers.timing import Measurement, format_seconds


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
        return whole(self.network, self.conditions["batch size"], self.training, self.validation)

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
    def learnt(self) -> str:
        """The accuracy on the test pictures, and after how many epochs if these are not the chapter's."""
        if self.accuracy is None:
            return "stand-in"
        epochs = self.conditions["epochs"]
        return f"{self.accuracy:.1%}" + (f" after {epochs} epochs" if epochs != EPOCHS else "")

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


def rows_of(table, names: Sequence[str]) -> tuple[list[Row], list[str]]:
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
