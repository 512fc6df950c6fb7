"""A whole life of the installed programs, after which no right was refused and each one was used.

The requests come from the API server's audit log, so that no reading of our code decides what is used.
"""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.request
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.certs import ensuring
from router.certs.ensuring import Target
from router.certs.rotation import Lives, Rules
from router.controlplane.plane import ControlPlane
from router.controlplane.processes import Component
from router.kube import tokens
from router.kube.client import connect
from router.replay.policyreports import FORMS
from tests import reportapis
from tests.rights import audit
from tests.rights.conftest import NODE, SITE, Cluster, policy
from tests.rights.pods import SYSTEM, ended, listening
from tests.webhook.real.gated import container, job
from tests.webhook.servers import until

pytestmark = pytest.mark.timeout(900)

Json = dict[str, Any]
SITES_OWN = names.agent_account(SITE)
"""The account of the agents of one site outside the cluster."""
UNUSED = {
    "batchgate-approver: approve signers.certificates.k8s.io kubernetes.io/kubelet-serving": (
        "the API server's own admission asks for it while it takes the approval, without a request"
    ),
    **{
        f"batchgate-policy-reports: create {form.plural}.{form.group} batchgate-audit": (
            "the API server asks for it while a patch (server-side apply) makes the object, without a request"
        )
        for form in FORMS
    },
}
"""Rights without a request of their own, each with the reason for it."""


def test_every_right_is_used_and_none_is_refused(cluster: Cluster) -> None:
    webhook = installed(cluster)
    first, standby, others = agents(cluster)
    jobs_live(cluster)
    nodes_live(cluster)
    reported(cluster)
    for account in (names.AGENT_ACCOUNT, SITES_OWN):
        checked(cluster, account)
    led_on(cluster, first, standby)
    for process in (webhook, standby, *others):
        process.end()
    renewed(cluster)
    renewed_token(cluster)
    run_job(cluster, "batchgate-uninstall")

    requests, rights = cluster.asked(), audit.granted(cluster.chart)
    unused = {str(one).rpartition(" by ")[0] for one in audit.unused(rights, requests)}
    assert audit.refused(requests) == []
    assert unused == set(UNUSED), "\n".join(sorted(unused))
    assert {one.right.account for one in requests} == {one.account for one in rights} | {SITES_OWN}
    # The site's own account has the rights of every agent, of which its agent uses a part here, and those of its own role.
    own = [one for one in audit.granted(cluster.joined) if one.binding.endswith("-token")]
    assert [(one.resource, one.verb, one.name) for one in own] == [("serviceaccounts/token", "create", SITES_OWN)]
    assert audit.unused(own, requests) == []


def installed(cluster: Cluster) -> Component:
    """The certificates, the webhook behind its Service, its registration."""
    run_job(cluster, "batchgate-certs")
    webhook = cluster.pods.start("batchgate-webhook", cluster.template("Deployment", "batchgate-webhook"))
    listening(webhook)
    run_job(cluster, "batchgate-activate")
    return webhook


def run_job(cluster: Cluster, name: str) -> None:
    """Run a Job of the chart to its end."""
    ended(cluster.pods.start(name, cluster.template("Job", name)))


def agents(cluster: Cluster) -> tuple[Component, Component, list[Component]]:
    """An agent as in the cluster, its standby as `site add` has it join, and whatever else the chart runs."""
    name = f"batchgate-agent-{SITE}"
    template = cluster.template("Deployment", name)
    first = cluster.pods.start(name, template)
    until(lambda: ready(cluster.plane))
    watching = ("--policy=", f"--policy-configmap={names.POLICIES_CONFIG_MAP}")
    standby = cluster.pods.start(f"{name}.standby", template, watching, account=SITES_OWN)
    rest = [
        one["metadata"]["name"]
        for one in cluster.chart
        if one["kind"] == "Deployment" and one["metadata"]["name"] not in {name, "batchgate-webhook"}
    ]
    others = [cluster.pods.start(one, cluster.template("Deployment", one), watching) for one in rest]
    return first, standby, others


