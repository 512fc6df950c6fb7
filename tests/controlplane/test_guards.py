"""The guards of manifests/, asked on a real API server: who may do what to Pods, Bindings, Nodes.

Nearly everything is asked as a dry run by an admin who impersonates somebody: RBAC would let an admin do all of it, so
that what is refused is refused by a guard.
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from router import names
from router.controlplane.installing import MANIFESTS
from router.controlplane.plane import ControlPlane
from tests.since import since

NODE = names.node_name("demo", "batch")
NODES = "/api/v1/nodes"
AGENT = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.AGENT_ACCOUNT}"
OF_SITE, OF_ANOTHER = f"{AGENT}-demo", f"{AGENT}-other"
"""The accounts of agents outside the cluster, of one site each."""
VIRTUAL_KUBELET = f"system:node:{NODE}"
KUBELET = "system:node:cloud-1"
JOB_CONTROLLER = "system:serviceaccount:kube-system:job-controller"
DAEMON_SETS = "system:serviceaccount:kube-system:daemon-set-controller"
REPLICA_SETS = "system:serviceaccount:kube-system:replicaset-controller"
POD_GC = "system:serviceaccount:kube-system:pod-garbage-collector"
CLOUD = "system:serviceaccount:kube-system:cloud-node-lifecycle-controller"
ALL_CONTROLLERS = "system:kube-controller-manager"
SCHEDULER = "system:kube-scheduler"
PERSON = "boss"
"""Somebody whom RBAC allows everything."""
PERSONS_GROUPS = "system:masters\nsystem:authenticated"
"""Those that the asker impersonates, and the one that the API server adds."""

Json = dict[str, Any]


def pod(spec: Json | None = None, metadata: Json | None = None) -> Json:
    container = {"name": "c", "image": "busybox:1.36", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "p-", **(metadata or {})},
        "spec": {"containers": [container], **(spec or {})},
    }


def affinity(term: Json) -> Json:
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


FIELD = {"key": "metadata.name", "operator": "In", "values": [NODE]}
PLAIN = pod()
SELECTING = pod({"nodeSelector": {names.KEY_QUEUE: "batch"}})
REQUIRING = pod(affinity({"matchExpressions": [{"key": names.KEY_SITE, "operator": "Exists"}]}))
BY_FIELD = pod(affinity({"matchFields": [FIELD]}))
FOR_HPC = {
    "named": pod({"nodeName": NODE}),
    "selecting": SELECTING,
    "requiring": REQUIRING,
    "labelled": pod(metadata={"labels": {names.KEY_TARGET: "hpc"}}),
    "annotated": pod(metadata={"annotations": {names.KEY_SCRIPT: "#!/bin/sh"}}),
    "below": pod(metadata={"annotations": {"x.batchgate.dev/y": "z"}}),
    "hinted": pod(metadata={"annotations": {names.HINT_WALLTIME: "1h"}}),
}
OTHERS = pod(
    {"nodeName": "cloud-1", "nodeSelector": {"notbatchgate.dev/x": "y"}},
    {"labels": {"app": "x"}, "annotations": {"batchgate.devious/x": "y", "note": "batchgate.dev/script"}},
)


class Asker:
    """Asks as anybody, over one connection: kubectl would take ten times as long for each question."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        context = ssl.create_default_context(cafile=str(plane.ca_file))
        context.load_cert_chain(plane.place.pki("admin.crt"), plane.place.pki("admin.key"))
        port = plane.place.ports.apiserver
        self._connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        self._namespace = namespace

    def __call__(self, user: str, method: str, path: str, body: Json | None = None, *, dry: bool = True) -> str:
        """What the guards say to this, empty where they allow it. Whatever else refuses it is an error of the test."""
        groups = ["system:masters", *(["system:serviceaccounts"] if user.startswith("system:serviceaccount:") else [])]
        whole = path if path.startswith("/") else f"/api/v1/namespaces/{self._namespace}/{path}"
        self._connection.putrequest(method, f"{whole}?dryRun=All" if dry else whole)
        # A DELETE with a body would take its options from there, and be no dry run.
        content = json.dumps(body).encode() if body else b""
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(content))), ("Impersonate-User", user)):
            self._connection.putheader(name, value)
        for group in groups:
            self._connection.putheader("Impersonate-Group", group)
        self._connection.endheaders(content)
        response = self._connection.getresponse()
        said: str = json.loads(response.read()).get("message", "")
        if response.status < 300:
            return ""
        assert "ValidatingAdmissionPolicy" in said, f"{method} {path} as {user}: {said}"
        return said

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module")
def ask(plane: ControlPlane) -> Iterator[Asker]:
    """In one namespace for all: making one takes longer than what is asked in it."""
    plane.make_namespaces({"guards": ()})
    asker = Asker(plane, "guards")
    yield asker
    asker.close()
    plane.kubectl("delete", "namespace", "guards", "--wait=false")


