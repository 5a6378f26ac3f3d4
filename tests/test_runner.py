"""The runner on small notebooks of its own: real kernels, real papermill, and one broken notebook per fault."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from helpers import cli, notebooks, parameters, refresh, runner
from helpers.errors import CourseError

PARAMETERS = "preset = None  # str: preset\nseed = 0  # int: seed\nsizes = None  # list: sizes"
PICTURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
CODE = {
    "00_well": ["print('<script>well</script>', preset, sizes)", PICTURE],
    "01_raises": ["print('before')", "raise ValueError('<b>broken</b>\\nsecond line')", "print('never')"],
    "02_dies": ["import os, signal", "os.kill(os.getpid(), signal.SIGKILL)"],
    "03_well_too": ["print('the last one')"],
}


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A folder of small notebooks with the presets they need, and no others."""
    folder = tmp_path / "notebooks with a space"
    folder.mkdir()
    row = {"kind": "whole numbers", "least": 1, "quick": [1], "laptop": [2], "full": [3]}
    table = {}
    for name, sources in CODE.items():
        cells = [new_markdown_cell(f"# {name}"), new_code_cell(PARAMETERS, metadata={"tags": ["parameters"]})]
        cells += [new_code_cell(source) for source in sources]
        notebook = new_notebook(
            cells=cells, metadata={"kernelspec": notebooks.KERNEL, "language_info": {"name": "python"}}
        )
        (folder / f"{name}.ipynb").write_text(notebooks.as_text(notebook), encoding="utf-8")
        takes = {"takes": {"quick": 1, "laptop": 2, "full": 3}}
        table[name[3:]] = takes if name == "03_well_too" else {**takes, "sizes": row}
    monkeypatch.setattr(notebooks, "FOLDER", folder)
    monkeypatch.setattr(notebooks.find, "__defaults__", ((), folder))
    monkeypatch.setattr(parameters, "table", lambda: table)
    monkeypatch.setattr(runner, "RUNS", tmp_path / "runs")
    return folder


def run(out, *wanted, **options) -> int:
    options = {"preset": "quick", "given": {}, "resume": False} | options
    return runner.run(list(wanted), options["preset"], options["given"], out, options["resume"])


def states(out) -> dict[str, str]:
    return {row["name"]: row["state"] for row in json.loads((out / "run.json").read_text())["notebooks"]}


def test_a_run_goes_on_after_failures_and_ends_in_a_page(course, tmp_path, capfd):
    """A cell that raises and a kernel that dies are named; what ran is on disk, and the exit code says it."""
    out = tmp_path / "out {with} braces"

    code = run(out)

    assert code == 1
    assert list(states(out).values()) == ["passed", "failed", "failed", "passed"]
    printed = capfd.readouterr()
    lines = printed.out.splitlines()
    assert lines[0] == "00_well: started, about 0:01"
    assert re.fullmatch(r"00_well: passed in \d+\.\d s", lines[1])
    assert re.search(r"01_raises: failed in \d+\.\d s \(ValueError: <b>broken</b>\)", printed.out)
    assert "the kernel died in cell 5 of 5" in printed.out
    assert printed.err == ""
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "2 passed, 2 failed" in page
    assert "ValueError: &lt;b&gt;broken&lt;/b&gt;" in page and "<b>broken" not in page
    assert page.count('src="data:image/png;base64,iVBOR') == 1
    assert "usable cores" in page
    assert "never" not in str(notebooks.read(out / "01_raises.ipynb").cells[-1].outputs)
    for name in CODE:
        assert f'href="{name}.html"' in page
        assert "<html" in (out / f"{name}.html").read_text(encoding="utf-8")
    assert (out / "01_raises.html").read_text(encoding="utf-8").count("before") >= 1


