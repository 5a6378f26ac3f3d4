"""Ask a cluster's own management where the workers are, by TensorFlow's resolvers, and say it as $TF_CONFIG."""

import json
import os
import shutil

from helpers.errors import ClusterError

PORT = 8888  # of the first worker on each computer
KINDS = ("tf_config", "slurm", "kubernetes")


def config(kind: str) -> str:
    """Return what $TF_CONFIG should be in this process: as it is set, or as Slurm or Kubernetes say."""
    if kind == "tf_config":
        return os.environ.get("TF_CONFIG", "")
    return json.dumps({"slurm": _slurm, "kubernetes": _kubernetes}[kind]())


def _slurm() -> dict:
    """Return the place of this task, started by `srun`; its GPUs become the only visible ones."""
    import tensorflow as tf

    # Without GPUs the resolver would fail at dividing none: so it divides numbers that nobody uses.
    no_gpus = {"gpus_per_node": 2**16, "gpus_per_task": 1, "auto_set_gpu": False}
    gpus = {} if shutil.which("nvidia-smi") else no_gpus
    try:
        found = tf.distribute.cluster_resolver.SlurmClusterResolver(port_base=PORT, **gpus)
        cluster = found.cluster_spec().as_dict()
    except (RuntimeError, KeyError, ValueError) as error:
        raise _unknown("Slurm", error, "srun python -m helpers.worker … --cluster slurm") from error
    kind, index = found.get_task_info()
    return {"cluster": cluster, "task": {"type": kind, "index": index}}


def _kubernetes() -> dict:
    """Return the place of this pod, one of an indexed Job on the hosts' network.

    Left to itself, the resolver looks for a user's configuration even inside of a cluster: so it gets a client.
    """
    import tensorflow as tf

    try:
        from kubernetes import client
        from kubernetes import config as settings

        settings.load_incluster_config()
        job, index = os.environ["JOB_NAME"], int(os.environ["JOB_COMPLETION_INDEX"])
        found = tf.distribute.cluster_resolver.KubernetesClusterResolver(
            {"worker": [f"job-name={job}"]}, tf_server_port=PORT, override_client=client.CoreV1Api()
        )
        cluster = found.cluster_spec().as_dict()
    except (ImportError, RuntimeError, KeyError, ValueError) as error:
        raise _unknown("Kubernetes", error, "pip install kubernetes, and see the course's README") from error
    return {"cluster": cluster, "task": {"type": "worker", "index": index}}


def _unknown(name: str, error: Exception, command: str) -> ClusterError:
    return ClusterError(
        f"{name} does not say where the workers are: {type(error).__name__}: {error}.",
        f"Accepted is a process that {name} has started together with the others.",
        f"Use {command}; or set TF_CONFIG yourself, and leave --cluster out.",
    )
