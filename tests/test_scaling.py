"""Several devices: two laws, what was measured, what is predicted, its pictures, and answers about it."""

import math
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.text import Text

from helpers import calibrate, models, plots, predict, scaling, scaling_checkers, scaling_plots
from helpers.comparing import TOO_CLOSE
from helpers.errors import NotEnoughMemoryError, ParameterError
from helpers.hardware import find
from helpers.scaling import LINKS, Link, Scaling
from helpers.timing import Measurement

SHARES = st.floats(0, 1)
COUNTS = st.integers(2, 10_000)
LINK = Link("made up", 1e9, 1e-3, "a test")
INSTANT = Link("instant", math.inf, 0.0, "a test")


@pytest.fixture
def ax():
    plots.use_style()
    yield plots.new_axes()
    plt.close("all")


@pytest.fixture(scope="module")
def cnn(tf):
    return models.mnist_cnn()


@pytest.fixture(scope="module")
def reference(tf):
    return predict.machine(calibrate.reference())


def measured(seconds: float, spread: float = 0.0) -> Measurement:
    return Measurement("step", None, 1.0, tuple(seconds * (1 + spread * place / 6) for place in range(7)))


def scaled(speedup: float, devices: int = 2) -> Scaling:
    return Scaling(devices, measured(1.0), measured(1 / speedup))


@pytest.mark.parametrize(
    ("law", "serial", "devices", "speedup"),
    [
        (scaling.amdahl, 0.25, 4, 16 / 7),  # a quarter stays, three quarters become three sixteenths
        (scaling.amdahl, 0.1, math.inf, 10),
        (scaling.amdahl, 0, math.inf, math.inf),
        (scaling.amdahl, 0, 8, 8),
        (scaling.amdahl, 1, 8, 1),
        (scaling.amdahl, 0.3, 1, 1),
        (scaling.gustafson, 0.25, 4, 3.25),
        (scaling.gustafson, 0, 8, 8),
        (scaling.gustafson, 1, 8, 1),
        (scaling.gustafson, 0.3, 1, 1),
    ],
)
def test_the_laws_give_what_can_be_worked_out_by_hand(law, serial, devices, speedup):
    """One device gains nothing, and where nothing is serial every device counts."""
    assert law(serial, devices) == pytest.approx(speedup)


@pytest.mark.parametrize("law", [scaling.amdahl, scaling.gustafson])
@pytest.mark.parametrize("serial", [0, 0.25])
def test_the_laws_take_many_numbers_of_devices(law, serial):
    """As a curve needs them, in an array or a list."""
    assert law(serial, np.array([1, 4])).tolist() == pytest.approx([1, law(serial, 4)])
    assert law(serial, [1, 4]).tolist() == pytest.approx([1, law(serial, 4)])


@given(SHARES, COUNTS)
def test_the_share_of_a_law_is_found_again(serial, devices):
    """What the speed-up of a law implies is what it was made from."""
    share = scaling.serial_share(scaling.amdahl(serial, devices), devices)
    scaled_share = scaling.scaled_serial_share(scaling.gustafson(serial, devices), devices)

    assert share == pytest.approx(serial, abs=1e-9) and scaled_share == pytest.approx(serial, abs=1e-9)


