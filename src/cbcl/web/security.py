"""Who may come in, and under which rules: hosts, origins, the token; and the headers that every answer carries."""

from __future__ import annotations

import asyncio
import hmac
import re
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbcl.web.errors import RequestRefused, unexpected
from cbcl.web.metrics import Metrics
from cbcl.web.rate_limit import (
    AT_ONCE,
    BURST,
    PICTURE_REQUESTS,
    RATE,
    WRONG_BURST,
    WRONG_RATE,
    RateLimiter,
    is_loopback,
)
from cbcl.web.request_body import Bodies, Body

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:; "
        "connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self)",
}
SAFE = {"GET", "HEAD", "OPTIONS"}
ENDLESS = "/api/events"  # what has no end has no head either
HOST = re.compile(r"(\[[^\[\]]*\]|[^\[\]:@]*)(?::[0-9]*)?")  # a name or an address, and a port
LOCKED = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>cbcl</title>
<h1>This page needs its token</h1>
<p>Open the whole address that <code>cbcl teach</code> printed, or scan the code below it.
After a restart it is a new one.
</html>
"""


@dataclass(frozen=True)
class AccessPolicy:
    """To whom a server opens."""

    token: str | None = None  # None: to this machine only, by its own names
    cookie: str = "cbcl"  # its name; cookies know no ports, so each server has another
    secure: bool = False  # served over TLS
    name: str = "localhost"  # a name that the server was told to have, beside this machine's own


class SecurityMiddleware:
    """Lets a request in, or answers it."""

    def __init__(self, app: ASGIApp, door: AccessPolicy, metrics: Metrics, bodies: Bodies) -> None:
        self._app, self._door, self._metrics, self._bodies = app, door, metrics, bodies
        self._pictures, self._wrong = RateLimiter(RATE, BURST), RateLimiter(WRONG_RATE, WRONG_BURST)
        self._at_once = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = Body(scope, receive, self._bodies)
        begun, head = False, scope["method"] == "HEAD"

        async def sent(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                await body.hear_out()
                _dress(message, scope["path"])
            await send({**message, "body": b""} if head and "body" in message else message)

        answer = self._answer(scope, body)
        if answer is not None:
            await answer(scope, body.receive, sent)
            return
        self._at_once += 1
        asked = {**scope, "method": "GET"} if head and scope["path"] != ENDLESS else scope
        try:
            await self._app(asked, body.receive, sent)
        except ClientDisconnect:  # nobody is left to be answered
            pass
        except asyncio.CancelledError:  # the server stops, and waits no longer
            if not begun:
                await _stopped().response()(scope, receive, sent)
        except Exception:
            if not begun:
                await unexpected().response()(scope, receive, sent)
            raise  # for the log
        finally:
            self._at_once -= 1
            body.release()
            if "route" in asked:
                scope["route"] = asked["route"]  # for the log

    def _answer(self, scope: Scope, body: Body) -> Response | None:
        """What to answer in place of the application; None: it may answer."""
        headers = Headers(scope=scope)
        try:
            _check_host(headers, self._door)
            entered = self._check_token(scope, headers)
            _check_origin(scope, headers)
            body.check()
            self._check_rate(scope)
        except RequestRefused as refusal:
            self._metrics.refused(refusal.kind)
            if (
                refusal.kind == "token"
                and scope["path"] == "/"
                and "text/html" in headers.get("accept", "")
            ):
                return HTMLResponse(LOCKED, 401)
            return refusal.response()
        return entered

    def _check_token(self, scope: Scope, headers: Headers) -> Response | None:
        """Whether who asks has the token; who brings it in the address gets it as a cookie, and a plain address."""
        token = self._door.token
        asked = (
            parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
            if scope["path"] == "/"
            else []
        )
        if token is None:
            return RedirectResponse("/", 303) if asked else None
        kind, _, given = headers.get("authorization", "").partition(" ")
        cookie = cookie_parser(headers.get("cookie", "")).get(self._door.cookie)
        offered = [
            *asked,
            *([given.strip()] if kind.lower() == "bearer" else []),
            *([cookie] if cookie else []),
        ]
        if not any(hmac.compare_digest(one.encode(), token.encode()) for one in offered):
            if offered:
                self._wrong.take(_client(scope), "too many wrong tokens")
            raise RequestRefused(
                "token",
                "this server needs its token: open the whole address that `cbcl teach` printed.",
            )
        if not asked:
            return None
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._door.cookie,
            token,
            httponly=True,
            samesite="strict",
            secure=self._door.secure,
            path="/",
        )
        return answer

    def _check_rate(self, scope: Scope) -> None:
        if self._at_once >= AT_ONCE:
            raise RequestRefused(
                "busy", "too many are asking at once: try again in 1 s.", retry_after=1
            )
        if (
            scope["method"] == "POST"
            and scope["path"] in PICTURE_REQUESTS
            and not is_loopback(_client(scope))
        ):
            self._pictures.take(
                _client(scope), f"more than {RATE:.0f} requests with pictures a second"
            )


def _client(scope: Scope) -> str:
    return scope["client"][0] if scope.get("client") else ""


def _stopped() -> RequestRefused:
    return RequestRefused(
        "busy",
        "the server stops, and did not finish this in time: ask what came of it.",
        retry_after=5,
    )


def _check_host(headers: Headers, door: AccessPolicy) -> None:
    """A page elsewhere may make a browser believe that its name is this machine's; then the name is not ours."""
    found = HOST.fullmatch(headers.get("host", ""))
    name = found[1] if found else ""
    if door.token is None and not is_loopback(name) and name.lower() != door.name.lower():
        raise RequestRefused(
            "origin", "this server answers to this machine's own names only, such as localhost."
        )


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Other sites, open in the same browser, may not use what this one's page may."""
    safe = scope["method"] in SAFE
    follows_link = safe and headers.get("sec-fetch-mode") == "navigate"
    used = not safe or scope["path"].startswith("/api")
    from_elsewhere = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    foreign = not safe and headers.get("origin", own).lower() != own.lower()
    if foreign or (from_elsewhere and used and not follows_link):
        raise RequestRefused("origin", "this request comes from another site, and is not done.")


def _dress(message: Message, path: str) -> None:
    headers = MutableHeaders(raw=message["headers"])
    for name, value in HEADERS.items():
        headers[name] = value
    if path.startswith("/api") or path == "/metrics" or message["status"] >= 300:
        headers.setdefault("Cache-Control", "no-store")
    else:
        headers.setdefault("Cache-Control", "no-cache")
    message["headers"] = headers.raw
