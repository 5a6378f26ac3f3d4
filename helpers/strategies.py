"""TensorFlow's strategies for several devices: how each is made, and what is said when another worker is lost.

Times are in seconds.
"""

import faulthandler
import functools
import json
import os
import re
import signal
import sys
from contextlib import contextmanager

from helpers import devices, meeting, places
from helpers.devices import Device
from helpers.errors import ClusterError, DeviceError

WAIT = "COURSE_WAIT"  # the environment variable for the seconds in which all workers must have come
USUAL_WAIT = 120.0


@contextmanager
def lost_workers():
    """Say in words when another worker is lost: TensorFlow notices a dead one at once, a silent one in ten seconds."""
    errors = devices.load_tensorflow().errors
    try:
        yield
    except (errors.UnavailableError, errors.AbortedError, errors.DeadlineExceededError, errors.CancelledError) as error:
        if not os.environ.get("TF_CONFIG"):  # nobody else is there to be lost
            raise
        place = places.read(os.environ["TF_CONFIG"])
        gone = meeting.unreachable(place) or _silent(place, str(error))
        who = " and ".join(f"{index} at {place.addresses[index]}" for index in gone)
        are = "s {} are" if len(gone) > 1 else " {} is"
        cause = ", it stopped sending signs of life" if "heartbeats" in str(error) else ""
        raise ClusterError(
            f"Worker{are.format(who)} lost{cause}." if who else f"Another worker is lost: {error}",
            "Training goes on only with all workers.",
            "Start all of them again with the same command: with --checkpoint they go on after the last whole epoch.",
        ) from error


def _silent(place: places.Place, words: str) -> list[int]:
    """Return the other workers that TensorFlow names in an error; it counts the chief, if there is one, apart."""
    chiefs = len(json.loads(os.environ["TF_CONFIG"])["cluster"].get("chief", []))
    found = re.findall("/job:(chief|worker)/replica:0/task:([0-9]+)", words)
    named = {int(number) + (chiefs if job == "worker" else 0) for job, number in found}
    return sorted(named & set(place.others))


def one(device: Device, _count: int):
    """Return a strategy for a single replica."""
    return devices.load_tensorflow().distribute.OneDeviceStrategy(str(devices.find(device)))


def mirrored(device: Device, count: int):
    """Return a strategy over the first `count` devices of a kind; 0 takes them all."""
    found = [other for other in devices.available() if other.kind == device.kind]
    if len(found) < max(2, count):
        raise DeviceError(
            f"{max(2, count)} replicas need as many devices, but there is {', '.join(map(str, found)) or 'none'}.",
            "Several GPUs are accepted, or one CPU that is split into logical ones.",
            "Restart the kernel, and call devices.split_cpu() before anything else.",
        )
    return _mirrored_over(tuple(map(str, found[: count or None])))


@functools.cache  # two over the same devices would take each other's all-reduces for their own
def _mirrored_over(names: tuple[str, ...]):
    tf = devices.load_tensorflow()
    tf.get_logger().setLevel("WARNING")  # or it would tell in every notebook how it adds up
    return tf.distribute.MirroredStrategy(list(names))


def workers(_device: Device, _count: int):
    """Return a strategy over all workers, or raise `ClusterError` when one does not come."""
    return _cluster()


@functools.cache  # a process joins once
def _cluster():
    """Return a strategy over all workers of the cluster in $TF_CONFIG, when all of them have come."""
    place, limit = places.read(os.environ.get("TF_CONFIG")), float(os.environ.get(WAIT, USUAL_WAIT))
    meeting.wait_for_all(place, limit)
    tf = devices.load_tensorflow()
    # TensorFlow waits for ever for a worker that was there and went, and lets no Python run meanwhile.
    faulthandler.dump_traceback_later(limit, exit=True, file=sys.__stderr__)
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise ClusterError(
            f"This process cannot join a cluster: {error}.",
            "Only a process that has not used TensorFlow yet can.",
            "Start a new one: python -m helpers.worker.",
        ) from error
    finally:
        faulthandler.cancel_dump_traceback_later()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # TensorFlow has taken it over, and then goes on
    if all(map(places.is_loopback, place.addresses)):
        meeting.keep_to_loopback()
    return strategy
