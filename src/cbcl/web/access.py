"""Routes for phones: links with their codes, new tokens, the authority, the installable page."""

from __future__ import annotations

import io
import shlex
import ssl
from typing import Annotated, Literal

import segno
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from cbcl.web.errors import NOT_FOUND, ApiError
from cbcl.web.limits import RouteLimits
from cbcl.web.route_parts import Served, kept
from cbcl.web.security import AccessPolicy, access_of, set_token_cookie
from cbcl.web.tls import fingerprint
from cbcl.web.tokens import AccessTokens, Role

SVG_TYPE = "image/svg+xml"
CERTIFICATE_TYPE = "application/x-x509-ca-cert"  # which phones offer to install
MANIFEST_TYPE = "application/manifest+json"
COLOUR = "#0f665a"  # of the icon
BACKGROUND = "#f6f5f1"  # of the page

router = APIRouter(include_in_schema=False)  # for the page, not for programs


class AccessResponse(BaseModel):
    """How other machines get to this server."""

    network: bool  # else this machine alone can reach it
    command: str  # that serves other machines
    links: dict[Role, str] = {}
    fingerprint: str | None = None  # SHA-256 of the certificate; None: plain http
    authority: str | None = None  # SHA-256 of the authority that we made; None: not ours


Policy = Annotated[AccessPolicy, kept("policy")]


@router.get("/api/access")
@RouteLimits()
def show_access(served: Served, policy: Policy) -> AccessResponse:
    """Return the links, and what to compare the certificate with."""
    command = f"cbcl teach {shlex.quote(served.service.name)} --host 0.0.0.0"
    if policy.tokens is None:
        return AccessResponse(network=False, command=command)
    certificate = policy.certificate()
    authority = certificate.authority if certificate else None
    return AccessResponse(
        network=True,
        command=command,
        links=_links(policy, policy.tokens),
        fingerprint=certificate.fingerprint if certificate else None,
        authority=fingerprint(authority) if authority else None,
    )


@router.get("/api/access/code.svg")
@RouteLimits()
def show_code(policy: Policy, link: Literal["full", "view"]) -> Response:
    """Return the QR code of a link."""
    file = io.BytesIO()
    url = _links(policy, _tokens(policy))[link]
    segno.make(url, micro=False).save(
        file, kind="svg", xmldecl=False, dark="#000", light="#fff", unit="", scale=4
    )
    return Response(file.getvalue(), media_type=SVG_TYPE)


@router.post("/api/access/renew")
@RouteLimits()
async def renew_access(served: Served, response: Response, policy: Policy) -> AccessResponse:
    """Make new tokens: who has an old one is let in no more, but for who asks."""
    tokens = _tokens(policy)
    tokens.renew()
    served.service.notifier.wake()  # so that the streams of the others end
    set_token_cookie(response, policy, tokens.current()["full"])
    return show_access(served, policy)


@router.get("/cbcl-authority.crt")
@RouteLimits("anyone")
def authority(policy: Policy) -> Response:
    """Return the authority, for a phone or a program to trust; it is no secret."""
    certificate = policy.certificate()
    if certificate is None or certificate.authority is None:
        raise ApiError("missing", NOT_FOUND)
    pem = ssl.DER_cert_to_PEM_cert(certificate.authority)
    return Response(pem, media_type=CERTIFICATE_TYPE)


@router.get("/manifest.webmanifest")
@RouteLimits("view")
def manifest(request: Request, served: Served) -> Response:
    """Describe the page for a home screen; its link has the token, which a phone keeps with it."""
    memory = served.service.name
    token = access_of(request.scope).token
    icons = [
        {"src": "/static/icon.svg", "sizes": "any", "type": SVG_TYPE},
        *(
            {
                "src": f"/static/icon-{side}.png",
                "sizes": f"{side}x{side}",
                "type": "image/png",
                "purpose": purpose,
            }
            for side in (192, 512)
            for purpose in ("any", "maskable")
        ),
    ]
    content = {
        "id": "/",
        "name": f"{memory}: cbcl",
        "short_name": memory.removesuffix(".cbcl"),
        "start_url": f"/?token={token}" if token else "/",
        "scope": "/",
        "display": "standalone",
        "theme_color": COLOUR,
        "background_color": BACKGROUND,
        "icons": icons,
    }
    headers = {"Cache-Control": "no-store"}
    return JSONResponse(content, media_type=MANIFEST_TYPE, headers=headers)


def _tokens(policy: AccessPolicy) -> AccessTokens:
    if policy.tokens is None:
        message = "only this machine can reach this server: start it with --host."
        raise ApiError("argument", message)
    return policy.tokens


def _links(policy: AccessPolicy, tokens: AccessTokens) -> dict[Role, str]:
    return {role: policy.link(token) for role, token in tokens.current().items()}
