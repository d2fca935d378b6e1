"""Access control: hosts, origins, the access token, rates; security headers on every answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbcl.web.connections import client_address, is_loopback
from cbcl.web.errors import ApiError
from cbcl.web.events import EVENTS_PATH
from cbcl.web.limits import SAFE_METHODS, Capacity, RateLimiter, RouteLimits, RouteTable
from cbcl.web.monitoring import Metrics
from cbcl.web.request_body import BodyRegistry, RequestBody
from cbcl.web.tls import ServerCertificate
from cbcl.web.tokens import AccessTokens, Role

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
        "media-src 'self' blob:; connect-src 'self'; manifest-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self)",
}
COOKIE_SECONDS = 400 * 24 * 3600  # the longest that browsers keep one
PICTURE_RATE, PICTURE_BURST = 30.0, 60.0  # requests of one address, a second and at once
WRONG_TOKEN_RATE, WRONG_TOKEN_BURST = 1 / 3, 20.0
MAX_CONCURRENT_REQUESTS = 256  # event streams are counted by themselves
MAX_STREAMS = 64
PICTURE_RATE_MESSAGE = f"more than {PICTURE_RATE:.0f} requests with pictures a second"
ACCESS_KEY = "cbcl.access"  # of a request's Access in its scope
HOST_HEADER = re.compile(r"(\[[^\[\]]*\]|[^\[\]:@]*)(?::[0-9]*)?")  # a name or an address, a port
TOKEN_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>cbcl</title>
<h1>This page needs its token</h1>
<p>Open the whole address that <code>cbcl teach</code> printed, or scan the code below it.
The page shows the code, too: in its menu, &ldquo;Open on a phone&rdquo;.
If you could open it before, somebody has made new tokens since.
</html>
"""


@dataclass(frozen=True)
class AccessPolicy:
    """Who may use a server, and how they get there."""

    tokens: AccessTokens | None = None  # None: this machine only, and only by its own names
    cookie: str = "cbcl"  # its name; cookies ignore ports, so each server has another
    secure: bool = False  # served over TLS
    name: str = "localhost"  # a host name that is accepted beside this machine's own
    link: Callable[[str], str] = "/?token={}".format  # the address to open, with a token
    certificate: Callable[[], ServerCertificate | None] = lambda: None


@dataclass(frozen=True)
class Access:
    """The rights of a request, by the token that came with it."""

    role: Role = "full"
    token: str = ""
    tokens: AccessTokens | None = None

    def is_valid(self) -> bool:
        """Tell whether the token is still one of the server's."""
        return self.tokens is None or self.tokens.role(self.token) == self.role


def access_of(scope: Scope) -> Access:
    """Return what a request may do."""
    access: Access = scope.get(ACCESS_KEY) or Access()
    return access


def set_token_cookie(response: Response, policy: AccessPolicy, token: str) -> None:
    """Let a browser keep a token; no script can read it."""
    response.set_cookie(
        policy.cookie,
        token,
        max_age=COOKIE_SECONDS,
        path="/",
        secure=policy.secure,
        httponly=True,
        samesite="strict",
    )


class _Responder:
    """Sends an answer with security headers, once the body was read; to HEAD without content."""

    def __init__(self, scope: Scope, body: RequestBody, send: Send) -> None:
        self._scope, self._body, self._send = scope, body, send
        self._begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._begun = True
            await self._body.drain()
            _set_headers(message, self._scope["path"])
        elif self._scope["method"] == "HEAD":
            message = {**message, "body": b""}
        await self._send(message)

    async def refuse(self, error: ApiError) -> None:
        """Answer with an error, unless an answer has begun."""
        if not self._begun:
            await error.response()(self._scope, self._body.receive, self.send)


