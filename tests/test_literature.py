"""Published measurements: complete, rebuilt as they were, and predicted without having been seen."""

import math
import re
from collections import Counter

import pytest

from helpers import datasheet, hardware, literature, pieces, work

REPORTS = literature.tomllib.loads(literature.FILE.read_text(encoding="utf-8"))["report"]
ROWS = [(report, figure) for report in REPORTS for figure in report["figures"]]
# Devices and hosts whose makers or models their reports do not name.
NOT_NAMED = {"unnamed_gpu", "one_vcpu", "unknown"}
EVEN = dict.fromkeys(datasheet.constants(), 0.5) | {"cpu_fresh_bytes_per_s": 8e9, "gpu_product": 0.25}

each_report = pytest.mark.parametrize("report", REPORTS, ids=lambda report: report["id"])


@pytest.fixture(scope="module")
def blind():
    """Every figure with its prediction by constants that were fitted without its source; building takes a while."""
    return literature.blind()


@each_report
def test_a_report_says_where_it_comes_from_and_what_was_run(report):
    """A page, a repository at a commit, or why there is neither; and all that is needed to rebuild the work."""
    needed = {
        "fit": ["input", "layers", "optimizer"],
        "fit_filters": ["input", "optimizer"],
        "vgg16": ["mode", "batch"],
    }
    needed |= {"matmul": ["mkn"], "linear": ["mkn"], "reduce": ["elements"]}

    assert re.search(
        r"https?://\S+\.\S+/|\w/\S+@[0-9a-f]{7,40}:\w|\w+/\w+ \(see http|this course|not known", report["source"]
    )
    assert report["software"] and report["publisher"]
    assert all(report[name] for name in needed[report["kind"]])
    assert report["era"] in literature.SOFTWARE and report["simd"] in (0, 8, 16, 32, 64)
    if report["kind"].startswith("fit"):
        assert report["samples"] > 0 and report["val_samples"] >= 0 and report["epochs"] >= 1
        assert report["optimizer"] in literature._OPTIMIZER


def test_no_two_reports_have_one_name():
    """`again` looks a report up by it."""
    assert max(Counter(report["id"] for report in REPORTS).values()) == 1


@pytest.mark.parametrize(("report", "figure"), ROWS, ids=lambda row: row.get("id", row.get("device", "")))
def test_a_figure_names_a_known_device_and_a_time(report, figure):
    """In seconds: for one epoch, for all, or for one call; a GPU stands beside a CPU, or nothing does."""
    device, host = figure["device"], figure.get("host", "")

    assert device in hardware.known() or device in NOT_NAMED
    assert host in {*hardware.known(), *NOT_NAMED, ""}
    assert not host or device in NOT_NAMED or hardware.known()[device].kind == "gpu"
    assert host not in hardware.known() or hardware.known()[host].kind == "cpu"
    assert 1e-4 < figure["seconds"] < 1e4
    assert figure["per"] in (("epoch", "total") if report["kind"].startswith("fit") else ("op",))
    assert {**report, **figure}.get("batch", 1) > 0
    assert set(figure) <= {"device", "host", "seconds", "per", "batch", "filters", "dtype", "build", "simd"}


def test_what_is_not_in_the_catalogue_was_not_named():
    """Its report says so."""
    left_out = [report for report, figure in ROWS if figure["device"] not in hardware.known()]

    assert {figure["device"] for _, figure in ROWS} - set(hardware.known()) == {"unnamed_gpu"}
    assert all("unnamed GPU" in report["note"] or "GPU is not named" in report["note"] for report in left_out)


def test_all_figures_and_pairs_are_predicted(blind):
    """Nothing that was found is left out when it counts."""
    found = literature.pairs(blind)

    assert len(blind) == len(literature.figures()) == 85
    assert len(found) == 21
    assert [figure.report for figure, _ in blind] == [
        report["id"] for report, figure in ROWS if figure["device"] in hardware.known()
    ]
    assert set(literature.sources()) == {report["publisher"] for report in REPORTS}
    assert all(seconds > 0 and math.isfinite(seconds) for _, seconds in blind)


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_published_times_are_predicted_within_a_factor_of_two(blind, kind):
    """At least 85 of 100, by constants that were fitted to other sources."""
    ratios = [seconds / figure.measured for figure, seconds in blind if figure.device.kind == kind]

    assert len(ratios) >= 30
    assert literature.within_two(ratios) >= 0.85


def test_how_many_times_faster_a_gpu_was_is_predicted_within_a_factor_of_two(blind):
    """At least 85 of 100, and who won in at least as many."""
    found = literature.pairs(blind)

    assert literature.within_two(expected / measured for *_, measured, expected in found) >= 0.85
    assert sum((expected > 1) == (measured > 1) for *_, measured, expected in found) >= 0.85 * len(found)


def test_a_pair_is_a_gpu_and_the_cpu_beside_it(blind):
    """In one report and with one batch; the ratio is how many times faster the GPU was."""
    seconds = {id(figure): value for figure, value in blind}

    for gpu, cpu, measured, expected in literature.pairs(blind):
        assert (gpu.device.kind, cpu.device.kind, cpu.device.key) == ("gpu", "cpu", gpu.host)
        assert (gpu.report, gpu.batch) == (cpu.report, cpu.batch)
        assert measured == cpu.measured / gpu.measured
        assert expected == seconds[id(cpu)] / seconds[id(gpu)]


