"""Downloads: resumed, checked and bounded. (tests/study/test_datasets.py has more.)"""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cbcl import downloads
from cbcl.downloads import RemoteFile, download, partial
from cbcl.errors import DataError, WeightsError

DATA = bytes(range(256)) * 1000


class Handler(http.server.BaseHTTPRequestHandler):
    """`DATA`, from any byte on, with or without its length; the connection may break off."""

    with_length: bool
    cut: int | None
    ranges: ClassVar[list[str | None]]

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        self.send_response(206 if asked else 200)
        if self.with_length:
            self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        self.wfile.write(DATA[start:][: self.cut])

    def log_message(self, *args: Any, **kwargs: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[Handler]]]:
    class Fresh(Handler):
        with_length = True
        cut = None
        ranges: ClassVar[list[str | None]] = []

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Fresh) as serving:
        threading.Thread(target=serving.serve_forever, args=(0.01,)).start()
        yield f"http://127.0.0.1:{serving.server_port}/data", Fresh
        serving.shutdown()


def remote(url: str, size: int | None = None, digits: int = 64) -> RemoteFile:
    return RemoteFile((url,), "sha256", sha256(DATA).hexdigest()[:digits], size)


@pytest.mark.parametrize("size", [None, len(DATA)])
@pytest.mark.parametrize("with_length", [True, False])
def test_a_file_arrives_whole(
    size: int | None, with_length: bool, server: tuple[str, type[Handler]], tmp_path: Path
) -> None:
    url, handler = server
    handler.with_length = with_length
    steps: list[tuple[int, int]] = []
    download(remote(url, size, 8), tmp_path / "file", DataError, lambda *step: steps.append(step))
    assert (tmp_path / "file").read_bytes() == DATA
    assert steps[-1] == (len(DATA), len(DATA) if with_length or size else 0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_broke_off_is_resumed_also_where_the_size_is_unknown(
    server: tuple[str, type[Handler]], tmp_path: Path
) -> None:
    url, handler = server
    handler.cut = 5000
    with pytest.raises(WeightsError, match="broke off") as caught:
        download(remote(url), tmp_path / "file", WeightsError)
    assert caught.value.subject == url
    assert partial(tmp_path / "file").stat().st_size == 5000
    handler.cut = None
    download(remote(url), tmp_path / "file", WeightsError)
    assert handler.ranges == [None, "bytes=5000-"]
    assert (tmp_path / "file").read_bytes() == DATA


@pytest.mark.parametrize("with_length", [True, False])
def test_a_file_without_end_fills_no_disk(
    with_length: bool,
    server: tuple[str, type[Handler]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, handler = server
    handler.with_length = with_length
    monkeypatch.setattr(downloads, "MAX_DOWNLOAD_BYTES", 3000)
    monkeypatch.setattr(downloads, "DOWNLOAD_CHUNK_BYTES", 1000)
    steps: list[int] = []
    with pytest.raises(DataError):
        download(remote(url), tmp_path / "file", DataError, lambda done, _: steps.append(done))
    assert max(steps, default=0) <= 4000
    assert [*tmp_path.iterdir()] == []


def test_a_file_got_by_other_means_is_checked(tmp_path: Path) -> None:
    nowhere = remote("http://127.0.0.1:1/data")
    path = tmp_path / "file"
    with pytest.raises(DataError, match=r"cannot be downloaded \(.*put it there") as caught:
        download(nowhere, path, DataError)
    assert caught.value.subject == path
    path.write_bytes(b"another")
    with pytest.raises(DataError, match="is not the file wanted: its SHA-256 is"):
        download(nowhere, path, DataError)
    path.write_bytes(DATA)
    download(nowhere, path, DataError)
