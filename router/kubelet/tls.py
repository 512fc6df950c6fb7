"""TLS contexts of the kubelet API, from certificates in memory.

Shell (OpenSSL). Keys stay off the disk: Python loads a key only from a file, so it gets one in memory (memfd).
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from router.certs import checking, issuing
from router.certs.issuing import Pair
from router.errors import ConfigError

SELF_SIGNED_DAYS: Final = 365
"""Days that a self-signed certificate lasts. A shorter life would be useless, as clients cannot verify it."""


def self_signed(addresses: Sequence[str], now: datetime) -> Pair:
    """A self-signed certificate, as kubelets make it in a cluster that issues none."""
    return issuing.make_server_certificate(issuing.make_ca(now), addresses, now, SELF_SIGNED_DAYS)


def context(pair: Pair, client_ca: bytes | None) -> ssl.SSLContext:
    """A server's context: TLS 1.2 or later, HTTP/1.1; requests client certificates if their CA is known.

    An invalid client certificate ends the handshake. A client without a certificate may bring a token.

    :param client_ca: certificates of the CAs, PEM; None if unknown
    :raises ConfigError: invalid PEM, or a certificate with another key
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    # A resumed session would reuse the client's certificate without verifying it again.
    made.options |= ssl.OP_NO_TICKET
    made.num_tickets = 0
    _load(made, pair)
    if client_ca is not None:
        checking.certificates_of(client_ca, "the CA of client certificates")
        try:
            made.load_verify_locations(cadata=client_ca.decode("ascii", errors="replace"))
        except ssl.SSLError as error:
            raise ConfigError(f"OpenSSL refuses the CA of client certificates: {error.reason or error}") from None
        made.verify_mode = ssl.CERT_OPTIONAL
    return made


def _load(made: ssl.SSLContext, pair: Pair) -> None:
    file = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        Path(f"/proc/self/fd/{file}").write_bytes(pair.public.rstrip() + b"\n" + pair.private)
        made.load_cert_chain(f"/proc/self/fd/{file}")
    except ssl.SSLError as error:
        reason = (error.reason or "unknown").lower().replace("_", " ")
        raise ConfigError(f"OpenSSL refuses the certificate of the kubelet API with its key: {reason}") from None
    finally:
        os.close(file)


def ends_soon(pair: Pair, now: datetime) -> bool:
    """Whether the certificate expires in less than an hour."""
    certificate = checking.certificates_of(pair.public, "the certificate of the kubelet API")[0]
    return now >= certificate.not_valid_after_utc - timedelta(hours=1)
