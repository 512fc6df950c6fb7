"""Makes a CA, a server certificate and a signing key pair.

Pure except for random keys: takes names and times, returns PEM bytes.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from router.errors import ConfigError

SERVER_DAYS: Final = 90
"""Days that a server certificate is valid: renewal is a quarterly task that stays practised, and a stolen key expires
soon. The webhook takes a new certificate without a restart."""

CA_DAYS: Final = 3 * 365
"""Days that the CA is valid: much longer than a server certificate, as a new CA needs a new ``caBundle`` in the webhook
configuration. The CA is trusted only there."""

BACKDATED: Final = timedelta(minutes=5)
"""How far ``notBefore`` is in the past: nodes' clocks differ by seconds, and a future certificate is refused."""

# RFC 1123 names, with `*` allowed as the whole first label (RFC 6125).
_DNS_NAME = re.compile(
    r"^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", re.IGNORECASE
)
_DNS_LENGTH: Final = 253
_COMMON_NAME_LENGTH: Final = 64


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate or public key, and the private key to it; both PEM."""

    public: bytes
    private: bytes


def make_ca(now: datetime, days: float = CA_DAYS) -> Pair:
    """A CA for one webhook, valid from now for ``days``."""
    key = ec.generate_private_key(ec.SECP256R1())
    # The serial in the name tells two generations of the CA apart in one bundle.
    serial = x509.random_serial_number()
    name = _named(f"Batchgate CA {serial:x}"[:_COMMON_NAME_LENGTH])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(key, hashes.SHA256())), _private_pem(key))


def make_server_certificate(ca: Pair, host_names: Sequence[str], now: datetime, days: float = SERVER_DAYS) -> Pair:
    """A certificate for TLS servers of these names (DNS names or IP addresses), signed by the CA.

    :raises ConfigError: a missing or invalid name; a CA that is unreadable or expires before the certificate would
    """
    authority = x509.load_pem_x509_certificate(ca.public)
    authority_key = serialization.load_pem_private_key(ca.private, password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise ConfigError("the CA's key is no elliptic curve key; give the CA that `batchgate certs create` made")
    ends = now + timedelta(days=days)
    if ends > authority.not_valid_after_utc:
        raise ConfigError(
            f"the CA ends on {authority.not_valid_after_utc:%Y-%m-%d}, before a certificate of {days:g} days would; "
            "make a new CA with --force, or ask for fewer --days"
        )
    names = [_alternative_name(name) for name in dict.fromkeys(host_names)]
    if not names:
        raise ConfigError("a server certificate needs a host name: --host-name batchgate.batchgate-system.svc")
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        x509.CertificateBuilder()
        .subject_name(_named(next((name for name in host_names if len(name) <= _COMMON_NAME_LENGTH), "batchgate")))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    return Pair(_pem(builder.sign(authority_key, hashes.SHA256())), _private_pem(key))


def make_signing_keys() -> Pair:
    """An Ed25519 key pair: the webhook signs with the private key, the agent verifies with the public one."""
    key = ed25519.Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Pair(public, _private_pem(key))


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        pass
    if len(name) > _DNS_LENGTH or not _DNS_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is neither a DNS name nor an IP address")
    return x509.DNSName(name.lower())


def _named(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private_pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
