"""Requests to an http address; messages hide its user, password and query."""

from __future__ import annotations

from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import (
    HTTPBasicAuthHandler,
    HTTPDigestAuthHandler,
    HTTPPasswordMgrWithDefaultRealm,
    ProxyHandler,
    Request,
    build_opener,
)

from cbcl.errors import ServerError, reason

TIMEOUT_SECONDS = 10.0


class HttpAddress:
    """An address of http or https, which may contain a user and a password.

    >>> HttpAddress("http://ann:secret@camera.lan/snapshot.jpg?key=7").name
    'http://camera.lan/snapshot.jpg'
    """

    def __init__(
        self,
        url: str,
        subject: str = "the address",
        example: str = "http://127.0.0.1:5000/api/door/latest.jpg",
    ) -> None:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
            _ = parts.port  # raises a ValueError if it is not a number
        except ValueError:
            is_address = False
        if not is_address:
            raise ServerError(subject, "is not one of http or https", f"give one such as {example}")
        place = parts.netloc.rpartition("@")[2]
        self.path = parts.path
        self.name = f"{parts.scheme}://{place}{parts.path}"
        self._url = parts._replace(netloc=place, fragment="").geturl()
        passwords = HTTPPasswordMgrWithDefaultRealm()
        if parts.username is not None:
            user = unquote(parts.username)
            password = unquote(parts.password or "")
            passwords.add_password(None, f"{parts.scheme}://{place}/", user, password)
        # Proxies of the environment are ignored: they do not know machines nearby.
        self._opener = build_opener(
            ProxyHandler({}), HTTPBasicAuthHandler(passwords), HTTPDigestAuthHandler(passwords)
        )

    def request(
        self, target: str = "", *, json: bytes | None = None, limit: int = 1_000_000
    ) -> bytes:
        """Return the answer, of at most `limit` bytes; with `json`, post that.

        `target` is another path and query on the same server.
        """
        headers = {"User-Agent": "cbcl"}
        if json is not None:
            headers["Content-Type"] = "application/json"
        request = Request(urljoin(self._url, target), data=json, headers=headers)
        try:
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
                if answer.headers.get_content_maintype() == "multipart":  # without an end
                    advice = "give the address of single pictures"
                    raise ServerError(self.name, "is a stream", advice)
                data: bytes = answer.read(limit + 1)
        except HTTPError as error:
            with error:
                raise ServerError(self.name, f"answers {error.code} {error.reason}") from None
        except (OSError, HTTPException, ValueError) as error:
            cause = getattr(error, "reason", error)  # a URLError has one
            problem = reason(cause) if isinstance(cause, Exception) else cause
            raise ServerError(self.name, f"does not answer ({problem})") from error
        if len(data) > limit:
            megabytes = limit // 1_000_000
            raise ServerError(self.name, f"answers more than {megabytes} MB")
        return data
