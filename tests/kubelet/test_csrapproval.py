"""Which requests for serving certificates are approved without a hand: those of the agent for one of our Nodes."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from router.kubelet import csr
from router.kubelet.csrapproval import Requester, Surroundings, addresses_of, approved, concerns_us, refusal, requester

AGENT = "system:serviceaccount:batchgate-system:batchgate-agent"
NODE = "batch.demo.batchgate"
Json = dict[str, Any]


def node(name: str = NODE, provider: str = "batchgate://demo/batch", address: str = "10.0.0.7") -> Json:
    addresses = [{"type": "InternalIP", "address": address}]
    return {"metadata": {"name": name}, "spec": {"providerID": provider}, "status": {"addresses": addresses}}


def asked(name: str = NODE, addresses: tuple[str, ...] = ("10.0.0.7",), **spec: object) -> Json:
    made = csr.request(csr.new_key(), name, addresses)
    return {**made, "spec": {**made["spec"], "username": AGENT, "extra": FROM_POD, **spec}}


FROM_POD: Json = {"authentication.kubernetes.io/pod-name": ["agent-1"], "authentication.kubernetes.io/pod-uid": ["u-1"]}


def pod(uid: str = "u-1", phase: str = "Running", place: str = "worker-1", *addresses: str) -> Json:
    ips = [{"ip": one} for one in addresses or ("10.0.0.7", "2001:db8::7")]
    return {"metadata": {"uid": uid}, "spec": {"nodeName": place}, "status": {"phase": phase, "podIPs": ips}}


WORKER: Json = {
    "metadata": {"name": "worker-1"},
    "status": {
        "addresses": [
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
            {"type": "Hostname", "address": "worker-1"},
        ]
    },
}
API_SERVER = frozenset({"10.96.0.1", "10.0.0.2"})


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
        (asked(username=f"{AGENT}-demo"), [node()], ""),
        (asked(username=f"{AGENT}-mo"), [node()], f"Node {NODE} is of another site than the account"),
        (asked(username=f"{AGENT}s"), [node()], f"{AGENT}s made it, not {AGENT}"),
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
        (asked(addresses=("kubernetes.default.svc",)), [node()], "it must ask for IP addresses, and for nothing else"),
        (
            asked(addresses=("10.0.0.7", "kubernetes.default.svc")),
            [node(address="kubernetes.default.svc")],
            "it must ask for IP addresses, and for nothing else",
        ),
        (asked(request=written(SUBJECT, MAIL)), [node()], "it must ask for IP addresses, and for nothing else"),
    ],
)
def test_only_the_agents_request_for_our_node_is_approved(request_: Json, nodes: list[Json], expected: str) -> None:
    assert refusal(request_, AGENT, Surroundings(nodes, API_SERVER), pod()) == expected


OUTSIDE: Json = {}
_NO_POD = "Pod agent-1, whose token made it, does not run on a node of this cluster"


@pytest.mark.parametrize(
    ("asks", "extra", "by", "expected"),
    [
        (("10.0.0.7",), FROM_POD, pod(), ""),
        (("10.0.0.7", "2001:db8::7"), FROM_POD, pod(), ""),
        # What the agent wrote on its Node is no proof.
        (
            ("10.0.0.8",),
            FROM_POD,
            pod(),
            "it asks for 10.0.0.8: the addresses of Pod agent-1, whose token made it, are 10.0.0.7, 2001:db8::7",
        ),
        (
            ("10.0.0.7", "10.0.0.8"),
            FROM_POD,
            pod(),
            "it asks for 10.0.0.8: the addresses of Pod agent-1, whose token made it, are 10.0.0.7, 2001:db8::7",
        ),
        (("192.0.2.7",), FROM_POD, pod(), ("it asks for 192.0.2.7: the addresses of Pod agent-1, whose token made it, "
         "are 10.0.0.7, 2001:db8::7")),
        (("10.0.0.7",), FROM_POD, None, _NO_POD),
        (("10.0.0.7",), FROM_POD, pod("u-2"), _NO_POD),
        (("10.0.0.7",), FROM_POD | {"authentication.kubernetes.io/pod-uid": []}, pod(), _NO_POD),
        (("10.0.0.7",), FROM_POD, pod(phase="Succeeded"), _NO_POD),
        # The agent itself writes the status of Pods on its own nodes.
        (("10.0.0.7",), FROM_POD, pod("u-1", "Running", "batch.demo.batchgate"), _NO_POD),
        # In its host's network a Pod has its node's address.
        (("10.0.0.1",), FROM_POD, pod("u-1", "Running", "worker-1", "10.0.0.1"), "10.0.0.1 is the address of Node worker-1"),
        (("192.0.2.7",), OUTSIDE, None, ""),
        (("192.0.2.8",), OUTSIDE, None, "it asks for 192.0.2.8: its agent is in no Pod, and no admin named the address"),
        (("192.0.2.1",), OUTSIDE, None, "192.0.2.1 is the address of Node worker-1"),
        (("10.96.0.1",), OUTSIDE, None, "10.96.0.1 is the address of the API server"),
        (("10.0.0.2",), OUTSIDE, None, "10.0.0.2 is the address of the API server"),
    ],
)  # fmt: skip
def test_addresses_are_the_agents_for_certain(
    asks: tuple[str, ...], extra: Json, by: Json | None, expected: str
) -> None:
    named = frozenset({"192.0.2.7", "192.0.2.1", "10.96.0.1", "10.0.0.2"})
    around = Surroundings(
        [WORKER, node(address="10.0.0.8"), node("b.other.batchgate", address="192.0.2.7")], API_SERVER, named
    )

    assert refusal(asked(addresses=asks, extra=extra), AGENT, around, by) == expected


def test_the_requesters_pod_is_what_the_api_server_noted() -> None:
    assert requester(asked()) == Requester("agent-1", "u-1")
    assert requester(asked(extra={})) is None
    assert requester(asked(extra={"authentication.kubernetes.io/credential-id": ["x"]})) is None


def test_the_addresses_of_a_service_are_its_own_and_those_behind_it() -> None:
    service = {"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "2001:db8::1"]}}
    slices: list[Json] = [{"endpoints": [{"addresses": ["10.0.0.2"]}]}, {"endpoints": None}, {}]

    assert addresses_of(service, slices) == {"10.96.0.1", "2001:db8::1", "10.0.0.2"}
    assert addresses_of(None, []) == frozenset()


def test_only_what_waits_is_judged() -> None:
    waiting = asked()

    assert concerns_us(waiting)
    assert not concerns_us(approved(waiting))
    assert not concerns_us({**waiting, "metadata": {"name": "csr-x"}})
