"""Name, find, choose and verify the devices that TensorFlow can compute on.

TensorFlow moves work silently to the CPU when the device that was asked for does not exist.
So a device is looked up before work is sent there, and read back from the result afterwards.
Memory is in bytes.
"""

import importlib.util
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType

from helpers import machine
from helpers.errors import DeviceError, NotEnoughMemoryError

SPELLINGS = "Accepted are 'CPU', 'GPU:1', 'gpu:0', '/device:GPU:0' and TensorFlow's own names."
_NAME = re.compile(
    r"(?:/(?:job|replica|task):[^/]+)*/?(?:(?:physical_)?device:)?(CPU|GPU|TPU)(?::([0-9]{1,9}))?", re.IGNORECASE
)


@dataclass(frozen=True, order=True)
class Device:
    """One device as the course names it: `GPU:0`."""

    kind: str  # "CPU", "GPU" or "TPU"
    index: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}"


def load_tensorflow() -> ModuleType:
    """Import TensorFlow, or say which Python lacks it. Takes seconds; starts no device."""
    if importlib.util.find_spec("tensorflow") is None:
        raise DeviceError(
            f"TensorFlow is not installed in the Python that runs this ({sys.executable}).",
            "The course needs one of its own two environments.",
            "Close the notebook, type `make lab` in the course's folder and open it again.",
        )
    import tensorflow

    return tensorflow


def parse(name) -> Device:
    """Return the device that a name or a TensorFlow device object means, whether or not it exists."""
    if isinstance(name, Device):
        return name
    text = name if isinstance(name, str) else getattr(name, "name", None)
    match = _NAME.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        raise DeviceError(f"{name!r} is not the name of a device.", SPELLINGS, _did_you_mean(text))
    return Device(match[1].upper(), int(match[2] or 0))


def _did_you_mean(text) -> str:
    """Translate other frameworks' spellings and small slips into ours."""
    match = re.search(r"(cuda|gpu|mps|rocm|cpu)\D*?(\d*)$", str(text).strip(), re.IGNORECASE)
    if match is None or "-" in str(text):
        return "Type `course check` to see the devices of this machine."
    kind = "CPU" if match[1].lower() == "cpu" else "GPU"
    return f"Did you mean '{kind}:{int(match[2] or 0)}'?"


def available() -> tuple[Device, ...]:
    """Return every CPU and GPU that TensorFlow can use, CPUs first. This starts the devices."""
    tf = load_tensorflow()
    _share_gpu_memory(tf)
    found = [parse(device.name) for device in tf.config.list_logical_devices()]
    return tuple(sorted(device for device in found if device.kind in ("CPU", "GPU")))


def _share_gpu_memory(tf) -> None:
    """Let every GPU hand out memory as it is needed, so that a second open notebook can use it too."""
    for gpu in tf.config.get_visible_devices("GPU"):
        if tf.config.get_logical_device_configuration(gpu):
            continue
        try:
            tf.config.experimental.set_memory_growth(gpu, True)
        except RuntimeError:  # the device has started: how it hands out memory is settled
            return


def find(name) -> Device:
    """Return the device that `name` means, or raise `DeviceError` with the names of those that exist."""
    wanted = parse(name)
    existing = available()
    if wanted not in existing:
        here = ", ".join(map(str, existing))
        raise DeviceError(
            f"There is no {wanted} here: TensorFlow sees {here}.",
            f"Accepted are {here}, or None for all of them.",
            f"Type `course check` to learn why, or set devices='{existing[0]}' to go on without it.",
        )
    return wanted


def split_cpu(count: int = 2) -> None:
    """Let TensorFlow see one CPU as several, for replicas where there are no GPUs. They share the same cores.

    This must come before TensorFlow is used for anything else; a CPU that is split already stays as it is.
    """
    tf = load_tensorflow()
    cpu = tf.config.list_physical_devices("CPU")[0]
    if len(tf.config.get_logical_device_configuration(cpu) or ()) == count:
        return
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError as error:
        raise DeviceError(
            f"The CPU cannot be split into {count} any more: TensorFlow is in use.",
            "It must be split before anything else.",
            "Restart the kernel, and run the cells from the first on.",
        ) from error


