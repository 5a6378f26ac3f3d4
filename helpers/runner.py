"""Execute notebooks one after the other: go on after a failure, resume, write the report.

They never run side by side, because they measure.
"""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

import nbclient.exceptions
import papermill
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError

from helpers import notebooks, parameters, report
from helpers.errors import ParameterError

RUNS = parameters.PROJECT / "runs"
CELL_LIMIT = {"quick": 300, "laptop": 3600, "full": 4 * 3600}  # seconds; a hanging cell must end some time


class _Engine(NBClientEngine):
    """papermill's own engine, which also tells which cell is about to run."""

    @classmethod
    def execute_managed_notebook(cls, nb_man, kernel_name, on_cell=None, **options):
        start = nb_man.cell_start

        def cell_start(cell, cell_index=None, **more):
            on_cell(cell_index + 1, len(nb_man.nb.cells))
            return start(cell, cell_index, **more)

        nb_man.cell_start = cell_start
        return super().execute_managed_notebook(nb_man, kernel_name, **options)


papermill_engines.register("course", _Engine)


class Line:
    """What is running, in which cell, for how long, how much is left: moving in a terminal, else a few lines."""

    def __init__(self, expected: dict[str, float]):
        self.expected = expected  # seconds for each notebook still to run
        self.moving = sys.stdout.isatty()
        self.name, self.cell, self.start = "", "starting", 0.0
        self._done = threading.Event()

    def begin(self, name: str) -> None:
        self.name, self.cell, self.start = name, "starting", time.monotonic()
        if self.moving:
            self._done.clear()
            threading.Thread(target=self._tick, daemon=True).start()
        else:
            print(f"{name}: started, about {_clock(self.expected[name])}", flush=True)

    def on_cell(self, number: int, total: int) -> None:
        self.cell = f"cell {number} of {total}"

    def end(self) -> float:
        """Stop the line and return the notebook's seconds."""
        self._done.set()
        self.expected.pop(self.name, None)
        print("\033[2K\r" if self.moving else "", end="", flush=True)
        return time.monotonic() - self.start

    def _tick(self) -> None:
        while not self._done.wait(0.5):
            elapsed = time.monotonic() - self.start
            left = max(sum(self.expected.values()) - elapsed, 0)
            text = f"{self.name}: {self.cell}, {_clock(elapsed)}, about {_clock(left)} left in all"
            print(f"\033[2K\r{text}", end="", flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def run(wanted: list[str], preset: str | None, given: dict[str, str], out: Path, resume: bool) -> int:
    """Execute notebooks into `out` and write their pages; return the exit code: 0, 1 failed, 130 stopped.

    `given` are parameters as text. Each goes to the notebooks that have it; a name that none has, or a
    value that one refuses, raises `ParameterError` before anything runs.
    """
    paths = {path.stem: path for path in notebooks.find(wanted)}
    preset = parameters.check_value("", "preset", preset) or parameters.preset_from_environment()
    parameters.refuse_unknown(given, sorted({name for path in paths.values() for name in names_of(path)}))
    plan = [_row(path, preset, given) for path in paths.values()]
    _make_folder(out)
    for name in ("COURSE_RESULTS", "COURSE_DATA"):  # kernels run in another folder
        if os.environ.get(name):
            os.environ[name] = str(Path(os.environ[name]).expanduser().absolute())
    rows = _take_up(plan, out, resume)
    started = _now()
    state = {"started": started, "notebooks": rows}
    waiting = []
    for row in [row for row in rows if row["name"] in paths]:
        if row["state"] == "passed":
            print(f"{row['name']}: passed before, skipped")
        else:
            waiting.append(row)
    line = Line({row["name"]: parameters.takes(row["name"][3:], preset) for row in waiting})
    _save(state, out)  # from now on nothing counts as passed that is about to be overwritten
    try:
        for row in waiting:
            _execute(paths[row["name"]], out, row, line, CELL_LIMIT[preset])
            _save(state, out)
    except KeyboardInterrupt:
        line.end()
        row.update(state="stopped", error="stopped by the keyboard")
    _save(state, out)
    index = report.write_index(state, out)
    states = {row["state"] for row in rows if row["name"] in paths}
    print(f"{report.summary(rows)} Look at {index}")
    if states != {"passed"}:
        print("With --resume the same command runs only what has not passed.")
    return 130 if "stopped" in states else int("failed" in states)


@contextmanager
def _kernel_log(path: Path) -> Iterator[None]:
    """Send what kernels print below Python, TensorFlow's log lines above all, into a file.

    Kernels inherit the terminal's stderr; their lines would tear up the progress line.
    """
    sys.stderr.flush()
    terminal = os.dup(2)
    with open(path, "a", encoding="utf-8") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)


