"""A meeting of all workers of a cluster, before TensorFlow is used.

TensorFlow waits for ever for a worker that never comes, and lets no Python run meanwhile. So the workers meet by
themselves first, at the very addresses of TF_CONFIG, and then leave their ports to TensorFlow. Times are in seconds.
"""

import errno
import hashlib
import re
import socket
import socketserver
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack

from helpers.errors import ClusterError
from helpers.places import Place, host_and_port, is_loopback

PAUSE = 0.1  # between two visits to the same worker
PATIENCE = 1.0  # for one line: nobody who is silent may hold up the meeting
HELLO = re.compile(rb"course-worker ([0-9]{1,9}) ([0-9a-f]{16}) (ready|alone)\n")
HEARD = b"course-heard\n"
# What a visit has found, as it is said of one worker and of several when the time is over.
ABSENT = "has not come within {:g} s", "have not come within {:g} s"
STRANGE = (
    "answers, but does not wait: it may still be in an earlier run, or is another program",
    "answer, but do not wait: they may still be in an earlier run, or are other programs",
)
LEFT = "came, but has left before all had met", "came, but have left before all had met"
HERE = "is there, but has not met all others within {:g} s", "are there, but have not all met within {:g} s"


def on_this_machine(count: int) -> list[Place]:
    """Return the places of a cluster on this machine, at ports that nobody uses now."""
    with ExitStack() as stack:
        # On all interfaces, as TensorFlow will; all are open at once, or the same port could come twice.
        chosen = [stack.enter_context(socket.create_server(("", 0))) for _ in range(count)]
        addresses = tuple(f"127.0.0.1:{server.getsockname()[1]}" for server in chosen)
    return [Place(addresses, index) for index in range(count)]


def wait_for_all(place: Place, seconds: float) -> None:
    """Return when every worker has met every other one; `ClusterError` names those who are missing in the end."""
    if place.others:
        _Meeting(place).hold(seconds)


def unreachable(place: Place, seconds: float = 1) -> list[int]:
    """Return the indices of the other workers to whose address no connection can be made in this time."""

    def is_reachable(worker: int) -> bool:
        connection = _connect(place.addresses[worker], seconds)
        if connection:
            connection.close()
        return connection is not None

    with ThreadPoolExecutor(len(place.addresses)) as pool:
        reached = list(pool.map(is_reachable, place.others))
    return [worker for worker, is_up in zip(place.others, reached, strict=True) if not is_up]


def _connect(address: str, seconds: float) -> socket.socket | None:
    """Return a connection to this address, or None if nobody listens there."""
    host, port = host_and_port(address)
    try:
        connection = socket.create_connection((host, port), seconds)
    except (OSError, UnicodeError):  # a name may be unknown, or be none that can exist
        return None
    if connection.getsockname()[1] == port:  # drawn for the near end: Linux has connected us with ourselves
        connection.close()
        return None
    return connection


def keep_to_loopback() -> bool:
    """Close the ports of this process to other machines; return whether all are: Linux can, since 5.7.

    TensorFlow listens on every interface, whatever TF_CONFIG says, and asks nobody who they are.
    """
    if sys.platform != "linux":
        return False
    import psutil

    listening = [found for found in psutil.Process().net_connections("tcp") if found.status == psutil.CONN_LISTEN]
    return all([_bind_to_loopback(found) for found in listening])


def _bind_to_loopback(found) -> bool:
    try:
        with socket.fromfd(found.fd, found.family, found.type) as copy:
            # Without privileges, a second time would be refused.
            if copy.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16).rstrip(b"\0") != b"lo":
                copy.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    except OSError:
        return False
    return True


