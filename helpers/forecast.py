"""Predictions for one model on several devices, as a table and in words: for `course predict` and the notebooks.

Times are in seconds of one training step. The first device is the one that the others are compared with.
"""

import json
import math
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

from helpers import calibrate, devices, hardware, machine, parameters, predict, results, work
from helpers.calibrate import EXPERIMENT
from helpers.comparing import TOO_CLOSE, times_faster
from helpers.errors import CourseError, NotEnoughMemoryError, ParameterError
from helpers.predict import LARGEST_BATCH, Comparison, Crossover, Machine, Prediction
from helpers.timing import format_digits, format_seconds

HERE, REFERENCE = "here", "reference"
USUAL_GPU = "Tesla T4"  # what Colab and Kaggle lend
MOST = 2**20  # examples of a batch
LIMITS = {
    "host": "Python and Keras between the steps",
    "launch": "starting operations",
    "transfer": "moving the batch to the device",
    "compute": "arithmetic",
    "memory": "moving numbers between memory and processor",
}
WORDS_OF_WAYS = {
    "fit": "model.fit",
    "steps_per_execution": "model.fit with many steps per call (steps_per_execution)",
    "resident": "a loop inside TensorFlow, with all data on the device",
}
REFERENCE_IS = (
    "The reference is the machine on which the course was made. `course predict --calibrate` measures yours; after "
    "that it takes part as `here`."
)
LAST = (
    "These are predictions, not measurements: for TensorFlow 2.21 and Keras 3.15, the optimizer Adam, without XLA "
    "(compile with jit_compile=False), in float32, or TF32 (its faster form) on GPUs that have it. Such predictions "
    "have been about this good: 4 of 5 measurements lie in the interval."
)


@dataclass(frozen=True)
class Forecast:
    """What is predicted for one model."""

    title: str
    parameters: int
    way: str
    batches: tuple[int, ...]
    machines: tuple[Machine, ...]
    predictions: Mapping[str, Mapping[int, Prediction]]  # by device and batch; without those that do not fit
    largest: Mapping[str, int]  # batch that a device can hold
    crossovers: tuple[Crossover, ...]  # of the first device with each other one, see `_crossover`
    estimated: tuple[str, ...]  # kinds of layers that were estimated from their shapes

    def table(self):
        """Return a pandas row for each batch size, as text ready to be shown."""
        import pandas as pd

        first, *others = self.machines
        rows = []
        for batch in self.batches:
            row = {"batch": f"{batch:,}", first.name: self._time(first.name, batch)}
            for other in others:
                row |= {other.name: self._time(other.name, batch), f"{other.name} is": self._verdict(other.name, batch)}
            rows.append(row)
        return pd.DataFrame(rows)

    def comparison(self, name: str, batch: int) -> Comparison | None:
        """Return how much faster a device is than the first one; None where the batch does not fit."""
        pair = [self.predictions[device].get(batch) for device in (self.machines[0].name, name)]
        return Comparison(*pair) if all(pair) else None

    def curves(self) -> dict[str, list[Prediction]]:
        """Return the predictions of each device, in the order of the batches."""
        return {name: list(found.values()) for name, found in self.predictions.items() if found}

    def words(self) -> list[str]:
        """Return what the table means, a sentence each."""
        lines = [self._limits(device.name) for device in self.machines]
        lines += [_crossover_in_words(found) for found in self.crossovers]
        if self.estimated:
            lines.append(f"Only estimated from their shapes, so less certain: {', '.join(self.estimated)}.")
        if any(device.name.startswith(REFERENCE) for device in self.machines):
            lines.append(REFERENCE_IS)
        return [*lines, LAST]

    def as_json(self) -> dict:
        """Return plain values, with None where a batch does not fit."""
        return {
            "model": self.title,
            "parameters": self.parameters,
            "way": self.way,
            "devices": [
                {
                    "name": device.name,
                    "calibrated": device.place is not None,
                    "batches": [self._as_json(device.name, batch) for batch in self.batches],
                }
                for device in self.machines
            ],
            "crossovers": [
                {**{key: _plain(getattr(found, key)) for key in ("a", "b", "batch", "low", "high")}, "word": found.word}
                for found in self.crossovers
            ],
            "estimated": list(self.estimated),
        }

    def __str__(self) -> str:
        head = (
            f"{self.title}: {self.parameters:,} parameters.",
            f"Predicted time of one training step with {WORDS_OF_WAYS[self.way]};",
            "in brackets the interval that should hold 4 of 5 measurements:",
        )
        words = [textwrap.fill(line, 100, initial_indent="* ", subsequent_indent="  ") for line in self.words()]
        return "\n".join([*head, "", self.table().to_string(index=False), "", *words])

    def _repr_pretty_(self, printer, _cycle) -> None:
        printer.text(str(self))

    def _time(self, name: str, batch: int) -> str:
        found = self.predictions[name].get(batch)
        if found:
            return f"{format_seconds(found.seconds)} ({_interval(found)})"
        most = self.largest[name]
        # Nobody has looked at larger batches than LARGEST_BATCH.
        return "does not fit" if most in (0, LARGEST_BATCH) else f"does not fit: at most {most:,}"

    def _verdict(self, name: str, batch: int) -> str:
        found = self.comparison(name, batch)
        return verdict(found) if found else ""

    def _limits(self, name: str) -> str:
        found = self.predictions[name]
        if not found:
            return f"{name} has not enough memory for any of these batches."
        small, large = found[min(found)], found[max(found)]
        begin = f"{name} spends the largest part of a step on {LIMITS[small.limit]} at batch {small.batch:,}"
        if small is large:
            return f"{begin}."
        if small.limit == large.limit:
            return f"{begin} as at batch {large.batch:,}."
        return f"{begin}, and on {LIMITS[large.limit]} at batch {large.batch:,}."

    def _as_json(self, name: str, batch: int) -> dict:
        found = self.predictions[name].get(batch)
        times = {key: float(getattr(found, key)) if found else None for key in ("seconds", "low", "high")}
        parts = {key: float(seconds) for key, seconds in found.parts.items()} if found else {}
        return {"batch": batch, **times, "parts": parts, "fits": bool(found), "largest_batch": self.largest[name]}


