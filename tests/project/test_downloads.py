"""Downloads: resumed, checked and bounded. (tests/study/test_datasets.py has more.)"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from support.file_server import FileServer, file_server
from support.processes import until

from cbcl import downloads
from cbcl.downloads import RemoteFile, download, partial
from cbcl.errors import DataError, WeightsError

DATA = bytes(range(256)) * 1000


@pytest.fixture
def server() -> Iterator[FileServer]:
    with file_server() as served:
        served.files["data"] = DATA
        served.url += "/data"
        yield served


def remote(url: str, size: int | None = None, digits: int = 64) -> RemoteFile:
    return RemoteFile((url,), "sha256", sha256(DATA).hexdigest()[:digits], size)


@pytest.mark.parametrize("size", [None, len(DATA)])
@pytest.mark.parametrize("with_length", [True, False])
def test_a_file_arrives_whole(
    size: int | None, with_length: bool, server: FileServer, tmp_path: Path
) -> None:
    server.with_length = with_length
    steps: list[tuple[int, int]] = []
    download(
        remote(server.url, size, 8), tmp_path / "file", DataError, lambda *step: steps.append(step)
    )
    assert (tmp_path / "file").read_bytes() == DATA
    assert steps[-1] == (len(DATA), len(DATA) if with_length or size else 0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_broke_off_is_resumed_also_where_the_size_is_unknown(
    server: FileServer, tmp_path: Path
) -> None:
    server.cut = 5000
    with pytest.raises(WeightsError, match="broke off") as caught:
        download(remote(server.url), tmp_path / "file", WeightsError)
    assert caught.value.subject == server.url
    assert partial(tmp_path / "file").stat().st_size == 5000
    server.cut = None
    download(remote(server.url), tmp_path / "file", WeightsError)
    assert server.asked == [None, "bytes=5000-"]
    assert (tmp_path / "file").read_bytes() == DATA


@pytest.mark.parametrize("with_length", [True, False])
def test_a_file_without_end_fills_no_disk(
    with_length: bool,
    server: FileServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.with_length = with_length
    monkeypatch.setattr(downloads, "MAX_DOWNLOAD_BYTES", 3000)
    monkeypatch.setattr(downloads, "DOWNLOAD_CHUNK_BYTES", 1000)
    steps: list[int] = []
    with pytest.raises(DataError):
        download(
            remote(server.url), tmp_path / "file", DataError, lambda done, _: steps.append(done)
        )
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


DOWNLOAD = """
import sys
from pathlib import Path
from cbcl.downloads import RemoteFile, download
from cbcl.errors import DataError
url, checksum, path = sys.argv[1:]
download(RemoteFile((url,), "sha256", checksum), Path(path), DataError)
"""


def start(url: str, path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", DOWNLOAD, url, remote(url).checksum, str(path)]
    return subprocess.Popen(command)


@pytest.mark.skipif(sys.platform == "win32", reason="there, an open file cannot be renamed")
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_downloads_of_one_file_at_once_do_not_disturb_each_other(
    kind: str, server: FileServer, tmp_path: Path
) -> None:
    """One goes on with what broke off, the others begin anew; each writes a file of its own."""
    partial(tmp_path / "file").write_bytes(DATA[:5000])
    server.together = threading.Barrier(3)
    if kind == "processes":
        processes = [start(server.url, tmp_path / "file") for _ in range(3)]
        assert [process.wait() for process in processes] == [0, 0, 0]
    else:
        with ThreadPoolExecutor(3) as pool:
            path = tmp_path / "file"
            jobs = [pool.submit(download, remote(server.url), path, DataError) for _ in range(3)]
        assert [job.result() for job in jobs] == [None, None, None]
    assert sorted(map(str, server.asked)) == ["None", "None", "bytes=5000-"]
    assert (tmp_path / "file").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_has_downloaded_is_gone_on_with(
    server: FileServer, tmp_path: Path
) -> None:
    server.together, server.with_length = threading.Barrier(2), False
    part = partial(tmp_path / "file")
    part.write_bytes(DATA[:5000])
    process = start(server.url, tmp_path / "file")
    until(lambda: len(server.asked) == 1, process)
    process.kill()
    process.wait()
    server.together.abort()
    server.together = None
    download(remote(server.url), tmp_path / "file", DataError)
    assert server.asked[1] is not None
    assert (tmp_path / "file").read_bytes() == DATA
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