def test_the_implied_share_is_below_0_or_above_1_outside_of_the_law():
    """Four devices: five times faster, no faster, and half as fast."""
    assert scaling.serial_share(5, 4) == pytest.approx(-1 / 15)
    assert scaling.serial_share(1, 4) == pytest.approx(1)
    assert scaling.serial_share(0.5, 4) == pytest.approx(7 / 3)
    assert scaling.scaled_serial_share(1.6, 2) == pytest.approx(0.4)  # of 1 / 1.6, the serial quarter of 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scaling.amdahl(1.1, 2), "serial = 1.1 is no share. Accepted is a number from 0 to 1"),
        (lambda: scaling.gustafson(-0.1, 2), "serial = -0.1 is no share"),
        (lambda: scaling.amdahl("a", 2), "serial = 'a' is no share"),
        (lambda: scaling.amdahl(math.nan, 2), "serial = nan is no share"),
        (lambda: scaling.amdahl(0.1, 0), "devices = 0 is not possible. Accepted are numbers from 1 on"),
        (lambda: scaling.amdahl(0.1, np.array([1.0, math.nan])), "is not possible. Accepted are numbers from 1 on"),
        (lambda: scaling.gustafson(0.1, math.inf), "devices = inf is not possible"),
        (lambda: scaling.gustafson(0.1, "2"), "devices = '2' is not possible"),
        (lambda: scaling.serial_share(0, 2), "speedup = 0 is not possible. Accepted is a number above 0"),
        (lambda: scaling.serial_share(math.inf, 2), "speedup = inf is not possible"),
        (lambda: scaling.serial_share(1.5, 1), "devices = 1 is not possible. .* a single device shares nothing"),
        (lambda: scaled(1.5, devices=1), "devices = 1 is not possible. Accepted is a whole number from 2"),
        (lambda: scaling.all_reduce_bytes(1, 0), "devices = 0 is not possible. Accepted is a whole number from 1"),
        (lambda: scaling.all_reduce_seconds(1, 1.5, LINK), "devices = 1.5 is not possible"),
        (lambda: scaling.fitted_link("a", [1, 2, 3], [measured(1)] * 3, 1), "Accepted is a whole number from 2"),
        (lambda: scaling.fitted_link("a", [1, 2], [measured(1)] * 2, 2), "At least 3 different item counts"),
        (lambda: scaling.predicted(None, 30, 4, "T4", LINK), "batch of 30 cannot be divided among 4 .* multiples of 4"),
        (lambda: scaling.predicted(None, 0, 4, "T4", LINK), "batch of 0 cannot be divided"),
        (lambda: scaling.predicted(None, "8", 4, "T4", LINK), "batch of '8' cannot be divided"),
    ],
)
def test_what_is_out_of_range_is_refused_with_what_is_accepted(call, words):
    """Before anything is computed."""
    with pytest.raises(ParameterError, match=words):
        call()


def test_what_was_measured_is_told_as_speed_up_efficiency_and_share():
    """Two devices, 1.6 times faster: a quarter of one device's time was not divided."""
    found = scaled(1.6)

    assert found.speedup == pytest.approx(1.6) and found.efficiency == pytest.approx(0.8)
    assert found.serial == pytest.approx(0.25) and found.scaled_serial == pytest.approx(0.4)
    assert found.verdict == "1.6 times faster" and found.interval == pytest.approx((1.6, 1.6))
    assert scaling.amdahl(found.serial, 2) == pytest.approx(scaling.gustafson(found.scaled_serial, 2))


@pytest.mark.parametrize(("speedup", "serial"), [(2.4, 0), (0.5, 1)])
def test_the_share_of_a_measurement_stays_a_share(speedup, serial):
    """Faster than ideal, and slower than one: the curves of the laws begin from what is nearest."""
    assert scaled(speedup).serial == scaled(speedup).scaled_serial == serial


def test_a_spread_that_leaves_both_possible_is_too_close_to_call():
    """The verdict is that of the course."""
    found = Scaling(2, measured(1.0, 0.5), measured(0.95, 0.5))

    low, high = found.interval
    assert low < 1 < high and found.verdict == TOO_CLOSE


def test_gradients_have_four_bytes_for_each_parameter_that_learns(tf):
    """10 × 4 weights and 4 biases; a frozen layer sends nothing."""
    import keras

    model = keras.Sequential([keras.Input((10,)), keras.layers.Dense(4), keras.layers.Dense(3)])
    model.layers[1].trainable = False

    assert scaling.gradient_bytes(model) == 4 * 44


def test_a_ring_sends_all_pieces_but_one_twice():
    """Eight devices, 100 MB: 7 of 8 pieces, there and back. A single device sends nothing."""
    assert scaling.all_reduce_bytes(100e6, 8) == 175e6
    assert scaling.all_reduce_bytes(100e6, 2) == 100e6
    assert scaling.all_reduce_bytes(100e6, 1) == 0


