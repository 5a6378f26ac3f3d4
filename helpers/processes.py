"""Processes on this machine that train together, each with its own cores. Nothing of them outlives this process.

On Linux they are forked from one that has loaded TensorFlow: to load it in each would take longer than most lessons.
That one waits until Python ends, and ends with it, however that happens.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from multiprocessing import connection, forkserver
from pathlib import Path

from helpers import machine
from helpers.errors import ClusterError
from helpers.places import Place


def cores_of(workers: int) -> list[list[int]]:
    """Return the cores of each worker: an equal share, or one that others use, too, where there are too few."""
    usable = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(machine.usable_cpus())
    share = max(1, len(usable) // workers)
    return [[usable[(number * share + i) % len(usable)] for i in range(share)] for number in range(workers)]


def prepare() -> None:
    """Begin to load TensorFlow for the workers to come, while this process goes on."""
    if sys.platform == "linux":
        multiprocessing.set_forkserver_preload(["tensorflow", "keras", "helpers.worker"])
        with _silent():
            forkserver.ensure_running()


@contextmanager
def _silent():
    """Keep what TensorFlow says while it is loaded out of the notebook that starts the process."""
    usual, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(usual, 2)
        os.close(usual)
        os.close(nowhere)


class Process:
    """A process with its own cores and environment that does `work(connection, …)`; its end is seen at once."""

    def __init__(self, name: str, cores: Sequence[int], environment: dict, folder: str, work: Callable, *given):
        prepare()
        context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
        self.name, self._said = name, Path(folder, name.replace(":", "-"))
        self.connection, theirs = context.Pipe()
        arguments = (cores, environment, str(self._said), theirs, work, given)
        self._process = context.Process(target=_begin, args=arguments, name=name, daemon=True)
        self._process.start()
        theirs.close()

    @property
    def sentinel(self) -> int:
        """Something to wait for: it becomes ready when the process ends."""
        return self._process.sentinel

    @property
    def code(self) -> int | None:
        """The exit code, -9 after SIGKILL; None while the process runs."""
        return self._process.exitcode

    def join(self, seconds: float) -> None:
        self._process.join(seconds)

    def kill(self) -> None:
        """End the process at once, as a power cut would."""
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        self.kill()
        self.connection.close()

    def lost(self) -> ClusterError:
        """Return what is to be said when it has ended too early."""
        self._process.join()
        lines = self._said.read_text(errors="replace").strip().splitlines() if self._said.exists() else []
        how = f", killed by {signal.Signals(-self.code).name}" if self.code < 0 else ""
        return ClusterError(
            f"{self.name} has ended{how}{f': {lines[-1][:300]}' if lines and not how else ''}.",
            "Training goes on only with all workers. Each needs memory for TensorFlow and for the data.",
            "Take fewer examples, or close other programs, and start again.",
        )


def _begin(cores, environment, said: str, theirs, work: Callable, given: tuple) -> None:
    """Do the work in the new process. TensorFlow is loaded, but has not started: it takes the cores as they are."""
    os.environ.update(environment)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    file = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = work(theirs, *given)
    theirs.close()
    os._exit(code)  # TensorFlow's own end may wait for others


def _end_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def environment_of(place: Place, cores: Sequence[int]) -> dict[str, str]:
    """Return the environment variables of a worker: its place, no GPU, and as many threads as cores."""
    threads = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    return {"TF_CONFIG": place.config, "CUDA_VISIBLE_DEVICES": "-1", **dict.fromkeys(threads, str(len(cores)))}


def name_of(place: Place) -> str:
    return f"Worker {place.index} at {place.own}"
