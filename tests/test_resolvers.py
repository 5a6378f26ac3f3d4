"""Where the workers are, as Slurm and Kubernetes say it through TensorFlow's resolvers. Both are made up here."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from helpers import places, resolvers
from helpers.errors import ClusterError

SLURM = {
    "SLURM_PROCID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


def test_tf_config_is_taken_as_it_is(monkeypatch):
    """Not asked twice, not changed."""
    monkeypatch.setenv("TF_CONFIG", "as it is")

    assert resolvers.config("tf_config") == "as it is"


def test_slurm_gives_every_task_its_place(tf, monkeypatch):
    """Four tasks on two nodes: the third is the first of the second node. No GPU is needed."""
    for name, value in {**SLURM, "CUDA_VISIBLE_DEVICES": "as it was"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(resolvers.shutil, "which", lambda _name: None)

    place = places.read(resolvers.config("slurm"))

    assert place.addresses == ("n1:8888", "n1:8889", "n2:8888", "n2:8889") and place.index == 2
    assert resolvers.os.environ["CUDA_VISIBLE_DEVICES"] == "as it was"


def test_outside_of_slurm_it_is_said_in_words(tf, monkeypatch):
    """With the command that starts it."""
    for name in SLURM:
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ClusterError, match="Slurm does not say where the workers are.*srun python -m helpers.worker"):
        resolvers.config("slurm")


@pytest.fixture
def pods(monkeypatch):
    """A cluster with two pods of the Job, as Kubernetes' client shows them; what was asked is kept."""

    def pod(number, phase="Running"):
        return SimpleNamespace(
            metadata=SimpleNamespace(name=f"train-{number}"),
            status=SimpleNamespace(phase=phase, host_ip=f"10.0.0.{number}"),
        )

    asked, found = [], [pod(2), pod(1)]

    class Client:
        def list_pod_for_all_namespaces(self, label_selector):
            asked.append(label_selector)
            return SimpleNamespace(items=found)

    kubernetes = ModuleType("kubernetes")
    kubernetes.client = SimpleNamespace(CoreV1Api=Client)
    kubernetes.config = SimpleNamespace(load_incluster_config=lambda: asked.append("in cluster"))
    monkeypatch.setitem(sys.modules, "kubernetes", kubernetes)
    monkeypatch.setenv("JOB_NAME", "train")
    monkeypatch.setenv("JOB_COMPLETION_INDEX", "1")
    return SimpleNamespace(asked=asked, found=found, pod=pod)


def test_kubernetes_gives_every_pod_its_place(tf, pods):
    """The pods of the Job, in the order of their names; asked from inside of the cluster."""
    config = json.loads(resolvers.config("kubernetes"))

    assert config["cluster"] == {"worker": ["10.0.0.1:8888", "10.0.0.2:8888"]}
    assert config["task"] == {"type": "worker", "index": 1}
    assert pods.asked == ["in cluster", "job-name=train"]


def test_a_pod_that_does_not_run_yet_is_said_in_words(tf, pods):
    """TensorFlow's resolver counts only those that run."""
    pods.found.append(pods.pod(3, "Pending"))

    with pytest.raises(ClusterError, match='Kubernetes does not say.*"train-3" is not running'):
        resolvers.config("kubernetes")


def test_without_kubernetes_client_it_is_said_in_words(tf, monkeypatch):
    """With what to install."""
    monkeypatch.setitem(sys.modules, "kubernetes", None)

    with pytest.raises(ClusterError, match="pip install kubernetes"):
        resolvers.config("kubernetes")
