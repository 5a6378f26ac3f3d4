"""What pieces cost on a device that is known by its datasheet alone."""

import math

import keras
import pytest
from keras import layers

from helpers import datasheet, hardware, work
from helpers.errors import ParameterError
from helpers.pieces import KINDS, Piece, product, stream

TABLES = datasheet.tomllib.loads(datasheet.FILE.read_text(encoding="utf-8"))
REPORTS = datasheet.FILE.with_name("literature.toml")
SOURCES = {report["publisher"] for report in datasheet.tomllib.loads(REPORTS.read_text(encoding="utf-8"))["report"]}
# Constants that one can calculate with.
EVEN = dict.fromkeys(TABLES["fitted"], 0.5) | {"cpu_fresh_bytes_per_s": 8e9}


def of(key: str, start: float = 0.0, **options):
    """Return the costs on a device of the catalogue."""
    return datasheet.costs(hardware.known()[key], start, **options)


def convolution(filters: int, window: int, channels: int = 128, **options) -> list[Piece]:
    """Return the pieces of a convolution of pictures of 28 × 28, forward and back: no bias, no activation."""
    layer = layers.Conv2D(filters, window, padding="same", use_bias=False, **options)
    model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(channels, 1), layer])
    last = work.of(model, 8).layers[-1]
    return [*last.forward, *last.back]


def test_a_large_product_reaches_the_fitted_share_of_the_peak():
    """8.1 TFLOP/s on a T4; its values are moved beside."""
    share, piece = datasheet.constants()["gpu_product"], product(8192, 8192, 8192)

    found = of("t4").seconds(piece)

    assert found.compute == pytest.approx(piece.flop / (share * hardware.known()["t4"].peak_flops["float32"]))
    assert found.memory == pytest.approx(3 * 4 * 8192**2 / (0.32e12 * datasheet.constants()["gpu_bandwidth"]), rel=0.01)
    assert found.start == 0 and 0.95 < found.compute / found.total < 1


@pytest.mark.parametrize(("key", "dtype"), [("t4", "float16"), ("a100_40gb", "tf32"), ("a100_40gb", "float16")])
def test_a_product_is_as_much_faster_in_another_dtype_as_its_peak_is_higher(key, dtype):
    """Where the device has it."""
    peaks, piece = hardware.known()[key].peak_flops, product(4096, 4096, 4096)

    plain, other = (of(key, dtype=name).seconds(piece) for name in ("float32", dtype))

    assert plain.compute / other.compute == pytest.approx(peaks[dtype] / peaks["float32"])
    assert other.total < plain.total
    assert other.memory == pytest.approx(plain.memory / (2 if dtype == "float16" else 1))


@pytest.mark.parametrize(("key", "dtype"), [("t4", "tf32"), ("i7_8850h", "float16")])
def test_a_dtype_that_a_device_does_not_have_is_refused_in_words(key, dtype):
    """Those that it has are listed."""
    with pytest.raises(ParameterError, match=rf"no peak for dtype '{dtype}'.*float32"):
        of(key, dtype=dtype)


@pytest.mark.parametrize("kind", ["product", "convolution"])
def test_a_build_that_uses_fewer_flop_per_cycle_is_slower_by_that_factor(kind):
    """A wheel without AVX reaches 8 of the 32 that this CPU has. What is moved takes as long."""
    piece = product(999, 999, 999) if kind == "product" else convolution(64, 3)[0]
    device = hardware.known()["i7_8850h"]

    all_of_it, some, more, named = (
        of("i7_8850h", flop_per_cycle=flop).seconds(piece) for flop in (0, 8, 64, device.flop_per_cycle)
    )

    assert some.compute / all_of_it.compute == pytest.approx(device.flop_per_cycle / 8) == 4
    assert some.memory == all_of_it.memory
    assert more == all_of_it == named  # a build cannot use what the CPU lacks


def times_faster(piece: Piece, key: str = "t4", **options) -> float:
    """Return how many times faster than by plain multiplication a convolution is computed."""
    found = of(key, using=EVEN, **options).seconds(piece).compute
    peak = hardware.peak(hardware.known()[key], options.get("dtype", "float32"))
    return piece.flop / (0.5 * peak) / found


@pytest.mark.parametrize("place", range(3))
def test_windows_of_3_by_3_take_fewer_multiplications_on_a_gpu(place):
    """Forward, and for both gradients."""
    assert times_faster(convolution(64, 3)[place]) == pytest.approx(2.25)


@pytest.mark.parametrize(
    ("filters", "window", "options"),
    [
        (64, 1, {}),
        (64, 5, {}),
        (64, 3, {"strides": 2}),
        (63, 3, {}),
        (64, 3, {"channels": 63}),
        (64, 2, {"dilation_rate": 2}),
    ],
    ids=["1 x 1", "5 x 5", "stride 2", "63 filters", "63 channels", "2 x 2"],
)
def test_other_windows_and_few_channels_take_them_all(filters, window, options):
    """Then the detour costs more than it saves."""
    assert times_faster(convolution(filters, window, **options)[0]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("key", "options"),
    [("t4", {"dtype": "float16"}), ("a100_40gb", {"dtype": "bfloat16"}), ("i7_8850h", {})],
    ids=["float16", "bfloat16", "cpu"],
)
def test_tensor_cores_and_cpus_multiply_plainly(key, options):
    """The trick is one of a GPU's ordinary cores."""
    assert times_faster(convolution(64, 3)[0], key, **options) == pytest.approx(1)


