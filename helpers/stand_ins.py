"""Made-up pictures that stand in for real ones: the same shape, dtype and classes, and something to learn.

Times measured with them are valid, because a step takes the same time whatever is in a picture. Accuracies
say nothing about the real pictures.
"""

from collections.abc import Sequence

from helpers.published import Images

SHIFT = 2  # pixels by which a pattern is moved, in each direction


def make(images: Images, counts: Sequence[int], dtype: str) -> list[tuple]:
    """Return (x, y) for each count: as `image_files.read` does, always the same numbers.

    Every class has a pattern of its own, coarse blocks of brightness. A picture is its class's pattern, moved
    a little, under noise.
    """
    import numpy as np

    height, width, colours = images.shape
    draw = np.random.default_rng(0)
    coarse = draw.integers(0, 256, (len(images.classes), 4, 4, colours), dtype="uint8")
    pattern = coarse.repeat(-(-height // 4), axis=1)[:, :height].repeat(-(-width // 4), axis=2)[:, :, :width]
    moves = [(down, right) for down in range(-SHIFT, SHIFT + 1) for right in range(-SHIFT, SHIFT + 1)]
    moved = np.stack([np.roll(pattern, move, axis=(1, 2)) for move in moves]) // 2  # (moves, classes, …)
    found = []
    for count in counts:
        y = draw.integers(0, len(images.classes), count, dtype="int32")
        noise = np.frombuffer(bytearray(draw.bytes(count * pattern[0].size)), "uint8").reshape(count, *images.shape)
        noise >>= 1  # so the sum stays below 256
        noise += moved[draw.integers(0, len(moves), count), y]
        found.append((noise if dtype == "uint8" else np.multiply(noise, np.float32(1 / 255), dtype="float32"), y))
    return found
