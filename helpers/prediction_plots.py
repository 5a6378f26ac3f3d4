"""Pictures of the cost model and of its predictions, all from seconds; the rules are those of `plots`."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle

import numpy as np
from matplotlib.ticker import EngFormatter, FuncFormatter, LogLocator, NullFormatter

from helpers.comparing import TOO_CLOSE
from helpers.costs import Curve, Formula
from helpers.errors import DeviceError, ParameterError
from helpers.literature import Figure
from helpers.pieces import Piece
from helpers.plots import COLOUR, LINE, PREDICTED, colour, predicted_colours
from helpers.predict import PARTS, Comparison, Crossover, Prediction
from helpers.timing import format_seconds
from helpers.work import FLOAT

# Warm colours for what surrounds the work, blue ones for the work itself (the palette of Okabe and Ito).
PART_INKS = dict(zip(PARTS, ("#E69F00", "#F0E442", "#CC79A7", "#0072B2", "#56B4E9"), strict=True))
MEASURED = tuple(COLOUR[kind][0] for kind in ("CPU", "GPU", "TPU"))
NETWORKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = "os^Dv<>"  # as many as there are colours of networks
GREY = "#888888"
ABOVE = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "fontsize": 8}  # a legend that covers nothing


def _label_log(axis, words: Callable[[float], str] = "{:,g}".format) -> None:
    """Label a logarithmic axis with `words` for each number: at 1, 2, 5, 10 … where there is room, else 1, 10, 100."""
    low, high = np.log10(axis.get_view_interval())
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high - low < 2.3 else (1,)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: words(value)))
    axis.set_minor_formatter(NullFormatter())


def _time(seconds: float) -> str:
    return format_seconds(seconds).replace(".0 ", " ")  # "1 ms" at a tick, not "1.0 ms"


def _refuse_nothing(count: int, what: str) -> None:
    if not count:
        raise ParameterError(f"There is no {what} to draw.", f"Accepted is at least one {what}.", "Add one.")


def rates(rows: Sequence[tuple[Piece, float]], formula: Formula, ax, kind: str = "product"):
    """Draw the rate of each measured operation of a kind, and the rate that the formula gives it.

    Operations of equal flop differ in shape, so a dashed stem leads from what was measured to what is predicted.
    """
    shown = [(piece, seconds) for piece, seconds in rows if piece.kind == kind]
    _refuse_nothing(len(shown), f"measured {kind}")
    flop = np.array([piece.flop for piece, _ in shown])
    measured = flop / [seconds for _, seconds in shown] / 1e9
    predicted = flop / [formula.seconds(piece).total for piece, _ in shown] / 1e9
    ax.vlines(flop, measured, predicted, color=PREDICTED[0], linestyle=LINE["predicted"], linewidth=1)
    hollow = {"color": PREDICTED[0], "markerfacecolor": "white", "markersize": 7}
    ax.plot(flop, predicted, "D", label="predicted by the formula", **hollow)
    ax.plot(flop, measured, "o", color=MEASURED[0], label="measured")
    xlabel = f"arithmetic of one operation ({kind.replace('_', ' ')})"
    ax.set(xlabel=xlabel, ylabel="rate (GFLOP/s)", xscale="log", yscale="log")
    _label_log(ax.xaxis, EngFormatter(unit="FLOP"))
    _label_log(ax.yaxis)
    ax.legend(ncols=2, **ABOVE)
    return ax


def copy_rate(curve: Curve, ax):
    """Draw how many GB/s an operation moves against the bytes that it moves; it falls where a cache is too small."""
    moved = np.array(curve.values) * FLOAT
    ax.plot(moved, moved / curve.seconds_each / 1e9, "o", linestyle=LINE["measured"], color=MEASURED[0])
    ax.set(xlabel="bytes read and written (float32)", ylabel="rate, measured (GB/s)", xscale="log", ylim=(0, None))
    _label_log(ax.xaxis, EngFormatter(unit="B"))
    return ax


def parts(predictions: Sequence[tuple[str, Prediction]], ax):
    """Draw a bar for each labelled prediction: the shares of its parts, with the whole time at its end."""
    places, left = range(len(predictions)), np.zeros(len(predictions))
    for part, ink in PART_INKS.items():
        share = np.array([found.parts[part] / found.seconds * 100 for _, found in predictions])
        bars = ax.barh(places, share, left=left, height=0.65, label=part, color=ink, edgecolor="white")
        texts = [f"{value:.0f}" if value > 5 else "" for value in share]
        ax.bar_label(bars, texts, label_type="center", color="white" if part == "compute" else "black", fontsize=8)
        left += share
    for place, (_, found) in enumerate(predictions):
        ax.text(101, place, format_seconds(found.seconds), va="center", fontsize=8)
    ax.set_yticks(places, [label for label, _ in predictions])
    ax.set(xlabel="share of the predicted time of a step (%)", xlim=(0, 100))
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.legend(ncols=len(PARTS), **ABOVE)
    return ax


def agreement(trials: Sequence, ax):
    """Draw predicted against measured seconds of trials (see `scoring`), with a colour and a shape for each network."""
    looks = zip(dict.fromkeys(trial.title for trial in trials), cycle(NETWORKS), cycle(MARKERS), strict=False)
    series = {
        (title, ink, marker): [(t.measured, t.ratio * t.measured) for t in trials if t.title == title]
        for title, ink, marker in looks
    }
    return _diagonal(series, ax, "measured time of a step", "predicted time of a step")


def published(rows: Sequence[tuple[Figure, float]], ax):
    """Draw the predicted seconds of each published figure against those that were published, by kind of device."""
    series = {
        (f"{kind}s", COLOUR[kind][0], marker): [(f.measured, s) for f, s in rows if f.device.kind.upper() == kind]
        for kind, marker in (("CPU", "o"), ("GPU", "^"))
    }
    return _diagonal(series, ax, "published time", "predicted time")


def _diagonal(series: Mapping[tuple[str, str, str], Sequence[tuple]], ax, xlabel: str, ylabel: str):
    """Draw {(label, colour, marker): points} on equal axes, where both are equal, and a factor of two around it."""
    points = np.array([point for found in series.values() for point in found])
    _refuse_nothing(len(points), "pair of times")
    for (label, ink, marker), found in series.items():
        if found:
            ax.scatter(*zip(*found, strict=True), c=ink, marker=marker, s=30, alpha=0.8, lw=0, zorder=3, label=label)
    ends = np.array([points.min() / 2, points.max() * 2])
    ax.fill_between(ends, ends / 2, ends * 2, color=GREY, alpha=0.18, linewidth=0, label="within a factor of 2")
    ax.plot(ends, ends, color=GREY, linewidth=1, label="equal")
    ax.set(xlabel=xlabel, ylabel=ylabel, xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")
    for axis in (ax.xaxis, ax.yaxis):
        _label_log(axis, _time)
    ax.tick_params(labelsize=8)
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), fontsize=8)
    return ax


def _with_interval(batches, middle, interval, ax, ink: str, label: str, marker: str = "o") -> None:
    ax.fill_between(batches, *interval, color=ink, alpha=0.15, linewidth=0)
    look = {"color": ink, "linestyle": LINE["predicted"], "marker": marker, "markerfacecolor": "white"}
    ax.plot(batches, middle, label=label, **look)


def time_against_batch(curves: Mapping, ax, crossover: Crossover | None = None, measured: Mapping | None = None):
    """Draw seconds per example against batch size: {label: predictions}, measured {label: {batch: seconds per step}}.

    A crossover is a dotted line, and what is too close to call a span: to the right edge if that never ends.
    """
    for (label, ink), marker in zip(predicted_colours(list(curves)), cycle(MARKERS), strict=False):
        found = sorted(curves[label], key=lambda prediction: prediction.batch)
        batches = np.array([each.batch for each in found])
        low, middle, high = np.array([(each.low, each.seconds, each.high) for each in found]).T / batches
        _with_interval(batches, middle, (low, high), ax, ink, f"predicted: {label}", marker)
    for place, (label, steps) in enumerate((measured or {}).items()):
        batches = sorted(steps)
        look = {"color": _measured_ink(label, place), "linestyle": LINE["measured"], "marker": "o"}
        ax.plot(batches, [steps[batch] / batch for batch in batches], label=f"measured: {label}", **look)
    ax.set(xlabel="batch size", ylabel="time per example", xscale="log", yscale="log")
    if crossover:
        _crossing(crossover, ax)
    _label_log(ax.xaxis)
    _label_log(ax.yaxis, _time)
    ax.legend(ncols=2, **ABOVE)
    return ax


def _measured_ink(label: str, place: int) -> str:
    """Return the colour of the device that a label names; other labels take one colour after the other."""
    try:
        return colour(label)
    except DeviceError:
        return MEASURED[place % len(MEASURED)]


def _crossing(crossover: Crossover, ax) -> None:
    if crossover.word == "from":
        name = f"predicted: {crossover.b} is faster from batch {crossover.batch:,.0f} on"
        ax.axvline(crossover.batch, color="black", linestyle=":", linewidth=1.5, label=name)
    if crossover.low is None or crossover.low == crossover.high:
        return
    # The axes are kept as they are, but for an end that lies outside: a span would add a margin of its own.
    left, right = ax.get_xlim()
    start, end = max(left, crossover.low), crossover.high or max(right, 2 * crossover.low)
    ax.axvspan(start, end, color=GREY, alpha=0.18, linewidth=0, label=f"predicted: {TOO_CLOSE}")
    ax.set_xlim(left, max(right, end))


def advantage(comparisons: Sequence[Comparison], ax):
    """Draw how many times faster b is predicted to be than a, against the batch size of one pair of devices."""
    _refuse_nothing(len(comparisons), "comparison")
    found = sorted(comparisons, key=lambda each: each.a.batch)
    batches = np.array([each.a.batch for each in found])
    interval = np.array([each.interval for each in found]).T
    fine = np.geomspace(batches[0], batches[-1], 500)  # so that the area ends where the interval's edge crosses 1
    low, high = (np.interp(np.log(fine), np.log(batches), np.log(edge)) for edge in interval)
    area = {"transform": ax.get_xaxis_transform(), "color": GREY, "alpha": 0.18, "linewidth": 0}
    ax.fill_between(fine, 0, 1, where=(low <= 0) & (high >= 0), label=TOO_CLOSE, **area)
    _with_interval(batches, [each.ratio for each in found], interval, ax, PREDICTED[0], "predicted")
    ax.axhline(1, color="black", linewidth=1, label="equally fast")
    ylabel = f"how many times faster\n{found[0].b.device} is than {found[0].a.device}"
    ax.set(xlabel="batch size", ylabel=ylabel, xscale="log", yscale="log")
    _label_log(ax.xaxis)
    _label_log(ax.yaxis)
    ax.legend(ncols=3, **ABOVE)
    return ax
