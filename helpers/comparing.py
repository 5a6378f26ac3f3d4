"""What measurements say together: which is faster, and what a call costs beside its items.

Every time is in seconds per call.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from helpers.errors import ParameterError
from helpers.timing import Measurement, format_digits, format_seconds

TOO_CLOSE = "too close to call"
CLOSE_CALL = 0.05  # a smaller difference comes and goes with memory layout and the heat of the chip
# Two medians differ at about 5 % error when intervals that each hold 84 % do not overlap
# (Payton, Greenstone, Schenker 2003, https://doi.org/10.1673/031.003.3401).
TAIL = 0.08
FEWEST = 4  # values; the smallest and the largest of three hold the median with 75 % only


def times_faster(ratio: float) -> str:
    """Say how much faster something is that is `ratio` times as fast: "2.1 times faster", "1.4 times slower"."""
    factor = max(ratio, 1 / ratio)
    shown = format_digits(factor, 2 if factor >= 1.1 else 3)  # 1.06 is not 1.1
    return f"{shown} times {'faster' if ratio > 1 else 'slower'}"


@dataclass(frozen=True)
class Comparison:
    """How `other` stands against `base`; both should have been measured in turn."""

    base: Measurement
    other: Measurement

    @property
    def ratio(self) -> float:
        """How many times faster `other` is: below 1 it is slower."""
        return self.base.median / self.other.median

    @property
    def interval(self) -> tuple[float, float]:
        """The ratios that the spread of both leaves possible."""
        (base_low, base_high), (low, high) = median_interval(self.base.values), median_interval(self.other.values)
        return base_low / high, base_high / low

    @property
    def verdict(self) -> str:
        """Say "2.1 times faster", "1.4 times slower" or "too close to call"."""
        low, high = self.interval
        few = min(self.base.n, self.other.n) < FEWEST
        if few or low <= 1 <= high or max(self.ratio, 1 / self.ratio) < 1 + CLOSE_CALL:
            return TOO_CLOSE
        return times_faster(self.ratio)

    def __str__(self) -> str:
        link = "against" if self.verdict == TOO_CLOSE else "than"
        times = f"{self.other.shown} against {self.base.shown}"
        return f"{self.other.label} is {self.verdict} {link} {self.base.label} ({times})"

    def _repr_pretty_(self, printer, _cycle) -> None:
        printer.text(str(self))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return two of the sorted values that hold the true median with 84 %, by the binomial distribution."""
    ordered, n = sorted(values), len(values)
    if n > 200:  # there the normal distribution is as good, and fast
        cut = math.floor(n / 2 - 1.405 * math.sqrt(n) / 2)
        return ordered[cut], ordered[n - 1 - cut]
    tails = [sum(math.comb(n, i) for i in range(cut + 1)) / 2**n for cut in range((n + 1) // 2)]
    cut = max((cut for cut, tail in enumerate(tails) if tail <= TAIL), default=0)
    return ordered[cut], ordered[n - 1 - cut]


def wins_from(comparisons: Mapping[float, Comparison]) -> float | None:
    """Return the smallest size from which on `other` is faster at every size measured, or None."""
    start = None
    for size in sorted(comparisons, reverse=True):
        if not comparisons[size].verdict.endswith("faster"):
            break
        start = size
    return start


def growth_exponent(sizes: Sequence[float], measurements: Sequence[Measurement]) -> float:
    """Return p of the power law time = c × size^p through the medians; NaN for fewer than 2 sizes."""
    import numpy as np

    if len(set(sizes)) < 2:
        return math.nan
    return float(np.polyfit(np.log(sizes), np.log([measurement.median for measurement in measurements]), 1)[0])


@dataclass(frozen=True)
class Line:
    """Seconds = fixed + per_item × items, each with the interval that holds it with 95 %."""

    fixed: float
    per_item: float
    fixed_interval: tuple[float, float]
    per_item_interval: tuple[float, float]

    def seconds(self, items: float) -> float:
        return self.fixed + self.per_item * items

    def fixed_share(self, items: float) -> float:
        """Return the share of the time that would be there without any items."""
        return self.fixed / self.seconds(items)

    def __str__(self) -> str:
        parts = []
        for value, (low, high) in ((self.fixed, self.fixed_interval), (self.per_item, self.per_item_interval)):
            edges = (format_seconds(edge, high - low) for edge in (low, high))
            parts.append(f"{format_seconds(value, high - low)} ({' to '.join(edges)})")
        unclear = "; the fixed part cannot be told from 0" if self.fixed_interval[0] == 0 else ""
        return f"{parts[0]} fixed + {parts[1]} per item{unclear}"

    def _repr_pretty_(self, printer, _cycle) -> None:
        printer.text(str(self))


def fit_line(items: Sequence[float], measurements: Sequence[Measurement]) -> Line:
    """Separate the fixed cost of a call from its cost per item.

    Least squares on relative errors, because a timing errs by a share of itself, with neither part
    below 0; the intervals are Student's, so that points off the line widen them.
    """
    import numpy as np
    from scipy.optimize import nnls
    from scipy.special import stdtrit  # Student's quantile; scipy.stats takes a second to import

    if len(set(items)) < 3 or len(items) != len(measurements):
        raise ParameterError(
            f"A line cannot be fitted to {len(items)} item counts and {len(measurements)} measurements.",
            "At least 3 different item counts are needed, with one measurement for each.",
            "Measure more sizes.",
        )
    medians = np.array([measurement.median for measurement in measurements])
    design = np.stack([np.ones(len(items)), np.asarray(items, float)], axis=1) / medians[:, None]
    scale = np.linalg.norm(design, axis=0)  # items may be a million times the fixed part
    estimate = nnls(design / scale, np.ones(len(items)))[0] / scale
    freedom = len(items) - 2
    variance = np.sum((design @ estimate - 1) ** 2) / freedom
    errors = np.sqrt(variance * np.diag(np.linalg.inv((design / scale).T @ (design / scale)))) / scale
    reach = stdtrit(freedom, 0.975) * errors
    intervals = [
        (max(0.0, float(middle - width)), float(middle + width)) for middle, width in zip(estimate, reach, strict=True)
    ]
    return Line(*map(float, estimate), *intervals)
