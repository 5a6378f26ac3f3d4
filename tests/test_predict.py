"""Predictions: their parts, their intervals, and crossovers that can be computed by hand."""

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import calibrate, hardware, models, pieces, predict
from helpers.costs import Costs, Formula
from helpers.errors import NotEnoughMemoryError, ParameterError
from helpers.pieces import KINDS
from helpers.predict import Comparison, Machine, Prediction

FLOP = 64  # of TINY, forward, for each example: 8 × 4 multiplications and as many additions


@pytest.fixture(scope="module")
def reference(tf):
    return predict.machine(calibrate.reference())


@pytest.fixture(scope="module")
def cnn(tf):
    return models.mnist_cnn()


@pytest.fixture(scope="module")
def mlp(tf):
    return models.mnist_mlp()


@pytest.fixture(scope="module")
def tiny(tf):
    """One product of two matrices, and nothing else that a made-up machine would charge for."""
    import keras

    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, use_bias=False)], name="tiny")


def made_up(
    name: str, per_step: float = 0.0, per_flop: float = 0.0, spread: float = 0.1, start: float = 0.0
) -> Machine:
    """A machine that charges for steps, and for products on the way forward."""
    free = {kind: Formula(0.0, 0.0, (0.0,) * len(sizes.split(","))) for kind, sizes in KINDS.items()}
    kinds = {**free, "product": Formula(0.0, per_flop, (0.0,) * 3)}
    hosts = dict.fromkeys(calibrate.WAYS, calibrate.Host(start, per_step, 0.0, 0.0, 0.0, 0.0))
    return Machine(name, None, "CPU", Costs(0.0, kinds), hosts, 0.0, spread, None, None)


def prediction(device: str, seconds: float, spread: float) -> Prediction:
    return Prediction("model", device, "fit", 1, {"host": seconds}, spread, ())


@pytest.mark.parametrize("way", calibrate.WAYS)
@pytest.mark.parametrize("device", ["T4", "i7-8850H", "reference"])
def test_the_parts_add_up_and_the_interval_lies_around(cnn, reference, device, way):
    """No part is below 0; the interval is as wide upwards as downwards, as a factor."""
    found = predict.step_time(cnn, 64, reference if device == "reference" else device, way)

    assert tuple(found.parts) == predict.PARTS and min(found.parts.values()) >= 0
    assert math.isclose(found.seconds, sum(found.parts.values())) and found.limit in predict.PARTS
    assert 0 < found.low < found.seconds < found.high
    assert math.isclose(found.high / found.seconds, found.seconds / found.low)
    assert (found.way, found.batch, found.model, found.estimated) == (way, 64, "mnist_cnn", ())


def test_the_interval_holds_four_fifths_of_a_lognormal_distribution():
    """1.2816 standard deviations to each side hold 80 % of a normal distribution."""
    found = prediction("a", 1.0, 0.5)

    assert math.isclose(math.log(found.high) / 0.5, 1.2816, rel_tol=1e-4)


def test_errors_of_single_operations_partly_cancel_and_shared_ones_do_not(tiny):
    """Many operations of equal weight are surer together than alone."""
    one = replace(made_up("one", per_flop=1e-9, spread=0.0), spread_each=0.4)

    assert math.isclose(predict.step_time(tiny, 8, one).spread, 0.4)  # a single operation costs anything
    assert math.isclose(predict.step_time(tiny, 8, replace(one, spread_all=0.3)).spread, 0.5)
    many = predict.machine(calibrate.reference())
    assert predict.step_time(models.mnist_cnn(), 8, replace(many, spread_all=0.0)).spread < many.spread_each


@pytest.mark.parametrize(
    ("device", "way", "words"),
    [
        ("RTX 409", "fit", "'RTX 409' is not in the catalogue.*GeForce RTX 4090"),
        ("abacus", "fit", "No name in it comes near.*course predict --devices"),
        ("T4", "fitt", "no way of training 'fitt'.*fit, steps_per_execution, resident"),
    ],
)
def test_an_unknown_device_or_way_is_refused_with_what_is_known(tiny, device, way, words):
    """Before anything is computed."""
    with pytest.raises(ParameterError, match=words):
        predict.step_time(tiny, 1, device, way)


@pytest.mark.parametrize("batch", [0, -1, 1.5, True, "8", None])
def test_a_batch_that_is_no_number_of_examples_is_refused(tiny, batch):
    """Whole numbers from 1."""
    with pytest.raises(ParameterError, match="Accepted is a whole number from 1"):
        predict.step_time(tiny, batch, "T4")


