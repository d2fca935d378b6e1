"""Other machines: https by a certificate of our own, tokens that stay, and a link to look only."""

from __future__ import annotations

import io
import json
import ssl
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from cryptography import x509
from fastapi.routing import APIRoute
from PIL import Image
from support.api import TOKEN, VIEW_TOKEN, FixedTokens, OpenPage, Page, Photos, bearer, refused
from support.server import ServerProcess, teach

from cbcl.client import Client
from cbcl.errors import CBCLError, ServerError
from cbcl.files import access_folder
from cbcl.web import certificates
from cbcl.web.app import ROUTERS
from cbcl.web.certificates import machine_names, own_certificate
from cbcl.web.security import AccessPolicy
from cbcl.web.server import ServerTls
from cbcl.web.tls import ServerCertificate, answer_to_plain_http, fingerprint
from cbcl.web.tokens import AccessTokens

pytest_plugins = ["support.api_fixtures"]

NAMES = ["127.0.0.1", "192.168.1.7", "localhost", "shop.local"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder for each test, also of the servers that it starts."""
    monkeypatch.setenv("CBCL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def authority_file(folder: Path, der: bytes | None) -> Path:
    """Write an authority as a file to trust."""
    assert der is not None
    path = folder / "authority.crt"
    path.write_text(ssl.DER_cert_to_PEM_cert(der))
    return path


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_certificate_is_kept_and_made_anew_only_for_other_names() -> None:
    first = own_certificate(NAMES)
    assert own_certificate(reversed(NAMES)) == first
    elsewhere = own_certificate([*NAMES, "10.0.0.9"])
    assert elsewhere.fingerprint != first.fingerprint
    assert elsewhere.authority == first.authority  # what a phone trusts
    assert own_certificate(NAMES) == first  # back at the first place


def test_phones_accept_its_names_and_its_time() -> None:
    certificate = load(own_certificate(NAMES).path)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sorted(map(str, names.get_values_for_type(x509.DNSName))) == ["localhost", "shop.local"]
    assert sorted(map(str, names.get_values_for_type(x509.IPAddress))) == NAMES[:2]
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    assert life <= timedelta(days=398)
    assert certificate.not_valid_before_utc < datetime.now(UTC)


def test_it_is_renewed_before_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "CERTIFICATE_DAYS", 29)
    old = own_certificate(NAMES)
    monkeypatch.setattr(certificates, "CERTIFICATE_DAYS", 397)
    new = own_certificate(NAMES)
    assert (new.path, new.authority) == (old.path, old.authority)
    assert new.fingerprint != old.fingerprint
    assert own_certificate(NAMES) == new


def test_those_of_old_names_are_removed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificates, "CERTIFICATE_DAYS", 29)
    old = own_certificate(["localhost"])
    monkeypatch.setattr(certificates, "CERTIFICATE_DAYS", 397)
    assert own_certificate(NAMES).path.exists()
    assert not old.path.exists()


@pytest.mark.parametrize("name", ["authority.pem", "server"])
def test_what_is_damaged_is_made_anew(name: str) -> None:
    first = own_certificate(NAMES)
    path = first.path if name == "server" else access_folder() / name
    path.write_bytes(path.read_bytes()[:200])
    second = own_certificate(NAMES)
    assert second.fingerprint != first.fingerprint
    assert (second.authority == first.authority) == (name == "server")


def test_the_authority_can_vouch_for_machines_nearby_and_nothing_else() -> None:
    own_certificate(NAMES)
    authority = load(access_folder() / "authority.pem")
    limits = authority.extensions.get_extension_for_class(x509.NameConstraints)
    assert limits.critical
    assert limits.value.permitted_subtrees is not None
    permitted = [each.value for each in limits.value.permitted_subtrees]
    assert {name for name in permitted if isinstance(name, str)} == {*certificates.LOCAL_DOMAINS}
    networks = [network for network in permitted if not isinstance(network, str)]
    assert {str(network) for network in networks} == {*certificates.PRIVATE_NETWORKS}
    assert all(network.is_private or "100.64" in str(network) for network in networks)


def test_a_public_name_takes_an_authority_of_its_own() -> None:
    near = own_certificate(NAMES)
    public = own_certificate([*NAMES, "teach.example.org", "203.0.113.9"])
    assert public.authority != near.authority
    assert own_certificate(NAMES).authority == public.authority  # which may vouch for these, too


@pytest.mark.skipif(sys.platform == "win32", reason="rights are others there")
def test_keys_can_be_read_by_their_owner_alone() -> None:
    own_certificate(NAMES)
    files = [*access_folder().iterdir()]
    assert len(files) == 2
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE(access_folder().stat().st_mode) == 0o700


def test_two_that_make_the_first_one_at_once_have_the_same_authority() -> None:
    with ThreadPoolExecutor(8) as executor:
        made = [*executor.map(own_certificate, [[*NAMES, f"10.0.0.{n}"] for n in range(8)])]
    assert len({each.authority for each in made}) == 1
    assert len({each.fingerprint for each in made}) == 8


def test_a_folder_that_cannot_be_written_is_a_sentence(home: Path) -> None:
    home.write_text("no folder")
    with pytest.raises(ServerError, match=r"cannot keep certificates .*: give --certificate, or"):
        own_certificate(NAMES)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "cbcl.web.certificates")
    with pytest.raises(ServerError, match=r'needs the package cryptography.*"cbcl\[web\]"'):
        ServerTls(lambda: "shop.local")


def test_this_machine_has_names_wherever_it_is() -> None:
    assert {"127.0.0.1", "::1", "localhost"} <= machine_names()


@pytest.mark.parametrize(
    ("request_head", "address"),
    [
        (b"GET / HTTP/1.1\r\nHost: 192.168.1.7:8737\r\n\r\n", b"https://192.168.1.7:8737/"),
        (b"GET /?token=a HTTP/1.1\r\nA: b\r\nhost: shop.local\r\n", b"https://shop.local/?token=a"),
        (b"POST /api/x HTTP/1.0\r\nHost: [::1]:1\r\n", b"https://[::1]:1/api/x"),
    ],
)
def test_plain_http_is_sent_on(request_head: bytes, address: bytes) -> None:
    answer = answer_to_plain_http(request_head)
    assert answer.startswith(b"HTTP/1.1 307 ")
    assert b"\r\nLocation: " + address + b"\r\n" in answer
    head, _, body = answer.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}\r\n".encode() in head


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"SSH-2.0-x\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET //evil\nLocation: x HTTP/1.1\r\nHost: a\r\n",
        b"GET / HTTP/1.1\r\nHost: a/../@b\r\n",
    ],
)
def test_what_is_no_plain_http_is_left_to_tls(data: bytes) -> None:
    assert answer_to_plain_http(data) == b""


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Let a client connect to a server by this name, without a network between them."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert ends[0].getpeercert()


def test_a_server_that_runs_follows_the_addresses_of_its_machine(tmp_path: Path) -> None:
    names = ["192.168.1.7", "10.0.0.9"]  # of a machine carried from network to network
    tls = ServerTls(lambda: names[0])
    first = tls.current()
    client = ssl.create_default_context(cafile=authority_file(tmp_path, first.authority))
    shake_hands(tls.context, client, "192.168.1.7")
    with pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"):
        shake_hands(tls.context, client, "10.0.0.9")
    names.pop(0)
    assert tls.current().fingerprint != first.fingerprint
    assert tls.current().authority == first.authority
    shake_hands(tls.context, client, "10.0.0.9")  # the same process, the same trust
    shake_hands(tls.context, client, "localhost")


def trusting(server: ServerProcess, folder: Path) -> Client:
    """A program that trusts the authority, as a phone may."""
    der = own_certificate([*machine_names(), urlsplit(server.url).hostname or ""]).authority
    return Client(server.url, certificate=authority_file(folder, der))


def test_other_machines_are_served_over_https_and_plain_http_leads_there(tmp_path: Path) -> None:
    memory = tmp_path / "x.cbcl"
    with teach(memory, "--host", "0.0.0.0") as server:
        assert server.url.startswith("https://")
        client = trusting(server, tmp_path)
        assert client.labels() == {}
        with pytest.raises(CBCLError, match=r"is not trusted.*/cbcl-authority\.crt"):
            server.client.labels()  # who does not know the authority
        with closing(server.connect()) as plain:
            plain.request("GET", "/?token=x")
            answer = plain.getresponse()
            assert (answer.status, answer.read()[:26]) == (307, b"This server speaks https: ")
            assert answer.headers["Location"] == f"https://{plain.host}:{plain.port}/?token=x"
        assert client.labels() == {}
        said, wrong = server.stop()
    assert "To look only: https://" in said
    assert "this machine made its certificate itself" in said
    assert wrong == ""


def test_this_machine_alone_needs_no_certificate(tmp_path: Path) -> None:
    with teach(tmp_path / "x.cbcl") as server:
        assert server.url.startswith("http://127.0.0.1:")
    assert not access_folder().exists()


def tokens_of(server: ServerProcess) -> list[str]:
    return parse_qs(urlsplit(server.url).query)["token"]


def test_the_token_survives_a_restart_and_is_another_for_another_memory(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--http")
    with teach(tmp_path / "x.cbcl", *options) as first:
        assert len(tokens_of(first)[0]) >= 32
    with teach(tmp_path / "x.cbcl", *options) as second:
        assert tokens_of(second) == tokens_of(first)
        with teach(tmp_path / "y.cbcl", *options) as other:
            assert tokens_of(other) != tokens_of(first)
        with teach(tmp_path / "x.cbcl", *options, "--new-token") as third:
            assert tokens_of(third) != tokens_of(first)
            assert third.client.labels() == {}
        with pytest.raises(CBCLError, match="needs its token"):
            second.client.labels()  # it runs, and has heard of it


def test_tokens_are_kept_in_a_file_that_nobody_else_reads(tmp_path: Path) -> None:
    kept = AccessTokens(tmp_path / "x.cbcl")
    (path,) = access_folder().iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 or sys.platform == "win32"
    assert json.loads(path.read_bytes()) == kept.current()
    assert AccessTokens(tmp_path / "a" / ".." / "x.cbcl").current() == kept.current()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"full": 1}', b'{"full": "short", "view": "short"}']
)
def test_tokens_that_are_damaged_are_made_anew(tmp_path: Path, content: bytes) -> None:
    first = AccessTokens(tmp_path / "x.cbcl").current()
    (path,) = access_folder().iterdir()
    path.write_bytes(content)
    second = AccessTokens(tmp_path / "x.cbcl").current()
    assert {*first.values()}.isdisjoint(second.values())
    assert AccessTokens(tmp_path / "x.cbcl").current() == second


def test_a_server_that_runs_goes_on_with_its_tokens_if_their_file_is_lost(tmp_path: Path) -> None:
    kept = AccessTokens(tmp_path / "x.cbcl")
    before = kept.current()
    (path,) = access_folder().iterdir()
    path.unlink()
    assert kept.current() == before


def test_tokens_that_cannot_be_written_stay_the_old_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = AccessTokens(tmp_path / "x.cbcl")
    before = kept.current()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(ServerError, match="No space left"):
            kept.renew()
    assert kept.current() == before


CERTIFICATE = ServerCertificate(Path("server.pem"), "AB CD", b"an authority")
LINK = "https://192.168.1.7:8737/?token={}".format


@pytest.fixture
def guarded(open_page: OpenPage) -> Page:
    """A page as other machines see it, for who has the full token."""
    policy = AccessPolicy(FixedTokens(), "cbcl", link=LINK, certificate=lambda: CERTIFICATE)
    page = open_page(policy=policy, client="192.168.1.9", base_url="http://192.168.1.7:8737")
    page.http.headers["Authorization"] = f"Bearer {TOKEN}"
    return page


DIGEST = "0" * 64
LOOKING = bearer(VIEW_TOKEN)


def test_who_may_look_only_can_ask_and_see(guarded: Page, photos: Photos) -> None:
    assert guarded.learn("coffee", *photos["coffee"][:2]).status_code == 200
    for address in (
        *("/", "/static/css/base.css", "/api/docs", "/api/openapi.json", "/api/version"),
        *("/api/health", "/api/labels", "/api/examples?label=coffee", "/api/negatives"),
        *("/api/examples/1/thumbnail", "/api/history", "/api/advice", "/api/scores"),
        "/manifest.webmanifest",
    ):
        assert guarded.get(address, headers=LOOKING).status_code == 200, address
    picture = {"picture": ("new.jpg", photos["coffee"][3])}
    answer = guarded.post("/api/recognize", files=picture, headers=LOOKING)
    assert answer.status_code == 200
    thumbnail = f"/api/seen/{answer.json()['seen']}/thumbnail"
    assert guarded.get(thumbnail, headers=LOOKING).status_code == 200


def test_who_may_look_only_can_do_nothing_else(guarded: Page) -> None:
    both = {  # by method
        "GET": {
            *("/", "/static/icon.svg", "/static/icon-192.png", "/static/icon-512.png"),
            *("/manifest.webmanifest", "/cbcl-authority.crt", "/api/openapi.json"),
            *("/api/docs", "/api/version", "/api/health", "/api/labels", "/api/examples"),
            *("/api/negatives", "/api/examples/1/thumbnail", "/api/history", "/api/advice"),
            *("/api/scores", "/api/events", "/api/self-test", "/api/similar", "/api/unknown"),
            f"/api/seen/{DIGEST}/thumbnail",
        },
        "POST": {"/api/group", "/api/recognize", "/api/recognize-many"},
    }
    tried = 0
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            path = route.path_format.format(number=1, digest=DIGEST, name="icon.svg")
            for method in route.methods or ():
                if path not in both.get(method, ()):
                    tried += 1
                    answer = guarded.http.request(method, path, headers=LOOKING)
                    told = refused(answer, "view")
                    assert told["message"].startswith("this link is to look only")
    assert tried >= 13
    refused(guarded.http.request("PUT", "/api/new", headers=LOOKING), "view")


def test_the_page_shows_its_links_to_who_has_full_access(guarded: Page) -> None:
    told = guarded.get("/api/access")
    assert told.headers["cache-control"] == "no-store"
    assert told.json() == {
        "network": True,
        "command": "cbcl teach things.cbcl --host 0.0.0.0",
        "links": {"full": LINK(TOKEN), "view": LINK(VIEW_TOKEN)},
        "fingerprint": "AB CD",
        "authority": fingerprint(b"an authority"),
    }
    codes = [guarded.get(f"/api/access/code.svg?link={role}") for role in ("full", "view")]
    assert [code.headers["content-type"] for code in codes] == ["image/svg+xml"] * 2
    assert codes[0].text.startswith("<svg")
    assert codes[0].text != codes[1].text
    refused(guarded.get("/api/access/code.svg?link=other"), "argument")
    answer = guarded.get("/cbcl-authority.crt")
    assert answer.headers["content-type"] == "application/x-x509-ca-cert"
    assert ssl.PEM_cert_to_DER_cert(answer.text) == b"an authority"
    del guarded.http.headers["Authorization"]
    assert guarded.get("/cbcl-authority.crt").status_code == 200  # it is no secret


def test_this_machine_alone_has_no_links_and_says_how_to_get_some(page: Page) -> None:
    assert page.get("/api/access").json() == {
        "network": False,
        "command": "cbcl teach things.cbcl --host 0.0.0.0",
        "links": {},
        "fingerprint": None,
        "authority": None,
    }
    refused(page.get("/api/access/code.svg?link=full"), "argument")
    refused(page.post("/api/access/renew"), "argument")
    refused(page.get("/cbcl-authority.crt"), "missing")


def test_new_tokens_lock_out_all_but_who_made_them(guarded: Page) -> None:
    told = guarded.post("/api/access/renew")
    links = told.json()["links"]
    new = parse_qs(urlsplit(links["full"]).query)["token"][0]
    assert told.headers["set-cookie"].startswith(f"cbcl={new}; HttpOnly; ")
    refused(guarded.get("/api/labels", headers={"Cookie": ""}), "token")
    refused(guarded.get("/api/labels", headers={**LOOKING, "Cookie": ""}), "token")
    assert guarded.get("/api/labels", headers={"Cookie": f"cbcl={new}"}).status_code == 200


def test_new_tokens_end_the_streams_of_the_old_ones(tmp_path: Path) -> None:
    with teach(tmp_path / "x.cbcl", "--host", "0.0.0.0", "--http") as server:
        headers = {"Authorization": f"Bearer {tokens_of(server)[0]}"}
        with closing(server.connect()) as connection:
            connection.request("GET", "/api/events", headers=headers)
            stream = connection.getresponse()
            assert stream.readline() == b"event: changed\n"
            assert server.ask("POST", "/api/access/renew", headers=headers)[0].status == 200
            assert stream.read().endswith(b"\n\n")  # its end


def test_a_link_decides_what_a_browser_may_do(guarded: Page) -> None:
    del guarded.http.headers["Authorization"]
    guarded.get(f"/?token={TOKEN}")
    assert guarded.get("/api/access").status_code == 200
    guarded.get(f"/?token={VIEW_TOKEN}")
    refused(guarded.get("/api/access"), "view")
    answer = guarded.get("/?token=old", follow_redirects=False)
    assert (answer.status_code, answer.headers.get("set-cookie")) == (303, None)


def test_a_home_screen_gets_the_icons_without_the_token_and_a_link_that_has_it(
    guarded: Page,
) -> None:
    manifest = guarded.get("/manifest.webmanifest")
    assert manifest.headers["content-type"] == "application/manifest+json"
    assert manifest.headers["cache-control"] == "no-store"
    content = manifest.json()
    assert content["start_url"] == f"/?token={TOKEN}"
    looking = guarded.get("/manifest.webmanifest", headers=LOOKING).json()
    assert looking["start_url"] == f"/?token={VIEW_TOKEN}"
    del guarded.http.headers["Authorization"]
    for icon in content["icons"]:
        answer = guarded.get(icon["src"])
        assert (answer.status_code, answer.headers["content-type"]) == (200, icon["type"])
        if icon["type"] == "image/png":
            size = Image.open(io.BytesIO(answer.content)).size
            assert icon["sizes"] == "{}x{}".format(*size)
            assert len(answer.content) < 20_000
    refused(guarded.get("/manifest.webmanifest"), "token")


def test_on_this_machine_alone_the_home_screen_needs_no_token(page: Page) -> None:
    assert page.get("/manifest.webmanifest").json()["start_url"] == "/"
