"""How much faster several devices train than one: two laws, what was measured, and a prediction.

Every device holds a replica of the network and takes its share of every batch; then the gradients of all are added up
(all-reduce). Times are in seconds, sizes in bytes, rates in bytes per second.
"""

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

from helpers import predict
from helpers.comparing import Comparison, fit_line
from helpers.errors import ParameterError
from helpers.examples import is_whole
from helpers.predict import Prediction
from helpers.timing import Measurement
from helpers.training import Training
from helpers.work import FLOAT

# Of the nominal rate. NVIDIA names about 20 % of protocol for NVLink (github.com/NVIDIA/nccl-tests/issues/212: 370 of
# 450 GB/s); copies over PCIe from pinned memory reach 75 to 80 %. For Ethernet it is a guess: TCP leaves 94 % at best,
# and programs that copy what they send, as TensorFlow's do, may reach far less.
REACHED = 0.8
# Seconds from sending to having received, without the bytes: they matter for small networks alone. Between GPUs, a step
# of NCCL's ring (github.com/NVIDIA/nccl, b6475625, src/graph/tuning.cc: hwLat, ring, "Simple"). Between computers, a
# message from program to program over TCP: half a round trip of 1500 bytes takes 60 to 90 µs at 1 Gbit/s, and a third
# of that is the wire (www.appneta.com/2009/12/15/part-2-why-is-10g-better-for-network-latency). At 100 Gbit/s the
# software is the same.
NVLINK, PCIE, SLOW_TCP, TCP = 3.4e-6, 5.7e-6, 75e-6, 50e-6


def amdahl(serial: float, devices):
    """Return the speed-up at fixed work, of which the share `serial` does not get faster: at most 1 / serial.

    `devices` may be an array, and infinite. G. Amdahl (1967), https://doi.org/10.1145/1465482.1465560.
    """
    devices = _checked(serial, devices, math.inf)
    return 1.0 * devices if serial == 0 else 1 / (serial + (1 - serial) / devices)


def gustafson(serial: float, devices):
    """Return the speed-up when the work grows with the devices, so that each always has the same to do.

    `serial` is the share of the time with all devices that does not get more. `devices` may be an array.
    J. Gustafson (1988), https://doi.org/10.1145/42411.42415.
    """
    devices = _checked(serial, devices, 1e300)
    return devices - serial * (devices - 1)


def serial_share(speedup: float, devices: float) -> float:
    """Return the share of one device's time that does not get faster, as `amdahl` would have it.

    Below 0: the devices are more than so many times faster, for example because each share fits into a cache.
    Above 1: together they are slower than one, so that something came in addition, such as sending gradients.
    A. Karp, H. Flatt (1990), https://doi.org/10.1145/78607.78614.
    """
    _check_speedup(speedup, devices)
    return (1 / speedup - 1 / devices) / (1 - 1 / devices)


def scaled_serial_share(speedup: float, devices: float) -> float:
    """Return the share of the time with all devices that does not get more, as `gustafson` would have it."""
    return speedup * serial_share(speedup, devices)  # the same seconds, of a time that is so much shorter


def _is_number(value) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _checked(serial, devices, most: float):
    """Return the numbers of devices, an array unless it is a single one, or raise `ParameterError`."""
    import numpy as np

    if not _is_number(serial) or not 0 <= serial <= 1:
        raise ParameterError(
            f"serial = {serial!r:.200} is no share.", "Accepted is a number from 0 to 1.", "Correct serial."
        )
    counts = np.asarray(devices)
    if counts.dtype.kind not in "iuf" or not np.all((counts >= 1) & (counts <= most)):
        raise ParameterError(
            f"devices = {devices!r:.200} is not possible.", "Accepted are numbers from 1 on.", "Correct devices."
        )
    return counts if counts.ndim else devices