def ready(plane: ControlPlane) -> bool:
    """Whether the virtual Node is there and Ready."""
    found = plane.run_kubectl("get", "node", NODE, "-o", "jsonpath={.status.conditions[?(@.type=='Ready')].status}")
    return found.stdout == "True"


def create(cluster: Cluster, *sent: Json) -> None:
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": sent})
    cluster.plane.kubectl("create", "-n", "default", "-f", "-", user="ada", stdin=text)


def phases(cluster: Cluster, name: str) -> list[str]:
    found = cluster.plane.get("pods", "-n", "default", "-l", f"job-name={name}")["items"]
    return [one["status"].get("phase", "") for one in found if "deletionTimestamp" not in one["metadata"]]


def script(text: str, **fields: Any) -> Json:
    """A Pod whose one container does this."""
    return {"containers": [container(cpu="2", command=["bash", "-c", text], **fields)]}


def jobs_live(cluster: Cluster) -> None:
    """One ends, with what a ConfigMap gives it, and shows its log; one is deleted, one evicted, one lacks its image."""
    plane, where = cluster.plane, ("-n", "default")
    plane.kubectl("create", "configmap", "settings", *where, "--from-literal=WORD=hello", user="ada")
    given = script(
        'echo "$WORD" | tee "$BATCHGATE_RESULTS_DIR/word" ', envFrom=[{"configMapRef": {"name": "settings"}}]
    )
    sleeping = script("sleep 600")
    pulls = {"imagePullSecrets": [{"name": "pulls"}], "containers": [container(image="192.0.2.1:5000/a:1")]}
    create(cluster, job("ends", pod=given), job("deleted", pod=sleeping), job("evicted", pod=sleeping))
    create(cluster, job("pulled", pod=pulls, metadata={"labels": {"pulls": "yes"}}))
    until(lambda: phases(cluster, "ends") == ["Succeeded"])
    until(lambda: plane.run_kubectl("logs", *where, "job/ends", user="ada").stdout == "hello\n")
    until(lambda: [phases(cluster, name) for name in ("deleted", "evicted")] == [["Running"]] * 2)
    (pod,) = plane.get("pods", *where, "-l", "job-name=evicted")["items"]
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    plane.kubectl(
        "create", "--raw", f"/api/v1/namespaces/default/pods/{name}/eviction", "-f", "-", stdin=json.dumps(eviction)
    )
    until(lambda: requested(cluster, "get", "secrets", "pulls"))
    plane.kubectl("delete", "jobs", "--all", *where, "--wait=false", user="ada")
    until(lambda: plane.get("pods", *where)["items"] == [])


def requested(cluster: Cluster, verb: str, resource: str, name: str = "") -> bool:
    """Whether the audit log shows such a request."""
    wanted = (verb, resource, name)
    return any((one.right.verb, one.right.resource, name and one.right.name) == wanted for one in cluster.asked())


def nodes_live(cluster: Cluster) -> None:
    """A DaemonSet comes, somebody with a token asks the virtual kubelet, a Node is deleted and comes again."""
    plane = cluster.plane
    pod = {"tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "none"}]}
    spec = {"selector": {"matchLabels": {"app": "d"}}, "template": {"metadata": {"labels": {"app": "d"}}, "spec": pod}}
    plane.apply(
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "default"}, "spec": spec}
    )
    until(lambda: [one for one in plane.get("pods", "-n", "default")["items"] if one["spec"].get("nodeName") == NODE])
    plane.kubectl("delete", "daemonset", "d", "-n", "default")

    node = plane.get("node", NODE)
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    token = plane.kubectl("create", "token", "default", "-n", "default").stdout.strip()
    request = urllib.request.Request(f"https://{cluster.pods.address}:{port}/pods")
    request.add_header("Authorization", f"Bearer {token}")
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(request, context=context, timeout=30)

    plane.kubectl("delete", "node", NODE)
    until(lambda: ready(plane))
    until(lambda: requested(cluster, "patch", "configmaps", names.QUEUES_CONFIG_MAP))
    until(lambda: requested(cluster, "patch", "events"))  # of the Node that is not its own, for the second time


