"""Milliseconds per training step of the course's networks: Keras' `fit`, the kit's best way, PyTorch, and the floor.

    .venv/bin/python benchmarks/training.py --rounds 5 --json training.json --picture training.png

Each contestant runs in a process of its own, in turn, with the same pictures, batch sizes and Adam, in float32. All
are warm: the clock starts after one epoch. PyTorch runs as written (eager), with its fused Adam, in both of its
memory formats, of which the one with the smaller median over all rounds counts. "fit" has TensorFlow's defaults; the
kit's best way has what `ways.best` asks for, oneDNN included, so "fit, oneDNN on" stands between them. The floor is
the larger of the operations over the rate of a large matrix product, and the least bytes over the memory bandwidth.
"""

import argparse
import json
import math
import os
import statistics
import sys
import time

from helpers import levers, workloads

EXAMPLES = {"mnist_mlp": 5_120, "mnist_cnn": 1_024, "cifar_cnn": 1_024, "bigger_network": 512}  # in an epoch
PARAMETERS = {"mnist_mlp": 795_010, "mnist_cnn": 242_062, "cifar_cnn": 4_224_970, "bigger_network": 252_219}
BATCHES = (32, 128, 512)
EPOCHS = 3  # the first is warm-up
FIT, FIT_ONEDNN, BEST, PYTORCH, FLOOR = "fit", "fit, oneDNN on", "the kit's best way", "PyTorch eager", "floor"
ENVIRONMENT = {way: levers.ONEDNN for way in (FIT_ONEDNN, BEST, FLOOR)}


def kit(name: str, is_best: bool) -> dict[int, float]:
    """Train one of the kit's ways; return the seconds of a step, by batch size."""
    from helpers import ways

    task = workloads.find(name).task(EXAMPLES[name])
    way = ways.best(task) if is_best else ways.fit
    return {size: way(task, batch_size=size, epochs=EPOCHS).step.median for size in BATCHES}


def pytorch(name: str) -> dict[int, list[float]]:
    """Train with PyTorch as its tutorials do; return the seconds of a step in each memory format, by batch size."""
    import torch

    task = workloads.find(name).task(EXAMPLES[name])
    x = torch.from_numpy(task.data.x).permute(0, 3, 1, 2).contiguous()  # (n, colours, height, width)
    y = torch.from_numpy(task.data.y) if name == "bigger_network" else torch.from_numpy(task.data.y).long()
    formats = (torch.contiguous_format, torch.channels_last)
    return {size: [_pytorch_step(name, x, y, size, form) for form in formats] for size in BATCHES}


