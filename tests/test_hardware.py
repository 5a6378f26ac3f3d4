"""The catalogue of devices: every row is whole and plausible, and a name means one device or none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import hardware
from helpers.errors import ParameterError

ROWS = hardware.tomllib.loads(hardware.FILE.read_text(encoding="utf-8"))
DEVICES = list(hardware.known().values())
GPUS = [device for device in DEVICES if device.kind == "gpu"]
CPUS = [device for device in DEVICES if device.kind == "cpu"]
DTYPES = {"float32", "float64", "float16", "bfloat16", "tf32", "float16_fp16_accumulate"}
LANE = {"2.0": 0.5e9, "3.0": 0.985e9, "4.0": 1.97e9, "5.0": 3.94e9}  # bytes/s of one lane, by PCIe's generation
# float16 as multiples of float32, by compute capability: the table at the head of hardware.toml.
FLOAT16 = {"3": (), "5": (), "6.0": (2,), "6.1": (1 / 64,), "7.0": (8,), "7.5": (2, 4, 8), "8.0": (16,)}
FLOAT16 |= {"8.6": (2, 4), "8.9": (2, 4), "9.0": (14.8,), "12.0": (2,)}
PIECES = "RTX 4090 A100 T4 40GB 1GB SXM4 PCIe ( @ 2.6GHz NVIDIA GPU laptop i7".split()

each_device = pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.key)
each_gpu = pytest.mark.parametrize("device", GPUS, ids=lambda device: device.key)
each_cpu = pytest.mark.parametrize("device", CPUS, ids=lambda device: device.key)


def close(value):
    """Within 3 %: clocks and peaks are published rounded."""
    return pytest.approx(value, rel=0.03)


def refusal(call, *arguments) -> str:
    """Return the words of a `ParameterError`."""
    with pytest.raises(ParameterError) as caught:
        call(*arguments)
    return str(caught.value)


def test_the_catalogue_keeps_the_order_of_its_file():
    """What is listed for a reader stands as in the file."""
    assert list(hardware.known()) == [key for key in ROWS if key != "sources"]
    assert [device.key for device in DEVICES] == list(hardware.known())
    assert len(GPUS) >= 37 and len(CPUS) >= 20


@each_device
def test_every_figure_is_in_its_unit(device):
    """A figure in gigabytes, megahertz or teraflops would fall out of these ranges."""
    assert device.kind in ("gpu", "cpu")
    assert 2005 <= device.year <= 2026
    assert "float32" in device.peak_flops and set(device.peak_flops) <= DTYPES
    assert all(1e10 < rate < 1e16 for rate in device.peak_flops.values())
    assert 5e9 < device.memory_bandwidth < 1e13
    assert 5e8 < device.clock_hz < 6e9
    assert device.memory_bytes is None or 2**29 <= device.memory_bytes <= 2**41
    assert device.memory_bytes is None or device.memory_bytes % 2**30 == 0
    assert isinstance(device.cores, int) and device.cores >= 1


@each_device
def test_compute_and_bandwidth_fit_each_other(device):
    """The float32 operations per byte that can be read have kept to these bounds since 2013."""
    least, most = (7, 110) if device.kind == "gpu" else (4, 40)

    assert least < device.peak_flops["float32"] / device.memory_bandwidth < most


@each_gpu
def test_a_gpu_multiplies_and_adds_once_per_core_and_cycle(device):
    """The float32 peak, the cores and the clock come from one row."""
    assert device.peak_flops["float32"] == close(device.cores * device.clock_hz * 2)
    assert device.flop_per_cycle is None


@each_gpu
def test_a_gpu_has_what_predictions_ask_of_it(device):
    """Its compute capability, its memory, and the link from the host, which is PCIe's rate times its lanes."""
    generation, lanes = ROWS[device.key]["pcie"].split(" x")

    assert re.fullmatch(r"\d{1,2}\.\d", device.compute_capability)
    assert device.memory_bytes is not None
    assert device.link_bytes_per_s == close(LANE[generation] * int(lanes))


