"""Workers on this machine that train what they are given, in turn with other trainings, to be measured.

Each is a process with its own cores, just as if it were a machine of its own. Times are in seconds.
"""

import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from multiprocessing import connection

from helpers import devices, meeting, replicas
from helpers.errors import CourseError, ParameterError
from helpers.places import Place
from helpers.processes import Process, cores_of, environment_of, name_of
from helpers.tasks import Task
from helpers.timing import Measurement
from helpers.training import Training

PARTS = ("computing", "waiting for the slowest", "all-reduce", "update")


class Cluster:
    """Workers that train what they are given; use it in a `with` block."""

    def __init__(self, workers: int):
        """Start the processes of the workers, and one more that has the cores of the first, to compare with."""
        if workers < 2:
            raise ParameterError(
                f"{workers} workers make no cluster.", "Accepted are 2 or more.", "One alone trains in this process."
            )
        places, cores = meeting.on_this_machine(workers), cores_of(workers)
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())

            def start(name: str, place: Place, own: Sequence[int]) -> Process:
                process = Process(name, own, environment_of(place, own), folder, _serve)
                stack.callback(process.close)
                return process

            self._workers = [start(name_of(place), place, own) for place, own in zip(places, cores, strict=True)]
            self._alone = [start("One worker alone", places[0], cores[0])]
            self._open = stack.pop_all()

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_error) -> None:
        self._open.close()

    def start(self, task: Task, *, batch_size: int, seed: int = 0) -> "Together":
        """Return a training of all workers that has not begun, for `training.in_turn`."""
        return Together(self._workers, partial(_started, replicas.workers, task, batch_size, seed))

    def start_alone(self, task: Task, *, batch_size: int, seed: int = 0) -> "Together":
        """Return the same training with one worker's cores alone."""
        return Together(self._alone, partial(_started, replicas.one, task, batch_size, seed))

    def kill(self, number: int) -> None:
        """End one worker at once, as a power cut would."""
        self._workers[number].kill()


class Together:
    """A training under way in several processes; `epoch` and `training` are those of `training.Run`."""

    def __init__(self, processes: list[Process], start: Callable):
        self._processes, self.seconds, self._key = processes, [], None
        self._key = self.ask_all(start)[0]  # the same in all: they all do the same

    def ask_all(self, what: Callable) -> list:
        """Return what each process answers. When one has ended or fails, all are ended, and the error names it."""
        try:
            for process in self._processes:
                self._send(process, (what, self._key))
            return self._answers()
        except BaseException:
            for process in self._processes:
                process.kill()  # the others would wait for it
            raise

    def _send(self, process: Process, message: tuple) -> None:
        try:
            process.connection.send(message)
        except OSError:
            raise process.lost() from None

    def _answers(self) -> list:
        """Wait for all; a process that ends, or whose work fails, ends the waiting."""
        waiting = {process.connection: process for process in self._processes}
        found = {}
        while waiting:
            ready = connection.wait([*waiting, *(process.sentinel for process in waiting.values())])
            for place in [place for place in waiting if place in ready]:
                process = waiting.pop(place)
                try:
                    found[process.name] = place.recv()
                except (EOFError, OSError):
                    raise process.lost() from None
                if isinstance(found[process.name], CourseError):
                    raise self._cause(found[process.name])
            for process in waiting.values():
                if process.sentinel in ready and not process.connection.poll():
                    raise process.lost()
        return [found[process.name] for process in self._processes]

    def _cause(self, said: CourseError) -> CourseError:
        """Return why one failed: when another has ended, it can only say that it lost it."""
        ended = [process for process in self._processes if process.code is not None]
        return ended[0].lost() if ended else said

    def epoch(self) -> None:
        """Train for one epoch; it has taken as long as the slowest worker."""
        self.seconds.append(max(self.ask_all(_one_epoch)))

    def training(self) -> Training:
        """Return what came of all epochs, as worker 0 has seen it."""
        return self.ask_all(_what_came)[0]

    def parts(self, steps: int) -> list[dict[str, float]]:
        """Return, for each worker, the median seconds of the parts of a step: see `PARTS`."""
        return parts(self.ask_all(partial(_moments, steps)))

    def all_reduces(self, sizes: Sequence[int], times: int) -> dict[int, Measurement]:
        """Return the seconds in which all workers add up so many bytes, by size."""
        found = self.ask_all(partial(_all_reduces, sizes, times))
        slowest = [[max(values) for values in zip(*each, strict=True)] for each in zip(*found, strict=True)]
        return {
            size: Measurement(f"all-reduce of {size:,} bytes", devices.parse("CPU:0"), first, tuple(values))
            for size, (first, *values) in zip(sizes, slowest, strict=True)
        }


# What a process does when it is asked: each takes the trainings under way in it, and the key of one of them.


def _serve(theirs) -> int:
    """Answer what comes through the connection until it is closed."""
    runs = []
    while True:
        try:
            what, key = theirs.recv()
        except EOFError:
            return 0
        try:
            answer = what(runs, key)
        except CourseError as error:
            answer = error
        theirs.send(answer)


def _started(way, task: Task, batch_size: int, seed: int, runs: list, _key) -> int:
    runs.append(way.start(task, batch_size=batch_size, device="CPU:0", seed=seed))
    return len(runs) - 1


def _one_epoch(runs: list, key: int) -> float:
    runs[key].epoch()
    return runs[key].seconds[-1]


def _what_came(runs: list, key: int) -> Training:
    return runs[key].training()


def _moments(steps: int, runs: list, key: int) -> list[tuple[float, ...]]:
    return runs[key].model.parts(steps)


def _all_reduces(sizes: Sequence[int], times: int, runs: list, key: int) -> list[list[float]]:
    return [runs[key].model.all_reduces(size, times) for size in sizes]


def parts(workers: Sequence[Sequence[tuple[float, ...]]]) -> list[dict[str, float]]:
    """Return the median seconds of each part of a step, for each worker, from the moments of `Replicas.parts`.

    An all-reduce can begin only when the slowest worker has its gradients; until then the others wait.
    """
    found = []
    for mine in workers:
        rows = []
        for step, (began, computed, reduced, done) in enumerate(mine):
            slowest = max(other[step][1] for other in workers)
            rows.append((computed - began, slowest - computed, reduced - slowest, done - reduced))
        found.append(dict(zip(PARTS, map(statistics.median, zip(*rows, strict=True)), strict=True)))
    return found
