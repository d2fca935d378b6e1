"""The runtime for browsers: from a folder, an archive or npm; else a sentence."""

from __future__ import annotations

import io
import tarfile
from hashlib import sha512
from pathlib import Path

import pytest
from support.app import fake_runtime

from cbcl.errors import AppError
from cbcl.export import runtime
from cbcl.export.runtime import FILES, Runtime, load_runtime

FAKE = Runtime("1.2.3", b"script", b"loader", b"wasm")


def archive_of(folder: Path, path: Path, leave_out: str = "") -> Path:
    """The folder as npm packs it."""
    with tarfile.open(path, "w:gz") as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != leave_out:
                data = file.read_bytes()
                member = tarfile.TarInfo(f"package/{file.relative_to(folder).as_posix()}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An unpacked package; the cache is empty."""
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    return fake_runtime(tmp_path / "unpacked")


def fake_npm(tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    npm = tmp_path / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{npm.parent}:/usr/bin:/bin")


def test_it_is_read_from_a_folder_its_files_or_an_archive(package: Path, tmp_path: Path) -> None:
    assert load_runtime(str(package)) == FAKE
    assert load_runtime(str(package / "dist")) == FAKE
    assert load_runtime(str(archive_of(package, tmp_path / "any.tgz"))) == FAKE
    (package / "package.json").unlink()
    assert load_runtime(str(package)).version == "unknown"


def test_where_it_is_missing_a_sentence_says_how_to_get_it(package: Path, tmp_path: Path) -> None:
    advice = "give --runtime npm to fetch it now, or run `npm pack onnxruntime-web@"
    with pytest.raises(AppError, match=f"onnxruntime-web is needed .*: {advice}"):
        load_runtime(None)
    with pytest.raises(AppError, match=r"none\.tgz does not exist"):
        load_runtime(str(tmp_path / "none.tgz"))
    with pytest.raises(AppError, match=f"holds no package/dist/{FILES['wasm']}"):
        load_runtime(str(archive_of(package, tmp_path / "some.tgz", leave_out=FILES["wasm"])))
    (tmp_path / "text.tgz").write_text("not an archive")
    with pytest.raises(AppError, match="is not the archive of onnxruntime-web"):
        load_runtime(str(tmp_path / "text.tgz"))
    (package / "dist" / FILES["wasm"]).unlink()
    with pytest.raises(AppError, match=f"unpacked holds no {FILES['wasm']}"):
        load_runtime(str(package))


def test_npm_fetches_it_once_and_what_it_fetched_is_checked(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_of(package, tmp_path / "onnxruntime-web.tgz")
    fake_npm(tmp_path, f'echo "$@" >> {tmp_path}/asked\ncp {archive} "$5"', monkeypatch)
    with pytest.raises(AppError, match="is not the expected package: its SHA-512 differs"):
        load_runtime("npm")
    monkeypatch.setattr(runtime, "SHA512", sha512(archive.read_bytes()).hexdigest())
    assert load_runtime("npm") == FAKE
    assert load_runtime("npm") == FAKE
    assert load_runtime(None) == FAKE
    asked = (tmp_path / "asked").read_text().splitlines()
    assert len(asked) == 2  # once it was another, once it was kept
    assert asked[0].startswith("pack onnxruntime-web@1.30.0 --ignore-scripts ")


def test_without_a_network_or_npm_a_sentence_says_so(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert package.is_dir()
    fake_npm(tmp_path, "echo npm error no network >&2; exit 1", monkeypatch)
    with pytest.raises(AppError, match="cannot be fetched: npm error no network: run `npm pack"):
        load_runtime("npm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AppError, match="npm is not installed"):
        load_runtime("npm")
