"""Pictures of what several devices gain, all from numbers of devices and seconds; the rules are those of `plots`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from helpers import cluster
from helpers.errors import ParameterError
from helpers.plots import LINE
from helpers.prediction_plots import ABOVE, GREY, MARKERS, NETWORKS
from helpers.scaling import Scaling, gustafson
from helpers.timing import format_seconds

PARTS = dict(zip(cluster.PARTS, ("#0072B2", "#F0E442", "#E69F00", "#56B4E9"), strict=True))
MOST = 64  # devices
POINTS = 8  # size of a label at the end of a curve


def _looks(labels) -> Sequence[tuple[str, str, str]]:
    """Return each label with the colour and the marker of a network."""
    return list(zip(labels, cycle(NETWORKS), cycle(MARKERS), strict=False))


def _log2(axis) -> None:
    """Label a logarithmic axis with 1, 2, 4, 8 …, or with fewer of them where they would touch each other."""
    low, high = np.log2(axis.get_view_interval())
    powers = np.arange(np.ceil(low), np.floor(high) + 1)
    room = 9 if high < 10 else 5  # 1,024 is wider
    axis.set_major_locator(FixedLocator(2.0 ** powers[:: int(np.ceil(len(powers) / room))]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(FixedLocator([]))


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Return places at least `gap` apart, in the same order, near the old ones; between 0 and 1 if there is room."""
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(order))
    wanted = np.array(places, float)[order] - steps
    pushed = np.maximum.accumulate(np.clip(wanted, 0, max(0.0, 1 - steps[-1])))
    found = np.empty(len(order))
    found[order] = pushed + steps
    return found.tolist()


def _label_ends(ends: Mapping[str, tuple[float, float, str]], ax) -> None:
    """Write each label to the right of the axes, tied to the end of its curve: {label: (x, y, colour)}."""
    axes = ax.transData + ax.transAxes.inverted()
    heights = [axes.transform((x, y))[1] for x, y, _ in ends.values()]
    gap = 1.5 * POINTS / 72 * ax.figure.dpi / ax.bbox.height
    for (label, (x, y, ink)), height in zip(ends.items(), _spread(heights, gap), strict=True):
        ax.annotate(
            label,
            (x, y),
            (1.05, height),
            textcoords="axes fraction",
            color=ink,
            fontsize=POINTS,
            va="center",
            arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 2},
        )


def _refuse_nothing(found: Mapping, what: str) -> None:
    if not found:
        raise ParameterError(f"There is no {what} to draw.", f"Accepted is at least one {what}.", "Add one.")


def laws(measured: Mapping[str, Scaling], ax, law: Callable):
    """Draw the measured speed-up of each network, and how a law goes on from there, up to 64 devices.

    `law` is `scaling.amdahl` or `scaling.gustafson`. Each goes through what was measured, unless no share from 0 to 1
    gives that speed-up.
    """
    _refuse_nothing(measured, "measured network")
    devices = 2.0 ** np.linspace(0, np.log2(MOST), 100)
    ax.plot(devices, devices, color=GREY, linewidth=4, alpha=0.4, label="ideal")
    ends = {}
    for label, ink, marker in _looks(measured):
        found = measured[label]
        curve = law(found.scaled_serial if law is gustafson else found.serial, devices)
        ax.plot(devices, curve, color=ink, linestyle=LINE["predicted"], linewidth=1.2, label=f"predicted: {label}")
        points = (1, found.devices), (1, found.speedup)
        ax.plot(*points, color=ink, linestyle=LINE["measured"], marker=marker, zorder=3, label=f"measured: {label}")
        ends[label] = (devices[-1], curve[-1], ink)
    lowest = min(found.speedup for found in measured.values())
    ax.set(xlabel="number of devices", ylabel="speed-up", xscale="log", yscale="log", xlim=(0.9, MOST))
    ax.set_ylim(min(0.9, lowest / 1.1), MOST * 1.1)
    for axis in (ax.xaxis, ax.yaxis):
        _log2(axis)
    _label_ends(ends, ax)
    _measured_and_predicted(ax, law.__name__.capitalize())
    return ax


def _measured_and_predicted(ax, name: str) -> None:
    handles = [
        ax.plot([], [], color=ink, linestyle=style, marker=marker, label=label)[0]
        for ink, style, marker, label in (
            ("black", LINE["measured"], "o", "measured"),
            ("black", LINE["predicted"], "", f"predicted ({name})"),
            (GREY, "-", "", "ideal"),
        )
    ]
    handles[-1].set(linewidth=4, alpha=0.4)
    ax.legend(handles=handles, ncols=3, **ABOVE)


def step_parts(parts: Mapping[str, Mapping[str, float]], ax):
    """Draw a bar for each row, "network, worker 0" for example: {row: {part: seconds}}, with shares of the row in %."""
    _refuse_nothing(parts, "row")
    if unknown := {part for row in parts.values() for part in row} - set(PARTS):
        raise ParameterError(
            f"A step has no part {', '.join(map(repr, sorted(unknown)))} here.",
            f"Accepted are {', '.join(PARTS)}.",
            "Correct its name.",
        )
    whole = np.array([sum(row.values()) for row in parts.values()])
    left = np.zeros(len(parts))
    for part, ink in PARTS.items():
        share = 100 * np.array([row.get(part, 0.0) for row in parts.values()]) / whole
        bars = ax.barh(range(len(parts)), share, left=left, height=0.65, label=part, color=ink, edgecolor="white")
        texts = [f"{value:.0f}%" if value > 6 else "" for value in share]
        ax.bar_label(bars, texts, label_type="center", color="white" if part == "computing" else "black", fontsize=8)
        left += share
    ax.bar_label(bars, [f" {format_seconds(seconds)}" for seconds in whole], fontsize=8)
    ax.set_yticks(range(len(parts)), list(parts), fontsize=8)
    ax.set(xlabel="share of a step (%), and the time of the step", xlim=(0, 112))
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set_axisbelow(True)
    ax.legend(ncols=2, **ABOVE)
    return ax


def efficiency_against_batch(curves: Mapping[str, Mapping[int, float]], ax, devices: int, goal: float = 0.8):
    """Draw the predicted efficiency against the batch of all devices: {label: {batch: share}}.

    Two lines mark the goal, and where several devices are only as fast as one.
    """
    _refuse_nothing(curves, "curve")
    ends = {}
    for label, ink, marker in _looks(curves):
        batches = sorted(curves[label])
        shares = [100 * curves[label][batch] for batch in batches]
        look = {"color": ink, "linestyle": LINE["predicted"], "marker": marker, "markerfacecolor": "white"}
        ax.plot(batches, shares, label=f"predicted: {label}", **look)
        ends[label] = (batches[-1], shares[-1], ink)
    levels = [
        ax.axhline(100 * goal, color="black", linewidth=0.8, label=f"goal: {goal:.0%}"),
        ax.axhline(100 / devices, color="black", linewidth=0.8, linestyle=(0, (1, 2)), label="no gain"),
    ]
    highest = max(share for curve in curves.values() for share in curve.values())
    ax.set(xlabel="batch of all devices together", ylabel="predicted efficiency (%)", xscale="log")
    ax.set_ylim(0, 105 * max(1, highest))
    _log2(ax.xaxis)
    _label_ends(ends, ax)
    ax.legend(handles=levels, ncols=2, **ABOVE)
    return ax
