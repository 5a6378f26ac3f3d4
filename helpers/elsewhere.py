"""Train in a process of its own, with environment variables that TensorFlow reads only while it starts.

The training over there takes its turns in `training.in_turn` like any other. The process holds its own copy of
the data. It ends when the training is asked for; use it in a `with` block, so that it ends when something fails, too.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from helpers.errors import CourseError, TrainingError
from helpers.tasks import Task
from helpers.training import Training, Way


@dataclass(frozen=True)
class Request:
    """What the other process is to train. Its functions must be those of a module: they are sent by name."""

    task: Task
    way: Way
    batch_size: int
    device: str
    seed: int


class Elsewhere:
    """A training under way in another process; `epoch` and `training` are those of `training.Run`."""

    def __init__(self, request: Request, environment: Mapping[str, str]):
        self.label, self.seconds = request.way.label, []
        hidden = {"CUDA_VISIBLE_DEVICES": "-1"} if request.device.startswith("CPU") else {}  # a GPU's memory is short
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from helpers import elsewhere; elsewhere.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **hidden, **environment},
            start_new_session=True,  # Ctrl+C is for the notebook, which then closes this
        )
        try:
            self._ask(request)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Elsewhere":
        return self

    def __exit__(self, *_error) -> None:
        self.close()

    def epoch(self) -> None:
        """Train for one epoch, or raise what was raised over there."""
        self.seconds.append(self._ask("epoch"))

    def training(self) -> Training:
        """Return what came of all epochs, and end the process."""
        found = self._ask("training")
        self.close()
        return found

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.wait()
        with suppress(OSError):  # what it was sent last may not have got through
            self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()

    def _ask(self, what):
        try:
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()
            answer = pickle.load(self._process.stdout)
        except (EOFError, OSError):
            raise TrainingError(
                f"{self.label}: the process that trained it ended{self._last_words()}",
                "It needs memory for another copy of TensorFlow and of the data.",
                "Take fewer examples, or leave this training out.",
            ) from None
        if isinstance(answer, CourseError):
            raise answer
        return answer

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else " without a word."


def serve() -> None:
    """Answer the requests that come through stdin, until it is closed. The answers have stdout for themselves."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever TensorFlow prints must not get between them
    run = None
    while True:
        try:
            what = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            run, answer = _answer(run, what)
        except CourseError as error:
            answer = error
        pickle.dump(answer, answers)
        answers.flush()


def _answer(run, what):
    """Return the training under way, and what is to be said about it."""
    if isinstance(what, Request):
        return what.way.start(what.task, batch_size=what.batch_size, device=what.device, seed=what.seed), None
    if what == "epoch":
        run.epoch()
        return run, run.seconds[-1]
    return run, run.training()
