"""What an exercise answers with."""

import numbers
from dataclasses import dataclass


@dataclass(frozen=True)
class Reply:
    """What comes back for an answer; a notebook shows the words."""

    right: bool
    words: str

    def __repr__(self) -> str:
        return self.words


def number(answer) -> float | None:
    """Return the answer as a finite number, or None if it is none."""
    if hasattr(answer, "item") and getattr(answer, "shape", None) == ():
        answer = answer.item()
    if isinstance(answer, numbers.Real) and not isinstance(answer, bool) and -1e300 < answer < 1e300:
        return float(answer)
    return None
