"""Examples to learn from: what a data set holds, and what no network can learn from."""

import numbers
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers.errors import ParameterError, TrainingError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Examples `x` and what is to be learnt from them, `y`: one row each, in the same order."""

    name: str
    x: "np.ndarray"  # (n, …)
    y: "np.ndarray"  # (n, 1); with `classes` (n,), the place of each example's class among them
    source: str
    stand_in: bool = False
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.x)

    @property
    def about(self) -> dict:
        """What a record says of its data."""
        return {"name": self.name, "source": self.source, "stand_in": self.stand_in}

    def check(self) -> None:
        """Raise in words for values that no network can learn from."""
        import numpy as np

        for name, values in (("x", self.x), ("y", self.y)):
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "fiu":
                kind = getattr(values, "dtype", type(values).__name__)
                raise TrainingError(
                    f"{name} in {self.name} is no array of numbers, but {kind}.",
                    "Accepted are NumPy arrays of numbers.",
                    "Convert it: np.asarray(values, 'float32').",
                )
            if name == "y":
                self._check_labels()
            with np.errstate(over="ignore"):
                bad = int(np.count_nonzero(~np.isfinite(values.astype("float32"))))
            if bad:
                raise TrainingError(
                    f"{bad:,} values of {name} in {self.name} are not finite in float32 (NaN or infinite).",
                    "A network learns from finite numbers only; a single NaN spreads to every weight.",
                    "Remove or replace these examples.",
                )

    def _check_labels(self) -> None:
        shape, shown = ((len(self),), "(n,)") if self.classes else ((len(self), 1), "(n, 1)")
        if self.y.shape != shape:
            raise TrainingError(
                f"There are {len(self):,} examples in x, but y has the shape {self.y.shape}.",
                f"Every example needs one label: {shown}.",
                f"Use y.reshape({'-1' if self.classes else '-1, 1'}) if the labels are there.",
            )
        if self.classes and len(self) and not 0 <= self.y.min() <= self.y.max() < len(self.classes):
            raise TrainingError(
                f"The labels of {self.name} go from {self.y.min()} to {self.y.max()}.",
                f"There are {len(self.classes)} classes, so 0 to {len(self.classes) - 1} are accepted.",
                "Correct the labels.",
            )

    def sample(self, count: int, seed: int = 0) -> "Dataset":
        """Return `count` rows drawn at random, none twice: the first rows may all be of one class."""
        import numpy as np

        if not is_whole(count) or not 1 <= count <= len(self):
            raise ParameterError(
                f"{count!r} examples cannot be drawn from {len(self):,}.",
                f"Accepted is a whole number from 1 to {len(self):,}.",
                "Ask for fewer, or make a larger data set.",
            )
        rows = np.random.default_rng(seed).choice(len(self), count, replace=False)
        return replace(self, x=self.x[rows], y=self.y[rows])


def is_whole(number) -> bool:
    """Return whether `number` is a whole number, Python's or NumPy's; True and False are none."""
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)
