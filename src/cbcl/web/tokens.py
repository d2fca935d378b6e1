"""Access tokens of a server: one for all access, one to look only; kept from start to start."""

from __future__ import annotations

import hmac
import json
import os
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, TypeAlias

from cbcl.errors import ServerError, reason
from cbcl.files import access_folder, create_atomically, write_atomically

Role: TypeAlias = Literal["full", "view"]

TOKEN_BYTES = 24  # of randomness


class AccessTokens:
    """The two tokens of a memory, in a file that its owner alone can read."""

    def __init__(self, memory: Path) -> None:
        digest = sha256(os.fsencode(memory.resolve())).hexdigest()[:16]
        self._path = access_folder() / f"tokens-{digest}.json"
        self._read_at: tuple[int, int] | None = None
        self._tokens = new_tokens()
        self._write(create_atomically, self._tokens)
        if not self._reload():  # damaged
            self.renew()

    def current(self) -> dict[Role, str]:
        """Return the tokens that are valid now, by what they allow."""
        self._reload()  # another process may have renewed them
        return self._tokens

    def role(self, offered: str) -> Role | None:
        """Return what a token allows; the time that it takes tells nothing of the right one."""
        found: Role | None = None
        for role, token in self.current().items():
            if hmac.compare_digest(offered.encode(), token.encode()):
                found = role
        return found

    def renew(self) -> None:
        """Make new ones: whoever has the old ones is let in no more."""
        tokens = new_tokens()
        self._write(write_atomically, tokens, secret=True)
        self._tokens = tokens

    def _write(self, write: Callable[..., object], tokens: dict[Role, str], **options: Any) -> None:
        try:
            write(self._path, json.dumps(tokens).encode(), **options)
        except OSError as error:
            problem = f"cannot be written ({reason(error)})"
            raise ServerError(self._path, problem, "it keeps the access tokens") from error

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
        self._tokens = {"full": full, "view": view}
        self._read_at = written
        return True


def new_tokens() -> dict[Role, str]:
    return {"full": secrets.token_urlsafe(TOKEN_BYTES), "view": secrets.token_urlsafe(TOKEN_BYTES)}
