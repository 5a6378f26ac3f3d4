"""Presets, and notebook parameters checked before anything is computed.

Papermill delivers numbers, lists, and strings that look like either; all of them are understood here,
and everything else is refused in words.
"""

import ast
import difflib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

from helpers import devices, hardware
from helpers.errors import ParameterError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PRESETS = ("quick", "laptop", "full")
COMMON = ("preset", "devices", "seed", "results_dir")
LARGEST = 10**15
PROJECT = Path(__file__).resolve().parent.parent


def table() -> dict:
    """Return `presets.toml`: for each experiment what it `takes`, and its own parameters."""
    return tomllib.loads(Path(__file__).with_name("presets.toml").read_text(encoding="utf-8"))


def own(experiment: str) -> dict[str, dict]:
    """Return the rows of the parameters that one experiment has of its own."""
    known = table()
    if experiment not in known:
        raise ParameterError(
            f"There is no experiment {experiment!r}.",
            f"Accepted are {', '.join(known)}.",
            "Give the notebook's name without its number; a new one needs rows in helpers/presets.toml.",
        )
    return {name: row for name, row in known[experiment].items() if name != "takes"}


def takes(experiment: str, preset: str) -> float:
    """Return about how many seconds a notebook runs at a preset, on 2 cores."""
    return table()[experiment]["takes"][preset]


def check(experiment: str, **values) -> SimpleNamespace:
    """Return the values a notebook runs with, checked, with the preset's in place of None.

    The result holds `preset` (str), `devices` (tuple of `Device`), `seed` (int), `results_dir` (`Path`)
    and the notebook's own parameters. Anything unknown or out of range raises `ParameterError`.
    """
    rows = own(experiment)
    refuse_unknown([*values, *_injected_names()], [*COMMON, *rows])
    checked = {name: check_value(experiment, name, values.get(name)) for name in [*COMMON, *rows] if name != "devices"}
    preset = checked["preset"] = checked["preset"] or preset_from_environment()
    for name, row in rows.items():
        if checked[name] is None:
            checked[name] = row[preset]
    checked["seed"] = checked["seed"] or 0
    checked["results_dir"] = checked["results_dir"] or _results_dir(
        "$COURSE_RESULTS", os.environ.get("COURSE_RESULTS") or PROJECT / "results"
    )
    checked["devices"] = devices.choose(_plain(values.get("devices")))  # last: it starts TensorFlow
    return SimpleNamespace(**checked)


def refuse_unknown(names, known) -> None:
    """Raise `ParameterError` for the first name that is not known; papermill itself only warns."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ParameterError(
                f"There is no parameter {name!r}.",
                f"Accepted are {', '.join(known)}.",
                f"Did you mean {near[0]!r}?" if near else "Take it out, or correct its name.",
            )


def _injected_names() -> list[str]:
    """Return what the cell that papermill injected assigns: only there can a misspelt name be seen."""
    if "IPython" not in sys.modules:
        return []
    shell = sys.modules["IPython"].get_ipython()
    cells = shell.user_ns.get("In", []) if shell else []
    injected = [cell for cell in cells if cell.startswith("# Parameters\n")][-1:]  # one corrected by hand counts
    targets = [node.targets[0] for cell in injected for node in ast.parse(cell).body if isinstance(node, ast.Assign)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def preset_from_environment() -> str:
    """Return `$COURSE_PRESET`, else "laptop"."""
    return _preset("$COURSE_PRESET", os.environ.get("COURSE_PRESET") or "laptop")


def check_value(experiment: str, name: str, value):
    """Return one parameter as a plain value, None where the preset decides, or raise `ParameterError`.

    Devices are only read, not looked for: that would start TensorFlow.
    """
    given, value = value, _plain(value)
    if value is None:
        return None
    if name in COMMON:
        return _COMMON_CHECKS[name](name, given if name == "results_dir" else value)
    row = own(experiment)[name]
    if row["kind"] == "folders":
        return _folders(name, value if isinstance(value, (list, tuple)) else given)
    if row["kind"] == "text":
        return str(given)
    if row["kind"] == "names":
        return _names(name, value if isinstance(value, (list, tuple)) else given, row["accepted"])
    if row["kind"] == "hardware":
        return _hardware(name, value if isinstance(value, (list, tuple)) else given)
    if row["kind"] != "number" and isinstance(given, str) and "." in given:
        return _number(name, given, row["least"], whole=True)  # "1.000" may mean a thousand or one: refused
    if row["kind"] == "whole numbers":
        return _whole_numbers(name, value, row["least"])
    return _number(name, value, row["least"], whole=row["kind"] == "whole number")


def _plain(value):
    """Turn text that only spells a Python or JSON value ("[1, 2]", "1e-3", "None") into that value."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text.lower() in ("none", "null"):
        return None
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text


