"""The pages of a run: every executed notebook as HTML, and `index.html` to look at first."""

import sys
from pathlib import Path

from helpers import machine, notebooks
from helpers.errors import ParameterError


def write_html(notebook: Path) -> Path:
    """Write an executed notebook as one HTML page beside it."""
    from nbconvert import HTMLExporter

    page, _ = HTMLExporter(template_name="lab").from_notebook_node(notebooks.read(notebook))
    target = notebook.with_suffix(".html")
    target.write_text(page, encoding="utf-8")
    return target


def write_index(run: dict, out: Path) -> Path:
    """Write `index.html`: each notebook's state, seconds and error, its pictures, and the machine.

    `run` is what the runner keeps in run.json: `started`, and a row for each notebook.
    """
    from jinja2 import Environment

    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    rows = run["notebooks"]
    pictures = {
        row["name"]: list(notebooks.pictures(notebooks.read(out / f"{row['name']}.ipynb"))) if row["html"] else []
        for row in rows
    }
    page = Environment(autoescape=True).from_string(template)
    target = out / "index.html"
    text = page.render(run=run, pictures=pictures, machine=_machine(), summary=summary(rows))
    target.write_text(text, encoding="utf-8")
    return target


def write_comparison(found, target: Path) -> Path:
    """Write the chapter's table (a `compare.Chapter`) as one page with its picture; all text is escaped.

    Raises `ParameterError` for a file that is no page, or that cannot be written.
    """
    import base64
    import io

    import matplotlib.pyplot as plt
    from jinja2 import Environment

    from helpers import plots, training_plots

    plots.use_style()
    axes = plots.new_axes(2, height=1.5 + 0.5 * len(found.rows))
    training_plots.fifteen_epochs(found.rows, axes)
    picture = io.BytesIO()
    axes[0].figure.savefig(picture, format="png", bbox_inches="tight")
    plt.close(axes[0].figure)
    table = found.table()
    page = Environment(autoescape=True).from_string(
        Path(__file__).with_name("comparison.html.j2").read_text(encoding="utf-8")
    )
    text = page.render(
        columns=list(table.columns),
        rows=table.values.tolist(),
        lines=[*found.reductions(), f"Runs not shown: {found.left_out}."],
        problems=found.problems,
        picture=base64.b64encode(picture.getvalue()).decode(),
    )
    problem = "" if target.suffix in (".html", ".htm") else "its name does not end in .html"
    try:
        if not problem:
            target.write_text(text, encoding="utf-8")
            return target
    except OSError as error:
        problem = error.strerror
    raise ParameterError(
        f"The page cannot be written to {target}: {problem}.",
        "Accepted is the name of a page in a folder that exists.",
        "Use --html class.html, for example.",
    )


def summary(rows: list[dict]) -> str:
    """Say in one sentence how the run ended."""
    states = [row["state"] for row in rows]
    if states.count("passed") == len(states):
        return f"Passed: {', '.join(row['name'] for row in rows)}."
    kinds = [state for state in ("passed", "failed", "stopped", "waiting") if state in states]
    counts = [f"{states.count(state)} {state}" for state in kinds]
    return f"Of {len(states)} notebook{'s' * (len(states) > 1)}: {', '.join(counts)}."


def _machine() -> dict[str, str]:
    """Describe this machine without loading TensorFlow."""
    here = machine.describe()
    names = ("tensorflow", "tensorflow-cpu", "keras", "numpy")
    found = [f"{name} {version}" for name in names if (version := machine.installed_version(name))]
    return {
        "processor": f"{here['cpu']}, {here['usable_cpus']} usable cores",
        "memory": f"{here['memory_bytes'] / 1e9:.0f} GB",
        "GPUs": ", ".join(here["gpus"]) or "none found",
        "system": here["system"],
        "software": ", ".join([f"Python {sys.version.split()[0]}", *found]),
    }
