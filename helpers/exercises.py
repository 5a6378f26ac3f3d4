"""Answers back to an exercise: right, or what to look at again. A wrong answer never raises."""

from helpers import basic_checkers, lever_checkers, network_checkers, prediction_checkers, scaling_checkers
from helpers.replies import Reply

_CHECKS = (
    basic_checkers.CHECKS
    | network_checkers.CHECKS
    | lever_checkers.CHECKS
    | prediction_checkers.CHECKS
    | scaling_checkers.CHECKS
)


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
