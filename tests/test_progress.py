"""The moving line: there while it runs, gone afterwards."""

import nbclient
import nbformat

from helpers.progress import progress


def test_outside_a_notebook_the_line_goes_to_stderr_and_is_wiped(capsys):
    """Results on stdout stay clean."""
    assert list(progress([1, 2, 3], "numbers")) == [1, 2, 3]

    captured = capsys.readouterr()
    assert captured.out == ""
    assert "numbers" in captured.err and captured.err.endswith("\r")


def test_in_a_notebook_nothing_of_it_is_stored():
    """Not in the output of its own cell, and no carriage return anywhere; a break cleans up as well."""
    code = [
        "from helpers.progress import progress",
        "total = 0\nfor number in progress([1, 2, 3], 'numbers'):\n    total += number",
        "for number in progress([1, 2, 3], 'numbers'):\n    break\nprint('after')",
        "print(total)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in code])

    nbclient.NotebookClient(notebook, kernel_name="python3", timeout=60).execute()

    assert notebook.cells[1].outputs == []
    assert notebook.cells[3].outputs[0]["text"] == "6\n"
    assert "numbers" not in str(notebook.cells[1].outputs)
