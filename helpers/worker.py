"""One worker of several that train a network of the course together: what each machine runs.

    TF_CONFIG='{"cluster": {"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]}, "task": {"type": "worker", "index": 0}}' \\
        python -m helpers.worker mnist_mlp --batch 200 --epochs 5 --checkpoint kept

TF_CONFIG is TensorFlow's own: https://www.tensorflow.org/guide/distributed_training#setting_up_the_tf_config_environment_variable.
The exit code is 0 when all epochs are trained, 2 for a wrong command, 3 when another worker never came or was lost,
and 130 after Ctrl+C.
"""

import argparse
import os
import sys

from helpers import checkpoints, places, replicas, resolvers, strategies, workloads
from helpers.errors import ClusterError, CourseError
from helpers.timing import format_seconds


def main(arguments: list[str] | None = None) -> int:
    """Train, a line for each epoch on stdout; errors in words on stdout, too, for a notebook or a log."""
    options = _parser().parse_args(arguments)
    try:
        _train(options)
    except ClusterError as error:
        print(f"worker: {error}", flush=True)
        return 3
    except CourseError as error:
        print(f"worker: {error}", flush=True)
        return 2
    except KeyboardInterrupt:
        print("worker: stopped", flush=True)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m helpers.worker", description="Train a network together with the workers named in $TF_CONFIG."
    )
    parser.add_argument("network", help=", ".join(workloads.KNOWN))
    parser.add_argument("--batch", type=int, help="examples in a step of all workers together (default: as published)")
    parser.add_argument("--epochs", type=int, default=5, help="in all, those before a restart included (default: 5)")
    parser.add_argument("--limit", type=int, help="examples to train with (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="the same for all workers (default: 0)")
    parser.add_argument("--checkpoint", metavar="DIR", help="where worker 0 keeps the state after every epoch")
    parser.add_argument("--wait", type=float, metavar="S", default=strategies.USUAL_WAIT, help="for the others to come")
    parser.add_argument(
        "--cluster", choices=resolvers.KINDS, default="tf_config", help="who knows the others (default: $TF_CONFIG)"
    )
    return parser


def _train(options) -> None:
    work = workloads.find(options.network)
    os.environ["TF_CONFIG"] = resolvers.config(options.cluster)
    os.environ[strategies.WAIT] = str(options.wait)
    place = places.read(os.environ["TF_CONFIG"])
    print(f"worker {place.index} of {len(place.addresses)} at {place.own}, waiting for the others", flush=True)
    task = work.task(options.limit)
    run = replicas.workers.start(task, batch_size=options.batch or work.batch_size, seed=options.seed)
    kept = checkpoints.Checkpoints(run.model, options.checkpoint, place.is_chief)
    done = kept.restore()
    print(f"{run.flags['replicas']} replicas, batches of {run.batch_size}, {done} epochs trained before", flush=True)
    for number in range(done, options.epochs):
        run.epoch()
        kept.save()
        loss = run.history["loss"][-1]
        print(f"epoch {number + 1}: loss {loss:.6g}, {format_seconds(run.seconds[-1])}", flush=True)
    run.model.part()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # TensorFlow's own end may wait for workers that are not there any more
