"""Every notebook as a file: its shape, its tags, its stored outputs. No kernel is started."""

import base64
import re

import pytest
from papermill import inspect_notebook

from helpers import notebooks, parameters

PATHS = notebooks.find()
every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
# What cells below may show only if they are not compared: it differs from machine to machine.
COMPARED = "nbval-ignore-output"


@pytest.fixture
def notebook(path):
    return notebooks.read(path)


def test_there_are_notebooks_and_each_has_its_presets():
    """Folder and presets.toml name the same experiments."""
    assert [notebooks.experiment(path) for path in PATHS] == list(parameters.table())


@every_notebook
def test_shape(notebook):
    """One H1 with the question first; set-up, exercises, what was learned and further reading, in order."""
    text = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    headings = re.findall(r"^(#{1,2}) (.+)$", "\n\n".join(text), re.MULTILINE)

    assert notebook.cells[0].source.startswith("# ") and "?" in notebook.cells[0].source.splitlines()[0]
    assert "You will be able to:" in notebook.cells[0].source
    assert [title for level, title in headings if level == "#"] == [notebook.cells[0].source.splitlines()[0][2:]]
    sections = [title for level, title in headings if level == "##"]
    assert sections[0] == "Set-up"
    assert sections[-3:] == ["Exercises", "What you learned", "Further reading"]
    assert all(f"**{step}.**" in "\n".join(text) for step in ("Predict", "Run", "Look", "Explain"))


@every_notebook
def test_the_stated_time_is_that_of_the_presets(path, notebook):
    """The reader and the runner's progress line are told the same."""
    takes = parameters.table()[notebooks.experiment(path)]["takes"]
    stated = ", ".join(f"{takes[preset]} s at `{preset}`" for preset in parameters.PRESETS)

    assert f"**Time** on 2 cores: about {stated}." in notebook.cells[0].source


@every_notebook
def test_parameters_are_visible_to_papermill(path, notebook):
    """Exactly one tagged cell; name, type and help of each; None leaves the choice to the preset."""
    tagged = [cell for cell in notebook.cells if "parameters" in notebooks.tags(cell)]
    names = [*parameters.COMMON, *parameters.own(notebooks.experiment(path))]

    found = inspect_notebook(path)

    assert tagged == [notebooks.code_cells(notebook)[0]]
    assert sorted(found) == sorted(names)
    assert tagged[0].source.count(" = ") == len(names)
    for name, entry in found.items():
        assert re.match(r"(str|int|float|list): \w*", entry["help"])
        assert entry["default"] == ("0" if name == "seed" else "None")


@every_notebook
def test_every_parameter_is_checked_in_the_next_cell(path, notebook):
    """A parameter that is forgotten there would be ignored in silence."""
    source = notebooks.code_cells(notebook)[1].source

    assert f'"{notebooks.experiment(path)}"' in source and "parameters.check(" in source
    for name in [*parameters.COMMON, *parameters.own(notebooks.experiment(path))]:
        assert f"{name}={name}" in source


@every_notebook
def test_size(path, notebook):
    """At most 300 lines of code, 400 KB, and no cell that must be scrolled, down or sideways, to be read."""
    lines = [len(cell.source.splitlines()) for cell in notebooks.code_cells(notebook)]
    widest = max(len(line) for cell in notebooks.code_cells(notebook)[1:] for line in cell.source.splitlines())

    assert sum(lines) <= 300 and max(lines) <= 30 and widest <= 100
    assert path.stat().st_size < 400_000


@every_notebook
def test_tags_are_known_and_solutions_are_folded(notebook):
    """A misspelt tag would be ignored by every tool."""
    for cell in notebook.cells:
        assert set(notebooks.tags(cell)) <= {"parameters", "solution", COMPARED}
        assert set(cell.metadata) <= {"tags", "jupyter"}
        folded = {"source_hidden": True, "outputs_hidden": True} if "solution" in notebooks.tags(cell) else {}
        assert cell.metadata.get("jupyter", {}) == folded


@every_notebook
def test_exercises_come_with_a_folded_solution(notebook):
    """Two or three of them, each open when the notebook is opened."""
    cells = notebooks.code_cells(notebook)
    asked = [place for place, cell in enumerate(cells) if cell.source.startswith("answer = ...")]

    assert len(asked) in (2, 3)
    for place in asked:
        assert re.search(r'exercises\.check\("\d\d-\d", answer\)$', cells[place].source)
        assert "solution" in notebooks.tags(cells[place + 1])
        assert not notebooks.tags(cells[place])


@every_notebook
def test_outputs_are_those_of_a_full_run_of_this_code(notebook):
    """`make refresh` stamps them; a cell that was edited since makes them stale."""
    counts = [cell.execution_count for cell in notebooks.code_cells(notebook)]

    assert counts == list(range(1, len(counts) + 1))
    assert notebook.metadata["course"] == {"preset": "full", "code_sha256": notebooks.code_hash(notebook)}


@every_notebook
def test_outputs_hold_nothing_of_the_authors_machine(notebook):
    """No stderr, error, path, progress bar or widget; pictures as PNG, and only where nothing is compared."""
    assert notebook.metadata["kernelspec"] == notebooks.KERNEL
    assert set(notebook.metadata) == {"kernelspec", "language_info", "course"}
    for cell in notebooks.code_cells(notebook):
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data", "execute_result")
            assert output.get("name", "stdout") == "stdout"
            kinds = set(output.get("data", {}))
            assert kinds <= {"text/plain", "text/html", "image/png"}
            assert not kinds & {"text/html", "image/png"} or COMPARED in notebooks.tags(cell)
            texts = [text for kind, text in output.get("data", {}).items() if kind != "image/png"]
            for text in [output.get("text", ""), *texts]:
                assert not notebooks.ABSOLUTE_PATH.search(text)
                assert "\r" not in text and "|#" not in text and "it/s" not in text


@every_notebook
def test_pictures_are_pictures(notebook):
    """At least one, and each begins as a PNG does."""
    found = list(notebooks.pictures(notebook))

    assert found
    assert all(base64.b64decode(picture)[:8] == b"\x89PNG\r\n\x1a\n" for _, picture in found)
    assert all(heading for heading, _ in found)


@every_notebook
def test_something_is_compared(notebook):
    """A notebook in which every output is ignored passes whatever it prints."""
    compared = [c for c in notebooks.code_cells(notebook) if c.outputs and COMPARED not in notebooks.tags(c)]

    assert sum("print(" in cell.source for cell in compared) >= 2
    assert any("Every result ran on the device asked for: True" in str(cell.outputs) for cell in compared)


@every_notebook
def test_prose_quotes_no_measured_time(notebook):
    """Numbers of one machine belong into variables, tables and pictures; stated times are in the first cell."""
    prose = "\n".join(cell.source for cell in notebook.cells[1:] if cell.cell_type == "markdown")

    assert not re.search(r"\d\s?(ms|µs|ns|GFLOP/s|TFLOP/s|GB/s)\b", prose)
    assert not re.search(r"[\U0001F300-\U0001FAFF\u2600-\u27BF]", prose)