def _number(name: str, value, least: float, whole: bool, most: float = LARGEST):
    """Return an int (or a float) from `least` to `most`; booleans are not numbers here."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a NumPy number
        return _number(name, value.item(), least, whole, most)
    if not is_number or not least <= value <= most or (whole and value != int(value)):
        reach = f"from {least} to {most}" if most < LARGEST or (is_number and value > most) else f"of at least {least}"
        raise ParameterError(
            f"{name} = {value!r:.200} is not possible.",
            f"Accepted is a {'whole number' if whole else 'number'} {reach}, or None for the usual value.",
            f"Correct {name} and run again.",
        )
    return int(value) if whole else float(value)


def _whole_numbers(name: str, value, least: int) -> list[int]:
    """Return a list of whole numbers, each once, from a list or from text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if hasattr(value, "tolist"):
        value = value.tolist()
    items = list(value) if isinstance(value, (list, tuple, range, set)) else [value]
    if not items:
        raise ParameterError(
            f"{name} is empty.",
            "Accepted are one or more whole numbers: 500, '500,1000' or [500, 1000].",
            f"Give at least one, or None for the usual value of {name}.",
        )
    return list(dict.fromkeys(_number(name, _plain(item), least, whole=True) for item in items))


def _preset(name: str, value) -> str:
    if value not in PRESETS:
        raise ParameterError(
            f"{name} = {value!r} is not a preset.",
            f"Accepted are {', '.join(map(repr, PRESETS))}; None takes $COURSE_PRESET, else 'laptop'.",
            "Choose one of them.",
        )
    return value


def _results_dir(name: str, value) -> Path:
    """Return the folder for records; it is made when the first record is written."""
    try:
        folder = Path(value).expanduser().absolute()
        possible = str(value) != "" and (folder.is_dir() or not folder.exists())
    except (TypeError, OSError, RuntimeError):  # no path, a name that is too long, an unknown user's ~
        possible = False
    if not possible:
        raise ParameterError(
            f"{name} = {value!r:.200} is not a folder.",
            "Accepted is the path of a folder, or a new name for one.",
            "Give it in quotes: 'records'.",
        )
    return folder


def _folders(name: str, value) -> list[Path]:
    """Return folders that exist, from a list or from text with commas."""
    items = value.split(",") if isinstance(value, str) else value
    found = []
    for item in items if isinstance(items, (list, tuple)) else [items]:
        text = str(item).strip()
        if not isinstance(item, (str, os.PathLike)) or not text or not Path(text).expanduser().is_dir():
            raise ParameterError(
                f"{name}: {item!r:.200} is not a folder that exists.",
                "Accepted are one or more folders, 'results,/media/usb/results' or a list, or None for the usual ones.",
                f"Correct {name}; a path is meant from the notebook's own folder unless it begins with /.",
            )
        found.append(Path(text).expanduser().absolute())
    return found


def _names(name: str, value, accepted: list[str]) -> list[str]:
    """Return different names of those that are accepted, from a list or from text with commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    items = items if isinstance(items, (list, tuple)) else [items]
    wrong = [item for item in items if item not in accepted]
    if wrong or not items:
        raise ParameterError(
            f"{name}: {wrong[0]!r} is not known." if wrong else f"{name} is empty.",
            f"Accepted are {', '.join(accepted)}.",
            f"Correct {name}; a comma stands between two names.",
        )
    return list(dict.fromkeys(items))


def _hardware(name: str, value) -> list[str]:
    """Return names of devices of the catalogue, each device once, from a list or from text with commas; "" is none."""
    items = (value.split(",") if value.strip() else []) if isinstance(value, str) else value
    found = {}
    for item in items if isinstance(items, (list, tuple)) else [items]:
        try:
            found.setdefault(hardware.find(item).key, item.strip())
        except ParameterError as error:
            wrong, accepted, next_step = error.args
            raise ParameterError(f"{name}: {wrong}", accepted, f"{next_step} '' stands for no device.") from None
    return list(found.values())


def _devices(_name: str, value) -> list[devices.Device]:
    names = value.split(",") if isinstance(value, str) else value
    return [devices.parse(item) for item in (names if isinstance(names, (list, tuple)) else [names])]


_COMMON_CHECKS: Mapping = {
    "preset": _preset,
    "devices": _devices,
    "seed": lambda name, value: _number(name, value, 0, whole=True, most=2**32 - 1),  # NumPy takes no more
    "results_dir": _results_dir,
}
