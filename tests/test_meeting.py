"""Workers meet before TensorFlow is used, or say who is missing."""

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace

import psutil
import pytest

from helpers import meeting
from helpers.errors import ClusterError
from helpers.places import Place, is_loopback, read


@pytest.fixture(autouse=True)
def nothing_is_left_open():
    """Whatever a test does, no socket and no thread outlives it."""
    sockets, threads = psutil.Process().net_connections("tcp"), threading.active_count()
    yield
    assert psutil.Process().net_connections("tcp") == sockets
    assert threading.active_count() == threads


@pytest.fixture(autouse=True)
def impatient(nothing_is_left_open, monkeypatch):
    """Tests of one machine need not wait as long as workers of several."""
    monkeypatch.setattr(meeting, "PAUSE", 0.02)
    monkeypatch.setattr(meeting, "PATIENCE", 0.3)


@contextmanager
def listening(address: str):
    """Hold a port as another program would."""
    with socket.create_server(("127.0.0.1", int(address.rpartition(":")[2]))) as server:
        yield server


@contextmanager
def visitor(address: str):
    """Come in as somebody else; wait until there is somebody to come to."""
    host, port = address.split(":")
    end = time.monotonic() + 30
    while True:
        try:
            connection = socket.create_connection((host, int(port)), 5)
            break
        except ConnectionRefusedError:
            assert time.monotonic() < end
    with connection:
        yield connection


def meet(places, seconds=(30, 30, 30), late=()) -> list[ClusterError | None]:
    """Let each of these workers wait in a thread, the `late` ones a little later; return what each has raised."""

    def come(place, limit):
        if place.index in late:
            time.sleep(0.2)
        meeting.wait_for_all(place, limit)

    with ThreadPoolExecutor(len(places)) as pool:
        answers = [pool.submit(come, *each) for each in zip(places, seconds, strict=False)]
    return [answer.exception() for answer in answers]


def test_places_on_this_machine_are_those_of_one_cluster():
    """Each has its own port; what TensorFlow reads is what we read."""
    places = meeting.on_this_machine(3)

    assert [place.index for place in places] == [0, 1, 2]
    assert [place.is_chief for place in places] == [True, False, False]
    assert len(set(places[0].addresses)) == 3
    assert places[1].own == places[0].addresses[1]
    for place in places:
        assert read(place.config) == place
        with listening(place.own):
            assert is_loopback(place.own)


@pytest.mark.parametrize("late", [(), (0,), (1, 2)])
def test_workers_meet_in_whatever_order_they_come(late):
    """Three of them: all go on, and soon after the last has come."""
    start = time.monotonic()

    assert meet(meeting.on_this_machine(3), late=late) == [None] * 3

    assert (0.2 if late else 0) < time.monotonic() - start < 20


def test_a_worker_alone_waits_for_nobody():
    """It does not even need its port."""
    (place,) = meeting.on_this_machine(1)

    with listening(place.own):
        meeting.wait_for_all(place, 0)


@pytest.mark.parametrize("host", ["localhost", "[::1]", "127.0.0.2"])
def test_workers_meet_at_other_names_of_this_machine(host):
    """A name, an IPv6 address, and a second address of loopback."""
    try:
        socket.create_server((host.strip("[]"), 0), family=socket.AF_INET6 if "[" in host else socket.AF_INET).close()
    except OSError:
        pytest.skip("this machine does not have it")
    ports = [place.own.rpartition(":")[2] for place in meeting.on_this_machine(2)]
    addresses = tuple(f"{host}:{port}" for port in ports)

    assert meet([Place(addresses, 0), Place(addresses, 1)]) == [None, None]


def test_workers_meet_at_a_name_that_is_not_loopback(monkeypatch):
    """They listen on every interface then, as workers on several machines do."""
    monkeypatch.setattr(meeting, "is_loopback", lambda address: False)

    assert meet(meeting.on_this_machine(2)) == [None, None]