def test_the_largest_batch_that_fits_is_named_and_fits(cnn):
    """It fits, and two percent more does not."""
    with pytest.raises(NotEnoughMemoryError) as caught:
        predict.step_time(cnn, 10**6, "T4")

    small = replace(hardware.find("T4"), memory_bytes=10**9)
    most = predict.largest_batch(cnn, small)
    assert "The largest batch that fits is at least 65,536." in str(caught.value)  # nobody looks further
    assert 1 < most < predict.LARGEST_BATCH
    predict.step_time(cnn, most, small)
    with pytest.raises(NotEnoughMemoryError, match=f"mnist_cnn at batch .* fits is about {most:,}"):
        predict.step_time(cnn, math.ceil(1.02 * most), small)


def test_a_device_too_small_for_one_example_is_said(cnn):
    """By a step and by a crossover alike."""
    tiny_gpu = replace(hardware.find("T4"), name="tiny", memory_bytes=10**5)

    assert predict.largest_batch(cnn, tiny_gpu) == 0
    with pytest.raises(NotEnoughMemoryError, match="tiny has 0.0 GB. Not even one example fits"):
        predict.step_time(cnn, 1, tiny_gpu)
    with pytest.raises(NotEnoughMemoryError, match="tiny has"):
        predict.crossover(cnn, "T4", tiny_gpu)


@pytest.mark.parametrize("batch", [1.5, 64, 100, 5000])
def test_a_crossover_is_where_the_times_are_equal(tiny, batch):
    """One machine charges for arithmetic alone, the other for steps alone: batch = per step / (flop × per flop)."""
    a, b = made_up("a", per_flop=1e-9), made_up("b", per_step=batch * FLOP * 1e-9)

    found = predict.crossover(tiny, a, b)

    factor = math.exp(predict.WIDTH * math.hypot(0.1, 0.1))
    assert found.word == "from" and (found.a, found.b, found.largest) == ("a", "b", 2**16)
    assert math.isclose(found.batch, batch, rel_tol=1e-6)
    assert math.isclose(found.low, max(1, batch / factor), rel_tol=1e-6)
    assert math.isclose(found.high, batch * factor, rel_tol=1e-6)


def test_a_crossover_of_machines_that_charge_for_both(tiny):
    """Not a power law: between two batches of the curve it is found to a few percent."""
    a, b = made_up("a", per_step=1e-4, per_flop=3e-9), made_up("b", per_step=2e-4, per_flop=1e-9)

    found = predict.crossover(tiny, a, b)

    assert math.isclose(found.batch, 1e-4 / (FLOP * 2e-9), rel_tol=0.02)


@pytest.mark.parametrize(
    ("per_step", "word", "batch"),
    [(0.5 * FLOP * 1e-9, "always", 1), (2**17 * FLOP * 1e-9, "never", None)],
)
def test_a_machine_may_win_always_or_never(tiny, per_step, word, batch):
    """Within the batches that were looked at."""
    found = predict.crossover(tiny, made_up("a", per_flop=1e-9), made_up("b", per_step=per_step))

    assert (found.word, found.batch) == (word, batch)


def test_a_crossover_that_is_never_sure_has_no_upper_end(tiny):
    """It lies near the largest batch, and the interval reaches beyond."""
    found = predict.crossover(tiny, made_up("a", per_flop=1e-9), made_up("b", per_step=2**15.9 * FLOP * 1e-9))

    assert found.word == "from" and found.low < found.batch < found.largest and found.high is None


def test_a_crossover_may_compare_two_ways(tiny, reference):
    """The same machine with and without Python between the steps."""
    assert predict.crossover(tiny, reference, reference, "fit", "resident").word == "always"


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.floats(0, 1), st.floats(0, 1))
def test_there_is_a_winner_only_outside_the_interval(a, b, spread_a, spread_b):
    """Where it holds 1, either may be faster."""
    found = Comparison(prediction("a", a, spread_a), prediction("b", b, spread_b))

    low, high = found.interval
    assert low <= found.ratio <= high
    assert (found.winner is None) == (low <= 1 <= high)
    if found.winner:
        assert found.winner == ("a" if a < b else "b")


@pytest.mark.parametrize("device", ["T4", "i7-8850H"])
def test_a_device_never_wins_against_itself(cnn, device):
    """At no batch size."""
    for batch in (1, 32, 1024):
        assert predict.compare(cnn, batch, device, device).winner is None
    assert predict.crossover(cnn, device, device).word == "never"


