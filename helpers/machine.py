"""What this machine has: processor, cores, memory, NVIDIA's driver, packages. TensorFlow is not asked.

Memory is in bytes.
"""

import os
import platform
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path


@cache
def describe() -> dict:
    """Describe the hardware and the operating system, without a host or user name."""
    import psutil

    return {
        "cpu": cpu_name(),
        "usable_cpus": usable_cpus(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "gpus": [row[0] for row in nvidia_smi("name") or []],
    }


def cpu_name() -> str:
    """Return the processor's name as the operating system knows it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        match = re.search(r"^model name\s*:\s*(.+)$", cpuinfo.read_text(encoding="utf-8"), re.MULTILINE)
        if match:
            return match[1].strip()
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def usable_cpus() -> int:
    """Return how many cores this process may use; a container or `taskset` can grant fewer than exist."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def nvidia_smi(fields: str, gpu: str | None = None) -> list[list[str]] | None:
    """Return what NVIDIA's driver says of its GPUs, a row each; None where there is no working driver.

    `fields` are those of `nvidia-smi --query-gpu`; `gpu` (an index or a UUID) asks for one alone.
    """
    if shutil.which("nvidia-smi") is None:
        return None
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command + (["-i", gpu] if gpu else []), capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):  # a driver that hangs or cannot be started does not work
        return None
    if answer.returncode != 0:
        return None
    return [[cell.strip() for cell in line.split(",")] for line in answer.stdout.splitlines() if line.strip()]


def free_host_memory() -> int:
    """Return the tightest of: free memory, what the container has left, what `ulimit -v` has left."""
    import psutil

    limits = [psutil.virtual_memory().available]
    for group in _control_groups():
        limit = (group / "memory.max").read_text().strip()
        if limit.isdigit():
            # "anon" leaves out the file cache, which gives way when memory is needed.
            used = re.search(r"^anon (\d+)$", (group / "memory.stat").read_text(), re.MULTILINE)
            limits.append(int(limit) - int(used[1]))
    if sys.platform == "linux":
        import resource

        address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
        if address_space != resource.RLIM_INFINITY:
            limits.append(address_space - psutil.Process().memory_info().vms)
    return max(0, min(limits))


def _control_groups() -> list[Path]:
    """Return the folders of the control groups (version 2) that limit this process: its own and those above."""
    mine = Path("/proc/self/cgroup")
    match = re.search(r"^0::/(.*)$", mine.read_text(), re.MULTILINE) if mine.exists() else None
    if match is None:
        return []
    root = Path("/sys/fs/cgroup")
    groups = [root / match[1], *(root / match[1]).parents]
    return [group for group in groups if group.is_relative_to(root) and (group / "memory.max").exists()]


def free_gpu_memory(index: int) -> int | None:
    """Return the bytes that are free on TensorFlow's GPU `index`; None where there is no driver to ask."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    gpu = visible[index] if len(visible) > index and visible[0] else str(index)
    rows = nvidia_smi("memory.free", gpu)
    return int(rows[0][0]) * 2**20 if rows and rows[0][0].isdigit() else None


def installed_version(package: str) -> str | None:
    """Return the version of an installed package, None where it is missing or its folder is damaged."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