@each_gpu
def test_half_precision_is_a_known_multiple_of_float32(device):
    """So a sparse figure, twice the dense one, does not slip in."""
    peaks, capability = device.peak_flops, device.compute_capability
    multiples = FLOAT16.get(capability, FLOAT16.get(capability.partition(".")[0]))
    ampere = float(capability) >= 8

    assert ("float16" in peaks) == bool(multiples)
    assert not multiples or any(peaks["float16"] == close(peaks["float32"] * multiple) for multiple in multiples)
    assert ("tf32" in peaks, "bfloat16" in peaks) == (ampere, ampere)
    assert not ampere or (peaks["tf32"], peaks["bfloat16"]) == (close(peaks["float16"] / 2), peaks["float16"])
    assert peaks.get("float16_fp16_accumulate", 0) in (0, close(2 * peaks.get("float16", 0)))


@each_cpu
def test_a_cpu_peak_is_cores_times_clock_times_flop_per_cycle(device):
    """And float64 fills half as many lanes."""
    assert device.flop_per_cycle in (8, 16, 32, 64)
    assert device.peak_flops["float32"] == close(device.cores * device.clock_hz * device.flop_per_cycle)
    assert device.peak_flops["float64"] == close(device.peak_flops["float32"] / 2)
    assert ROWS[device.key]["base_clock_hz"] <= ROWS[device.key]["boost_clock_hz"]
    assert device.clock_hz <= ROWS[device.key]["boost_clock_hz"]
    assert (device.compute_capability, device.link_bytes_per_s) == (None, None)


@each_device
def test_every_row_says_where_it_comes_from(device):
    """A URL, a file of a repository at a commit, or what was measured; short names are written out."""
    checkable = re.compile(r"https?://\S+\.\S+/|\w/\S+@[0-9a-f]{7,40}:\w|^measured ")

    assert any(checkable.search(source) for source in device.sources)
    for source in device.sources:
        assert checkable.search(source) or source.startswith("computed ")
        assert "{}" not in source and source.partition(":")[0] not in ROWS["sources"]


@each_device
def test_what_is_unverified_exists(device):
    """Each name is a key of the row, or a dtype that has a peak."""
    assert set(device.unverified) <= set(ROWS[device.key]) | set(device.peak_flops)
    assert len(set(device.unverified)) == len(device.unverified)


def test_every_shared_source_is_used():
    """One that no row names any more can go."""
    used = {source.partition(": ")[0] for key, row in ROWS.items() if key != "sources" for source in row["sources"]}

    assert set(ROWS["sources"]) <= used


def test_the_file_names_no_place_on_one_machine():
    """Its readers sit elsewhere."""
    text = hardware.FILE.read_text(encoding="utf-8")

    assert not re.search(r"this machine|pypi|(?<![\w/.])/(work|home|tmp|usr)/", text, re.IGNORECASE)


@each_device
def test_a_device_is_found_by_all_of_its_names(device):
    """By the key, the full name, and every other name."""
    assert all(hardware.find(name) is device for name in (device.key, device.name, *device.also))


def test_no_two_devices_share_a_name():
    """Not even after the remark in brackets, or in `also`."""
    names = [name for device in DEVICES for name in {device.key, device.name, *device.also}]

    assert len(set(names)) == len(names)


