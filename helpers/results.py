"""Records: one JSON file per run and device, written whole or not at all, and read into one table.

A record says what was measured, where it really ran, and under which conditions; it never says who or
where in the file system. Its form is `record.schema.json`. Records of other machines are untrusted text.
"""

import json
import math
import os
import statistics
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from helpers import conditions, devices, machine
from helpers.devices import Device
from helpers.errors import RecordError
from helpers.timing import Measurement, quartiles

# What the table of `read` has for every measurement, beside what was varied.
COLUMNS = (
    "experiment", "utc", "asked", "device", "device_name", "kind", "cpu", "cores", "tensorflow", "environment",
    "preset", "stand_in", "final_accuracy", "folder", "file",
    "label", "unit", "median", "low", "high", "n", "first", "values",
)  # fmt: skip
SWITCHES = ("jit_compile", "dtype", "tf32", "onednn", "intra_op_threads", "inter_op_threads")  # of the flags
LARGEST_FILE = 20_000_000  # bytes; a record of ours has a few thousand


@dataclass
class Record:
    """A growing record. Every `add` writes it again, so a run that is cut off keeps what it measured."""

    content: dict
    path: Path

    def add(self, label: str, measurement: Measurement, **varied) -> None:
        """Add what was measured, and what was varied for it, under its own name: `size=500`."""
        device, earlier = self.content["device"], self.content["measurements"]
        now = str(measurement.device) if measurement.device else None
        if now not in (None, device["asked"]) or (earlier and now != device["used"]):
            raise RecordError(
                f"{label} ran on {now or 'a device that its result does not tell'}, "
                f"but this record is of {device['used'] or device['asked']}.",
                "A record holds the measurements of one device.",
                "Start a record for each device.",
            )
        taken = sorted(set(varied) & set(COLUMNS))
        if taken:
            raise RecordError(
                f"{', '.join(taken)} means something else in a record.",
                f"Every name is accepted except {', '.join(COLUMNS)}.",
                "Take another name for what you varied.",
            )
        row = {"label": label, "unit": "s", "values": list(measurement.values), "first": measurement.first, **varied}
        self._replace(device={**device, "used": now}, measurements=[*earlier, row])

    def note(self, words: str) -> None:
        """Add a remark: a size that was skipped, for example."""
        self._replace(notes=[*self.content["notes"], words])

    def finish(self, test_accuracy: float, test_loss: float) -> None:
        """Add how well the network did on the test data, after the last epoch."""
        self._replace(final={"test_accuracy": test_accuracy, "test_loss": test_loss})

    def _replace(self, **parts) -> None:
        """Take over new parts, if they can be stored; write beside the record's place, then move in one step."""
        content = {**self.content, **parts}
        text = _as_text(content)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(draft, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, self.path)
        except OSError as error:
            raise RecordError(
                f"The record {self.path.name} cannot be written: {error.strerror}.",
                "A folder is needed in which you may write.",
                "Set results_dir (or $COURSE_RESULTS) to one.",
            ) from error
        self.content = content


def _as_text(content: dict) -> str:
    """Return a record as the text of its file, or raise `RecordError` for what no record can hold."""
    try:
        text = json.dumps(_plain(content), indent=1, allow_nan=False)
        problem = _fault(json.loads(text))
    except TypeError as error:
        problem = str(error)
    if problem:
        raise RecordError(
            f"This cannot be stored in a record: {problem}.",
            "Numbers, texts, and lists of them are accepted, in the form of helpers/record.schema.json.",
            "Correct what was added last; a dtype is stored by its name, 'float32'.",
        )
    return text


