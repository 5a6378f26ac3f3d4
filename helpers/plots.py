"""Every picture of the course. Each function draws on the axes it is given and returns them.

One rule for all: measured here is solid, predicted is dashed, published by others is dotted.
A colour stands for a kind of device. Devices that are predicted have colours of their own.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from helpers.devices import parse
from helpers.timing import Measurement, format_digits

LINE = {"measured": "-", "predicted": "--", "published": ":"}
COLOUR = {"CPU": ("#0072B2", "#56B4E9"), "GPU": ("#D55E00", "#E69F00"), "TPU": ("#009E73", "#009E73")}
PREDICTED = ("#CC79A7", "#882255", "#AA4499", "#332288")  # one after the other, whatever the kind of device
STATE = {"ok": "#d9efe3", "note": "#fdf0cf", "fail": "#f7d4cc"}


def use_style() -> None:
    """Give all following pictures the look of the course."""
    mpl.style.use(Path(__file__).with_name("course.mplstyle"))


def colour(device) -> str:
    """Return the colour of a device; a second one of the same kind gets a lighter shade."""
    device = parse(device)
    shades = COLOUR[device.kind]
    return shades[min(device.index, len(shades) - 1)]


def predicted_colours(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each name of a predicted device with its colour; the same order gives the same colours everywhere."""
    return zip(names, cycle(PREDICTED), strict=False)


def _predictions(predicted: Mapping[str, Mapping], ax) -> None:
    """Draw a dashed line for each device that is not here, and its interval as a band: {name: {place: Prediction}}."""
    for name, ink in predicted_colours(list(predicted)):
        found = predicted[name].values()
        places = list(predicted[name])
        ax.fill_between(places, [p.low for p in found], [p.high for p in found], color=ink, alpha=0.15, linewidth=0)
        look = {"color": ink, "linestyle": LINE["predicted"], "marker": "o", "markerfacecolor": "white"}
        ax.plot(places, [p.seconds for p in found], label=f"predicted: {name}", **look)


