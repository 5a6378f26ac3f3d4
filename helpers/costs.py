"""What a piece of work costs on a device, in seconds: from its start, its arithmetic, and the values it moves.

    seconds of an operation = start + constant + flop × seconds per flop + sizes × seconds per value

That is the roofline (Williams, Waterman and Patterson, 2009, https://doi.org/10.1145/1498765.1498785) as a sum in
place of a maximum: a small product neither computes at full rate nor moves its values at full rate.
"""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from helpers.pieces import Piece

# Values of a result (32 MB). For a larger one the C library asks the system each time, which clears page by page.
FRESH = 2**23


class Seconds(NamedTuple):
    """The parts of a time; `total` is their sum."""

    start: float = 0.0
    compute: float = 0.0
    memory: float = 0.0

    @property
    def total(self) -> float:
        return self.start + self.compute + self.memory


@dataclass(frozen=True)
class Formula:
    """Seconds of one operation: a constant, a part for its arithmetic, and one for each of its sizes.

    The constant is what it takes to share the work among threads. Work that takes less than that is not shared.
    """

    constant: float
    per_flop: float
    per_value: tuple[float, ...]  # for each of the kind's sizes
    per_fresh: float = 0.0  # more for each value of a result that is so large that it always gets fresh memory

    def seconds(self, piece: Piece) -> Seconds:
        moved = sum(rate * size for rate, size in zip(self.per_value, piece.sizes, strict=True))
        if piece.result > FRESH:
            moved += self.per_fresh * piece.result
        computed = self.per_flop * piece.flop
        return Seconds(min(self.constant, computed + moved), computed, moved)


@dataclass(frozen=True)
class Curve:
    """Seconds of one operation against the values it reads and writes, as measured; straight lines between."""

    values: tuple[float, ...]
    seconds_each: tuple[float, ...]
    per_fresh: float = 0.0  # see Formula

    def seconds(self, piece: Piece) -> Seconds:
        fresh = self.per_fresh * piece.result if piece.result > FRESH else 0.0
        return Seconds(0.0, 0.0, self._at(sum(piece.sizes)) + fresh)

    def _at(self, values: float) -> float:
        if values <= self.values[0]:
            return self.seconds_each[0] * values / self.values[0]
        if values >= self.values[-1]:
            return self.seconds_each[-1] * values / self.values[-1]
        place = bisect.bisect_right(self.values, values)
        (x0, x1), (y0, y1) = (row[place - 1 : place + 1] for row in (self.values, self.seconds_each))
        share = math.log(values / x0) / math.log(x1 / x0)
        return y0 * (y1 / y0) ** share


@dataclass(frozen=True)
class Costs:
    """What every kind of piece costs on one device."""

    start: float  # seconds from one operation of a graph to the next, when there is nothing to compute
    kinds: Mapping[str, Formula | Curve]
    overlap: bool = False  # True: the next operations are started while the device computes, as on a GPU
    turn: float | None = None  # seconds to start an operation in a loop that the library runs; None: as any other

    def seconds(self, piece: Piece) -> Seconds:
        """Return the seconds of all starts of a piece."""
        one = self.kinds[piece.kind].seconds(piece)
        start = self.turn if piece.looped and self.turn is not None else self.start
        if self.overlap:
            waiting = max(0.0, start - one.total)
            return Seconds(piece.starts * (one.start + waiting), piece.starts * one.compute, piece.starts * one.memory)
        return Seconds(piece.starts * (start + one.start), piece.starts * one.compute, piece.starts * one.memory)

    def total(self, pieces: Iterable[Piece]) -> Seconds:
        """Return the seconds of many pieces, one after the other."""
        parts = [self.seconds(piece) for piece in pieces]
        return Seconds(*(sum(part[place] for part in parts) for place in range(3)))


def fit_formula(rows: Sequence[tuple[Piece, float]], least_per_flop: float = 0.0, per_fresh: float = 0.0) -> Formula:
    """Return the formula that comes closest to measured seconds, every relative error counting alike.

    `least_per_flop` keeps arithmetic from costing nothing, where the measured sizes cannot tell it from the rest.
    """
    import numpy as np
    from scipy.optimize import lsq_linear

    seconds = np.array([value for _, value in rows])
    features = np.array([[1.0, piece.flop, *piece.sizes] for piece, _ in rows])
    scale = features.max(axis=0)  # so that all unknowns are of one order
    least = np.zeros(len(scale))
    least[1] = least_per_flop * scale[1]
    found = lsq_linear(features / scale / seconds[:, None], np.ones(len(rows)), bounds=(least, np.inf)).x / scale
    return Formula(float(found[0]), float(found[1]), tuple(map(float, found[2:])), per_fresh)
