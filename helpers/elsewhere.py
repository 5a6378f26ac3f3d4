"""Train in a process of its own, with environment variables that TensorFlow reads only while it starts.

Such a training stands in `training.in_turn` like any other. The process holds its own copy of the data; it ends
when the training is asked for, or with `close`.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from helpers import workloads
from helpers.errors import TrainingError
from helpers.training import Training, Way


@dataclass(frozen=True)
class Request:
    """What the other process is to train."""

    workload: str  # its name in `workloads`
    limit: int | None
    way: Way
    batch_size: int
    device: str
    seed: int


class Elsewhere:
    """A training under way in another process; `epoch` and `training` are those of `training.Run`."""

    def __init__(self, request: Request, environment: Mapping[str, str]):
        self.label, self.seconds = request.way.label, []
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from helpers import elsewhere; elsewhere.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **environment},
            start_new_session=True,  # Ctrl+C is for the notebook, which then closes this
        )
        try:
            self._ask(request)
        except BaseException:
            self.close()
            raise

    def epoch(self) -> None:
        """Train for one epoch, or raise `TrainingError` with the other process's own words."""
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
        self._process.stdin.close()
        self._process.stdout.close()
        self._said.close()

    def _ask(self, what):
        try:
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()
            return pickle.load(self._process.stdout)
        except (EOFError, BrokenPipeError):
            raise TrainingError(
                f"{self.label}: the process that trained it ended{self._last_words()}",
                "It needs memory for another copy of TensorFlow and of the data.",
                "Take fewer examples, or leave this training out.",
            ) from None

    def _last_words(self) -> str:
        self._process.wait()
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1][:300]}" if lines else " without a word."


def serve() -> None:
    """Answer the requests that come through stdin, until it is closed. The answers have stdout for themselves."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever TensorFlow prints must not get between them
    request = pickle.load(sys.stdin.buffer)
    task = workloads.find(request.workload).task(request.limit)
    run = request.way.start(task, batch_size=request.batch_size, device=request.device, seed=request.seed)
    _answer(answers, None)
    while True:
        try:
            what = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if what == "epoch":
            run.epoch()
            _answer(answers, run.seconds[-1])
        else:
            _answer(answers, run.training())


def _answer(answers, value) -> None:
    pickle.dump(value, answers)
    answers.flush()
