"""The program that each machine runs: it goes on after a loss, waits for nobody for ever, and says what happened.

`make test` runs the same story in notebook 10, with the other worker killed.
"""

import os
import subprocess
import sys
import time

import pytest

from helpers import launched, meeting, worker
from helpers.errors import ClusterError

COMMAND = ["two_clouds", "--limit", "400", "--batch", "40", "--epochs", "40"]


def losses(started, number=0):
    """Return {epoch: loss} of what a worker printed."""
    lines = [line for who, _, line in started.said() if who == number and line.startswith("epoch")]
    assert len({line.split()[1] for line in lines}) == len(lines)  # no epoch twice
    return {int(line.split()[1].rstrip(":")): float(line.split()[3].rstrip(",")) for line in lines}


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """Two workers; worker 0, which keeps the checkpoints, is killed; both start again; then worker 1 alone."""
    command = [*COMMAND, "--checkpoint", str(tmp_path_factory.mktemp("kept"))]
    places, told = meeting.on_this_machine(2), {}
    with launched.Launched(command, places) as started:
        assert started.wait_for("epoch 2", 1)
        lost_at = started.kill(0)
        told["first"] = (started.wait(60), losses(started, 1), started.said())
        told["noticed"] = next(at for who, at, line in started.said() if "is lost" in line) - lost_at
    with launched.Launched(command, places) as started:
        told["again"] = (started.wait(120), losses(started, 1), started.said())
    with launched.Launched([*command, "--wait", "0.5"], places, absent=[0]) as started:
        told["alone"] = (started.wait(60), {}, started.said())
    return told


@pytest.mark.long
def test_a_lost_worker_is_noticed_and_named(story):
    """Within ten seconds; the other ends by itself, with words and its own exit code."""
    codes, _, said = story["first"]

    assert codes == {0: -9, 1: 3} and story["noticed"] < 10
    assert any("Worker 0 at 127.0.0.1:" in line and "Start all of them again" in line for _, _, line in said)


@pytest.mark.long
def test_started_again_it_goes_on_after_the_last_whole_epoch(story):
    """At most the epoch under way is trained again: none that was kept is, and none is missing."""
    _, before, _ = story["first"]
    codes, after, said = story["again"]

    done = int(next(line for _, _, line in said if "trained before" in line).split()[-4])
    assert codes == {0: 0, 1: 0}
    assert done >= 1 and len(before) - 1 <= done <= len(before) + 1
    assert list(after) == list(range(done + 1, 41))


@pytest.mark.long
def test_what_is_learned_is_what_an_undisturbed_training_learns(story, tf):
    """Rows in the same order, the same state of the optimizer."""
    from helpers import replicas, workloads

    run = replicas.one.start(workloads.find("two_clouds").task(400), batch_size=40)
    for _ in range(40):
        run.epoch()

    found = story["first"][1] | story["again"][1]
    assert [found[epoch] for epoch in range(1, 41)] == pytest.approx(run.history["loss"], rel=1e-3)


@pytest.mark.long
def test_a_worker_waits_no_longer_than_it_is_told_to(story):
    """And names the one that did not come."""
    codes, _, said = story["alone"]

    assert codes == {1: 3}
    assert "Worker 0 at 127.0.0.1:" in said[-1][2] and "has not come within 0.5 s" in said[-1][2]


def test_waiting_has_an_end(tmp_path):
    """Here nobody ends in time; what was started ends with the block."""
    with launched.Launched([*COMMAND, "--wait", "60"], meeting.on_this_machine(2), absent=[1]) as started:
        with pytest.raises(ClusterError, match="Worker 0 has not ended within 0.2 s"):
            started.wait(0.2)
        assert not started.wait_for("epoch 1", seconds=0.1)
        began = time.perf_counter()

    assert started._processes[0].code == -9 and time.perf_counter() - began < 10


def test_the_command_says_in_words_what_is_wrong(monkeypatch, capsys):
    """On stdout, as everything else that it says, and with an exit code of its own."""
    monkeypatch.setenv("TF_CONFIG", "")

    assert worker.main(["mnist_mlp"]) == 3
    assert "TF_CONFIG is not set" in capsys.readouterr().out
    assert worker.main(["mlp"]) == 2
    assert "no workload 'mlp'" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        worker.main(["mnist_mlp", "--cluster", "clouds"])


@pytest.mark.long
def test_the_command_is_what_a_second_machine_types(tmp_path):
    """python -m helpers.worker, with TensorFlow's own variable: one worker is a cluster, too."""
    place = meeting.on_this_machine(1)[0]
    command = [sys.executable, "-m", "helpers.worker", "two_clouds", "--limit", "40", "--batch", "8", "--epochs", "2"]

    answer = subprocess.run(
        command, env={**os.environ, "TF_CONFIG": place.config}, capture_output=True, text=True, timeout=120
    )

    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    assert lines[0] == f"worker 0 of 1 at {place.own}, waiting for the others"
    assert [line.split(":")[0] for line in lines[-2:]] == ["epoch 1", "epoch 2"]
