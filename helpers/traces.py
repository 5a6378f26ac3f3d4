"""Let TensorFlow's profiler write down what happens during a call, and read its file: an XSpace message.

Planes (the host, each GPU) hold lines (threads, streams), and lines hold events, with times in picoseconds.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from helpers.errors import DataError, ParameterError

WHOLE = "course: the profiled call"  # an event of our own, so that the trace says when the call began and ended
PICO = 1e12  # picoseconds in a second

Interval = tuple[float, float]  # start and end, in seconds


def record(tf, call: Callable) -> tuple:
    """Return the trace of a call, as an XSpace message, and the call's result."""
    from google.protobuf.message import DecodeError
    from tensorflow.tsl.profiler.protobuf.xplane_pb2 import XSpace

    with tempfile.TemporaryDirectory() as folder:
        try:
            with tf.profiler.experimental.Profile(folder), tf.profiler.experimental.Trace(WHOLE):
                result = call()
                tf.test.experimental.sync_devices()
            space = XSpace()
            for file in Path(folder).rglob("*.xplane.pb"):
                space.MergeFromString(file.read_bytes())
        except (tf.errors.AlreadyExistsError, tf.errors.UnavailableError) as problem:
            if "profiler" not in problem.message:
                raise
            raise ParameterError(
                f"The call cannot be profiled: TensorFlow says {problem.message!r}",
                "Accepted is a call that starts and stops no profiler, while none is running.",
                "Type `tf.profiler.experimental.stop()`, or take the profiler (or TensorBoard) out of the call.",
            ) from None
        except DecodeError:
            raise unreadable() from None
    return space, result


def unreadable() -> DataError:
    return DataError(
        "TensorFlow's profiler wrote no trace that can be read.",
        "Accepted is the trace of TensorFlow 2.21.",
        "Take the profile again, with less work in the call; type `course check` to see the versions.",
    )


@dataclass(frozen=True, eq=False)
class Event:
    """One event; its times are in picoseconds, as in the file."""

    name: str
    line: str
    start: int
    end: int
    outer: "Event | None"  # the shortest event on the same line that holds this one
    stats: dict

    def cut(self, other: "Event") -> Interval:
        """Return the seconds from the start of this event in which another one ran within it."""
        start, end = (min(max(moment, self.start), self.end) - self.start for moment in (other.start, other.end))
        return start / PICO, end / PICO

    def around(self) -> "Iterator[Event]":
        """Yield the events that hold this one, from the inside out."""
        event = self.outer
        while event:
            yield event
            event = event.outer


def events(space, name: str) -> list[Event]:
    """Return the events of the plane of that name, those of each line in order and the outer ones first."""
    found = []
    for plane in (plane for plane in space.planes if plane.name == name):
        for line in plane.lines:
            outer = None
            times = ((line.timestamp_ns * 1000 + event.offset_ps, event.duration_ps, event) for event in line.events)
            for start, length, event in sorted(times, key=lambda item: (item[0], -item[1])):
                while outer and outer.end <= start:
                    outer = outer.outer
                label = plane.event_metadata[event.metadata_id].name
                outer = Event(label, line.name, start, start + length, outer, _stats(plane, event))
                found.append(outer)
    return found


def _stats(plane, event) -> dict:
    """Return what an event says of itself; texts that occur often are stored once and referred to."""
    found = {}
    for stat in event.stats:
        field = stat.WhichOneof("value")
        value = getattr(stat, field) if field else None
        name = plane.stat_metadata[stat.metadata_id].name
        found[name] = plane.stat_metadata[value].name if field == "ref_value" else value
    return found
