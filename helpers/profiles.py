"""Take a profile of some work and read it here: what ran, when nothing ran, and how long it waited for input.

Times are in seconds from the start of the profiled call. TensorFlow is imported inside functions only.

The file is TensorFlow's XSpace message: planes (the host, each GPU) hold lines (threads, streams), and lines hold
events. What the events mean is nowhere promised: the host's names were found in traces of TensorFlow 2.21, those
of a GPU in its source (xla/backends/profiler/gpu/cupti_collector.cc).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from helpers import devices, traces
from helpers.devices import Device
from helpers.errors import DeviceError, ParameterError
from helpers.traces import PICO, Event, Interval

_OPERATION = re.compile(r"[^:]*:_*([A-Z]\w*)")  # "sequential/dense/MatMul:MatMul"; rewritten ones begin with _
_EAGER = re.compile(r"EagerLocalExecute: _*([A-Z]\w*)")  # called from Python; a function's name begins with __
_RUN = "KernelAndDeviceFunc::Run"  # lies within the former, and leaves out the way to the operation
# What the former call has events of its own; the last is how we wait for the device.
_NO_WORK = re.compile(r"(Stateful|Stateless)?(PartitionedCall|While|If|Case)|SyncDevice")
_XLA = "CpuExecutable::ExecuteAsyncOnStream"  # the events of its parts end before their work does
_INPUT_KINDS = re.compile(r"Iterator|Dataset|Optional")
_REQUEST = re.compile(r"IteratorGetNext\w*::DoCompute")
_TF_DATA = re.compile(r"((Make)?Iterator|InstantiatedCapturedFunction)::.*")  # the latter is what a map calls


class Operation(NamedTuple):
    kind: str  # "MatMul"
    start: float
    end: float
    seconds: float  # end - start, less the operations that ran inside of it


class Kind(NamedTuple):
    """All operations of one kind."""

    kind: str
    count: int
    seconds: float
    share: float  # of the seconds of all kinds


@dataclass(frozen=True)
class Profile:
    """What ran during one call; on several threads or streams, at the same time."""

    device: Device
    seconds: float  # of the whole call
    operations: tuple[Operation, ...]  # of the work itself, not those that prepare a batch
    input_work: tuple[Interval, ...]  # while tf.data worked or waited for its own stages, or a GPU copied from the host
    requests: tuple[Interval, ...]  # from asking for a batch until it came, in order
    copies: tuple[Interval, ...] = ()  # from the host to a GPU

    @cached_property
    def busy(self) -> list[Interval]:
        """When at least one operation ran."""
        return merged((operation.start, operation.end) for operation in self.operations)

    @property
    def busy_share(self) -> float:
        return _length(self.busy) / self.seconds

    @property
    def gaps(self) -> list[Interval]:
        """Each time without any operation, as (start, seconds), the longest first."""
        idle = without([(0.0, self.seconds)], self.busy)
        return sorted(((start, end - start) for start, end in idle), key=lambda gap: -gap[1])

    @cached_property
    def waiting(self) -> list[Interval]:
        """When a batch had been asked for, or was being copied to the GPU, and no operation ran."""
        return without(merged(self.requests + self.copies), self.busy)

    @property
    def waiting_for_input(self) -> float:
        return _length(self.waiting)

    def by_kind(self) -> list[Kind]:
        """Return one row for each kind of operation, the largest first; together they can exceed the whole call."""
        found: dict[str, list[float]] = {}
        for operation in self.operations:
            found.setdefault(operation.kind, []).append(operation.seconds)
        total = sum(map(sum, found.values()))
        rows = [Kind(kind, len(times), sum(times), sum(times) / total) for kind, times in found.items()]
        return sorted(rows, key=lambda row: -row.seconds)

    @property
    def in_words(self) -> str:
        waited = f"Waiting for input took {self.waiting_for_input / self.seconds * 100:.0f} %."
        asked = waited if self.requests or self.copies else "No batch of input was asked for."
        return f"Operations ran for {self.busy_share * 100:.0f} % of the time. {asked}"


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the time that the intervals cover, in order and each moment once; empty ones vanish."""
    found: list[Interval] = []
    for start, end in sorted(pair for pair in intervals if pair[0] < pair[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def without(intervals: list[Interval], holes: list[Interval]) -> list[Interval]:
    """Return what is left of merged intervals outside of merged holes."""
    edges = sorted(
        [(t, change) for pair in intervals for t, change in zip(pair, (1, -1), strict=True)]
        + [(t, change) for pair in holes for t, change in zip(pair, (-1, 1), strict=True)]
    )
    found, level, since = [], 0, 0.0
    for moment, change in edges:
        if level == 1 and moment > since:
            found.append((since, moment))
        level, since = level + change, moment
    return found


def _length(intervals: Iterable[Interval]) -> float:
    return sum(end - start for start, end in intervals)


def take(call: Callable, device) -> Profile:
    """Call once to warm up, once more under TensorFlow's profiler, and return what ran on `device` meanwhile.

    The profiler makes every operation a little slower, so shares are to be believed, not times, and those of tiny
    operations least. Raises `ParameterError` if another profiler runs or if the call runs no operation,
    `DeviceError` if nothing ran on that GPU or the result came from elsewhere, `DataError` if no trace came back.
    """
    tf = devices.load_tensorflow()
    device = devices.find(device)
    with tf.device(str(device)):
        call()
        tf.test.experimental.sync_devices()
        space, result = traces.record(tf, call)
    devices.verify(result, device)
    return read(space, device)


def read(space, device: Device) -> Profile:
    """Return the profile that an XSpace message holds for a device; the errors are those of `take`."""
    host = traces.events(space, "/host:CPU")
    whole = next((event for event in host if event.name == traces.WHOLE and event.end > event.start), None)
    if whole is None:
        raise traces.unreadable()
    if any(event.name.startswith("ReduceIterator") for event in host):
        raise ParameterError(
            "The call loops over a data set inside of a TensorFlow function, so tf.data itself runs the steps.",
            "Accepted are steps that ask for their batches.",
            "Loop in Python, train with Keras, or call next(iterator) in the function.",
        )
    work, inputs = _on_host(host)
    copies: list[Event] = []
    if device.kind != "CPU":
        work, copies = _on_gpu(traces.events(space, f"/device:{device}"))
    if not work:
        raise _no_work(space, device)
    own = _own_times(work)
    return Profile(
        device,
        (whole.end - whole.start) / PICO,
        tuple(Operation(kind, *whole.cut(event), own[event] / PICO) for event, kind in work.items()),
        tuple(merged(map(whole.cut, inputs + copies))),
        tuple(sorted(whole.cut(event) for event in inputs if _REQUEST.fullmatch(event.name))),
        tuple(merged(map(whole.cut, copies))),
    )


def _on_host(events: list[Event]) -> tuple[dict[Event, str], list[Event]]:
    """Return the operations of the work with their kinds, and what tf.data did."""
    captured = {event.stats.get("id") for event in events if event.name.startswith("InstantiatedCapturedFunction::")}
    work, inputs = {}, []
    for event in events:
        kind = _host_kind(event)
        is_input = _INPUT_KINDS.search(kind) or _is_for_input(event, captured)
        if _TF_DATA.fullmatch(event.name) or _REQUEST.fullmatch(event.name) or (kind and is_input):
            inputs.append(event)
        elif kind:
            work[event] = kind
    return work, inputs


def _host_kind(event: Event) -> str:
    """Return the kind of operation that an event of the host is, "" if it is none."""
    if event.name == _XLA:
        return "XLA program"
    if event.name == _RUN:
        callers = (outer.name for outer in event.around() if outer.name.startswith("EagerLocalExecute"))
        match = _EAGER.fullmatch(next(callers, ""))
    else:
        match = _OPERATION.fullmatch(event.name)
    return match[1] if match and not _NO_WORK.fullmatch(match[1]) else ""


def _is_for_input(event: Event, captured: set) -> bool:
    """Say whether an operation belongs to a function that tf.data calls for every element, such as that of a map."""
    for outer in event.around():
        if outer.name == "ExecutorState::Process":
            return outer.stats.get("id") in captured
        if _TF_DATA.fullmatch(outer.name):
            return True
    return event.line.startswith("tf_data_")  # its executor had begun before the profile


def _on_gpu(events: list[Event]) -> tuple[dict[Event, str], list[Event]]:
    """Return what the streams of a GPU ran, with its kinds, and the copies from the host's memory."""
    work, copies = {}, []
    for event in (event for event in events if event.line.startswith("Stream")):
        if event.name.startswith("MemcpyH2D"):
            copies.append(event)
        elif not event.name.startswith("Memory"):  # MemoryAlloc and the like: book-keeping
            work[event] = _gpu_kind(event)
    return work, copies


def _gpu_kind(event: Event) -> str:
    """Return the operation that launched a kernel, or what XLA or the maker of the kernel calls it."""
    launched = _OPERATION.fullmatch(str(event.stats.get("tf_op", "")))
    if event.name.startswith("Mem"):  # MemcpyD2H, Memset
        return event.name
    if "hlo_op" in event.stats:
        return re.sub(r"\.\d+$", "", event.stats["hlo_op"])
    return launched[1] if launched else event.name[:40]


def _own_times(work: dict[Event, str]) -> dict[Event, int]:
    """Return the picoseconds of each operation less those of the operations inside of it."""
    own = {event: event.end - event.start for event in work}
    for event in work:
        outer = next((outer for outer in event.around() if outer in own), None)
        if outer:
            own[outer] -= event.end - event.start
    return own


def _no_work(space, device: Device) -> DeviceError | ParameterError:
    if device.kind == "CPU":
        return ParameterError(
            "The call ran no TensorFlow operation.",
            "Accepted is a call that computes with TensorFlow; what NumPy computes is not seen.",
            "Put the work into the call: lambda: model.fit(x, y).",
        )
    said = "".join(f" TensorFlow says: {error:.200}" for error in space.errors[:1])
    return DeviceError(
        f"Nothing ran on {device} during the call.{said}",
        "Accepted is work on the device that is asked for, where NVIDIA's driver lets programs count.",
        "Profile it on the CPU, or type `course check` to test the device.",
    )
