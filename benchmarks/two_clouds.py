"""The question's small model, 15 epochs of 1,000,000 points in batches of 100,000: every way of training it.

    .venv/bin/python benchmarks/two_clouds.py --rounds 5 --json two_clouds.json

Each way runs in a process of its own, in turn. All are warm: the clock starts after one epoch. NumPy and
PyTorch are given the same points, batch size, optimizer (Adam, 0.1) and number of steps, all in float32.
"""

import argparse
import json
import statistics
import sys
import time

from helpers import datasets

POINTS, BATCH, EPOCHS, RATE = 1_000_000, 100_000, 15, 0.1
STEPS = POINTS // BATCH
WHAT = f"two clouds, {EPOCHS} epochs"
BYTES = EPOCHS * POINTS * (2 + 1) * 4  # every epoch reads each point and its label once


def kit(label: str) -> tuple[float, float]:
    """Train one of the kit's ways; return the seconds of 15 epochs and the accuracy."""
    from helpers import models, ways
    from helpers.tasks import Task

    task = Task(
        datasets.two_clouds(POINTS),
        models.two_clouds,
        "binary_crossentropy",
        RATE,
        ("accuracy",),
        models.two_clouds_loss_by_column,
    )
    training = ways.WAYS[label](task, batch_size=BATCH, epochs=EPOCHS + 1)
    return sum(training.epochs.values), training.final["accuracy"]


def numpy_loop(shuffle_rows: bool) -> tuple[float, float]:
    """Train with NumPy alone: the gradient of the cross-entropy, and Adam, written out."""
    import numpy as np

    data = datasets.two_clouds(POINTS).sample(POINTS)  # rows shuffled once
    x, y = data.x, data.y[:, 0]
    weights, mean, square, steps = np.zeros(3, "float32"), np.zeros(3), np.zeros(3), 0
    draw = np.random.default_rng(0)
    for epoch in range(EPOCHS + 1):
        if epoch == 1:
            start = time.perf_counter()
        rows = draw.permutation(POINTS) if shuffle_rows else None
        for batch in draw.permutation(STEPS):
            chosen = slice(batch * BATCH, (batch + 1) * BATCH)
            if shuffle_rows:
                chosen = rows[chosen]
            xb = x[chosen]
            error = 1 / (1 + np.exp(-(xb @ weights[:2] + weights[2]))) - y[chosen]
            gradient = np.append(error @ xb, error.sum()) / BATCH
            steps += 1
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            step = RATE * mean / (1 - 0.9**steps) / (np.sqrt(square / (1 - 0.999**steps)) + 1e-7)
            weights = (weights - step).astype("float32")
    seconds = time.perf_counter() - start
    return seconds, float(np.mean((x @ weights[:2] + weights[2] > 0) == y))


def pytorch_eager() -> tuple[float, float]:
    """Train with PyTorch as its tutorials do, with the data in memory and every row shuffled in every epoch."""
    import torch

    torch.manual_seed(0)
    data = datasets.two_clouds(POINTS)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y)
    model = torch.nn.Linear(2, 1)
    loss_of = torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch in range(EPOCHS + 1):
        if epoch == 1:
            start = time.perf_counter()
        for rows in torch.randperm(POINTS).split(BATCH):
            optimizer.zero_grad()
            loss_of(model(x[rows]), y[rows]).backward()
            optimizer.step()
    seconds = time.perf_counter() - start
    with torch.no_grad():
        return seconds, float(((model(x) > 0) == (y > 0.5)).float().mean())


def bandwidth() -> tuple[float, None]:
    """Return the seconds in which the memory delivers every byte that 15 epochs need; nothing is learnt."""
    from helpers import ceilings

    return BYTES / ceilings.bytes_per_second("CPU:0"), None


PEERS = {
    "plain NumPy loop": lambda: numpy_loop(shuffle_rows=False),
    "plain NumPy loop, every row shuffled": lambda: numpy_loop(shuffle_rows=True),
    "PyTorch eager": pytorch_eager,
    "floor": bandwidth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each way runs (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the table here as well")
    parser.add_argument("--way", help=argparse.SUPPRESS)  # one contestant, in its own process
    options = parser.parse_args()
    if options.way:
        seconds, accuracy = PEERS[options.way]() if options.way in PEERS else kit(options.way)
        print(json.dumps({"seconds": seconds, "accuracy": accuracy}))
        return

    import side_by_side

    from helpers import ways

    if not side_by_side.PEERS.exists():
        sys.exit("PyTorch has an environment of its own, which is missing: type `make bench`.")
    me = [__file__, "--way"]
    commands = {name: [sys.executable, *me, name] for name in (*ways.WAYS, *PEERS)}
    commands["PyTorch eager"][0] = str(side_by_side.PEERS)
    answers = side_by_side.in_turn(commands, options.rounds)
    floors = answers.pop("floor")
    floor_s = {WHAT: statistics.median(answer["seconds"] for answer in floors)}
    rows = side_by_side.rows_of(WHAT, {name: [a["seconds"] for a in found] for name, found in answers.items()})
    side_by_side.print_table(rows, floor_s)
    accuracies = [answer["accuracy"] for found in answers.values() for answer in found]
    print(f"accuracy of all: {min(accuracies):.2%} to {max(accuracies):.2%}")
    side_by_side.write_json(options.json, options.rounds, rows, floor_s)


if __name__ == "__main__":
    main()
