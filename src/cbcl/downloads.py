"""Downloads over HTTP: checked by size and checksum, resumed after an interruption.

A file that is already in place, however it got there, is checked like a download.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import file_digest, new
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

try:
    import fcntl
except ImportError:  # Windows, where an open file cannot be renamed
    fcntl = None  # type: ignore[assignment]

from cbcl.errors import CBCLError, first_line
from cbcl.files import part_of

DOWNLOAD_CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS = 60.0  # without a byte from the server
MAX_DOWNLOAD_BYTES = 4 << 30  # of a file whose size is unknown


class RemoteFile(NamedTuple):
    """A file on the web."""

    urls: tuple[str, ...]  # tried in order
    algorithm: Literal["md5", "sha256"]
    checksum: str  # hexadecimal; the first digits are enough
    size: int | None = None  # in bytes; None: unknown


def download(
    remote: RemoteFile,
    path: Path,
    error: type[CBCLError],
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Download a file to a path unless it is there; `error` is the type of the errors raised.

    Errors of the file system are raised as OSErrors.
    """
    if path.exists():
        _check(path, path, remote, error)
        return
    with _open_part(path) as part:
        if remote.size is None or _size(part) != remote.size:
            with _request(remote, path, part, error) as response:
                _receive(response, remote, path, part, error, progress)
        _check(part, path, remote, error)
        part.replace(path)


def partial(path: Path) -> Path:
    """Return the path of a partial download, which the next download continues."""
    return path.with_name(f"{path.name}.part")


@contextmanager
def _open_part(path: Path) -> Iterator[Path]:
    """Yield a file that no other download writes: the partial one, unless that is in use."""
    part = partial(path)
    if fcntl is None:
        yield part
        return
    with part.open("ab") as file:
        if _lock(file) and _is_at(file, part):
            try:
                yield part
            finally:
                if _is_at(file, part) and not _size(part):
                    part.unlink()
            return
    own = part_of(path)
    try:
        yield own
    finally:
        own.unlink(missing_ok=True)


def _lock(file: BinaryIO) -> bool:
    """Lock a file until it is closed; return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # locked, or on a file system without locks
        return False
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    """Tell whether an open file still has its name: a finished or deleted one has not."""
    return path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat())


def _request(remote: RemoteFile, path: Path, part: Path, error: type[CBCLError]) -> HTTPResponse:
    """Request the rest of a file, or all of it, from the first URL that answers."""
    problems = []
    for url in remote.urls:
        headers = {"Range": f"bytes={_size(part)}-"} if _size(part) else {}
        try:
            response: HTTPResponse = urlopen(Request(url, headers=headers), timeout=TIMEOUT_SECONDS)
            return response
        except (OSError, HTTPException) as failure:
            if isinstance(failure, HTTPError):
                failure.close()
                if failure.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                    os.truncate(part, 0)  # a part of another file
            problems.append(f"{url}: {first_line(failure)}")
    advice = f"try again, or get it from {remote.urls[0]} by other means and put it there"
    raise error(path, f"cannot be downloaded ({'; '.join(problems)})", advice)


def _receive(
    response: HTTPResponse,
    remote: RemoteFile,
    path: Path,
    part: Path,
    error: type[CBCLError],
    progress: Callable[[int, int], None] | None,
) -> None:
    start = _size(part) if response.status == HTTPStatus.PARTIAL_CONTENT else 0
    total = remote.size or 0 if response.length is None else start + response.length  # 0: unknown
    limit = remote.size or MAX_DOWNLOAD_BYTES
    if total > limit or total != (remote.size or total):
        part.unlink(missing_ok=True)
        problem = f"gives {total} bytes, but {path.name} has {remote.size or f'at most {limit}'}"
        raise error(response.url, problem, "try again later")
    with part.open("ab" if start else "wb") as file:
        while file.tell() <= limit and (chunk := _read_chunk(response)):
            file.write(chunk)
            if progress is not None:
                progress(file.tell(), total)
    received = _size(part)
    if received < total:
        megabytes = received / 1e6
        problem = f"broke off after {megabytes:,.0f} MB"
        raise error(response.url, problem, "the same command goes on from there")


def _read_chunk(response: HTTPResponse) -> bytes:
    try:
        return response.read(DOWNLOAD_CHUNK_BYTES)
    except (OSError, HTTPException):  # the caller finds the file too short
        return b""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _check(file: Path, path: Path, remote: RemoteFile, error: type[CBCLError]) -> None:
    """Compare the checksum of a file, or of its download, which is deleted if it is wrong."""
    with file.open("rb") as stream:
        digest = file_digest(stream, lambda: new(remote.algorithm, usedforsecurity=False))
    begin = digest.hexdigest()[: len(remote.checksum)]
    if begin != remote.checksum:
        algorithm = {"md5": "MD5", "sha256": "SHA-256"}[remote.algorithm]
        problem = f"is not the file wanted: its {algorithm} is {begin}, not {remote.checksum}"
        if file != path:
            file.unlink()
        raise error(path, problem, "delete it, or get it again" if file == path else "try again")