def test_those_who_have_not_come_are_named():
    """Within the time limit; who came is not accused."""
    places = meeting.on_this_machine(3)
    one, two = places[0].addresses[1:]
    start = time.monotonic()

    both = meet(places[:1], seconds=[0.2])[0]
    first, second = meet(places[:2], seconds=[0.4, 0.4])

    assert time.monotonic() - start < 20
    assert str(both).startswith(f"Workers 1 at {one}, 2 at {two} have not come within 0.2 s. All 3 workers must be")
    for error in (first, second):
        assert str(error).startswith(f"Worker 2 at {two} has not come within 0.4 s. All 3 workers must be")
        assert "each with its own index in TF_CONFIG. Start those that are missing" in str(error)


def test_after_a_failure_the_same_workers_can_meet():
    """The ports are free again at once."""
    places = meeting.on_this_machine(2)

    assert isinstance(meet(places[:1], seconds=[0.2])[0], ClusterError)
    assert meet(places) == [None, None]
    for place in places:
        with listening(place.own):
            pass


def test_who_gave_up_before_the_last_one_came_is_missing():
    """Workers 0 and 1 have met, but 0 is gone when 2 comes: nobody may go on into TensorFlow, and wait there."""
    places = meeting.on_this_machine(3)

    with ThreadPoolExecutor(3) as pool:
        second = pool.submit(meeting.wait_for_all, places[1], 0.8)
        first = pool.submit(meeting.wait_for_all, places[0], 0.3)
        assert str(first.exception()).startswith(f"Worker 2 at {places[2].own} has not come")
        third = pool.submit(meeting.wait_for_all, places[2], 0.8)

    assert str(second.exception()).startswith(f"Worker 0 at {places[0].own} came, but has left before all had met. All")
    assert str(third.exception()).startswith(f"Worker 0 at {places[0].own} has not come within 0.8 s. All")


def test_one_visit_is_enough_for_two_to_agree(monkeypatch):
    """Who is visited by one that then leaves need not find it again."""
    places = meeting.on_this_machine(2)
    visit = meeting._Meeting._visit

    def once(self, worker):
        return meeting.HERE if self._place == places[1] and self._found[0] is meeting.HERE else visit(self, worker)

    monkeypatch.setattr(meeting._Meeting, "_visit", once)

    assert meet(places, seconds=[20, 20]) == [None, None]


def test_one_who_has_agreed_and_left_does_not_hold_up_the_others(monkeypatch):
    """Worker 0 finds nobody at 1 any more while 2 is still slow: 1 has heard all it needs."""
    visit = meeting._Meeting._visit

    def late_visit(self, worker):
        pair = self._place.index, worker
        if self._found[worker] is meeting.HERE and pair == (0, 1):
            while worker not in self._agreed and not self._is_over.is_set():
                time.sleep(0.01)
            return meeting.ABSENT
        if self._found[worker] is meeting.HERE and set(pair) == {0, 2}:
            time.sleep(0.15)
        return visit(self, worker)

    monkeypatch.setattr(meeting._Meeting, "_visit", late_visit)

    assert meet(meeting.on_this_machine(3), seconds=[20, 20, 20]) == [None] * 3


@pytest.mark.parametrize(
    ("index", "cluster", "word", "end", "agrees"),
    [
        (1, None, "ready", meeting.HEARD, True),
        (1, None, "ready", b"", False),  # it may not have heard the answer
        (1, None, "alone", meeting.HEARD, False),
        (1, "0123456789abcdef", "ready", meeting.HEARD, False),
        (0, None, "ready", meeting.HEARD, False),
        (2, None, "ready", meeting.HEARD, False),
    ],
)
def test_only_a_worker_that_is_ready_and_has_heard_it_of_us_agrees(monkeypatch, index, cluster, word, end, agrees):
    """Everything else would send one of two into TensorFlow alone."""
    place, _ = meeting.on_this_machine(2)
    monkeypatch.setattr(meeting._Meeting, "_visit", lambda self, worker: meeting.HERE)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(meeting.wait_for_all, place, 0.2)
        with visitor(place.own) as guest:
            time.sleep(2 * meeting.PAUSE)  # until it has visited us
            guest.sendall(f"course-worker {index} {cluster or meeting._Meeting(place)._cluster} {word}\n".encode())
            assert meeting.HELLO.fullmatch(guest.recv(100))[3] == b"ready"
            guest.sendall(end)

    assert (answer.exception() is None) is agrees


