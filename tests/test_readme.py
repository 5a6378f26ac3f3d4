"""The front door: what it names exists, and what it says to type is understood."""

import base64
import re
import shlex
from pathlib import Path

import pytest

from helpers import cli, notebooks, parameters, runner

PROJECT = Path(__file__).resolve().parent.parent
README = (PROJECT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [line for language, block in BLOCKS if not language for line in block.splitlines() if line]


def test_the_table_names_every_notebook_with_its_question():
    """Only those that exist, in order, and each with the question of its first line."""
    rows = re.findall(r"^\| \[(\w+)\]\((notebooks/\w+\.ipynb)\) \| (.+) \|$", README, re.MULTILINE)

    assert [name for name, _, _ in rows] == [path.stem for path in notebooks.find()]
    for name, link, question in rows:
        assert link == f"notebooks/{name}.ipynb"
        assert notebooks.read(PROJECT / link).cells[0].source.splitlines()[0] == f"# {question}"


def test_links_and_pictures_exist():
    """Nothing on the first page may be broken."""
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", README) if not target.startswith("http")]

    assert len(targets) >= 5
    assert [target for target in targets if not (PROJECT / target).exists()] == []


def test_the_picture_is_the_one_stored_in_the_notebook():
    """`make refresh` writes both."""
    _, last = list(notebooks.pictures(notebooks.read(notebooks.find(["01"])[0])))[-1]

    assert (PROJECT / "notebooks" / "picture.png").read_bytes() == base64.b64decode(last)


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("make")])
def test_make_knows_the_words(line):
    """Every word that the README says is one of the Makefile."""
    word = line.split()[1]

    assert re.search(rf"^{word}:.*## ", (PROJECT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("line", [line for line in COMMANDS if "bin/course run" in line])
def test_the_examples_of_course_run_are_understood(line, monkeypatch):
    """Parsed by the real command, with real notebooks and parameters; only the run itself is left out."""
    calls = []
    monkeypatch.setattr(runner, "run", lambda *args: calls.append(args) or 0)

    assert cli.main(shlex.split(line)[1:]) == 0
    wanted, preset, given, _, _ = calls[0]
    assert notebooks.find(wanted) and preset in parameters.PRESETS
    for path in notebooks.find(wanted):
        assert set(given) <= set(runner.names_of(path))


@pytest.mark.parametrize("line", [line for line in COMMANDS if "papermill notebooks" in line])
def test_the_examples_of_papermill_name_real_parameters(line):
    """With values that the notebook accepts."""
    words = shlex.split(line)
    path = PROJECT / words[1]
    pairs = [words[place + 1 : place + 3] for place, word in enumerate(words) if word == "-p"]

    assert path.exists() and pairs
    for name, value in pairs:
        assert name in runner.names_of(path)
        parameters.check_value(notebooks.experiment(path), name, value)


@pytest.mark.parametrize("line", [line for line in COMMANDS if re.search(r"bin/course (compare|data|check)", line)])
def test_the_other_examples_of_course_are_understood(line):
    """Words and options that the command knows; nothing is run."""
    options = cli._parser().parse_args(shlex.split(line, comments=True)[1:])

    assert callable(options.call)
