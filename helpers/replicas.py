"""Train on several devices at once: each holds a replica of the network and takes its share of every batch.

The gradients of all shares are added up (*all-reduce*) before any weight changes, so all replicas stay equal, and
together they learn what one device learns from the whole batch. The loop is that of TensorFlow's guide "Custom
training with tf.distribute.Strategy": Keras' own `fit` fails with several workers (Keras 3.15). Times are in seconds.
"""

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from helpers import devices, evaluation, strategies
from helpers.errors import ClusterError, DeviceError
from helpers.tasks import Task, check, compiled
from helpers.timing import clocked
from helpers.training import Run, Way


class Replicas:
    """A network with a replica on each device of a strategy, and all rows of the data on each."""

    def __init__(self, strategy, start, task: Task, batch_size: int, seed: int):
        """`start` is the same Keras model outside of the strategy, compiled to be evaluated."""
        import keras

        self.strategy, self.task, self.seed, self.start = strategy, task, seed, start
        self.count = strategy.num_replicas_in_sync
        self.share = max(1, batch_size // self.count)  # rows of a batch for each replica
        self.epochs = 0  # trained so far: the order of the rows depends on it alone, so a training can be taken up
        with strategy.scope():
            keras.utils.set_random_seed(seed)  # every worker draws the same first weights
            self.model = task.model()
            optimizer = keras.optimizers.Adam(float(task.learning_rate))
            optimizer.build(self.model.trainable_variables)
            self.model.compile(optimizer, task.loss, jit_compile=False)
        labels = None if task.data.classes else "float32"
        self._data = self._on_each(task.data.x, "float32"), self._on_each(task.data.y, labels)
        self._step = self._function(self._train)

    def _on_each(self, values, dtype=None, of: Callable = lambda values, replica: values):
        """Return `of(values, number of the replica)` as a tensor on the device of each replica of this process."""
        import tensorflow as tf

        places = iter(self.strategy.extended.worker_devices)

        def value(context):
            with tf.device(next(places)):
                return tf.constant(of(values, context.replica_id_in_sync_group), dtype)

        return self.strategy.experimental_distribute_values_from_function(value)

    def _rows(self, batch):
        """Give each replica its share of a batch; rows that are left over, fewer than the replicas, are left out."""
        share = len(batch) // self.count
        return self._on_each(batch, of=lambda rows, replica: rows[replica * share : (replica + 1) * share])

    def _gradients(self, x, y, rows):
        import tensorflow as tf

        batch, labels = tf.gather(x, rows), tf.gather(y, rows)
        with tf.GradientTape() as tape:
            # Keras divides this loss by the number of replicas, so their sum is the mean over the whole batch.
            loss = self.model.compute_loss(batch, labels, self.model(batch, training=True))
        return loss, tape.gradient(loss, self.model.trainable_variables)

    def _train(self, x, y, rows):
        """Train one replica for a step; the optimizer adds up the gradients of all replicas before it uses them."""
        loss, gradients = self._gradients(x, y, rows)
        self.model.optimizer.apply(gradients, self.model.trainable_variables)
        return loss

    def _function(self, work: Callable) -> Callable:
        """Return a TensorFlow function that lets every replica do `work`, and returns the sum of what they return."""
        import tensorflow as tf

        @tf.function(jit_compile=False)
        def step(x, y, rows):
            return self.strategy.reduce("SUM", self.strategy.run(work, args=(x, y, rows)), axis=None)

        return step

    def batches(self) -> list:
        """Return the numbers of the rows of each batch of the next epoch; the same on every worker."""
        import numpy as np

        count, size = len(self.task.data), self.share * self.count
        order = np.arange(count)
        if self.task.shuffle:
            order = np.random.default_rng((self.seed, self.epochs)).permutation(count)
        found = [order[start : start + size] for start in range(0, count, size)]
        return found if len(found[-1]) >= self.count else found[:-1]

    def train_epoch(self) -> tuple[float, dict]:
        """Train on all rows once, and return the seconds and the mean loss."""

        def epoch():
            batches = self.batches()
            losses = [len(batch) * self._step(*self._data, self._rows(batch)) for batch in batches]
            return sum(losses) / sum(map(len, batches))

        with self.strategy.scope(), strategies.lost_workers():
            seconds, loss = clocked(epoch)
        self.epochs += 1
        return seconds, {"loss": loss}

    def evaluate(self, data) -> dict:
        """Return loss and metrics over all data, of one replica: they are all equal."""
        self.start.set_weights(self.model.get_weights())
        return evaluation.of_keras(self.start, data)

    def copies(self, variable) -> tuple:
        """Return the copy of a variable that each replica of this process holds."""
        return self.strategy.experimental_local_results(variable.value)

    def _all_reduce(self) -> Callable:
        """Return a TensorFlow function that adds up tensors over all replicas, and nothing else."""
        import tensorflow as tf

        def add_up(tensors):
            here = [tf.identity(tensor) for tensor in tensors]  # an argument does not know its device
            return tf.distribute.get_replica_context().all_reduce("SUM", here)

        return tf.function(lambda tensors: self.strategy.run(add_up, args=(tensors,)))

    def all_reduces(self, size: int, times: int) -> list[float]:
        """Return the seconds of so many all-reduces of `size` bytes, the first of them with tracing."""
        import numpy as np

        values = [self._on_each(np.ones(size // 4, "float32"))]
        add_up = self._all_reduce()
        with self.strategy.scope(), strategies.lost_workers():
            return [clocked(partial(add_up, values))[0] for _ in range(times)]

    def part(self) -> None:
        """Wait until all workers are done: who ends earlier may still be asked for its share of a sum."""
        with suppress(ClusterError):  # of somebody who was the last to need an answer, and has got it
            self.all_reduces(size=4, times=1)

    def parts(self, steps: int) -> list[tuple[float, float, float, float]]:
        """Train for some steps, and return when each began, had its gradients, had all gradients, and was done.

        The moments are those of `time.perf_counter`, which all processes of a machine share. The first step, in which
        the functions are traced, is left out. Each part waits for the device, so that parts never overlap here.
        """
        import tensorflow as tf

        variables, optimizer = self.model.trainable_variables, self.model.optimizer
        add_up = self._all_reduce()
        compute = tf.function(lambda x, y, rows: self.strategy.run(self._gradients, args=(x, y, rows))[1])

        @tf.function
        def update(gradients):
            for gradient, variable in zip(gradients, variables, strict=True):
                self.strategy.extended.update(
                    variable.value,
                    lambda copy, total: optimizer.update_step(total, copy, optimizer.learning_rate),
                    args=(gradient,),
                    group=False,
                )

        found = []
        with self.strategy.scope():
            rows = self._rows(self.batches()[0])
            for _ in range(steps + 1):
                moments = [time.perf_counter()]
                _, gradients = clocked(partial(compute, *self._data, rows))
                moments.append(time.perf_counter())
                _, gradients = clocked(partial(add_up, gradients))
                moments.append(time.perf_counter())
                clocked(partial(update, gradients))
                found.append((*moments, time.perf_counter()))
        return found[1:]


@dataclass(frozen=True)
class Replicated(Way):
    """A way of training that divides every batch among replicas."""

    strategy: Callable = strategies.one  # (device, count) -> a tf.distribute.Strategy
    count: int = 0  # replicas; 0: one for each device of the kind, or for each worker

    def start(self, task: Task, *, batch_size: int, device="CPU:0", seed: int = 0) -> Run:
        """Return a training that has not begun. Every replica lies on a device of the kind of `device`."""
        strategy = self.strategy(devices.parse(device), self.count)  # a cluster must be joined before all else
        device = devices.parse(strategy.extended.worker_devices[0])
        check(task, batch_size, device)
        with devices.load_tensorflow().device(str(device)):
            start = compiled(task, False, seed)
        replicas = Replicas(strategy, start, task, int(batch_size), seed)
        _require_own_devices(replicas)
        return Run(
            label=self.label,
            task=task,
            device=device,
            batch_size=replicas.share * replicas.count,
            steps=len(replicas.batches()),
            flags={**self._flags(start, task), "replicas": replicas.count},
            model=replicas,
            variables=[replicas.copies(variable)[0] for variable in replicas.model.trainable_variables],
            train_epoch=replicas.train_epoch,
            evaluate=replicas.evaluate,
        )


def _require_own_devices(replicas: Replicas) -> None:
    """Raise `DeviceError` unless every replica's weights lie on its own device."""
    wanted = list(map(devices.parse, replicas.strategy.extended.worker_devices))
    for variable in replicas.model.trainable_variables:
        found = [devices.where(copy)[0] for copy in replicas.copies(variable)]
        if found != wanted:
            raise DeviceError(
                f"The replicas should lie on {', '.join(map(str, wanted))}, but {variable.path} lies on "
                f"{', '.join(map(str, found))}.",
                "A result counts only if every replica lies on its own device.",
                "Type `course check` to test the devices.",
            )


one = Replicated("one replica", False, "rows", math.ceil, None, strategy=strategies.one)
mirrored = Replicated("replicas in one process", False, "rows", math.ceil, None, strategy=strategies.mirrored)
workers = Replicated("workers, a process each", False, "rows", math.ceil, None, strategy=strategies.workers)

WAYS = {way.label: way for way in (one, mirrored, workers)}