@pytest.fixture
def made(ask: Asker) -> Iterator[Callable[[str, Json], str]]:
    """Makes Pods for real, gone after the test; their names."""
    paths: list[str] = []

    def make(user: str, thing: Json) -> str:
        assert ask(user, "POST", "pods", thing, dry=False) == ""
        name: str = thing["metadata"]["name"]
        paths.append(f"pods/{name}")
        return name

    yield make
    for path in paths:
        now = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        assert ask(PERSON, "DELETE", path, now, dry=False) == ""


@pytest.fixture
def routed(virtual_node: str, made: Callable[[str, Json], str]) -> str:
    """A Pod on our node, as the Job controller makes it. Were there no such node, Kubernetes would take it away."""
    thing = pod(
        {"nodeName": NODE, "nodeSelector": {names.KEY_QUEUE: "batch"}},
        {"name": "routed", "labels": {names.KEY_TARGET: "hpc"}, "annotations": {names.KEY_SCRIPT: "x"}},
    )
    return made(JOB_CONTROLLER, thing)


def job(node: str) -> Json:
    spec = {**pod({"nodeName": node, "restartPolicy": "Never"})["spec"]}
    metadata = {"generateName": "j-"}
    template = {"metadata": {"annotations": {names.KEY_SIGNATURE: "x"}}, "spec": spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def test_a_job_names_our_node_only_where_the_webhook_is_asked(plane: ControlPlane, ask: Asker) -> None:
    """Nobody, not even an admin; elsewhere the webhook takes out what it has not put there itself."""
    jobs = "/apis/batch/v1/namespaces/{}/jobs"

    assert "does not in namespace guards" in ask(PERSON, "POST", jobs.format("guards"), _signed_for(PERSON, NODE))
    assert "does not in namespace guards" in ask(
        JOB_CONTROLLER, "POST", jobs.format("guards"), _signed_for(JOB_CONTROLLER, NODE)
    )
    assert ask(PERSON, "POST", jobs.format("guards"), _signed_for(PERSON)) == ""

    plane.make_namespaces({"guards-gated": ()})
    try:
        plane.kubectl("label", "namespace", "guards-gated", f"{names.LABEL_GATE}={names.GATE_ENABLED}")
        until = time.monotonic() + 60  # that the API server sees the label, a moment later
        mine = _signed_for(PERSON, NODE)
        while said := ask(PERSON, "POST", jobs.format("guards-gated"), mine):
            assert time.monotonic() < until, said
            time.sleep(0.05)
    finally:
        plane.kubectl("delete", "namespace", "guards-gated", "--wait=false")


def test_a_label_does_not_gate_a_namespace_of_the_clusters_own(plane: ControlPlane, ask: Asker) -> None:
    """The webhook is not asked there, so the guard stays."""
    plane.kubectl("label", "namespace", "kube-public", f"{names.LABEL_GATE}={names.GATE_ENABLED}")
    try:
        for _ in range(20):  # for as long as the API server may need to see the label
            said = ask(PERSON, "POST", "/apis/batch/v1/namespaces/kube-public/jobs", _signed_for(PERSON, NODE))
            assert "does not in namespace kube-public" in said
            time.sleep(0.1)
    finally:
        plane.kubectl("label", "namespace", "kube-public", f"{names.LABEL_GATE}-")


JOBS = "/apis/batch/v1/namespaces/guards/jobs"


def _signed_for(requester: str | None, node: str = "cloud-1") -> Json:
    made = job(node)
    if requester is not None:
        made["spec"]["template"]["metadata"]["annotations"][names.KEY_REQUESTER] = requester
    return made


def test_a_signed_job_is_sent_by_whom_it_is_signed_for(ask: Asker) -> None:
    """Whoever got a patch from the webhook, or reads somebody's stored Job, has their proof."""
    for user, requester in ((PERSON, "ada"), (PERSON, None), ("ben", "ada"), (JOB_CONTROLLER, "ada")):
        assert f"and was sent by {user}" in ask(user, "POST", JOBS, _signed_for(requester))
    cron = "system:serviceaccount:kube-system:cronjob-controller"
    for user in (PERSON, cron):
        assert ask(user, "POST", JOBS, _signed_for(user)) == ""


def _judged_by(groups: str | None) -> Json:
    made = _signed_for(PERSON)
    if groups is not None:
        made["spec"]["template"]["metadata"]["annotations"][names.KEY_GROUPS] = groups
    return made


@pytest.mark.parametrize(
    ("groups", "accepted"),
    [(None, True), (PERSONS_GROUPS, True), (f"{PERSONS_GROUPS}\nmore", False), ("system:masters", False), ("", False)],
)
def test_a_signed_job_is_sent_by_one_of_the_groups_it_is_signed_for(
    ask: Asker, groups: str | None, accepted: bool
) -> None:
    """A rule may give more to some groups, and less to others: too many are forged as well as too few."""
    refused = f"this Job is signed for other groups than those of {PERSON}, who sent it: apply your own Job"

    assert (refused in ask(PERSON, "POST", JOBS, _judged_by(groups))) is not accepted


GATED = "guards-gate"


@pytest.fixture(scope="module")
def gate(plane: ControlPlane, ask: Asker) -> Iterator[Callable[[bool], None]]:
    """Takes a namespace into the gate and out again; with a routed Job and one in the cloud, both suspended."""
    plane.make_namespaces({GATED: ()})
    label, probe = f"{names.LABEL_GATE}={names.GATE_ENABLED}", _signed_for(PERSON, NODE)

    def take(into: bool) -> None:
        plane.kubectl("label", "namespace", GATED, label if into else f"{names.LABEL_GATE}-", "--overwrite")
        until = time.monotonic() + 60  # that the API server sees the label, a moment later
        while (ask(PERSON, "POST", _jobs(), probe) == "") != into:
            assert time.monotonic() < until
            time.sleep(0.05)

    take(True)
    for thing in (_stored("routed", NODE), _stored("cloud", "")):
        assert ask(PERSON, "POST", _jobs(), thing, dry=False) == ""
    yield take
    plane.kubectl("delete", "namespace", GATED, "--wait=false")


def _jobs(name: str = "") -> str:
    return f"/apis/batch/v1/namespaces/{GATED}/jobs" + (f"/{name}" if name else "")


def _stored(name: str, node: str) -> Json:
    """A suspended Job as the webhook leaves it, routed if it has a node."""
    made = job(node)
    metadata: Json = {"name": name}
    template = made["spec"]["template"]
    if node:
        labels = {names.KEY_TARGET: "hpc", names.KEY_SITE: "demo", names.KEY_QUEUE: "batch"}
        proof = {names.KEY_SIGNATURE: "x", names.KEY_REQUESTER: PERSON, names.KEY_ACCOUNT: "ada", names.KEY_SCRIPT: "x"}
        metadata |= {"labels": labels, "annotations": {names.KEY_REASON: "rule large"}}
        template["metadata"] = {"labels": labels, "annotations": proof}
    else:
        del template["metadata"], template["spec"]["nodeName"]
        metadata |= {"labels": {names.KEY_TARGET: "cloud"}}
    return {**made, "metadata": metadata, "spec": {**made["spec"], "suspend": True, "parallelism": 2, "completions": 4}}


def _in_template(**metadata: Json) -> Json:
    return {"spec": {"template": {"metadata": metadata}}}


ANOTHERS = _in_template(annotations={names.KEY_REQUESTER: "boss-of-all", names.KEY_SIGNATURE: "y"})
NEVER = {
    "requester": (ANOTHERS, "never change"),
    "account": (_in_template(annotations={names.KEY_ACCOUNT: "root", names.KEY_SIGNATURE: "y"}), "never change"),
    "no requester": (_in_template(annotations={names.KEY_REQUESTER: None}), "never change"),
    "groups": (_in_template(annotations={names.KEY_GROUPS: "physics", names.KEY_SIGNATURE: "y"}), "never change"),
    "queue": ({"metadata": {"labels": {names.KEY_QUEUE: "other"}}}, "target, site and queue"),
    "site": (_in_template(labels={names.KEY_SITE: "other"}), "target, site and queue"),
    "target": (_in_template(labels={names.KEY_TARGET: None}), "target, site and queue"),
}
BY_THE_WEBHOOK = {
    "script": (_in_template(annotations={names.KEY_SCRIPT: "y", names.KEY_SIGNATURE: "y"}), "keys of batchgate.dev"),
    "no signature": (_in_template(annotations={names.KEY_SIGNATURE: None}), "keys of batchgate.dev"),
    "hint": ({"metadata": {"annotations": {names.HINT_RESULTS: "/x"}}}, "keys of batchgate.dev"),
    "label": (_in_template(labels={"x.batchgate.dev/y": "z"}), "keys of batchgate.dev"),
    "reason": ({"metadata": {"annotations": {names.KEY_REASON: None}}}, "keys of batchgate.dev"),
    "parallelism": ({"spec": {"parallelism": 3}}, "grows only where"),
}
BY_ANYBODY: dict[str, Json] = {
    "resumed": {"spec": {"suspend": False}},
    "shrunk": {"spec": {"parallelism": 1}},
    "noted": {"metadata": {"labels": {"app": "x"}, "annotations": {"note": "y"}, "finalizers": ["example.com/x"]}},
    "template": _in_template(labels={"app": "x"}, annotations={"note": "y"}),
    "deadline": {"spec": {"activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 1}},
}


@pytest.mark.parametrize("into", [True, False], ids=["in the gate", "out of the gate"])
def test_a_stored_job_stays_whose_and_where_it_is(ask: Asker, gate: Callable[[bool], None], into: bool) -> None:
    """Whoever reaches the webhook gets a proof for anybody, and a suspended Job's template can change."""
    gate(into)
    for user in (PERSON, JOB_CONTROLLER):
        for case, (change, sentence) in NEVER.items():
            said = ask(user, "PATCH", _jobs("routed"), change)
            assert sentence in said or (not into and "keys of batchgate.dev" in said), case
        # A Job in the cloud stays there: no proof comes to it later.
        for key in (names.KEY_REQUESTER, names.KEY_ACCOUNT, names.KEY_SIGNATURE):
            change = _in_template(annotations={key: user})
            assert "is not signed later" in ask(user, "PATCH", _jobs("cloud"), change), key


def test_groups_come_to_a_stored_job_as_those_of_who_sends_it_and_then_stay(
    ask: Asker, gate: Callable[[bool], None]
) -> None:
    """A policy that reads groups from now on, where its webhook signs a suspended Job anew."""
    gate(True)
    later = _stored("later", NODE)
    assert ask(PERSON, "POST", _jobs(), later, dry=False) == ""
    now, other = (_in_template(annotations={names.KEY_GROUPS: one}) for one in (PERSONS_GROUPS, "physics"))

    assert "groups and account that a Job was judged for never change" in ask(PERSON, "PATCH", _jobs("later"), other)
    assert ask(PERSON, "PATCH", _jobs("later"), now, dry=False) == ""
    for change in (other, _in_template(annotations={names.KEY_GROUPS: None})):
        assert "groups and account that a Job was judged for never change" in ask(
            PERSON, "PATCH", _jobs("later"), change
        )


@pytest.mark.parametrize("into", [True, False], ids=["in the gate", "out of the gate"])
def test_our_keys_and_growth_are_the_webhooks_to_judge(ask: Asker, gate: Callable[[bool], None], into: bool) -> None:
    gate(into)
    for case, (change, sentence) in BY_THE_WEBHOOK.items():
        said = ask(PERSON, "PATCH", _jobs("routed"), change)
        assert (sentence in said) != into, case
        assert bool(said) != into, case
    assert ask(PERSON, "PATCH", _jobs("cloud"), {"spec": {"parallelism": 3}}) == ""


@pytest.mark.parametrize("into", [True, False], ids=["in the gate", "out of the gate"])
def test_the_rest_of_a_job_changes(ask: Asker, gate: Callable[[bool], None], into: bool) -> None:
    """Also where its namespace left the gate: Kueue resumes it, people note something, the garbage collector ends it."""
    gate(into)
    for case, change in BY_ANYBODY.items():
        for name in ("routed", "cloud"):
            assert ask(PERSON, "PATCH", _jobs(name), change) == "", (case, name)


@since(32, "spec.managedBy")
def test_a_job_that_is_left_to_another_controller_still_names_it(ask: Asker) -> None:
    def left(**spec: str) -> Json:
        made = job("cloud-1")
        del made["spec"]["template"]["metadata"]
        made["metadata"]["annotations"] = {names.KEY_MANAGED_BY: "example.com/theirs"}
        return {**made, "spec": {**made["spec"], **spec}}

    assert ask(PERSON, "POST", JOBS, left(managedBy="example.com/theirs")) == ""
    for other in ({}, {"managedBy": "example.com/another"}):
        assert "does not honour the field" in ask(PERSON, "POST", JOBS, left(**other))


@pytest.mark.parametrize("thing", FOR_HPC.values(), ids=FOR_HPC)
def test_pods_for_hpc_are_made_by_the_job_controller_only(ask: Asker, thing: Json) -> None:
    for user in (PERSON, REPLICA_SETS, DAEMON_SETS, KUBELET):
        said = ask(user, "POST", "pods", thing)
        assert "are made by the Job controller only" in said, user
        assert user in said
    # The agent's own guard speaks as well; which of the two is heard is not said.
    assert ask(AGENT, "POST", "pods", thing)

    for user in (JOB_CONTROLLER, ALL_CONTROLLERS):
        assert ask(user, "POST", "pods", thing) == ""


def test_a_daemon_set_names_its_node(ask: Asker) -> None:
    def of(kind: str, **more: bool) -> Json:
        owner = {"apiVersion": "x/v1", "kind": kind, "name": "x", "uid": "0c0ffee0-1111-4222-8333-444455556666", **more}
        return pod(BY_FIELD["spec"], {"ownerReferences": [owner]})

    for user in (DAEMON_SETS, ALL_CONTROLLERS):
        assert ask(user, "POST", "pods", of("DaemonSet", controller=True)) == ""
        for other in (BY_FIELD, of("Job", controller=True), of("DaemonSet")):
            assert "only a DaemonSet names a virtual node" in ask(user, "POST", "pods", other)
    for user in (PERSON, JOB_CONTROLLER):
        assert "only a DaemonSet names a virtual node" in ask(user, "POST", "pods", of("DaemonSet", controller=True))


def test_what_is_refused_reads_as_a_sentence(plane: ControlPlane, ask: Asker) -> None:
    refused = plane.run_kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(node(NODE)))

    assert f'nodes "{NODE}" is forbidden: ' in refused.stderr
    policies = plane.get("validatingadmissionpolicies", "-l", "app.kubernetes.io/part-of=batchgate")["items"]
    reasons = {one.get("reason") for policy in policies for one in policy["spec"]["validations"]}
    assert reasons == {"Forbidden"}


@pytest.mark.parametrize("thing", [PLAIN, OTHERS], ids=["plain", "others"])
def test_other_pods_are_nobodys_business(ask: Asker, thing: Json) -> None:
    for user in (PERSON, REPLICA_SETS, JOB_CONTROLLER):
        assert ask(user, "POST", "pods", thing) == ""


@pytest.mark.parametrize(
    ("change", "by_others"),
    [
        ({"annotations": {names.KEY_JOB_ID: "7.server"}}, False),
        ({"annotations": {names.KEY_SCRIPT: "y"}}, False),
        ({"annotations": {names.KEY_SCRIPT: None}}, False),
        ({"labels": {names.KEY_TARGET: "cloud"}}, False),
        ({"labels": {names.KEY_SITE: "demo"}}, False),
        ({"labels": {"app": "x"}, "annotations": {"note": "y"}}, True),
    ],
)
@pytest.mark.parametrize("subresource", ["", "/status"])
def test_only_the_agent_changes_our_keys_on_pods(
    ask: Asker, routed: str, change: Json, by_others: bool, subresource: str
) -> None:
    path = f"pods/{routed}{subresource}"

    for user in (JOB_CONTROLLER, POD_GC, *(() if subresource else (PERSON, KUBELET))):
        said = ask(user, "PATCH", path, {"metadata": change})
        assert bool(said) != by_others, user
        assert by_others or "are changed by the agent only" in said
    for user in (AGENT, VIRTUAL_KUBELET):
        assert ask(user, "PATCH", path, {"metadata": change}) == ""


def test_the_status_of_our_pods_is_the_agents(ask: Asker, routed: str) -> None:
    change = {"status": {"phase": "Succeeded"}}

    # What drains nodes and collects garbage adds the condition DisruptionTarget, and sets the phase of lost Pods.
    for user in (AGENT, VIRTUAL_KUBELET, POD_GC, ALL_CONTROLLERS, SCHEDULER):
        assert ask(user, "PATCH", f"pods/{routed}/status", change) == ""
    for user in (PERSON, KUBELET, "system:serviceaccount:default:default"):
        assert "is written by the agent" in ask(user, "PATCH", f"pods/{routed}/status", change)


def test_a_batch_job_gets_no_debug_container(ask: Asker, routed: str, virtual_node: str) -> None:
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox:1.36"}]}}

    for user in (PERSON, AGENT):
        assert "cannot be changed any more" in ask(user, "PATCH", f"pods/{routed}/ephemeralcontainers", debugger)


@since(33, "resizing of Pods")
def test_a_batch_job_gets_no_other_size(ask: Asker, routed: str, virtual_node: str) -> None:
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}

    for user in (PERSON, AGENT):
        assert "cannot be changed any more" in ask(user, "PATCH", f"pods/{routed}/resize", larger)


@pytest.mark.parametrize(
    "change",
    [
        {"activeDeadlineSeconds": 1},
        {"containers": [{"name": "c", "image": "busybox:1.37"}]},
        {"tolerations": [{"key": "example.com/x", "operator": "Exists"}]},
    ],
    ids=["deadline", "image", "tolerations"],
)
def test_nobody_is_shown_another_spec_than_what_runs(ask: Asker, routed: str, change: Json) -> None:
    for user in (PERSON, KUBELET, "system:serviceaccount:default:default"):
        assert "has no effect on the job" in ask(user, "PATCH", f"pods/{routed}", {"spec": change}), user
    # Theirs may come with what a mutating webhook puts into the same request.
    for user in (JOB_CONTROLLER, POD_GC, ALL_CONTROLLERS, AGENT):
        assert ask(user, "PATCH", f"pods/{routed}", {"spec": change}) == "", user


def test_what_lies_beside_the_spec_changes(ask: Asker, routed: str) -> None:
    for user in (PERSON, JOB_CONTROLLER):
        for change in ({"labels": {"app": "x"}}, {"finalizers": ["example.com/x"]}):
            assert ask(user, "PATCH", f"pods/{routed}", {"metadata": change}) == ""


def test_the_spec_of_other_pods_changes(ask: Asker, made: Callable[[str, Json], str]) -> None:
    made(PERSON, pod({"nodeName": "cloud-1"}, {"name": "elsewhere"}))

    assert ask(PERSON, "PATCH", "pods/elsewhere", {"spec": {"activeDeadlineSeconds": 1}}) == ""


def test_a_gated_pod_is_not_sent_to_us_later(ask: Asker, made: Callable[[str, Json], str]) -> None:
    made(PERSON, pod({"schedulingGates": [{"name": "example.com/wait"}]}, {"name": "gated"}))

    for thing in (SELECTING, REQUIRING, BY_FIELD):
        fields = {key: thing["spec"][key] for key in ("nodeSelector", "affinity") if key in thing["spec"]}
        assert "no Pod is moved to a virtual node" in ask(PERSON, "PATCH", "pods/gated", {"spec": fields})
    assert ask(PERSON, "PATCH", "pods/gated", {"spec": {"nodeSelector": {"disk": "ssd"}}}) == ""


@pytest.mark.parametrize("path", ["pods/plain/binding", "bindings"])
def test_only_the_agent_binds_to_our_nodes_and_to_no_other(
    ask: Asker, made: Callable[[str, Json], str], path: str
) -> None:
    # The scheduler finds no node for it, so that it stays as it is.
    made(PERSON, pod({"nodeSelector": {"no": "such"}}, {"name": "plain"}))

    def bind(user: str, place: str, **metadata: Json) -> str:
        target = {"apiVersion": "v1", "kind": "Node", "name": place}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "plain", **metadata}, "target": target}
        return ask(user, "POST", path, binding)

    for user in (PERSON, SCHEDULER, JOB_CONTROLLER, VIRTUAL_KUBELET):
        assert "are bound to virtual nodes of batchgate by the agent only" in bind(user, NODE)
        assert bind(user, "cloud-1") == ""
    for user in (AGENT, OF_SITE):
        assert bind(user, NODE) == ""
        assert "which binds to no other node" in bind(user, "cloud-1")
    assert "which binds to no other node" in bind(OF_ANOTHER, NODE)
    for user, place in ((SCHEDULER, "cloud-1"), (AGENT, NODE)):
        for kind in ("labels", "annotations"):
            assert "carries no keys of batchgate.dev" in bind(user, place, **{kind: {names.KEY_SITE: "demo"}})


