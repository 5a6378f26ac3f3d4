"""The two environments: conda files, extras and constraints say the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from helpers.parameters import tomllib

PROJECT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PYPROJECT["optional-dependencies"]
LINES = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
PINNED = [Requirement(line) for line in LINES if not line.startswith("#")]
PLATFORMS = {
    "Linux x86-64": {"sys_platform": "linux", "platform_machine": "x86_64"},
    "Linux aarch64": {"sys_platform": "linux", "platform_machine": "aarch64"},
    "Windows": {"sys_platform": "win32", "platform_machine": "AMD64"},
    "macOS": {"sys_platform": "darwin", "platform_machine": "arm64"},
}


def chosen(extra: str, platform: str) -> list[str]:
    """Return the packages that an extra asks for on a platform, with their own extras."""
    wanted = [Requirement(text) for text in EXTRAS[extra]]
    here = [item for item in wanted if item.marker is None or item.marker.evaluate(PLATFORMS[platform])]
    return [item.name + (f"[{','.join(item.extras)}]" if item.extras else "") for item in here]


@pytest.mark.parametrize(
    ("platform", "cpu", "gpu"),
    [
        ("Linux x86-64", ["tensorflow-cpu"], ["tensorflow[and-cuda]"]),
        ("Windows", ["tensorflow-cpu"], []),
        ("Linux aarch64", ["tensorflow"], ["tensorflow[and-cuda]"]),
        ("macOS", ["tensorflow"], []),
    ],
)
def test_each_platform_gets_the_wheel_that_exists_for_it(platform, cpu, gpu):
    """Exactly one TensorFlow for the CPU everywhere; CUDA on Linux alone."""
    assert chosen("cpu", platform) == cpu
    assert chosen("gpu", platform) == gpu


def test_constraints_hold_names_and_versions_alone():
    """No address, no path, no hash; at most the Python that a version is for."""
    for line in LINES:
        assert line.startswith("# ") or re.fullmatch(
            r"[a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*(; python_version (>=|<) '3\.11')?", line
        ), line


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13"])
def test_everything_asked_for_is_pinned_once_for_each_python(python):
    """A package without a pin would change under the tests."""
    here = [item for item in PINNED if item.marker is None or item.marker.evaluate({"python_version": python})]
    names = [item.name for item in here]
    asked = [Requirement(text).name for text in sum(EXTRAS.values(), PYPROJECT["dependencies"])]

    assert len(names) == len(set(names))
    assert set(asked) <= set(names)
    assert python in SpecifierSet(PYPROJECT["requires-python"])


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_conda_files_install_the_extras_with_the_constraints(kind):
    """Python from conda, everything else as the Makefile does it; no stub packages, no build strings."""
    text = (PROJECT / f"environment-{kind}.yml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    *conda, pip = content["dependencies"]

    assert content["name"] == f"course-{kind}"
    assert pip == {"pip": ["-c constraints.txt", f"-e .[{kind}]"]}
    assert [item.split("=")[0] for item in conda] == ["python", "pip"]
    assert Version("3.10") <= Version(conda[0].split("=")[1]) <= Version("3.13")
    assert "tensorflow-gpu" not in text and not re.search(r"=[\w.]+=\w+", text)


def test_the_makefile_installs_the_same():
    """One way to install, spelled once in each place."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")

    assert "-c constraints.txt -e '.[$(ENV),test]'" in makefile


def test_make_alone_lists_the_words():
    """And a wrong ENV is refused."""
    helped = subprocess.run(["make"], cwd=PROJECT, capture_output=True, text=True)
    refused = subprocess.run(["make", "help", "ENV=tpu"], cwd=PROJECT, capture_output=True, text=True)

    for word in ("setup", "run", "test", "lab", "refresh", "bench", "clean"):
        assert re.search(rf"^make {word} +\w", helped.stdout, re.MULTILINE)
    assert refused.returncode != 0 and "use ENV=cpu or ENV=gpu" in refused.stderr


@pytest.mark.parametrize(("version", "fits"), [("3, 9", False), ("3, 10", True), ("3, 13", True), ("3, 14", False)])
def test_make_refuses_a_python_that_does_not_fit(version, fits):
    """The line of the Makefile itself, with another version."""
    makefile = (PROJECT / "Makefile").read_text(encoding="utf-8")
    line = re.search(r"^SUPPORTED := (.+)$", makefile, re.MULTILINE)[1]
    faked = line.replace("sys.version_info", f"({version})")

    answer = subprocess.run([sys.executable, "-c", faked], capture_output=True, text=True)

    assert (answer.returncode == 0) == fits
    assert fits or "needs Python 3.10 to 3.13" in answer.stderr


@pytest.mark.network
@pytest.mark.parametrize("extra", ["cpu", "gpu"])
def test_the_environment_resolves(extra):
    """Asks the package index; run it with: pytest -m network."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]

    answer = subprocess.run(
        [*command, "-c", "constraints.txt", f".[{extra},test]"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=600,
    )

    assert answer.returncode == 0, answer.stderr
