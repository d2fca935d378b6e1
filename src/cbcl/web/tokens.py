"""Access tokens of a server: one for all access, one to look only; kept from start to start."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from hashlib import sha256
from pathlib import Path
from typing import Literal, TypeAlias

from cbcl.errors import ServerError, reason
from cbcl.files import create_atomically, write_atomically
from cbcl.folders import access_folder

Role: TypeAlias = Literal["full", "view"]

TOKEN_BYTES = 24  # of randomness


class AccessTokens:
    """The two tokens of a server."""

    def __init__(self, full: str, view: str) -> None:
        self._full, self._view = full, view

    def current(self) -> dict[Role, str]:
        """Return the tokens that are valid now, by what they allow."""
        return {"full": self._full, "view": self._view}

    def role(self, offered: str) -> Role | None:
        """Return what a token allows; the time that it takes tells nothing of the right one."""
        found: Role | None = None
        for role, token in self.current().items():
            if hmac.compare_digest(offered.encode(), token.encode()):
                found = role
        return found

    def renew(self) -> None:
        """Make new ones: whoever has the old ones is let in no more."""
        self._keep(_new_token(), _new_token())

    def _keep(self, full: str, view: str) -> None:
        self._full, self._view = full, view


class KeptTokens(AccessTokens):
    """The tokens of a memory, in a file that its owner alone can read."""

    def __init__(self, memory: Path) -> None:
        digest = sha256(os.fsencode(memory.resolve())).hexdigest()[:16]
        self._path = access_folder() / f"tokens-{digest}.json"
        self._read_at: tuple[int, int] | None = None
        super().__init__(_new_token(), _new_token())
        try:
            create_atomically(self._path, _as_json(self._full, self._view))
        except OSError as error:
            raise self._error(error) from error
        if not self._reload():  # damaged
            self.renew()

    def current(self) -> dict[Role, str]:
        self._reload()  # another process may have renewed them
        return super().current()

    def _keep(self, full: str, view: str) -> None:
        try:
            write_atomically(self._path, _as_json(full, view), secret=True)
        except OSError as error:
            raise self._error(error) from error
        super()._keep(full, view)

    def _error(self, error: OSError) -> ServerError:
        problem = f"cannot be written ({reason(error)})"
        return ServerError(self._path, problem, "it keeps the access tokens")

    def _reload(self) -> bool:
        """Read the file if it has changed; return False if it cannot be read as tokens."""
        try:
            status = self._path.stat()
            if (written := (status.st_ino, status.st_mtime_ns)) == self._read_at:
                return True
            kept = json.loads(self._path.read_bytes())
            full, view = str(kept["full"]), str(kept["view"])
        except (OSError, ValueError, LookupError, TypeError):
            return False
        if min(len(full), len(view)) < TOKEN_BYTES or full == view:
            return False
        self._full, self._view, self._read_at = full, view, written
        return True


def _as_json(full: str, view: str) -> bytes:
    return json.dumps({"full": full, "view": view}).encode()


def _new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)