def node(name: str, spec: Json | None = None, **metadata: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}, "spec": spec or {}}


OUR_TAINT = {"key": names.TAINT_QUEUE, "value": "batch", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "thing",
    [
        node(NODE),
        node("cloud-2", labels={names.KEY_QUEUE: "batch"}),
        node("cloud-2", annotations={names.KEY_QUEUE: "batch"}),
        node("cloud-2", {"taints": [OUR_TAINT]}),
        node("cloud-2", {"providerID": "batchgate://demo/batch"}),
    ],
    ids=["name", "label", "annotation", "taint", "provider"],
)
def test_our_marks_on_nodes_are_the_agents(ask: Asker, thing: Json) -> None:
    for user in (PERSON, ALL_CONTROLLERS):
        said = ask(user, "POST", NODES, thing)
        assert "batchgate" in said
        assert user in said
    assert ask(PERSON, "POST", NODES, node("cloud-2", {"taints": [{"key": "a", "effect": "NoSchedule"}]})) == ""
    # The agent makes Nodes of our names, and no others.
    for agent in (AGENT, OF_SITE):
        assert bool(ask(agent, "POST", NODES, thing)) == (thing["metadata"]["name"] != NODE)
    assert "of its own site" in ask(OF_ANOTHER, "POST", NODES, thing)