@pytest.mark.parametrize("key", ["t4", "i7_8850h"])
def test_value_by_value_work_is_bound_by_the_bandwidth(key):
    """A gigabyte read and as much written, at half of what the datasheet says."""
    device = hardware.known()[key]

    found = of(key, using=EVEN).seconds(stream(2**28, 2**28)._replace(in_place=True))

    assert found.memory == pytest.approx(2 * 2**30 / (0.5 * device.memory_bandwidth))
    assert found.start == (0 if device.kind == "gpu" else datasheet.SHARED) and found.compute == 0


@pytest.mark.parametrize("kind", datasheet.CYCLES)
def test_a_cpu_takes_longer_where_arithmetic_decides(kind):
    """A random number takes a core some cycles; never less than memory does."""
    device, piece = hardware.known()["i7_8850h"], stream(0, 2**20, kind=kind)

    plain, found = (of("i7_8850h").seconds(piece._replace(kind=each)).memory for each in ("stream", kind))

    assert found == pytest.approx(max(plain, datasheet.CYCLES[kind] * 2**20 / (device.cores * device.clock_hz)))
    assert of("t4").seconds(piece) == of("t4").seconds(piece._replace(kind="stream"))


def test_a_large_result_costs_a_cpu_the_clearing_of_fresh_memory():
    """At the rate of the constants; a GPU keeps its memory."""
    piece = stream(0, 2**24)

    fresh, kept = (of("i7_8850h", using=EVEN).seconds(each).memory for each in (piece, piece._replace(in_place=True)))

    assert fresh - kept == pytest.approx(4 * 2**24 / 8e9)
    assert of("t4").seconds(piece) == of("t4").seconds(piece._replace(in_place=True))


def test_a_loop_costs_a_gpu_little():
    """cuDNN runs it as one operation; a CPU starts every operation in it."""
    loop = Piece("loop", 10, 0, (0, 0), looped=True)

    assert of("t4", 1e-5).seconds(loop).total == pytest.approx(10 * datasheet.TURN)
    assert of("i7_8850h", 1e-5).seconds(loop).total == pytest.approx(10 * 1e-5)


def test_a_gpu_starts_the_next_operation_while_it_computes():
    """A CPU does not."""
    assert (of("t4").overlap, of("i7_8850h").overlap) == (True, False)


@pytest.mark.parametrize("device", hardware.known().values(), ids=list(hardware.known()))
def test_every_device_has_a_cost_for_every_kind_of_piece(device):
    """Finite and above 0, but for what a loop costs beside its operations."""
    costs = datasheet.costs(device, 0.0)

    assert set(costs.kinds) == set(KINDS)
    for kind, sizes in KINDS.items():
        seconds = costs.seconds(Piece(kind, 1, 1e6, (1e4,) * len(sizes.split(", ")))).total
        assert math.isfinite(seconds) and (seconds > 0 or kind == "loop")


def test_there_are_constants_without_each_source():
    """So that its figures can be predicted by what others measured."""
    assert set(TABLES["without"]) == SOURCES
    assert all(set(table) == set(TABLES["prior"]) for table in (TABLES["fitted"], *TABLES["without"].values()))
    assert datasheet.constants() == TABLES["fitted"]
    assert all(datasheet.constants(source) == TABLES["without"][source] for source in SOURCES)
    assert all(TABLES["without"][source] != TABLES["fitted"] for source in SOURCES)


@pytest.mark.parametrize("name", ["", *sorted(SOURCES)])
def test_constants_are_possible(name):
    """Shares of a peak; starts of microseconds; Python of milliseconds; seconds to begin."""
    least = {"gpu": 0.3, "cpu": 0.2, "start": 1e-6, "step": 2e-4, "row": 1e-8, "begin": 0.1}
    most = {"gpu": 1.05, "cpu": 1.05, "start": 1e-4, "step": 1e-2, "row": 1e-5, "begin": 10}

    constants = dict(datasheet.constants(name))

    assert 1e9 < constants.pop("cpu_fresh_bytes_per_s") < 5e10
    for key, value in constants.items():
        assert least[key.partition("_")[0]] <= value <= most[key.partition("_")[0]], key
    assert constants["start_cpu"] < constants["start_gpu"]  # a launch on top


def test_no_constant_is_far_from_its_first_guess():
    """Twice the factor by which it may well be wrong would ask for another model."""
    for name, (guess, factor) in TABLES["prior"].items():
        assert factor**-2 <= TABLES["fitted"][name] / guess <= factor**2, name


def test_no_source_decides_a_constant_alone():
    """Without it, none moves by more than a third."""
    moved = {
        (source, name): table[name] / TABLES["fitted"][name]
        for source, table in TABLES["without"].items()
        for name in table
    }

    assert {place: ratio for place, ratio in moved.items() if not 2 / 3 <= ratio <= 3 / 2} == {}


@pytest.mark.parametrize("kind", ["gpu", "cpu", "ratio"])
def test_the_spread_is_that_of_a_model_that_is_right_within_a_factor_of_two(kind):
    """Nine of ten predictions lie within 1.64 deviations; the ratio of two devices is known best."""
    assert 0.05 < datasheet.spread(kind) < math.log(2) / 1.64
    assert datasheet.spread("ratio") <= min(datasheet.spread("gpu"), datasheet.spread("cpu"))
