"""`certs approve` on a real API server, as an account that only has the approver's role."""

from __future__ import annotations

import json

from router.controlplane import installing
from router.kube.client import connect
from router.kubelet import csr
from tests.certs.conftest import CERTS, SYSTEM, Installed
from tests.certs.test_uninstall import NODE, node
from tests.webhook.servers import until


def test_the_agents_request_is_approved_and_another_is_not(installed: Installed) -> None:
    plane = installed.plane
    agent = installing.agent(plane).name.removesuffix(".yaml")
    plane.kubectl("create", "-f", "-", user=agent, stdin=json.dumps(node()))
    address = {"status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.7"}]}}
    connect(str(plane.kubeconfig(agent))).patch(f"/api/v1/nodes/{NODE}/status", address)
    ours, other = csr.request(csr.new_key(), NODE, ["10.0.0.7"]), csr.request(csr.new_key(), NODE, ["10.0.0.8"])
    for one in (ours, other):
        plane.kubectl("create", "-f", "-", user=agent, stdin=json.dumps(one))
    assert installed.certs("approve")[0] == 2  # the role is bound to nobody

    plane.kubectl("apply", "-k", str(installing.MANIFESTS / "approver"))
    account = f"--serviceaccount={SYSTEM}:{CERTS}"
    plane.kubectl("create", "clusterrolebinding", "approver", "--clusterrole=batchgate-approver", account)
    code, said = installed.certs("approve")

    name, refused = ours["metadata"]["name"], other["metadata"]["name"]
    differs = f"its addresses are 10.0.0.8; those of Node {NODE} are 10.0.0.7"
    assert (code, sorted(said.splitlines())) == (
        1,
        sorted(
            [
                f"CertificateSigningRequest {name}: approved",
                f"CertificateSigningRequest {refused}: not approved: {differs}",
            ]
        ),
    )
    assert until(lambda: plane.get("csr", name)["status"].get("certificate"))
    assert "conditions" not in plane.get("csr", refused).get("status", {})
    plane.kubectl("delete", "csr", name, refused)
    plane.kubectl("delete", "node", NODE)
    plane.kubectl("delete", "clusterrolebinding", "approver")
    plane.kubectl("delete", "-k", str(installing.MANIFESTS / "approver"))