def _check_speedup(speedup, devices) -> None:
    if not _is_number(speedup) or not 0 < speedup < math.inf:
        raise ParameterError(
            f"speedup = {speedup!r:.200} is not possible.",
            "Accepted is a number above 0.",
            "Divide the time of one device by that of several.",
        )
    if not _is_number(devices) or not devices > 1:
        raise ParameterError(
            f"devices = {devices!r:.200} is not possible.",
            "Accepted is a number above 1: a single device shares nothing.",
            "Give how many devices reached the speed-up.",
        )


def _check_devices(devices, least: int = 1) -> None:
    if not is_whole(devices) or devices < least:
        raise ParameterError(
            f"devices = {devices!r:.200} is not possible.",
            f"Accepted is a whole number from {least}.",
            "Correct devices.",
        )


@dataclass(frozen=True)
class Scaling:
    """What was measured of one network with one device and with several: seconds for the same examples, in turn."""

    devices: int
    one: Measurement
    several: Measurement

    def __post_init__(self):
        _check_devices(self.devices, least=2)

    @property
    def compared(self) -> Comparison:
        return Comparison(self.one, self.several)

    @property
    def speedup(self) -> float:
        return self.compared.ratio

    @property
    def efficiency(self) -> float:
        """The speed-up as a share of what as many devices could give."""
        return self.speedup / self.devices

    @property
    def interval(self) -> tuple[float, float]:
        """The speed-ups that the spread of both times leaves possible."""
        return self.compared.interval

    @property
    def verdict(self) -> str:
        """Say "1.6 times faster", "1.4 times slower" or "too close to call"."""
        return self.compared.verdict

    @property
    def serial(self) -> float:
        """The share of one device's time that does not get faster, from 0 to 1: see `serial_share`."""
        return min(1.0, max(0.0, serial_share(self.speedup, self.devices)))

    @property
    def scaled_serial(self) -> float:
        """The same as a share of the time with all devices: see `scaled_serial_share`."""
        return min(1.0, max(0.0, scaled_serial_share(self.speedup, self.devices)))


def of(one: Training, several: Training, devices: int) -> Scaling:
    """Return how a training with several devices stands against one, for each example."""
    return Scaling(devices, *map(_example, (one, several)))


def _example(trained: Training) -> Measurement:
    """Return the seconds of each epoch for one of its examples."""
    count, epochs = min(trained.examples, trained.steps * trained.batch_size), trained.epochs
    values = tuple(seconds / count for seconds in epochs.values)
    return Measurement(trained.way, epochs.device, epochs.first / count, values)


@dataclass(frozen=True)
class Link:
    """What connects each device with the next."""

    name: str
    bytes_per_s: float  # one direction, as really reached
    latency_s: float  # of each message
    source: str


def _nominal(name: str, bytes_per_s: float, latency: float, source: str) -> Link:
    return Link(name, REACHED * bytes_per_s, latency, source)


_PCIE = "PCI-SIG: {} GT/s for each of 16 lanes, of which 128 of 130 bits are data"
LINKS = {
    link.name: link
    for link in (
        _nominal("1 Gbit/s Ethernet", 1e9 / 8, SLOW_TCP, "IEEE 802.3ab (1999)"),
        _nominal("10 Gbit/s Ethernet", 1e10 / 8, TCP, "IEEE 802.3ae (2002)"),
        _nominal("100 Gbit/s Ethernet", 1e11 / 8, TCP, "IEEE 802.3ba (2010)"),
        _nominal("PCIe 3.0 x16", 1.575e10, PCIE, _PCIE.format(8)),
        _nominal("PCIe 4.0 x16", 3.15e10, PCIE, _PCIE.format(16)),
        _nominal(
            "NVLink of the A100", 3e11, NVLINK, "https://www.nvidia.com/de-de/data-center/nvlink (600 GB/s both ways)"
        ),
        _nominal(
            "NVLink of the H100", 4.5e11, NVLINK, "https://github.com/NVIDIA/nccl-tests/issues/212 (450 GB/s one way)"
        ),
    )
}


