"""ONNX Runtime for browsers: three files of the npm package onnxruntime-web, given or fetched."""

from __future__ import annotations

import json
import subprocess
import tarfile
from hashlib import sha512
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import NamedTuple

from cbcl.errors import AppError, first_line, reason
from cbcl.files import cache_folder, write_atomically

PACKAGE = "onnxruntime-web"
VERSION = "1.30.0"  # the version that the tests run
SHA512 = (
    "ab4cbe26baedba45d2cec05610c71c55fa97db92d19a8b171c5f8269126683ca"
    "590a5cdc57bb2f35ce2b298de32f4d956fb42644c0ecd528a0a91e025c07ca61"
)
BY_NPM = "npm"  # a source instead of a path
MAX_FILE_BYTES = 100_000_000
FETCHING_SECONDS = 600.0
BY_HAND = (
    f"run `npm pack {PACKAGE}@{VERSION}` where there is a network and give the file with --runtime"
)
HOW_TO_GET = f"give --runtime {BY_NPM} to fetch it now, or {BY_HAND}"


class Runtime(NamedTuple):
    """Version and files of the runtime."""

    version: str
    script: bytes
    loader: bytes
    wasm: bytes


FILES = {
    "script": "ort.wasm.min.mjs",
    "loader": "ort-wasm-simd-threaded.mjs",
    "wasm": "ort-wasm-simd-threaded.wasm",
}


def load_runtime(source: str | None) -> Runtime:
    """Return the runtime from a folder or archive, or by npm; None: the one fetched before."""
    kept = cache_folder() / f"{PACKAGE}-{VERSION}.tgz"
    if source == BY_NPM and not kept.exists():
        _fetch(kept)
    if source in (None, BY_NPM):
        if not kept.exists():
            raise AppError(PACKAGE, "is needed to run in a browser", HOW_TO_GET)
        return _read_archive(kept)
    path = Path(str(source))
    if not path.exists():
        raise AppError(path, "does not exist", HOW_TO_GET)
    return _read_folder(path) if path.is_dir() else _read_archive(path)


def _fetch(path: Path) -> None:
    """Fetch the package by npm, with the user's settings, and check it."""
    npm = which("npm")
    if npm is None:
        raise AppError("npm", "is not installed", BY_HAND)
    with TemporaryDirectory() as folder:
        name = f"{PACKAGE}@{VERSION}"
        command = [npm, "pack", name, "--ignore-scripts", "--pack-destination", folder]
        try:
            subprocess.run(
                command,
                check=True,
                capture_output=True,
                text=True,
                timeout=FETCHING_SECONDS,
                cwd=folder,
            )
            (archive,) = Path(folder).glob("*.tgz")
            data = archive.read_bytes()
        except subprocess.CalledProcessError as error:
            problem = f"cannot be fetched: {_last_line(error.stderr)}"
            raise AppError(name, problem, BY_HAND) from None
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            problem = f"cannot be fetched: {first_line(error)}"
            raise AppError(name, problem, BY_HAND) from error
    if sha512(data).hexdigest() != SHA512:
        problem = "is not the expected package: its SHA-512 differs"
        raise AppError(name, problem, "try again, or from another network")
    try:
        write_atomically(path, data)
    except OSError as error:
        raise AppError(path, f"cannot be written: {reason(error)}") from error


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "npm failed"


def _read_folder(folder: Path) -> Runtime:
    """Read an unpacked or installed package, or the folder of its files."""
    places = [folder, folder / "dist", folder / "package" / "dist"]
    places.append(folder / "node_modules" / PACKAGE / "dist")
    for place in places:
        if (place / FILES["wasm"]).is_file():
            try:
                parts = {part: (place / name).read_bytes() for part, name in FILES.items()}
                about = place.parent / "package.json"
                version = _version(about.read_bytes()) if about.is_file() else "unknown"
            except OSError as error:
                raise AppError(folder, f"cannot be read: {reason(error)}") from error
            return Runtime(version, **parts)
    raise AppError(folder, f"holds no {FILES['wasm']}", HOW_TO_GET)


def _read_archive(path: Path) -> Runtime:
    """Read the needed files of an archive that npm packed."""
    try:
        with tarfile.open(path, "r:gz") as archive:
            parts = {
                part: _member(archive, f"package/dist/{name}", path) for part, name in FILES.items()
            }
            about = _member(archive, "package/package.json", path)
    except (OSError, EOFError, tarfile.TarError) as error:
        problem = f"is not the archive of {PACKAGE}: {first_line(error)}"
        raise AppError(path, problem, HOW_TO_GET) from error
    return Runtime(_version(about), **parts)


def _member(archive: tarfile.TarFile, name: str, path: Path) -> bytes:
    try:
        member = archive.getmember(name)
    except KeyError:
        raise AppError(path, f"holds no {name}", HOW_TO_GET) from None
    file = archive.extractfile(member) if member.size <= MAX_FILE_BYTES else None
    if file is None:
        raise AppError(path, f"holds a {name} that is not its file", HOW_TO_GET)
    return file.read()


def _version(about: bytes) -> str:
    try:
        version = json.loads(about)["version"]
    except (KeyError, TypeError, ValueError):
        return "unknown"
    return str(version)