def choose(names=None) -> tuple[Device, ...]:
    """Return the devices of "CPU:0,GPU:0" or of a list, each once and in that order; None means all."""
    if names is None:
        return available()
    if isinstance(names, str):
        names = names.split(",")
    elif not isinstance(names, Iterable):
        names = [names]
    chosen = tuple(dict.fromkeys(find(name) for name in names))
    if not chosen:
        raise DeviceError("No device was named.", SPELLINGS, "Set devices=None to take every device.")
    return chosen


def where(result) -> tuple[Device, ...]:
    """Return the devices that hold the tensors of `result` (a tensor, or any nest of them), each once.

    NumPy arrays, numbers and None do not say where they were computed: they give an empty tuple.
    """
    return tuple(dict.fromkeys(parse(_memory_of(tensor)) for tensor in _tensors(load_tensorflow(), result)))


def _tensors(tf, result) -> Iterator:
    """Yield every tensor and variable in a nest; Keras' own variables wrap TensorFlow's."""
    if isinstance(result, Mapping):
        result = list(result.values())
    if isinstance(result, (list, tuple, set)):
        for item in result:
            yield from _tensors(tf, item)
        return
    for leaf in tf.nest.flatten(result, expand_composites=True):
        inner = getattr(leaf, "value", None)
        leaf = leaf if inner is None or callable(inner) else inner
        if isinstance(leaf, tf.Variable) or tf.is_tensor(leaf):
            yield leaf


def _memory_of(tensor) -> str:
    """Return the name of the device in whose memory a tensor lies.

    `device` of what a tf.function returns is only the caller's wish. Whole numbers are an exception:
    many GPU operations keep them in the host's memory.
    """
    is_float = tensor.dtype.is_floating or tensor.dtype.is_complex
    return getattr(tensor, "backing_device", tensor.device) if is_float else tensor.device


def verify(result, device: Device) -> Device | None:
    """Return the device that computed `result`, None if it does not say, or raise if it is another one."""
    found = where(result)
    if any(other != device for other in found):
        raise DeviceError(
            f"The work was sent to {device}, but its result came from {', '.join(map(str, found))}.",
            f"A result counts for {device} only if all of its tensors lie there.",
            "Make the inputs under `with tf.device(...)` as well, and type `course check` to test the device.",
        )
    return found[0] if found else None


def hardware_name(device: Device) -> str:
    """Return what the maker calls the device: "NVIDIA H200", "AMD EPYC"."""
    if device.kind == "CPU":
        return machine.cpu_name()
    return gpu_details(device).get("device_name", str(device))


def gpu_details(device: Device) -> dict:
    """Return what TensorFlow knows of a GPU: `device_name`, `compute_capability`; {} for other devices."""
    tf = load_tensorflow()
    visible = tf.config.get_visible_devices("GPU")
    if device.kind != "GPU" or not visible:
        return {}
    # With several logical devices on one GPU there are fewer physical ones than indices.
    return tf.config.experimental.get_device_details(visible[min(device.index, len(visible) - 1)])


def free_memory(device: Device) -> int | None:
    """Return the bytes that new tensors on `device` may take; None where nobody can say."""
    return machine.free_host_memory() if device.kind == "CPU" else machine.free_gpu_memory(device.index)


def require_memory(device: Device, needed: int) -> None:
    """Raise `NotEnoughMemoryError` when `needed` bytes do not fit on `device` beside what is there."""
    free = free_memory(device)
    if free is not None and needed > free:
        raise NotEnoughMemoryError(
            f"{device} needs {needed / 1e9:,.1f} GB, {free / 1e9:,.1f} GB free.",
            "Work must fit into the memory that is free.",
            "Choose a smaller size, or close other programs and notebooks.",
        )


def too_big(device: Device, sizes: Iterable[int], bytes_of: Callable[[int], int]) -> dict[int, str]:
    """Return the sizes that do not fit on `device`, each with the reason; raise if none fits.

    `bytes_of(size)` is what the work of one size needs at once.
    """
    found, fits = {}, False
    for size in sizes:
        try:
            require_memory(device, bytes_of(size))
            fits = True
        except NotEnoughMemoryError as problem:
            found[size] = f"size {size} is skipped: {problem.args[0]}"
            last = problem
    if found and not fits:
        raise last
    return found
