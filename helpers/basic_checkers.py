"""Checks of answers to the exercises of notebooks 00 to 03. Each returns a hint, or a right `Reply`."""

from collections.abc import Callable, Mapping

from helpers import counting, devices, machine, models, ways
from helpers.comparing import Comparison, Line
from helpers.errors import DeviceError
from helpers.replies import Reply, number
from helpers.timing import Measurement, format_digits
from helpers.training import Training


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
    given, right = number(answer), machine.usable_cpus()
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
    given, right = number(answer), 2 * 1000 * 4000 * 250
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
    flops, bandwidth, size = (number(answer[name]) for name in names)
    if None in (flops, bandwidth, size) or min(flops, bandwidth, size) <= 0:
        return "All three values should be numbers above 0."
    if flops < 1e9 or bandwidth < 1e8:
        return "Check the units: 1 TFLOP/s is 1e12 operations per second, 1 GB/s is 1e9 bytes per second."
    right = 6 * flops / bandwidth
    if abs(size / right - 1) < 0.1:
        return Reply(True, f"Right: from n = {format_digits(right)} on, the processor is the ceiling, not the memory.")
    return "Set 2 n³ / (operations per second) equal to 12 n² / (bytes per second), and solve for n."


def _half_fixed(answer) -> Reply | str:
    line = answer.get("line") if isinstance(answer, Mapping) else None
    given = number(answer.get("batch_size")) if isinstance(line, Line) else None
    if given is None or given <= 0:
        return "Give a dict with the keys line (a line such as lines[first]) and batch_size (a number above 0)."
    if line.per_item == 0:
        return "This line shows no cost per example, so no batch size is large enough. Measure larger batches."
    if line.fixed == 0:
        return "The fixed cost of this line cannot be told from 0. Measure smaller batches."
    share = line.fixed_share(given)
    if abs(share - 0.5) < 0.02:
        return Reply(True, "Right. With smaller batches you pay mostly for steps, with larger ones for examples.")
    return f"At that batch size, {share:.0%} of a step is fixed cost. When are both parts equal?"


def _bytes_to_read(answer) -> Reply | str:
    if not isinstance(answer, Mapping) or set(answer) != {"float32", "float64"}:
        return "Give a dict with the keys float32 and float64."
    right = {"float32": 180_000_000, "float64": 360_000_000}
    given = {name: number(answer[name]) for name in right}
    if given == right:
        return Reply(True, "Right: 15 epochs × 1,000,000 points × 3 numbers × 4 or 8 bytes.")
    if given["float32"] == 120_000_000:
        return "The labels must be read as well."
    if given["float32"] == 12_000_000:
        return "That is one epoch."
    return "Answer in bytes. Each point has two coordinates and a label. A float32 takes 4 bytes, a float64 takes 8."


def _small_batches(answer) -> Reply | str:
    if not isinstance(answer, Training):
        return "Give what the way of training returns."
    if answer.way != ways.epoch_xla_by_column.label:
        return f"That was trained with: {answer.way}. Take ways.epoch_xla_by_column."
    if answer.steps < 50:
        return f"An epoch has only {answer.steps} steps. Take settings.batch_size // 10: that gives ten times more."
    accuracy = number(answer.final.get("accuracy"))
    if accuracy is None:
        return "This training has no accuracy. Take the task of the notebook."
    first = format_digits(accuracy * 100, 3)
    return Reply(
        True,
        f"Right: {answer.steps} steps an epoch, {first} % accuracy. Compare the time of an epoch with the table: "
        "the fixed cost of a step is small when Python takes no part in it.",
    )


def _count_a_layer(answer) -> Reply | str:
    if not isinstance(answer, Mapping) or set(answer) != {"parameters", "operations"}:
        return "Give a dict with the keys parameters and operations."
    parameters, operations = number(answer["parameters"]), number(answer["operations"])
    if parameters != 896:
        return "Parameters: every filter has 3 × 3 weights for each of three colours, and one bias."
    if operations == 1_802_240:
        return Reply(True, "Right: 32 × 32 × 32 results, each with 27 weights that count twice, and a bias.")
    if operations == 1_769_472:
        return (
            "Operations: 27 multiplications, 26 additions and a bias is exact. The profiler counts 2 for each weight."
        )
    if operations == 917_504:
        return "Operations: each weight takes a multiplication and an addition: two."
    return "Operations: the result has 32 × 32 × 32 numbers. How many does it take to compute one of them?"


def _largest_batch(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number."
    network = models.bigger_network()
    right = counting.largest_batch(network, 8 * 10**9)
    if given == right:
        return Reply(True, "Right. A real card holds fewer: the count leaves out what the libraries take.")
    needs = counting.training_bytes(network, int(given)) / 1e9 if given > 0 else 0.0
    return f"{int(given):,} pictures need {needs:,.4f} GB by this count, and 8 GB are there."


def _smaller_pictures(answer) -> Reply | str:
    given, right = number(answer), 15 * 48 * 24 * (2 * 5 * 5 * 3 + 1)
    if given is None:
        return "Give a number."
    if given == right:
        return Reply(True, "Right: a bit more than four times fewer, because the window needs room at the edges.")
    if given == 11_009_712 / 4:
        return "That is exactly a quarter, but the window does not fit at the edges. Count it."
    if given < 100:
        return "That is the factor. Answer with the count of operations."
    return "The result has (33 - 5) // 2 + 1 = 15 rows. How many columns, and how many operations for each number?"


CHECKS: dict[str, Callable] = {
    "00-1": _device_names,
    "00-2": _usable_cores,
    "00-3": _silent_placement,
    "01-1": _dtypes,
    "01-2": _rectangular_product,
    "01-3": _own_device,
    "02-1": _half_fixed,
    "02-2": _bytes_to_read,
    "02-3": _small_batches,
    "03-1": _count_a_layer,
    "03-2": _largest_batch,
    "03-3": _smaller_pictures,
}
