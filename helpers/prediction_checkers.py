"""Checks of answers to the exercises of notebook 09. Each returns a hint, or a right `Reply`."""

from collections.abc import Callable

from helpers.replies import Reply, number

CONVOLUTION = 14 * 14 * 36 * 2 * 5 * 5 * 16  # 36 windows of 5 × 5 on (14, 14, 16), padded, without the bias


def _convolution(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a number of operations."
    if given == CONVOLUTION:
        return Reply(True, "Right: every output is a sum of 5 × 5 × 16 products, and each takes two operations.")
    if given == CONVOLUTION / 2:
        return "You counted the multiplications. Every product must also be added."
    if given == CONVOLUTION + 14 * 14 * 36:
        return "That is with the bias. Leave it out."
    if given == CONVOLUTION / 16:
        return "Each window looks at all 16 channels of the input."
    return "How many numbers come out? And how many products are summed for each of them?"


def _crossover(answer) -> Reply | str:
    given = number(answer)
    if given is None:
        return "Give a batch size."
    if given == 50:
        return Reply(True, "Right: 1 + 0.05 n = 3 + 0.01 n at n = 50. Above, the lower cost per example wins.")
    if given == 51:
        return Reply(True, "Right: at 50 both take the same time, so 51 is the first batch at which B wins.")
    if given == 200:
        return "2 / 0.01 leaves out that device A has its own cost per example. What differs per example?"
    return "Write down the time of each device for n examples, and set both equal."


def _verdict(answer) -> Reply | str:
    if not isinstance(answer, str) or answer.strip().upper() not in ("A", "B", "C"):
        return "Give 'A', 'B' or 'C'."
    if answer.strip().upper() == "C":
        return Reply(True, "Right: the interval holds 1, so either may be faster. Measure, or decide by the price.")
    if answer.strip().upper() == "A":
        return "1.3 is the middle of what is possible. What else is possible?"
    return "The interval reaches below 1, but also far above it."


CHECKS: dict[str, Callable] = {"09-1": _convolution, "09-2": _crossover, "09-3": _verdict}
