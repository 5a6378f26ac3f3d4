"""What pieces cost on a device that is known by its datasheet alone.

A datasheet gives peaks. What share of them is reached, and what software adds, are constants; `datasheet.toml` holds
them, and says how they were fitted to the published measurements in `literature.toml`.
"""

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from helpers import hardware
from helpers.costs import Costs, Formula
from helpers.hardware import Hardware
from helpers.pieces import KINDS, Piece

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = Path(__file__).with_name("datasheet.toml")
FLOAT = 4  # bytes
# Cycles of a CPU core for a value, where arithmetic and not memory takes the time: of a random number, for example.
CYCLES = {"function": 3.0, "random": 25.0, "pool": 4.0, "pool_input": 25.0}
TURN = 1e-6  # seconds of an operation in a loop over the steps of a sequence, which cuDNN runs by itself
SHARED = 5e-6  # seconds to share work among the threads of a CPU
# cuDNN computes convolutions of 3 × 3 with 2.25 times fewer multiplications, where there are channels enough (Lavin
# and Gray, 2016, https://arxiv.org/abs/1509.09308, F(2×2, 3×3)). Tensor cores do without.
WINOGRAD, WINOGRAD_CHANNELS = 2.25, 64


@cache
def constants(without: str = "") -> Mapping[str, float]:
    """Return the constants fitted to all sources, or to all but one."""
    tables = tomllib.loads(FILE.read_text(encoding="utf-8"))
    return tables["without"][without] if without else tables["fitted"]


@cache
def spread(kind: str) -> float:
    """Return a standard deviation of the logarithm of predicted over measured, for "gpu", "cpu" or "ratio".

    It is that of the normal distribution of which four of five lie where four of five published figures do, each
    predicted with constants that were fitted without its source.
    """
    return tomllib.loads(FILE.read_text(encoding="utf-8"))["spread"][kind]


class _Convolution(Formula):
    """A convolution on a GPU: 3 × 3 windows take fewer multiplications."""

    def seconds(self, piece: Piece):
        found = super().seconds(piece)
        return found._replace(compute=found.compute / WINOGRAD) if _is_winograd(piece) else found


def _is_winograd(piece: Piece) -> bool:
    values, kernel, output, windows = piece.sizes
    filters = piece.flop / 2 / windows
    channels = kernel / filters / 9
    # Each value of the input lies in 9 windows; in fewer at the edges, or where windows are further apart.
    return 7.5 < windows / values < 9.1 and min(filters, channels) >= WINOGRAD_CHANNELS


def costs(device: Hardware, start: float, *, dtype: str = "float32", flop_per_cycle: float = 0, using=None) -> Costs:
    """Return what pieces cost on a device of the catalogue.

    `start` is what the software takes to start an operation, in seconds. `flop_per_cycle` is what a CPU's build can
    use, if that is less than the CPU has. `using` is a set of constants, by default those of all sources.
    """
    using = constants() if using is None else using
    peak, bytes_each = hardware.peak(device, dtype), 2 if dtype in ("float16", "bfloat16") else FLOAT
    per_value = bytes_each / (device.memory_bandwidth * using[f"{device.kind}_bandwidth"])
    per_product = 1 / (peak * using[f"{device.kind}_product"])
    per_convolution = 1 / (peak * using[f"{device.kind}_convolution"])
    if device.kind == "gpu":
        plain = Formula(0.0, 0.0, (per_value, per_value))
        make = _Convolution if dtype == "float32" else Formula
        convolution = make(0.0, per_convolution, (per_value,) * 3 + (0.0,))
        kinds = {kind: _of(kind, plain, Formula(0.0, per_product, (per_value,) * 3), convolution) for kind in KINDS}
        return Costs(start, {**kinds, "loop": Formula(0.0, 0.0, (0.0, 0.0))}, overlap=True, turn=TURN)
    slower = max(1.0, device.flop_per_cycle / flop_per_cycle) if flop_per_cycle else 1.0
    fresh = FLOAT / using["cpu_fresh_bytes_per_s"]
    product = Formula(SHARED, per_product * slower, (per_value,) * 3, fresh)
    convolution = Formula(SHARED, per_convolution * slower, (per_value,) * 3 + (0.0,), fresh)
    kinds = {kind: _of(kind, _by_cycles(device, kind, per_value, fresh), product, convolution) for kind in KINDS}
    return Costs(start, {**kinds, "loop": Formula(0.0, 0.0, (0.0, 0.0))})


def _of(kind: str, plain: Formula, product: Formula, convolution: Formula) -> Formula:
    if "product" in kind:
        return product
    return convolution if "convolution" in kind else plain


def _by_cycles(device: Hardware, kind: str, per_value: float, fresh: float) -> Formula:
    """Return the cost of value-by-value work on a CPU: as memory allows, or as cores do if that is slower."""
    cycles = CYCLES.get(kind, 0.0) / (device.cores * device.clock_hz)
    return Formula(
        SHARED, 0.0, (per_value if kind != "pool" else max(per_value, cycles), max(per_value, cycles)), fresh
    )
