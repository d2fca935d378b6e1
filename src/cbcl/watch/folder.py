"""New photos in a folder, each once it is completely written."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeAlias

from cbcl.errors import PictureError, reason
from cbcl.vision.decoding import read
from cbcl.watch.frames import ProblemLog, WatchedFrame, ticks

FileVersion: TypeAlias = tuple[int, int, int]  # modified (ns), bytes, inode

MAX_MISSING = 10_000  # deleted photos that are remembered in case they come back


class PhotoFolder:
    """Photos put into a folder, or into folders in it; hidden files are left out.

    A photo is new if its path is new or its file was rewritten. It is complete when two polls in a
    row find it unchanged. Photos that are there at the start count as new with `existing` only.
    """

    def __init__(
        self,
        folder: Path,
        problems: ProblemLog,
        *,
        every: float = 1.0,
        existing: bool = False,
        leave_out: Collection[Path] = (),
    ) -> None:
        self._folder = folder.resolve()
        self._problems = problems
        self._every = every
        self._leave_out = {str(path.resolve()) for path in leave_out}
        self._pending: dict[str, FileVersion] = {}
        try:
            found = self._scan()
        except OSError as error:
            raise PictureError(folder, f"is not a folder to watch ({reason(error)})") from error
        self._handled = {} if existing else found

    def frames(self) -> Iterator[WatchedFrame]:
        """Yield new photos for ever; report what cannot be read, and go on."""
        name = str(self._folder)
        for _ in ticks(self._every):
            try:
                photos = self.poll()
            except OSError as error:
                problem = PictureError(name, f"cannot be read ({reason(error)})", "waiting for it")
                self._problems.report(name, problem)
                continue
            self._problems.resolve(name)
            for photo in photos:
                try:
                    yield WatchedFrame(photo, read(photo))
                except PictureError as error:
                    self._problems.report(photo, error)

    def poll(self) -> list[str]:
        """Return the photos that are new and complete by now, the oldest first."""
        found = self._scan()
        new = dict(found.items() - self._handled.items())
        complete = dict(new.items() & self._pending.items())
        self._pending = new
        self._handled.update(complete)
        if len(self._handled) > len(found) + MAX_MISSING:
            self._handled = {path: self._handled[path] for path in self._handled.keys() & found}
        return sorted(complete, key=lambda path: (complete[path], path))

    def _scan(self) -> dict[str, FileVersion]:
        """Return the versions of all files that are not empty, by path."""
        files: dict[str, FileVersion] = {}
        folders = [str(self._folder)]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    visible = [entry for entry in entries if not entry.name.startswith(".")]
            except OSError:
                if folder == str(self._folder):
                    raise
                continue  # an inner folder that is gone or not readable
            for entry in visible:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.path not in self._leave_out and (version := _version(entry)):
                    files[entry.path] = version
        return files


def _version(entry: os.DirEntry[str]) -> FileVersion | None:
    try:
        status = entry.stat()
        is_written = entry.is_file() and status.st_size > 0
    except OSError:  # deleted meanwhile
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if is_written else None