@given(
    st.sampled_from(["T4", "RTX 4090", "i7-8850H"]),
    st.sampled_from(list(calibrate.WAYS)),
    st.sampled_from([1, 32, 1000]),
    st.floats(1, 100),
    st.floats(1, 100),
)
def test_a_better_device_is_never_predicted_to_be_slower(cnn, name, way, batch, bandwidth, flops):
    """More bandwidth and more arithmetic per second."""
    device = hardware.find(name)
    better = replace(
        device,
        memory_bandwidth=bandwidth * device.memory_bandwidth,
        peak_flops={dtype: flops * peak for dtype, peak in device.peak_flops.items()},
    )

    before, after = (predict.step_time(cnn, batch, one, way).seconds for one in (device, better))

    assert after <= before * (1 + 1e-9)


@pytest.mark.parametrize("device", ["T4", "i7-8850H", "reference"])
@pytest.mark.parametrize("batch", [1, 32, 128])
def test_less_python_is_never_slower_with_small_batches(mlp, cnn, reference, device, batch):
    """Resident data beat many steps per call, and these beat plain fit."""
    device = reference if device == "reference" else device
    for model in (mlp, cnn):
        fit, many, resident = (predict.step_time(model, batch, device, way).seconds for way in calibrate.WAYS)

        assert resident <= many <= fit


def test_only_a_gpu_whose_data_are_elsewhere_waits_for_them(mlp, reference):
    """With many steps per call, batches are sent while the GPU computes: only what does not fit behind that shows."""
    transfer = {way: predict.step_time(mlp, 1024, "T4", way).parts["transfer"] for way in calibrate.WAYS}

    gpu = hardware.find("T4")
    values = 1024 * 28 * 28
    assert math.isclose(transfer["fit"], predict.COPY + values * 4 / (predict.LINK * gpu.link_bytes_per_s))
    assert transfer["resident"] == 0 and transfer["steps_per_execution"] < transfer["fit"]
    for way in calibrate.WAYS:
        for device in (reference, "i7-8850H"):
            assert predict.step_time(mlp, 1024, device, way).parts["transfer"] == 0
    slow = replace(gpu, link_bytes_per_s=1e6)
    assert predict.step_time(mlp, 1024, slow, "steps_per_execution").limit == "transfer"


def test_a_gpu_computes_in_tf32_where_it_can(cnn):
    """That is TensorFlow's choice; float32 must be asked for."""
    usual, plain = predict.machine("A100 SXM4 40GB"), predict.machine("A100 SXM4 40GB", dtype="float32")

    fast, slow = (predict.step_time(cnn, 4096, device).parts["compute"] for device in (usual, plain))
    assert fast < slow / 2


def test_an_operation_alone_costs_its_start_and_its_arithmetic():
    """A product of (100, 200) and (200, 300): two flops for each multiplication."""
    device = made_up("a", per_flop=1e-9, start=2e-6)

    found = predict.operation_time(pieces.product(100, 200, 300), device)

    assert math.isclose(found.seconds, 2e-6 + 1e-9 * 2 * 100 * 200 * 300)
    assert found.limit == "compute" and math.isclose(found.spread, 0.1)
    assert predict.operation_time(pieces.product(1, 1, 1), device).limit == "launch"


@pytest.mark.parametrize("way", calibrate.WAYS)
@pytest.mark.parametrize("device", ["T4", "i7-8850H"])
def test_the_layers_and_the_rest_make_up_the_step(cnn, device, way):
    """What no layer, loss or optimizer takes, is the host's and the data's."""
    rows = predict.by_layer(cnn, 32, device, way)

    step = predict.step_time(cnn, 32, device, way)
    around = step.parts["host"] + step.parts["transfer"]
    assert math.isclose(sum(seconds for *_, seconds in rows), step.seconds)
    assert [kind for _, kind, _ in rows[:3]] == ["Conv2D", "MaxPooling2D", "Conv2D"]
    assert [name for name, *_ in rows[-2:]] == ["loss and optimizer", "host and data"]
    assert min(seconds for *_, seconds in rows) >= 0
    if way == "resident":  # rows are looked up where they lie
        assert rows[-1][-1] > around
    else:
        assert math.isclose(rows[-1][-1], around)


def test_a_prediction_is_a_matter_of_milliseconds(cnn, reference):
    """Half a second is allowed for one; here fifty take no longer than five may."""
    predict.machine("T4")

    start = time.perf_counter()
    for batch in range(1, 26):
        predict.step_time(cnn, batch, reference)
        predict.step_time(cnn, batch, "T4")

    assert time.perf_counter() - start < 5 * 0.5
