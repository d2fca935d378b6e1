"""Certificates: an authority of this user's own, and certificates of it for this machine's names.

Both are kept in the user's data folder, each in one file with its key, which nobody else can read.
A phone that accepted a certificate is asked again only when there is another: when the names of the
machine change, or a month before it expires. One that trusts the authority is never asked. The
authority can vouch for machines nearby and for nothing else, so that trusting it is no risk
elsewhere.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cbcl.errors import ServerError, reason
from cbcl.files import access_folder, create_atomically, write_atomically
from cbcl.web.tls import ServerCertificate, fingerprint

CERTIFICATE_DAYS = 397  # phones refuse more than 398
AUTHORITY_DAYS = 3650
RENEWAL_DAYS = 30  # before the end
CLOCK_DAYS = 1  # that a phone's clock may be behind
PRIVATE_NETWORKS = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "::1/128",
    "fc00::/7",
    "fe80::/10",
)
LOCAL_DOMAINS = ("home.arpa", "internal", "lan", "local", "localhost")
DOMAIN = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")


class KeyPair(NamedTuple):
    """A certificate, and the key that it is for."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def own_certificate(names: Iterable[str]) -> ServerCertificate:
    """Return the certificate for these names and addresses that is kept, or a new one."""
    wanted = sorted(set(names))
    folder = access_folder()
    try:
        authority = _authority(folder / "authority.pem", wanted)
        digest = sha256("\n".join(wanted).encode()).hexdigest()[:16]
        path = folder / f"server-{digest}.pem"
        pair = _read(path)
        if pair is None or not _is_issued_by(pair.certificate, authority.certificate):
            pair = _make_server_pair(wanted, authority)
            write_atomically(path, _as_pem(pair, authority.certificate), secret=True)
            _remove_expired(folder)
    except OSError as error:
        problem = f"cannot keep certificates ({reason(error)})"
        raise ServerError(folder, problem, "give --certificate, or --http for none") from error
    return ServerCertificate(
        path,
        fingerprint(pair.certificate.public_bytes(Encoding.DER)),
        authority.certificate.public_bytes(Encoding.DER),
    )


def machine_names() -> set[str]:
    """Return the names and addresses of this machine that do not depend on where it is."""
    host = socket.gethostname().rstrip(".").lower()
    names = {"127.0.0.1", "::1", "localhost"}
    if DOMAIN.fullmatch(host):
        names |= {host, f"{host.partition('.')[0]}.local"}
    return names


def _authority(path: Path, names: Sequence[str]) -> KeyPair:
    """Return the authority that is kept, or a new one if it may not vouch for all of these names.

    Of several processes that make the first one at the same time, all return the same.
    """
    pair = _read(path)
    if pair is None:
        create_atomically(path, _as_pem(_make_authority(names)))
        pair = _read(path)
    if pair is None or not _may_vouch_for(pair.certificate, names):
        pair = _make_authority(names)
        write_atomically(path, _as_pem(pair), secret=True)
    return pair


def _read(path: Path) -> KeyPair | None:
    """Return a key and its certificate, unless they are missing, damaged or about to expire."""
    try:
        pem = path.read_bytes()
        key = load_pem_private_key(pem, None)
        certificate = x509.load_pem_x509_certificate(pem)
    except (FileNotFoundError, ValueError):
        return None
    if certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=RENEWAL_DAYS):
        return None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        return None
    belongs = key.public_key() == certificate.public_key()
    return KeyPair(key, certificate) if belongs else None


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _may_vouch_for(authority: x509.Certificate, names: Sequence[str]) -> bool:
    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    return {*_permitted_names(names)} <= {*(constraints.permitted_subtrees or ())}


def _permitted_names(names: Sequence[str]) -> list[x509.GeneralName]:
    """Return what an authority may vouch for: all machines nearby, and these names."""
    domains = [*LOCAL_DOMAINS]
    networks = [ip_network(network) for network in PRIVATE_NETWORKS]
    for name in names:
        try:
            address = ip_address(name)
        except ValueError:
            if not any(f".{name}".endswith(f".{domain}") for domain in domains):
                domains.append(name)
            continue
        if not any(address in network for network in networks):
            networks.append(ip_network(address))
    return [*map(x509.DNSName, domains), *map(x509.IPAddress, networks)]


def _make_authority(names: Sequence[str]) -> KeyPair:
    """Return a new authority for all machines nearby, and for these names."""
    constraints = x509.NameConstraints(_permitted_names(names), None)
    name = f"cbcl on {socket.gethostname()}"[:64]
    return _make_pair(name, AUTHORITY_DAYS, [(constraints, True)])


def _make_server_pair(names: Sequence[str], authority: KeyPair) -> KeyPair:
    """Return a new certificate for a server with these names."""
    alternatives = x509.SubjectAlternativeName([_as_general_name(name) for name in names])
    extensions = authority.certificate.extensions
    identifier = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return _make_pair(
        "cbcl", CERTIFICATE_DAYS, [(alternatives, False), (issued_by, False)], authority
    )


def _as_general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _make_pair(
    name: str,
    days: int,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],  # and whether they are critical
    authority: KeyPair | None = None,
) -> KeyPair:
    """Return a new key, with a certificate that an authority signs; without one, an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begin = datetime.now(UTC) - timedelta(days=CLOCK_DAYS)
    signs_others = authority is None
    usage = x509.KeyUsage(
        digital_signature=not signs_others,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject if authority else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
    )
    path_length = 0 if signs_others else None
    for extension, critical in (
        (x509.BasicConstraints(ca=signs_others, path_length=path_length), True),
        (usage, True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        *extensions,
    ):
        builder = builder.add_extension(extension, critical=critical)
    return KeyPair(key, builder.sign(authority.key if authority else key, SHA256()))


def _as_pem(pair: KeyPair, *chain: x509.Certificate) -> bytes:
    secret = pair.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    certificates = (pair.certificate, *chain)
    return secret + b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _remove_expired(folder: Path) -> None:
    """Remove certificates for names that the machine had long ago."""
    for path in folder.glob("server-*.pem"):
        if _read(path) is None:
            with suppress(OSError):
                path.unlink()
