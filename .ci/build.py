"""Build the sdist and from it the wheel, the same bytes from the same commit: `build.py FOLDER`.

The time is that of the commit, the rights and owners of files are fixed, and no path of this
machine is in the compiled kernel. The tools are those that pip installs: with CI's lock, always the
same. A wheel is the same where the compiler is.
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


def build(kind: str, source: Path, out: Path, environment: dict[str, str]) -> Path:
    command = [sys.executable, "-m", "build", f"--{kind}", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    [path] = out.iterdir()
    return path


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    os.umask(0o022)
    seconds = int(git("log", "-1", "--format=%ct"))
    with TemporaryDirectory() as name:
        place = Path(name).resolve()
        flags = f"{os.environ.get('CFLAGS', '')} -ffile-prefix-map={place}=."
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "CFLAGS": flags.strip()}
        copy_tracked(place / "tree")
        made = build("sdist", place / "tree", place / "sdist", environment)
        sdist = out / made.name
        normalize(made, sdist, seconds)
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        source = place / sdist.name.removesuffix(".tar.gz")
        wheel = out / build("wheel", source, place / "wheel", environment).name
        shutil.copyfile(place / "wheel" / wheel.name, wheel)
    for path in (sdist, wheel):
        print(f"{sha256(path.read_bytes()).hexdigest()}  {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
