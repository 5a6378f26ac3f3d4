"""Errors that a user can cause."""

import pytest
from IPython.core.interactiveshell import InteractiveShell

from helpers.errors import CourseError, DeviceError


def test_the_words_say_what_was_wrong_what_is_accepted_and_what_to_do():
    """All three parts are needed, in this order."""
    error = DeviceError("There is no GPU:0.", "Accepted is CPU:0.", "Set devices='CPU:0'.")

    assert str(error) == "There is no GPU:0. Accepted is CPU:0. Set devices='CPU:0'."
    with pytest.raises(TypeError):
        CourseError("only what was wrong")


def test_a_notebook_shows_the_words_without_a_page_of_traceback(capsys):
    """A student reads one line, not the insides of the helpers."""
    shell = InteractiveShell.instance()

    shell.run_cell("from helpers.devices import parse\nparse('cuda:0')")

    shown = capsys.readouterr().out
    assert shown.startswith("DeviceError: 'cuda:0' is not the name of a device.")
    assert "Traceback" not in shown and shown.count("\n") <= 2
    InteractiveShell.clear_instance()
