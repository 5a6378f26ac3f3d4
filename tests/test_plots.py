"""Pictures: every axis has a label with its unit, and the course's one rule for lines holds."""

import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest

from helpers import comparing, counting, plots
from helpers.devices import Device
from helpers.timing import Measurement

CPU = Device("CPU", 0)


@pytest.fixture(autouse=True)
def fresh_figures():
    plots.use_style()
    yield
    plt.close("all")


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
    curves = {(device, origin): {1: 1.0, 2: 3.0} for device in ("CPU:0", "GPU:0") for origin in plots.LINE}

    ax = plots.time_against_size(curves, plots.new_axes())

    found = {line.get_label(): (line.get_linestyle(), line.get_color()) for line in ax.lines}
    assert found["CPU:0, measured"][0] == "-" and found["GPU:0, predicted"][0] == "--"
    assert found["CPU:0, published"][0] == ":"
    assert found["GPU:0, measured"][1] == found["GPU:0, published"][1] != found["CPU:0, measured"][1]
    named = plots.time_against_size({("GPU:0", "predicted", "NVIDIA T4"): {1: 1.0}}, plots.new_axes())
    assert [line.get_label() for line in named.lines] == ["NVIDIA T4, predicted"]
    assert ax.get_xlabel() == "matrix size n (n × n, float32)" and ax.get_ylabel() == "time per product (s)"


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
    predicted = {("GPU:0", "predicted", "NVIDIA T4"): {10: 2e-3, 10_000: 3e-3}}

    ax = plots.step_against_batch(measured, {CPU: line}, plots.new_axes(), predicted)

    found = {drawn.get_label(): drawn for drawn in ax.lines}
    assert list(found["CPU:0, measured"].get_ydata()) == [step(size).median for size in (10, 100, 10_000)]
    assert found["CPU:0, measured"].get_linestyle() == "None"
    assert found["fixed + per example × batch size"].get_ydata()[-1] == pytest.approx(step(10_000).median)
    assert found["fixed cost alone"].get_ydata()[0] == pytest.approx(2e-3)
    assert found["NVIDIA T4, predicted"].get_linestyle() == "--"
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
