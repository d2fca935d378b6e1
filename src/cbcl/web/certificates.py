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
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from cbcl.errors import ServerError, reason
from cbcl.files import create_atomically, write_atomically
from cbcl.folders import access_folder

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

    KeyPair: TypeAlias = tuple[EllipticCurvePrivateKey, x509.Certificate]

AddressRange: TypeAlias = IPv4Network | IPv6Network

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


@dataclass(frozen=True)
class ServerCertificate:
    """A certificate in a file, as a server needs it and a person may compare it."""

    path: Path  # PEM: the certificate, and its key unless that is in a file of its own
    fingerprint: str  # SHA-256, as phones show it
    authority: bytes | None = None  # DER, of the one that we made


def read_certificate(path: Path) -> ServerCertificate:
    """Return a certificate that the user gave, once it was checked that it can be loaded."""
    pem = path.read_text(encoding="ascii", errors="ignore")
    begin = pem.index(ssl.PEM_HEADER)  # of a chain, the first is the server's own
    end = pem.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
    return ServerCertificate(path, fingerprint(ssl.PEM_cert_to_DER_cert(pem[begin:end])))


def own_certificate(names: Iterable[str]) -> ServerCertificate:
    """Return the certificate for these names and addresses that is kept, or a new one."""
    wanted = sorted(set(names))
    folder = access_folder()
    try:
        authority = _authority(folder / "authority.pem", wanted)
        digest = sha256("\n".join(wanted).encode()).hexdigest()[:16]
        path = folder / f"server-{digest}.pem"
        pair = _read(path)
        if pair is None or not _is_issued_by(pair[1], authority[1]):
            pair = _issue(wanted, authority)
            write_atomically(path, _as_pem(pair, authority[1]), secret=True)
            _remove_expired(folder)
    except ModuleNotFoundError as error:
        advice = 'pip install "cbcl[web]", or give --certificate or --http'
        raise ServerError("https", f"needs the package {error.name}", advice) from error
    except OSError as error:
        problem = f"cannot keep certificates ({reason(error)})"
        raise ServerError(folder, problem, "give --certificate, or --http for none") from error
    return ServerCertificate(path, fingerprint(_der(pair[1])), _der(authority[1]))


def machine_names() -> set[str]:
    """Return the names and addresses of this machine that do not depend on where it is."""
    host = socket.gethostname().rstrip(".").lower()
    names = {"127.0.0.1", "::1", "localhost"}
    if DOMAIN.fullmatch(host):
        names |= {host, f"{host.partition('.')[0]}.local"}
    return names


def fingerprint(der: bytes) -> str:
    """Return the SHA-256 of a certificate, as phones show it."""
    return sha256(der).digest().hex(" ").upper()


def _authority(path: Path, names: Sequence[str]) -> KeyPair:
    """Return the authority that is kept, or a new one if it may not vouch for all of these names.

    Of several processes that make the first one at the same time, all return the same.
    """
    pair = _read(path)
    if pair is None:
        create_atomically(path, _as_pem(_make_authority(names)))
        pair = _read(path)
    if pair is None or not _may_vouch_for(pair[1], names):
        pair = _make_authority(names)
        write_atomically(path, _as_pem(pair), secret=True)
    return pair


def _read(path: Path) -> KeyPair | None:
    """Return a key and its certificate, unless they are missing, damaged or about to expire."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        pem = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        key = load_pem_private_key(pem, None)
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None
    if not isinstance(key, EllipticCurvePrivateKey) or _is_old(certificate):
        return None
    return (key, certificate) if key.public_key() == certificate.public_key() else None


def _is_old(certificate: x509.Certificate) -> bool:
    return certificate.not_valid_after_utc < datetime.now(UTC) + timedelta(days=RENEWAL_DAYS)


def _is_issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _make_authority(names: Sequence[str]) -> KeyPair:
    """Return a new authority for all machines nearby, and for these names."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    domains, networks = [*LOCAL_DOMAINS], [ip_network(network) for network in PRIVATE_NETWORKS]
    for name in names:
        if not _permit(name, domains, networks):
            address = _address(name)
            domains += [name] if address is None else []
            networks += [] if address is None else [ip_network(address)]
    permitted = [*map(x509.DNSName, domains), *map(x509.IPAddress, networks)]
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = _subject(f"cbcl on {socket.gethostname()}"[:64])
    usage = _key_usage(digital_signature=False, key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(issuer, issuer, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.NameConstraints(permitted, None), critical=True)
    )
    return _sign(builder, key, key)


def _issue(names: Sequence[str], authority: KeyPair) -> KeyPair:
    """Return a new certificate for a server with these names."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    authority_key, issuer = authority
    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = [
        x509.DNSName(name) if (address := _address(name)) is None else x509.IPAddress(address)
        for name in names
    ]
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    issued_by = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    usage = _key_usage(digital_signature=True, key_cert_sign=False, crl_sign=False)
    builder = (
        _builder(_subject("cbcl"), issuer.subject, key, CERTIFICATE_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(issued_by, critical=False)
    )
    return _sign(builder, key, authority_key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    begin = datetime.now(UTC) - timedelta(days=CLOCK_DAYS)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=days))
        .add_extension(usage, critical=False)
        .add_extension(identifier, critical=False)
    )


def _sign(
    builder: x509.CertificateBuilder, key: EllipticCurvePrivateKey, by: EllipticCurvePrivateKey
) -> KeyPair:
    from cryptography.hazmat.primitives.hashes import SHA256

    return key, builder.sign(by, SHA256())


def _subject(name: str) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _key_usage(**used: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
        **used,
    )


def _may_vouch_for(authority: x509.Certificate, names: Sequence[str]) -> bool:
    """Tell whether the name constraints of an authority permit all of these names."""
    from cryptography import x509

    constraints = authority.extensions.get_extension_for_class(x509.NameConstraints).value
    permitted = [each.value for each in constraints.permitted_subtrees or ()]
    domains = [name for name in permitted if isinstance(name, str)]
    networks = [network for network in permitted if not isinstance(network, str)]
    return all(_permit(name, domains, networks) for name in names)


def _permit(name: str, domains: Sequence[str], networks: Sequence[AddressRange]) -> bool:
    address = _address(name)
    if address is None:
        return any(f".{name}".endswith(f".{domain}") for domain in domains)
    return any(address in network for network in networks)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _as_pem(pair: KeyPair, *chain: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key, certificate = pair
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return secret + b"".join(each.public_bytes(Encoding.PEM) for each in (certificate, *chain))


def _der(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.DER)


def _remove_expired(folder: Path) -> None:
    """Remove certificates for names that the machine had long ago."""
    for path in folder.glob("server-*.pem"):
        if _read(path) is None:
            with suppress(OSError):
                path.unlink()
