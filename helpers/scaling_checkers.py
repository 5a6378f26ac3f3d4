"""Checks of answers to the exercises of notebook 10. Each returns a hint, or a right `Reply`."""

import math
from collections.abc import Callable, Mapping

from helpers.comparing import FEWEST, Comparison
from helpers.replies import Reply, number
from helpers.training import Training

GRADIENTS = 4 * 25_000_000  # bytes
SENT = 2 * 7 / 8 * GRADIENTS  # by each of 8 devices
SAME_LOSS = 1e-3  # relative: replicas add up the same numbers in another order, and rounding grows with every step


def _matches(given: float, *wanted: float) -> bool:
    return any(math.isclose(given, value, rel_tol=5e-3) for value in wanted)


def _efficiency(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number."
    if _matches(given, 0.75, 75):
        return Reply(
            True, "Right: the speed-up is 3, and 4 would be ideal. A quarter of what four devices can is lost."
        )
    if _matches(given, 3):
        return "That is the speed-up. Which share is it of the speed-up that four devices could give?"
    if _matches(given, 0.25, 25):
        return "That is what is lost. What is left?"
    if _matches(given, 4 / 3, 133):
        return "You divided the ideal speed-up by the real one. No share is above 1 here."
    if _matches(given, 1 / 3, 33):
        return "That is the share of the time that is left. How many times faster are four devices?"
    return "Divide the two times first, and then by the number of devices."


def _bytes_in_a_ring(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number of bytes."
    if _matches(given, SENT):
        return Reply(True, "Right: 7 of 8 pieces of the 100 MB, once to add them up and once to hand out the sums.")
    if _matches(given, SENT / 1e6, SENT / 2**20):
        return "The number of megabytes is not the number of bytes."
    if _matches(given, GRADIENTS):
        return "That is how large the gradients are. How often does a device send a piece of them?"
    if _matches(given, 2 * GRADIENTS):
        return "Almost: each device sends 7 of 8 pieces in each round, and not all 8."
    if _matches(given, SENT / 2):
        return "That adds the gradients up. The sums must also come back to every device."
    if _matches(given, SENT / 4):
        return "You counted numbers. A float32 has 4 bytes."
    if _matches(given, 8 * SENT):
        return "That is what all devices send together. How much is it for each?"
    return "How many bytes are the gradients? Each device sends 7 of their 8 pieces, twice."


def _one_and_two(answer) -> Reply | str:
    wanted = "Give {'one': …, 'two': …}, as in_turn returns it for runs under these two names."
    if not isinstance(answer, Mapping) or set(answer) != {"one", "two"}:
        return wanted
    one, two = answer["one"], answer["two"]
    if not isinstance(one, Training) or not isinstance(two, Training):
        return wanted
    few, many = one.flags.get("replicas", 0), two.flags.get("replicas", 0)
    if few > many == 1:
        return "You swapped them: under 'one' belongs the training with one replica."
    if few != 1 or many < 2:
        return (
            "Under 'one' belongs what one replica trained (replicas.one), under 'two' what two did (replicas.mirrored)."
        )
    if min(one.epochs.n, two.epochs.n) < FEWEST:
        return f"So few epochs say nothing about the time: train for at least {FEWEST + 1}, the first is kept apart."
    if [one.examples, one.batch_size] != [two.examples, two.batch_size]:
        return "To be compared, both need the same examples and the same batch size: that of all replicas together."
    losses = [(training.history.get("loss") or [math.nan])[-1] for training in (one, two)]
    shown = " and ".join(f"{loss:.4g}" for loss in losses)
    if not math.isclose(*losses, rel_tol=SAME_LOSS):
        words = (
            "Did both begin with the same seed? And does the network do without dropout, which each replica draws anew?"
        )
        return f"The losses of the last epoch are {shown}, but they should agree. {words}"
    compared = Comparison(one.step, two.step)
    times = f"{two.step.shown} against {one.step.shown}"
    return Reply(True, f"Right: the losses are {shown}. A step with {many} replicas: {compared.verdict} ({times}).")


CHECKS: dict[str, Callable] = {"10-1": _efficiency, "10-2": _bytes_in_a_ring, "10-3": _one_and_two}
