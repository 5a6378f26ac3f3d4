"""Keep the state of a training after every epoch, and take it up again: no epoch is lost, and none counts twice.

One worker keeps the checkpoints; the others get the state from it, so the folder need not be shared.
"""

from pathlib import Path

from helpers.errors import ClusterError
from helpers.replicas import Replicas

KEPT = 2  # checkpoints: the last, and the one before it


class Checkpoints:
    """The checkpoints of one training in a folder; without a folder nothing is kept."""

    def __init__(self, replicas: Replicas, folder: str | Path | None, is_keeper: bool = True):
        """`is_keeper` is True for the one worker that reads and writes the folder."""
        import tensorflow as tf

        self._replicas, self._variables = replicas, [*replicas.model.variables, *replicas.model.optimizer.variables]
        self._epochs = tf.Variable(0, dtype="int64", trainable=False)
        self._manager, self._folder = None, folder
        if folder is not None and is_keeper:
            kept = tf.train.Checkpoint(epochs=self._epochs, variables=[variable.value for variable in self._variables])
            self._manager = tf.train.CheckpointManager(kept, str(folder), max_to_keep=KEPT)

    def restore(self) -> int:
        """Give every worker the state of the last checkpoint, and return the number of epochs it has been trained."""
        if self._manager and self._manager.latest_checkpoint:
            self._require_success(self._manager.restore_or_initialize)
        if self._folder is not None:
            self._share()
        self._replicas.epochs = int(self._epochs)
        return self._replicas.epochs

    def save(self) -> None:
        """Keep the state as it is after this epoch. A checkpoint that is not complete is never taken up."""
        self._epochs.assign(self._replicas.epochs)
        if self._manager:
            self._require_success(lambda: self._manager.save(self._replicas.epochs))

    def _share(self) -> None:
        """Let every replica take over the state of the first: the others add zeros to it."""
        import tensorflow as tf

        strategy = self._replicas.strategy
        state = [self._epochs, *(variable.value for variable in self._variables)]
        own = [tf.cast(strategy.experimental_local_results(value)[0], "float64") for value in state]

        def add_up():
            context = tf.distribute.get_replica_context()
            is_first = tf.cast(context.replica_id_in_sync_group == 0, "float64")
            return context.all_reduce("SUM", [is_first * value for value in own])

        with strategy.scope():
            shared = strategy.run(tf.function(add_up))
            for variable, value in zip(state, shared, strict=True):
                variable.assign(tf.cast(strategy.experimental_local_results(value)[0], variable.dtype))

    def _require_success(self, act) -> None:
        import tensorflow as tf

        try:
            act()
        except (tf.errors.OpError, ValueError, OSError, IndexError) as error:
            raise ClusterError(
                f"The checkpoints in {self._folder} cannot be used: {str(error).splitlines()[0][:300]}",
                "Accepted is a folder with checkpoints of the same network, or a new one in which you may write.",
                "Give another folder with --checkpoint.",
            ) from error
