"""Downloads from a server of our own: whole or not at all, never for ever, and every fault in words."""

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from helpers import download
from helpers.errors import DataError

CONTENT = b"pictures" * 100_000
SUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers by the first part of the path: /ok/mnist.npz, /403/…, /hang/…"""

    def do_GET(self):
        how = self.path.split("/")[1]
        if how.isdigit():
            self.send_error(int(how))
            return
        content = {"login": b"<html>Please log in</html>"}.get(how, CONTENT)
        self.send_response(200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2])
        if how == "hang":
            self.server.over.wait()
        elif how != "cut":
            self.wfile.write(content[len(content) // 2 :])

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture(scope="module")
def server():
    """The address of a server on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.over = threading.Event()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.over.set()
        server.shutdown()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    """A proxy of the machine that runs the tests is none of their business."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def test_a_file_comes_whole_into_a_folder_that_is_made(server, tmp_path):
    """Nothing else stays there."""
    path = download.fetch(f"{server}/ok/mnist.npz", tmp_path / "new", SUM)

    assert path == tmp_path / "new" / "mnist.npz" and path.read_bytes() == CONTENT
    assert list(path.parent.iterdir()) == [path]


def test_two_can_fetch_the_same_file_at_once(server, tmp_path):
    """Two kernels do, when two notebooks are started."""
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda _: download.fetch(f"{server}/ok/mnist.npz", tmp_path, SUM), range(2)))

    assert found == [tmp_path / "mnist.npz"] * 2 and found[0].read_bytes() == CONTENT
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("403", "127.0.0.1:.* answered 403 Forbidden"),
        ("404", "answered 404 Not Found"),
        ("500", "answered 500"),
        ("hang", "took too long"),
        ("cut", "the connection to 127.0.0.1:.* failed"),
        ("login", "is not the published file .*A proxy or a login page"),
    ],
)
def test_what_goes_wrong_is_said_in_words_and_leaves_nothing(how, words, server, tmp_path, monkeypatch):
    """With the file, the address, and how to do without."""
    monkeypatch.setattr(download, "SILENCE", 0.2)
    mine = tmp_path / "other.npz"
    mine.write_bytes(b"somebody's own file")

    with pytest.raises(DataError, match=words) as caught:
        download.fetch(f"{server}/{how}/mnist.npz", tmp_path, SUM)

    assert f"{server}/{how}/mnist.npz" in str(caught.value) and "`course data`" in str(caught.value)
    assert list(tmp_path.iterdir()) == [mine] and mine.read_bytes() == b"somebody's own file"


def test_a_file_that_is_there_is_never_replaced(server, tmp_path):
    """Keras would: it deletes a file whose sum is another. The published one itself is simply taken."""
    mine = tmp_path / "mnist.npz"
    mine.write_bytes(b"somebody's own file")

    with pytest.raises(DataError, match="another file of that name.*never replaced.*Take it away"):
        download.fetch(f"{server}/ok/mnist.npz", tmp_path, SUM)

    assert mine.read_bytes() == b"somebody's own file"
    mine.write_bytes(CONTENT)
    assert download.fetch("http://127.0.0.1:9/mnist.npz", tmp_path, SUM) == mine


def test_a_download_that_trickles_ends(server, tmp_path):
    """A server that sends a little now and then would never be silent for long."""
    hours = iter(range(0, 10**9, 3600))

    with pytest.raises(DataError, match="took too long"):
        download.fetch(f"{server}/ok/mnist.npz", tmp_path, SUM, clock=lambda: next(hours))

    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_not_there(tmp_path):
    """The usual case: no internet."""
    with pytest.raises(DataError, match="the connection to 127.0.0.1:9 failed.*Try again with internet"):
        download.fetch("http://127.0.0.1:9/mnist.npz", tmp_path, SUM)


def test_a_certificate_that_cannot_be_checked(server, tmp_path):
    """The words never suggest to switch the check off."""
    with pytest.raises(DataError, match="certificate of 127.0.0.1:.* could not be checked") as caught:
        download.fetch(f"{server.replace('http:', 'https:')}/ok/mnist.npz", tmp_path, SUM)

    assert "The check stays on" in str(caught.value) and "REQUESTS_CA_BUNDLE" in str(caught.value)
    assert "verify" not in str(caught.value).lower()


def test_a_proxy_that_does_not_answer(server, tmp_path, monkeypatch):
    """Named as the proxy's fault, with the variables to look at."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    with pytest.raises(DataError, match="the proxy did not let it through.*HTTPS_PROXY and NO_PROXY"):
        download.fetch(f"{server}/ok/mnist.npz", tmp_path, SUM)


def test_a_folder_that_cannot_be_written(server, tmp_path):
    """A file is in its place, for example."""
    (tmp_path / "data").write_text("not a folder")

    with pytest.raises(DataError, match="mnist.npz cannot be fetched into data/"):
        download.fetch(f"{server}/ok/mnist.npz", tmp_path / "data", SUM)
