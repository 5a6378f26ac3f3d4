"""Read MNIST and CIFAR-10 from files in any usual form, and refuse what is damaged or something else.

Nothing here writes. A pickle can run any program when it is opened, so CIFAR-10's own files are opened only
when their bytes are the published ones.
"""

import gzip
import hashlib
import math
import pickle
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.errors import DataError
from helpers.published import Images

if TYPE_CHECKING:
    import numpy as np


# MD5 of the files in CIFAR-10's archive, as torchvision and other programs that read it have them.
BATCHES = {
    "train": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
}
# Where the usual tools put what they download, seen from the folder that you name: as it comes, Keras, torchvision.
IDX_FOLDERS = ("", "mnist", "MNIST/raw")
BATCH_FOLDERS = ("cifar-10-batches-py", "", "cifar-10-batches-py-target/cifar-10-batches-py")
ARCHIVES = ("cifar-10-python.tar.gz", "cifar-10-batches-py-target_archive", "cifar-10-batches-py.tar.gz")
LARGEST_BATCH = 40_000_000  # bytes; each of the published ones has 31 million
# What the readers of zip, gzip, tar and NumPy raise for files that are damaged, encrypted, or only pretend.
UNREADABLE = (
    OSError, ValueError, KeyError, EOFError, RuntimeError, MemoryError, SyntaxError,
    zipfile.BadZipFile, zlib.error, tarfile.TarError, tokenize.TokenError,
)  # fmt: skip
IDX = {"train": ("train-images", "train-labels"), "test": ("t10k-images", "t10k-labels")}


@dataclass(frozen=True)
class Piece:
    """Some consecutive rows of a part that are read at once."""

    rows: range
    read: Callable  # () -> (uint8 pictures shaped (n, height, width, colours), labels shaped (n,))


@dataclass(frozen=True)
class Source:
    """Files that hold a whole set of pictures. Nothing has been read yet."""

    name: str  # "mnist.npz"
    pieces: Callable[[str], Iterable[Piece]]  # of "train" or "test"


def sources(images: Images, folder: Path) -> Iterator[Source]:
    """Yield what a folder may hold of these images, in any usual form; none where it has no such file."""
    archive = folder / f"{images.name}.npz"
    if _is_file(archive):
        yield Source(archive.name, lambda part: [_npz(images, archive, part)])
    if images.name == "mnist":
        for place in IDX_FOLDERS:
            found = {part: [_idx_path(folder / place, name) for name in names] for part, names in IDX.items()}
            if all(path for paths in found.values() for path in paths):
                yield Source("four idx files", lambda part, found=found: [_idx(images, *found[part], part)])
        return
    for place in BATCH_FOLDERS:
        if _is_file(folder / place / "data_batch_1"):
            yield Source("cifar-10-batches-py", lambda part, at=folder / place: _batch_folder(images, at, part))
    for name in ARCHIVES:
        if _is_file(folder / name):
            yield Source(name, lambda part, path=folder / name: _batch_archive(images, path, part))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a folder that may not be looked into
        return False


def read(source: Source, part: str, wanted: Sequence[range], images: Images, dtype: str) -> list[tuple]:
    """Return (x, y) for each range of rows in `wanted`, reading one file at a time and none in vain.

    x is uint8 as stored, or float32 in 0…1; y is int32. Raises `DataError` for whatever is wrong with a file.
    """
    import numpy as np

    found = [(np.empty((len(rows), *images.shape), dtype), np.empty(len(rows), "int32")) for rows in wanted]
    try:
        for piece in source.pieces(part):
            needed = [(rows, out) for rows, out in zip(wanted, found, strict=True) if _common(rows, piece.rows)]
            if not needed:
                continue
            x, y = piece.read()
            for rows, (x_out, y_out) in needed:
                both = _common(rows, piece.rows)
                to = slice(both.start - rows.start, both.stop - rows.start)
                take = slice(both.start - piece.rows.start, both.stop - piece.rows.start)
                if dtype == "uint8":
                    x_out[to] = x[take]
                else:  # no copy in float64 on the way
                    np.multiply(x[take], np.float32(1 / 255), out=x_out[to], dtype="float32")
                y_out[to] = y[take]
            del x, y
    except UNREADABLE as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__  # strerror tells no path
        raise _damaged(source.name, why) from error
    return found


def _damaged(name: str, why: str) -> DataError:
    return DataError(
        f"{name} cannot be used: {' '.join(why.split()):.200}.",
        "The published files are accepted, whole and unchanged.",
        "It is left as it is. Replace it, or take it away.",
    )


def _common(rows: range, others: range) -> range:
    return range(max(rows.start, others.start), min(rows.stop, others.stop))