@pytest.fixture
def virtual_node(ask: Asker) -> Iterator[str]:
    thing = node(
        NODE, {"providerID": "batchgate://demo/batch", "taints": [OUR_TAINT]}, labels={names.KEY_QUEUE: "batch"}
    )
    assert ask(AGENT, "POST", NODES, thing, dry=False) == ""
    room = {"cpu": "100k", "memory": "100Ti"}
    status = {"status": {"capacity": room, "allocatable": room}}
    assert ask(AGENT, "PATCH", f"{NODES}/{NODE}/status", status, dry=False) == ""
    yield f"{NODES}/{NODE}"
    assert ask(PERSON, "DELETE", f"{NODES}/{NODE}", dry=False) == ""


@pytest.mark.parametrize("user", [PERSON, ALL_CONTROLLERS, CLOUD])
def test_a_virtual_node_is_marked_by_the_agent(ask: Asker, virtual_node: str, user: str) -> None:
    for change in (
        {"metadata": {"labels": {names.KEY_QUEUE: "other"}}},
        {"metadata": {"labels": {names.KEY_QUEUE: None}}},
        {"metadata": {"annotations": {names.KEY_SITE: "x"}}},
        {"spec": {"taints": [{**OUR_TAINT, "value": "x"}]}},
        {"spec": {"taints": [{**OUR_TAINT, "effect": "NoExecute"}]}},
        {"spec": {"taints": None}},
    ):
        assert "are the agent's, not to be changed by" in ask(user, "PATCH", virtual_node, change)
        if "metadata" in change:
            assert "are the agent's, not to be changed by" in ask(user, "PATCH", f"{virtual_node}/status", change)
    # Others put marks of their own on it.
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    own = {
        "metadata": {"labels": {"example.com/x": "y"}},
        "spec": {"unschedulable": True, "taints": [taint, OUR_TAINT]},
    }
    assert ask(user, "PATCH", virtual_node, own) == ""


