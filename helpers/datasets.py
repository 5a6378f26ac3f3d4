"""The data that the networks learn from: two clouds of points, pictures of roads, MNIST and CIFAR-10."""

import os
from dataclasses import dataclass
from pathlib import Path

from helpers import devices, download, image_files, published, stand_ins
from helpers.errors import DataError, ParameterError
from helpers.examples import Dataset, is_whole
from helpers.parameters import PROJECT

# The question's clouds (https://stackoverflow.com, 2019, TensorFlow 1.14): centres, deviation, points of each.
CENTRES = ((13, 12), (8, 6))
DEVIATION = 2
PUBLISHED_POINTS = 1_000_000
ROAD_PICTURE = (66, 200, 3)  # height, width, colours: the input of the question's bigger network


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


@dataclass(frozen=True)
class Splits:
    """MNIST or CIFAR-10, cut as the chapter cuts it. Print it to see where it comes from."""

    train: Dataset
    validation: Dataset  # looked at after every epoch, never trained with
    test: Dataset  # looked at once, in the end
    problems: tuple[str, ...]  # what was found and could not be used, and why nothing was downloaded

    @property
    def about(self) -> dict:
        """What a record says of its data."""
        return self.train.about

    @property
    def mark(self) -> str:
        """A word for tables and pictures: empty for the real thing."""
        return "stand-in" if self.train.stand_in else ""

    def __str__(self) -> str:
        sizes = ", ".join(
            f"{len(part):,} {what}"
            for part, what in ((self.train, "to train"), (self.validation, "to validate"), (self.test, "to test"))
        )
        lines = [f"{self.train.name}: {sizes}; {self.train.source}"]
        if self.train.stand_in:
            lines += [
                f"This is a STAND-IN for {self.train.name}: made-up pictures of the same shape and number of classes.",
                "Times are valid. Accuracies say nothing about the real pictures. `course data` says how to get them.",
            ]
        return "\n".join([*lines, *self.problems])


def load(name: str, limit: int | None = None, dtype: str = "float32") -> Splits:
    """Return MNIST ("mnist") or CIFAR-10 ("cifar10") from this machine, else from its publisher, else a stand-in.

    Pictures are float32 in 0…1 (or uint8 in 0…255, as stored), shaped (n, height, width, colours); labels are
    int32, shaped (n,). `limit` keeps the first examples of each part. Looked at in turn: $COURSE_DATA, data/ of
    this project, Keras' cache, then the publisher's server unless $COURSE_OFFLINE=1. A file that cannot be
    used is named in `problems` and left alone.
    """
    import numpy as np

    images = _known(name)
    if limit is not None and (not is_whole(limit) or limit < 1):
        raise ParameterError(
            f"limit = {limit!r} is not possible.",
            "Accepted is a whole number of at least 1, or None for all examples.",
            "Correct limit and run again.",
        )
    if dtype not in ("float32", "uint8"):
        raise ParameterError(
            f"dtype = {dtype!r} is not possible.", "Accepted are 'float32' and 'uint8'.", "Choose one of them."
        )
    rows = {
        "train": [images.train[:limit], images.validation[:limit]],
        "test": [range(images.examples("test"))[:limit]],
    }
    count = sum(len(part) for parts in rows.values() for part in parts)
    each = int(np.prod(images.shape)) * np.dtype(dtype).itemsize
    devices.require_memory(devices.parse("CPU:0"), count * each + int(np.prod(images.shape)) * images.examples("train"))
    problems = []
    for where, source in _sources(images, problems):
        try:
            parts = [pair for part in rows for pair in image_files.read(source, part, rows[part], images, dtype)]
        except DataError as problem:
            problems.append(f"{problem.args[0]} ({where}) {problem.args[2]}")
        else:
            return _splits(images, parts, f"{source.name} in {where}", False, problems)
    parts = stand_ins.make(images, [len(part) for parts in rows.values() for part in parts], dtype)
    return _splits(images, parts, "made by the course", True, problems)


def _splits(images: published.Images, parts, source: str, stand_in: bool, problems: list[str]) -> Splits:
    sets = [Dataset(images.name, x, y, source, stand_in, images.classes) for x, y in parts]
    return Splits(*sets, tuple(problems))


def _known(name: str) -> published.Images:
    if name not in published.KNOWN:
        raise ParameterError(
            f"There is no data set {name!r} to load.",
            f"Accepted are {', '.join(map(repr, published.KNOWN))}.",
            "Two clouds and roads are made: datasets.two_clouds(), datasets.road_images(count).",
        )
    return published.KNOWN[name]


def places() -> dict[str, Path]:
    """Return the folders in which pictures are looked for, in order, by what to call them in a record."""
    keras_home = os.environ.get("KERAS_HOME") or "~/.keras"
    found = {"data/": PROJECT / "data", "Keras' cache": Path(os.path.expanduser(keras_home)) / "datasets"}
    given = os.environ.get("COURSE_DATA")
    return {"$COURSE_DATA": Path(os.path.expanduser(given)), **found} if given else found


def inventory() -> dict[str, tuple[bool, str]]:
    """Return for each set of pictures whether it is here, and in words from where, or how to get it."""
    found = {}
    for images in published.KNOWN.values():
        is_here, lines = _looked_for(images)
        if not is_here:
            lines += [
                f"  not here; looked for in {', '.join(f'{where} ({folder})' for where, folder in places().items())}",
                "  With internet, the notebooks fetch it. Without: on another computer, fetch",
                f"    {images.url}",
                f"    (SHA-256 {images.sha256})",
                f"  and put {images.file} into data/ of this project, or into a folder that $COURSE_DATA names.",
                "  Many computers can share one such folder; it is only read.",
            ]
        found[images.name] = is_here, "\n".join([f"{images.name}: {images.title}", *lines])
    return found


def _looked_for(images: published.Images) -> tuple[bool, list[str]]:
    """Return whether all of these images can be read from somewhere, and what was found on the way."""
    lines = []
    for where, folder in places().items():
        if where == "$COURSE_DATA" and not folder.is_dir():
            lines.append(f"  {where} names a folder that is not there: {folder}")
        for source in image_files.sources(images, folder):
            try:
                for part in ("train", "test"):
                    image_files.read(source, part, [range(images.examples(part))], images, "uint8")
            except DataError as problem:
                lines.append(f"  {where}: {problem}")
            else:
                return True, [*lines, f"  {source.name} in {where} ({folder}): all pictures are there"]
    return False, lines


def is_offline() -> bool:
    return os.environ.get("COURSE_OFFLINE", "") not in ("", "0")


def _sources(images: published.Images, problems: list[str]):
    """Yield (where, source) for everything that may hold these images; why nothing was fetched goes to `problems`."""
    for where, folder in places().items():
        if where == "$COURSE_DATA" and not folder.is_dir():
            problems.append("$COURSE_DATA names a folder that is not there.")
        for source in image_files.sources(images, folder):
            yield where, source
    if is_offline():
        problems.append(f"{images.file} was not fetched, because $COURSE_OFFLINE is set.")
        return
    folder = places()["data/"]
    try:
        download.fetch(images.url, folder, images.sha256)
    except DataError as problem:
        problems.append(str(problem))
        return
    for source in image_files.sources(images, folder):
        yield "data/", source