def test_workers_that_cannot_all_reach_each_other_do_not_go_on(monkeypatch):
    """A firewall between workers 1 and 2 alone stops worker 0, too."""
    places = meeting.on_this_machine(3)
    visit = meeting._Meeting._visit

    def through_the_firewall(self, worker):
        return meeting.ABSENT if {self._place.index, worker} == {1, 2} else visit(self, worker)

    monkeypatch.setattr(meeting._Meeting, "_visit", through_the_firewall)
    errors = [str(error) for error in meet(places, seconds=[0.6, 1.5, 1.5])]

    _, one, two = places[0].addresses
    assert errors[0].startswith(f"Workers 1 at {one}, 2 at {two} are there, but have not all met within 0.6 s. All 3")
    assert errors[1].startswith(f"Worker 2 at {two} has not come within 1.5 s. All 3")
    assert errors[2].startswith(f"Worker 1 at {one} has not come within 1.5 s. All 3")


def test_a_firewall_that_is_closed_in_one_direction_is_noticed(monkeypatch):
    """TensorFlow's workers call each other both ways."""
    places = meeting.on_this_machine(2)
    visit = meeting._Meeting._visit

    def one_way(self, worker):
        return meeting.ABSENT if worker == 0 else visit(self, worker)

    monkeypatch.setattr(meeting._Meeting, "_visit", one_way)
    errors = [str(error) for error in meet(places, seconds=[0.6, 1.5])]

    assert errors[0].startswith(f"Worker 1 at {places[1].own} is there, but has not met all others within 0.6 s. All")
    assert errors[1].startswith(f"Worker 0 at {places[0].own} has not come within 1.5 s.")


@pytest.mark.parametrize("answer", [None, b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\xff" * 1_000_000])
def test_another_program_at_the_address_of_a_worker_is_not_taken_for_it(answer):
    """Silent (None), gone at once, or with words of its own: it answers, but does not wait."""
    places = meeting.on_this_machine(2)
    is_over = threading.Event()

    def serve(server):
        server.settimeout(0.05)
        connections = []
        while not is_over.is_set():
            try:
                connections.append(server.accept()[0])
                if answer is not None:
                    connections[-1].settimeout(0.05)
                    connections[-1].sendall(answer)
                    connections.pop().close()
            except OSError:
                pass
        for connection in connections:
            connection.close()

    with listening(places[1].own) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        (error,) = meet(places[:1], seconds=[0.3])
        is_over.set()
        thread.join()

    assert str(error).startswith(f"Worker 1 at {places[1].own} answers, but does not wait: it may still be in an ear")


def test_workers_of_two_clusters_notice_it_at_once(monkeypatch):
    """Both are told, though one sees it first: the same addresses in another order are another list."""
    first, second = meeting.on_this_machine(2)
    other = Place(first.addresses[::-1], 0)  # at the port of `second`
    visit = meeting._Meeting._visit
    start = time.monotonic()

    def slower(self, worker):
        if self._place == other:
            time.sleep(1.5 * meeting.PAUSE)
        return visit(self, worker)

    monkeypatch.setattr(meeting._Meeting, "_visit", slower)

    errors = meet([first, other])

    assert time.monotonic() - start < 20
    for error, there in zip(errors, (second, first), strict=True):
        words = f"Worker 1 is expected at {there.own}, but who waits there has another list of addresses in TF_CONFIG."
        assert str(error).startswith(words)


def test_a_worker_with_the_index_of_another_is_noticed_at_once(monkeypatch):
    """Two machines with index 0: each visits worker 1, and one of them meets itself there."""
    first, second = meeting.on_this_machine(2)
    monkeypatch.setattr(meeting, "_listener", lambda place: socket.create_server(("127.0.0.1", int(second.own[10:]))))

    (error,) = meet([first])

    words = f"Worker 1 is expected at {second.own}, but who waits there is worker 0 by its TF_CONFIG. All workers have"
    assert str(error).startswith(words)


def test_a_port_that_is_in_use_is_an_error_at_once():
    """Its own port, with what may use it."""
    first, _ = meeting.on_this_machine(2)
    start = time.monotonic()

    with listening(first.own), pytest.raises(ClusterError, match=f"^Port {first.own[10:]} is in use .*earlier run"):
        meeting.wait_for_all(first, 60)

    assert time.monotonic() - start < 20


def test_a_port_that_cannot_be_opened_is_an_error_at_once(monkeypatch):
    """For any other reason, which is said."""

    def refuse(*_address, **_options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)

    with pytest.raises(ClusterError, match="^Port 80 cannot be opened: .*Permission denied"):
        meeting.wait_for_all(Place(("127.0.0.1:80", "127.0.0.1:4711"), 0), 60)


@pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"x" * 3_000_000, b"course-worker 9 " + b"0" * 16])
def test_visitors_who_are_no_workers_do_not_disturb(words):
    """Silent ones, noisy ones, and ones that break off."""
    places = meeting.on_this_machine(2)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(meeting.wait_for_all, places[0], 5)
        with visitor(places[0].own) as silent, visitor(places[0].own) as noisy:
            try:
                noisy.sendall(words)
            except OSError:
                pass  # it is thrown out
            start = time.monotonic()
            assert meet(places[1:]) == [None]
            assert first.exception() is None
            assert silent.recv(1) == b""

    assert time.monotonic() - start < 20


