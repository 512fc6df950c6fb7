"""Requests for a serving certificate from the signer ``kubernetes.io/kubelet-serving``.

Pure except for random keys. The API server enforces the signer's rules (``ValidateKubeletServingCSR``): the subject is
a node's, addresses are in subjectAltName, and only a server's usages are requested.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from router.names import REQUEST_PREFIX

SIGNER: Final = "kubernetes.io/kubelet-serving"
PATH: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

RENEWED_AT: Final = 0.75
"""Share of a certificate's life after which a new one is requested; kubelets use 0.7 to 0.9."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A signed request: the certificate and its chain to the CA, PEM."""

    certificate: bytes


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending request: it waits for approval, or it is approved and waits for the signer."""

    approved: bool


@dataclass(frozen=True, slots=True)
class Turned:
    """A request that a person denied or that failed at the signer; ``words`` holds the reason given."""

    words: str


def new_key() -> bytes:
    """A private key for one certificate, PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_of(data: bytes) -> bytes | None:
    """These bytes if they are a key like those of ``new_key``, else None."""
    try:
        private = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError):
        return None
    return data if isinstance(private, ec.EllipticCurvePrivateKey) else None


def request(key: bytes, node: str, addresses: Sequence[str]) -> dict[str, Any]:
    """The CertificateSigningRequest for this key.

    Its name is a hash of the key, so that a repeated request with one key is the same object.

    :param node: one of our Nodes; the signer requires a node's name, TLS clients check only the addresses
    :param addresses: IP addresses or DNS names at which the API server reaches this server, at least one
    """
    private = serialization.load_pem_private_key(key, password=None)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise TypeError("the key is one of new_key")
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    signed = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(names))
        .add_extension(x509.SubjectAlternativeName([_name(address) for address in addresses]), critical=False)
        .sign(private, hashes.SHA256())
    )
    public = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": f"{REQUEST_PREFIX}{hashlib.sha256(public).hexdigest()[:20]}"},
        "spec": {
            "signerName": SIGNER,
            "usages": ["digital signature", "server auth"],
            "request": base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode(),
        },
    }


def outcome(answer: Mapping[str, Any]) -> Issued | Waiting | Turned:
    """The state of a CertificateSigningRequest."""
    status = answer.get("status") or {}
    conditions = {condition.get("type"): condition for condition in status.get("conditions") or ()}
    for kind in ("Denied", "Failed"):
        if kind in conditions:
            words = conditions[kind].get("message") or conditions[kind].get("reason") or "no reason given"
            return Turned(f"{kind.lower()}: {words}")
    if status.get("certificate"):
        return Issued(base64.b64decode(status["certificate"]))
    return Waiting(approved="Approved" in conditions)


def renewal(not_before: datetime, not_after: datetime) -> datetime:
    """The time at which a new certificate is requested."""
    return not_before + (not_after - not_before) * RENEWED_AT


def _name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