def start(
    experiment: str, device: Device, settings: SimpleNamespace, *, flags: dict, data: dict | None = None
) -> Record:
    """Begin the record of one run on one device; the file appears with its first measurement or note.

    `settings` is what `parameters.check` returned. `flags` must hold `jit_compile` and `dtype`; the rest
    is read from TensorFlow. `data` is {`name`, `source`, `stand_in`}.
    """
    missing = {"jit_compile", "dtype"} - set(flags)
    if missing:
        raise RecordError(
            f"The flags lack {' and '.join(sorted(missing))}.",
            "Every record says whether XLA compiled the work, and in which dtype it ran.",
            "Pass flags={'jit_compile': False, 'dtype': 'float32'}, for example.",
        )
    now = datetime.now(timezone.utc)
    given = {k: v for k, v in vars(settings).items() if k != "results_dir"}  # a path tells who you are
    given["devices"] = [str(device) for device in settings.devices]
    content = {
        "schema": 1,
        "experiment": experiment,
        "utc": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "device": {"asked": str(device), "used": None, "name": devices.hardware_name(device), "kind": device.kind},
        "machine": machine.describe(),
        "versions": conditions.versions(),
        "flags": {**conditions.runtime_flags(), **flags},
        "parameters": given,
        "data": data,
        "measurements": [],
        "notes": [],
    }
    _as_text(content)  # what cannot be stored is refused before anything is measured
    place = str(device).replace(":", "")  # Windows allows no colon
    name = f"{experiment}--{place}--{now:%Y%m%dT%H%M%SZ}--{uuid.uuid4().hex[:8]}.json"
    return Record(content, Path(settings.results_dir) / name)


def read(*folders: str | Path):
    """Return (table, problems): a pandas row per measurement of every record in the folders.

    A file that cannot be used is named in `problems` and left alone. The columns are `COLUMNS` and what was
    varied (`size`, `batch_size`, …), with the flags in `SWITCHES`.
    `low` and `high` are quartiles; `environment` is "GPU" where TensorFlow
    was built for CUDA, else "CPU"; `folder` counts the folders from 0.
    """
    import pandas as pd

    rows, problems = [], []
    for place, folder in enumerate(map(Path, folders)):
        try:
            paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
        except OSError as error:
            problems.append(f"{folder} cannot be read ({error.strerror})")
            continue
        for path in paths:
            record, problem = _load(path)
            if problem:
                problems.append(f"{path.name}: {problem}")
            else:
                rows.extend(_rows(record, place, path.name))
    table = pd.DataFrame(rows) if rows else pd.DataFrame(columns=list(COLUMNS))
    return table, [_printable(problem) for problem in problems]


def _load(path: Path) -> tuple[dict, str]:
    """Return a record and "", or {} and what is wrong with the file."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            return {}, f"larger than {LARGEST_FILE:,} bytes"
        record = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse_constant)
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"cannot be read ({getattr(error, 'strerror', None) or error})"
    problem = _fault(record)
    return ({}, problem) if problem else (record, "")


def _refuse_constant(name: str):
    raise ValueError(f"{name} is not JSON")


def _fault(content) -> str:
    """Return what keeps `content` from being a record, or ""."""
    import fastjsonschema

    try:
        _validator()(content)
    except fastjsonschema.JsonSchemaValueException as error:
        return error.message.replace("data", "the record", 1)[:300]
    return ""


@cache
def _validator():
    import fastjsonschema

    schema = json.loads(Path(__file__).with_name("record.schema.json").read_text(encoding="utf-8"))
    return fastjsonschema.compile(schema)


def _rows(record: dict, folder: int, file: str) -> Iterator[dict]:
    flags = record["flags"]
    shared = {
        "experiment": record["experiment"],
        "utc": record["utc"],
        "asked": record["device"]["asked"],
        "device": record["device"]["used"],
        "device_name": _printable(record["device"]["name"]),
        "kind": record["device"]["kind"],
        "cpu": _printable(record["machine"]["cpu"]),
        "cores": record["machine"]["usable_cpus"],
        "tensorflow": record["versions"].get("tensorflow"),
        "environment": "GPU" if record["versions"].get("cuda") else "CPU",
        "preset": record["parameters"].get("preset"),
        "stand_in": bool(record["data"] and record["data"]["stand_in"]),
        "final_accuracy": record.get("final", {}).get("test_accuracy"),
        "folder": folder,
        "file": _printable(file),
    }
    for row in record["measurements"]:
        varied = {name: value for name, value in row.items() if name not in ("label", "unit", "values", "first")}
        low, high = quartiles(row["values"])
        numbers = {"median": statistics.median(row["values"]), "low": low, "high": high, "n": len(row["values"])}
        varied = {**{name: flags.get(name) for name in SWITCHES}, **varied}
        yield {
            **varied,
            **shared,
            "values": tuple(row["values"]),
            "label": row["label"],
            "unit": row["unit"],
            **numbers,
            "first": row["first"],
        }


def _printable(text: str) -> str:
    """Return text of another machine without what would steer a terminal or break a table."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _plain(value):
    """Turn NumPy's numbers and arrays, tuples and paths into what JSON knows; NaN becomes null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