def _check(images: Images, part: str, x: "np.ndarray", y: "np.ndarray") -> tuple:
    """Return pictures and labels in their usual shapes, or raise for what is not this part of these images."""
    import numpy as np

    count = images.examples(part)
    if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
        raise ValueError("it holds no arrays")
    y = y.reshape(-1)
    shapes = {(count, *images.shape), (count, *images.shape[:2]) if images.shape[-1] == 1 else ()}
    if x.dtype != "uint8" or x.shape not in shapes:
        raise ValueError(f"the pictures are {x.dtype} {x.shape}, not uint8 {(count, *images.shape)}")
    if y.dtype.kind not in "iu" or len(y) != count or y.min() < 0 or y.max() >= len(images.classes):
        raise ValueError(f"the labels are not {count} whole numbers from 0 to {len(images.classes) - 1}")
    counts = np.bincount(y.astype("int64"), minlength=len(images.classes))
    if tuple(counts.tolist()) != images.label_counts[part]:
        raise ValueError(f"its {part} part has other numbers of each class than the published one")
    return x.reshape(count, *images.shape), y


def _npz(images: Images, path: Path, part: str) -> Piece:
    def load() -> tuple:
        import numpy as np

        with zipfile.ZipFile(path) as archive:
            size = sum(archive.getinfo(f"{letter}_{part}.npy").file_size for letter in "xy")
        if size > images.examples(part) * (math.prod(images.shape) + 8) + 1000:  # labels of 8 bytes, two headers
            raise ValueError(f"its {part} part would take {size / 1e6:,.0f} MB")
        with np.load(path, allow_pickle=False) as arrays:
            return _check(images, part, arrays[f"x_{part}"], arrays[f"y_{part}"])

    return Piece(range(images.examples(part)), load)


def _idx_path(folder: Path, name: str) -> Path | None:
    kind = "idx3" if "images" in name else "idx1"
    usual = [f"{name}{dot}{kind}-ubyte{gz}" for dot in "-." for gz in ("", ".gz")]
    return next((folder / file for file in usual if _is_file(folder / file)), None)


def _idx(images: Images, pictures: Path, labels: Path, part: str) -> Piece:
    return Piece(
        range(images.examples(part)), lambda: _check(images, part, *map(_idx_array, (pictures, labels), (3, 1)))
    )


def _idx_array(path: Path, dimensions: int) -> "np.ndarray":
    """Read one file in the format of http://yann.lecun.com/exdb/mnist: a magic number, the lengths, the bytes."""
    import numpy as np

    most = 16 + 100_000 * 28 * 28
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        content = file.read(most)
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise ValueError(f"{path.name} does not begin as an idx file of bytes")
    lengths = np.frombuffer(content, ">u4", dimensions, offset=4).tolist()
    if math.prod(lengths) != len(content) - start:
        raise ValueError(f"{path.name} should hold {math.prod(lengths):,} bytes and holds {len(content) - start:,}")
    return np.frombuffer(content, "uint8", offset=start).reshape(lengths)


def _batch_folder(images: Images, folder: Path, part: str) -> Iterator[Piece]:
    for name, rows in _batch_rows(images, part).items():
        path = folder / name
        yield Piece(rows, lambda path=path: _batch(images, part, path.name, path.stat().st_size, path.read_bytes))


def _batch_archive(images: Images, path: Path, part: str) -> Iterator[Piece]:
    """Yield the pieces in the order of the archive, which can only be read from its beginning to its end."""
    rows = _batch_rows(images, part)
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            name = member.name.rpartition("/")[2]
            if name in rows and member.isfile():
                read = archive.extractfile(member).read
                size = member.size
                yield Piece(rows.pop(name), lambda n=name, s=size, r=read: _batch(images, part, n, s, r))
    if rows:
        raise ValueError(f"it lacks {', '.join(rows)}")


def _batch_rows(images: Images, part: str) -> dict[str, range]:
    each = images.examples(part) // len(BATCHES[part])
    return {name: range(number * each, (number + 1) * each) for number, name in enumerate(BATCHES[part])}


def _batch(images: Images, part: str, name: str, size: int, read_bytes: Callable[[], bytes]) -> tuple:
    """Return the pictures and labels of one of CIFAR-10's pickles, if its bytes are the published ones."""
    import numpy as np

    content = read_bytes() if size < LARGEST_BATCH else b""
    if hashlib.md5(content, usedforsecurity=False).hexdigest() != BATCHES[part][name]:
        raise ValueError(f"{name} is not the published file (its MD5 is another), so it is not opened")
    batch = pickle.loads(content, encoding="bytes")
    height, width, colours = images.shape
    x = batch[b"data"].reshape(-1, colours, height, width).transpose(0, 2, 3, 1)
    return x, np.array(batch[b"labels"])