def test_a_virtual_node_is_deleted_by_people(ask: Asker, virtual_node: str) -> None:
    for user in (CLOUD, ALL_CONTROLLERS, "system:cloud-controller-manager"):
        assert "are deleted by people only" in ask(user, "DELETE", virtual_node)
    assert ask(PERSON, "DELETE", virtual_node) == ""


@pytest.fixture
def cloud_node(ask: Asker) -> Iterator[None]:
    """Somebody else's node: Kubernetes takes away the Pods of one that is not there."""
    assert ask(PERSON, "POST", NODES, node("cloud-1"), dry=False) == ""
    yield
    assert ask(PERSON, "DELETE", f"{NODES}/cloud-1", dry=False) == ""


@pytest.mark.usefixtures("cloud_node")
def test_the_agent_is_kept_to_what_is_ours(ask: Asker, routed: str, made: Callable[[str, Json], str]) -> None:
    made(PERSON, pod({"nodeName": "cloud-1"}, {"name": "theirs"}))
    label = {"metadata": {"labels": {"a": "b"}}}
    phase = {"status": {"phase": "Failed"}}

    for method, subresource, change in (("PATCH", "", label), ("PATCH", "/status", phase), ("DELETE", "", None)):
        assert "and to nothing else" in ask(AGENT, method, f"pods/theirs{subresource}", change)
        assert "of its own site" in ask(OF_ANOTHER, method, f"pods/{routed}{subresource}", change)
        for agent in (AGENT, OF_SITE):
            assert ask(agent, method, f"pods/{routed}{subresource}", change) == ""