def test_an_all_reduce_takes_its_steps_and_its_bytes():
    """14 steps of 1 ms, and 175 MB at 1 GB/s."""
    assert scaling.all_reduce_seconds(100e6, 8, LINK) == pytest.approx(0.014 + 0.175)
    assert scaling.all_reduce_seconds(100e6, 1, LINK) == 0
    assert scaling.all_reduce_seconds(100e6, 8, INSTANT) == 0


def test_the_known_links_have_a_source_and_four_fifths_of_their_nominal_rate():
    """In bytes, one direction."""
    nominal = {name: round(link.bytes_per_s / 0.8 / 1e9, 3) for name, link in LINKS.items()}

    assert nominal == {
        "1 Gbit/s Ethernet": 0.125,
        "10 Gbit/s Ethernet": 1.25,
        "100 Gbit/s Ethernet": 12.5,
        "PCIe 3.0 x16": round(find("T4").link_bytes_per_s / 1e9, 3),
        "PCIe 4.0 x16": 31.5,
        "NVLink of the A100": 300,
        "NVLink of the H100": 450,
    }
    assert all(link.name == name and link.source and 1e-6 < link.latency_s < 1e-4 for name, link in LINKS.items())


@given(st.floats(1e-6, 1e-3), st.floats(1e6, 1e11), st.integers(2, 64))
def test_a_fitted_link_gives_its_line_back(latency, rate, devices):
    """Whatever the latency and the rate, all-reduces on the fitted link take as long as those that were measured."""
    made = Link("made", rate, latency, "a test")
    middle = 2 * (devices - 1) * latency * rate  # bytes that take about as long as the steps
    sizes = [middle / 4, middle, 4 * middle]
    times = [scaling.all_reduce_seconds(size, devices, made) for size in sizes]

    found = scaling.fitted_link("here", sizes, [measured(seconds) for seconds in times], devices)

    assert found.latency_s == pytest.approx(latency) and found.bytes_per_s == pytest.approx(rate)
    assert [scaling.all_reduce_seconds(size, devices, found) for size in sizes] == pytest.approx(times)
    assert found.name == "here" and "3 all-reduces measured here" in found.source


def test_a_link_whose_bytes_cost_nothing_can_be_fitted():
    """Small all-reduces take equally long."""
    found = scaling.fitted_link("here", [1, 2, 3], [measured(2e-3)] * 3, 2)

    assert found.bytes_per_s > 1e9 and scaling.all_reduce_seconds(3, 2, found) == pytest.approx(2e-3)


@pytest.mark.parametrize("device", ["T4", "reference"])
def test_a_prediction_is_a_share_of_the_batch_and_then_an_all_reduce(cnn, reference, device):
    """One after the other; one device has the whole batch and sends nothing."""
    device = reference if device == "reference" else device

    found = scaling.predicted(cnn, 256, 4, device, LINK, "resident")

    share, whole = (predict.step_time(cnn, batch, device, "resident").seconds for batch in (64, 256))
    sending = 6 * 1e-3 + 1.5 * 4 * cnn.count_params() / 1e9
    assert found.communication == pytest.approx(sending)
    assert found.seconds == pytest.approx(share + sending)
    assert found.speedup == pytest.approx(whole / (share + sending))
    assert found.efficiency == pytest.approx(found.speedup / 4)
    assert (found.compute.batch, found.one.batch, found.devices, found.link) == (64, 256, 4, LINK)


def test_one_device_alone_gains_and_loses_nothing(cnn, reference):
    """It has nobody to send to."""
    found = scaling.predicted(cnn, 32, 1, reference, LINK)

    assert found.communication == 0 and found.speedup == found.efficiency == 1


def test_the_word_names_what_takes_longer(cnn):
    """A slow link, and one that is instant."""
    slow = replace(LINK, bytes_per_s=1e6)

    assert scaling.predicted(cnn, 256, 2, "T4", slow).word == "communication"
    assert scaling.predicted(cnn, 256, 2, "T4", INSTANT).word == "computing"


def test_a_batch_that_one_device_cannot_hold_has_no_speed_up(cnn):
    """There is nothing to compare with, although the shares of all would fit."""
    small = replace(find("T4"), memory_bytes=10**8)
    share = predict.largest_batch(cnn, small) // 2

    predict.step_time(cnn, share, small)
    with pytest.raises(NotEnoughMemoryError, match="The largest batch that fits"):
        scaling.predicted(cnn, 4 * share, 4, small, LINK)


