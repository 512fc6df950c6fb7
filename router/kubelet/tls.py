"""TLS contexts of the kubelet API, from certificates in memory.

Shell: OpenSSL. Keys are on no disk: what Python can only load from a file is handed over in a file without a name.
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
"""Days that a certificate of our own lasts. Nobody can verify it, so that a shorter life would win nothing."""


def self_signed(addresses: Sequence[str], now: datetime) -> Pair:
    """A certificate which nobody has vouched for, as kubelets make it where the cluster does not issue any."""
    return issuing.make_server_certificate(issuing.make_ca(now), addresses, now, SELF_SIGNED_DAYS)


def context(pair: Pair, client_ca: bytes | None) -> ssl.SSLContext:
    """A server's context: TLS 1.2 or later, HTTP/1.1, client certificates asked for where their CA is known.

    A client certificate that does not verify ends the handshake; none at all is a client who brings a token.

    :param client_ca: certificates of the CAs, PEM; None where they are not known
    :raises ConfigError: not PEM, or certificate and key do not belong together
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    # A resumed session would bring a client's certificate along without it being looked at again.
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
    """Whether the certificate lasts for less than an hour."""
    certificate = checking.certificates_of(pair.public, "the certificate of the kubelet API")[0]
    return now >= certificate.not_valid_after_utc - timedelta(hours=1)