@pytest.mark.parametrize(
    ("user", "lease", "where", "allowed"),
    [
        (AGENT, NODE, "kube-node-lease", True),
        (AGENT, "cloud-1", "kube-node-lease", False),
        (AGENT, "batchgate-agent-demo", names.SYSTEM_NAMESPACE, True),
        (AGENT, "kube-scheduler", "kube-system", False),
        (OF_SITE, NODE, "kube-node-lease", True),
        (OF_ANOTHER, NODE, "kube-node-lease", False),
        (OF_SITE, names.lease_name("demo"), names.SYSTEM_NAMESPACE, True),
        (OF_SITE, names.lease_name("other"), names.SYSTEM_NAMESPACE, False),
        (PERSON, "cloud-1", "kube-node-lease", True),
    ],
)
def test_leases(ask: Asker, user: str, lease: str, where: str, allowed: bool) -> None:
    thing = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": lease}, "spec": {}}

    assert (ask(user, "POST", f"/apis/coordination.k8s.io/v1/namespaces/{where}/leases", thing) == "") == allowed


OWN_KEY = {"data": {"demo.json": "{}"}}
OTHERS_KEY = {"data": {"other.json": "{}"}}
GONE = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "gone"}]}}


@pytest.mark.parametrize("name", [names.QUEUES_CONFIG_MAP, names.CHECKS_CONFIG_MAP])
def test_agents_of_one_site_write_its_key_of_what_all_write(ask: Asker, name: str) -> None:
    path = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/{name}"
    both = {"data": {**OWN_KEY["data"], **OTHERS_KEY["data"]}}
    others: list[Json] = [OTHERS_KEY, both, GONE]
    others += [{"metadata": {kind: {"x": "y"}}} for kind in ("labels", "annotations")]
    others += [{"metadata": {"finalizers": ["example.com/x"]}}, {"binaryData": {"demo.json": "eA=="}}]

    assert ask(OF_SITE, "PATCH", path, OWN_KEY) == ""
    for change in others:
        assert "write the key demo.json of ConfigMaps, and nothing else" in ask(OF_SITE, "PATCH", path, change), change
    for user, change in ((AGENT, OTHERS_KEY), (OF_ANOTHER, OTHERS_KEY), (PERSON, GONE)):
        assert ask(user, "PATCH", path, change) == ""
    odd = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{names.agent_account('HPC_A')}"
    assert ask(odd, "PATCH", path, {"data": {names.site_key("HPC_A"): "{}"}}) == ""
    assert "nothing else" in ask(OF_SITE, "DELETE", path)
    assert "nothing else" in ask(OF_SITE, "PATCH", path.replace(name, "kube-root-ca.crt"), GONE)


