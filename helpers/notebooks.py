"""The notebooks as files: find them, read their parameters, and make them fit to be committed."""

import base64
import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import nbformat

from helpers.errors import CourseError, ParameterError

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(?:home|root|tmp|usr|opt|mnt|var|Users)/|[A-Z]:\\\\?(?:Users|Windows)")
PYTHON_WARNING = re.compile(r"\b\w*Warning\b: ")


def find(wanted: Sequence[str] = (), folder: Path = FOLDER) -> list[Path]:
    """Return the notebooks that `wanted` names ("01", "matmul_sweep" or a file name), in order; all for none."""
    every = sorted(folder.glob("[0-9][0-9]_*.ipynb"))
    chosen = set()
    for name in wanted:
        stem = Path(name).name.removesuffix(".ipynb")
        stem = stem.zfill(2) if stem.isdigit() else stem
        matches = [path for path in every if stem in (path.stem, path.stem[:2], experiment(path))]
        if not matches:
            raise ParameterError(
                f"There is no notebook {name!r}.",
                f"There are {', '.join(path.stem for path in every)}.",
                "Give the number, 01 for example.",
            )
        chosen.update(matches)
    return [path for path in every if path in chosen] if wanted else every


def experiment(path: Path) -> str:
    """Return the notebook's name without its number."""
    return path.stem[3:]


def read(path: Path) -> nbformat.NotebookNode:
    """Read a notebook, or say which file is damaged."""
    try:
        return nbformat.read(path, as_version=4)
    except (ValueError, nbformat.reader.NotJSONError) as error:
        raise CourseError(
            f"{path.name} is not a notebook: {str(error).splitlines()[0]}.",
            "A notebook is one JSON file; marks of an unfinished merge (<<<<<<<) break it.",
            f"Bring it back with: git checkout -- notebooks/{path.name}",
        ) from error


def as_text(notebook: nbformat.NotebookNode) -> str:
    """Return a notebook as the text of its file."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tags(cell: nbformat.NotebookNode) -> list[str]:
    return cell.metadata.get("tags", [])


def code_hash(notebook: nbformat.NotebookNode) -> str:
    """Return a fingerprint of the code alone: outputs stored with another one are out of date."""
    text = "\n\0".join(cell.source for cell in code_cells(notebook))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def pictures(notebook: nbformat.NotebookNode) -> Iterable[tuple[str, str]]:
    """Yield the PNG pictures of a notebook's outputs, without those of the solutions: (heading above, base64)."""
    heading = ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            heading = ([heading] + re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE))[-1]
        elif cell.cell_type == "code" and "solution" not in tags(cell):
            for output in cell.outputs:
                if "image/png" in output.get("data", {}):
                    yield heading, output["data"]["image/png"].replace("\n", "")


def fit_to_commit(executed: nbformat.NotebookNode, preset: str) -> nbformat.NotebookNode:
    """Return an executed notebook as it is stored: nothing of the author's machine but what cells print.

    Removes what papermill and Jupyter note about the run, the cell that papermill injected, and
    TensorFlow's log lines on stderr. Raises `CourseError` for a Python warning or an absolute path.
    """
    cells = [cell for cell in executed.cells if "injected-parameters" not in tags(cell)]
    for count, cell in enumerate((cell for cell in cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
        cell.outputs = [_checked(output, count) for output in cell.outputs if not _is_log(output, count)]
        for output in cell.outputs:
            output.get("data", {}).pop("text/latex", None)  # a second copy of highlighted source
            if "image/png" in output.get("data", {}):
                output.data["image/png"] = _with_palette(output.data["image/png"])
            if output.output_type == "execute_result":
                output.execution_count = count
    for cell in cells:
        for key in ("papermill", "execution"):
            cell.metadata.pop(key, None)
        if not tags(cell):
            cell.metadata.pop("tags", None)  # papermill adds an empty list
    executed.cells = cells
    executed.metadata = nbformat.from_dict(
        {
            "kernelspec": KERNEL,
            "language_info": {"name": "python"},
            "course": {"preset": preset, "code_sha256": code_hash(executed)},
        }
    )
    return executed


def _with_palette(picture: str) -> str:
    """Return a PNG, in base64, with 256 colours at most: a third of its size, and the same to the eye."""
    from PIL import Image

    image, smaller = Image.open(io.BytesIO(base64.b64decode(picture))), io.BytesIO()
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(smaller, "PNG", optimize=True)
    return base64.b64encode(smaller.getvalue()).decode("ascii")


def _is_log(output: nbformat.NotebookNode, count: int) -> bool:
    """Tell TensorFlow's log lines (dropped) from warnings of Python, which are ours to mend."""
    if output.output_type != "stream" or output.name != "stderr":
        return False
    if PYTHON_WARNING.search(output.text):
        raise CourseError(f"Code cell {count} warns: {output.text.strip()}", "None may.", "Mend the cell.")
    return True


def _checked(output: nbformat.NotebookNode, count: int) -> nbformat.NotebookNode:
    texts = [output.get("text", "")] + [v for k, v in output.get("data", {}).items() if k.startswith("text/")]
    for text in texts:
        if ABSOLUTE_PATH.search(text) or str(FOLDER.parent) in text or "\r" in text:
            raise CourseError(
                f"Code cell {count} stores a path of this machine or a progress bar: {text.strip()[:200]}",
                "A stored output holds neither.",
                "Show the name of the file alone, or use helpers.progress.",
            )
    return output
