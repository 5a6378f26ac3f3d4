"""What a notebook shows beside its measurements: predictions for devices that are not here.

The notebooks switch TF32 off, so every prediction here is for float32. Times are in seconds.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from helpers import calibrate, models, predict, work
from helpers.chapter import EPOCHS, NETWORKS
from helpers.errors import NotEnoughMemoryError
from helpers.literature import VALIDATION
from helpers.predict import Machine, Prediction
from helpers.timing import Measurement, format_digits, format_seconds


def machines(names: Iterable[str]) -> dict[str, Machine]:
    """Return each device with its costs, by the name that it was asked for."""
    return {name: predict.machine(name, dtype="float32") for name in names}


def steps(
    model, batches: Iterable[int], machine: Machine, hosts: Mapping[int, float] | None = None
) -> dict[int, Prediction]:
    """Return the predicted step of `fit` for every batch that the device can hold.

    `hosts` holds what Python takes in a step of each batch, where that was measured here.
    """
    found = {}
    for batch in batches:
        with suppress(NotEnoughMemoryError):
            found[batch] = predict.step_time(model, batch, machine)
    return {batch: with_host(step, hosts[batch]) for batch, step in found.items()} if hosts else found


def with_host(found: Prediction, seconds: float) -> Prediction:
    """Return a prediction with what Python takes as it was measured here.

    That part is as uncertain as a computer is unsteady, the rest as uncertain as it was.
    """
    parts = {**found.parts, "host": float(seconds)}
    host = parts["host"] / sum(parts.values())
    spread = math.hypot((1 - host) * found.spread, host * calibrate.reference().spread_all)
    return replace(found, parts=parts, spread=spread)


def fifteen_epochs(network: str, machine: Machine) -> Prediction:
    """Return the predicted time of the chapter's training of a network, by `fit`, the looks at validation included.

    What the first epoch takes to begin is not in it.
    """
    batch, pictures, looks = NETWORKS[network]
    model = getattr(models, network)()
    step = predict.step_time(model, batch, machine)
    costs = replace(machine.costs, start=machine.hosts["fit"].start)
    forward = costs.total(piece for layer in work.of(model, batch).layers for piece in layer.forward)
    look = {"host": VALIDATION * step.parts["host"], "transfer": step.parts["transfer"]}
    look |= {"launch": forward.start, "compute": forward.compute, "memory": forward.memory}
    count, look_count = EPOCHS * math.ceil(pictures / batch), EPOCHS * math.ceil(looks / batch)
    return replace(step, parts={name: count * step.parts[name] + look_count * look[name] for name in step.parts})


def shown(found: Prediction) -> str:
    """Write a predicted time with its interval: "22 ms (14 ms to 34 ms)"."""
    low, high = format_seconds(found.low), format_seconds(found.high)
    return f"{format_seconds(found.seconds)} ({low} to {high})"


def times_faster(measured: float, found: Prediction) -> str:
    """Write how many times faster than a measured time a prediction is, with its interval: "1.1 (0.72 to 1.8)"."""
    ratio, low, high = (format_digits(measured / seconds) for seconds in (found.seconds, found.high, found.low))
    return f"{ratio} ({low} to {high})"


def table(measured: Mapping[int, Measurement], predicted: Mapping[str, Mapping[int, Prediction]], device, index: str):
    """Return a pandas row for each size: what was measured on a device here, and in other columns what is predicted."""
    import pandas as pd

    columns = {f"{device}, measured": {size: m.shown for size, m in measured.items()}}
    for name, found in predicted.items():
        columns[f"predicted: {name}"] = {size: shown(p) for size, p in found.items()}
        gains = {size: times_faster(measured[size].median, p) for size, p in found.items()}
        columns[f"predicted: {name}, times faster"] = gains
    return pd.DataFrame(columns).rename_axis(index).fillna("does not fit")