def test_the_guards_compile_without_a_warning(plane: ControlPlane) -> None:
    policies = plane.get("validatingadmissionpolicies", "-l", "app.kubernetes.io/part-of=batchgate")["items"]

    assert {policy["metadata"]["name"] for policy in policies} == {
        "agent-configmaps.batchgate.dev",
        "agent.batchgate.dev",
        "bindings.batchgate.dev",
        "created-jobs.batchgate.dev",
        "jobs.batchgate.dev",
        "nodes.batchgate.dev",
        "pods.batchgate.dev",
    }
    # The controller-manager checks their types, and says so when it has.
    until = time.monotonic() + 60
    for name in (policy["metadata"]["name"] for policy in policies):
        while "typeChecking" not in (status := plane.get("validatingadmissionpolicy", name).get("status", {})):
            assert time.monotonic() < until, name
            time.sleep(0.1)
        assert status["typeChecking"] == {}, name


def test_the_guards_know_the_keys_that_names_knows() -> None:
    text = "".join(file.read_text() for file in sorted((MANIFESTS / "guards").glob("*.yaml")))
    patterns = set(re.findall(r"matches\('([^']*)'\)", text))
    assert len(patterns) == 1
    pattern = patterns.pop()

    for key in (names.KEY_SITE, names.KEY_SCRIPT, "x.batchgate.dev/y", "batchgate.dev", "batchgate.dev/"):
        assert re.search(pattern, key)
        assert names.is_ours(key)
    for key in ("notbatchgate.dev/x", "batchgate.devious/x", "x/batchgate.dev/y", "x/y", ""):
        assert not re.search(pattern, key)
        assert not names.is_ours(key)
    assert set(re.findall(r"endsWith\('([^']*)'\)", text)) == {names.NODE_SUFFIX}
    assert set(re.findall(r"system:serviceaccount:batch[^']*", text)) == {AGENT, f"{AGENT}-"}
