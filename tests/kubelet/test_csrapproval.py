"""Which requests for serving certificates are approved without a hand: those of the agent for one of our Nodes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from router.kubelet import csr
from router.kubelet.csrapproval import approved, concerns_us, refusal

AGENT = "system:serviceaccount:batchgate-system:batchgate-agent"
NODE = "batch.demo.batchgate"
Json = dict[str, Any]


def node(name: str = NODE, provider: str = "batchgate://demo/batch", address: str = "10.0.0.7") -> Json:
    addresses = [{"type": "InternalIP", "address": address}]
    return {"metadata": {"name": name}, "spec": {"providerID": provider}, "status": {"addresses": addresses}}


def asked(name: str = NODE, addresses: tuple[str, ...] = ("10.0.0.7",), **spec: object) -> Json:
    made = csr.request(csr.new_key(), name, addresses)
    return {**made, "spec": {**made["spec"], "username": AGENT, **spec}}


def written(subject: str, *extensions: x509.ExtensionType, key: Any = None) -> str:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name.from_rfc4514_string(subject))
    for one in extensions:
        builder = builder.add_extension(one, critical=False)
    signed = builder.sign(
        key or ec.generate_private_key(ec.SECP256R1()),
        None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256(),
    )
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


SUBJECT = f"CN=system:node:{NODE},O=system:nodes"
MAIL = x509.SubjectAlternativeName([x509.RFC822Name("root@example.org")])
CA = x509.BasicConstraints(ca=True, path_length=None)


@pytest.mark.parametrize(
    ("request_", "nodes", "expected"),
    [
        (asked(), [node()], ""),
        (asked(), [node("other.demo.batchgate"), node()], ""),
        (asked(usages=["server auth", "digital signature"]), [node()], ""),
        (
            asked(signerName="kubernetes.io/kube-apiserver-client"),
            [node()],
            "its signer is kubernetes.io/kube-apiserver-client, not kubernetes.io/kubelet-serving",
        ),
        (asked(username="eve"), [node()], f"eve made it, not {AGENT}"),
        (
            asked(usages=["server auth", "client auth"]),
            [node()],
            "it asks for the usages server auth, client auth, not digital signature and server auth",
        ),
        (asked(request="!"), [node()], "it holds no certificate request in PEM form"),
        (asked(request=base64.b64encode(b"x").decode()), [node()], "it holds no certificate request in PEM form"),
        (
            asked(request=written(SUBJECT, key=ed25519.Ed25519PrivateKey.generate())),
            [node()],
            "its key is no elliptic curve key",
        ),
        (asked(request=written("CN=system:node:x")), [node()], "its subject is CN=system:node:x, not that of a node"),
        (
            asked(request=written(f"{SUBJECT},O=system:masters")),
            [node()],
            f"its subject is {SUBJECT},O=system:masters, not that of a node",
        ),
        (asked(), [], f"there is no Node {NODE}"),
        (asked("worker-1"), [node("worker-1", "aws:///i-1")], "Node worker-1 is no virtual node of ours"),
        (asked(), [node(provider="")], f"Node {NODE} is no virtual node of ours"),
        (asked(request=written(SUBJECT, CA)), [node()], "it asks for the extensions 2.5.29.19"),
        (asked(addresses=("10.0.0.8",)), [node()], f"its addresses are 10.0.0.8; those of Node {NODE} are 10.0.0.7"),
        (
            asked(addresses=("10.0.0.7", "kubernetes.default.svc")),
            [node()],
            f"its addresses are none, or not IP addresses alone; those of Node {NODE} are 10.0.0.7",
        ),
        (
            asked(addresses=("kubernetes.default.svc",)),
            [node(address="kubernetes.default.svc")],
            f"its addresses are none, or not IP addresses alone; those of Node {NODE} are kubernetes.default.svc",
        ),
        (
            asked(request=written(SUBJECT, MAIL)),
            [node()],
            f"its addresses are none, or not IP addresses alone; those of Node {NODE} are 10.0.0.7",
        ),
    ],
)
def test_only_the_agents_request_for_our_node_is_approved(request_: Json, nodes: list[Json], expected: str) -> None:
    assert refusal(request_, nodes, AGENT) == expected


def test_only_what_waits_is_judged() -> None:
    waiting = asked()

    assert concerns_us(waiting)
    assert not concerns_us(approved(waiting))
    assert not concerns_us({**waiting, "metadata": {"name": "csr-x"}})
