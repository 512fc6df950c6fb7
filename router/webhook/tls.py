"""Makes the webhook's SSL context from a certificate and a key, after checking both.

Shell: reads two files and the clock.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from router.certs import checking, files
from router.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A certificate in force. Two are equal if their certificate, key and client CA are equal.

    ``sha256`` is the certificate's fingerprint in hex; ``ca_not_after`` when the first CA of the file ``ca.crt`` beside it
    ends, None without such a file.
    """

    context: ssl.SSLContext = field(compare=False, repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    not_after: datetime
    sha256: str = ""
    ca_not_after: datetime | None = None
    client_ca: bytes = b""


def load(
    certificate_path: Path, key_path: Path, host_names: Sequence[str], client_ca_path: Path | None = None
) -> ServerTls:
    """Read, check and load certificate and key, and the client CA if configured.

    :raises ConfigError: a file is unreadable, invalid PEM, expired, for another host or no CA, or the key is another's
    """
    certificate_bytes = files.read(certificate_path, "the webhook's certificate")
    key_bytes = files.read(key_path, "the key of the webhook's certificate")
    certificate = checking.certificates_of(certificate_bytes, f"certificate {certificate_path}")[0]
    key = checking.private_key_of(key_bytes, f"key {key_path}")
    checking.check_server(certificate, key, host_names, datetime.now(UTC), f"certificate {certificate_path}")
    client_ca = b"" if client_ca_path is None else _client_ca(client_ca_path)
    context = _context(certificate_path, key_path)
    if client_ca:
        # Optional, as the kubelet's probes have no certificate; /mutate checks the client itself. An expired
        # certificate, or one of another CA, ends the handshake.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=client_ca.decode("ascii"))
    # OpenSSL read the files again, by name: they must still have the checked content.
    if files.read(certificate_path, "") != certificate_bytes or files.read(key_path, "") != key_bytes:
        raise ConfigError(f"{certificate_path} and {key_path} changed while they were read; they are read again")
    described = checking.describe(certificate)
    return ServerTls(
        context,
        certificate_bytes,
        key_bytes,
        described.not_after,
        described.fingerprint,
        _ca_end(certificate_path),
        client_ca,
    )


def _ca_end(certificate_path: Path) -> datetime | None:
    """``ca.crt`` is only for people and metrics, so a missing or broken one keeps no certificate out of force."""
    path = certificate_path.with_name("ca.crt")
    try:
        found = checking.certificates_of(files.read(path, "the CA"), str(path))
    except ConfigError:
        return None
    return min(one.not_valid_after_utc for one in found)


def _client_ca(path: Path) -> bytes:
    """Only the certificates of the file, in PEM form."""
    source = f"client CA {path}"
    found = checking.certificates_of(files.read(path, "the CA of clients"), source)
    checking.check_authorities(found, datetime.now(UTC), source)
    return b"".join([one.public_bytes(Encoding.PEM) for one in found])


def _context(certificate_path: Path, key_path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate_path, key_path)
    except ssl.SSLError as error:
        reason = (error.reason or "unknown").lower().replace("_", " ")
        raise ConfigError(f"OpenSSL refuses {certificate_path} with {key_path}: {reason}") from None
    except OSError as error:
        raise ConfigError(f"{certificate_path} or {key_path} cannot be read: {error.strerror}") from None
    return context
