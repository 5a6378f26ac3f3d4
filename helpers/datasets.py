"""The data that the networks learn from: two clouds of points, and pictures of roads."""

import numbers
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from helpers import devices
from helpers.errors import ParameterError, TrainingError

if TYPE_CHECKING:
    import numpy as np

# The question's clouds (https://stackoverflow.com, 2019, TensorFlow 1.14): centres, deviation, points of each.
CENTRES = ((13, 12), (8, 6))
DEVIATION = 2
PUBLISHED_POINTS = 1_000_000
ROAD_PICTURE = (66, 200, 3)  # height, width, colours: the input of the question's bigger network


@dataclass(frozen=True)
class Dataset:
    """Examples `x` and what is to be learnt from them, `y`: one row each, in the same order."""

    name: str
    x: "np.ndarray"  # (n, …)
    y: "np.ndarray"  # (n, 1)
    source: str
    stand_in: bool = False

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
            if len(values) != len(self) or (name == "y" and values.shape != (len(self), 1)):
                raise TrainingError(
                    f"There are {len(self):,} examples in x, but y has the shape {self.y.shape}.",
                    "Every example needs one label, in a row of its own: (n, 1).",
                    "Use y.reshape(-1, 1) if the labels are there.",
                )
            with np.errstate(over="ignore"):
                bad = int(np.count_nonzero(~np.isfinite(values.astype("float32"))))
            if bad:
                raise TrainingError(
                    f"{bad:,} values of {name} in {self.name} are not finite in float32 (NaN or infinite).",
                    "A network learns from finite numbers only; a single NaN spreads to every weight.",
                    "Remove or replace these examples.",
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


def two_clouds(points: int = PUBLISHED_POINTS, dtype: str = "float32") -> Dataset:
    """Return the question's data: points in the plane, shaped (n, 2), and their cloud, 0 or 1, shaped (n, 1).

    The numbers, their order and the seed (0) are the question's. It had float64, and so do you with
    `dtype="float64"`. All points of the first cloud come first.
    """
    import numpy as np

    if not is_whole(points) or points < 2 or points % 2:
        raise ParameterError(
            f"Two clouds of equal size cannot have {points!r} points together.",
            "Accepted is an even whole number of at least 2.",
            f"The question has {PUBLISHED_POINTS:,}.",
        )
    if dtype not in ("float32", "float64"):
        raise ParameterError(
            f"dtype = {dtype!r} is not possible.", "Accepted are 'float32' and 'float64'.", "Choose one of them."
        )
    devices.require_memory(devices.parse("CPU:0"), 12 * 8 * points)  # float64, and copies while it is put together
    draw = np.random.RandomState(0)
    clouds = [[draw.normal(centre, DEVIATION, points // 2) for centre in centres] for centres in CENTRES]
    x = np.concatenate([np.array(cloud).T for cloud in clouds])
    y = np.repeat([[0.0], [1.0]], points // 2, axis=0)
    return Dataset("two_clouds", x.astype(dtype), y.astype(dtype), "generated as in the question, NumPy seed 0")


def road_images(count: int, seed: int = 0) -> Dataset:
    """Return pictures of a bending road, float32 in 0…1, shaped (n, 66, 200, 3), and how it bends, (n, 1).

    They are generated: a grey road between two green fields runs to the horizon and bends left (-1) to right
    (1). How long a step takes does not depend on what is in a picture; whether a network can learn it does.
    """
    import numpy as np

    if not is_whole(count) or count < 1:
        raise ParameterError(
            f"{count!r} pictures of roads cannot be made.",
            "Accepted is a whole number of at least 1.",
            "Correct the number of pictures.",
        )
    height, width, colours = ROAD_PICTURE
    devices.require_memory(devices.parse("CPU:0"), 4 * 4 * count * height * width * colours)
    draw = np.random.default_rng(seed)
    steering = draw.uniform(-1, 1, (count, 1)).astype("float32")
    depth = np.linspace(1, 0, height, dtype="float32")  # 1 at the horizon, 0 at the wheels
    middle = width / 2 + 80 * steering * depth**2  # (count, height): a road bends more the farther it is
    half = 8 + 50 * (1 - depth)
    is_road = np.abs(np.arange(width) - middle[:, :, None]) < half[:, None]  # (count, height, width)
    field, road = np.array([[0.25, 0.5, 0.2], [0.45, 0.45, 0.45]], "float32")
    x = np.where(is_road[..., None], road, field)
    light = draw.uniform(0.6, 1.4, (count, 1, 1, 1)).astype("float32")
    return Dataset("road_images", x * light, steering, f"generated, NumPy seed {seed}")