@given(st.sampled_from(DEVICES), st.sampled_from(["", " ", "-", "_", ", "]), st.sampled_from([str.lower, str.upper]))
def test_case_spaces_and_punctuation_do_not_matter(device, between, case):
    """The name's letters and digits decide."""
    assert hardware.find(case(re.sub(r"[\W_]+", between, device.name))) is device


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("RTX 4090", "rtx_4090"),
        ("rtx4090", "rtx_4090"),
        ("a100pcie80gb", "a100_80gb_pcie"),
        ("nvidia geforce rtx 4090", "rtx_4090"),
        ("RTX 4090 24 GB", "rtx_4090"),
        ("RTX 3060", "rtx_3060"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", "rtx_3060_laptop"),
        ("RTX 3060 Mobile", "rtx_3060_laptop"),
        ("GTX 1080", "gtx_1080"),
        ("GTX 1080Ti", "gtx_1080_ti"),
        ("GTX 1060", "gtx_1060_6gb"),
        ("MX150", "mx150"),
        ("P600", "quadro_p600"),
        ("Quadro P600 4 GB", "quadro_p600"),
        ("GeForce GT 720 DDR3", "gt_720_ddr3"),
        ("TITAN RTX", "titan_rtx"),
        ("Tesla K80", "tesla_k80_die"),
        ("Tesla P100-PCIE-16GB", "p100_pcie"),
        ("Tesla V100-SXM2-16GB", "v100_sxm2"),
        ("Tesla T4", "t4"),
        ("T4", "t4"),
        ("NVIDIA A100-SXM4-40GB", "a100_40gb"),
        ("NVIDIA A100-PCIE-40GB", "a100_40gb"),
        ("NVIDIA A100-SXM4-80GB", "a100_80gb_sxm"),
        ("NVIDIA A100 80GB PCIe", "a100_80gb_pcie"),
        ("NVIDIA H100 80GB HBM3", "h100_sxm"),
        ("NVIDIA H100 PCIe", "h100_pcie"),
        ("H100 SXM", "h100_sxm"),
        ("NVIDIA H200", "h200"),
        ("i7-8850H", "i7_8850h"),
        ("Intel(R) Core(TM) i7-8850H CPU @ 2.60GHz", "i7_8850h"),
        ("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "xeon_gold_6148"),
        ("AMD EPYC 7742 64-Core Processor", "epyc_7742"),
        ("AMD Ryzen 7 2700X Eight-Core Processor", "ryzen_2700x"),
    ],
)
def test_a_name_is_understood_as_people_and_drivers_write_it(name, key):
    """Makers and brands may be there or not, and so may the memory."""
    assert hardware.find(name).key == key


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("A100", ["A100 SXM4 40GB", "A100 SXM4 80GB", "A100 PCIe 80GB"]),
        ("A100 80GB", ["A100 SXM4 80GB", "A100 PCIe 80GB"]),
        ("A100 PCIe", ["A100 SXM4 40GB", "A100 PCIe 80GB"]),
        ("V100", ["Tesla V100 PCIe 16GB", "Tesla V100 SXM2 32GB"]),
        ("H100", ["H100 PCIe 80GB", "H100 SXM5 80GB"]),
        ("GeForce GT 720", ["GeForce GT 720 (DDR3)", "GeForce GT 720 (GDDR5)"]),
        ("GT 720 1 GB", ["GeForce GT 720 (DDR3)", "GeForce GT 720 (GDDR5)"]),
    ],
)
def test_a_name_of_several_devices_is_refused_with_all_of_them(name, candidates):
    """Their peaks or bandwidths differ, so the reader must choose."""
    assert f"fits several devices. Accepted are {', '.join(candidates)}. Give one" in refusal(hardware.find, name)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("RTX 4090 laptop", "GeForce RTX 4090"),
        ("RTX 4090 D", "GeForce RTX 4090"),
        ("RTX 4090 ноутбук", "GeForce RTX 4090"),
        ("RTX 3080", "GeForce RTX 3080 Ti"),
        ("RTX 3060 8GB", "GeForce RTX 3060 12GB"),
        ("GTX 1060 3GB", "GeForce GTX 1060 6GB"),
        ("GTX 960", "GeForce GTX 960M"),
        ("Tesla P100-SXM2-16GB", "Tesla P100 PCIe 16GB"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100 SXM4 40GB"),
        ("H100 NVL", "H100 PCIe 80GB"),
        ("A10G", "NVIDIA A10"),
        ("L40", "NVIDIA L4"),
        ("E5-2630 v3", "2 x Xeon E5-2630 v3"),
        ("4090", "GeForce RTX 4090"),
    ],
)
def test_a_sibling_is_suggested_and_never_taken(name, near):
    """The laptop's card, another memory size or a slice of a GPU is another device."""
    words = refusal(hardware.find, name)

    assert "is not in the catalogue" in words and re.search(rf"nearest names are .*{re.escape(near)}[,.]", words)
    assert "course predict --devices" in words and "add a table" in words


