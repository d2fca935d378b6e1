"""The dependencies: their table, their audit, and the locks of CI."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.metadata import Distribution
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STUDY = tomllib.loads((ROOT / "study" / "pyproject.toml").read_text())["project"]
VULNERABILITIES = {
    "old": [{"id": "CVE-1"}, {"id": "CVE-2", "withdrawn": "2020-01-01"}],
    "new": [],
    "better": [{"id": "CVE-3", "withdrawn": "2020-01-01"}],
}


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT / ".ci")
    yield import_module("audit")
    for name in ("audit", "lock"):
        del sys.modules[name]


@pytest.fixture
def index() -> Iterator[str]:
    """An index that tells of three packages, and of no other."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.split("/")[2]
            known = name in VULNERABILITIES
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(json.dumps({"vulnerabilities": VULNERABILITIES.get(name)}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/simple"
        server.shutdown()


def installed(folder: Path, name: str, *lines: str) -> Distribution:
    """Make the metadata of an installed package."""
    place = folder / f"{name}-1.0.dist-info"
    place.mkdir()
    (place / "METADATA").write_text("\n".join([f"Name: {name}", "Version: 1.0", *lines, ""]))
    return Distribution.at(place)


def test_the_table_has_every_dependency_with_its_versions() -> None:
    groups = {"": PROJECT["dependencies"], "cbcl-study": STUDY["dependencies"]}
    groups |= PROJECT["optional-dependencies"]
    asked = {
        (re.sub(r"\[.*\]", "", line), extra)
        for extra, lines in groups.items()
        for line in lines
        if not line.startswith("cbcl")
    }
    rows = re.findall(
        r"^\| `([\w-]+)` \| `([^`]+)` \| ([^|]*)\|",
        (ROOT / "docs" / "dependencies.md").read_text(),
        flags=re.MULTILINE,
    )
    table = {
        (name + versions, extra)
        for name, versions, extras in rows
        for extra in re.findall(r"`([\w-]+)`", extras) or [""]
    }
    assert table == asked


@pytest.mark.parametrize("path", sorted((ROOT / ".ci" / "locks").iterdir()), ids=lambda p: p.stem)
def test_a_lock_has_every_dependency_and_a_hash_of_each(path: Path) -> None:
    text = path.read_text()
    entries = re.findall(r"^([\w.-]+)==\S+((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.M)
    locked = {name for name, _ in entries}
    extras = PROJECT["optional-dependencies"]
    lines = [
        line for name in ("demo", "heic", "mqtt", "web", "docs", "dev") for line in extras[name]
    ]
    lines += [*PROJECT["dependencies"], *STUDY["dependencies"]]
    assert {re.split(r"[>=\[]", line)[0] for line in lines} - {"cbcl"} <= locked
    assert text.count("==") == len(locked)


def test_licences_that_are_not_allowed_are_told(audit: ModuleType, tmp_path: Path) -> None:
    packages = [
        installed(tmp_path, "cbcl", "License-Expression: MIT", "Requires-Dist: needed"),
        installed(tmp_path, "needed", "License-Expression: MIT AND MPL-2.0"),
        installed(
            tmp_path, "tool", "Classifier: License :: OSI Approved :: Apache Software License"
        ),
        installed(tmp_path, "silent", "License: UNKNOWN"),
        installed(tmp_path, "paho-mqtt", "License-Expression: EPL-2.0 OR BSD-3-Clause"),
        installed(tmp_path, "copyleft", "License: GPL-3.0-only"),
        installed(tmp_path, "pi-heif", "License-Expression: LGPL-3.0-only"),
        installed(tmp_path, "lesser", "License: LGPL-3.0-only"),
        installed(tmp_path, "rich", "License: MPL-2.0"),
    ]
    found = audit.check_licences({package.name: package for package in packages})
    assert found == [
        "copyleft 1.0 has GPL-3.0-only",
        "lesser 1.0 has LGPL-3.0-only",
        "needed 1.0 has MPL-2.0",
        "silent 1.0 has no licence that is known",
        "dependencies.md says MIT of rich, which says {'MPL-2.0'}",
    ]


def test_vulnerabilities_are_told_and_so_is_silence(audit: ModuleType, index: str) -> None:
    versions = dict.fromkeys([*VULNERABILITIES, "unheard"], "1.0")
    known, silent = audit.check_vulnerabilities(index, versions)
    assert known == ["old 1.0: CVE-1"]
    assert silent == ["unheard 1.0 (HTTPError)"]


def test_where_no_index_answers_nothing_is_checked(audit: ModuleType) -> None:
    known, silent = audit.check_vulnerabilities("http://127.0.0.1:1/simple", {"a": "1", "b": "2"})
    assert not known
    assert silent == ["a 1", "b 2"]
