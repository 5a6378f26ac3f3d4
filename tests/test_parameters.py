"""Presets, and what papermill may deliver."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import parameters
from helpers.devices import Device
from helpers.errors import DeviceError, ParameterError


@pytest.mark.parametrize(
    "given_value",
    [
        [500, 1000],
        (500, 1000),
        "500,1000",
        "500, 1000",
        "[500, 1000]",
        np.array([500, 1000]),
        [500.0, "1e3"],
        ["500", "1000", "500"],
    ],
)
def test_every_form_of_a_list_is_understood(given_value):
    """From Python, YAML and the command line."""
    assert parameters.check_value("matmul_sweep", "sizes", given_value) == [500, 1000]


@pytest.mark.parametrize(
    ("name", "given_value", "value"),
    [
        ("sizes", 500, [500]),
        ("sizes", "500", [500]),
        ("sizes", "None", None),
        ("sizes", None, None),
        ("seconds", "1e-1", 0.1),
        ("seconds", "2", 2.0),
        ("seconds", np.float64(3), 3.0),
        ("seed", "7", 7),
        ("preset", "quick", "quick"),
        ("preset", "null", None),
        ("devices", "cpu:0,GPU:1", [Device("CPU", 0), Device("GPU", 1)]),
    ],
)
def test_single_values_are_understood(name, given_value, value):
    """A number may come as text, and None leaves the choice to the preset."""
    assert parameters.check_value("matmul_sweep", name, given_value) == value


@pytest.mark.parametrize(
    "bad",
    [0, -5, 1.5, "abc", [], "", "[]", True, "false", [500, "x"], float("nan"), "500;1000", {}, "1e999"]
    + ["1e200", 10**400, "1.000", "1.000,2.000", "1.5e3", "{[1]}"],
)
def test_impossible_sizes_are_refused_in_words(bad):
    """The name, what came, and what is accepted."""
    with pytest.raises(ParameterError) as caught:
        parameters.check_value("matmul_sweep", "sizes", bad)

    assert str(caught.value).startswith("sizes ")
    assert "whole number" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "bad", "accepted"),
    [
        ("preset", "fast", "'quick', 'laptop', 'full'"),
        ("seed", -1, "from 0 to 4294967295"),
        ("seed", 2**32, "from 0 to"),
        ("seed", "1.5", "whole number"),
        ("seconds", 0, "at least 0.01"),
        ("seconds", "inf", "number"),
        ("results_dir", 5, "path of a folder"),
        ("results_dir", __file__, "path of a folder"),
    ],
)
def test_other_impossible_values_are_refused_in_words(name, bad, accepted):
    """Each parameter says what it accepts."""
    with pytest.raises(ParameterError, match=accepted):
        parameters.check_value("matmul_sweep", name, bad)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_input_is_a_value_or_one_kind_of_error(anything):
    """Whatever a YAML file holds, a user reads words and no traceback."""
    for name in ("sizes", "seconds", "seed", "preset", "predicted"):
        try:
            value = parameters.check_value("matmul_sweep", name, anything)
        except ParameterError:
            continue
        assert value is None or isinstance(value, (int, float, list, str))


def test_a_misspelt_name_is_refused_with_the_right_one():
    """Papermill itself only warns, and ends well."""
    with pytest.raises(ParameterError, match="no parameter 'szies'.*Did you mean 'sizes'"):
        parameters.check("matmul_sweep", szies=[500])


def test_the_preset_decides_what_is_not_given(monkeypatch, tmp_path):
    """The argument wins over the environment, and the environment over "laptop"."""
    monkeypatch.delenv("COURSE_PRESET")
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path))
    rows = parameters.own("matmul_sweep")

    assert parameters.check("matmul_sweep").sizes == rows["sizes"]["laptop"]
    monkeypatch.setenv("COURSE_PRESET", "quick")
    assert parameters.check("matmul_sweep").sizes == rows["sizes"]["quick"]
    settings = parameters.check("matmul_sweep", preset="full", sizes="500", devices="CPU:1")

    assert settings.sizes == [500] and settings.seconds == rows["seconds"]["full"]
    assert (settings.preset, settings.seed, settings.results_dir) == ("full", 0, tmp_path)
    assert settings.devices == (Device("CPU", 1),)


def test_a_wrong_preset_in_the_environment_is_named(monkeypatch):
    """The reader must learn where the value came from."""
    monkeypatch.setenv("COURSE_PRESET", "fast")

    with pytest.raises(ParameterError, match=r"\$COURSE_PRESET = 'fast' is not a preset"):
        parameters.check("matmul_sweep")


def test_a_device_that_is_not_here_is_refused():
    """The list of devices is checked last, because it starts TensorFlow."""
    with pytest.raises(DeviceError, match="There is no GPU:99 here"):
        parameters.check("matmul_sweep", devices="CPU:0,GPU:99")


def test_the_results_folder_may_be_a_number_or_a_home(monkeypatch):
    """A folder named 2026 is a folder, and ~ is the home of the user."""
    assert parameters.check_value("matmul_sweep", "results_dir", "2026") == Path("2026").absolute()
    assert parameters.check_value("matmul_sweep", "results_dir", "~/records") == Path.home() / "records"


@pytest.mark.parametrize("bad", ["", "~nobody-of-this-name/x", "x" * 5000])
def test_an_impossible_folder_is_refused_in_words(bad):
    """Not in the file system's own words."""
    with pytest.raises(ParameterError, match="is not a folder"):
        parameters.check_value("matmul_sweep", "results_dir", bad)


