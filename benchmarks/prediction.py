"""How good are the predictions? Calibrate this machine, then predict and measure steps of seven networks.

    .venv/bin/python benchmarks/prediction.py --json prediction.json

Networks, batch sizes and ways of training are those of the course's acceptance. The machine is calibrated anew before
each network, since it may be faster or slower than a while ago; a prediction is made before its step is measured, and
the ways take turns. Then two devices that exist here, one thread and all threads, are calibrated, and the batch size
from which the second wins is predicted and measured. Published figures are predicted from datasheets, each by
constants that were fitted without its source. About half an hour.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

BATCHES = (1, 8, 32, 128, 512, 2048)
CROSSINGS = ("mnist_mlp", "mnist_cnn", "transformer")
CROSSING_BATCHES = (1, 4, 16, 64, 256)


def calibrated(folder: str, environment: dict | None = None):
    """Return this machine, calibrated; under other environment variables if there are any."""
    from helpers import calibrate, devices, predict

    if environment is None:
        settings = SimpleNamespace(results_dir=folder, devices=[devices.find("CPU:0")], preset="full", seed=0)
        return predict.machine(calibrate.measure(settings, seconds=0.15))
    subprocess.run([sys.executable, __file__, "--calibrate", folder], env={**os.environ, **environment}, check=True)
    newest = max(Path(folder).glob("calibration--*.json"), key=lambda path: path.stat().st_mtime)
    return predict.machine(calibrate.read(json.loads(newest.read_text(encoding="utf-8"))))


def here(names, batches, epochs: int) -> list:
    """Return the trials of all networks on this machine."""
    from helpers import scoring

    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for trials in scoring.trials([name], batches, calibrated(folder), epochs=epochs):
                for trial in trials:
                    found.append(trial)
                    print(_line(trial), flush=True)
    return found


def _line(trial) -> str:
    expected = trial.prediction
    return (
        f"{trial.title:15} {expected.batch:5} {expected.way:20} {1e3 * trial.measured:10.2f} ms measured, "
        f"{1e3 * trial.ratio * trial.measured:10.2f} predicted, ratio {trial.ratio:.2f}"
        f"{'' if trial.is_inside else '  outside'}"
    )


def crossings(epochs: int) -> list:
    """Return predicted and measured crossovers between one thread and all threads."""
    from helpers import levers, scoring

    with tempfile.TemporaryDirectory() as folder:
        one, all_threads = calibrated(folder, levers.ONE_THREAD), calibrated(folder)
    pairs = {
        "one thread, resident / all threads, fit": ((one, "resident", levers.ONE_THREAD), (all_threads, "fit", {})),
        "one thread / all threads, resident": ((one, "resident", levers.ONE_THREAD), (all_threads, "resident", {})),
        "fit / many steps per call": ((all_threads, "fit", {}), (all_threads, "steps_per_execution", {})),
    }
    found = []
    for what, (a, b) in pairs.items():
        for name in CROSSINGS:
            crossed = scoring.crossed(name, CROSSING_BATCHES, a, b, epochs=epochs)
            found.append((what, crossed))
            ratios = " ".join(f"{batch}:{ratio:.2f}" for batch, ratio in crossed.ratios.items())
            print(
                f"{what:42} {crossed.title:12} predicted {_batch(crossed.predicted.batch)}, measured "
                f"{_batch(crossed.measured)}  {'agrees' if crossed.agrees else 'DIFFERS'}  times faster: {ratios}",
                flush=True,
            )
    return found


def _batch(batch) -> str:
    return "never" if batch is None else f"{batch:.0f}"


def published() -> dict:
    """Return the share of published figures that were predicted blind within a factor of two."""
    from helpers import literature

    blind = literature.blind()
    ratios = {kind: [p / f.measured for f, p in blind if f.device.kind == kind] for kind in ("cpu", "gpu")}
    pairs = literature.pairs(blind)
    ratios["CPU to GPU"] = [expected / measured for _, _, measured, expected in pairs]
    found = {what: (len(values), literature.within_two(values)) for what, values in ratios.items()}
    always_gpu = sum(measured > 1 for _, _, measured, _ in pairs)
    print(f"The GPU won in {always_gpu} of {len(pairs)} published pairs.")
    for what, (count, share) in found.items():
        print(f"published, {what:10} {count:3} figures, {share:.0%} within a factor of 2")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--networks", nargs="+", help="names of the course's networks (default: all)")
    parser.add_argument("--epochs", type=int, default=5, help="of each training, the first not measured")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--calibrate", metavar="DIR", help="calibrate, store the record, and end")
    options = parser.parse_args()
    if options.calibrate:
        calibrated(options.calibrate)
        return
    from helpers import machine, scoring, workloads

    trials = here(options.networks or list(workloads.KNOWN), BATCHES, options.epochs)
    groups = {"all": trials}
    for trial in trials:
        for key in (trial.title, trial.prediction.way, f"batch {trial.prediction.batch}"):
            groups.setdefault(key, []).append(trial)
    scores = {what: scoring.score(found) for what, found in groups.items()}
    print(f"{'':22} steps  median error  90th percentile  inside  middle ratio")
    for what, found in scores.items():
        print(
            f"{what:22} {found.count:5} {found.median_error:13.0%} {found.worst_but_a_tenth:16.0%} "
            f"{found.inside:7.0%} {found.middle_ratio:13.2f}"
        )
    crossed, literature = crossings(options.epochs), published()
    if options.json:
        rows = [
            {
                "what": f"{trial.title}, batch {trial.prediction.batch}",
                "way": trial.prediction.way,
                "median_s": trial.measured,
                "predicted_s": trial.ratio * trial.measured,
                "low_s": trial.prediction.low + trial.beginning,
                "high_s": trial.prediction.high + trial.beginning,
            }
            for trial in trials
        ]
        content = {
            "machine": machine.describe(),
            "rounds": options.epochs - 1,
            "rows": rows,
            "scores": {what: found._asdict() for what, found in scores.items()},
            "crossovers": [
                {"what": what, "network": c.title, "predicted": c.predicted.batch, "measured": c.measured}
                for what, c in crossed
            ],
            "published": literature,
        }
        options.json.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
