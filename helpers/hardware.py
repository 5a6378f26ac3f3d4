"""The catalogue of known devices: what each can do at best, and where every figure comes from.

Rates are in FLOP/s, bytes/s and Hz, sizes in bytes. `hardware.toml` holds the figures, and says what each key means.
"""

import difflib
import re
import sys
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cache, lru_cache
from pathlib import Path

from helpers.errors import ParameterError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("hardware.toml")
FOR_READERS = ("architecture", "pcie", "threads", "base_clock_hz", "boost_clock_hz", "memory_bandwidth_how", "tdp_w")
# What people add to a name or leave out, and what a CPU adds to its own ("@ 2.60GHz").
_NOISE = re.compile(
    r"@[\s\d.]+ghz|\((r|tm)\)|\w{1,9}-core processor|[\W_]"
    r"|nvidia|geforce|tesla|quadro|intel|core|xeon|amd|epyc|ryzen|[cg]pu"
)
_BUILD = re.compile(r"\b(\d+gb|pcie|sxm\d?|g?ddr\d)\b")  # which build of a model; all else in a name is the model
LONGEST = 200  # letters of a name: none is longer, and to search with a book would take seconds


@dataclass(frozen=True)
class Hardware:
    """One device of the catalogue; None stands for a figure that it does not have."""

    key: str
    name: str
    kind: str  # "gpu" or "cpu"
    year: int
    peak_flops: Mapping[str, float]  # FLOP/s by dtype, dense
    memory_bandwidth: float
    sources: tuple[str, ...]
    memory_bytes: int | None = None
    cores: int | None = None
    compute_capability: str | None = None
    link_bytes_per_s: float | None = None  # from the host, one direction, in theory
    clock_hz: float | None = None  # a GPU's boost; what a CPU is expected to hold on all cores
    flop_per_cycle: float | None = None  # of one core of a CPU, float32
    unverified: tuple[str, ...] = ()  # keys of the table, or dtypes, whose figure has no source of its own
    notes: str = ""
    also: tuple[str, ...] = ()  # other names

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that the device is called; a remark in brackets may be left out."""
        return (self.key, self.name, self.name.partition(" (")[0], *self.also)


@cache
def known() -> dict[str, Hardware]:
    """Return every device of the catalogue by its key, in the order of the file."""
    return read(FILE)


def read(path: Path) -> dict[str, Hardware]:
    """Return the devices of a catalogue file; a table with a key missing or misspelt is refused."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    shared = tables.pop("sources", {})
    return {key: _device(key, row, shared) for key, row in tables.items()}


def find(name: str) -> Hardware:
    """Return the one device that a name means, as people, shops and drivers write it ("T4", "NVIDIA H200")."""
    if not isinstance(name, str) or not name.strip() or len(name) > LONGEST:
        raise ParameterError(
            f"{name!r:.200} is not the name of a device.",
            "Accepted is text such as 'RTX 4090', 'Tesla T4' or 'i7-8850H'.",
            "`course predict --devices` lists all.",
        )
    exact = [device for device in known().values() if _compact(name) in map(_compact, device.names)]
    fitting = exact or [device for device in known().values() if _fits(name, device)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise ParameterError(
            f"{name!r:.200} fits several devices.",
            f"Accepted are {', '.join(device.name for device in fitting)}.",
            "Give one of these names.",
        )
    nearest = _nearest(name)
    raise ParameterError(
        f"{name!r:.200} is not in the catalogue of devices.",
        f"The nearest names are {', '.join(nearest)}." if nearest else "No name in it comes near.",
        "`course predict --devices` lists all; or add a table with its figures to helpers/hardware.toml.",
    )


def peak(hardware: Hardware, dtype: str = "float32") -> float:
    """Return the most FLOP/s that a device can reach in a dtype; one that it lacks raises `ParameterError`."""
    if not isinstance(dtype, str) or dtype not in hardware.peak_flops:
        raise ParameterError(
            f"{hardware.name} has no peak for dtype {dtype!r:.200}.",
            f"Accepted are {', '.join(hardware.peak_flops)}.",
            f"Choose one of these, or add the figure and its source to [{hardware.key}] in helpers/hardware.toml.",
        )
    return hardware.peak_flops[dtype]


def _device(key: str, row: Mapping, shared: Mapping[str, str]) -> Hardware:
    needed = {field.name for field in fields(Hardware) if field.default is MISSING} - {"key"}
    own = {field.name for field in fields(Hardware)} - {"key"}
    if wrong := sorted(needed - set(row)) + sorted(set(row) - own - set(FOR_READERS)):
        raise ParameterError(
            f"The table [{key}] of hardware.toml has keys missing or misspelt: {', '.join(wrong)}.",
            f"Needed are {', '.join(sorted(needed))}.",
            "Correct the table; the head of the file explains every key.",
        )
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items() if name in own}
    values["sources"] = tuple(_source(text, shared) for text in row["sources"])
    return Hardware(key=key, **values)


def _source(text: str, shared: Mapping[str, str]) -> str:
    """Return a source in full: "name: detail" stands for a text that several devices share."""
    name, _, detail = text.partition(": ")
    return shared[name].replace("{}", detail) if name in shared else text


@lru_cache(2000)  # names come from other machines, too
def _words(name: str) -> str:
    """Return what tells devices apart in a name: small letters and digits, one space between words."""
    words = " ".join(_NOISE.sub(" ", name.lower().replace("_", " ")).split())
    return re.sub(r"\b(\d+) gb\b", r"\1gb", words.replace("mobile", "laptop"))


def _compact(name: str) -> str:
    return _words(name).replace(" ", "")


def _model_and_build(name: str) -> tuple[str, set[str]]:
    return _BUILD.sub("", _words(name)).replace(" ", ""), set(_BUILD.findall(_words(name)))


def _nearest(name: str) -> list[str]:
    """Return the full names of up to 4 devices whose models are written like the one in a name."""
    models: dict[str, list[str]] = {}
    for device in known().values():
        for spelling in device.names:
            models.setdefault(_model_and_build(spelling)[0], []).append(device.name)
    near = difflib.get_close_matches(_model_and_build(name)[0], models)
    return list(dict.fromkeys(found for model in near for found in models[model]))[:4]


def _fits(name: str, device: Hardware) -> bool:
    """Say whether a name gives the device's model, and nothing of its build that is wrong."""
    model, build = _model_and_build(name)
    memory = {f"{(device.memory_bytes or 0) / 2**30:.0f}gb"}
    return any(model == own and build <= words | memory for own, words in map(_model_and_build, device.names))
