"""Every notebook under papermill: from another folder, twice in one kernel, with right and wrong values."""

import nbformat
import papermill
import pytest

from helpers import notebooks, parameters, results

PATHS = notebooks.find()
SMALL = {
    # Half a million does not fit into any memory.
    "matmul_sweep": {"sizes": "[64, 500000, 32]", "predicted": "GT 720 DDR3,i7-8850H"},
    "slow_small_model": {"rungs": "1", "points": "2000", "batch_size": 50, "batch_sizes": "[50, 60, 70]", "epochs": 2},
    "bigger_model": {"rungs": "[1]", "predicted": ""},
    "mnist_mlp": {"limit": "100", "batch_size": 50},
    "mnist_cnn": {"limit": "40", "batch_size": 20},
    "cifar_cnn": {"limit": "32", "batch_size": 16},
    "feed_the_gpu": {"points": 200, "digits": "40", "pictures": 8, "photos": 8, "levers": "1"},
    "predict_the_winner": {
        "networks": "two_clouds",
        "batch_sizes": "16",
        "epochs": "2",
        "seconds": "0.002",
        "predicted": "P600",
        "model": "recurrent",
    },
    "more_devices": {
        "networks": "mnist_mlp",
        "examples": 16,
        "batch_size": "4",
        "epochs": "2",
        "workers": 2,
        "steps": 1,
        "predicted": "",
    },
    "cpu_against_gpu": {"folders": str(parameters.PROJECT / "results" / "reference"), "predicted": "['T4', 'P600']"},
}


TWO_DEVICES = """
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
"""


# Run once more in the same kernel. The others would take a minute each, and train in the same way as 04.
AGAIN = ("check_your_machine", "matmul_sweep", "mnist_mlp", "cpu_against_gpu", "more_devices")


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


# `make test` has ten minutes, on a slow machine, too. nbval runs all notebooks there; this one runs as papermill does.
SHORT = ("check_your_machine",)
marked = [pytest.param(p, marks=[] if notebooks.experiment(p) in SHORT else [pytest.mark.long]) for p in PATHS]


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
    used = {"CPU:0"} if name == "more_devices" else {"CPU:0", "CPU:1"}  # where its replicas begin
    assert set(table["experiment"]) == {name} and set(table["device"]) == used
    if name == "matmul_sweep":
        assert sorted(table["size"]) == [32, 32, 64, 64]  # the second time, the cell resets the rest to None
        text = str(executed.cells)
        assert "CPU:1 wins" in text  # the comparison that a machine with one device leaves out
        assert "size 500000 is skipped: CPU:0 needs 4,000.0 GB" in text
        records = [path.read_text(encoding="utf-8") for path in (tmp_path / "records").iterdir()]
        assert len(records) == 2
        assert all("size 500000 is skipped: CPU:" in record for record in records)
