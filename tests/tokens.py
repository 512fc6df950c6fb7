"""A server of tokens for a registry that asks for them, as Docker Hub and GitHub have one beside theirs."""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from router.certs import issuing
from tests.registry import PASSWORD, USER

SERVICE: Final = "the registry's service"
_ISSUER: Final = "tests"


@contextlib.contextmanager
def issuing_tokens(directory: Path) -> Iterator[Mapping[str, str]]:
    """A server that gives ``USER`` with ``PASSWORD`` what is asked for, and others a token for nothing.

    :return: what a registry needs to know of it, for ``registry.serving(token=...)``
    """
    now = datetime.now(UTC)
    authority = issuing.make_ca(now)
    pair = issuing.make_server_certificate(authority, ("127.0.0.1",), now, 2)
    bundle = directory / "tokens.pem"
    bundle.write_bytes(authority.public)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(pair))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    realm = f"http://127.0.0.1:{server.server_port}/token"
    try:
        yield {"realm": realm, "service": SERVICE, "issuer": _ISSUER, "rootcertbundle": str(bundle)}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(pair: issuing.Pair) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            said = self.headers.get("Authorization")
            if said not in {None, expected}:
                self.send_error(401)
                return
            body = json.dumps({"token": _token(pair, query.get("scope", []) if said else [])}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _token(pair: issuing.Pair, scopes: list[str]) -> str:
    """A JSON web token, as docker-registry's documentation of token authentication says."""
    certificates = x509.load_pem_x509_certificates(pair.public)
    chain = [base64.b64encode(one.public_bytes(serialization.Encoding.DER)).decode() for one in certificates]
    now = int(time.time())
    claims = {"iss": _ISSUER, "sub": USER, "aud": SERVICE, "exp": now + 300, "nbf": now - 5, "iat": now}
    access = []
    for scope in scopes:
        kind, name, actions = scope.rsplit(":", 2) if scope.count(":") > 1 else ("", "", "")
        access.append({"type": kind, "name": name, "actions": actions.split(",")})
    parts = [{"typ": "JWT", "alg": "ES256", "x5c": chain}, {**claims, "jti": secrets.token_hex(8), "access": access}]
    text = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
    key = serialization.load_pem_private_key(pair.private, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    first, second = decode_dss_signature(key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{text}.{_encoded(first.to_bytes(32, 'big') + second.to_bytes(32, 'big'))}"


def _encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
