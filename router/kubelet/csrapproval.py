"""Judges requests for serving certificates of virtual nodes, in place of an admin's hand. Pure.

A request is approved only if the agent's own account made it, and it asks for nothing but the name and the IP addresses
of one of our Nodes. Only the agent can make such a Node (guard ``nodes.batchgate.dev``). It also writes the Node's
addresses, so a DNS name there proves nothing: many clusters sign with the CA that all Pods trust, and a certificate for
``kubernetes.default.svc`` would be the API server's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from router import names
from router.kubelet.csr import SIGNER

Json = Mapping[str, Any]

REASON: Final = "BatchgateApproved"
_USAGES: Final = (["digital signature", "server auth"], ["server auth", "digital signature"])
_GROUP: Final = "system:nodes"
_USER: Final = "system:node:"


def concerns_us(request: Json) -> bool:
    """Whether this is an undecided request of an agent, by its name."""
    decided = bool((request.get("status") or {}).get("conditions") or (request.get("status") or {}).get("certificate"))
    return not decided and str(request["metadata"]["name"]).startswith(names.REQUEST_PREFIX)


def refusal(request: Json, nodes: Iterable[Json], account: str) -> str:
    """Why a request is not approved; empty if it may be.

    :param nodes: the cluster's Nodes as they are now
    :param account: the agent's user name, ``system:serviceaccount:…``
    """
    spec = request["spec"]
    if spec.get("signerName") != SIGNER:
        return f"its signer is {spec.get('signerName')}, not {SIGNER}"
    if spec.get("username") != account:
        return f"{spec.get('username')} made it, not {account}"
    if spec.get("usages") not in _USAGES:
        return f"it asks for the usages {', '.join(spec.get('usages') or ())}, not digital signature and server auth"
    asked = _asked(str(spec.get("request") or ""))
    return asked if isinstance(asked, str) else _differs(asked, nodes)


def _asked(text: str) -> x509.CertificateSigningRequest | str:
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(text, validate=True))
        if not asked.is_signature_valid:
            return "it is not signed by its own key"
        key = asked.public_key()
        list(asked.extensions)
    except (ValueError, binascii.Error, UnsupportedAlgorithm, x509.DuplicateExtension):
        return "it holds no certificate request in PEM form"
    return asked if isinstance(key, ec.EllipticCurvePublicKey) else "its key is no elliptic curve key"


def _differs(asked: x509.CertificateSigningRequest, nodes: Iterable[Json]) -> str:
    subject = [(one.oid, str(one.value)) for one in asked.subject]
    common = [value for oid, value in subject if oid == NameOID.COMMON_NAME]
    node = common[0].removeprefix(_USER) if len(common) == 1 else ""
    wanted = [(NameOID.COMMON_NAME, f"{_USER}{node}"), (NameOID.ORGANIZATION_NAME, _GROUP)]
    if sorted(subject, key=str) != sorted(wanted, key=str):
        return f"its subject is {asked.subject.rfc4514_string()}, not that of a node"
    found = next((one for one in nodes if one["metadata"]["name"] == node), None)
    if found is None:
        return f"there is no Node {node}"
    provider = str((found.get("spec") or {}).get("providerID") or "")
    if not node.endswith(names.NODE_SUFFIX) or not provider.startswith(names.NODE_PROVIDER):
        return f"Node {node} is no virtual node of ours"
    others = [one.oid.dotted_string for one in asked.extensions if one.oid != ExtensionOID.SUBJECT_ALTERNATIVE_NAME]
    if others:
        return f"it asks for the extensions {', '.join(others)}"
    addresses = {str(one["address"]) for one in (found.get("status") or {}).get("addresses") or ()}
    wanted_for = _ips(asked)
    if not wanted_for or wanted_for != addresses:
        shown = ", ".join(sorted(wanted_for)) or "none, or not IP addresses alone"
        return f"its addresses are {shown}; those of Node {node} are {', '.join(sorted(addresses)) or 'none'}"
    return ""


def _ips(asked: x509.CertificateSigningRequest) -> set[str]:
    """The IP addresses; empty without any, or if there are names of another kind."""
    try:
        every = asked.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    if any(not isinstance(one, x509.IPAddress) for one in every):
        return set()
    return {str(one.value) for one in every}


def approved(request: Json) -> dict[str, Any]:
    """The request with its approval, for the subresource ``approval``."""
    words = "names and addresses are those of a virtual node, and its agent asks"
    condition = {"type": "Approved", "status": "True", "reason": REASON, "message": words}
    return {**request, "status": {**(request.get("status") or {}), "conditions": [condition]}}
