"""Build an sdist, and from it a wheel, of cbcl and of cbcl-study: `build.py FOLDER`.

The same commit gives the same bytes: the time is that of the commit, the rights and owners of files
are fixed, and no path of this machine is in the compiled kernel. The tools are those that pip
installs: with CI's lock, always the same. A wheel is the same where the compiler is.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
PROJECTS = (".", "study")  # folders with a pyproject.toml; the licence of the first is that of all


def git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ).stdout


def copy_tracked(folder: Path) -> None:
    """Copy the files that git knows, with rights that depend on nobody's umask."""
    for name in git("ls-files", "-z").split("\0")[:-1]:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(0o755 if os.access(ROOT / name, os.X_OK) else 0o644)


def normalize(sdist: Path, target: Path, seconds: int) -> None:
    """Pack an sdist again: its files in the order of their names, of nobody, of one time."""
    tar = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=tar, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = seconds
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    target.write_bytes(gzip.compress(tar.getvalue(), mtime=0))


def build(kind: str, source: Path, environment: dict[str, str]) -> Path:
    out = source / kind
    command = [sys.executable, "-m", "build", f"--{kind}", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    [path] = out.iterdir()
    return path


def build_both(project: Path, out: Path, seconds: int, environment: dict[str, str]) -> None:
    """Build the sdist of a project and, from it, its wheel; print their SHA-256."""
    made = build("sdist", project, environment)
    sdist = out / made.name
    normalize(made, sdist, seconds)
    with tarfile.open(sdist) as archive:
        archive.extractall(made.parent, filter="data")
    source = made.parent / sdist.name.removesuffix(".tar.gz")
    wheel = shutil.copy(build("wheel", source, environment), out)
    for path in (sdist, Path(wheel)):
        print(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}")


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    seconds = int(git("log", "-1", "--format=%ct"))
    with TemporaryDirectory() as name:
        place = Path(name).resolve()
        flags = f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={place}=."
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "CFLAGS": flags.strip()}
        copy_tracked(place)
        for project in PROJECTS:
            if project != ".":
                shutil.copyfile(place / "LICENSE", place / project / "LICENSE")
            build_both(place / project, out, seconds, environment)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
