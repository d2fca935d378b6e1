"""Write the locks of CI: exact versions and SHA-256 of all that its main legs install.

    python .ci/lock.py [PYTHON ...]
    python .ci/lock.py --name

A lock is of one Python on one kind of machine; each interpreter given writes its own. pip chooses
the versions, and its index tells the hashes of every wheel of them that such a machine may use;
what is not in the index has the hash of the file that pip would install. `--name` prints the name
of the lock of the Python that runs this.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / ".ci" / "locks"
WANTED = (".[dev,docs]", "./study", "build", "setuptools")
LINK = re.compile(r'href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def read(python: str, *words: str) -> str:
    environment = {**os.environ, "COLUMNS": "1000"}
    command = [python, *words]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    ).stdout


def index_of(python: str) -> str:
    """Return the address of the index that pip is set to use."""
    text = read(python, "-m", "pip", "install", "--help")
    [index] = re.findall(r"Package Index \(default (\S+)\)", text)
    return str(index).rstrip("/")


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def choose(python: str) -> dict[str, dict[str, Any]]:
    """Let pip resolve what is wanted, by name; our own two, which are folders, are left out."""
    options = ("--quiet", "--dry-run", "--ignore-installed", "--report", "-")
    report = json.loads(read(python, "-m", "pip", "install", *options, *WANTED))
    return {
        canonical(item["metadata"]["name"]): item
        for item in report["install"]
        if "archive_info" in item["download_info"]
    }


def listed(index: str, name: str) -> dict[str, str]:
    """Return the SHA-256 of every file that the index has of a package."""
    try:
        with urlopen(f"{index}/{name}/", timeout=60) as page:
            links = LINK.findall(page.read().decode())
    except HTTPError as error:
        if error.code != 404:
            raise
        return {}
    return {unquote(file): digest for file, digest in links}


def fits(file: str, version: str, platform: str, python: str) -> bool:
    """Tell by its name whether a file is a wheel of a version for this Python and machine."""
    if not file.endswith(".whl"):
        return False
    _, of_version, *_, pythons, abis, platforms = file.removesuffix(".whl").split("-")
    for_python = {"py3", f"cp{python.replace('.', '')}"} & {*pythons.split(".")} or "abi3" in abis
    system, machine = platform.split("-", 1)
    for_machine = platforms == "any" or (system in platforms and machine in platforms)
    return of_version == version and bool(for_python) and for_machine


def lock(python: str) -> Path:
    name = read(python, __file__, "--name").strip()
    platform, version = name.rsplit("-", 1)
    index = index_of(python)
    lines = ["# Written by .ci/lock.py: see CONTRIBUTING.md."]
    for package, item in sorted(choose(python).items()):
        release, source = item["metadata"]["version"], item["download_info"]
        files = listed(index, package)
        digests = {files[file] for file in files if fits(file, release, platform, version)}
        digests.add(source["archive_info"]["hashes"]["sha256"])
        hashes = (f"    --hash=sha256:{digest}" for digest in sorted(digests))
        lines.append(" \\\n".join([f"{package}=={release}", *hashes]))
    path = LOCKS / f"{name}.txt"
    LOCKS.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> None:
    if sys.argv[1:] == ["--name"]:
        print(sysconfig.get_platform(), f"{sys.version_info[0]}.{sys.version_info[1]}", sep="-")
        return
    for python in sys.argv[1:] or [sys.executable]:
        path = lock(python)
        print(f"{path.relative_to(ROOT)}: {path.read_text().count('==')} packages")


if __name__ == "__main__":
    main()
