"""The program that several machines would run, `helpers.worker`, started for each worker of a cluster on this one."""

import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, redirect_stdout

from helpers import worker
from helpers.errors import ClusterError
from helpers.places import Place
from helpers.processes import Process, cores_of, environment_of, name_of


class Launched:
    """The program `helpers.worker`, once for each worker on this machine; use it in a `with` block."""

    def __init__(self, arguments: Sequence[str], places: Sequence[Place], absent: Sequence[int] = ()):
        """Start it with these arguments for every worker but those in `absent`."""
        self._lines: list[tuple[float, int, str]] = []
        self._changed, self._readers, self._processes = threading.Condition(), [], {}
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for place, cores in zip(places, cores_of(len(places)), strict=True):
                if place.index not in absent:
                    environment = environment_of(place, cores)
                    process = Process(name_of(place), cores, environment, folder, _run_program, list(arguments))
                    stack.callback(process.close)
                    reader = threading.Thread(target=self._read, args=(place.index, process.connection), daemon=True)
                    reader.start()
                    self._processes[place.index] = process
                    self._readers.append(reader)
            self._open = stack.pop_all()

    def __enter__(self) -> "Launched":
        return self

    def __exit__(self, *_error) -> None:
        for process in self._processes.values():
            process.kill()
        for reader in self._readers:
            reader.join()
        self._open.close()

    def _read(self, number: int, lines) -> None:
        """Note every line and when it came, until the worker has ended."""
        while True:
            try:
                text = lines.recv()
            except (EOFError, OSError):
                text = None
            with self._changed:
                if text:
                    self._lines += [(time.perf_counter(), number, line) for line in text.splitlines()]
                self._changed.notify_all()
            if text is None:
                return

    def wait_for(self, beginning: str, number: int = 0, seconds: float = 300) -> bool:
        """Wait until a worker has printed a line with this beginning; False if it ends without, or takes too long."""

        def is_there() -> bool:
            return any(worker == number and line.startswith(beginning) for _, worker, line in self._lines)

        with self._changed:
            self._changed.wait_for(lambda: is_there() or self._processes[number].code is not None, seconds)
        return is_there()

    def kill(self, number: int) -> float:
        """End one worker at once, as a power cut would; return when, by `time.perf_counter`."""
        self._processes[number].kill()
        return time.perf_counter()

    def wait(self, seconds: float = 300) -> dict[int, int]:
        """Return the exit code of each worker when all have ended, or raise `ClusterError` after the time limit."""
        end = time.monotonic() + seconds
        for number, process in self._processes.items():
            process.join(max(0.0, end - time.monotonic()))
            if process.code is None:
                raise ClusterError(
                    f"Worker {number} has not ended within {seconds:g} s.",
                    "Workers end by themselves when they are done, or when one of them is lost.",
                    "Leave the `with` block, which ends it, and try again on a quieter machine.",
                )
        for reader in self._readers:
            reader.join()
        return {number: process.code for number, process in self._processes.items()}

    def said(self) -> list[tuple[int, float, str]]:
        """Return what was printed so far, in order: the worker, when by `time.perf_counter`, and the line."""
        return [(number, at, line) for at, number, line in sorted(self._lines)]


class _Lines:
    """What is written to it goes through a connection."""

    def __init__(self, theirs):
        self._theirs = theirs

    def write(self, text: str) -> None:
        if text.strip():
            self._theirs.send(text)

    def flush(self) -> None:
        pass


def _run_program(theirs, arguments: list[str]) -> int:
    with redirect_stdout(_Lines(theirs)):
        return worker.main(arguments)
