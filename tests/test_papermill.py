"""Every notebook under papermill: from another folder, twice in one kernel, with right and wrong values."""

import subprocess
import sys

import nbformat
import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from helpers import notebooks, parameters, results

PATHS = notebooks.find()
SMALL = {
    "matmul_sweep": {"sizes": "[64, 500000, 32]"},  # half a million does not fit into any memory
    "slow_small_model": {"rungs": "1", "points": "2000", "batch_size": 50, "batch_sizes": "[50, 60, 70]", "epochs": 2},
    "bigger_model": {"rungs": "[1]"},
    "mnist_mlp": {"limit": "100", "batch_size": 50},
    "mnist_cnn": {"limit": "40", "batch_size": 20},
    "cifar_cnn": {"limit": "32", "batch_size": 16},
    "feed_the_gpu": {"points": 200, "digits": "40", "pictures": 8, "photos": 8, "levers": "1"},
    "cpu_against_gpu": {"folders": str(parameters.PROJECT / "results" / "reference")},
}


TWO_DEVICES = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


# Run once more in the same kernel. The others would take a minute each, and train in the same way as 04.
AGAIN = ("check_your_machine", "matmul_sweep", "mnist_mlp", "cpu_against_gpu")


def twice(path) -> nbformat.NotebookNode:
    """All cells, then all cells again: what a student does who runs everything once more.

    Two logical CPUs stand in for a CPU and a GPU; the second time it is one alone, as for most students.
    """
    notebook = notebooks.read(path)
    if notebooks.experiment(path) not in AGAIN:
        notebook.cells = [nbformat.v4.new_code_cell(TWO_DEVICES), *notebook.cells]
        return notebook
    again = [nbformat.from_dict({**cell, "id": f"{cell['id']}-2", "metadata": {}}) for cell in notebook.cells]
    tagged = next(cell for cell in again if cell.source.startswith("preset = None"))
    tagged.source = tagged.source.replace("devices = None", 'devices = "CPU:1"')  # once more on one is enough
    notebook.cells = [nbformat.v4.new_code_cell(TWO_DEVICES), *notebook.cells, *again]
    return notebook


# `make test` has ten minutes. nbval runs these there all the same, and they train in the same way as 04 and 06.
LONG = ("slow_small_model", "bigger_model", "mnist_cnn")
marked = [pytest.param(p, marks=[pytest.mark.long] if notebooks.experiment(p) in LONG else []) for p in PATHS]


@pytest.mark.parametrize("path", marked, ids=lambda path: path.stem)
def test_from_another_folder_twice_and_with_other_values(path, tmp_path, monkeypatch):
    """Nothing depends on the working directory or on being run once; values arrive as papermill sends them."""
    elsewhere = tmp_path / "a folder with ümlauts"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    name = notebooks.experiment(path)
    given = {"results_dir": str(tmp_path / "records"), "devices": "cpu:0,/device:CPU:1", **SMALL.get(name, {})}
    if "seconds" in parameters.own(name):
        given["seconds"] = "2e-2"

    executed = papermill.execute_notebook(
        twice(path), "out.ipynb", given, cwd=str(elsewhere), progress_bar=False, execution_timeout=120
    )

    assert all(cell.execution_count for cell in notebooks.code_cells(executed))
    if name == "cpu_against_gpu":  # it measures nothing
        assert not (tmp_path / "records").exists()
        return
    table, problems = results.read(tmp_path / "records")
    assert problems == [] and not table.empty
    assert set(table["experiment"]) == {name} and set(table["device"]) == {"CPU:0", "CPU:1"}
    if name == "matmul_sweep":
        assert sorted(table["size"]) == [32, 32, 64, 64]  # the second time, the cell resets the rest to None
        text = str(executed.cells)
        assert "CPU:1 wins" in text  # the comparison that a machine with one device leaves out
        assert "size 500000 is skipped: CPU:0 needs 4,000.0 GB" in text
        records = [path.read_text(encoding="utf-8") for path in (tmp_path / "records").iterdir()]
        assert len(records) == 2
        assert all("size 500000 is skipped: CPU:" in record for record in records)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("check_your_machine", {"preset": "fast"}, "preset = 'fast' is not a preset"),
        ("check_your_machine", {"devices": "GPU:99"}, "There is no GPU:99 here"),
        ("matmul_sweep", {"sedd": 3}, "no parameter 'sedd'"),
        pytest.param("slow_small_model", {"points": 1001}, "cannot have 1001 points", marks=pytest.mark.long),
        ("cpu_against_gpu", {"folders": "nowhere"}, "'nowhere' is not a folder that exists"),
        pytest.param(
            "bigger_model",
            {"batch_sizes": "[1, 2, 99999]", "seconds": "1e-2"},
            "batch_size = 99999 is not possible",
            marks=pytest.mark.long,
        ),
    ],
)
def test_wrong_values_stop_the_notebook_in_words(name, given, words, tmp_path):
    """Papermill accepts anything; the second cell does not. A misspelt name is seen too."""
    path = next(path for path in PATHS if notebooks.experiment(path) == name)

    with pytest.raises(PapermillExecutionError, match=words) as caught:
        papermill.execute_notebook(path, tmp_path / "out.ipynb", given, progress_bar=False, execution_timeout=60)

    assert caught.value.traceback == [f"{caught.value.ename}: {caught.value.evalue}"]  # words, no page of insides


def test_a_kernel_without_the_course_says_so_in_the_first_notebook(tmp_path):
    """The most usual fault of all: Jupyter runs another Python."""
    cell = notebooks.code_cells(notebooks.read(PATHS[0]))[1].source
    # A Python that sees the standard library alone: -I leaves out the folder, -S the installed packages.
    command = [sys.executable, "-I", "-S", "-c", cell]

    answer = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    assert answer.returncode == 1
    assert answer.stderr.startswith(f"The course is not installed in {sys.executable}")
    assert "make lab" in answer.stderr and "Traceback" not in answer.stderr


def test_the_parameters_can_be_listed():
    """`papermill --help-notebook` is how an instructor finds them."""
    command = [sys.executable, "-m", "papermill", "--help-notebook", str(PATHS[1])]

    answer = subprocess.run(command, capture_output=True, text=True, timeout=60)

    for name in [*parameters.COMMON, "sizes", "seconds"]:
        assert f"  {name}: " in answer.stdout