def reported(cluster: Cluster) -> None:
    """The chart's CronJob writes a report by each API, and takes it away again."""
    plane, name = cluster.plane, "batchgate-policy-reports"

    def run() -> None:
        ended(cluster.pods.start(name, cluster.template("CronJob", name)))

    for form in FORMS:
        reportapis.define(plane, form)
        create(cluster, job("counted", pod={"containers": [container(cpu="1")]}))
        run()
        (made,) = plane.get(f"{form.plural}.{form.group}", "-A")["items"]
        assert (made["metadata"]["namespace"], made["summary"]["pass"]) == ("default", 1)
        plane.kubectl("delete", "jobs", "--all", "-n", "default", user="ada")
        run()
        assert plane.get(f"{form.plural}.{form.group}", "-A")["items"] == []
        reportapis.remove(plane, form)


def checked(cluster: Cluster, account: str) -> None:
    """``site check`` on a login node finds something, and tells the agents."""
    directory = cluster.pods.root / f"checked-by-{account}"
    directory.mkdir()
    (directory / "all.yaml").write_text(policy(Path("/proc/1/nowhere")))
    kubeconfig = cluster.plane.service_account(names.SYSTEM_NAMESPACE, account)
    state = cluster.pods.root / f"batchgate-agent-{SITE}" / "state" / "queue"
    words = [
        "site",
        "check",
        SITE,
        "--policy",
        str(directory),
        "--local-state",
        str(state),
        "--kubeconfig",
        str(kubeconfig),
    ]
    done = subprocess.run([sys.executable, "-m", "router", *words], capture_output=True, text=True, check=False)
    assert "agents of site" in done.stderr, done


def led_on(cluster: Cluster, first: Component, standby: Component) -> None:
    """The leader ends; the other leads, and takes up a new policy."""

    def leads() -> bool:
        lease = cluster.plane.get("lease", names.lease_name(SITE), *SYSTEM)
        return str(lease["spec"]["holderIdentity"]).startswith(standby.name)

    first.end()
    until(leads)
    data = {"data": {"all.yaml": policy(cluster.pods.root) + "controllers: []\n"}}
    cluster.plane.kubectl(
        "patch", "configmap", names.POLICIES_CONFIG_MAP, *SYSTEM, "--type=merge", "-p", json.dumps(data)
    )
    until(lambda: ready(cluster.plane))


def renewed_token(cluster: Cluster) -> None:
    """What ``agent --renew-token`` asks for when half of its token's life is over."""
    api = connect(str(cluster.plane.service_account(names.SYSTEM_NAMESPACE, SITES_OWN)))
    answer = api.create(tokens.path(names.SYSTEM_NAMESPACE, SITES_OWN), tokens.request(3600))
    assert tokens.claims(tokens.granted(answer)).user.endswith(SITES_OWN)


def renewed(cluster: Cluster) -> None:
    """Years go by for each account that renews certificates and keys; the clock goes on for it alone.

    Before each, somebody has deleted what it keeps.
    """
    rights = audit.granted(cluster.chart)
    accounts = {
        one.account for one in rights if (one.resource, one.verb, one.name) == ("secrets", "update", names.WEBHOOK_CA)
    }
    hosts = ensuring.host_names(names.SERVICE, names.SYSTEM_NAMESPACE)
    target = Target(Rules(names.SYSTEM_NAMESPACE, hosts, lives=Lives(signing=timedelta(days=100))))
    now = datetime.now(UTC)
    for account in sorted(accounts):
        api = connect(str(cluster.plane.service_account(names.SYSTEM_NAMESPACE, account)))
        did: list[str] = []
        kept = (names.WEBHOOK_CA, names.WEBHOOK_TLS, names.WEBHOOK_SIGNING)
        cluster.plane.kubectl(
            "delete", *SYSTEM, *(f"secret/{one}" for one in kept), f"configmap/{names.PUBLIC_KEYS_CONFIG_MAP}"
        )
        for _ in range(60):
            now += timedelta(days=20)
            ensuring.ensure(api, target, did.append, clock=partial(datetime.fromtimestamp, now.timestamp(), UTC))
        assert any("old CA is no longer trusted" in one for one in did), did
        assert any("signs with key" in one for one in did), did