class _Meeting:
    """One worker's part in a meeting: it visits each of the others again and again, and answers its own guests.

    In every visit both say who they are, and whether they are ready: have reached all others. Two that are ready
    agree. Who agrees with all may leave: then everybody has reached everybody, and nobody waits for one who left.
    """

    def __init__(self, place: Place):
        self._place = place
        self._cluster = hashlib.sha256("\n".join(place.addresses).encode()).hexdigest()[:16]
        self._found = dict.fromkeys(place.others, ABSENT)  # by the last visit: one who gives up is missed at once
        self._agreed = set()
        self._is_over = threading.Event()

    def hold(self, seconds: float) -> None:
        """Return when all agree; whatever happens, nothing is left open."""
        server = socketserver.ThreadingTCPServer(("", 0), self._answer, bind_and_activate=False)
        server.socket.close()
        server.socket = _listener(self._place)
        server.socket.settimeout(PAUSE)
        with server, ThreadPoolExecutor(len(self._found) + 1) as pool:  # their ends wait for all that is under way
            try:
                pool.submit(self._keep_answering, server)
                visits = [pool.submit(self._keep_visiting, worker) for worker in self._found]
                for visit in wait(visits, seconds, FIRST_EXCEPTION).done:
                    visit.result()
            finally:
                self._is_over.set()
        if not self._all_agree():
            raise self._missing(seconds)

    def _keep_answering(self, server) -> None:
        while not self._is_over.is_set():
            server.handle_request()

    def _answer(self, guest: socket.socket, _address, _server) -> None:
        guest.settimeout(PATIENCE)
        try:
            said = HELLO.fullmatch(guest.recv(100))
            if said:
                worker = int(said[1])
                is_ours = said[2].decode() == self._cluster and worker in self._found
                is_ready = self._say_hello(guest)  # also to one of another cluster, who then knows it
                if is_ours and guest.recv(100) == HEARD and is_ready and said[3] == b"ready":
                    self._agreed.add(worker)
        except OSError:
            pass  # a guest that breaks off comes again, or is none of ours

    def _keep_visiting(self, worker: int) -> None:
        while not (self._all_agree() or self._is_over.is_set()):
            if worker not in self._agreed:
                found = self._visit(worker)
                was_here = self._found[worker] in (HERE, LEFT)
                self._found[worker] = LEFT if was_here and found is not HERE else found
            self._is_over.wait(PAUSE)

    def _visit(self, worker: int) -> tuple[str, str]:
        connection = _connect(self._place.addresses[worker], PATIENCE)
        if connection is None:
            return ABSENT
        with connection:
            try:
                is_ready = self._say_hello(connection)
                said = HELLO.fullmatch(connection.recv(100))
                if said is None:
                    return STRANGE
                self._check(worker, int(said[1]), said[2].decode())
                connection.sendall(HEARD)
            except OSError:
                return STRANGE
        if is_ready and said[3] == b"ready":
            self._agreed.add(worker)
        return HERE

    def _say_hello(self, connection: socket.socket) -> bool:
        """Say who we are; return whether we have said that we are ready."""
        # One who has agreed may be gone since.
        is_ready = all(found is HERE or worker in self._agreed for worker, found in self._found.items())
        word = "ready" if is_ready else "alone"
        connection.sendall(f"course-worker {self._place.index} {self._cluster} {word}\n".encode())
        return is_ready

    def _all_agree(self) -> bool:
        return len(self._agreed) == len(self._found)

    def _check(self, worker: int, said_worker: int, said_cluster: str) -> None:
        if said_cluster != self._cluster:
            wrong = "who waits there has another list of addresses in TF_CONFIG"
        elif said_worker != worker:
            wrong = f"who waits there is worker {said_worker} by its TF_CONFIG"
        else:
            return
        self._is_over.wait(3 * PAUSE)  # so that the other can visit us, and notice it, too
        raise ClusterError(
            f"Worker {worker} is expected at {self._place.addresses[worker]}, but {wrong}.",
            "All workers have the same addresses in TF_CONFIG, in the same order, and each has its own index.",
            "Correct TF_CONFIG, and start all of them again.",
        )

    def _missing(self, seconds: float) -> ClusterError:
        wrong = []
        for found in (ABSENT, STRANGE, LEFT, HERE):
            who = [worker for worker, how in self._found.items() if how is found and worker not in self._agreed]
            # Those who left were tired of waiting for those named already, and those who are here wait for them, too.
            if who and not (found in (LEFT, HERE) and wrong):
                names = ", ".join(f"{worker} at {self._place.addresses[worker]}" for worker in who)
                are_several = len(who) > 1
                wrong.append(f"Worker{'s' * are_several} {names} {found[are_several].format(seconds)}.")
        return ClusterError(
            " ".join(wrong),
            f"All {len(self._place.addresses)} workers must be started within that time, "
            "each with its own index in TF_CONFIG.",
            "Start those that are missing, and all others again; if they run, look at the addresses in TF_CONFIG, "
            "and whether a firewall closes their ports.",
        )


def _listener(place: Place) -> socket.socket:
    """Return a socket that listens where TensorFlow will: on every interface, or on loopback if that is enough."""
    host, port = host_and_port(place.own)
    if not is_loopback(place.own):
        host = "::" if socket.has_dualstack_ipv6() else ""
    elif host.lower() == "localhost":
        host = "127.0.0.1"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        raise ClusterError(
            f"Port {port} is in use on this machine." if is_taken else f"Port {port} cannot be opened: {error}.",
            f"Worker {place.index} must wait for the others at {place.own}.",
            "End the program that uses it, perhaps a worker of an earlier run; or take another port in TF_CONFIG.",
        ) from error
