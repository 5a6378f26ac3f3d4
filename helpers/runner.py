"""Execute notebooks one after the other: go on after a failure, resume, write the report.

They never run side by side, because they measure.
"""

import base64
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

    def end(self, words: str) -> float:
        """Print how the notebook ended; return its seconds."""
        seconds = time.monotonic() - self.start
        self._done.set()
        self.expected.pop(self.name)
        print(f"{chr(27) + '[2K' + chr(13) if self.moving else ''}{self.name}: {words} in {seconds:.1f} s", flush=True)
        return seconds

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
    chosen = notebooks.find(wanted)
    preset = parameters.check_value("", "preset", preset) or parameters.preset_from_environment()
    plan = {path: _arguments(path, preset, given) for path in chosen}
    parameters.refuse_unknown(given, sorted({name for path in chosen for name in names_of(path)}))
    _check_out(out)
    state = _begin(plan, preset, given, out, resume)
    waiting = [row for row in state["notebooks"] if row["state"] != "passed"]
    line = Line({row["name"]: parameters.takes(row["name"][3:], preset) for row in waiting})
    paths = {path.stem: path for path in chosen}
    try:
        for row in waiting:
            _execute(paths[row["name"]], plan[paths[row["name"]]], out, row, line, CELL_LIMIT[preset])
            _save(state, out)
    except KeyboardInterrupt:
        row.update(state="stopped", error="stopped by the keyboard")
        line.end("stopped")
    _save(state, out)
    index = report.write_index(state, out)
    print(f"{report.summary(state['notebooks'])} Look at {index}")
    states = {row["state"] for row in state["notebooks"]}
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


def _arguments(path: Path, preset: str, given: dict[str, str]) -> dict[str, str]:
    """Return what papermill injects into one notebook, after a look at every value."""
    mine = {name: value for name, value in given.items() if name in names_of(path)}
    for name, value in mine.items():
        parameters.check_value(notebooks.experiment(path), name, value)
    return {"preset": preset, **mine}


def _check_out(out: Path) -> None:
    if out.resolve() == notebooks.FOLDER or (out.exists() and not out.is_dir()):
        raise ParameterError(
            f"Executed notebooks cannot be written to {out}.",
            "A folder of their own is needed, or they would replace what you read and edit.",
            "Use --out runs/friday, for example.",
        )


def _begin(plan: dict, preset: str, given: dict, out: Path, resume: bool) -> dict:
    """Return the state of the run; with `resume`, what passed before with the same code and values stays."""
    out.mkdir(parents=True, exist_ok=True)
    kept = {}
    if resume and (out / "run.json").exists():
        before = json.loads((out / "run.json").read_text(encoding="utf-8"))
        kept = {row["name"]: row for row in before["notebooks"] if row["state"] == "passed"}
    rows = []
    for path, arguments in plan.items():
        fresh = {"name": path.stem, "state": "waiting", "seconds": None, "error": "", "html": ""}
        fresh |= {"code": notebooks.code_hash(notebooks.read(path)), "arguments": arguments}
        old = kept.get(path.stem, {})
        same = all(old.get(key) == fresh[key] for key in ("code", "arguments"))
        rows.append(old if same and (out / path.name).exists() else fresh)
    started = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return {"started": started, "preset": preset, "parameters": given, "notebooks": rows}


def _execute(path: Path, arguments: dict, out: Path, row: dict, line: Line, limit: float) -> None:
    """Run one notebook and note in `row` how it ended; whatever it did is on disk and as a page."""
    target = out / path.name
    target.unlink(missing_ok=True)
    line.begin(path.stem)
    try:
        with _kernel_log(out / "kernels.log"):
            papermill.execute_notebook(
                path,
                str(target.resolve()).replace("{", "{{").replace("}", "}}"),  # papermill fills in {names} in a path
                parameters=arguments,
                engine_name="course",
                kernel_name="python3",
                cwd=notebooks.FOLDER,
                progress_bar=False,
                execution_timeout=limit,
                on_cell=line.on_cell,
            )
        row.update(state="passed", error="")
    except PapermillExecutionError as error:
        row.update(state="failed", error=f"{error.ename}: {error.evalue}".splitlines()[0])
    except nbclient.exceptions.DeadKernelError:
        row.update(state="failed", error=f"the kernel died in {line.cell}; often the memory was used up")
    except nbclient.exceptions.CellTimeoutError:
        row.update(state="failed", error=f"{line.cell} did not end within {limit:.0f} s")
    row["seconds"] = line.end(row["state"] if row["state"] == "passed" else f"failed ({row['error']})")
    if target.exists():
        row["html"] = report.write_html(target).name


def _save(state: dict, out: Path) -> None:
    draft = out / ".run.json.part"
    draft.write_text(json.dumps(state, indent=1), encoding="utf-8")
    os.replace(draft, out / "run.json")


def refresh(wanted: list[str], preset: str = "full") -> int:
    """Execute notebooks on clean kernels and store them with their outputs, fit to be committed."""
    chosen = notebooks.find(wanted)
    out = notebooks.FOLDER.parent / "runs" / "refresh"
    code = run([path.stem for path in chosen], preset, {}, out, resume=False)
    if code == 0:
        for path in chosen:
            fit = notebooks.fit_to_commit(notebooks.read(out / path.name), preset)
            path.write_text(notebooks.as_text(fit), encoding="utf-8")
            if notebooks.experiment(path) == "matmul_sweep":  # its last picture is the one of the README
                front = base64.b64decode(list(notebooks.pictures(fit))[-1])
                path.with_name("picture.png").write_bytes(front)
    return code