def test_from_the_batch_found_on_the_efficiency_stays(cnn):
    """The batch below misses it; batches are powers of two times the devices."""
    link = LINKS["10 Gbit/s Ethernet"]

    found = scaling.batch_from(cnn, 3, "T4", link, 0.7)

    efficiencies = {power: scaling.predicted(cnn, 3 * 2**power, 3, "T4", link).efficiency for power in range(15)}
    power = int(math.log2(found / 3))
    assert found == 3 * 2**power and power > 0
    assert efficiencies[power - 1] < 0.7 <= min(efficiencies[later] for later in range(power, 15))


def test_a_goal_that_no_batch_reaches_or_that_all_reach(cnn):
    """None, and the smallest: an example for each device."""
    slow = replace(LINK, bytes_per_s=1e3)

    assert scaling.batch_from(cnn, 2, "T4", slow) is None
    assert scaling.batch_from(cnn, 2, "T4", INSTANT, 0.1) == 2
    assert scaling.batch_from(cnn, 2, replace(find("T4"), memory_bytes=10**5), LINK) is None  # holds no example


def lines(ax) -> dict:
    return {line.get_label(): line for line in ax.lines}


def words(ax) -> list[str]:
    return [text.get_text() for text in ax.texts if text.get_text()]


@pytest.mark.parametrize("law", [scaling.amdahl, scaling.gustafson])
def test_a_law_goes_on_from_what_was_measured(ax, law):
    """Solid up to 4 devices, dashed through the same point up to 64, beside a grey ideal line."""
    scaling_plots.laws({"CNN": scaled(3.2, 4), "MLP": scaled(1.2, 4)}, ax, law)

    found = lines(ax)
    solid, dashed, ideal = found["measured: CNN"], found["predicted: CNN"], ax.lines[0]
    assert [list(axis) for axis in solid.get_data()] == [[1, 4], pytest.approx([1, 3.2])]
    assert solid.get_linestyle() == "-" and solid.get_marker() == "o" and dashed.get_linestyle() == "--"
    assert solid.get_color() == dashed.get_color() != found["measured: MLP"].get_color()
    assert dashed.get_xdata()[[0, -1]].tolist() == [1, 64]
    assert np.interp(4, *dashed.get_data()) == pytest.approx(3.2, rel=1e-3)
    assert ideal.get_xdata().tolist() == ideal.get_ydata().tolist() and ideal.get_color() == scaling_plots.GREY
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "measured",
        f"predicted ({law.__name__.capitalize()})",
        "ideal",
    ]
    assert words(ax) == ["CNN", "MLP"] and ax.get_ylabel() == "speed-up" and ax.get_xlabel() == "number of devices"
    ax.figure.canvas.draw()
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "2", "4", "8", "16", "32", "64"]


def test_a_network_that_gets_slower_stays_in_the_picture(ax):
    """Its point lies below 1, and its curve at 1."""
    scaling_plots.laws({"two clouds": scaled(0.25)}, ax, scaling.amdahl)

    assert ax.get_ylim()[0] < 0.25 and set(lines(ax)["predicted: two clouds"].get_ydata()) == {1.0}


def heights(ax) -> list[tuple[float, float]]:
    ax.figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in ax.texts if text.get_text()]  # without the line to the curve
    return sorted((box.y0, box.y1) for box in boxes)


@pytest.mark.parametrize("columns", [1, 2])
def test_labels_of_curves_that_end_together_do_not_overlap(ax, columns):
    """In a picture of full width and in one of half."""
    axes = np.atleast_1d(plots.new_axes(columns))
    same = {f"network {place}": scaled(1.9 + place / 1e4) for place in range(6)}

    found = heights(scaling_plots.laws(same, axes[0], scaling.gustafson))

    assert all(below[1] < above[0] for below, above in zip(found, found[1:], strict=False))
    assert found[-1][1] < axes[0].figure.bbox.y1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_labels_keep_their_order_and_get_their_distance(places):
    """Those that have room stay where they are."""
    found = scaling_plots._spread(places, 0.1)

    ordered = [found[place] for place in np.argsort(places, kind="stable")]
    assert all(above - below > 0.1 - 1e-9 for below, above in zip(ordered, ordered[1:], strict=False))
    assert min(found) >= 0 and max(found) <= 1 + 1e-9
    assert scaling_plots._spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])


