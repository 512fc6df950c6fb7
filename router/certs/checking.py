"""Reads certificates and keys, describes them, and finds their problems.

Pure: takes bytes, names and the time. Every error is a ConfigError of one line that names the file given as source.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import ExtendedKeyUsageOID

from router.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Description:
    """A certificate's properties for people. Times are UTC; the fingerprint is SHA-256 in hex."""

    subject: str
    issuer: str
    host_names: tuple[str, ...]
    not_before: datetime
    not_after: datetime
    fingerprint: str
    is_ca: bool


def certificates_of(data: bytes, source: str) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM file, the server's own first.

    :raises ConfigError: empty, or without a PEM certificate
    """
    if not data.strip():
        raise ConfigError(f"{source} is empty; it must hold a certificate in PEM form")
    try:
        return tuple(x509.load_pem_x509_certificates(data))
    except ValueError:
        raise ConfigError(
            f"{source} holds no certificate in PEM form (it must have a line -----BEGIN CERTIFICATE-----)"
        ) from None


def private_key_of(data: bytes, source: str) -> PrivateKeyTypes:
    """The private key of a PEM file.

    :raises ConfigError: empty, encrypted, or without a supported PEM key
    """
    if not data.strip():
        raise ConfigError(f"{source} is empty; it must hold a private key in PEM form")
    try:
        return serialization.load_pem_private_key(data, password=None)
    except TypeError:
        raise ConfigError(f"{source} is encrypted; the webhook cannot ask for a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        raise ConfigError(
            f"{source} holds no private key in PEM form (it must have a line -----BEGIN PRIVATE KEY-----)"
        ) from None


def describe(certificate: x509.Certificate) -> Description:
    """Subject, names, times and fingerprint of a certificate."""
    return Description(
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        host_names=host_names_of(certificate),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        fingerprint=certificate.fingerprint(hashes.SHA256()).hex(),
        is_ca=_is_ca(certificate),
    )


def key_fits(certificate: x509.Certificate, key: PrivateKeyTypes) -> bool:
    """Whether the private key belongs to the certificate."""
    public = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return certificate.public_key().public_bytes(*public) == key.public_key().public_bytes(*public)


def host_names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """DNS names and IP addresses of the certificate's subjectAltName; Go's TLS (the API server) reads only these."""
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    names = extension.value.get_values_for_type(x509.DNSName)
    addresses = extension.value.get_values_for_type(x509.IPAddress)
    return (*names, *(str(address) for address in addresses))


def covers(host_names: Sequence[str], wanted: str) -> bool:
    """Whether a certificate covers a name: an equal name, or ``*.`` in place of the first label (RFC 6125)."""
    try:
        address = str(ipaddress.ip_address(wanted))
    except ValueError:
        pass
    else:
        return address in host_names
    name = wanted.lower().rstrip(".")
    wildcard = "*." + name.partition(".")[2]
    return any(known.lower() in (name, wildcard) for known in host_names)


def check_server(
    certificate: x509.Certificate, key: PrivateKeyTypes, host_names: Sequence[str], now: datetime, source: str
) -> None:
    """Check that a TLS client would accept the certificate now for each of these names.

    :raises ConfigError: expired, valid only later, for another host, unfit for servers, or with another key
    """
    if now > certificate.not_valid_after_utc:
        raise ConfigError(f"{source} expired at {certificate.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC; renew it")
    if now < certificate.not_valid_before_utc:
        raise ConfigError(
            f"{source} is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M:%S} UTC; check the clock"
        )
    if not key_fits(certificate, key):
        raise ConfigError(f"{source} and its private key do not belong together; give the key it was made with")
    known = host_names_of(certificate)
    missing = [name for name in host_names if not covers(known, name)]
    if missing:
        raise ConfigError(
            f"{source} is for {', '.join(known) or 'no host at all'}, not for {', '.join(missing)}; "
            "make one with that name in its subjectAltName"
        )
    if not _for_servers(certificate):
        raise ConfigError(f"{source} is not for TLS servers: its extendedKeyUsage lacks serverAuth")


def check_authorities(certificates: Sequence[x509.Certificate], now: datetime, source: str) -> None:
    """Check that these can verify clients' certificates: each is a CA's, and at least one has not expired.

    :raises ConfigError: one is no CA's, or all have expired
    """
    for one in certificates:
        if not _is_ca(one):
            raise ConfigError(f"{source} holds the certificate {one.subject.rfc4514_string()!r}, which is no CA's")
    if all(now > one.not_valid_after_utc for one in certificates):
        raise ConfigError(f"{source} has expired; give the CA that signs clients' certificates now")


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _for_servers(certificate: x509.Certificate) -> bool:
    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.SERVER_AUTH in usages or ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE in usages
