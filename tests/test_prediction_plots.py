"""Pictures of predictions: what is predicted is dashed and says so, and never has the colour of what was measured."""

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from helpers import hardware, literature, plots, prediction_plots, scoring
from helpers.comparing import TOO_CLOSE
from helpers.costs import Curve, Formula
from helpers.errors import ParameterError
from helpers.pieces import product, stream
from helpers.predict import PARTS, Comparison, Crossover, Prediction
from helpers.timing import Measurement


@pytest.fixture(autouse=True)
def fresh_figures():
    plots.use_style()
    yield
    plt.close("all")


def prediction(seconds: float, batch: int = 1, device: str = "a GPU", spread: float = 0.3) -> Prediction:
    return Prediction("model", device, "fit", batch, dict.fromkeys(PARTS, seconds / 5), spread, ())


def by_label(artists) -> dict:
    return {artist.get_label(): artist for artist in artists}


def ticks(axis) -> list[str]:
    axis.figure.canvas.draw()
    low, high = axis.get_view_interval()
    both = zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    return [label.get_text() for place, label in both if low <= place <= high]


def legend(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def is_inside(text, ax) -> bool:
    """Return whether a text lies within its picture."""
    figure = ax.figure
    figure.canvas.draw()
    box, whole = text.get_window_extent(), figure.bbox
    return whole.x0 <= box.x0 and box.x1 <= whole.x1 and whole.y0 <= box.y0 and box.y1 <= whole.y1


def test_rates_are_flop_by_seconds_as_measured_and_as_the_formula_has_it():
    """A dashed stem leads from one to the other; operations of other kinds are left out."""
    formula = Formula(0.0, 1e-11, (0.0, 0.0, 0.0))
    rows = [(product(10, 10, 10), 1e-6), (product(100, 100, 100), 4e-5), (stream(10, 10), 1.0)]

    ax = prediction_plots.rates(rows, formula, plots.new_axes())

    lines = by_label(ax.lines)
    assert list(lines) == ["predicted by the formula", "measured"]
    assert [list(axis) for axis in lines["measured"].get_data()] == [[2e3, 2e6], pytest.approx([2, 50])]
    assert list(lines["predicted by the formula"].get_ydata()) == pytest.approx([100, 100])
    assert lines["predicted by the formula"].get_color() != lines["measured"].get_color()
    (stems,) = ax.collections
    assert [segment[:, 1] for segment in stems.get_segments()] == [pytest.approx([2, 100]), pytest.approx([50, 100])]
    assert stems.get_linestyle()[0][1] is not None  # a pattern, so not solid
    assert ax.get_xscale() == ax.get_yscale() == "log" and ax.get_ylabel() == "rate (GFLOP/s)"
    assert "1 MFLOP" in ticks(ax.xaxis)


def test_rates_of_another_kind_name_it():
    """Each kind has a formula of its own."""
    rows = [(product(10, 10, 10, "product_input"), 1e-6), (product(10, 10, 10), 1e-6)]

    ax = prediction_plots.rates(rows, Formula(0.0, 1e-11, (0.0,) * 3), plots.new_axes(), "product_input")

    assert len(by_label(ax.lines)["measured"].get_xdata()) == 1
    assert ax.get_xlabel() == "arithmetic of one operation (product input)"


def test_rates_of_a_kind_that_was_not_measured_are_refused():
    """An empty picture would look like a device that computes nothing."""
    with pytest.raises(ParameterError, match="no measured convolution to draw"):
        prediction_plots.rates(
            [(product(9, 9, 9), 1e-6)], Formula(0.0, 1e-11, (0.0,) * 4), plots.new_axes(), "convolution"
        )


def test_a_copy_moves_four_bytes_for_each_value():
    """A million values in a millisecond are 4 GB/s; what was measured is solid, and its axis begins at 0."""
    ax = prediction_plots.copy_rate(Curve((1e3, 1e6), (1e-7, 1e-3)), plots.new_axes())

    (line,) = ax.lines
    assert [list(axis) for axis in line.get_data()] == [[4e3, 4e6], pytest.approx([40, 4])]
    assert line.get_linestyle() == "-" and line.get_color() == plots.COLOUR["CPU"][0]
    assert ax.get_ylabel() == "rate, measured (GB/s)" and ax.get_ylim()[0] == 0
    assert ticks(ax.xaxis) == ["10 kB", "100 kB", "1 MB"]


def test_the_parts_fill_each_bar_and_the_whole_stands_at_its_end():
    """Shares are of the bar's own total; a share that is too small for its number stays without."""
    seconds = {"host": 1e-3, "launch": 5e-4, "transfer": 0.0, "compute": 4.2e-4, "memory": 8e-5}
    rows = [("small", Prediction("m", "d", "fit", 1, seconds, 0.2, ())), ("large", prediction(3.0))]

    ax = prediction_plots.parts(rows, plots.new_axes())

    assert [bars.get_label() for bars in ax.containers] == list(PARTS) == legend(ax)
    assert [bars[0].get_width() for bars in ax.containers] == pytest.approx([50, 25, 0, 21, 4])
    assert [bars[0].get_x() for bars in ax.containers] == pytest.approx([0, 50, 75, 75, 96])
    assert [bars[1].get_width() for bars in ax.containers] == pytest.approx([20] * 5)
    words = [text.get_text() for text in ax.texts]
    assert [word for word in words if word] == ["50", "20", "25", "20", "20", "21", "20", "20", "2.0 ms", "3.0 s"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["small", "large"]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first one on top
    assert ax.get_xlabel() == "share of the predicted time of a step (%)"
    assert all(is_inside(text, ax) for text in ax.texts)


def test_a_part_has_the_same_colour_in_every_picture():
    """Five parts, five colours, and none depends on what is drawn."""
    first = prediction_plots.parts([("a", prediction(1.0))], plots.new_axes())
    second = prediction_plots.parts([("b", prediction(2.0)), ("c", prediction(9.0))], plots.new_axes())

    inks = [[mpl.colors.to_hex(bars[0].get_facecolor()) for bars in ax.containers] for ax in (first, second)]

    assert inks[0] == inks[1] and len(set(inks[0])) == len(PARTS)


def trial(title: str, expected: float, measured: float, beginning: float = 0.0) -> scoring.Trial:
    return scoring.Trial(title, prediction(expected), beginning, Measurement("fit", None, 1.0, (measured,) * 3))


def test_agreement_draws_predicted_over_measured_with_a_look_for_each_network():
    """What begins an epoch counts as predicted, as it does in the trial's ratio."""
    trials = [trial("MLP", 1e-3, 2e-3), trial("CNN", 0.1, 0.1), trial("MLP", 1e-2, 2e-2, beginning=1e-2)]

    ax = prediction_plots.agreement(trials, plots.new_axes())

    drawn = by_label(ax.collections)
    assert drawn["MLP"].get_offsets().tolist() == [pytest.approx([2e-3, 1e-3]), pytest.approx([2e-2, 2e-2])]
    assert drawn["CNN"].get_offsets().tolist() == [pytest.approx([0.1, 0.1])]
    assert drawn["MLP"].get_facecolor().tolist() != drawn["CNN"].get_facecolor().tolist()
    assert len(drawn["MLP"].get_paths()[0].vertices) != len(drawn["CNN"].get_paths()[0].vertices)
    assert ax.get_xlabel() == "measured time of a step" and ax.get_ylabel() == "predicted time of a step"
    assert legend(ax) == ["MLP", "CNN", "within a factor of 2", "equal"]


def test_both_axes_are_equal_and_the_band_is_a_factor_of_two_wide():
    """A point's distance from the diagonal means the same everywhere."""
    ax = prediction_plots.agreement([trial("MLP", 1e-3, 2e-3), trial("MLP", 0.5, 0.4)], plots.new_axes())

    (line,) = ax.lines
    band = by_label(ax.collections)["within a factor of 2"].get_paths()[0].vertices
    assert ax.get_xlim() == ax.get_ylim() == pytest.approx((5e-4, 1.0)) and ax.get_aspect() == 1
    assert line.get_xdata().tolist() == line.get_ydata().tolist() == pytest.approx([5e-4, 1.0])
    assert {round(y / x, 9) for x, y in band} == {0.5, 2.0}
    assert ticks(ax.xaxis) == ticks(ax.yaxis) == ["1 ms", "10 ms", "100 ms", "1 s"]


def test_nothing_to_compare_is_refused():
    """An empty list would give a picture without limits."""
    with pytest.raises(ParameterError, match="no pair of times to draw.*at least one"):
        prediction_plots.agreement([], plots.new_axes())


def test_seven_networks_have_seven_looks():
    """As many as the course has."""
    ax = prediction_plots.agreement([trial(f"net {n}", 1.0, 1.0) for n in range(7)], plots.new_axes())

    drawn = [found for label, found in by_label(ax.collections).items() if label.startswith("net")]
    looks = {(tuple(found.get_facecolor()[0]), found.get_paths()[0].vertices.tobytes()) for found in drawn}
    assert len({ink for ink, _ in looks}) == len({shape for _, shape in looks}) == 7


def figure(device: str, measured: float) -> literature.Figure:
    found = hardware.find(device)
    return literature.Figure("id", "source", "", found, "", measured, "float32", 0, "torch", 1, (), (), 0, 0, False)


def test_published_figures_have_the_colours_of_their_kinds():
    """A CPU of the catalogue beside two GPUs."""
    cpu = next(found.name for found in hardware.known().values() if found.kind == "cpu")
    rows = [(figure("T4", 1.0), 1.5), (figure(cpu, 2.0), 1.0), (figure("RTX 4090", 0.1), 0.1)]

    ax = prediction_plots.published(rows, plots.new_axes())

    drawn = by_label(ax.collections)
    assert drawn["GPUs"].get_offsets().tolist() == [[1.0, 1.5], [0.1, 0.1]]
    assert drawn["CPUs"].get_offsets().tolist() == [[2.0, 1.0]]
    inks = [mpl.colors.to_hex(drawn[kind].get_facecolor()[0]).upper() for kind in ("CPUs", "GPUs")]
    assert inks == [plots.COLOUR["CPU"][0], plots.COLOUR["GPU"][0]]
    assert len(drawn["CPUs"].get_paths()[0].vertices) != len(drawn["GPUs"].get_paths()[0].vertices)
    assert ax.get_xlabel() == "published time" and ax.get_ylabel() == "predicted time"


def test_a_kind_without_figures_is_not_in_the_legend():
    """Its name would have no points."""
    ax = prediction_plots.published([(figure("T4", 1.0), 1.5)], plots.new_axes())

    assert legend(ax) == ["GPUs", "within a factor of 2", "equal"]


def curve(seconds_by_batch: dict[int, float], device: str = "a GPU") -> list[Prediction]:
    return [prediction(seconds, batch, device) for batch, seconds in seconds_by_batch.items()]


def test_seconds_per_example_are_dashed_where_predicted_and_solid_where_measured():
    """The time of a step is divided by its batch; the interval is a band; no colour is used for both."""
    curves = {"CPU:0": curve({1: 2e-3, 100: 1e-2}), "Tesla T4": curve({100: 4e-3, 1: 4e-3})}

    ax = prediction_plots.time_against_batch(curves, plots.new_axes(), measured={"CPU:0": {100: 2e-2, 1: 1e-3}})

    lines = by_label(ax.lines)
    assert legend(ax) == list(lines) == ["predicted: CPU:0", "predicted: Tesla T4", "measured: CPU:0"]
    assert [line.get_linestyle() for line in lines.values()] == ["--", "--", "-"]
    assert list(lines["predicted: CPU:0"].get_ydata()) == pytest.approx([2e-3, 1e-4])
    assert [list(axis) for axis in lines["predicted: Tesla T4"].get_data()] == [[1, 100], pytest.approx([4e-3, 4e-5])]
    assert [list(axis) for axis in lines["measured: CPU:0"].get_data()] == [[1, 100], pytest.approx([1e-3, 2e-4])]
    assert len({line.get_color() for line in lines.values()}) == 3
    assert lines["measured: CPU:0"].get_color() == plots.colour("CPU:0")
    band = ax.collections[0].get_paths()[0].vertices
    expected = curves["CPU:0"][1]
    assert sorted({y for x, y in band if x == 100}) == pytest.approx([expected.low / 100, expected.high / 100])
    assert ax.get_xscale() == ax.get_yscale() == "log"
    assert ax.get_xlabel() == "batch size" and ax.get_ylabel() == "time per example"
    assert ticks(ax.xaxis) == ["1", "2", "5", "10", "20", "50", "100"] and "1 ms" in ticks(ax.yaxis)


def test_measured_labels_that_name_no_device_get_colours_that_no_prediction_has():
    """The name of a machine says nothing about its kind."""
    measured = {name: {1: 1e-3, 10: 2e-3} for name in ("my machine", "yours", "GPU:0")}

    ax = prediction_plots.time_against_batch({}, plots.new_axes(), measured=measured)

    inks = [line.get_color() for line in ax.lines]
    assert inks[0] != inks[1] and inks[2] == plots.colour("GPU:0") and not set(inks) & set(plots.PREDICTED)


WIDE = {1: 1e-3, 1000: 2e-3}


def crossing(batch, low, high):
    return prediction_plots.time_against_batch(
        {"a": curve(WIDE)}, plots.new_axes(), Crossover("a", "b", batch, low, high, 2**16)
    )


def test_a_crossover_is_a_dotted_line_within_what_is_too_close_to_call():
    """The line says from which batch on who is faster."""
    ax = crossing(90.4, 12.0, 700.0)

    line = by_label(ax.lines)["predicted: b is faster from batch 90 on"]
    (span,) = ax.patches
    assert list(line.get_xdata()) == [90.4, 90.4] and line.get_linestyle() == ":"
    assert (span.get_x(), span.get_x() + span.get_width()) == (12, 700)
    assert f"predicted: {TOO_CLOSE}" in legend(ax) and TOO_CLOSE == "too close to call"


@pytest.mark.parametrize(
    ("found", "has_line", "span"),
    [
        ((None, None, None), False, None),  # a is surely faster
        ((1, 1, 1), False, None),  # b is surely faster
        ((None, 20.0, None), False, (20.0, "edge")),
        ((1, 1, 6.0), False, (1.0, 6.0)),
        ((90.0, 1, None), True, (1.0, "edge")),
        ((30_000.0, 20_000.0, 60_000.0), True, (20_000.0, "edge")),
        ((None, 20_000.0, None), False, (20_000.0, "edge")),
    ],
)
def test_what_a_crossover_leaves_open_is_open_in_the_picture(found, has_line, span):
    """No line where nobody overtakes, no span where all is sure, and to the edge where it never becomes sure."""
    ax = crossing(*found)

    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    edge = ax.get_xlim()[1]
    expected = [pytest.approx([edge if end == "edge" else end for end in span])] if span else []
    assert any(line.get_linestyle() == ":" for line in ax.lines) is has_line
    assert spans == expected
    assert ax.get_xlim()[0] < 1 and edge > 1000


def pair(batch: int, ratio: float, spread: float = 0.3) -> Comparison:
    return Comparison(prediction(ratio, batch, "a CPU", spread), prediction(1.0, batch, "a GPU", spread))


def test_an_advantage_is_too_close_to_call_where_its_interval_holds_one():
    """From where the upper edge of the band crosses 1 to where the lower edge does, between the batches."""
    pairs = [pair(batch, batch / 32) for batch in (1, 4, 16, 64, 256, 1024)]

    ax = prediction_plots.advantage(pairs[::-1], plots.new_axes())

    area, band = ax.collections
    lines = by_label(ax.lines)
    assert area.get_label() == TOO_CLOSE
    ends = area.get_paths()[0].vertices[:, 0]
    width = pairs[0].interval[1] / pairs[0].ratio
    assert (ends.min(), ends.max()) == pytest.approx((32 / width, 32 * width), rel=0.03)
    assert len(area.get_paths()) == 1
    assert list(lines["predicted"].get_xdata()) == [1, 4, 16, 64, 256, 1024]
    assert list(lines["predicted"].get_ydata()) == pytest.approx([found.ratio for found in pairs])
    assert lines["predicted"].get_linestyle() == "--" and lines["predicted"].get_color() in plots.PREDICTED
    assert sorted({y for x, y in band.get_paths()[0].vertices if x == 4}) == pytest.approx(pairs[1].interval)
    assert list(lines["equally fast"].get_ydata()) == [1, 1]
    assert ax.get_ylabel() == "how many times faster\na GPU is than a CPU" and ax.get_xlabel() == "batch size"
    assert ax.get_xscale() == ax.get_yscale() == "log" and "1" in ticks(ax.yaxis)


def test_a_sure_advantage_has_no_area_and_an_unsure_one_all():
    """The area says nothing where there is nothing to say."""
    sure = prediction_plots.advantage([pair(1, 50), pair(100, 80)], plots.new_axes())
    unsure = prediction_plots.advantage([pair(1, 1.1), pair(100, 0.9)], plots.new_axes())

    assert sure.collections[0].get_paths() == []
    ends = unsure.collections[0].get_paths()[0].vertices[:, 0]
    assert (ends.min(), ends.max()) == pytest.approx((1, 100))


def test_no_comparison_is_refused():
    """There is no pair of devices to name."""
    with pytest.raises(ParameterError, match="no comparison to draw"):
        prediction_plots.advantage([], plots.new_axes())


def test_pictures_are_drawn_on_the_axes_given_and_returned():
    """A notebook may put two of them side by side; nothing is drawn on what matplotlib holds as the current axes."""
    left, right = plots.new_axes(2)
    calls = [
        lambda ax: prediction_plots.rates([(product(9, 9, 9), 1e-6)], Formula(0.0, 1e-11, (0.0,) * 3), ax),
        lambda ax: prediction_plots.copy_rate(Curve((1.0, 10.0), (1e-7, 1e-6)), ax),
        lambda ax: prediction_plots.parts([("a", prediction(1.0))], ax),
        lambda ax: prediction_plots.agreement([trial("MLP", 1.0, 1.0)], ax),
        lambda ax: prediction_plots.published([(figure("T4", 1.0), 1.5)], ax),
        lambda ax: prediction_plots.time_against_batch({"a": curve(WIDE)}, ax),
        lambda ax: prediction_plots.advantage([pair(1, 2.0), pair(10, 3.0)], ax),
    ]

    for draw in calls:
        left.clear()
        plt.sca(right)
        assert draw(left) is left

    assert not right.has_data() and left.has_data()
