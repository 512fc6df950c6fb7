"""A certificate with which no client that checks any would be content."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from router.certs import issuing


def self_signed(directory: Path) -> ssl.SSLContext:
    """Nobody trusts it, it is for another name, and it has run out."""
    long_ago = datetime.now(UTC) - timedelta(days=300)
    pair = issuing.make_server_certificate(issuing.make_ca(long_ago), ["elsewhere.example"], long_ago)
    file = directory / "server.pem"
    file.write_bytes(pair.public + pair.private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