def _pytorch_step(name: str, x, y, size: int, memory_format) -> float:
    import torch

    torch.manual_seed(0)
    model = pytorch_network(name).to(memory_format=memory_format)
    if (count := sum(weights.numel() for weights in model.parameters())) != PARAMETERS[name]:
        sys.exit(f"PyTorch's {name} has {count:,} parameters, the kit's has {PARAMETERS[name]:,}.")
    x = x.contiguous(memory_format=memory_format)
    loss_of = torch.nn.MSELoss() if name == "bigger_network" else torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    seconds = []
    for _ in range(EPOCHS):
        start = time.perf_counter()
        for rows in torch.randperm(len(x)).split(size):
            optimizer.zero_grad()
            loss_of(model(x[rows]), y[rows]).backward()
            optimizer.step()
        seconds.append((time.perf_counter() - start) / -(-len(x) // size))
    return statistics.median(seconds[1:])


def pytorch_network(name: str):
    """Return the same network as in `helpers.models`, with logits where that has a softmax at its end."""
    from torch import nn

    if name == "mnist_mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 10))
    if name == "mnist_cnn":
        return nn.Sequential(
            *(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(16, 36, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(1764, 128), nn.ReLU(), nn.Dropout(0.2), nn.Linear(128, 10)),
        )
    if name == "cifar_cnn":
        return nn.Sequential(
            *(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Dropout(0.25), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Dropout(0.25), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Dropout(0.25), nn.Linear(4096, 1024), nn.ReLU(), nn.Dropout(0.25)),
            nn.Linear(1024, 10),
        )
    convolutions = ((3, 24, 5, 2), (24, 36, 5, 2), (36, 48, 5, 2), (48, 64, 3, 1), (64, 64, 3, 1))
    dense = ((1152, 100), (100, 50), (50, 10))
    return nn.Sequential(
        *(layer for sizes in convolutions for layer in (nn.Conv2d(*sizes), nn.ELU())),
        nn.Flatten(),
        *(layer for sizes in dense for layer in (nn.Linear(*sizes), nn.ELU())),
        nn.Linear(10, 1),
    )


def floor(name: str) -> dict[int, float]:
    """Return the seconds that arithmetic or memory needs at least for a step, by batch size."""
    from helpers import ceilings, counting

    model = workloads.find(name).task(1).model()
    rate, bandwidth = ceilings.flop_per_second("CPU:0"), ceilings.bytes_per_second("CPU:0")
    flop = counting.training_flop(model)
    return {size: max(size * flop / rate, least_bytes(model, size) / bandwidth) for size in BATCHES}


def least_bytes(model, batch_size: int) -> int:
    """Return the bytes that a step has to move at least, with Adam in float32.

    Weights: read on the way forward; their gradient written and read; then weights and both running means read and
    written. The input is read once, the output of each layer written once and read once.
    """
    from helpers import counting

    counts = counting.by_layer(model)
    values = math.prod(model.input_shape[1:]) + 2 * sum(count.values for count in counts)
    return counting.FLOAT * (9 * sum(count.parameters for count in counts) + batch_size * values)


CONTESTANTS = {
    FIT: lambda name: kit(name, is_best=False),
    FIT_ONEDNN: lambda name: kit(name, is_best=False),
    BEST: lambda name: kit(name, is_best=True),
    PYTORCH: pytorch,
    FLOOR: floor,
}


def report(answers: dict[str, list[dict]]) -> tuple[list[dict], dict[str, float]]:
    """Return rows and floors, by workload and batch size, from the answers of each "workload: way"."""
    import side_by_side

    rows, floor_s = [], {}
    for name in EXAMPLES:
        for size in BATCHES:
            what = f"{workloads.find(name).title}, batch {size}"
            seconds = {
                way: [answer[str(size)] for answer in answers[f"{name}: {way}"]]
                for way in CONTESTANTS
                if f"{name}: {way}" in answers
            }
            if seconds:
                if PYTORCH in seconds:
                    seconds[PYTORCH] = min(zip(*seconds[PYTORCH], strict=True), key=statistics.median)
                floor_s[what] = statistics.median(seconds.pop(FLOOR))
                rows += side_by_side.rows_of(what, seconds)
    return rows, floor_s


def draw(rows: list[dict], floor_s: dict[str, float], path: str):
    """Draw the steps as multiples of the floor, one panel per workload; return the panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["what"].rpartition(",")[0] for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, panels = plt.subplots(1, len(names), figsize=(3.2 * len(names), 3.4), sharey=True, squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        for place, way in enumerate(ways):
            shown = [row for row in rows if row["way"] == way and row["what"].startswith(f"{name},")]
            heights = [row["median_s"] / floor_s[row["what"]] for row in shown]
            panel.bar([i + 0.2 * place for i in range(len(shown))], heights, width=0.18, label=way)
        panel.axhline(1, color="black", linewidth=1, linestyle="--")
        sizes = [row["what"].split()[-1] for row in shown]
        panel.set(title=name, xlabel="batch size", xticks=[i + 0.3 for i in range(len(sizes))], xticklabels=sizes)
    panels[0][0].set_ylabel("time of a step / floor")
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    return panels[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="how often each contestant runs (default 5)")
    parser.add_argument("--json", metavar="FILE", help="write the table here as well")
    parser.add_argument("--picture", metavar="FILE", help="draw the table here")
    parser.add_argument("--only", choices=EXAMPLES, help="one network instead of all")
    parser.add_argument("--way", help=argparse.SUPPRESS)  # one contestant, in its own process
    options = parser.parse_args()
    if options.way:
        name, _, way = options.way.partition(": ")
        os.environ.update(ENVIRONMENT.get(way, {}))  # TensorFlow is not imported yet
        print(json.dumps(CONTESTANTS[way](name)))
        return

    import side_by_side

    if not side_by_side.PEERS.exists():
        sys.exit("PyTorch has an environment of its own, which is missing: type `make bench`.")
    names = [options.only] if options.only else list(EXAMPLES)
    commands = {}
    for label in (f"{name}: {way}" for name in names for way in CONTESTANTS):
        python = side_by_side.PEERS if label.endswith(PYTORCH) else sys.executable
        commands[label] = [str(python), __file__, "--way", label]
    answers = side_by_side.in_turn(commands, options.rounds)
    rows, floor_s = report(answers)
    side_by_side.print_table(rows, floor_s)
    side_by_side.write_json(options.json, options.rounds, rows, floor_s)
    if options.picture:
        draw(rows, floor_s, options.picture)


if __name__ == "__main__":
    main()
