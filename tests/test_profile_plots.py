"""Pictures of profiles: bars lie where something ran, colours name kinds, and a window cuts out whole steps."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from helpers import plots, profile_plots
from helpers.devices import Device
from helpers.errors import ParameterError
from helpers.profiles import Operation, Profile
from helpers.training_plots import INKS

TWO_STEPS = (
    Operation("MatMul", 0.02, 0.04, 0.02),
    Operation("MatMul", 0.06, 0.08, 0.02),
    Operation("Mul", 0.04, 0.05, 0.01),
)


@pytest.fixture(autouse=True)
def fresh_figures():
    plots.use_style()
    yield
    plt.close("all")


def profile(operations=TWO_STEPS, fed=True) -> Profile:
    """A call of 0.1 s whose two steps asked for a batch at 0.01 s and at 0.045 s."""
    work, requests = (((0.0, 0.02), (0.045, 0.055)), ((0.01, 0.02), (0.045, 0.055))) if fed else ((), ())
    return Profile(Device("CPU", 0), 0.1, operations, work, requests)


def bars(ax) -> list[list[tuple]]:
    """Return, for each collection drawn, its bars as (place, start, end) in ms, with their colours."""
    found = []
    for collection in ax.collections:
        boxes = [path.get_extents() for path in collection.get_paths()]
        inks = [mpl.colors.to_hex(ink) for ink in collection.get_facecolors()] * len(boxes)
        places = [(round((box.y0 + box.y1) / 2), round(box.x0, 6), round(box.x1, 6)) for box in boxes]
        found.append([(*place, ink) for place, ink in zip(places, inks, strict=False)])
    return found


def labels(ax) -> dict[str, str]:
    handles = ax.get_legend().legend_handles
    return {handle.get_label(): mpl.colors.to_hex(handle.get_facecolor()) for handle in handles}


def test_bars_lie_where_something_ran_in_the_colour_of_its_kind():
    """Input above, operations below; the kind that took longest has the first colour; the rest is white."""
    ax = profile_plots.timeline(profile(), plots.new_axes())

    first, second = (mpl.colors.to_hex(ink) for ink in INKS[:2])
    work, waiting, operations = bars(ax)
    assert work == [(0, 0, 20, profile_plots.WORKING), (0, 45, 55, profile_plots.WORKING)]
    assert waiting == [(0, 10, 20, profile_plots.WAITING), (0, 50, 55, profile_plots.WAITING)]
    assert operations == [(1, 20, 40, first), (1, 40, 50, second), (1, 60, 80, first)]
    assert labels(ax) == {
        "MatMul": first,
        "Mul": second,
        "input at work": profile_plots.WORKING,
        "waiting for input": profile_plots.WAITING,
    }
    assert [label.get_text() for label in ax.get_yticklabels()] == ["input", "operations"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1] and ax.get_xlim() == (0, 100)
    assert ax.get_xlabel() == "time since the call began (ms)"


def test_only_the_four_largest_kinds_have_a_colour():
    """The others are grey, under one name; without input there is no word of it."""
    many = tuple(Operation(f"Kind{n}", n / 100, (n + 0.9) / 100, (9 - n) / 1000) for n in range(6))

    ax = profile_plots.timeline(profile(many, fed=False), plots.new_axes())

    assert list(labels(ax)) == ["Kind0", "Kind1", "Kind2", "Kind3", "other operations"]
    grey = mpl.colors.to_hex(profile_plots.REST)
    assert [bar[-1] == grey for bar in bars(ax)[-1]] == [False] * 4 + [True] * 2


def test_the_operation_that_began_last_is_drawn_last():
    """A short one within a long one stays visible."""
    around = (Operation("Short", 0.03, 0.04, 0.01), Operation("Long", 0.02, 0.05, 0.02))

    ax = profile_plots.timeline(profile(around), plots.new_axes())

    assert [bar[1] for bar in bars(ax)[-1]] == [20, 30]


@pytest.mark.parametrize(
    ("window", "limits", "drawn"),
    [
        ({"steps": 1}, (10, 45), ["MatMul", "Mul"]),
        ({"steps": 2}, (10, 100), ["MatMul", "Mul"]),
        ({"seconds": (0.055, 0.07)}, (55, 70), ["MatMul"]),
    ],
)
def test_a_window_shows_whole_steps_or_given_seconds(window, limits, drawn):
    """A step lasts from one request to the next, the last one to the end of the call; kinds keep their colours."""
    ax = profile_plots.timeline(profile(), plots.new_axes(), **window)

    assert ax.get_xlim() == pytest.approx(limits)
    assert list(labels(ax))[:-2] == drawn
    assert labels(ax)["MatMul"] == mpl.colors.to_hex(INKS[0])
    assert len(bars(ax)[-1]) == {(10, 45): 2, (10, 100): 3, (55, 70): 1}[limits]


@pytest.mark.parametrize(
    ("window", "words"),
    [
        ({"steps": 3}, "3 steps cannot be drawn: the call asked for 2 batches"),
        ({"steps": 0}, "0 steps cannot be drawn"),
        ({"steps": 1, "seconds": (0, 0.1)}, "and then no seconds"),
        ({"seconds": (0.2, 0.1)}, "from 0 to 0.1 s"),
    ],
)
def test_a_window_that_does_not_exist_is_refused(window, words):
    """With what there is to draw."""
    with pytest.raises(ParameterError, match=words):
        profile_plots.timeline(profile(), plots.new_axes(), **window)


def test_steps_of_a_call_without_requests_are_refused():
    """Where the data lies on the device, nobody asks for a batch."""
    with pytest.raises(ParameterError, match="give seconds"):
        profile_plots.timeline(profile(fed=False), plots.new_axes(), steps=1)


def test_bars_thinner_than_a_pixel_fade_instead_of_vanishing():
    """Ten thousand operations that fill a tenth of the time must look like a tenth, not like none or like all."""
    tiny = tuple(Operation("Add", n * 1e-5, n * 1e-5 + 1e-6, 1e-6) for n in range(10_000))
    ax = profile_plots.timeline(profile(tiny, fed=False), plots.new_axes())
    ax.get_legend().remove()
    figure = ax.figure

    figure.canvas.draw()

    left, right = (int(ax.transData.transform((x, 1))[0]) for x in (20, 80))
    row = figure.canvas.get_width_height()[1] - int(ax.transData.transform((0, 1))[1])
    pixels = np.asarray(figure.canvas.buffer_rgba())[row, left:right, 0]
    red = int(INKS[0][1:3], 16)
    assert 255.0 - pixels == pytest.approx(0.1 * (255 - red), rel=0.5)
