"""Workers on this machine: they train as one, say what happened, and leave nothing behind."""

import os
import socket
import subprocess
import sys
import time

import psutil
import pytest

from helpers import cluster, datasets, models, processes, training
from helpers.cluster import PARTS
from helpers.devices import Device
from helpers.errors import ClusterError, ParameterError
from helpers.tasks import Task

CLOUDS = Task(datasets.two_clouds(400), models.two_clouds, "binary_crossentropy", 0.1, ("accuracy",))


def cores_and_threads(runs, key):
    import tensorflow as tf

    return sorted(os.sched_getaffinity(0)), os.environ["TF_NUM_INTRAOP_THREADS"], len(tf.config.list_physical_devices())


def ports(runs, key):
    """Return (port, network interface it is bound to) of all that this process listens at."""
    found = []
    for each in psutil.Process().net_connections("tcp"):
        if each.status == psutil.CONN_LISTEN:
            with socket.fromfd(each.fd, each.family, each.type) as copy:
                bound = copy.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0").decode()
            found.append((each.laddr.port, bound))
    return found


@pytest.fixture(scope="module")
def trained(tf):
    """Two workers and one alone, in turn; what they answered; and a worker killed in the end."""
    with cluster.Cluster(2) as team:
        runs = {
            "alone": team.start_alone(CLOUDS, batch_size=40, seed=1),
            "team": team.start(CLOUDS, batch_size=40, seed=1),
        }
        found = {"trained": training.in_turn(runs, epochs=3)}
        found["parts"] = runs["team"].parts(3)
        found["all-reduces"] = runs["team"].all_reduces([4000, 400_000], times=3)
        found["cores"] = runs["team"].ask_all(cores_and_threads)
        found["ports"] = runs["team"].ask_all(ports)
        processes_of_team = [process._process.pid for process in team._workers + team._alone]
        team.kill(1)
        began = time.perf_counter()
        with pytest.raises(ClusterError) as caught:
            runs["team"].epoch()
        found["error"], found["noticed"] = str(caught.value), time.perf_counter() - began
    found["left"] = [pid for pid in processes_of_team if psutil.pid_exists(pid)]
    return found


def test_two_workers_learn_what_one_learns(trained):
    """Each with its half of every batch: the losses agree within one part in ten thousand."""
    alone, team = trained["trained"].values()

    assert len(team.history["loss"]) == 3 and team.steps == 10 and team.batch_size == 40
    assert team.history["loss"] == pytest.approx(alone.history["loss"], rel=1e-4)
    assert team.final == pytest.approx(alone.final, rel=1e-4)
    assert (alone.flags["replicas"], team.flags["replicas"]) == (1, 2)
    assert team.epochs.device == Device("CPU", 0) and team.epochs.n == 2


def test_each_worker_has_its_own_cores_and_as_many_threads(trained):
    """Otherwise two would not be twice as much."""
    (first, first_threads, seen), (second, second_threads, _) = trained["cores"]

    assert seen == 1  # no GPU
    if processes.machine.usable_cpus() > 1:
        assert not set(first) & set(second)
    assert first_threads == second_threads == str(len(first)) == str(len(second))


def test_a_step_is_taken_apart_for_each_worker(trained):
    """Nobody waits a negative time, and one at least does not wait."""
    found = trained["parts"]

    assert [list(each) for each in found] == [list(PARTS)] * 2
    assert all(seconds >= 0 for each in found for part, seconds in each.items() if part != "all-reduce")
    assert all(each["computing"] > 0 and each["update"] > 0 for each in found)


def test_all_reduces_are_measured_by_size(trained):
    """The first of each apart, as in every measurement."""
    found = trained["all-reduces"]

    assert list(found) == [4000, 400_000] and all(each.n == 2 for each in found.values())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_ports_are_closed_to_other_machines(trained):
    """TensorFlow itself listens on every interface, and asks nobody for a password."""
    assert len(trained["ports"]) == 2
    assert all(len(each) == 1 and each[0][1] == "lo" for each in trained["ports"])


def test_a_worker_that_is_killed_is_noticed_and_named(trained):
    """Within the ten seconds that the notebook states, and in words."""
    assert trained["error"].startswith("Worker 1 at 127.0.0.1:")
    assert "has ended, killed by SIGKILL" in trained["error"] and "start again" in trained["error"]
    assert trained["noticed"] < 10


def test_nothing_is_left_behind(trained):
    """Neither a process nor an open port."""
    assert trained["left"] == []
    for ((port, _),) in trained["ports"]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 1)


def test_one_worker_is_no_cluster():
    """A cluster of one would wait for nobody."""
    with pytest.raises(ParameterError, match="1 workers make no cluster"):
        cluster.Cluster(1)


@pytest.mark.parametrize(
    ("usable", "workers", "cores"),
    [
        ([0, 1], 2, [[0], [1]]),
        ([2, 3, 6, 7], 2, [[2, 3], [6, 7]]),
        ([0, 1, 2, 3, 4], 2, [[0, 1], [2, 3]]),  # a fair comparison leaves one out
        ([5], 2, [[5], [5]]),
        ([0, 1], 3, [[0], [1], [0]]),
    ],
)
def test_cores_are_divided_evenly(monkeypatch, usable, workers, cores):
    """And shared where there are too few."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(usable), raising=False)

    assert processes.cores_of(workers) == cores


def test_who_waits_for_whom_is_told_from_the_moments():
    """An all-reduce begins when the slowest is there: by hand, in seconds."""
    first = [(0.0, 1.0, 4.0, 4.5), (5.0, 6.0, 9.0, 9.5), (10.0, 11.0, 14.0, 14.5)]
    second = [(0.0, 3.0, 4.0, 5.0), (5.0, 8.0, 9.0, 10.0), (10.0, 13.0, 14.0, 15.0)]

    found = cluster.parts([first, second])

    assert [list(each.values()) for each in found] == [[1.0, 2.0, 1.0, 0.5], [3.0, 0.0, 1.0, 1.0]]


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux' processes")
def test_nothing_outlives_a_notebook_that_is_killed():
    """Not even after SIGKILL, when no line of ours can run: neither workers nor what they were forked from."""
    code = """
import time
from helpers import launched, meeting
places = meeting.on_this_machine(2)
with launched.Launched(["mnist_mlp", "--wait", "600"], places, absent=[1]) as started:
    started.wait_for("worker 0")
    print("waiting", flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "waiting\n"
    family = psutil.Process(parent.pid).children(recursive=True)
    assert len(family) >= 2

    parent.kill()
    parent.wait()
    parent.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=30)

    assert alive == []
