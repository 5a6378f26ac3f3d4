"""Strategies: who may train together, and what is said when one of them is missing."""

import json
import socket
from contextlib import ExitStack
from dataclasses import replace

import pytest

from helpers import datasets, models, replicas, strategies
from helpers.errors import ClusterError, DeviceError
from helpers.tasks import Task

CLOUDS = Task(datasets.two_clouds(200), models.two_clouds, "binary_crossentropy", 0.1, ("accuracy",))


def test_too_few_devices_are_said_in_words(tf):
    """With what to do."""
    with pytest.raises(DeviceError, match="3 replicas need as many devices, but there is CPU:0, CPU:1.*split_cpu"):
        replace(replicas.mirrored, count=3).start(CLOUDS, batch_size=30)
    with pytest.raises(DeviceError, match="2 replicas need as many devices, but there is none"):
        replicas.mirrored.start(CLOUDS, batch_size=30, device="TPU:0")


def test_a_worker_needs_its_place(monkeypatch):
    """Nothing waits for nobody."""
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with pytest.raises(ClusterError, match="TF_CONFIG is not set"):
        replicas.workers.start(CLOUDS, batch_size=30)


def test_a_process_that_has_used_tensorflow_cannot_join(tf, monkeypatch):
    """TensorFlow's own words do not say what to do."""
    monkeypatch.setenv("TF_CONFIG", strategies.meeting.on_this_machine(1)[0].config)
    monkeypatch.setattr(
        tf.distribute, "MultiWorkerMirroredStrategy", lambda: _raise(RuntimeError("must be configured"))
    )

    with pytest.raises(ClusterError, match="cannot join a cluster: must be configured.*python -m helpers.worker"):
        replicas.workers.start(CLOUDS, batch_size=30)


def _raise(error):
    raise error


@pytest.mark.parametrize(
    ("open_ports", "said", "words"),
    [
        ([0, 2], "Socket closed", r"Worker 1 at 127\.0\.0\.1:\d+ is lost\. Training goes on only with all"),
        ([0], "Socket closed", r"Workers 1 at \S+ and 2 at \S+ are lost\."),
        (
            [0, 1, 2],
            "unhealthy (stopped sending heartbeats):\n/job:worker/replica:0/task:2\n/job:worker/replica:0/task:0",
            r"Worker 2 at 127\.0\.0\.1:\d+ is lost, it stopped sending signs of life\.",
        ),
        ([0, 1, 2], "remote target /job:worker/replica:0/task:1 while calling", r"Worker 1 at \S+ is lost\."),
        ([0, 1, 2], "nobody knows", "Another worker is lost: nobody knows"),
    ],
)
def test_a_lost_worker_is_named(tf, monkeypatch, open_ports, said, words):
    """By its closed port, or by what TensorFlow says of one that is silent."""
    here, *_ = strategies.meeting.on_this_machine(3)
    monkeypatch.setenv("TF_CONFIG", here.config)

    with ExitStack() as stack:
        for index in open_ports:
            host, port = here.addresses[index].split(":")
            stack.enter_context(socket.create_server((host, int(port))))
        with pytest.raises(ClusterError, match=words), strategies.lost_workers():
            raise tf.errors.UnavailableError(None, None, said)


def test_a_chief_is_counted_before_the_workers(monkeypatch):
    """TensorFlow numbers both from 0."""
    cluster = {"chief": ["a:1"], "worker": ["b:1", "c:1"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    place = strategies.places.read(strategies.os.environ["TF_CONFIG"])

    assert strategies._silent(place, "/job:worker/replica:0/task:1 and /job:worker/replica:0/task:0") == [2]
    assert strategies._silent(place, "/job:chief/replica:0/task:0") == [0]


def test_an_error_without_a_cluster_is_left_as_it_is(tf, monkeypatch):
    """Replicas in one process have nobody to lose."""
    monkeypatch.delenv("TF_CONFIG", raising=False)

    with pytest.raises(tf.errors.AbortedError, match="something else"), strategies.lost_workers():
        raise tf.errors.AbortedError(None, None, "something else")
