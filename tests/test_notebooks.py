"""Notebooks as files: found, read, and made fit to be committed."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from helpers import notebooks
from helpers.errors import CourseError, ParameterError


def test_notebooks_are_found_by_number_name_or_file():
    """In their order, whatever the order asked for; none asked for means all."""
    names = [path.stem for path in notebooks.find(["matmul_sweep", "00"])]

    assert names == ["00_check_your_machine", "01_matmul_sweep"]
    assert (
        notebooks.find(["notebooks/01_matmul_sweep.ipynb"])
        == notebooks.find(["01"])
        == notebooks.find(["01_matmul_sweep"])
    )
    assert notebooks.find(["1"]) == notebooks.find(["01"])
    assert len(notebooks.find()) >= 2


@pytest.mark.parametrize("name", ["99", "matmul", "", "-1"])
def test_a_notebook_that_does_not_exist_is_refused_with_those_that_do(name):
    """Half a name is no name."""
    with pytest.raises(ParameterError, match="no notebook.*There are 00_check_your_machine, 01_matmul_sweep"):
        notebooks.find([name])


def test_a_notebook_with_marks_of_a_merge_is_named(tmp_path):
    """Jupyter only says that it is not JSON."""
    path = tmp_path / "00_broken.ipynb"
    path.write_text("<<<<<<< HEAD\n{}")

    with pytest.raises(CourseError, match="00_broken.ipynb is not a notebook.*git checkout"):
        notebooks.read(path)


def executed(*outputs, source="1", **metadata) -> nbformat.NotebookNode:
    """What papermill leaves behind: an injected cell, times, and a host's paths in the metadata."""
    injected = new_code_cell(
        "# Parameters\npreset = 'full'", metadata={"tags": ["injected-parameters"]}, execution_count=2
    )
    cell = new_code_cell(
        source, outputs=list(outputs), execution_count=3, metadata={"papermill": {"duration": 1}, "tags": []}
    )
    first = new_code_cell("a = 1", execution_count=1, metadata={"execution": {}})
    return new_notebook(cells=[first, injected, cell], metadata={"papermill": {"input_path": "/home/me"}, **metadata})


def stream(text: str, name: str = "stdout"):
    return new_output("stream", name=name, text=text)


def test_a_stored_notebook_counts_from_1_and_says_nothing_of_the_run():
    """The injected cell goes, and every later count moves up."""
    log = stream("I0000 00:00:1 cpu_feature_guard.cc:227] This TensorFlow binary is optimized", "stderr")
    result = new_output("execute_result", data={"text/plain": "7"}, execution_count=3)

    stored = notebooks.fit_to_commit(executed(log, result), "full")

    assert [cell.execution_count for cell in stored.cells] == [1, 2]
    assert [output.output_type for output in stored.cells[1].outputs] == ["execute_result"]
    assert stored.cells[1].outputs[0].execution_count == 2
    assert all("tags" not in cell.metadata for cell in stored.cells)
    assert "papermill" not in str(stored) and "execution" not in stored.cells[0].metadata
    assert stored.metadata.course == {"preset": "full", "code_sha256": notebooks.code_hash(stored)}
    nbformat.validate(stored)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (stream("x.py:1: UserWarning: careful", "stderr"), "warns"),
        (stream("saved to /home/me/x"), "path"),
        (stream("in /srv/kit/runs"), "path"),
        (stream(r"C:\Users\me"), "path"),
        (stream("50%|##\r"), "progress bar"),
        (new_output("execute_result", data={"text/html": "<p>/tmp/x</p>"}), "path"),
    ],
)
def test_what_must_not_be_stored_stops_the_refresh(output, words, monkeypatch):
    """A warning of ours is mended, not hidden; the project's own place is a path, wherever it lies."""
    monkeypatch.setattr(notebooks, "FOLDER", Path("/srv/kit/notebooks"))
    with pytest.raises(CourseError, match=f"(?i)code cell 2.*{words}"):
        notebooks.fit_to_commit(executed(output), "full")


def test_the_fingerprint_follows_the_code_and_nothing_else():
    """Prose may be mended without a new run."""
    notebook = executed()
    before = notebooks.code_hash(notebook)

    notebook.cells.append(nbformat.v4.new_markdown_cell("prose"))
    assert notebooks.code_hash(notebook) == before
    notebook.cells[0].source = "a = 2"
    assert notebooks.code_hash(notebook) != before
