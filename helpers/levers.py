"""What can be done to a training to use the machine more fully, one lever at a time, and all together.

Each lever is one difference to `fit` on NumPy arrays. Those that TensorFlow takes only while it starts are
measured in a process of their own. Times are in seconds per step.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from helpers import devices, ways, workloads
from helpers.comparing import Comparison
from helpers.elsewhere import Elsewhere, Request
from helpers.errors import ParameterError
from helpers.progress import progress
from helpers.tasks import Task
from helpers.timing import Measurement
from helpers.training import Training, Way

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
    times_batch: int = 1
    only: Callable = lambda model, device: True  # whether it means anything for this network on this device

    @property
    def changes_learning(self) -> bool:
        return self.learns not in ("the same", "the same on average")


def _has_dropout(model, _device) -> bool:
    return any(type(layer).__name__ == "Dropout" for layer in model.layers)


def _is_cpu(_model, device) -> bool:
    return device.kind == "CPU"


def _is_linux_cpu(_model, device) -> bool:
    import sys

    return device.kind == "CPU" and sys.platform == "linux"


def _is_gpu(_model, device) -> bool:
    return device.kind == "GPU"


def _prepare_parity(model, task, batch_size: int, seed: int) -> Callable:
    """Return an epoch of `fit` in which a GPU computes float32 products with all digits, without TF32."""
    switch = devices.load_tensorflow().config.experimental.enable_tensor_float_32_execution
    train = ways.fit.prepare(model, task, batch_size, seed)

    def epoch():
        switch(False)
        try:
            return train()
        finally:
            switch(True)

    return epoch


LEVERS = (
    Lever("as people write it"),
    Lever(
        "larger batches", limited_by="what every step costs, however small", learns="in fewer steps", times_batch=LARGER
    ),
    Lever("tf.data, prepared ahead", ways.fit_pipeline, "its input"),
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

    @property
    def example(self) -> Measurement:
        """Seconds per example, so that steps of different sizes can be compared."""
        epochs = self.training.epochs
        values = tuple(seconds / self.examples for seconds in epochs.values)
        return Measurement(self.lever.label, epochs.device, epochs.first / self.examples, values)

    def against(self, base: "Outcome") -> Comparison:
        return Comparison(base.example, self.example)


def measure(
    name: str, task: Task, levers: Iterable[Lever], *, batch_size: int, epochs: int, device="CPU:0", seed: int = 0
) -> dict[str, Outcome]:
    """Train one of `workloads` with each lever that means anything for it, in turn; by label, the first as a base.

    `task` is that of the workload of this name, with as many examples as are wanted.

    A lever that makes training more than `TOO_SLOW` times slower is trained for two epochs only, one of which counts.
    """
    device, work = devices.find(device), workloads.find(name)
    model = task.model()
    chosen = {lever.label: lever for lever in levers if lever.only(model, device)}
    with ExitStack() as stack:
        runs = {label: _start(stack, lever, task, name, batch_size, device, seed) for label, lever in chosen.items()}
        base, *_ = runs.values()
        for number in progress(range(epochs), f"{work.title}, {len(runs)} levers"):
            for run in runs.values():
                if number < 2 or run.seconds[1] < TOO_SLOW * base.seconds[1]:
                    run.epoch()
        found = {label: run.training() for label, run in runs.items()}
    return {
        label: Outcome(chosen[label], training, min(len(task.data), training.steps * training.batch_size))
        for label, training in found.items()
    }


def _start(stack: ExitStack, lever: Lever, task: Task, name: str, batch_size: int, device, seed: int):
    way = lever.way or ways.best(task)
    size = min(len(task.data), lever.times_batch * batch_size)
    if not lever.environment or device.kind != "CPU":
        return way.start(task, batch_size=size, device=device, seed=seed)
    other = Elsewhere(Request(name, len(task.data), way, size, str(device), seed), lever.environment)
    stack.callback(other.close)
    return other


def best_alone(outcomes: Mapping[str, Outcome]) -> Outcome | None:
    """Return the outcome of the single lever that gains most without changing what is learned; None if none gains."""
    base, *others = outcomes.values()
    gains = [
        other
        for other in others
        if other.lever is not LEVERS[-1]
        and not other.lever.changes_learning
        and other.against(base).verdict.endswith("faster")
    ]
    return max(gains, key=lambda other: other.against(base).ratio, default=None)


def advice(title: str, outcomes: Mapping[str, Outcome]) -> str:
    """Say what limits a training, and what to do first, from what the levers did."""
    best = best_alone(outcomes)
    if best is None:
        return f"{title}: no single lever makes it faster here. It is limited by arithmetic, or by something not tried."
    verdict = best.against(next(iter(outcomes.values()))).verdict
    return f"{title} is limited by {best.lever.limited_by}, so first: {best.lever.label} ({verdict})."
