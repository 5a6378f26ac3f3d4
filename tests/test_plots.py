"""Pictures: every axis has a label with its unit, and the course's one rule for lines holds."""

import warnings
from types import SimpleNamespace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from helpers import compare, comparing, counting, plots, training_plots
from helpers.counting import LayerCount
from helpers.devices import Device
from helpers.timing import Measurement

CPU = Device("CPU", 0)


@pytest.fixture(autouse=True)
def fresh_figures():
    plots.use_style()
    yield
    plt.close("all")


def prediction(seconds: float) -> SimpleNamespace:
    return SimpleNamespace(seconds=seconds, low=seconds / 2, high=seconds * 2)


def product(size: int) -> Measurement:
    return Measurement("product", None, 1.0, (1e-5 + 2 * size**3 / 1e11,) * 7)


def test_the_style_leaves_the_backend_alone():
    """A library that forces Agg would hide every picture in a notebook."""
    mpl.use("svg")
    plots.use_style()

    assert mpl.get_backend() == "svg"
    mpl.use("Agg")


def test_measured_is_solid_predicted_dashed_published_dotted():
    """The reader must never take one for another; a colour stands for a kind of device."""
    origins = ("measured", "published")
    curves = {(device, origin): {1: 1.0, 2: 3.0} for device in ("CPU:0", "GPU:0") for origin in origins}

    ax = plots.time_against_size(curves, plots.new_axes(), predicted={"T4": {1: prediction(1.0), 2: prediction(2.0)}})

    found = {line.get_label(): (line.get_linestyle(), line.get_color()) for line in ax.lines}
    assert found["CPU:0, measured"][0] == "-" and found["predicted: T4"][0] == "--"
    assert found["CPU:0, published"][0] == ":"
    assert found["GPU:0, measured"][1] == found["GPU:0, published"][1] != found["CPU:0, measured"][1]
    assert ax.get_xlabel() == "matrix size n (n × n, float32)" and ax.get_ylabel() == "time per product (s)"


def test_predicted_devices_have_colours_of_their_own_and_a_band():
    """No colour of a measurement, whatever the device; the band goes from the lower to the upper limit."""
    measured = {shade for shades in plots.COLOUR.values() for shade in shades}
    several = {name: {1: prediction(1.0), 4: prediction(2.0)} for name in ("T4", "P600", "i7-8850H", "L4", "A10")}

    ax = plots.time_against_size({}, plots.new_axes(), predicted=several)

    assert not {line.get_color() for line in ax.lines} & measured
    assert len({line.get_color() for line in ax.lines}) == len(plots.PREDICTED)
    (band, *_) = ax.collections
    assert (band.get_datalim(ax.transData).y0, band.get_datalim(ax.transData).y1) == (0.5, 4.0)
    assert [line.get_label() for line in ax.lines][:2] == ["predicted: T4", "predicted: P600"]


