"""Where the workers of a cluster are, as TensorFlow's variable TF_CONFIG says it."""

import ipaddress
import json
import re
from dataclasses import dataclass

from helpers.errors import ClusterError

EXAMPLE = '{"cluster": {"worker": ["10.0.0.1:4711", "10.0.0.2:4711"]}, "task": {"type": "worker", "index": 0}}'
ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+)):([1-9][0-9]{0,4})")


@dataclass(frozen=True)
class Place:
    """Where one worker stands in its cluster: the addresses of all, and which of them is its own."""

    addresses: tuple[str, ...]
    index: int

    def __post_init__(self):
        for address in self.addresses:
            host_and_port(address)
        if len({address.lower() for address in self.addresses}) < len(self.addresses):
            raise _refused(f"An address stands twice in {list(self.addresses)!r:.200}")
        if not 0 <= self.index < len(self.addresses):
            raise _refused(f"There is no worker {self.index} of {len(self.addresses)}: the first has index 0")

    @property
    def own(self) -> str:
        return self.addresses[self.index]

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    @property
    def others(self) -> list[int]:
        return [worker for worker in range(len(self.addresses)) if worker != self.index]

    @property
    def config(self) -> str:
        """The text of TF_CONFIG for this worker."""
        task = {"type": "worker", "index": self.index}
        return json.dumps({"cluster": {"worker": list(self.addresses)}, "task": task})


def read(text: str | None) -> Place:
    """Return the place that the text of TF_CONFIG gives to a process; a chief is worker 0, before all others."""
    if not text or not text.strip():
        raise _refused("TF_CONFIG is not set")
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(f"TF_CONFIG is not JSON: {text!r:.200}") from error
    cluster, task = _part(config, "cluster", dict), _part(config, "task", dict)
    if set(cluster) - {"chief", "worker"}:
        raise _refused(f"Only the jobs chief and worker take part in this training, not all of {list(cluster)!r:.200}")
    workers, chief = _part(cluster, "worker", list), _part({"chief": [], **cluster}, "chief", list)
    job, index = _part(task, "type", str), _part(task, "index", int | str)
    if len(chief) > 1 or job not in cluster:
        raise _refused(f"There is one chief at most, and the task is of a job of the cluster: {text!r:.200}")
    if not re.fullmatch("[0-9]{1,9}", str(index)) or int(index) >= len(cluster[job]):
        raise _refused(f"There is no {job} {index!r:.20} of {len(cluster[job])}: the first has index 0")
    return Place((*chief, *workers), int(index) + (len(chief) if job == "worker" else 0))


def _part(whole, name: str, kind):
    if not isinstance(whole, dict) or not isinstance(whole.get(name), kind):
        raise _refused(f"TF_CONFIG has no {name!r}, or it is of the wrong kind, in {whole!r:.200}")
    return whole[name]


def host_and_port(address: str) -> tuple[str, int]:
    """Return the two parts of an address, or raise `ClusterError`."""
    match = ADDRESS.fullmatch(address) if isinstance(address, str) else None
    if not match or int(match[3]) > 65535:
        raise _refused(f"{address!r:.200} is not the address of a worker, which is host:port or [IPv6]:port")
    return match[1] or match[2], int(match[3])


def _refused(wrong: str) -> ClusterError:
    return ClusterError(
        f"{wrong}.",
        f"Accepted is a text like {EXAMPLE}.",
        "Set it for each worker before it starts: the same for all but for the index.",
    )


def is_loopback(address: str) -> bool:
    """Return whether an address can be reached from its own machine alone."""
    host, _port = host_and_port(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
