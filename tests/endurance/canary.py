"""A trap for code that a file brings along: calls, programs, other files, connections."""

from __future__ import annotations

import sys
from pathlib import Path

FORBIDDEN = (
    "pickle.find_class",  # the readers resolve names by tables of their own, not by importing
    "os.system",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "subprocess.Popen",
    "socket.connect",
    "socket.getaddrinfo",
)


SPRUNG: list[object] = []


def spring(*arguments: object) -> None:
    """Note a call: pickles name this function, and no reader may find it."""
    SPRUNG.append(arguments)


class Canary:
    """Notes what is done that no reader has to do, while it is set."""

    def __init__(self) -> None:
        self.sung: list[str] = []
        self._allowed: Path | None = None
        self._is_set = False
        sys.addaudithook(self._hear)  # for the rest of this process

    def set(self, allowed: Path) -> None:
        """Begin to listen; files may be opened in one folder."""
        self._allowed, self._is_set = allowed, True

    def check(self) -> None:
        """Stop listening, and raise an error if anything was heard."""
        self._is_set = False
        heard, self.sung = [*self.sung, *map(str, SPRUNG)], []
        SPRUNG.clear()
        if heard:
            raise AssertionError(f"the file made the program do this: {'; '.join(heard)}")

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if not self._is_set:
            return
        if event in FORBIDDEN:
            self.sung.append(f"{event}{arguments}"[:200])
        elif event == "open" and isinstance(arguments[0], str | bytes | Path):
            path = Path(arguments[0].decode() if isinstance(arguments[0], bytes) else arguments[0])
            is_allowed = self._allowed is not None and path.is_relative_to(self._allowed)
            # What is imported late, plugins that are looked for, libraries that look for others.
            is_import = path.suffix in (".py", ".pyc", ".so") or str(path) in sys.path
            is_import |= path.name == "entry_points.txt" or path == Path("/proc/self/maps")
            if not is_allowed and not is_import:
                self.sung.append(f"open {path}")