def test_the_stored_spread_is_that_of_the_blind_predictions(blind):
    """As of a normal distribution, four of five lie within 1.28 of it; `predict` takes its intervals from it."""
    logs = {"ratio": [math.log(expected / measured) for *_, measured, expected in literature.pairs(blind)]}
    for figure, seconds in blind:
        logs.setdefault(figure.device.kind, []).append(math.log(seconds / figure.measured))

    for kind, values in logs.items():
        inside = sum(abs(value) <= 1.29 * datasheet.spread(kind) for value in values)
        outside = sum(abs(value) > 1.27 * datasheet.spread(kind) for value in values)
        assert inside >= 0.8 * len(values) and outside >= 0.2 * len(values) - 1


def figure_of(blind, report: str, device: str, **others):
    """Return the one figure of a report on a device."""
    (found,) = (
        figure
        for figure, _ in blind
        if (figure.report, figure.device.key) == (report, device)
        and all(getattr(figure, name) == value for name, value in others.items())
    )
    return found


def test_a_product_on_a_cpu_by_hand(blind):
    """8000 × 8000 on an i5-4210U, by a build that uses 16 of its 32 flop per cycle."""
    device = hardware.known()["i5_4210u"]
    n, rate = 8000, 0.5 * device.peak_flops["float32"] * 16 / device.flop_per_cycle
    moved = 3 * 4 * n**2 / (0.5 * device.memory_bandwidth) + 4 * n**2 / 8e9  # the result needs fresh memory

    found = figure_of(blind, "aim_matmul_8000", "i5_4210u")

    assert found.train == (pieces.product(n, n, n),) and (found.steps, found.looks, found.begins) == (0, 0, False)
    constants = {**EVEN, "start_cpu_session": 0.1}
    assert found.predicted(constants) == pytest.approx(0.1 + datasheet.SHARED + 2 * n**3 / rate + moved)


def test_a_product_on_a_gpu_by_hand(blind):
    """The start is hidden behind the product; a quarter of the peak is reached."""
    device, n = hardware.known()["gtx_1060_6gb"], 8000

    found = figure_of(blind, "aim_matmul_8000", "gtx_1060_6gb")

    computed = 2 * n**3 / (0.25 * device.peak_flops["float32"])
    moved = 3 * 4 * n**2 / (0.5 * device.memory_bandwidth)
    assert found.predicted({**EVEN, "start_gpu_session": 1e-5}) == pytest.approx(computed + moved)
    assert found.predicted({**EVEN, "start_gpu_session": 9.0}) == pytest.approx(9)


def test_the_training_of_the_question_is_rebuilt(blind):
    """15 epochs of ten batches, with the start of the session; Keras 1 prepares each example in Python."""
    found = figure_of(blind, "logreg_1m_p600", "i7_8850h")

    model = literature.work.of(literature._network(REPORTS[0]), 100_000)
    assert (found.steps, found.looks, found.begins, found.batch) == (150, 0, True, 100_000)
    assert found.train == tuple(model.pieces) and model.trainable == 3
    zero, whole = EVEN | {"begin_cpu": 0, "step_keras_1": 0, "row_keras_1": 0}, EVEN
    assert found.predicted(whole) - found.predicted(zero) == pytest.approx(0.5 + 150 * (0.5 + 100_000 * 0.5))


def test_validation_counts_the_way_forward_and_half_of_pythons_time(blind):
    """60,000 examples by 128, and 10,000 by 32; Keras 1 for both."""
    found = figure_of(blind, "woolf_mnist_cnn", "p100_pcie")

    assert (found.steps, found.looks) == (469, 313)
    assert {piece.kind for piece in found.look} <= {piece.kind for piece in found.train}
    assert not {"update", "convolution_weights", "product_weights"} & {piece.kind for piece in found.look}
    none, some = EVEN | {"step_keras_1": 0}, EVEN | {"step_keras_1": 1.0}
    assert found.predicted(some) - found.predicted(none) == pytest.approx(469 + 313 / 2)


def test_another_batch_size_takes_as_many_steps_as_it_needs():
    """Nobody published its time."""
    cpu, gpu = literature.again("logreg_1m_p600", 30_000)

    assert (cpu.device.key, gpu.device.key, gpu.host) == ("i7_8850h", "quadro_p600", "i7_8850h")
    assert (cpu.batch, cpu.steps) == (30_000, 15 * 34)
    assert math.isnan(cpu.measured) and math.isnan(gpu.measured)
    assert cpu.predicted(EVEN) > 0


def test_the_network_of_the_sixteen_layers_is_the_published_one():
    """K. Simonyan and A. Zisserman (2015), https://arxiv.org/abs/1409.1556: 138 million parameters, 15.5 G terms."""
    model = literature._network({"kind": "vgg16"})

    forward = sum(layer.flop_forward for layer in work.of(model, 1).layers)

    assert model.count_params() == 138_357_544
    assert forward == pytest.approx(2 * 15.47e9, rel=0.01)


@pytest.mark.parametrize(
    ("ratios", "share"), [([0.5, 1, 2], 1), ([0.49, 1, 2.01, 1.5], 0.5), ((ratio for ratio in [3]), 0)]
)
def test_the_share_within_a_factor_of_two(ratios, share):
    """Both ends belong to it."""
    assert literature.within_two(ratios) == share
