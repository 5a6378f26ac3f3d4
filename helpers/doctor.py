"""What is wrong with this environment, layer by layer, and what to type next.

`gather` looks at the machine once; every check then reads those facts and returns findings, so that each
can be tested for machines that nobody here has.
"""

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from helpers import conditions, devices, machine, probe

NAMED = ("tensorflow", "tensorflow-cpu", "keras", "numpy", "papermill", "nvidia-cudnn-cu12")
CUDA_LIBRARIES = ("cublas", "cuda_runtime", "cudnn", "cufft", "curand", "cusolver", "cusparse", "nvjitlink")
PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Finding:
    """The state of one layer, "ok", "note" or "fail", in words, and what to type next."""

    layer: str
    state: str
    words: str
    next_step: str = ""

    def __str__(self) -> str:
        mark = {"ok": "[ ok ]", "note": "[note]", "fail": "[fail]"}[self.state]
        line = f"{mark} {self.layer:<11} {self.words}"
        return f"{line}\n{'':19}-> {self.next_step}" if self.next_step else line


@dataclass(frozen=True)
class Report:
    """All findings, from the lowest layer up."""

    findings: tuple[Finding, ...]

    @property
    def failed(self) -> bool:
        return any(finding.state == "fail" for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(map(str, self.findings))

    def _repr_pretty_(self, printer, _cycle) -> None:
        printer.text(str(self))


@dataclass(frozen=True)
class Facts:
    """What the checks know of a machine."""

    python: tuple[int, ...] = sys.version_info[:3]
    system: str = platform.system()
    release: str = platform.release()
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    installed: Mapping[str, str] = field(default_factory=dict)  # package name → version
    tested: Mapping[str, str] = field(default_factory=dict)  # the same, from constraints.txt
    driver: Sequence[Sequence[str]] | None = None  # rows of: name, driver version, memory in MiB
    cuda_libraries: tuple[str, ...] = ()
    keras_config: Mapping[str, str] = field(default_factory=dict)
    probe: Mapping = field(default_factory=dict)  # what `probe.run` returned, or {"died": words}


def gather(run_probe: Callable[[], Mapping]) -> Facts:
    """Look at this machine; `run_probe` is `probe.run`, or `probe.run_apart` where TensorFlow may crash."""
    return Facts(
        installed={name: version for name in NAMED if (version := machine.installed_version(name))},
        tested=_tested_versions(),
        driver=machine.nvidia_smi("name,driver_version,memory.total"),
        cuda_libraries=_cuda_libraries(),
        keras_config=_keras_config(Path(os.environ.get("KERAS_HOME", Path.home() / ".keras")) / "keras.json"),
        probe=run_probe(),
    )


def _keras_config(path: Path) -> dict:
    """Return what Keras' own settings file says; one that is damaged is named as the backend."""
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return {"backend": f"(unreadable: {path.name})"}


def _tested_versions() -> dict[str, str]:
    from packaging.requirements import Requirement

    lines = (PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    wanted = [Requirement(line) for line in lines if line and not line.startswith("#")]
    here = [item for item in wanted if item.marker is None or item.marker.evaluate()]
    return {item.name: str(item.specifier).removeprefix("==") for item in here}


def _cuda_libraries() -> tuple[str, ...]:
    """Return which of the libraries that `tensorflow[and-cuda]` brings are on disk."""
    folders = [Path(entry) / "nvidia" for entry in sys.path]
    return tuple(name for name in CUDA_LIBRARIES if any((folder / name / "lib").is_dir() for folder in folders))


def check_python(facts: Facts) -> list[Finding]:
    version = ".".join(map(str, facts.python))
    if (3, 10) <= facts.python[:2] < (3, 14):
        return [Finding("Python", "ok", version)]
    return [
        Finding("Python", "fail", f"{version}; 3.10 to 3.13 is needed", "make clean && make setup PYTHON=python3.12")
    ]


def check_packages(facts: Facts) -> list[Finding]:
    """Compare what decides a result with what was tested."""
    tensorflow = next((name for name in ("tensorflow", "tensorflow-cpu") if name in facts.installed), None)
    if tensorflow is None:
        return [Finding("packages", "fail", "TensorFlow is not installed in this Python", "make setup")]
    missing = [name for name in ("keras", "numpy", "papermill") if name not in facts.installed]
    if missing:
        return [Finding("packages", "fail", f"not installed: {', '.join(missing)}", "make setup")]
    names = (tensorflow, "keras", "numpy", "papermill")
    words = ", ".join(f"{name} {facts.installed[name]}" for name in names)
    other = [f"{name} {facts.tested[name]}" for name in names if facts.tested.get(name) != facts.installed[name]]
    if other:
        return [Finding("packages", "note", f"{words}; tested with {', '.join(other)}", "make clean && make setup")]
    return [Finding("packages", "ok", words)]


def check_settings(facts: Facts) -> list[Finding]:
    """Look for variables and files that change results without a word."""
    found = []
    backend = facts.environment.get("KERAS_BACKEND") or facts.keras_config.get("backend", "tensorflow")
    if backend != "tensorflow":
        step = 'unset KERAS_BACKEND, and set "backend": "tensorflow" in keras.json'
        found.append(Finding("settings", "fail", f"Keras is set to the backend {backend!r}", step))
    if facts.keras_config.get("image_data_format", "channels_last") != "channels_last":
        step = 'set "image_data_format": "channels_last" in keras.json'
        found.append(Finding("settings", "fail", "Keras expects images with channels first", step))
    if facts.environment.get("TF_ENABLE_ONEDNN_OPTS", "1").lower() in ("0", "false"):
        words = "oneDNN is switched off: the CPU is up to 3 times slower than it could be"
        found.append(Finding("settings", "note", words, "unset TF_ENABLE_ONEDNN_OPTS"))
    if "CUDA_VISIBLE_DEVICES" in facts.environment:
        value = facts.environment["CUDA_VISIBLE_DEVICES"]
        found.append(Finding("settings", "note", f"CUDA_VISIBLE_DEVICES={value!r} decides which GPUs can be seen"))
    return found or [Finding("settings", "ok", "nothing set that would change results")]


def check_tensorflow(facts: Facts) -> list[Finding]:
    if "died" in facts.probe:
        words = f"it cannot be used here: {facts.probe['died']}"
        return [Finding("TensorFlow", "fail", words, "CUDA_VISIBLE_DEVICES=-1 course check")]
    return [Finding("TensorFlow", "ok", f"{facts.probe['version']} loads and starts")]


def check_devices(facts: Facts) -> list[Finding]:
    """Report the two operations of each device."""
    found = []
    for device in facts.probe.get("devices", []):
        wrong = [f"{name}: {device[name]}" for name in ("matmul", "convolution") if device[name] != "right"]
        if wrong:
            step = "close other notebooks that use this device, then: course check"
            found.append(Finding(device["name"], "fail", f"{device['hardware']}: {'; '.join(wrong)}", step))
        else:
            words = f"{device['hardware']}: a matmul and a convolution are right"
            if device["name"].startswith("CPU"):
                words += f"; {machine.usable_cpus()} usable cores"
            found.append(Finding(device["name"], "ok", words))
    return found


def check_driver(facts: Facts) -> list[Finding]:
    if not facts.driver:
        return [Finding("driver", "note", "no NVIDIA driver answers (nvidia-smi); without one there is no GPU to use")]
    names = ", ".join(f"{row[0]} ({row[2]} MiB, driver {row[1]})" for row in facts.driver)
    return [Finding("driver", "ok", names)]


def check_gpu(facts: Facts) -> list[Finding]:
    """Say why TensorFlow sees no GPU, or whether it suits the ones that it sees."""
    gpus = [device for device in facts.probe.get("devices", []) if device["name"].startswith("GPU")]
    if gpus:
        return [finding for gpu in gpus for finding in _check_capability(facts, gpu)]
    cpu_goes_on = "the course runs on the CPU"
    if facts.system == "Darwin":
        return [Finding("GPU", "note", f"TensorFlow has no GPU support on macOS; {cpu_goes_on}")]
    if facts.system == "Windows":
        words = f"TensorFlow has no GPU support on Windows itself since 2.11; {cpu_goes_on}"
        return [Finding("GPU", "note", words, "use WSL2: clone the course inside it, make lab ENV=gpu")]
    if not facts.driver:
        where = "on Windows, not inside WSL2" if "microsoft" in facts.release.lower() else "if this machine has a GPU"
        return [Finding("GPU", "note", f"none to be seen; {cpu_goes_on}", f"install NVIDIA's driver {where}")]
    missing = [name for name in CUDA_LIBRARIES if name not in facts.cuda_libraries]
    if len(missing) == len(CUDA_LIBRARIES):
        words = "the driver sees a GPU, but this is the CPU environment"
        return [Finding("GPU", "note", words, "make lab ENV=gpu (conda: conda activate course-gpu)")]
    hidden = facts.environment.get("CUDA_VISIBLE_DEVICES")
    if hidden is not None:
        words = f"the driver sees a GPU, but CUDA_VISIBLE_DEVICES={hidden!r} hides it"
        return [Finding("GPU", "fail", words, "unset CUDA_VISIBLE_DEVICES, then start the notebook again")]
    words = f"the driver sees a GPU, TensorFlow does not; missing CUDA libraries: {', '.join(missing) or 'none'}"
    return [Finding("GPU", "fail", words, "make clean && make setup ENV=gpu; a driver older than 525 must be renewed")]


def _check_capability(facts: Facts, gpu: Mapping) -> list[Finding]:
    """TensorFlow 2.21 holds kernels for compute capability 6.0 to 9.0; cuDNN from 9.11 on needs 7.5."""
    capability = tuple(gpu["capability"] or (7, 5))
    words = f"{gpu['hardware']} has compute capability {'.'.join(map(str, capability))}"
    cudnn = tuple(map(int, re.findall(r"\d+", facts.installed.get("nvidia-cudnn-cu12", "0.0"))[:2]))
    if capability < (6, 0):
        return [Finding("GPU", "fail", f"{words}; TensorFlow needs 6.0", "set devices='CPU:0'")]
    if capability >= (12, 0):
        step = "conda-forge's tensorflow 2.19.1 suits it; or set devices='CPU:0'"
        return [Finding("GPU", "fail", f"{words}; TensorFlow 2.21 holds no kernels for 12.0 and above", step)]
    if capability < (7, 5) and cudnn >= (9, 11):
        step = ".venv-gpu/bin/pip install 'nvidia-cudnn-cu12<9.11'"
        return [Finding("GPU", "fail", f"{words}; this cuDNN ({cudnn[0]}.{cudnn[1]}) needs 7.5", step)]
    return [Finding("GPU", "ok", words)]


CHECKS = (check_python, check_packages, check_settings, check_driver, check_tensorflow, check_gpu, check_devices)


def examine(run_probe: Callable[[], Mapping] = probe.run_apart) -> Report:
    """Return the findings for this machine, lowest layer first. Takes about 10 s: it starts TensorFlow."""
    facts = gather(run_probe)
    return Report(tuple(finding for check in CHECKS for finding in check(facts)))


def stack(report: Report) -> list[tuple[str, str, str]]:
    """Return the layers of this machine from top to bottom: name, what it is here, worst state found."""
    versions = conditions.versions()
    existing = devices.available()
    has_gpu = any(device.kind == "GPU" for device in existing)
    libraries = f"CUDA {versions['cuda']}, cuDNN {versions['cudnn']}" if has_gpu else "oneDNN and Eigen, for the CPU"
    hardware = ", ".join(devices.hardware_name(device) for device in existing)
    layers = (
        ("your code", f"Python {versions['python']}", ("Python",)),
        ("Keras", versions["keras"], ("packages", "settings")),
        ("TensorFlow", versions["tensorflow"], ("TensorFlow",)),
        ("libraries", libraries, ("GPU" if has_gpu else "TensorFlow",)),
        ("driver", "NVIDIA" if has_gpu else "no NVIDIA driver in use", ("driver",)),
        ("hardware", hardware, tuple(map(str, existing))),
    )
    states = [[f.state for f in report.findings if f.layer in wanted] or ["note"] for _, _, wanted in layers]
    rank = ("ok", "note", "fail").index
    return [(name, words, max(found, key=rank)) for (name, words, _), found in zip(layers, states, strict=True)]
