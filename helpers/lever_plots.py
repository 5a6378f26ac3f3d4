"""Pictures of what levers do; the rules are those of `plots`."""

from collections.abc import Mapping, Sequence

from helpers.comparing import TOO_CLOSE
from helpers.levers import Outcome

HELPS, HURTS, NEITHER = "#0072B2", "#D55E00", "#a8a8a8"
WIDEST = 200  # percent; a bar that is longer is cut off, and says how long it is


def time_left(outcomes: Mapping[str, Mapping[str, Outcome]], axes: Sequence) -> Sequence:
    """Draw, for each training, how much of the time is left after each lever: {title: {lever: outcome}}.

    The time is that per example, in percent of the first outcome's. Hatched: the lever changes what is learned.
    """
    most_first = sorted(outcomes.values(), key=len, reverse=True)
    labels = list(dict.fromkeys(label for found in most_first for label in list(found)[1:]))
    for ax, (title, found) in zip(axes, outcomes.items(), strict=True):
        base = next(iter(found.values()))
        for place, label in enumerate(labels):
            if label in found:
                _bar(ax, place, base, found[label])
            else:
                ax.text(2, place, "not here", va="center", fontsize=7, color="#666666")
        ax.axvline(100, color="black", linewidth=1)
        ax.set(title=title, xlim=(0, WIDEST), xlabel="time left (%)", yticks=range(len(labels)), yticklabels=labels)
        ax.invert_yaxis()
        ax.grid(visible=False, axis="y")
    for ax in axes[1:]:
        ax.set_yticklabels([])
    _legend(axes[0])
    return axes


def _bar(ax, place: int, base: Outcome, outcome: Outcome) -> None:
    compared = outcome.against(base)
    left = 100 / compared.ratio
    ink = NEITHER if outcome.verdict(base) == TOO_CLOSE else HELPS if compared.ratio > 1 else HURTS
    look = {"hatch": "///", "edgecolor": "white"} if outcome.lever.changes_learning else {}
    ax.barh(place, min(left, WIDEST), height=0.7, color=ink, linewidth=0, **look)
    is_long = left > 0.8 * WIDEST
    ax.text(
        min(left, WIDEST) + (-3 if is_long else 3),
        place,
        f"{left:,.0f} %",
        va="center",
        ha="right" if is_long else "left",
        color="white" if is_long else "black",
        fontsize=8,
        bbox=None if is_long else {"facecolor": "white", "linewidth": 0, "pad": 0.5},
    )


def _legend(ax) -> None:
    from matplotlib.patches import Patch

    handles = [
        Patch(color=HELPS, label="faster"),
        Patch(color=HURTS, label="slower"),
        Patch(color=NEITHER, label="too close to call"),
        Patch(facecolor="#666666", edgecolor="white", hatch="///", label="learns something else"),
    ]
    ax.figure.legend(handles=handles, ncols=4, loc="outside upper center", fontsize=8)


def input_ladder(rows: Mapping[str, Mapping[str, float]], fed: float, ax):
    """Draw the seconds of an epoch with each pipeline, and of making its batches alone: {pipeline: {part: seconds}}.

    `fed` is an epoch whose batches lie ready: the line that no pipeline can pass.
    """
    height = 0.38
    for place, seconds in enumerate(rows.values()):
        training, alone = seconds["training"], seconds["input alone"]
        first = place == 0
        ax.barh(place - height / 2, training, height, color=HELPS, label="training" if first else None)
        ax.barh(place + height / 2, alone, height, color=NEITHER, label="input alone" if first else None)
        ax.text(training, place - height / 2, f" {training / fed:.1f} times", va="center", fontsize=8)
    ax.axvline(fed, color="black", linewidth=1, label="training, all batches ready")
    ax.set(xlabel="time of an epoch (s)", yticks=range(len(rows)), yticklabels=list(rows))
    ax.invert_yaxis()
    ax.margins(x=0.15)
    ax.grid(visible=False, axis="y")
    ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
    return ax