def gradient_bytes(model) -> int:
    """Return the bytes of the gradients of a Keras model: a float32 for each parameter that learns."""
    return FLOAT * sum(math.prod(variable.shape) for variable in model.trainable_variables)


def all_reduce_bytes(size: float, devices: int) -> float:
    """Return the bytes that each device sends when gradients of `size` bytes are added up in a ring.

    Each passes on all pieces but its own, once to add up and once to hand out. No way sends less: P. Patarasuk, X. Yuan
    (2009), https://doi.org/10.1016/j.jpdc.2008.09.002.
    """
    _check_devices(devices)
    return 2 * (devices - 1) / devices * size


def all_reduce_seconds(size: float, devices: int, link: Link) -> float:
    """Return the time of an all-reduce of `size` bytes, sent together, in a ring of 2 (devices - 1) steps.

    R. Thakur, R. Rabenseifner, W. Gropp (2005), https://doi.org/10.1177/1094342005051521. Adding up takes no time here.
    """
    return 2 * (devices - 1) * link.latency_s + all_reduce_bytes(size, devices) / link.bytes_per_s


def fitted_link(name: str, sizes: Sequence[float], seconds: Sequence[Measurement], devices: int) -> Link:
    """Return the link that measured all-reduces of several sizes behave like, whatever way they really take."""
    _check_devices(devices, least=2)
    line = fit_line(sizes, seconds)
    rate = all_reduce_bytes(1, devices) / line.per_item if line.per_item else math.inf
    return Link(name, rate, line.fixed / (2 * (devices - 1)), f"fitted to {len(sizes)} all-reduces measured here")


@dataclass(frozen=True)
class Predicted:
    """The predicted time of a training step with several devices."""

    devices: int
    link: Link
    compute: Prediction  # of one device, with its share of the batch
    communication: float  # seconds
    one: Prediction  # of one device, with the whole batch

    @property
    def seconds(self) -> float:
        return self.compute.seconds + self.communication

    @property
    def speedup(self) -> float:
        return self.one.seconds / self.seconds

    @property
    def efficiency(self) -> float:
        """The speed-up as a share of what as many devices could give."""
        return self.speedup / self.devices

    @property
    def word(self) -> str:
        """What takes longer: "communication" or "computing"."""
        return "communication" if self.communication > self.compute.seconds else "computing"


def predicted(model, batch: int, devices: int, machine, link: Link, way: str = "fit") -> Predicted:
    """Return the predicted step of a Keras model whose batch is divided among devices of one kind.

    Each has a computer of its own around it, all are equally fast, and gradients are sent when all are computed. So
    several devices in one computer, and devices that wait for each other, take longer; libraries that send while they
    compute take less. `batch` is that of all devices together.
    """
    _check_devices(devices)
    if not is_whole(batch) or batch < devices or batch % devices:
        raise ParameterError(
            f"A batch of {batch!r:.200} cannot be divided among {devices:,} devices.",
            f"Accepted are multiples of {devices:,}: each device takes as many examples.",
            "Correct the batch size.",
        )
    machine = predict.machine(machine)
    share, one = (predict.step_time(model, size, machine, way) for size in (batch // devices, batch))
    return Predicted(devices, link, share, all_reduce_seconds(gradient_bytes(model), devices, link), one)


def batch_from(model, devices: int, machine, link: Link, efficiency: float = 0.8, way: str = "fit") -> int | None:
    """Return the batch of all devices together from which their predicted efficiency stays at least `efficiency`.

    It is `devices` times a power of two, up to what a single device can hold; None if the largest is not enough.
    """
    _check_devices(devices)
    machine = predict.machine(machine)
    most = predict.largest_batch(model, machine, way) // devices
    enough = None
    for power in reversed(range(most.bit_length())):
        batch = devices * 2**power
        if predicted(model, batch, devices, machine, link, way).efficiency < efficiency:
            break
        enough = batch
    return enough