@pytest.mark.parametrize("name", ["zzz", "NVIDIA", "gpu", "16GB", "---", "Intel(R) Xeon(R) CPU @ 2.20GHz"])
def test_a_name_like_no_other_is_refused_with_the_next_step(name):
    """A maker alone names no device."""
    assert "No name in it comes near. `course predict --devices` lists all" in refusal(hardware.find, name)


@pytest.mark.parametrize("bad", ["", "  ", None, 4090, ["T4"], b"T4", {}])
def test_what_is_no_text_is_refused_in_words(bad):
    """With names that would do."""
    assert "is not the name of a device. Accepted is text such as 'RTX 4090'" in refusal(hardware.find, bad)


@given(
    st.text()
    | st.lists(st.sampled_from("RTX 4090 A100 T4 40GB 1GB SXM4 PCIe ( @ 2.6GHz NVIDIA GPU laptop i7".split())).map(
        " ".join
    )
)
def test_any_text_is_a_device_or_one_kind_of_error(text):
    """Names come out of records from other machines."""
    try:
        found = hardware.find(text)
    except ParameterError:
        return
    assert hardware.known()[found.key] is found


@pytest.mark.parametrize("text", ["a" * 200_000, "9 " * 100_000, "@ 1" * 70_000, "RTX 4090 " * 20_000])
def test_a_very_long_name_is_refused_briefly(text):
    """In a few words, and at once."""
    assert len(refusal(hardware.find, text)) < 600


def test_a_peak_is_asked_for_by_dtype():
    """float32 unless another is named."""
    t4 = hardware.find("T4")

    assert hardware.peak(t4) == 8.141e12
    assert hardware.peak(t4, "float16") == 6.51e13


@pytest.mark.parametrize("dtype", ["bfloat16", "tf32", "float", "", None, ["float32"]])
def test_a_dtype_that_the_device_lacks_is_refused_with_those_it_has(dtype):
    """A GPU without tf32 must not borrow another's."""
    words = refusal(hardware.peak, hardware.find("T4"), dtype)

    assert f"Tesla T4 has no peak for dtype {dtype!r}. Accepted are float32, float16." in words


def test_a_table_of_six_keys_is_a_device(tmp_path):
    """What its maker does not publish is None; a shared source is written out."""
    path = tmp_path / "hardware.toml"
    path.write_text(
        '[sources]\nshop = "https://example.org/{}/data"\n'
        '[mine]\nname = "Mine"\nkind = "gpu"\nyear = 2026\npeak_flops = { float32 = 1e12 }\n'
        'memory_bandwidth = 1e11\nsources = ["shop: mine", "https://example.org/: mine"]\n'
    )

    (mine,) = hardware.read(path).values()

    assert (mine.key, mine.peak_flops, mine.memory_bytes, mine.notes) == ("mine", {"float32": 1e12}, None, "")
    assert mine.sources == ("https://example.org/mine/data", "https://example.org/: mine")


def test_a_table_with_keys_missing_or_misspelt_is_refused_with_their_names(tmp_path):
    """Not with a TypeError from below, and nothing is dropped in silence."""
    path = tmp_path / "hardware.toml"
    path.write_text(
        '[mine]\nname = "Mine"\nkind = "gpu"\nyear = 2026\nmemory_bandwith = 1e11\nsources = []\ntdp_w = 5\n'
    )

    words = refusal(hardware.read, path)

    assert "[mine]" in words and "misspelt: memory_bandwidth, peak_flops, memory_bandwith. Needed are" in words