@pytest.mark.long
def test_resume_skips_what_passed_with_the_same_code_and_values(course, tmp_path, capfd):
    """What failed, what changed, and what other values were asked for runs again."""
    out = tmp_path / "out"
    run(out, "00", "01", "03")
    source = course / "01_raises.ipynb"
    source.write_text(source.read_text(encoding="utf-8").replace("raise ValueError", "print"), encoding="utf-8")
    capfd.readouterr()

    code = run(out, "00", "01", "03", resume=True)

    printed = capfd.readouterr().out
    assert code == 0 and re.findall(r"(\w+): started", printed) == ["01_raises"]
    assert re.findall(r"(\w+): passed before, skipped", printed) == ["00_well", "03_well_too"]
    assert set(states(out).values()) == {"passed"}
    run(out, "00", "03", given={"sizes": "7"}, resume=True)
    assert re.findall(r"(\w+): started", capfd.readouterr().out) == ["00_well"]
    assert "quick 7" in str(notebooks.read(out / "00_well.ipynb").cells)


def test_a_notebook_that_is_cut_off_does_not_count_as_passed(course, tmp_path, monkeypatch):
    """A run that is killed leaves half a notebook where a whole one was: resume must run it again."""

    class Killed(BaseException):
        """Nothing of the runner's own comes after it."""

    def killed(*_args):
        raise Killed

    run(tmp_path, "03")
    monkeypatch.setattr(runner, "_execute", killed)
    with pytest.raises(Killed):
        run(tmp_path, "03")

    assert states(tmp_path) == {"03_well_too": "waiting"}


@pytest.mark.parametrize("resume", [True, False])
def test_the_page_keeps_the_notebooks_that_were_not_asked_for(course, tmp_path, resume):
    """It shows all that lies in the folder."""
    run(tmp_path, "00", "03")

    assert run(tmp_path, "03", resume=resume) == 0

    assert list(states(tmp_path).items()) == [("00_well", "passed"), ("03_well_too", "passed")]
    assert "00_well" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_kernel_that_cannot_start_is_a_failure_like_any_other(course, tmp_path, monkeypatch):
    """The run goes on, and the page is written."""

    def no_kernel(*_args, **_options):
        raise RuntimeError("Kernel died before replying to kernel_info")

    monkeypatch.setattr(runner.papermill, "execute_notebook", no_kernel)

    assert run(tmp_path, "00", "03") == 1
    assert set(states(tmp_path).values()) == {"failed"}
    assert "cannot be used: Kernel died before replying" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_ctrl_c_while_a_page_is_written_loses_nothing(course, tmp_path, monkeypatch):
    """The notebook counts as stopped, and runs again with --resume."""

    def stop(_path):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner.report, "write_html", stop)

    assert run(tmp_path, "03") == 130
    assert states(tmp_path) == {"03_well_too": "stopped"}


def test_a_damaged_state_is_said_and_everything_runs_again(course, tmp_path, capfd):
    """Half a run.json is no reason to stop."""
    (tmp_path / "run.json").write_text('{"notebooks": [')

    assert run(tmp_path, "03", resume=True) == 0
    assert "run.json is damaged" in capfd.readouterr().out


def test_a_relative_folder_for_records_is_meant_from_where_you_are(course, tmp_path, monkeypatch):
    """The kernel runs in the notebooks' folder, but the user typed the path somewhere else."""
    monkeypatch.chdir(tmp_path)

    row = runner._row(course / "00_well.ipynb", "quick", {"results_dir": "mine"})

    assert row["arguments"]["results_dir"] == str(tmp_path / "mine")


def test_relative_folders_to_read_are_meant_from_where_you_are(tmp_path, monkeypatch):
    """As those to write."""
    monkeypatch.chdir(tmp_path)
    (path,) = notebooks.find(["cpu_against_gpu"])

    assert runner._row(path, "quick", {"folders": "."})["arguments"]["folders"] == [str(tmp_path)]


