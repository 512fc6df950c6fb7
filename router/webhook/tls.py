"""The SSL context of the webhook, made from a certificate and a key that were checked first.

Shell: reads two files and the clock.
"""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from router.certs import checking, files
from router.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ServerTls:
    """A certificate in force. Two are equal where certificate and key are."""

    context: ssl.SSLContext = field(compare=False, repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    not_after: datetime


def load(certificate_path: Path, key_path: Path, host_names: Sequence[str]) -> ServerTls:
    """Read, check and load certificate and key.

    :raises ConfigError: unreadable, not PEM, expired, for another host, or the two do not belong together
    """
    certificate_bytes = files.read(certificate_path, "the webhook's certificate")
    key_bytes = files.read(key_path, "the key of the webhook's certificate")
    certificate = checking.certificates_of(certificate_bytes, f"certificate {certificate_path}")[0]
    key = checking.private_key_of(key_bytes, f"key {key_path}")
    checking.check_server(certificate, key, host_names, datetime.now(UTC), f"certificate {certificate_path}")
    context = _context(certificate_path, key_path)
    # OpenSSL read the files once more, by name: what it got must be what was checked.
    if files.read(certificate_path, "") != certificate_bytes or files.read(key_path, "") != key_bytes:
        raise ConfigError(f"{certificate_path} and {key_path} changed while they were read; they are read again")
    return ServerTls(context, certificate_bytes, key_bytes, certificate.not_valid_after_utc)


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
