"""Judges requests for serving certificates of virtual nodes, in place of an admin's hand. Pure.

A request is approved only if the agent's own account made it, and it asks for the name of one of our Nodes and for IP
addresses that are the agent's for certain. Only the agent can make such a Node (guard ``nodes.batchgate.dev``), and it
writes the Node's addresses itself, so these prove nothing. What proves an address:

* for an agent in a Pod, the Pod. The API server notes in the request whose token asked, and the kubelet of a real node
  writes that Pod's addresses;
* for any other agent, an admin who has named the address.

Addresses of other Nodes and of the API server are refused, and so is every DNS name. Many clusters sign with the CA that
all Pods trust: there a certificate for ``kubernetes.default.svc`` would be the API server's.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
_POD_NAME: Final = "authentication.kubernetes.io/pod-name"
_POD_UID: Final = "authentication.kubernetes.io/pod-uid"
_IP_TYPES: Final = frozenset({"InternalIP", "ExternalIP"})


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What requests are held against.

    :param nodes: the cluster's Nodes as they are now
    :param api_server: the addresses of Service ``kubernetes`` and of its endpoints
    :param named: addresses of agents outside the cluster, as an admin has named them
    """

    nodes: Sequence[Json]
    api_server: frozenset[str]
    named: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Requester:
    """The Pod whose token made a request."""

    pod: str
    uid: str


def requester(request: Json) -> Requester | None:
    """The Pod whose token made a request, as the API server noted it; None for any other token."""
    extra = request["spec"].get("extra") or {}
    if _POD_NAME not in extra:
        return None
    return Requester(*("".join(extra.get(key) or ()) for key in (_POD_NAME, _POD_UID)))


def concerns_us(request: Json) -> bool:
    """Whether this is an undecided request of an agent, by its name."""
    decided = bool((request.get("status") or {}).get("conditions") or (request.get("status") or {}).get("certificate"))
    return not decided and str(request["metadata"]["name"]).startswith(names.REQUEST_PREFIX)


def refusal(request: Json, account: str, around: Surroundings, pod: Json | None) -> str:
    """Why a request is not approved; empty if it may be.

    :param account: the user name of agents in the cluster, ``system:serviceaccount:…``. Those of sites' agents outside
        it begin with it and a hyphen, and then name the site
    :param pod: the Pod that ``requester`` names, if it is there
    """
    spec = request["spec"]
    if spec.get("signerName") != SIGNER:
        return f"its signer is {spec.get('signerName')}, not {SIGNER}"
    user = str(spec.get("username"))
    if user != account and not user.startswith(f"{account}-"):
        return f"{user} made it, not {account}"
    if spec.get("usages") not in _USAGES:
        return f"it asks for the usages {', '.join(spec.get('usages') or ())}, not digital signature and server auth"
    asked = _asked(str(spec.get("request") or ""))
    own = f".{user.removeprefix(f'{account}-')}{names.NODE_SUFFIX}" if user != account else ""
    if isinstance(asked, str):
        return asked
    return _differs(asked, around.nodes, own) or _strange(_ips(asked), requester(request), pod, around)


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


def _differs(asked: x509.CertificateSigningRequest, nodes: Iterable[Json], ending: str) -> str:
    subject = [(one.oid, str(one.value)) for one in asked.subject]
    common = [value for oid, value in subject if oid == NameOID.COMMON_NAME]
    node = common[0].removeprefix(_USER) if len(common) == 1 else ""
    wanted = [(NameOID.COMMON_NAME, f"{_USER}{node}"), (NameOID.ORGANIZATION_NAME, _GROUP)]
    if sorted(subject, key=str) != sorted(wanted, key=str):
        return f"its subject is {asked.subject.rfc4514_string()}, not that of a node"
    found = next((one for one in nodes if one["metadata"]["name"] == node), None)
    if found is None or not node.endswith(ending):
        return f"there is no Node {node}" if found is None else f"Node {node} is of another site than the account"
    provider = str((found.get("spec") or {}).get("providerID") or "")
    if not node.endswith(names.NODE_SUFFIX) or not provider.startswith(names.NODE_PROVIDER):
        return f"Node {node} is no virtual node of ours"
    others = [one.oid.dotted_string for one in asked.extensions if one.oid != ExtensionOID.SUBJECT_ALTERNATIVE_NAME]
    if others:
        return f"it asks for the extensions {', '.join(others)}"
    return "" if _ips(asked) else "it must ask for IP addresses, and for nothing else"


def _strange(asked: set[str], by: Requester | None, pod: Json | None, around: Surroundings) -> str:
    """Whether an address is somebody else's, or may be."""
    owners = _owners(around)
    for one in sorted(asked & owners.keys()):
        return f"{one} is the address of {owners[one]}"
    if by is None:
        return _left(asked - around.named, "its agent is in no Pod, and no admin named the address")
    metadata, status = (pod or {}).get("metadata") or {}, (pod or {}).get("status") or {}
    place = str(((pod or {}).get("spec") or {}).get("nodeName") or "")
    if metadata.get("uid") != by.uid or status.get("phase") != "Running" or place.endswith(names.NODE_SUFFIX):
        return f"Pod {by.pod}, whose token made it, does not run on a node of this cluster"
    addresses = {str(one.get("ip")) for one in status.get("podIPs") or ()}
    shown = ", ".join(sorted(addresses)) or "none"
    return _left(asked - addresses, f"the addresses of Pod {by.pod}, whose token made it, are {shown}")


def _left(addresses: set[str], words: str) -> str:
    return f"it asks for {', '.join(sorted(addresses))}: {words}" if addresses else ""


def _owners(around: Surroundings) -> dict[str, str]:
    """Whose these addresses are: other Nodes', and the API server's."""
    found = {
        str(one.get("address")): f"Node {node['metadata']['name']}"
        for node in around.nodes
        if not str(node["metadata"]["name"]).endswith(names.NODE_SUFFIX)
        for one in (node.get("status") or {}).get("addresses") or ()
        if one.get("type") in _IP_TYPES
    }
    return found | dict.fromkeys(around.api_server, "the API server")


def addresses_of(service: Json | None, slices: Iterable[Json]) -> frozenset[str]:
    """The addresses of a Service, and of its EndpointSlices."""
    spec = (service or {}).get("spec") or {}
    own = [spec.get("clusterIP"), *(spec.get("clusterIPs") or ())]
    behind = [address for one in slices for endpoint in one.get("endpoints") or () for address in endpoint["addresses"]]
    return frozenset(str(one) for one in (*own, *behind) if one)


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
    words = "the name is a virtual node's, its agent asks, and the addresses are the agent's"
    condition = {"type": "Approved", "status": "True", "reason": REASON, "message": words}
    return {**request, "status": {**(request.get("status") or {}), "conditions": [condition]}}
