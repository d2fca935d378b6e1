"""New photos of a folder, each when it is written whole."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TypeAlias

from cbcl.errors import PictureError, reason
from cbcl.vision.decoding import read
from cbcl.watch.frames import WatchedFrame, ticks
from cbcl.watch.problems import ProblemLog

FileVersion: TypeAlias = tuple[int, int, int]  # modified (ns), bytes, inode

MAX_MISSING = 10_000  # photos that are gone, and still known in case they come back


class PhotoFolder:
    """Photos that are put into a folder, or into folders in it; hidden files are none.

    A photo is new if its path is, or if it was written anew. It is whole when two polls in a row
    find it the same. Those that are there at first are not new, unless `existing` says so.
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
        """Yield new photos for ever; what cannot be read is told, and nothing ends the watch."""
        name = str(self._folder)
        for _ in ticks(self._every):
            try:
                photos = self.poll()
            except OSError as error:
                problem = PictureError(name, f"cannot be read ({reason(error)})", "waiting for it")
                self._problems.report(name, str(problem))
                continue
            self._problems.resolve(name)
            for photo in photos:
                try:
                    yield WatchedFrame(photo, read(photo))
                except PictureError as error:
                    self._problems.report(photo, str(error))

    def poll(self) -> list[str]:
        """Return the photos that are new and whole by now, the oldest first."""
        found = self._scan()
        new = {path: found[path] for path in found if self._handled.get(path) != found[path]}
        whole = {path: new[path] for path in new if self._pending.get(path) == new[path]}
        self._pending = new
        self._handled.update(whole)
        if len(self._handled) > len(found) + MAX_MISSING:
            self._handled = {path: self._handled[path] for path in self._handled if path in found}
        return sorted(whole, key=lambda path: (whole[path], path))

    def _scan(self) -> dict[str, FileVersion]:
        """Return the files with something in them, by path."""
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
                continue  # a folder in it, which is gone or not for us
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
    except OSError:  # gone meanwhile
        return None
    return (status.st_mtime_ns, status.st_size, status.st_ino) if is_written else None