def _plain_log(axis) -> None:
    """Label a logarithmic axis with 1, 2, 5, 10, 20 … instead of powers of ten."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_formatter(NullFormatter())


def few_and_many_cores(axes: Sequence) -> Sequence:
    """Draw the idea of a CPU on the first axes, and that of a GPU on the second."""
    pictures = (
        ("CPU: few strong cores, a large cache", 2, 4, "CPU"),
        ("GPU: thousands of simple cores, little cache for each", 16, 24, "GPU"),
    )
    for ax, (title, rows, columns, kind) in zip(axes, pictures, strict=True):
        chip = COLOUR[kind][0]
        cache = 0.42 if kind == "CPU" else 0.08
        ax.add_patch(Rectangle((0, 0), 1, cache - 0.03, color=chip, alpha=0.25))
        ax.text(0.5, (cache - 0.03) / 2, "cache", ha="center", va="center", fontsize=8)
        width, height = 1 / columns, (1 - cache) / rows
        for row in range(rows):
            for column in range(columns):
                corner = (column * width + 0.08 * width, cache + row * height + 0.08 * height)
                ax.add_patch(Rectangle(corner, 0.84 * width, 0.84 * height, color=chip))
        ax.set_title(title)
        ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect=0.6)
        ax.axis("off")
    return axes


def software_stack(layers: Sequence[tuple[str, str, str]], ax):
    """Draw (name, what it is here, state) from top to bottom, as boxes that stand on each other."""
    for height, (name, words, state) in enumerate(reversed(layers)):
        ax.add_patch(Rectangle((0, height), 1, 0.9, facecolor=STATE[state], edgecolor="#666666", linewidth=0.8))
        ax.text(0.02, height + 0.45, name, va="center", weight="bold")
        ax.text(0.26, height + 0.45, words, va="center")
    ax.set(xlim=(-0.01, 1.01), ylim=(-0.1, len(layers)))
    ax.axis("off")
    return ax


def time_against_size(
    curves: Mapping[tuple[str, str], Mapping[int, float]], ax, scale: str = "linear", predicted: Mapping | None = None
):
    """Draw seconds against matrix size as the chapter does: {(device, origin): {size: seconds}}.

    The origin is "measured" or "published". `scale` is "linear" or "log", for both axes. `predicted` holds devices
    that are not here: {name: {size: Prediction}}.
    """
    for (device, origin), times in curves.items():
        style = {"color": colour(device), "linestyle": LINE[origin], "marker": "o"}
        ax.plot(list(times), list(times.values()), label=f"{parse(device)}, {origin}", **style)
    _predictions(predicted or {}, ax)
    ax.set(xlabel="matrix size n (n × n, float32)", ylabel="time per product (s)", xscale=scale, yscale=scale)
    if scale == "linear":
        ax.set(ylim=(0, None), xlim=(0, None))
    else:
        _plain_log(ax.xaxis)
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.legend()
    return ax


def rate_against_size(measured: Mapping[int, Measurement], ceilings: Mapping[str, float], device, ax):
    """Draw GFLOP/s against matrix size on log axes, below the three ceilings of one device.

    `ceilings` holds `flop_per_second`, `bytes_per_second` and `seconds_per_call`. A product of two
    n × n float32 matrices takes 2 n³ operations and moves at least 12 n² bytes.
    """
    sizes = np.array(list(measured), float)
    rates = 2 * sizes**3 / [m.median for m in measured.values()] / 1e9
    n = np.geomspace(sizes.min() / 1.5, sizes.max() * 1.5, 200)
    limits = {
        "fixed cost of a call": 2 * n**3 / ceilings["seconds_per_call"] / 1e9,
        "memory": ceilings["bytes_per_second"] * n / 6 / 1e9,
        "processor": np.full_like(n, ceilings["flop_per_second"] / 1e9),
    }
    for (name, limit), style in zip(limits.items(), ((0, (1, 1)), (0, (4, 2)), (0, (6, 1, 1, 1))), strict=True):
        ax.plot(n, limit, color="#888888", linestyle=style, linewidth=1.2, label=f"ceiling: {name}")
    ax.fill_between(n, np.min(list(limits.values()), axis=0), 1e-12, color="#888888", alpha=0.08)
    ax.plot(sizes, rates, "o-", color=colour(device), label=f"{parse(device)}, measured")
    top = 3 * max(rates.max(), ceilings["flop_per_second"] / 1e9)
    ax.set(xlabel="matrix size n (n × n, float32)", ylabel="rate (GFLOP/s)", xscale="log", yscale="log")
    ax.set(ylim=(rates.min() / 3, top), xlim=(n[0], n[-1]))
    _plain_log(ax.xaxis)
    ax.legend(loc="lower right", fontsize=8)
    return ax


def parts_of_a_time(parts: Mapping[int, Mapping[str, float]], ax, whole: Mapping[int, float] | None = None):
    """Draw, for each size, which share of the time each part takes: {size: {part: seconds}}.

    The whole is the sum of the parts, unless it was measured on its own: {size: seconds}. Then a line marks
    where the bars should end, and what they leave over is shown as unexplained.
    """
    sizes = list(parts)
    total = whole or {size: sum(parts[size].values()) for size in sizes}
    left = np.zeros(len(sizes))
    for part in parts[sizes[0]]:
        share = np.array([parts[size][part] / total[size] for size in sizes]) * 100
        bars = ax.barh([f"{size:,}" for size in sizes], share, left=left, label=part, height=0.6)
        texts = [f"{value:.0f}" if value > 6 else "" for value in share]
        ax.bar_label(bars, labels=texts, label_type="center", color="white")
        left += share
    if whole:
        rest = np.maximum(0, 100 - left)
        look = {"facecolor": "white", "edgecolor": "#888888", "hatch": "///", "linewidth": 0}
        ax.barh([f"{size:,}" for size in sizes], rest, left=left, label="unexplained", height=0.6, **look)
        ax.axvline(100, color="black", linewidth=1.5)
    ax.set(xlabel="share of the published clock (%)", ylabel="matrix size n", xlim=(0, max(100, left.max()) * 1.01))
    ax.invert_yaxis()
    ax.grid(visible=False)
    columns = 4 if whole else len(parts[sizes[0]])
    ax.legend(ncols=columns, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8 if whole else None)
    return ax


def step_against_batch(measured: Mapping, lines: Mapping, ax, predicted: Mapping | None = None):
    """Draw seconds per training step against batch size: {device: {batch size: Measurement}}.

    `lines` holds the `Line` that was fitted for each device: it is drawn thin, its fixed part as a level.
    `predicted` holds devices that are not here: {name: {batch size: Prediction}}.
    """
    for device, steps in measured.items():
        sizes = np.array(list(steps), float)
        ax.plot(
            sizes, [m.median for m in steps.values()], "o", color=colour(device), label=f"{parse(device)}, measured"
        )
        n = np.geomspace(sizes.min(), sizes.max(), 200)
        line = lines[device]
        ax.plot(n, line.seconds(n), color=colour(device), linewidth=1, label="fixed + per example × batch size")
        ax.axhline(line.fixed, color=colour(device), linewidth=1, linestyle=(0, (1, 1)), label="fixed cost alone")
    _predictions(predicted or {}, ax)
    ax.set(xlabel="batch size", ylabel="time per step (s)", xscale="log", yscale="log")
    bottom, top = np.log10(ax.get_ylim())
    ax.set_ylim(10 ** np.floor(bottom), 10 ** np.ceil(top))  # whole decades, so that at least two are labelled
    _plain_log(ax.xaxis)
    if np.ptp(np.log10(ax.get_xlim())) > 3:
        ax.xaxis.set_major_locator(LogLocator())  # 1, 10, 100 …: more labels would overlap
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.legend(fontsize=8)
    return ax


def shares_by_layer(counts: Sequence, ax):
    """Draw two bars per layer: its share of all parameters, and of all operations; layers without any are left out."""
    shown = [count for count in counts if count.parameters or count.flop]
    bars = {"parameters": [c.parameters for c in shown], "operations": [c.flop for c in shown]}
    return _paired_bars([count.name for count in shown], bars, ax, "share of the network (%)")


def operations_and_time(counts: Sequence, times: Mapping[str, Measurement], ax):
    """Draw two bars per layer: its share of all operations, and of the time of all layers and the optimizer."""
    flop = {count.name: count.flop for count in counts}
    bars = {"operations": [flop.get(name, 0) for name in times], "time": [m.median for m in times.values()]}
    return _paired_bars(list(times), bars, ax, "share of all layers and the optimizer (%)")


def _paired_bars(names: Sequence[str], bars: Mapping[str, Sequence[float]], ax, xlabel: str):
    for (label, numbers), offset, face in zip(bars.items(), (-0.2, 0.2), ("#999999", "#0072B2"), strict=True):
        values = np.array(numbers, float)
        ax.barh(np.arange(len(names)) + offset, values / values.sum() * 100, height=0.38, color=face, label=label)
    ax.set(xlabel=xlabel, yticks=range(len(names)), yticklabels=names)
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.legend()
    return ax


def ladder(times: Mapping[str, Measurement], ax, floor: float, floor_is: str = "every byte read once"):
    """Draw one bar per way on a logarithmic axis: seconds per epoch; a line marks the floor, in seconds."""
    labels, medians = list(times), np.array([m.median for m in times.values()])
    bars = ax.barh(labels, medians, height=0.6, color=colour(next(iter(times.values())).device))
    texts = [f" {m.shown}{_gain(medians[0] / m.median)}" for m in times.values()]
    ax.bar_label(bars, labels=texts, fontsize=8)
    ax.axvline(floor, color="#888888", linestyle=(0, (4, 2)), label=f"floor: {floor_is}")
    lowest = min(floor, medians.min())
    ax.set(xlabel="time per epoch (s)", xscale="log", xlim=(lowest / 2, medians.max() * 30))
    ax.invert_yaxis()
    ax.grid(visible=False)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), fontsize=8)
    return ax


def single_samples(samples: Mapping[str, Sequence[float]], ax):
    """Draw every value as a dot, relative to the median of its kind, which is the line at 1."""
    for height, values in enumerate(samples.values()):
        relative = np.array(values) / np.median(values)
        # Spread out downwards in the order they were taken, or they would hide each other.
        ax.plot(relative, height + np.linspace(-0.3, 0.3, len(relative)), "o", alpha=0.6, markersize=4)
        widest = f"slowest / fastest\n= {format_digits(relative.max() / relative.min())}"
        ax.text(1.02, height, widest, va="center", fontsize=8, transform=ax.get_yaxis_transform())
    ax.axvline(1, color="#444444", linewidth=1)
    ax.set(xlabel="one value / the median of all", yticks=range(len(samples)), yticklabels=list(samples))
    ax.set(ylim=(len(samples) - 0.5, -0.5))
    return ax


def _gain(ratio: float) -> str:
    if ratio == 1:
        return ""
    return f" ({format_digits(max(ratio, 1 / ratio))} times {'faster' if ratio > 1 else 'slower'})"


def new_axes(columns: int = 1, height: float = 4.2):
    """Return the axes of a new picture: one, or several side by side."""
    _, axes = plt.subplots(1, columns, figsize=(7.2 if columns == 1 else 9.6, min(height, 100)))
    return axes
