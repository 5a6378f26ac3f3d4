"""Pictures of trainings and of what was learnt; the rules are those of `plots`.

`mark` is a word that a picture must carry: "stand-in" where the pictures learnt from are made up.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from helpers.compare import PUBLISHED_LESS
from helpers.plots import LINE, colour, predicted_colours
from helpers.timing import format_seconds

INKS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


def learning_curves(histories: Mapping[str, Mapping], ax, metric: str = "accuracy", mark: str = ""):
    """Draw a metric after each epoch, one colour per training: on validation pictures with dots, else thin.

    `histories` holds what a training's `history` holds: `accuracy` and `val_accuracy`, a value per epoch.
    """
    scale = 100 if metric == "accuracy" else 1
    sizes = (8, 5, 4, 3)  # later dots are smaller, so that equal curves show both
    for (label, history), ink, size in zip(histories.items(), INKS, sizes, strict=False):
        for name, look in ((metric, {"linewidth": 1}), (f"val_{metric}", {"marker": "o", "markersize": size})):
            if name in history:
                values = np.array(history[name]) * scale
                on = "validation" if name.startswith("val_") else "training"
                ax.plot(np.arange(1, len(values) + 1), values, color=ink, label=f"{label}, {on}", **look)
    ax.set(xlabel="epoch", ylabel="accuracy (%)" if metric == "accuracy" else metric)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(fontsize=8)
    return _marked(ax, mark)


def confusion_matrix(matrix: np.ndarray, classes: Sequence[str], ax, mark: str = ""):
    """Draw how often each true class (row) was taken for each class (column), in percent of the row."""
    share = matrix / np.maximum(1, matrix.sum(axis=1, keepdims=True)) * 100
    ax.imshow(share, cmap="Blues", vmin=0, vmax=100)
    for row, column in np.ndindex(*share.shape):
        if share[row, column] >= 0.5:
            ink = "white" if share[row, column] > 50 else "black"
            ax.text(column, row, f"{share[row, column]:.0f}", ha="center", va="center", color=ink, fontsize=8)
    places = range(len(classes))
    ax.set(xlabel="taken for", ylabel="really", xticks=places, yticks=places, yticklabels=classes)
    ax.set_xticklabels(classes, rotation=45, ha="right")
    ax.grid(visible=False)
    return _marked(ax, mark)


def examples(x: np.ndarray, titles: Sequence[str], axes: Sequence, mark: str = "") -> Sequence:
    """Draw pictures (n, height, width, colours) side by side, each under its title."""
    for ax, picture, title in zip(axes, x, titles, strict=False):
        ax.imshow(picture.squeeze(), cmap="gray" if picture.shape[-1] == 1 else None)
        ax.set_title(title, fontsize=8)
    for ax in axes:
        ax.axis("off")
    _marked(axes[0], mark)
    return axes


def _marked(ax, mark: str):
    if mark:
        ax.text(
            0.5, 0.5, mark, transform=ax.transAxes, ha="center", va="center", color="#D55E00", alpha=0.5, fontsize=24
        )
    return ax


def parts_of_a_step(parts: Mapping[str, Mapping[str, float]], whole: Mapping[str, float], ax):
    """Draw, for each way, the seconds of the parts of a step in a row; a black line marks the whole, measured alone."""
    unit, scale = ("ms", 1e3) if max(whole.values()) >= 1e-3 else ("µs", 1e6)
    ways = list(parts)
    left = np.zeros(len(ways))
    for part in parts[ways[0]]:
        seconds = np.array([parts[way][part] for way in ways]) * scale
        ax.barh(ways, seconds, left=left, height=0.6, label=part)
        left += seconds
    for row, way in enumerate(ways):
        ax.plot([whole[way] * scale] * 2, [row - 0.4, row + 0.4], color="black", linewidth=2)
    ax.set(xlabel=f"time of a step ({unit})", xlim=(0, None))
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.legend(ncols=len(parts[ways[0]]), loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
    return ax


def fifteen_epochs(rows: Sequence, axes: Sequence, predicted: Mapping[str, Mapping] | None = None) -> Sequence:
    """Draw the rows of the chapter's table: seconds on the first axes, shares of the CPU's time on the second.

    A thin line shows the limits of a time that was calculated from fewer epochs or pictures. `predicted` holds
    devices that are not here, {name: {network: Prediction}}: their bars are hatched, and follow the rows.
    """
    left, right = axes
    places = range(len(rows))
    inks = [colour(row.device) for row in rows]
    wholes = [row.whole for row in rows]
    reach = [[w.seconds - w.low for w in wholes], [w.high - w.seconds for w in wholes]]
    bars = left.barh(places, [w.seconds for w in wholes], color=inks, height=0.6, xerr=reach, ecolor="#444444")
    left.bar_label(bars, labels=[f" {format_seconds(w.seconds)}" for w in wholes], fontsize=8)
    for place, row in enumerate(rows):
        less = 0.0 if row.is_base else row.less
        if less is None:
            right.text(2, place, "not compared", va="center", fontsize=8)
        else:
            right.barh(place, (1 - less) * 100, color=inks[place], height=0.6)
    names = [_place(row) for row in rows] + _predicted_bars(rows, axes, predicted or {})
    left.set(xlabel="15 epochs (s)", yticks=range(len(names)), yticklabels=names)
    left.margins(x=0.2)
    published = 100 * (1 - PUBLISHED_LESS)
    label = f"GT 720, published: about {published:.0f} % on average"
    right.axvline(published, color="#444444", linestyle=LINE["published"], label=label)
    right.set(xlabel="share of the CPU's time (%)", yticks=[], ylim=left.get_ylim())
    for ax in axes:
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
        ax.tick_params(axis="y", labelsize=8)
    right.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1))
    return axes


def _predicted_bars(rows: Sequence, axes: Sequence, predicted: Mapping[str, Mapping]) -> list[str]:
    """Draw a bar for each prediction below the rows, compared with the first CPU of its network; return their names."""
    left, right = axes
    bases = {row.network: row.whole.seconds for row in reversed(rows) if row.is_base}
    names = []
    for device, ink in predicted_colours(list(predicted)):
        look = {"facecolor": "white", "edgecolor": ink, "hatch": "///", "linestyle": LINE["predicted"], "height": 0.6}
        for network, found in predicted[device].items():
            place = len(rows) + len(names)
            reach = [[found.seconds - found.low], [found.high - found.seconds]]
            bar = left.barh(place, found.seconds, xerr=reach, ecolor="#444444", **look)
            left.bar_label(bar, labels=[f" {format_seconds(found.seconds)}"], fontsize=8)
            if network in bases:
                right.barh(place, found.seconds / bases[network] * 100, **look)
            names.append(f"{network}\npredicted: {device}")
    return names


def _place(row) -> str:
    """Name a row of the chapter's table; a dollar sign would begin a formula."""
    build = ", GPU build" if row.environment == "GPU" and row.kind == "CPU" else ""
    return f"{row.network}\n{row.device} · {row.device_name[:30]}{build}".replace("$", r"\$")
