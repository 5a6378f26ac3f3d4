"""What can be done to a training to use the machine more fully, one lever at a time, and all together.

Each lever is one difference to `fit` on NumPy arrays. Those that TensorFlow takes only while it starts are
measured in a process of their own. Times are in seconds per step.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from helpers import devices, ways
from helpers.comparing import FEWEST, Comparison
from helpers.elsewhere import Elsewhere, Request
from helpers.errors import ParameterError
from helpers.progress import progress
from helpers.tasks import Task
from helpers.timing import Measurement
from helpers.training import Training, Way, check_epochs

TOO_SLOW = 5  # times slower than `fit` in its second epoch: it is trained no further
LARGER = 4  # times the batch size
ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}
# glibc then asks the system for memory in pages of 2 MB: https://sourceware.org/glibc/manual/latest/html_node/
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
ONE_THREAD = {"TF_NUM_INTRAOP_THREADS": "1", "OMP_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Lever:
    """One difference to the training that people write."""

    label: str
    way: Way | None = ways.fit  # None: the best one that is known for the network
    limited_by: str = ""  # what this lever relieves, for "… is limited by …"
    learns: str = "the same"  # or what it does to the result
    environment: dict = field(default_factory=dict)  # variables that must be set before TensorFlow starts
    apart: bool = False  # in a process of its own, even without such variables
    times_batch: int = 1
    only: Callable = lambda model, device: True  # whether it means anything for this network on this device

    @property
    def changes_learning(self) -> bool:
        """Whether more than order, rounding or random numbers becomes different."""
        return self.learns not in ("the same", "the same on average")


def _has_dropout(model, _device) -> bool:
    return any(type(layer).__name__ == "Dropout" for layer in model.layers)


def _is_cpu(_model, device) -> bool:
    return device.kind == "CPU"


def _is_linux_cpu(_model, device) -> bool:
    return device.kind == "CPU" and sys.platform == "linux"


def _is_gpu(_model, device) -> bool:
    return device.kind == "GPU"


def _prepare_parity(model, task, batch_size: int, seed: int) -> Callable:
    """Return an epoch of `fit` in which a GPU computes float32 products with all digits, without TF32."""
    config = devices.load_tensorflow().config.experimental
    train = ways.fit.prepare(model, task, batch_size, seed)

    def epoch():
        before = config.tensor_float_32_execution_enabled()
        config.enable_tensor_float_32_execution(False)
        try:
            return train()
        finally:
            config.enable_tensor_float_32_execution(before)

    return epoch


LEVERS = (
    Lever("as people write it"),
    Lever(
        "larger batches", limited_by="what every step costs, however small", learns="in fewer steps", times_batch=LARGER
    ),
    Lever("tf.data, prepared ahead", ways.fit_pipeline, "its input", "the same on average"),
    Lever("many steps per call", replace(ways.fit, prepare=ways.prepare_many_steps), "Python between the steps"),
    Lever("one function per step", replace(ways.fit, prepare=ways.prepare_step_function), "what Keras does in a step"),
    Lever(
        "one function per epoch",
        replace(ways.fit, prepare=ways.prepare_epoch_function),
        "what Python and Keras do between the steps",
    ),
    Lever("XLA", replace(ways.fit, jit_compile=True), "many small operations"),
    Lever("bfloat16", replace(ways.fit, dtype_policy="mixed_bfloat16"), "arithmetic", "with fewer digits"),
    Lever("float16", replace(ways.fit, dtype_policy="mixed_float16"), "arithmetic", "with fewer digits"),
    Lever("Adam in one operation", replace(ways.fit, fused_adam=True), "reading and writing the weights"),
    Lever(
        "dropout from bytes",
        replace(ways.fit, dropout="bytes"),
        "dropout's random numbers",
        "the same on average",
        only=_has_dropout,
    ),
    Lever("no dropout", replace(ways.fit, dropout="none"), "dropout", "without dropout", only=_has_dropout),
    Lever("a new process", limited_by="what this process has done before", apart=True, only=_is_cpu),
    Lever("oneDNN on", limited_by="TensorFlow's own convolutions and products", environment=ONEDNN, only=_is_cpu),
    Lever("huge pages", limited_by="asking the system for memory", environment=HUGE_PAGES, only=_is_linux_cpu),
    Lever("one thread", limited_by="threads that wait for each other", environment=ONE_THREAD, only=_is_cpu),
    Lever("without TF32", replace(ways.fit, prepare=_prepare_parity), "its few digits", only=_is_gpu),
    Lever("all together", None, "more than one thing", "the same on average", {**ONEDNN, **HUGE_PAGES}),
)


def choose(numbers: Iterable[int]) -> list[Lever]:
    """Return levers by their number, counted from 1; the first always, to compare with."""
    wrong = [number for number in numbers if not 1 <= number <= len(LEVERS)]
    if wrong:
        raise ParameterError(
            f"There is no lever {wrong[0]}.",
            f"Accepted are 1 to {len(LEVERS)}: {', '.join(lever.label for lever in LEVERS)}.",
            "Correct levers and run again.",
        )
    return [LEVERS[number - 1] for number in sorted({1, *numbers})]


@dataclass(frozen=True)
class Outcome:
    """What a lever did to one training."""

    lever: Lever
    training: Training
    examples: int  # that were trained with in an epoch
    is_stopped: bool = False  # too slow to go on

    @property
    def example(self) -> Measurement:
        """Seconds per example, so that steps of different sizes can be compared."""
        epochs = self.training.epochs
        values = tuple(seconds / self.examples for seconds in epochs.values)
        return Measurement(self.lever.label, epochs.device, epochs.first / self.examples, values)

    def against(self, base: "Outcome") -> Comparison:
        return Comparison(base.example, self.example)

    def verdict(self, base: "Outcome") -> str:
        """Say how it stands against the first outcome; one that was stopped has too few values for a comparison."""
        compared = self.against(base)
        return f"{1 / compared.ratio:.0f} times slower, stopped" if self.is_stopped else compared.verdict


def measure(
    task: Task, levers: Iterable[Lever], *, batch_size: int, epochs: int, device="CPU:0", seed: int = 0, title: str = ""
) -> dict[str, Outcome]:
    """Train with each lever that means anything for this network, in turn; by label, the first as a base.

    A lever that makes training more than `TOO_SLOW` times slower is trained for two epochs only, one of which counts.
    """
    check_epochs(epochs)
    device, model = devices.find(device), task.model()
    chosen = {lever.label: lever for lever in levers if lever.only(model, device)}
    with ExitStack() as stack:
        runs = {label: _start(stack, lever, task, batch_size, device, seed) for label, lever in chosen.items()}
        base, *_ = runs.values()
        for number in progress(range(epochs), f"{title or model.name}, {len(runs)} levers"):
            for run in runs.values():
                if number < 2 or not _is_too_slow(run, base):
                    run.epoch()
        found = {label: (run.training(), _is_too_slow(run, base)) for label, run in runs.items()}
    return {
        label: Outcome(chosen[label], training, min(len(task.data), training.steps * training.batch_size), is_stopped)
        for label, (training, is_stopped) in found.items()
    }


def _is_too_slow(run, base) -> bool:
    return run.seconds[1] > TOO_SLOW * base.seconds[1]


def _start(stack: ExitStack, lever: Lever, task: Task, batch_size: int, device, seed: int):
    way = replace(lever.way or ways.best(task), label=lever.label)
    size = min(len(task.data), lever.times_batch * batch_size)
    # A second logical CPU exists in this process alone, and the variables mean nothing to a GPU.
    if str(device) != "CPU:0" or not (lever.environment or lever.apart):
        return way.start(task, batch_size=size, device=device, seed=seed)
    return stack.enter_context(Elsewhere(Request(task, way, size, str(device), seed), lever.environment))


def best_alone(outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Return the outcome of the single lever that gains most without changing what is learned; None if none gains."""
    base, *others = outcomes.values()
    gains = [
        other
        for other in others
        if other.lever.way and not other.lever.changes_learning and other.verdict(base).endswith("faster")
    ]
    return max(gains, key=lambda other: other.against(base).ratio, default=None)


def advice(title: str, outcomes: Mapping[str, Outcome]) -> str:
    """Say what limits a training, and what to do first, from what the levers did."""
    base, best = next(iter(outcomes.values())), best_alone(outcomes)
    if base.example.n < FEWEST:
        return f"{title}: nothing can be said from so few epochs."
    if best is None:
        return f"{title}: no single lever makes it faster here. It is limited by arithmetic, or by something not tried."
    return f"{title} is limited by {best.lever.limited_by}, so first: {best.lever.label} ({best.verdict(base)})."