def test_ctrl_c_closes_everything():
    """The worker ends at once, and its port is free."""
    first, _ = meeting.on_this_machine(2)
    code = """
import os, signal
from helpers import meeting, places
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs the tests in the background ignores it
meeting.wait_for_all(places.read(os.environ["TF_CONFIG"]), 60)
"""
    command = [sys.executable, "-W", "error", "-c", code]

    with subprocess.Popen(command, env={**os.environ, "TF_CONFIG": first.config}, stderr=subprocess.PIPE) as process:
        with visitor(first.own):
            pass
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)

    # In the middle of starting a thread, Python itself makes another error of it.
    assert process.returncode != 0 and b"KeyboardInterrupt" in errors
    assert b"ResourceWarning" not in errors
    with listening(first.own):
        pass


def test_only_workers_that_do_not_listen_are_unreachable():
    """The own place is not tried; a name that does not exist is not reachable either."""
    places = meeting.on_this_machine(3)

    with listening(places[2].own):
        assert meeting.unreachable(places[0], 0.5) == [1]
        assert meeting.unreachable(places[1], 0.5) == [0]
    assert meeting.unreachable(places[0], 0.5) == [1, 2]
    assert meeting.unreachable(Place(("127.0.0.1:1", "no..name:1", f"{'a' * 70}.org:1"), 0), 0.5) == [1, 2]
    assert meeting.unreachable(Place(("127.0.0.1:1",), 0)) == []


def test_a_connection_with_itself_is_no_connection(monkeypatch):
    """Where nobody listens, the near end can be drawn the very port that it calls."""
    places = meeting.on_this_machine(2)

    def with_itself(address, seconds):
        connection = socket.socket()
        connection.bind(address)
        connection.connect(address)
        return connection

    monkeypatch.setattr(socket, "create_connection", with_itself)

    assert meeting.unreachable(places[0]) == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can")
def test_listening_sockets_are_closed_to_other_machines():
    """All of this process, those of IPv6 included; a second time changes nothing."""
    with socket.create_server(("", 0)) as server, socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        assert meeting.keep_to_loopback()
        assert meeting.keep_to_loopback()

        for each in (server, other):
            assert each.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 16) == b"lo\0"
        with socket.create_connection(("127.0.0.1", server.getsockname()[1]), 1):
            pass


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_sockets_that_stay_open_to_other_machines_are_reported(monkeypatch, system):
    """Linux before 5.7 refuses, as it does here for what is no socket; other systems cannot at all."""
    with open(os.devnull) as file:
        found = SimpleNamespace(fd=file.fileno(), family=socket.AF_INET, type=socket.SOCK_STREAM, status="LISTEN")
        monkeypatch.setattr(psutil.Process, "net_connections", lambda self, kind: [found])
        monkeypatch.setattr(sys, "platform", system)

        assert not meeting.keep_to_loopback()
