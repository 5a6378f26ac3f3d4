"""Take a training step apart: measure each thing that Keras' `fit` does in a step, in an experiment of its own.

No part is the rest of a sum, so that whole minus parts shows what has been overlooked. Times are in seconds
per step.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from helpers import devices
from helpers.errors import ParameterError
from helpers.examples import Dataset, is_whole
from helpers.progress import progress
from helpers.tasks import Task, check, compiled
from helpers.timing import clocked
from helpers.ways import fit_epochs

PARTS = (
    "Python and Keras",
    "waiting for metrics",
    "input and shuffling",
    "launching operations",
    "moving the batch",
    "arithmetic",
)


@dataclass(frozen=True)
class Anatomy:
    """The parts of one training step, and the step as a whole; all in seconds, medians over `rounds`."""

    whole: float
    parts: dict[str, float]
    rounds: int

    @property
    def unexplained(self) -> float:
        """What the parts leave over; negative where things happen at the same time."""
        return self.whole - sum(self.parts.values())

    @property
    def unexplained_share(self) -> float:
        return self.unexplained / self.whole


def dissect(
    task: Task, *, batch_sizes: Iterable[int], steps: int, device="CPU:0", rounds: int = 12, seed: int = 0
) -> dict[int, Anatomy]:
    """Measure the parts of a step of `fit` on NumPy arrays, for each batch size, all in turn, `rounds` times.

    An epoch has `steps` steps, or fewer where the data does not suffice. How each part is measured:

    * whole: an epoch of `fit` with the task's network;
    * Python and Keras: an epoch of `fit` with a network that does nothing, over one example that is ready;
      less the next part;
    * waiting for metrics: two results turned into Python numbers;
    * input and shuffling: an epoch with the network that does nothing over the real data, less the same over
      one example;
    * launching operations: an epoch with the task's network over one example, less the same with the network
      that does nothing;
    * moving the batch: a copy of one batch from NumPy's memory to a device other than the CPU, which computes
      where the batch lies;
    * arithmetic: all steps in one TensorFlow function over a batch that lies on the device, less the same over
      one example.
    """
    device, batch_sizes = devices.find(device), list(batch_sizes)
    for name, value in (("steps", steps), ("rounds", rounds)):
        if not is_whole(value) or value < 1:
            raise ParameterError(
                f"{name} = {value!r} is not possible.", "Accepted is a whole number of at least 1.", f"Correct {name}."
            )
    for size in batch_sizes:
        check(task, size, device)
    tf = devices.load_tensorflow()
    with tf.device(str(device)):
        experiments = _experiments(task, batch_sizes, steps, device, seed)
        for experiment in experiments.values():
            experiment()  # traces, compiles, fills memory pools
        taken = {name: [] for name in experiments}
        for _ in progress(range(rounds), "parts of a step"):
            for name, experiment in experiments.items():
                taken[name].append(experiment())
    median = {name: statistics.median(values) for name, values in taken.items()}
    return {size: _parts(median, size, rounds) for size in batch_sizes}


def _parts(median: Mapping[tuple, float], size: int, rounds: int) -> Anatomy:
    found = (
        median["nothing", 1] - median["metrics", 1],
        median["metrics", 1],
        median["nothing", size] - median["nothing", 1],
        median["network", 1] - median["nothing", 1],
        median["moving", size],
        median["loop", size] - median["loop", 1],
    )
    parts = {name: max(0.0, seconds) for name, seconds in zip(PARTS, found, strict=True)}
    return Anatomy(median["network", size], parts, rounds)


def _experiments(task: Task, batch_sizes, steps: int, device, seed: int) -> dict[tuple, Callable[[], float]]:
    """Return the callables to be timed, by kind and batch size; each returns its seconds per step.

    Batch size 1 stands for one example that is ready: no shuffling, no gathering.
    """
    nothing = _nothing()  # every other experiment has a network of its own, traced for its batch size as in real use
    one = task.data.sample(1, seed)
    experiments = {
        ("nothing", 1): _epoch(nothing, steps, x=_again(one), steps_per_epoch=steps, shuffle=False),
        ("network", 1): _epoch(
            compiled(task, jit_compile=False), steps, x=_again(one), steps_per_epoch=steps, shuffle=False
        ),
        ("loop", 1): _loop(compiled(task, jit_compile=False), one, steps),
        ("metrics", 1): _metrics(steps),
    }
    for size in batch_sizes:
        count = min(steps, len(task.data) // size)
        rows = task.data.sample(count * size, seed)
        options = {"x": rows.x, "y": rows.y, "batch_size": size, "shuffle": True}
        batch = rows.sample(size, seed)
        experiments |= {
            ("nothing", size): _epoch(nothing, count, **options),
            ("network", size): _epoch(compiled(task, jit_compile=False), count, **options),
            ("loop", size): _loop(compiled(task, jit_compile=False), batch, count),
            ("moving", size): _moving(batch, count, device),
        }
    return experiments


def _epoch(model, steps: int, **options) -> Callable[[], float]:
    epoch = fit_epochs(model, **options)
    return lambda: epoch()[0] / steps


def _tensors(data: Dataset):
    import tensorflow as tf

    return tf.constant(data.x, "float32"), tf.constant(data.y, "float32")


def _again(data: Dataset):
    """Return a pipeline that delivers the same rows for ever, without any work."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(_tensors(data)).repeat()


def _nothing():
    """Return a compiled Keras model that does nothing in a training step."""
    import keras
    import tensorflow as tf

    class Nothing(keras.Model):
        def train_step(self, _data):
            return {"accuracy": tf.constant(0.0), "loss": tf.constant(0.0)}

    model = Nothing()
    model.compile(jit_compile=False)
    return model


def _loop(model, batch: Dataset, steps: int) -> Callable[[], float]:
    """Return training steps over one batch in one call: Python and Keras take part only once."""
    import tensorflow as tf

    batch = _tensors(batch)
    model.train_step(batch)  # makes the variables, which a tf.function must not

    @tf.function(jit_compile=False)
    def train():
        for _ in tf.range(steps):
            model.train_step(batch)

    return lambda: clocked(train)[0] / steps


def _metrics(steps: int) -> Callable[[], float]:
    """Return the reading of two results, as Keras does at the end of every batch."""
    import tensorflow as tf

    results = [tf.constant(0.5), tf.constant(0.5)]

    def read():
        for _ in range(steps):
            for result in results:
                float(result)

    return lambda: clocked(read)[0] / steps


def _moving(batch: Dataset, steps: int, device) -> Callable[[], float]:
    """Return the copying of a batch to the device; a CPU needs none."""
    import tensorflow as tf

    if device.kind == "CPU":
        return lambda: 0.0
    with tf.device("CPU:0"):
        tensors = _tensors(batch)

    def move():
        for _ in range(steps):
            for tensor in tensors:
                tf.identity(tensor)

    return lambda: clocked(move)[0] / steps