def test_full_is_the_published_sweep():
    """`range(500, 5001, 500)`, as the chapter has it after size 0."""
    assert parameters.own("matmul_sweep")["sizes"]["full"] == list(range(500, 5001, 500))


@pytest.mark.parametrize("experiment", parameters.table())
def test_every_row_has_a_kind_and_a_value_for_each_preset_that_its_own_check_accepts(experiment):
    """A preset must not hold what the user would be refused."""
    assert set(parameters.table()[experiment]["takes"]) == set(parameters.PRESETS)
    for name, row in parameters.own(experiment).items():
        own = {"least"} if "number" in row["kind"] else {"accepted"} if row["kind"] == "names" else set()
        assert set(row) == {"kind", *parameters.PRESETS} | own
        for preset in parameters.PRESETS:
            assert parameters.check_value(experiment, name, row[preset]) == row[preset]


def test_folders_must_exist(tmp_path, monkeypatch):
    """A comma separates them; a list may hold paths."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b c").mkdir()
    monkeypatch.chdir(tmp_path)
    both = [tmp_path / "a", tmp_path / "b c"]

    for given_value in ("a, b c", [str(both[0]), both[1]], "['a', 'b c']"):
        assert parameters.check_value("cpu_against_gpu", "folders", given_value) == both
    assert parameters.check_value("cpu_against_gpu", "folders", "None") is None
    for bad in ("a,nowhere", "", 3, [None], [""], "a,,b c"):
        with pytest.raises(ParameterError, match=r"folders: .* is not a folder that exists"):
            parameters.check_value("cpu_against_gpu", "folders", bad)


def test_names_are_those_of_the_table():
    """Each once, from text with commas or a list; another is named with those that are accepted."""
    check = parameters.check_value

    assert check("predict_the_winner", "networks", "mnist_mlp, cifar_cnn,mnist_mlp") == ["mnist_mlp", "cifar_cnn"]
    assert check("predict_the_winner", "networks", "['recurrent']") == ["recurrent"]
    for bad in ("mlp", "", [], 3, [None], "mnist_mlp,"):
        with pytest.raises(ParameterError, match=r"networks.* Accepted are two_clouds, mnist_mlp"):
            check("predict_the_winner", "networks", bad)


def test_text_stays_as_it_is():
    """A file may be named 2026."""
    assert parameters.check_value("predict_the_winner", "model", "2026") == "2026"
    assert parameters.check_value("predict_the_winner", "model", "my_file.py:make") == "my_file.py:make"
    assert parameters.check_value("predict_the_winner", "model", "None") is None


@pytest.mark.parametrize(
    ("given_value", "names"),
    [
        ("T4", ["T4"]),
        ("T4, RTX 4090", ["T4", "RTX 4090"]),
        ("['T4', 'P600']", ["T4", "P600"]),
        (["NVIDIA T4", "Tesla T4"], ["NVIDIA T4"]),
        ("", []),
        (" ", []),
        ("[]", []),
        ([], []),
        (None, None),
        ("None", None),
    ],
)
def test_devices_of_the_catalogue_are_named_as_they_were_given(given_value, names):
    """One device by two names is one; an empty text is no device, and None leaves the choice to the preset."""
    assert parameters.check_value("matmul_sweep", "predicted", given_value) == names


@pytest.mark.parametrize("bad", ["T5000", "RTX", "T4,", "T4;P600", 4, [None], {}, True, "7"])
def test_a_device_that_is_not_in_the_catalogue_is_refused_in_words(bad):
    """The parameter, what came, the nearest names, and where all names are; before anything is computed."""
    with pytest.raises(ParameterError) as caught:
        parameters.check_value("matmul_sweep", "predicted", bad)

    assert str(caught.value).startswith("predicted: ")
    assert "course predict --devices" in str(caught.value) and "'' stands for no device" in str(caught.value)


def test_an_unknown_device_is_answered_with_the_nearest_names():
    """A typing error is seen at once."""
    with pytest.raises(ParameterError, match="predicted: 'RTX 4099' is not in the catalogue.*GeForce RTX 4090"):
        parameters.check_value("bigger_model", "predicted", "RTX 4099")
