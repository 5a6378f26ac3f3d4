"""What papermill would accept, and a notebook refuses; a file of its own, so that it can run beside the others."""

import subprocess
import sys

import papermill
import pytest
from papermill.exceptions import PapermillExecutionError

from helpers import notebooks, parameters

PATHS = notebooks.find()


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
