"""What an admin gets who installs the webhook as ``manifests/README.md`` says, and what they do with it later."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPSConnection
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane.options import APISERVER
from router.controlplane.plane import CommandFailed
from router.kube.client import connect
from router.kubelet.csr import new_key
from router.kubelet.csr import request as serving_request
from router.policy.loading import load
from tests.deployed.conftest import OPERATING, Deployed, written
from tests.gates import review_of
from tests.kube.wire import await_true
from tests.policies import LARGE_GO_TO_HPC
from tests.webhook.real.gated import container, job, target, template_annotations
from tests.webhook.servers import exchange

Json = dict[str, Any]
SYSTEM = f"--namespace={names.SYSTEM_NAMESPACE}"
POLICY_FILES = {"all.yaml": LARGE_GO_TO_HPC}
JOBS = "/apis/batch/v1/namespaces/physics/jobs"


def pods(deployed: Deployed) -> list[Json]:
    """The webhook's own that are not on their way out."""
    listed = deployed.plane.get("pods", SYSTEM, "-l", "app.kubernetes.io/name=batchgate-webhook")["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


def told(deployed: Deployed) -> list[Json]:
    """What each replica says of itself."""
    place = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods"
    return [
        json.loads(
            deployed.plane.kubectl("get", "--raw", f"{place}/https:{pod['metadata']['name']}:8443/proxy/readyz").stdout
        )
        for pod in pods(deployed)
    ]


def created(deployed: Deployed, sent: Json) -> Json:
    """A Job as ada creates it and as it is stored."""
    done = deployed.plane.kubectl(
        "create", "-f", "-", "-o", "json", "-n", "physics", user="ada", stdin=json.dumps(sent)
    )
    found: Json = json.loads(done.stdout)
    return found


def put(deployed: Deployed, policy: str) -> None:
    """Have this policy in the ConfigMap."""
    (deployed.folder / "policies" / "all.yaml").write_text(policy)
    render = "create configmap batchgate-policies --from-file policies --dry-run=client -o yaml"
    deployed.type(f"kubectl -n {names.SYSTEM_NAMESPACE} {render} | kubectl replace -f -")


def test_it_rolls_out_with_what_the_namespace_demands_of_pods(deployed: Deployed) -> None:
    status = deployed.plane.get("deployment", "batchgate-webhook", SYSTEM)["status"]
    inside = [pod["spec"]["containers"][0]["securityContext"] for pod in pods(deployed)]

    assert (status["readyReplicas"], status["updatedReplicas"], status["replicas"]) == (2, 2, 2)
    assert [one["status"]["containerStatuses"][0]["restartCount"] for one in pods(deployed)] == [0, 0]
    assert inside == 2 * [
        {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    ]
    assert [one["spec"]["securityContext"]["runAsUser"] for one in pods(deployed)] == [65532, 65532]
    assert [(one["ready"], one["synced"], one["errors"]) for one in told(deployed)] == 2 * [(True, True, {})]


def test_a_job_is_judged_through_the_service(deployed: Deployed) -> None:
    routed = created(deployed, job("large", suspend=True))
    kept = created(deployed, job("small", pod={"containers": [container(cpu="100m")]}, suspend=True))

    assert (target(routed), target(kept)) == ("hpc", "cloud")
    assert template_annotations(routed)[names.KEY_REQUESTER] == "ada"
    assert names.KEY_SIGNATURE in template_annotations(routed)


def test_a_new_policy_is_taken_up_by_every_replica_and_a_broken_one_by_none(deployed: Deployed) -> None:
    def errors() -> list[str]:
        return [one["errors"].get("policy", "") for one in told(deployed)]

    denying = LARGE_GO_TO_HPC.replace(
        "rules:\n", 'rules:\n  - {name: none, when: "job.cpus >= 3", deny: "closed today"}\n'
    )
    with contextlib.ExitStack() as stack:
        stack.callback(put, deployed, LARGE_GO_TO_HPC)
        put(deployed, denying)
        await_true(lambda: [one["policy"]["generation"] for one in told(deployed)] == [2, 2], "the policy is in force")
        with pytest.raises(CommandFailed, match="rule none denies this Job: closed today"):
            created(deployed, job("denied"))

        with pytest.raises(AssertionError, match=r"policies\.batchgate\.dev.*all\.yaml:1"):
            put(deployed, "rules: 7\n")

        # It comes nevertheless where nobody is asked about it.
        deployed.plane.kubectl("delete", "validatingwebhookconfiguration", "batchgate")
        stack.callback(deployed.type, "kubectl apply -k site/registration")
        put(deployed, "rules: 7\n")
        await_true(lambda: all("all.yaml:1" in one for one in errors()), "both say what is wrong with it")
        assert [one["ready"] for one in told(deployed)] == [True, True]
        with pytest.raises(CommandFailed, match="closed today"):
            created(deployed, job("denied"))

    await_true(lambda: errors() == ["", ""], "the errors go")
    assert target(created(deployed, job("allowed", suspend=True))) == "hpc"


def test_a_renewed_certificate_is_taken_up_without_a_restart(deployed: Deployed) -> None:
    before = {one["certificate"]["notAfter"] for one in told(deployed)}

    deployed.type("batchgate certs create certs --host-name batchgate.batchgate-system.svc --renew")
    render = "create secret tls batchgate-webhook-tls --cert certs/tls.crt --key certs/tls.key --dry-run=client -o yaml"
    deployed.type(f"kubectl -n {names.SYSTEM_NAMESPACE} {render} | kubectl replace -f -")

    await_true(lambda: not before & {one["certificate"]["notAfter"] for one in told(deployed)}, "both have the new one")
    assert target(created(deployed, job("renewed", suspend=True))) == "hpc"
    assert [one["status"]["containerStatuses"][0]["restartCount"] for one in pods(deployed)] == [0, 0]


def test_a_rolling_restart_drops_no_review(deployed: Deployed) -> None:
    api = connect(str(deployed.plane.kubeconfig("ada")))
    before = {pod["metadata"]["name"] for pod in pods(deployed)}
    stop = threading.Event()

    def ask() -> list[str | None]:
        found = []
        while not stop.wait(0.2):
            sent = job(metadata={"generateName": "rolling-", "labels": {"during": "restart"}}, suspend=True)
            found.append(target(api.create(JOBS, sent)))
        return found

    with ThreadPoolExecutor(2) as clients:
        asking = [clients.submit(ask) for _ in range(2)]
        try:
            deployed.type(f"kubectl -n {names.SYSTEM_NAMESPACE} rollout restart deployment batchgate-webhook")
            deployed.type(
                f"kubectl -n {names.SYSTEM_NAMESPACE} rollout status deployment batchgate-webhook --timeout 5m"
            )
            await_true(lambda: len(pods(deployed)) == 2, "the old ones go")
        finally:
            stop.set()
        judged = [one for client in asking for one in client.result()]

    deployed.plane.kubectl("delete", "jobs", "-n", "physics", "-l", "during=restart", "--wait=false")
    assert not before & {pod["metadata"]["name"] for pod in pods(deployed)}
    assert len(judged) > 20
    assert set(judged) == {"hpc"}


def test_reviews_are_answered_to_the_api_server_alone(deployed: Deployed) -> None:
    """With the component of ``manifests/client-ca`` and the API server's files as docs/operating.md has them."""
    overlay = deployed.folder / "site" / "webhook" / "kustomization.yaml"
    (line,) = [text for named, text in written(OPERATING, "Who may connect").items() if named.endswith("one line more")]
    shown = deployed.plane.directory.parent / "admission" / "webhooks.yaml"
    with contextlib.ExitStack() as stack:
        stack.callback(roll_out, deployed)
        stack.callback(overlay.write_text, overlay.read_text())
        overlay.write_text(overlay.read_text() + line)
        roll_out(deployed)

        assert target(created(deployed, job("shown", suspend=True))) == "hpc"
        (address, _) = [pod["status"]["podIP"] for pod in pods(deployed)]
        assert review_by(deployed, address, "ben") == 403
        assert review_by(deployed, address, None) == 401

        stack.callback(deployed.plane.restart, APISERVER)
        stack.callback(shown.write_text, shown.read_text())
        shown.write_text(shown.read_text().replace("batchgate.batchgate-system.svc", "another.svc"))
        deployed.plane.restart(APISERVER)
        # An API server that has just started may still call a Pod that has gone.
        await_true(lambda: "context deadline exceeded" not in refusal(deployed), "the service's Pods are known")
        assert "the server has asked for the client to provide credentials" in refusal(deployed)


def refusal(deployed: Deployed) -> str:
    """What the API server says to a Job that it cannot have reviewed."""
    with pytest.raises(CommandFailed) as raised:
        created(deployed, job("not-shown", suspend=True))
    return str(raised.value)


def roll_out(deployed: Deployed) -> None:
    """Apply the webhook's overlay and wait."""
    deployed.type("kubectl apply -k site/webhook")
    deployed.type(f"kubectl -n {names.SYSTEM_NAMESPACE} rollout status deployment batchgate-webhook --timeout 5m")
    await_true(lambda: len(pods(deployed)) == 2, "the old ones go")


def review_by(deployed: Deployed, address: str, user: str | None) -> int:
    """The code that somebody is answered who sends a review to a replica directly."""
    context = ssl.create_default_context(cafile=str(deployed.folder / "certs" / "ca.crt"))
    context.check_hostname = False
    if user is not None:
        found = yaml.safe_load(deployed.plane.kubeconfig(user).read_text())["users"][0]["user"]
        for name in ("client-certificate", "client-key"):
            (deployed.folder / name).write_bytes(base64.b64decode(found[f"{name}-data"]))
        context.load_cert_chain(deployed.folder / "client-certificate", deployed.folder / "client-key")
    with contextlib.closing(HTTPSConnection(address, 8443, context=context, timeout=30)) as connection:
        return exchange(connection, "POST", "/mutate", json.dumps(review_of(job())).encode())[0]


def test_status_shows_replicas_policies_certificates_and_requests_that_wait(deployed: Deployed) -> None:
    digest = load(POLICY_FILES).digest[:12]
    request = serving_request(new_key(), "batch.demo.batchgate", ["192.0.2.1"])
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    api = connect(str(deployed.plane.kubeconfig()))
    api.create(path, request)

    shown = json.loads(deployed.type("batchgate status -o json"))
    assert shown["notLookedAt"] == []
    assert (shown["webhook"]["wanted"], shown["webhook"]["ready"]) == (2, 2)
    assert [
        (one["name"], one["ready"], one["known"], one["policy"], one["certificateDays"], one["trouble"])
        for one in shown["webhook"]["replicas"]
    ] == [(pod["metadata"]["name"], True, True, digest, 89, {}) for pod in pods(deployed)]
    assert [one["name"] for one in shown["pendingRequests"]] == [request["metadata"]["name"]]
    table = deployed.type("batchgate status")
    assert "\nWebhook: 2 of 2 replicas are ready\n" in table
    assert f"kubectl certificate approve {request['metadata']['name']}" in table

    deployed.plane.kubectl("certificate", "deny", request["metadata"]["name"])
    assert json.loads(deployed.type("batchgate status -o json"))["pendingRequests"] == []
    api.delete(f"{path}/{request['metadata']['name']}")


def test_status_names_the_rights_that_lack(deployed: Deployed) -> None:
    ada = deployed.plane.kubeconfig("ada")
    nothing = json.loads(deployed.type(f"batchgate status -o json --kubeconfig {ada}"))
    assert (nothing["webhook"], nothing["pendingRequests"]) == (None, [])
    assert [sentence for sentence in nothing["notLookedAt"] if 'resource "deployments"' in sentence]
    assert [sentence for sentence in nothing["notLookedAt"] if 'resource "certificatesigningrequests"' in sentence]

    with contextlib.ExitStack() as stack:
        bind = f"kubectl -n {names.SYSTEM_NAMESPACE} create rolebinding sees --clusterrole=view --user=ada"
        deployed.type(bind)
        stack.callback(deployed.type, f"kubectl -n {names.SYSTEM_NAMESPACE} delete rolebinding sees")
        await_true(lambda: _seen_by_ada(deployed)["webhook"] is not None, "the right is known")
        some = _seen_by_ada(deployed)
    assert [(one["ready"], one["known"]) for one in some["webhook"]["replicas"]] == [(True, False)] * 2
    assert [sentence for sentence in some["notLookedAt"] if 'resource "pods/proxy"' in sentence]


def _seen_by_ada(deployed: Deployed) -> Json:
    shown: Json = json.loads(deployed.type(f"batchgate status -o json --kubeconfig {deployed.plane.kubeconfig('ada')}"))
    return shown