def of(model, machines: Sequence, batches: Iterable[int], way: str = "fit", title: str | None = None) -> Forecast:
    """Predict a Keras model on devices, each as `predict.machine` takes it; `title` is shown instead of its name."""
    found = tuple({device.name: device for device in map(predict.machine, machines)}.values())
    batches = tuple(batches)
    predictions = {device.name: _fitting(model, batches, device, way) for device in found}
    return Forecast(
        title or model.name,
        model.count_params(),
        way,
        batches,
        found,
        predictions,
        {device.name: predict.largest_batch(model, device, way) for device in found},
        tuple(pair for other in found[1:] for pair in _crossover(model, found[0], other, way)),
        work.of(model, 1).unknown,
    )


def _fitting(model, batches: Iterable[int], device: Machine, way: str) -> dict[int, Prediction]:
    """Return a prediction for each batch that the device can hold."""
    found = {}
    for batch in batches:
        try:
            found[batch] = predict.step_time(model, batch, device, way)
        except NotEnoughMemoryError:  # the table says so
            continue
    return found


def _crossover(model, a: Machine, b: Machine, way: str) -> list[Crossover]:
    """Return from which batch on b is faster, or from which on a is where that one wins the large batches.

    The list is empty where one of them cannot hold even one example.
    """
    try:
        found = predict.crossover(model, a, b, way)
        other = predict.crossover(model, b, a, way)
    except NotEnoughMemoryError:
        return []
    return [other if found.word == "never" and other.word == "from" else found]


def verdict(pair: Comparison) -> str:
    """Say "2.1 times faster", "1.4 times slower" or, where the interval holds 1, "too close to call"."""
    return TOO_CLOSE if pair.winner is None else times_faster(pair.ratio)


def _interval(found: Prediction) -> str:
    """Return "1.6 to 2.8 ms", or "0.9 ms to 1.1 s" where the units differ."""
    low, high = format_seconds(found.low), format_seconds(found.high)
    (number, unit), same = low.split(" "), low.split(" ")[1] == high.split(" ")[1]
    return f"{number if same else f'{number} {unit}'} to {high}"


def _crossover_in_words(found: Crossover) -> str:
    """Say from which batch on b is faster, and how far that can be trusted."""
    begin, open_end = f"{found.b} is predicted to be faster than {found.a}", f"up to {found.largest:,}"
    if found.word == "never":
        maybe = "" if found.low is None else f", though from batch {_edge(found.low)} on it is too close to call"
        return f"{begin} at none of the batch sizes {open_end}{maybe}."
    if found.word == "always":
        unclear = open_end if found.high is None else f"below {math.ceil(found.high):,}"
        return f"{begin} at every batch size" + (f"; {unclear} it is too close to call." if found.high != 1 else ".")
    between = f"somewhere between {_edge(found.low)} and {math.ceil(found.high or 0):,}"
    late = f"or from {_edge(found.low)} on, or not at all: it stays too close to call {open_end}"
    return f"{begin} from batch {round(found.batch):,} on ({late if found.high is None else between})."


def _edge(batch: float) -> str:
    return f"{math.floor(batch):,}"


def _plain(value):
    """Return a name as it is, and a number as Python's own, for JSON."""
    return value if value is None or isinstance(value, str) else float(value)