STEPS = {
    "CNN, worker 0": {"computing": 0.03, "all-reduce": 0.01, "update": 0.01},
    "CNN, worker 1": {"computing": 0.02, "waiting for the slowest": 0.01, "all-reduce": 0.018, "update": 0.002},
}


def test_the_parts_of_a_step_follow_each_other(ax):
    """In milliseconds, with the share of the row where there is room for it."""
    scaling_plots.step_parts(STEPS, ax)

    bars = {container.get_label(): list(container) for container in ax.containers}
    assert list(bars) == ["computing", "waiting for the slowest", "all-reduce", "update"]
    assert [bar.get_width() for bar in bars["all-reduce"]] == pytest.approx([20, 36])
    assert [bar.get_x() for bar in bars["all-reduce"]] == pytest.approx([60, 60])
    assert [bar.get_width() for bar in bars["waiting for the slowest"]] == pytest.approx([0, 20])
    assert words(ax) == ["60%", "40%", "20%", "20%", "36%", "20%", " 50 ms", " 50 ms"]  # 4 % are too narrow
    assert ax.get_xlabel() == "share of a step (%), and the time of the step"
    assert [label.get_text() for label in ax.get_yticklabels()] == list(STEPS)
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first row is on top
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list(bars)


def test_efficiency_is_drawn_in_percent_and_dashed_since_it_is_predicted(ax):
    """With the goal as a thin line, and each link named where its curve ends."""
    curves = {"slow": {2: 0.1, 1024: 0.5, 32: 0.2}, "fast": {2: 0.2, 64: 0.9}}

    scaling_plots.efficiency_against_batch(curves, ax, devices=4, goal=0.75)

    found = lines(ax)
    slow = found["predicted: slow"]
    assert [list(axis) for axis in slow.get_data()] == [[2, 32, 1024], pytest.approx([10, 20, 50])]
    assert slow.get_linestyle() == found["predicted: fast"].get_linestyle() == "--"
    assert slow.get_color() != found["predicted: fast"].get_color()
    assert list(found["goal: 75%"].get_ydata()) == [75, 75] and found["goal: 75%"].get_linewidth() < 1
    assert [text.xy for text in ax.texts] == [pytest.approx((1024, 50)), pytest.approx((64, 90))]
    assert words(ax) == ["slow", "fast"]
    assert ax.get_ylabel() == "predicted efficiency (%)" and ax.get_ylim()[0] == 0
    assert list(found["no gain"].get_ydata()) == [25, 25]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["goal: 75%", "no gain"]


@pytest.mark.parametrize(
    ("draw", "words"),
    [
        (lambda ax: scaling_plots.laws({}, ax, scaling.amdahl), "no measured network to draw"),
        (lambda ax: scaling_plots.step_parts({}, ax), "no row to draw"),
        (lambda ax: scaling_plots.efficiency_against_batch({}, ax, 2), "no curve to draw"),
        (lambda ax: scaling_plots.step_parts({"row": {"idling": 1.0}}, ax), "no part 'idling' here. Accepted are comp"),
    ],
)
def test_what_cannot_be_drawn_is_refused(ax, draw, words):
    """An empty picture would say that there is nothing to gain."""
    with pytest.raises(ParameterError, match=words):
        draw(ax)


@pytest.mark.parametrize("name", scaling_checkers.CHECKS)
@pytest.mark.parametrize(
    "answer",
    ["", math.nan, -math.inf, np.array([1, 2]), np.array(3.0), {}, {"one": None, "two": math.nan}, object(), 1j],
    ids=range(9),
)
def test_nonsense_gets_a_hint(name, answer):
    """Nothing raises; right and nearly right answers are in `test_exercises`."""
    assert isinstance(scaling_checkers.CHECKS[name](answer), str)
