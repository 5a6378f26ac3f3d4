"""Answers back to an exercise: right, or what to look at again. A wrong answer never raises."""

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from helpers import devices, machine
from helpers.comparing import Comparison
from helpers.errors import DeviceError
from helpers.timing import Measurement, format_digits


@dataclass(frozen=True)
class Reply:
    """What comes back for an answer; a notebook shows the words."""

    right: bool
    words: str

    def __repr__(self) -> str:
        return self.words


def check(name: str, answer) -> Reply:
    """Return the reply to an answer to exercise `name` ("01-2"); `...` counts as not answered yet."""
    checker = _CHECKS.get(name) if isinstance(name, str) else None
    if checker is None:
        return Reply(False, f"There is no exercise {name!r}. There are {', '.join(_CHECKS)}.")
    if answer is ... or answer is None:
        return Reply(False, "Not answered yet: put your answer in place of the three dots and run the cell again.")
    hint = checker(answer)
    if isinstance(hint, Reply):
        return hint
    return Reply(False, f"Not yet. {hint}")


def _number(answer) -> float | None:
    """Return the answer as a finite number, or None if it is none."""
    if hasattr(answer, "item") and getattr(answer, "shape", None) == ():
        answer = answer.item()
    if isinstance(answer, numbers.Real) and not isinstance(answer, bool) and -1e300 < answer < 1e300:
        return float(answer)
    return None


def _device_names(answer) -> Reply | str:
    if isinstance(answer, str) or not isinstance(answer, (set, frozenset, list, tuple)):
        return "Give a set of the names: {'GPU', …}."
    given = {item for item in answer if isinstance(item, str)}
    right = {"GPU", "gpu:0", "/device:GPU:0"}
    if given == right:
        return Reply(True, "Right. Upper or lower case, short or long: all three mean GPU:0.")
    if "GPU:1" in given:
        return "Counting starts at 0: which device is GPU:1?"
    if "cuda:0" in given:
        return "'cuda:0' is what another framework calls it. What does parse('cuda:0') say?"
    return "Try every name: parse(name) says which device it means."


def _usable_cores(answer) -> Reply | str:
    given, right = _number(answer), machine.usable_cpus()
    if given is None:
        return "Give a whole number."
    if given == right:
        return Reply(True, "Right. So many pieces of work can be done at the same time.")
    return "Look at the report of `doctor` above, in the line that begins with CPU."


def _silent_placement(answer) -> Reply | str:
    if not isinstance(answer, (str, devices.Device)):
        return "Give the name of a device as text, such as 'CPU:0'."
    tf = devices.load_tensorflow()
    with tf.device("/GPU:7"):
        right = devices.where(tf.ones((2, 2)) + 1)[0]
    try:
        given = devices.parse(answer)
    except DeviceError as error:
        return str(error)
    if given == right:
        return Reply(True, f"Right: the work went to {right} without a word. Only the result tells.")
    if given == devices.parse("GPU:7"):
        return "That is what was asked for. Where is the result? Look at product.device."
    return f"The devices here are {', '.join(map(str, devices.available()))}. Which one does where(product) name?"


def _dtypes(answer) -> Reply | str:
    names = ("float16", "float32", "float64")
    if not isinstance(answer, Mapping) or set(answer) != set(names):
        return f"Give a dict with the keys {', '.join(names)}."
    if not all(isinstance(answer[name], Measurement) for name in names):
        return "Each value should be what timing.in_turn or timing.measure returns, with all its values."
    found = {answer[name].device for name in names}
    if len(found) != 1 or None in found:
        return "Measure all three on the same device, and return the product, so that the device can be read back."
    verdicts = [f"{name} is {Comparison(answer['float32'], answer[name]).verdict}" for name in ("float16", "float64")]
    return Reply(True, f"Right. Against float32, {verdicts[0]} and {verdicts[1]} here. Other processors differ.")


def _rectangular_product(answer) -> Reply | str:
    given, right = _number(answer), 2 * 1000 * 4000 * 250
    if given is None:
        return "Give a number."
    if given == right:
        return Reply(True, "Right: 2 × rows × inner length × columns.")
    if given == right / 2:
        return "Each term takes a multiply and an add: two operations."
    if given in (2 * 1000**3, 2 * 4000**3, 2 * 250**3):
        return "The matrices are not square: every one of the three lengths counts once."
    return "How many numbers does the result have, and how many terms are summed up for each?"


def _own_device(answer) -> Reply | str:
    names = ("flop_per_second", "bytes_per_second", "size")
    if not isinstance(answer, Mapping) or set(answer) != set(names):
        return f"Give a dict with the keys {', '.join(names)}."
    flops, bandwidth, size = (_number(answer[name]) for name in names)
    if None in (flops, bandwidth, size) or min(flops, bandwidth, size) <= 0:
        return "All three values should be numbers above 0."
    if flops < 1e9 or bandwidth < 1e8:
        return "Check the units: 1 TFLOP/s is 1e12 operations per second, 1 GB/s is 1e9 bytes per second."
    right = 6 * flops / bandwidth
    if abs(size / right - 1) < 0.1:
        return Reply(True, f"Right: from n = {format_digits(right)} on, the processor is the ceiling, not the memory.")
    return "Set 2 n³ / (operations per second) equal to 12 n² / (bytes per second), and solve for n."


_CHECKS: dict[str, Callable] = {
    "00-1": _device_names,
    "00-2": _usable_cores,
    "00-3": _silent_placement,
    "01-1": _dtypes,
    "01-2": _rectangular_product,
    "01-3": _own_device,
}
