"""Small sets of pictures, and the files in which the usual tools keep such sets."""

import gzip
import hashlib
import io
import pickle
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from helpers import image_files
from helpers.published import CIFAR10, MNIST, Images

SMALL_MNIST = replace(
    MNIST, label_counts={"train": (6,) * 10, "test": (2,) * 10}, train=range(5, 60), validation=range(5)
)
SMALL_CIFAR = replace(
    CIFAR10, label_counts={"train": (5,) * 10, "test": (1,) * 10}, train=range(40), validation=range(40, 50)
)


def arrays(images: Images) -> dict[str, np.ndarray]:
    """Return what the set's npz holds: every row another picture, labels 0 to 9 over and over."""
    draw = np.random.default_rng(1)
    found = {}
    for part in ("train", "test"):
        count = images.examples(part)
        shape = images.shape if images.shape[-1] > 1 else images.shape[:2]
        found[f"x_{part}"] = draw.integers(0, 256, (count, *shape), dtype="uint8")
        found[f"y_{part}"] = (np.arange(count) % 10).astype("uint8")
    return found


def write_npz(folder: Path, images: Images, **changed) -> Path:
    path = folder / f"{images.name}.npz"
    np.savez(path, **{**arrays(images), **changed})
    return path


def write_idx(folder: Path, images: Images, dot: str = "-", packed: bool = False) -> None:
    """Write the four files in the format of their first publication."""
    folder.mkdir(parents=True, exist_ok=True)
    for key, values in arrays(images).items():
        kind, part = key.split("_")
        name = {"train": "train", "test": "t10k"}[part] + {"x": "-images", "y": "-labels"}[kind]
        content = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes() + values.tobytes()
        path = folder / f"{name}{dot}idx{values.ndim}-ubyte{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(content, 1) if packed else content)


def batches(images: Images) -> dict[str, bytes]:
    """Return the six pickles of CIFAR-10's archive, by name."""
    every = arrays(images)
    found = {}
    for part, names in image_files.BATCHES.items():
        each = images.examples(part) // len(names)
        for place, name in enumerate(names):
            rows = slice(place * each, (place + 1) * each)
            data = every[f"x_{part}"][rows].transpose(0, 3, 1, 2).reshape(each, -1)
            found[name] = pickle.dumps({b"data": data, b"labels": every[f"y_{part}"][rows].tolist()})
    return found


def sums(contents: dict[str, bytes]) -> dict[str, dict[str, str]]:
    """Return the MD5 table that makes these pickles the published ones."""
    return {
        part: {name: hashlib.md5(contents[name], usedforsecurity=False).hexdigest() for name in names}
        for part, names in image_files.BATCHES.items()
    }


def write_batches(folder: Path, contents: dict[str, bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)


def write_archive(path: Path, contents: dict[str, bytes]) -> None:
    """Write the archive, in an order other than that of the names, as the published one is."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name in sorted(contents, key=lambda name: name[::-1]):
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(contents[name])
            archive.addfile(member, io.BytesIO(contents[name]))