def names_of(path: Path) -> list[str]:
    """Return the parameters of a notebook."""
    return [*parameters.COMMON, *parameters.own(notebooks.experiment(path))]


def _row(path: Path, preset: str, given: dict[str, str]) -> dict:
    """Return what run.json holds of a notebook before it runs, after a look at every value."""
    arguments = {"preset": preset}
    for name in [name for name in given if name in names_of(path)]:
        value = parameters.check_value(notebooks.experiment(path), name, given[name])
        # The kernel runs in another folder than the one a relative path was meant from.
        paths = {"results_dir": str, "folders": lambda found: [str(path) for path in found]}
        arguments[name] = paths[name](value) if name in paths and value is not None else given[name]
    code = notebooks.code_hash(notebooks.read(path)) + _helpers_hash()
    row = {"name": path.stem, "state": "waiting", "when": "", "seconds": None, "error": "", "html": ""}
    return {**row, "code": code, "arguments": arguments}


def _helpers_hash() -> str:
    """Return a fingerprint of the helpers and their presets: a change there calls for a new run as well."""
    files = sorted(path for path in Path(__file__).parent.iterdir() if path.is_file())
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _make_folder(out: Path) -> None:
    """Make the folder for the executed notebooks, which is not the one that you read and edit."""
    problem = "executed notebooks would replace the ones that you read"
    try:
        out.mkdir(parents=True, exist_ok=True)
        if not out.samefile(notebooks.FOLDER):
            return
    except OSError as error:
        problem = error.strerror
    raise ParameterError(
        f"Executed notebooks cannot be written to {out}: {problem}.",
        "A folder of their own is needed, in which you may write.",
        "Use --out runs/friday, for example.",
    )


def _take_up(plan: list[dict], out: Path, resume: bool) -> list[dict]:
    """Return the rows of a page: those of the plan, and of every other notebook that lies in the folder.

    With `resume`, what passed before by the same code with the same values stays as it is.
    """
    rows = {}
    if (out / "run.json").exists():
        try:
            before = json.loads((out / "run.json").read_text(encoding="utf-8"))["notebooks"]
            rows = {row["name"]: row for row in before if (out / f"{row['name']}.ipynb").exists()}
        except (ValueError, KeyError, TypeError):
            print(f"{out / 'run.json'} is damaged: what ran before is not known any more.")
    for row in plan:
        old = rows.get(row["name"], {})
        same = all(old.get(key) == row[key] for key in ("code", "arguments"))
        rows[row["name"]] = old if resume and same and old["state"] == "passed" else row
    return [rows[name] for name in sorted(rows)]


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def _execute(path: Path, out: Path, row: dict, line: Line, limit: float) -> None:
    """Run one notebook and note in `row` how it ended; whatever it did is on disk and as a page."""
    target = out / path.name
    target.unlink(missing_ok=True)
    line.begin(path.stem)
    state, problem = "failed", ""
    try:
        with _kernel_log(out / "kernels.log"):
            papermill.execute_notebook(
                _literal(path),
                _literal(target.resolve()),
                parameters=row["arguments"],
                engine_name="course",
                kernel_name="python3",
                cwd=notebooks.FOLDER,
                progress_bar=False,
                execution_timeout=limit,
                on_cell=line.on_cell,
            )
        state = "passed"
    except PapermillExecutionError as error:
        problem = f"{error.ename}: {error.evalue}".splitlines()[0]
    except nbclient.exceptions.DeadKernelError:
        problem = f"the kernel died in {line.cell}; often the memory was used up"
    except nbclient.exceptions.CellTimeoutError:
        problem = f"{line.cell} did not end within {limit:.0f} s"
    except (RuntimeError, OSError) as error:
        problem = f"the kernel cannot be used: {error}".splitlines()[0]
    seconds = line.end()
    if target.exists():
        row["html"] = report.write_html(target).name
    row.update(state=state, error=problem, seconds=seconds, when=_now())
    print(f"{path.stem}: {state} in {seconds:.1f} s{f' ({problem})' if problem else ''}", flush=True)


def _literal(path: Path) -> str:
    """Return a path as papermill takes it: it fills in {names}."""
    return str(path).replace("{", "{{").replace("}", "}}")


def _save(state: dict, out: Path) -> None:
    draft = out / ".run.json.part"
    draft.write_text(json.dumps(state, indent=1), encoding="utf-8")
    os.replace(draft, out / "run.json")