def test_logarithmic_axes_take_a_size_of_zero_without_a_warning():
    """The published loop starts at 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = plots.time_against_size({("CPU:0", "measured"): {0: 0.1, 500: 0.2}}, plots.new_axes(), scale="log")
        ax.figure.canvas.draw()

    assert ax.get_xscale() == ax.get_yscale() == "log"


def test_the_rate_stays_under_the_lowest_of_three_ceilings():
    """Points of a machine that has these ceilings lie below them, and near them at both ends."""
    sizes = (16, 100, 1000, 5000)
    ceilings = {"flop_per_second": 1e11, "bytes_per_second": 2e10, "seconds_per_call": 1e-5}

    ax = plots.rate_against_size({n: product(n) for n in sizes}, ceilings, "CPU:0", plots.new_axes())

    lines = {line.get_label(): line for line in ax.lines}
    rates = dict(zip(*lines["CPU:0, measured"].get_data(), strict=True))
    assert rates[5000] == pytest.approx(100, rel=0.01)
    assert rates[16] == pytest.approx(2 * 16**3 / 1e-5 / 1e9, rel=0.01)
    n, limit = lines["ceiling: memory"].get_data()
    assert limit[0] == pytest.approx(2e10 * n[0] / 6 / 1e9)
    assert {"ceiling: processor", "ceiling: fixed cost of a call"} <= set(lines)
    assert "GFLOP/s" in ax.get_ylabel()


def test_the_parts_of_a_time_fill_the_whole_bar():
    """Shares sum to 100 %."""
    ax = plots.parts_of_a_time({100: {"a": 3.0, "b": 1.0}, 200: {"a": 1.0, "b": 1.0}}, plots.new_axes())

    assert [bar.get_width() for bar in ax.patches] == pytest.approx([75, 50, 25, 50])
    assert "(%)" in ax.get_xlabel()


def test_parts_that_were_measured_apart_end_where_they_end():
    """With a whole of its own, a bar may be shorter or longer than the line at 100 %."""
    parts = {32: {"Python": 3.0, "input": 5.0}, 1000: {"Python": 3.0, "input": 9.0}}

    ax = plots.parts_of_a_time(parts, plots.new_axes(), whole={32: 10.0, 1000: 10.0})

    ends = {round(bar.get_x() + bar.get_width()) for bar in ax.patches}
    assert {80, 120} <= ends
    unexplained = [bar.get_width() for bar in ax.containers[-1]]
    assert unexplained == [20, 0] and ax.containers[-1].get_label() == "unexplained"
    assert ax.get_xlim()[1] > 120
    assert [line.get_xdata()[0] for line in ax.lines] == [100]


def step(batch_size: int) -> Measurement:
    return Measurement("step", CPU, 1.0, (2e-3 + 1e-6 * batch_size,) * 7)


def test_a_step_is_drawn_with_its_line_and_its_prediction():
    """Measured dots, the fitted line through them, the fixed cost as a level, a prediction dashed."""
    measured = {CPU: {size: step(size) for size in (10, 100, 10_000)}}
    line = comparing.fit_line(list(measured[CPU]), list(measured[CPU].values()))
    predicted = {"T4": {10: prediction(4e-3), 10_000: prediction(6e-3)}}

    ax = plots.step_against_batch(measured, {CPU: line}, plots.new_axes(), predicted)

    found = {drawn.get_label(): drawn for drawn in ax.lines}
    assert list(found["CPU:0, measured"].get_ydata()) == [step(size).median for size in (10, 100, 10_000)]
    assert found["CPU:0, measured"].get_linestyle() == "None"
    assert found["fixed + per example × batch size"].get_ydata()[-1] == pytest.approx(step(10_000).median)
    assert found["fixed cost alone"].get_ydata()[0] == pytest.approx(2e-3)
    assert found["predicted: T4"].get_linestyle() == "--"
    assert list(found["predicted: T4"].get_ydata()) == [4e-3, 6e-3]
    assert ax.get_ylim() == pytest.approx((1e-3, 1e-1))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("batch size", "time per step (s)")


def test_the_ladder_names_every_way_its_time_and_its_gain():
    """Longest bar first as given; the floor is a line, and says what it is."""
    times = {way: Measurement(way, CPU, 1.0, (t,) * 7) for way, t in {"fit": 0.8, "fast": 0.02, "slow": 2.4}.items()}

    ax = plots.ladder(times, plots.new_axes(), floor=0.005, floor_is="every byte read once")

    assert [bar.get_width() for bar in ax.patches] == [0.8, 0.02, 2.4]
    assert [text.get_text() for text in ax.texts] == [
        " 800 ms",
        " 20 ms (40 times faster)",
        " 2.4 s (3.0 times slower)",
    ]
    assert ax.lines[0].get_xdata()[0] == 0.005 and ax.lines[0].get_label() == "floor: every byte read once"
    assert ax.get_xscale() == "log" and ax.get_xlim()[0] < 0.005
    assert "(s)" in ax.get_xlabel()


def test_the_shares_of_the_layers_add_up():
    """Two bars for each layer that has anything; each kind adds up to 100 %."""
    counts = [
        counting.LayerCount("conv", "Conv2D", (2, 2, 1), 10, 900),
        counting.LayerCount("flatten", "Flatten", (4,), 0, 0),
        counting.LayerCount("dense", "Dense", (1,), 30, 100),
    ]

    ax = plots.shares_by_layer(counts, plots.new_axes())

    assert [round(bar.get_width()) for bar in ax.patches] == [25, 75, 90, 10]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["conv", "dense"]
    assert ax.get_xlabel() == "share of the network (%)"


def test_single_samples_are_drawn_around_their_median():
    """Every value is one dot."""
    ax = plots.single_samples({"size 100": [1.0, 2.0, 4.0], "size 200": [5.0, 5.0, 5.0]}, plots.new_axes())

    assert [list(line.get_xdata()) for line in ax.lines[:2]] == [[0.5, 1.0, 2.0], [1.0, 1.0, 1.0]]
    assert "= 4.0" in ax.texts[0].get_text()


def test_the_drawings_show_every_layer_and_core():
    """The stack has one box for each layer, in the colour of its state; a GPU has many more cores."""
    ax = plots.software_stack([("Keras", "3.15", "ok"), ("driver", "none", "fail")], plots.new_axes())
    cpu, gpu = plots.few_and_many_cores(plots.new_axes(columns=2))

    assert [mpl.colors.to_hex(patch.get_facecolor()) for patch in ax.patches] == [
        plots.STATE["fail"],
        plots.STATE["ok"],
    ]
    assert len(gpu.patches) > 20 * len(cpu.patches)


def learnt(epochs=3, **more):
    return {"accuracy": [0.1 * n for n in range(epochs)], "val_accuracy": [0.2 * n for n in range(epochs)], **more}


def test_learning_curves_show_both_sides_in_percent():
    """Validation with dots, training thin, in the colour of its training; whole epochs on the axis."""
    ax = training_plots.learning_curves({"one": learnt(), "two": learnt()}, plots.new_axes())

    lines = {line.get_label(): line for line in ax.lines}
    assert set(lines) == {"one, training", "one, validation", "two, training", "two, validation"}
    assert list(lines["one, validation"].get_ydata()) == pytest.approx([0, 20, 40])
    assert lines["one, validation"].get_marker() == "o" and lines["one, training"].get_marker() == "None"
    assert (
        lines["one, training"].get_color() == lines["one, validation"].get_color() != lines["two, training"].get_color()
    )
    assert ax.get_ylabel() == "accuracy (%)" and list(lines["two, training"].get_xdata()) == [1, 2, 3]


@pytest.mark.parametrize("mark", ["", "stand-in"])
def test_pictures_of_a_stand_in_say_so(mark):
    """Every picture of what was learnt carries the word, and only then."""
    x = np.zeros((3, 4, 4, 1))
    found = [
        training_plots.learning_curves({"one": learnt()}, plots.new_axes(), mark=mark),
        training_plots.confusion_matrix(np.eye(2), ("a", "b"), plots.new_axes(), mark),
        training_plots.examples(x, ["a", "b", "c"], plots.new_axes(3), mark)[0],
    ]

    for ax in found:
        assert ("stand-in" in [text.get_text() for text in ax.texts]) is bool(mark)


def test_a_confusion_matrix_gives_percent_of_each_row():
    """A kind without pictures gives no warning; shares below half a percent stay empty."""
    ax = training_plots.confusion_matrix(np.array([[3, 1], [0, 0]]), ("cat", "dog"), plots.new_axes())

    assert [text.get_text() for text in ax.texts] == ["75", "25"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["cat", "dog"]


def test_operations_and_time_are_shares_of_their_own_sums():
    """A layer without operations has a bar of time; the optimizer is there."""
    counts = [LayerCount("conv", "Conv2D", (4,), 10, 300), LayerCount("pool", "MaxPooling2D", (2,), 0, 0)]
    times = {name: Measurement(name, None, 1.0, (s,)) for name, s in (("conv", 2.0), ("pool", 1.0), ("optimizer", 1.0))}

    ax = plots.operations_and_time(counts, times, plots.new_axes())

    widths = [bar.get_width() for bar in ax.patches]
    assert widths == pytest.approx([100, 0, 0, 50, 25, 25])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["conv", "pool", "optimizer"]


def test_the_parts_of_a_step_end_where_their_sum_ends():
    """In milliseconds; the whole is a line of its own."""
    parts = {"by hand": {"step": 2e-3, "input": 1e-3}, "Keras": {"step": 2e-3, "input": 5e-4}}

    ax = training_plots.parts_of_a_step(parts, {"by hand": 3.2e-3, "Keras": 4e-3}, plots.new_axes())

    assert [bar.get_x() + bar.get_width() for bar in ax.patches] == pytest.approx([2, 2, 3, 2.5])
    assert [line.get_xdata()[0] for line in ax.lines] == pytest.approx([3.2, 4.0])
    assert ax.get_xlabel() == "time of a step (ms)"


def test_the_chapters_bars_show_seconds_and_shares(tmp_path):
    """The base is 100 %; what is not compared has no bar; the published share is dotted."""
    from test_compare import GPU, record, write

    runs = [record(), record(seconds=1.0, **GPU), record("mnist_cnn"), record("mnist_cnn", epochs=4, **GPU)]
    rows = compare.chapter(write(tmp_path / "r", *runs)).rows

    left, right = training_plots.fifteen_epochs(rows, plots.new_axes(2))

    assert [bar.get_width() for bar in left.patches] == pytest.approx([row.whole.seconds for row in rows])
    assert [bar.get_width() for bar in right.patches] == pytest.approx([100, 25, 100], abs=1.5)
    assert [text.get_text() for text in right.texts] == ["not compared"]
    (published,) = right.lines
    assert published.get_linestyle() == ":" and published.get_xdata()[0] == 70


def test_predicted_trainings_are_hatched_and_follow_the_measured_ones(tmp_path):
    """Compared with the CPU of their own network; without one, they have no share."""
    from test_compare import record, write

    rows = compare.chapter(write(tmp_path / "r", record())).rows
    predicted = {"T4": {"mnist_mlp": prediction(rows[0].whole.seconds / 4), "mnist_cnn": prediction(9.0)}}

    left, right = training_plots.fifteen_epochs(rows, plots.new_axes(2), predicted)
    alone, _ = training_plots.fifteen_epochs([], plots.new_axes(2), predicted)

    assert [bar.get_hatch() for bar in left.patches] == [None, "///", "///"]
    assert [label.get_text() for label in left.get_yticklabels()][1:] == [
        "mnist_mlp\npredicted: T4",
        "mnist_cnn\npredicted: T4",
    ]
    assert [bar.get_width() for bar in right.patches] == pytest.approx([100, 25])
    assert [bar.get_width() for bar in alone.patches] == [rows[0].whole.seconds / 4, 9.0]