@pytest.mark.parametrize("out", ["file", "file/deeper"])
def test_a_place_that_is_no_folder_is_refused_in_words(course, tmp_path, out):
    """No traceback from the file system."""
    (tmp_path / "file").write_text("I am a file")

    with pytest.raises(CourseError, match="cannot be written to.*--out runs/friday"):
        run(tmp_path / out, "03")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"given": {"szies": "3"}}, "no parameter 'szies'.*Did you mean 'sizes'"),
        ({"given": {"sizes": "abc"}}, "sizes = 'abc'"),
        ({"given": {"sizes": "0"}}, "sizes = 0"),
        ({"preset": "fast"}, "'fast' is not a preset"),
        ({"given": {"devices": "cuda:0"}}, "Did you mean 'GPU:0'"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_runs(course, tmp_path, options, words):
    """Papermill would warn and end well."""
    with pytest.raises(CourseError, match=words):
        run(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_a_run_never_overwrites_the_notebooks_themselves(course):
    """`--out notebooks` would replace what you edit."""
    before = (course / "03_well_too.ipynb").read_bytes()

    with pytest.raises(parameters.ParameterError, match="cannot be written to"):
        run(course, "03")
    assert (course / "03_well_too.ipynb").read_bytes() == before


def test_stopping_a_run_keeps_what_is_done(course, tmp_path, monkeypatch):
    """Ctrl-C writes the page of what there is, and says that it was stopped."""
    real = runner.papermill.execute_notebook

    def stop_at_the_second(path, *args, **options):
        if Path(path).stem != "00_well":
            raise KeyboardInterrupt
        return real(path, *args, **options)

    monkeypatch.setattr(runner.papermill, "execute_notebook", stop_at_the_second)

    assert run(tmp_path, "00", "01", "03") == 130
    assert list(states(tmp_path).values()) == ["passed", "stopped", "waiting"]
    assert "1 passed, 1 stopped, 1 waiting" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_a_terminal_sees_one_moving_line(capsys, monkeypatch):
    """Which notebook, which cell, how long, how much is left; wiped when the notebook has ended."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    now = iter(range(100))
    monkeypatch.setattr(runner.time, "monotonic", lambda: next(now))
    line = runner.Line({"01_sweep": 20.0, "02_other": 30.0})
    line.name, line.cell = "01_sweep", "starting"
    line.on_cell(3, 9)

    ticks = iter([False, True])
    line._done.wait = lambda _seconds: next(ticks)
    line._tick()
    seconds = line.end()

    shown = capsys.readouterr().out
    assert shown == "\033[2K\r01_sweep: cell 3 of 9, 0:00, about 0:50 left in all" + "\033[2K\r"
    assert seconds == 1 and line.expected == {"02_other": 30.0}


def test_refresh_stores_outputs_only_when_all_passed(course, tmp_path):
    """A failure leaves every notebook as it was."""
    before = (course / "03_well_too.ipynb").read_bytes()

    assert refresh.refresh(["01", "03"], "quick") == 1
    assert (course / "03_well_too.ipynb").read_bytes() == before
    assert refresh.refresh(["03"], "quick") == 0
    stored = notebooks.read(course / "03_well_too.ipynb")
    assert stored.metadata.course.preset == "quick" and "the last one" in str(stored.cells)


def test_the_command_line_says_what_is_wrong_in_one_line(capsys):
    """Exit code 2, words on stderr, and no traceback."""
    assert cli.main(["run", "01", "-p", "szies", "3"]) == 2
    assert cli.main(["run", "77"]) == 2
    assert cli.main(["run", "01", "--preset", "quick", "-p", "preset", "full"]) == 2

    captured = capsys.readouterr()
    assert captured.err.startswith("course: There is no parameter 'szies'.")
    assert "There is no notebook '77'" in captured.err and "Traceback" not in captured.err


def test_course_check_ends_with_0_on_a_machine_that_works():
    """The real command, in a terminal that knows ASCII only."""
    command = [sys.executable, "-c", "import sys; from helpers.cli import main; sys.exit(main(['check']))"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}

    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)

    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "[ ok ] CPU:0" in answer.stdout and answer.stdout.count("[fail]") == 0
