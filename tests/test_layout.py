"""The house rules: who may import whom, and what must stay asleep."""

import ast
from pathlib import Path

HELPERS = Path(__file__).parent.parent / "helpers"
# A helper imports only helpers that stand above it.
ORDER = [
    "errors",
    "machine",
    "places",
    "meeting",
    "devices",
    "timing",
    "traces",
    "profiles",
    "comparing",
    "ceilings",
    "hardware",
    "memory",
    "parameters",
    "progress",
    "examples",
    "pieces",
    "work",
    "costs",
    "datasheet",
    "literature",
    "published",
    "image_files",
    "download",
    "stand_ins",
    "datasets",
    "models",
    "counting",
    "evaluation",
    "layers",
    "fused",
    "tasks",
    "training",
    "ways",
    "strategies",
    "replicas",
    "workloads",
    "elsewhere",
    "resolvers",
    "checkpoints",
    "processes",
    "cluster",
    "worker",
    "launched",
    "levers",
    "anatomy",
    "conditions",
    "results",
    "probes",
    "calibrate",
    "predict",
    "scoring",
    "scaling",
    "chapter",
    "chapter_rows",
    "compare",
    "beside",
    "plots",
    "training_plots",
    "profile_plots",
    "lever_plots",
    "prediction_plots",
    "scaling_plots",
    "loading",
    "forecast",
    "replies",
    "basic_checkers",
    "network_checkers",
    "lever_checkers",
    "prediction_checkers",
    "scaling_checkers",
    "exercises",
    "probe",
    "doctor",
    "notebooks",
    "report",
    "runner",
    "refresh",
    "cli",
]


def imports_of(path: Path) -> set[str]:
    """Return the names of the helpers that a module imports, wherever in its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "helpers":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("helpers."):
            found.add(node.module.split(".")[1])
    return found


def test_every_module_has_its_place():
    """A new module must be given a place in the order."""
    assert {path.stem for path in HELPERS.glob("*.py")} == {*ORDER, "__init__"}


def test_helpers_import_only_what_stands_above_them():
    """Arrows point one way, so a module can be understood from those above it."""
    backwards = [
        f"{name} imports {other}"
        for place, name in enumerate(ORDER)
        for other in imports_of(HELPERS / f"{name}.py")
        if other not in ORDER[:place]
    ]

    assert imports_of(HELPERS / "cli.py") >= {"doctor", "runner"}  # the search itself finds something
    assert backwards == []


def test_the_command_line_starts_without_the_heavy_libraries(python):
    """`course --help` is instant because it loads nothing it does not need."""
    code = """
import contextlib, sys
import helpers
from helpers import cli
with contextlib.suppress(SystemExit):
    cli.main(["--help"])
print([name for name in ("tensorflow", "keras", "numpy", "pandas", "matplotlib", "papermill") if name in sys.modules])
"""
    printed = python(code)

    assert "usage: course" in printed
    assert printed.splitlines()[-1] == "[]"


def test_importing_every_helper_starts_no_device(python):
    """Threads, visible devices and logical devices can still be set afterwards: TensorFlow sleeps."""
    code = f"""
import importlib, sys
for name in {ORDER}:
    importlib.import_module("helpers." + name)
print("tensorflow" in sys.modules)
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1)
cpu = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(cpu[0], [tf.config.LogicalDeviceConfiguration()] * 2)
tf.config.set_visible_devices(cpu)
for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)
print(len(tf.config.list_logical_devices("CPU")), tf.config.threading.get_intra_op_parallelism_threads())
"""
    assert python(code).split() == ["False", "2", "1"]
