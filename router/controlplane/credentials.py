"""Makes the credentials of a control plane: client certificates, token keys, and a kubeconfig for each identity.

Pure except for random keys: takes names and times, returns PEM bytes and kubeconfig values. ``router.certs.issuing``
makes the CAs and the servers' certificates, as for the webhook.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from router.certs.issuing import BACKDATED, Pair

CLIENT_DAYS: Final = 365


@dataclass(frozen=True, slots=True)
class Identity:
    """A name and groups, which the API server reads from a client certificate's common name and organizations."""

    name: str
    groups: tuple[str, ...] = ()


ADMIN: Final = Identity("admin", ("system:masters",))
CONTROLLER_MANAGER: Final = Identity("system:kube-controller-manager")
SCHEDULER: Final = Identity("system:kube-scheduler")
KUBELET_CLIENT: Final = Identity("kube-apiserver-kubelet-client")
"""The API server's identity towards kubelets; it has the cluster role ``system:kubelet-api-admin``."""
FRONT_PROXY: Final = Identity("front-proxy-client")
ETCD_CLIENT: Final = Identity("kube-apiserver-etcd-client")


def node(name: str) -> Identity:
    """The identity of a kubelet; the Node authorizer lets it read what its own Pods need."""
    return Identity(f"system:node:{name}", ("system:nodes",))


def make_client(ca: Pair, identity: Identity, now: datetime) -> Pair:
    """A client certificate for an identity, signed by the CA; valid from now for a year, at most as long as the CA."""
    authority = x509.load_pem_x509_certificate(ca.public)
    authority_key = serialization.load_pem_private_key(ca.private, password=None)
    if not isinstance(authority_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the CA's key is made by router.certs.issuing and an elliptic curve key")
    key = ec.generate_private_key(ec.SECP256R1())
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in identity.groups]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, identity.name)]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(min(now + timedelta(days=CLIENT_DAYS), authority.not_valid_after_utc))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False)
    )
    certificate = builder.sign(authority_key, hashes.SHA256())
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), _private_pem(key))


def make_token_keys() -> Pair:
    """The key pair with which the API server signs service account tokens (ES256)."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Pair(public, _private_pem(key))


def certificate_user(client: Pair) -> dict[str, Any]:
    """The ``user`` of a kubeconfig with a client certificate."""
    return {"client-certificate-data": _encoded(client.public), "client-key-data": _encoded(client.private)}


def kubeconfig(server: str, ca: bytes, name: str, user: dict[str, Any]) -> dict[str, Any]:
    """A kubeconfig of one cluster, one user and namespace ``default``."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "batchgate", "cluster": {"server": server, "certificate-authority-data": _encoded(ca)}}],
        "users": [{"name": name, "user": user}],
        "contexts": [{"name": name, "context": {"cluster": "batchgate", "user": name, "namespace": "default"}}],
        "current-context": name,
    }


def server_names(addresses: Sequence[str]) -> list[str]:
    """The names in the API server's certificate: those that Pods use, and this machine's addresses."""
    inside = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"]
    return [*inside, "localhost", *addresses]


def _encoded(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