class SecurityMiddleware:
    """Checks a request before the application sees it, and completes its answer."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        metrics: Metrics,
        bodies: BodyRegistry,
        routes: RouteTable,
    ) -> None:
        self._app, self._policy, self._metrics = app, policy, metrics
        self._bodies, self._routes = bodies, routes
        self._pictures = RateLimiter(PICTURE_RATE, PICTURE_BURST)
        self._wrong_tokens = RateLimiter(WRONG_TOKEN_RATE, WRONG_TOKEN_BURST)
        self._requests = Capacity(
            MAX_CONCURRENT_REQUESTS, "too many requests at once", retry_after=1
        )
        self._streams = Capacity(MAX_STREAMS, "too many pages are open", retry_after=5)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limits = self._routes.find(scope)
        body = RequestBody(scope, receive, self._bodies, limits)
        responder = _Responder(scope, body, send)
        with ExitStack() as places:
            answer = self._check(scope, limits, body, places)
            if answer is not None:
                await answer(scope, body.receive, responder.send)
            else:
                await self._pass_on(scope, body, responder)

    async def _pass_on(self, scope: Scope, body: RequestBody, responder: _Responder) -> None:
        inner = scope
        if scope["method"] == "HEAD" and scope["path"] != EVENTS_PATH:
            inner = {**scope, "method": "GET"}
        try:
            await self._app(inner, body.receive, responder.send)
        except ClientDisconnect:  # there is nobody to answer
            pass
        except asyncio.CancelledError:  # the server stops, and its timeout is over
            message = (
                "the server stops, and did not finish in time: check whether the change was made."
            )
            await responder.refuse(ApiError("busy", message, retry_after=5))
        except Exception:
            message = "internal error: the server's log has the details."
            await responder.refuse(ApiError("internal", message))
            raise  # for the log
        finally:
            if "route" in inner:
                scope["route"] = inner["route"]  # for the log

    def _check(
        self, scope: Scope, limits: RouteLimits, body: RequestBody, places: ExitStack
    ) -> Response | None:
        """Return an answer in place of the application's, or take the places of a request.

        Nothing is awaited in between: None means that the request has its places.
        """
        headers = Headers(scope=scope)
        try:
            _check_host(headers, self._policy)
            redirect = self._check_token(scope, limits, headers)
            _check_origin(scope, headers)
            body.check_length()
            address = client_address(scope)
            if limits.pictures and not is_loopback(address):
                self._pictures.take(address, PICTURE_RATE_MESSAGE)
            capacity = self._streams if limits.lasts else self._requests
            places.enter_context(capacity.reserve(address))
            places.enter_context(body.reserve())
        except ApiError as error:
            places.close()  # to read on what is refused takes no place
            self._metrics.count_error(error.kind)
            wants_page = scope["path"] == "/" and "text/html" in headers.get("accept", "")
            return (
                HTMLResponse(TOKEN_PAGE, 401)
                if error.kind == "token" and wants_page
                else error.response()
            )
        return redirect

    def _check_token(self, scope: Scope, limits: RouteLimits, headers: Headers) -> Response | None:
        """Check the token; one in the address becomes a cookie, by a redirect to the page."""
        query = parse_qs(scope["query_string"].decode("latin-1")) if scope["path"] == "/" else {}
        in_address = query.get("token", [])
        tokens = self._policy.tokens
        if tokens is None:
            return RedirectResponse("/", 303) if in_address else None
        if limits.role == "anyone":
            return None
        offered = [*in_address, *_offered_tokens(headers, self._policy.cookie)]
        access = _best_access(offered, tokens)
        if access is None:
            if offered:
                self._wrong_tokens.take(client_address(scope), "too many wrong tokens")
            message = "this server needs its token: open the whole address of `cbcl teach`."
            raise ApiError("token", message)
        if in_address:
            answer = RedirectResponse("/", 303)
            if tokens.role(in_address[0]):
                set_token_cookie(answer, self._policy, in_address[0])
            return answer
        if access.role == "view" and limits.role == "full":
            message = "this link is to look only: it can recognize, and change nothing."
            raise ApiError("view", message)
        scope[ACCESS_KEY] = access
        return None


def _offered_tokens(headers: Headers, cookie_name: str) -> list[str]:
    scheme, _, credentials = headers.get("authorization", "").partition(" ")
    bearer = credentials.strip() if scheme.lower() == "bearer" else None
    cookie = cookie_parser(headers.get("cookie", "")).get(cookie_name) or None
    return [token for token in (bearer, cookie) if token is not None]


def _best_access(offered: list[str], tokens: AccessTokens) -> Access | None:
    """Return what the most powerful of the tokens offered allows."""
    roles = {tokens.role(token): token for token in offered}
    for role in ("full", "view"):
        if role in roles:
            return Access(role, roles[role], tokens)
    return None


def _check_host(headers: Headers, policy: AccessPolicy) -> None:
    """Refuse a name that is not ours: a page elsewhere can make it point here (DNS rebinding)."""
    match = HOST_HEADER.fullmatch(headers.get("host", ""))
    name = match[1] if match else ""
    if policy.tokens is None and not is_loopback(name) and name.lower() != policy.name.lower():
        message = "this server answers only to this machine's own names, such as localhost."
        raise ApiError("origin", message)


def _check_origin(scope: Scope, headers: Headers) -> None:
    """Refuse requests that another site, open in the same browser, makes (CSRF)."""
    safe = scope["method"] in SAFE_METHODS
    own = f"{scope['scheme']}://{headers.get('host', '')}"
    foreign = headers.get("origin", own).lower() != own.lower()
    cross_site = headers.get("sec-fetch-site", "none") not in ("same-origin", "none")
    follows_link = headers.get("sec-fetch-mode") == "navigate"
    reads_api = scope["path"].startswith("/api") and not follows_link
    if (cross_site and reads_api) if safe else (foreign or cross_site):
        raise ApiError("origin", "requests from another site are refused.")


def _set_headers(message: Message, path: str) -> None:
    headers = MutableHeaders(raw=message["headers"])
    for name, value in HEADERS.items():
        headers[name] = value
    private = path.startswith("/api") or path == "/metrics" or message["status"] >= 300
    headers.setdefault("Cache-Control", "no-store" if private else "no-cache")
    message["headers"] = headers.raw
