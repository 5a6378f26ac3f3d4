"""Fetch one published file: with a time limit, a progress line, and a check of its sum.

Whatever goes wrong is said in words, with how to do without the download. Only our own unfinished file is
ever deleted.
"""

import hashlib
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from helpers.errors import DataError
from helpers.progress import progress

CONNECT, SILENCE = 10.0, 30.0  # seconds until a server must answer, and may be silent
LONGEST = 900.0  # seconds for the whole file: 170 MB at 0.2 MB/s
CHUNK = 2**18  # bytes
BY_HAND = "Or fetch it elsewhere: `course data` says how."


def fetch(url: str, folder: Path, sha256: str, *, clock: Callable[[], float] = time.monotonic) -> Path:
    """Return the path of the file in `folder`, fetched from `url`, whole or not at all; never in place of another.

    Raises `DataError` for a server that refuses or hangs, for a file that is not the published one, and for
    a folder that cannot be written.
    """
    import requests

    name = url.rpartition("/")[2]
    target, draft = folder / name, folder / f".{name}.{uuid.uuid4().hex[:8]}.part"  # two kernels may fetch at once
    try:
        if _is_there(target, sha256):
            return target
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with requests.get(url, stream=True, timeout=(CONNECT, SILENCE)) as answer:
                answer.raise_for_status()
                found = _save(answer, draft, name, clock() + LONGEST, clock)
            if found == sha256:
                if not _is_there(target, sha256):
                    os.replace(draft, target)
                return target
        finally:
            draft.unlink(missing_ok=True)
    except requests.RequestException as error:
        raise _in_words(url, error) from error
    except OSError as error:
        raise DataError(
            f"{name} cannot be fetched into {folder.name}/: {error.strerror or 'REQUESTS_CA_BUNDLE names no file'}.",
            "A folder is needed in which you may write, with room for the file.",
            BY_HAND,
        ) from error
    raise DataError(
        f"What came from {url} is not the published file (its SHA-256 is {found[:12]}…).",
        "A proxy or a login page may have answered in its place.",
        BY_HAND,
    )


def _is_there(target: Path, sha256: str) -> bool:
    """Return whether the published file is there already; raise if it is another one."""
    if not os.path.lexists(target):
        return False
    if hashlib.sha256(target.read_bytes()).hexdigest() == sha256:  # another kernel was faster
        return True
    raise DataError(
        f"{target.name} was not fetched: in {target.parent.name}/ is another file of that name.",
        "A file that is there is never replaced.",
        "Take it away, and the published one is fetched.",
    )


def _save(answer, draft: Path, name: str, end: float, clock: Callable[[], float]) -> str:
    """Write the body of an answer and return its SHA-256."""
    import requests

    digest = hashlib.sha256()
    length = answer.headers.get("content-length", "")
    total = int(length) if length.isdigit() else None
    with open(draft, "wb") as file, progress((), name, total=total, unit="B", unit_scale=True) as line:
        for chunk in answer.iter_content(CHUNK):
            file.write(chunk)
            digest.update(chunk)
            line.update(len(chunk))
            if clock() > end:
                raise requests.Timeout(f"after {LONGEST:.0f} s it was not complete")
    return digest.hexdigest()


def _in_words(url: str, error) -> DataError:
    import requests

    name, host = url.rpartition("/")[2], url.split("/")[2]
    if isinstance(error, requests.exceptions.SSLError):
        return DataError(
            f"{name} was not fetched: the certificate of {host} could not be checked.",
            "The check stays on: without it, anybody on the way could send you another file.",
            "If your network has a certificate of its own, set REQUESTS_CA_BUNDLE to its file; correct the "
            f"computer's date if it is wrong. {BY_HAND}",
        )
    if isinstance(error, requests.exceptions.ProxyError):
        return DataError(
            f"{name} was not fetched: the proxy did not let it through.",
            "The variables HTTPS_PROXY and NO_PROXY say which proxy is used.",
            f"Ask your network's people for their right values. {BY_HAND}",
        )
    if isinstance(error, requests.HTTPError):
        why = f"{host} answered {error.response.status_code} {error.response.reason}"
    elif isinstance(error, requests.Timeout) or "timed out" in str(error):  # silence in the middle of a file
        why = f"{host} took too long"
    else:
        why = f"the connection to {host} failed"
    return DataError(
        f"{name} was not fetched: {why}.", f"It is looked for at {url}.", f"Try again with internet. {BY_HAND}"
    )