def batches(text: str) -> list[int]:
    """Return the batch sizes of "32", of "1,8,100", or of "1..4096": both ends and the powers of two between."""
    words = [word.strip() for word in re.split(r"\.\.|,", text)]
    numbers = [int(word) for word in words if re.fullmatch("[1-9][0-9]{0,6}", word)]
    is_range = ".." in text
    if len(numbers) == len(words) and max(numbers) <= MOST and not (is_range and len(numbers) != 2):
        if not is_range:
            return sorted(set(numbers))
        low, high = numbers
        if low <= high:
            return sorted({low, high, *(2**power for power in range(MOST.bit_length()) if low < 2**power < high)})
    raise ParameterError(
        f"--batch {text!r:.200} is not possible.",
        f"Accepted are whole numbers from 1 to {MOST:,}: 32, or 1,8,100, or 1..4096 for both ends and the powers of "
        "two between.",
        "Correct it and try again.",
    )


def folder() -> Path:
    """Return where records are kept: $COURSE_RESULTS, else results/ of this project."""
    given = os.environ.get("COURSE_RESULTS") or parameters.PROJECT / "results"
    return parameters.check_value(EXPERIMENT, "results_dir", given)


def machines(names: Sequence[str]) -> tuple[list[Machine], list[str]]:
    """Return the devices of these names, and what is wrong with calibrations of this machine that cannot be used.

    A name is one of the catalogue, "here" or "reference". Without names it is this machine, or the reference where
    this one is not calibrated, and a GPU that many can borrow.
    """
    keys = [name.strip().lower() for name in names]
    mine, problems = here() if HERE in keys or not names else ([], [])
    if HERE in keys and not mine:
        raise ParameterError(
            " ".join(["This machine is not calibrated.", *(f"Not used: {problem}." for problem in problems)]),
            "Accepted without that are the names of the catalogue, and `reference`.",
            "Type `course predict --calibrate`: it measures this machine for about a minute.",
        )
    if not names:
        return [*(mine or [reference()]), predict.machine(USUAL_GPU)], problems
    found = []
    for name, key in zip(names, keys, strict=True):
        found += mine if key == HERE else [reference() if key == REFERENCE else predict.machine(name)]
    return found, problems


def reference() -> Machine:
    """Return the machine whose calibration is shipped with the course."""
    shipped = predict.machine(calibrate.reference())
    return replace(shipped, name=f"{REFERENCE}: {shipped.name}")


def here() -> tuple[list[Machine], list[str]]:
    """Return each device of this machine as it was last calibrated, and what is wrong with files that were left out."""
    place = folder()
    if not place.is_dir():
        return [], []
    table, problems = results.read(place)
    problems = [problem for problem in problems if problem.startswith(EXPERIMENT)]
    own = machine.describe()
    mine = table[(table.experiment == EXPERIMENT) & (table.cpu == own["cpu"]) & (table.cores == own["usable_cpus"])]
    # A cloud lends another GPU every time.
    mine = mine[(mine.kind != "GPU") | mine.device_name.isin(own.get("gpus", []))]
    found = {}
    newest_first = mine.drop_duplicates("file").sort_values(["utc", "file"], ascending=False)
    for device, name, file in zip(newest_first.asked, newest_first.device_name, newest_first.file, strict=True):
        if device not in found:
            try:
                found[device] = _calibrated(place / file, name)
            except (CourseError, ArithmeticError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
                problems.append(f"{file} is no calibration ({type(error).__name__}: {error})")
    return [found[device] for device in sorted(found)], problems


def _calibrated(path: Path, name: str) -> Machine:
    known = predict.machine(calibrate.read(json.loads(path.read_text(encoding="utf-8"))))
    return replace(known, name=f"{HERE}: {name}")


def to_calibrate() -> list[devices.Device]:
    """Return the first device of each kind that TensorFlow sees here."""
    return list({device.kind: device for device in reversed(devices.available())}.values())[::-1]


def calibrated_now(device: devices.Device) -> Machine:
    """Measure the constants of a device, which takes about a minute, and keep the record."""
    settings = SimpleNamespace(
        results_dir=folder(), devices=(device,), preset=parameters.preset_from_environment(), seed=0
    )
    known = predict.machine(calibrate.measure(settings, device))
    return replace(known, name=f"{HERE}: {known.name}")


def catalogue() -> str:
    """Return the known devices as a table, with what each can do at best."""
    import pandas as pd

    rows = [
        {
            "key": device.key,
            "name": device.name,
            "year": device.year,
            "float32 TFLOP/s": format_digits(device.peak_flops["float32"] / 1e12),
            "memory GB": f"{device.memory_bytes / 2**30:,.0f}" if device.memory_bytes else "",
            "memory GB/s": f"{device.memory_bandwidth / 1e9:,.0f}",
        }
        for device in hardware.known().values()
    ]
    return pd.DataFrame(rows).to_string(index=False)
