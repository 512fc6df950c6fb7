"""`certs approve` on a real API server, as an account that only has the approver's role."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from router import names
from router.controlplane import installing
from router.controlplane.plane import ControlPlane, write_kubeconfig
from router.kube.client import connect
from router.kubelet import csr
from tests.certs.conftest import CERTS, SYSTEM, Installed
from tests.certs.test_uninstall import NODE, node
from tests.webhook.servers import until

POD = "batchgate-agent-demo-1"
WORKER = "worker-1"
ROLES = (("clusterrolebinding", "--clusterrole=batchgate-approver", ()),
         ("rolebinding", "--role=batchgate-approver", ("-n", SYSTEM)),
         ("rolebinding", "--role=batchgate-approver", ("-n", "default")))  # fmt: skip


@pytest.fixture
def agent(installed: Installed) -> Iterator[str]:
    """The user of the agent outside the cluster, with its Node, which claims whatever address it likes."""
    plane = installed.plane
    user = installing.agent(plane).name.removesuffix(".yaml")
    plane.kubectl("create", "-f", "-", user=user, stdin=json.dumps(node()))
    addresses = [{"type": "InternalIP", "address": one} for one in ("10.0.0.8", "10.0.0.9")]
    connect(str(plane.kubeconfig(user))).patch(f"/api/v1/nodes/{NODE}/status", {"status": {"addresses": addresses}})
    plane.kubectl(
        "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": WORKER}})
    )
    yield user
    plane.kubectl("delete", "node", NODE, WORKER)
    plane.kubectl("delete", "csr", "--all")


@pytest.fixture
def in_pod(agent: str, installed: Installed) -> Iterator[str]:
    """The user of an agent in a Pod, with the address 10.0.0.7."""
    plane = installed.plane
    plane.kubectl("create", "-f", "-", stdin=json.dumps(_pod()))
    status = {"status": {"phase": "Running", "podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}}
    words = ("pod", POD, "-n", SYSTEM, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    plane.kubectl("patch", *words)
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={POD}", "-n", SYSTEM)
    token = plane.kubectl("create", "token", names.AGENT_ACCOUNT, *bound).stdout.strip()
    yield write_kubeconfig(plane.place, "agent-in-a-pod", {"token": token}).name.removesuffix(".yaml")
    plane.kubectl("delete", "pod", POD, "-n", SYSTEM, "--force", "--grace-period=0")


@pytest.fixture
def approver(installed: Installed) -> Iterator[Installed]:
    plane = installed.plane
    plane.kubectl("apply", "-k", str(installing.MANIFESTS / "approver"))
    for kind, role, where in ROLES:
        plane.kubectl("create", kind, "approver", role, f"--serviceaccount={SYSTEM}:{CERTS}", *where)
    yield installed
    for kind, _, where in ROLES:
        plane.kubectl("delete", kind, "approver", *where)
    plane.kubectl("delete", "-k", str(installing.MANIFESTS / "approver"))


def _pod() -> dict[str, Any]:
    restricted = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    spec = {
        "serviceAccountName": names.AGENT_ACCOUNT,
        "nodeName": WORKER,
        "containers": [{"name": "agent", "image": "none", "securityContext": restricted}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": POD, "namespace": SYSTEM}, "spec": spec}


def asked(plane: ControlPlane, user: str, *addresses: str) -> str:
    """The name of a request that this user has made."""
    made = csr.request(csr.new_key(), NODE, addresses)
    plane.kubectl("create", "-f", "-", user=user, stdin=json.dumps(made))
    return str(made["metadata"]["name"])


def test_the_role_is_bound_to_nobody(installed: Installed, agent: str) -> None:
    asked(installed.plane, agent, "10.0.0.8")

    assert installed.certs("approve")[0] == 2


def test_an_agents_own_addresses_are_approved_and_no_others(approver: Installed, agent: str, in_pod: str) -> None:
    plane = approver.plane
    api_server = plane.get("service", "kubernetes", "-n", "default")["spec"]["clusterIP"]
    whose = f"the addresses of Pod {POD}, whose token made it, are 10.0.0.7"
    unnamed = "its agent is in no Pod, and no admin named the address"
    expected = {
        asked(plane, in_pod, "10.0.0.7"): "approved",
        asked(plane, in_pod, "10.0.0.8"): f"not approved: it asks for 10.0.0.8: {whose}",
        asked(plane, in_pod, "10.0.0.7", api_server): f"not approved: {api_server} is the address of the API server",
        asked(plane, agent, "10.0.0.8"): f"not approved: it asks for 10.0.0.8: {unnamed}",
        asked(plane, agent, "10.0.0.9"): "approved",
    }

    code, said = approver.certs("approve", "--address", "10.0.0.9")

    assert code == 1
    assert sorted(said.splitlines()) == sorted(
        f"CertificateSigningRequest {name}: {words}" for name, words in expected.items()
    )
    for name, words in expected.items():
        if words == "approved":
            assert until(lambda: plane.get("csr", name)["status"].get("certificate"))  # noqa: B023 - called at once
        else:
            assert "conditions" not in plane.get("csr", name).get("status", {})


def test_an_address_is_an_ip_address(installed: Installed) -> None:
    code, said = installed.certs("approve", "--address", "login.example.org")

    assert (code, "'login.example.org' is no IP address" in said) == (2, True)
