"""What may be run: signature, owner and Pod held against each other. Each test alters one thing of a Pod that may."""

from __future__ import annotations

import base64
import copy
import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from router import names
from router.agent.approval import (
    UnknownKey,
    additions,
    approve,
    as_signed,
    controller,
    is_living,
    named_user,
    needs,
    owner_of,
)
from router.errors import SignatureError
from router.gate.judging import judge
from router.placement import signing
from router.pod import template as podtemplate
from router.policy.decision import Requester
from tests.gates import ISSUED_AT, KEY, gate, sized

KEYS = {signing.key_id(KEY.public_key()): KEY.public_key()}
SITE = "hpc1"
UID = "0b1e8d3c-2f0a-4a5e-9a3e-1d2c3b4a5f6e"


def routed_job(**pod: Any) -> dict[str, Any]:
    """A Job as the API server stores it after the webhook."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "solve", "namespace": "default", "annotations": {names.HINT_RESULTS: "out/*.dat"}},
        "spec": {"template": {"metadata": {}, "spec": {"restartPolicy": "Never", **sized("4", **pod)}}},
    }
    stored = judge(job, requester=Requester("ada", (), "default"), gate=gate()).routed
    created = datetime.fromtimestamp(ISSUED_AT, UTC).isoformat().replace("+00:00", "Z")
    return {**stored, "metadata": {**stored["metadata"], "uid": UID, "creationTimestamp": created}}


def sign_again(job: dict[str, Any], pod: dict[str, Any]) -> None:
    """Have the proof of a Job that a test has changed cover its template as it is now, as if the webhook had seen it."""
    template = job["spec"]["template"]
    claims = signing.read(template["metadata"]["annotations"][names.KEY_SIGNATURE], KEYS)
    script = signing.script_digest(template["metadata"]["annotations"][names.KEY_SCRIPT])
    now = dataclasses.replace(claims, template_sha256=podtemplate.digest(template["spec"]), script_sha256=script)
    for one in (template, pod):
        one["metadata"]["annotations"][names.KEY_SIGNATURE] = signing.sign(now, KEY)


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    """The Job controller's Pod."""
    template = copy.deepcopy(job["spec"]["template"])
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "solve", "uid": UID, "controller": True}
    metadata = {"name": "solve-x7k2p", "namespace": "default", "uid": "pod-uid", "ownerReferences": [owner]}
    return {"metadata": {**metadata, **template["metadata"]}, "spec": template["spec"]}


def test_a_routed_pod_may_run() -> None:
    job = routed_job()

    approved = approve(pod_of(job), job, SITE, KEYS)

    assert approved.user == "ada"
    assert approved.results == ("out/*.dat",)
    assert approved.script == job["spec"]["template"]["metadata"]["annotations"][names.KEY_SCRIPT]
    assert additions(pod_of(job), job) == ()
    assert controller(pod_of(job)) == ("solve", UID)


def test_results_are_those_that_were_signed() -> None:
    """A hint that somebody changed since has no effect."""
    job = routed_job()
    pod = pod_of(job)
    job["metadata"]["annotations"][names.HINT_RESULTS] = "/etc/passwd"

    assert approve(pod, job, SITE, KEYS).results == ("out/*.dat",)


def test_whose_a_pod_is_stands_in_its_signature_alone() -> None:
    pod = pod_of(routed_job())
    pod["metadata"]["annotations"][names.KEY_ACCOUNT] = '{"user":"eve"}'

    assert owner_of(pod, SITE, KEYS) == "ada"


@pytest.mark.parametrize(
    ("change", "site", "keys", "words"),
    [
        (lambda pod: None, SITE, {}, "not among the keys in force"),
        (lambda pod: pod["metadata"].update(namespace="other"), SITE, KEYS, "another namespace, site or Job"),
        (lambda pod: None, "hpc2", KEYS, "another namespace, site or Job"),
        (lambda pod: pod["metadata"]["annotations"].pop(names.KEY_SIGNATURE), SITE, KEYS, "signature"),
    ],
)
def test_nobodys_pod(change: Callable[[Any], None], site: str, keys: Any, words: str) -> None:
    pod = pod_of(routed_job())
    change(pod)

    with pytest.raises(UnknownKey if not keys else SignatureError, match=words):
        owner_of(pod, site, keys)


def test_the_user_whom_an_account_names() -> None:
    texts = ('{"user":"ada"}', '{"user":""}', "ada", "", "[" * 100_000)

    assert [named_user(text) for text in texts] == ["ada", "", "", "", ""]


Change = Callable[[dict[str, Any], dict[str, Any]], None]


def _annotation(which: str, key: str, value: str | None) -> Change:
    def change(pod: dict[str, Any], job: dict[str, Any]) -> None:
        for one in (pod, job["spec"]["template"]) if which == "both" else (pod,):
            if value is None:
                del one["metadata"]["annotations"][key]
            else:
                one["metadata"]["annotations"][key] = value

    return change


def _label(key: str, value: str) -> Change:
    def change(pod: dict[str, Any], job: dict[str, Any]) -> None:
        for one in (pod, job["spec"]["template"]):
            one["metadata"]["labels"][key] = value

    return change


def _job_metadata(key: str, value: str) -> Change:
    def change(_pod: dict[str, Any], job: dict[str, Any]) -> None:
        job["metadata"][key] = value

    return change


def _node(pod: dict[str, Any], _job: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "other.hpc1.batchgate"


def _other_key(pod: dict[str, Any], job: dict[str, Any]) -> None:
    claims = signing.read(pod["metadata"]["annotations"][names.KEY_SIGNATURE], KEYS)
    forged = signing.sign(claims, Ed25519PrivateKey.generate())
    _annotation("both", names.KEY_SIGNATURE, forged)(pod, job)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_annotation("pod", names.KEY_SCRIPT, "rm -rf ~"), "script is not that of its Job's template"),
        (_annotation("both", names.KEY_SCRIPT, "rm -rf ~"), "script_sha256 is signed as"),
        (_annotation("both", names.KEY_ACCOUNT, '{"user":"root"}'), "account is signed as"),
        (_annotation("both", names.KEY_REQUESTER, "eve"), "requester is signed as"),
        (_annotation("both", names.KEY_SIGNATURE, None), "lacks batchgate.dev/signature"),
        (_annotation("both", names.KEY_SIGNATURE, "v2.x.y.z"), "not among the keys in force"),
        (_annotation("pod", names.KEY_SIGNATURE, None), "is not that of its Job's template"),
        (_other_key, "not among the keys in force"),
        (_label(names.KEY_QUEUE, "other"), "is on node"),
        (_label(names.KEY_SITE, "hpc2"), "and this is the agent of 'hpc1'"),
        (_node, "is on node 'other.hpc1.batchgate'"),
        (_job_metadata("namespace", "elsewhere"), "namespace is signed as"),
        (_job_metadata("creationTimestamp", "2020-01-01T00:00:00Z"), "from the Job's creation"),
        (_job_metadata("creationTimestamp", "no time"), "from the Job's creation"),
    ],
)
def test_what_was_altered_is_never_run(change: Change, words: str) -> None:
    job = routed_job()
    pod = pod_of(job)
    change(pod, job)

    with pytest.raises(SignatureError, match=words):
        approve(pod, job, SITE, KEYS)


def test_a_job_that_was_never_routed() -> None:
    job = {"metadata": {"name": "x"}, "spec": {"template": {"spec": sized("4")}}}

    with pytest.raises(SignatureError, match="Batchgate did not route or sign the Job"):
        approve(pod_of({**job, "spec": {"template": {"metadata": {}, "spec": sized("4")}}}), job, SITE, KEYS)


def test_the_owner_is_the_controller_and_a_job() -> None:
    pod = pod_of(routed_job())
    (owner,) = pod["metadata"]["ownerReferences"]
    for changed in ({"controller": False}, {"kind": "ReplicaSet", "apiVersion": "apps/v1"}, {"apiVersion": "x/v1"}):
        pod["metadata"]["ownerReferences"] = [{**owner, **changed}]
        assert controller(pod) is None
    del pod["metadata"]["ownerReferences"]
    assert controller(pod) is None


def test_a_job_that_is_over_or_deleted_wants_no_run() -> None:
    job = routed_job()

    assert is_living(job)
    assert is_living({**job, "status": {"conditions": [{"type": "Failed", "status": "False"}]}})
    for kind in ("Complete", "Failed"):
        assert not is_living({**job, "status": {"conditions": [{"type": kind, "status": "True"}]}})
    assert not is_living({**job, "metadata": {**job["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})


def _volume(**source: Any) -> dict[str, Any]:
    return {"name": "v", **source}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: spec["containers"].append({"name": "proxy", "image": "x"}), ("container proxy",)),
        (lambda spec: spec.update(initContainers=[{"name": "init", "image": "x"}]), ("container init",)),
        (lambda spec: spec.update(volumes=[_volume(emptyDir={})]), ("volume v",)),
        (lambda spec: spec["containers"][0].update(image="mirror/busybox"), ("image of container c",)),
        (lambda spec: spec["containers"][0].update(command=["sh"]), ("command of container c",)),
        (lambda spec: spec["containers"][0].update(args=["x"]), ("args of container c",)),
        (
            lambda spec: spec["containers"][0].update(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            ("volumeMounts of container c",),
        ),
        (lambda spec: spec["containers"].clear(), ("no container c",)),
        (lambda spec: spec.update(restartPolicy="OnFailure"), ("restartPolicy",)),
        (lambda spec: spec["containers"][0].update(resources={"limits": {"memory": "9Gi"}}), ()),
        (lambda spec: spec["containers"][0].update(env=[{"name": "JOB_COMPLETION_INDEX", "value": "0"}]), ()),
        (
            lambda spec: spec["containers"][0].update(env=[{"name": "LD_PRELOAD", "value": "x"}]),
            ("env of container c",),
        ),
        (
            lambda spec: spec["containers"][0].update(envFrom=[{"configMapRef": {"name": "x"}}]),
            ("envFrom of container c",),
        ),
        (
            lambda spec: spec["containers"][0].update(securityContext={"readOnlyRootFilesystem": True}),
            ("readOnlyRootFilesystem of container c",),
        ),
        (lambda spec: spec.update(activeDeadlineSeconds=1), ("activeDeadlineSeconds",)),
        (lambda spec: spec.update(terminationGracePeriodSeconds=1), ("terminationGracePeriodSeconds",)),
        (lambda spec: spec.update(serviceAccountName="default", tolerations=[{"key": "x"}], priority=3), ()),
        (lambda spec: spec["containers"][0].update(workingDir="", securityContext={"privileged": False}), ()),
        (lambda spec: spec["containers"][0].update(imagePullPolicy="Always"), ()),
        (lambda spec: spec["containers"][0].update(imagePullPolicy="Never"), ("imagePullPolicy of container c",)),
        (
            lambda spec: spec["containers"][0].update(imagePullPolicy="IfNotPresent"),
            ("imagePullPolicy of container c",),
        ),
        (lambda spec: spec.update(imagePullSecrets=[{"name": "x"}]), ()),
    ],
)
def test_what_a_pod_has_that_its_template_lacks(change: Callable[[Any], None], expected: tuple[str, ...]) -> None:
    job = routed_job()
    pod = pod_of(job)
    change(pod["spec"])

    assert additions(pod, job) == expected


@pytest.mark.parametrize(
    ("written", "of_pod", "named", "taken"),
    [
        ("IfNotPresent", "Always", (), "Always"),
        ("Never", "Always", (), "Always"),
        ("Always", "Always", (), "Always"),
        ("Always", "IfNotPresent", ("imagePullPolicy of container c",), "Always"),
        ("Never", "IfNotPresent", ("imagePullPolicy of container c",), "Never"),
        ("IfNotPresent", "Never", ("imagePullPolicy of container c",), "IfNotPresent"),
    ],
)
def test_of_a_pods_pull_policy_only_always_is_taken(
    written: str, of_pod: str, named: tuple[str, ...], taken: str
) -> None:
    job = routed_job()
    job["spec"]["template"]["spec"]["containers"][0]["imagePullPolicy"] = written
    pod = pod_of(job)
    pod["spec"]["containers"][0]["imagePullPolicy"] = of_pod

    assert additions(pod, job) == named
    assert as_signed(pod, job)["spec"]["containers"][0]["imagePullPolicy"] == taken


def test_the_objects_that_a_pod_needs() -> None:
    env = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "a"}}},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "password", "key": "b", "optional": True}}},
        {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "D", "value": "plain"},
    ]
    env_from = [{"configMapRef": {"name": "all"}}, {"secretRef": {"name": "all-secrets"}}]
    volumes = [
        _volume(configMap={"name": "files"}),
        _volume(secret={"secretName": "keys"}),
        _volume(emptyDir={}),
        _volume(projected={"sources": [{"configMap": {"name": "part"}}, {"secret": {"name": "half"}}]}),
    ]
    spec = {
        "containers": [{"name": "c", "env": env}],
        "initContainers": [{"name": "i", "envFrom": env_from}],
        "volumes": volumes,
    }

    found = needs({"spec": spec})

    assert found.config_maps == ("all", "env", "files", "part")
    assert found.secrets == ("all-secrets", "password", "keys", "half")


def _with_volume(**source: Any) -> dict[str, Any]:
    job = routed_job(volumes=[_volume(**source)])
    job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/v"}]
    return job


def test_a_volume_whose_contents_are_others_is_named() -> None:
    job = _with_volume(configMap={"name": "files"})
    pod = pod_of(job)
    pod["spec"]["volumes"][0]["configMap"]["name"] = "others"
    pod["spec"]["containers"][0]["volumeMounts"][0]["readOnly"] = True

    assert additions(pod, job) == ("volumeMounts of container c", "configMap of volume v")
    assert as_signed(pod, job)["spec"]["volumes"] == job["spec"]["template"]["spec"]["volumes"]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["containers"][0].update(command=["sh", "-c", "id"]),
        lambda spec: spec["containers"][0].update(args=[""]),
        lambda spec: spec["containers"][0].update(image="evil"),
        lambda spec: spec["containers"][0].update(workingDir="/tmp"),
        lambda spec: spec["containers"][0].update(env=[{"name": "PATH", "value": "/tmp"}]),
        lambda spec: spec["containers"][0].update(envFrom=[{"configMapRef": {"name": "x"}}]),
        lambda spec: spec["containers"][0].update(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        lambda spec: spec["containers"][0].update(securityContext={"readOnlyRootFilesystem": True}),
        lambda spec: spec.update(volumes=[_volume(hostPath={"path": "/"})]),
        lambda spec: spec.update(initContainers=[{"name": "i", "image": "x"}]),
        lambda spec: spec.update(restartPolicy="OnFailure"),
        lambda spec: spec.update(activeDeadlineSeconds=9),
        lambda spec: spec.update(terminationGracePeriodSeconds=9),
        lambda spec: spec.update(serviceAccountName="x"),
        lambda spec: spec.update(imagePullSecrets=[{"name": "x"}]),
    ],
)
def test_another_template_than_the_signed_one_is_never_run(change: Callable[[Any], None]) -> None:
    """Also where Job and Pod agree, as after a webhook that changed the Job behind ours."""
    job = routed_job()
    change(job["spec"]["template"]["spec"])

    with pytest.raises(SignatureError, match="its Job's Pod template is not the one that was signed"):
        approve(pod_of(job), job, SITE, KEYS)


def test_what_kubernetes_lets_change_on_a_suspended_job_is_not_of_the_digest() -> None:
    job = routed_job()
    spec = job["spec"]["template"]["spec"]
    spec["nodeSelector"]["disk"] = "ssd"
    spec["tolerations"].append({"key": "x"})
    spec["affinity"] = {"nodeAffinity": {}}
    spec["schedulingGates"] = []
    spec["containers"][0]["resources"]["requests"]["cpu"] = "3"
    job["spec"]["template"]["metadata"]["labels"]["app"] = "x"

    assert approve(pod_of(job), job, SITE, KEYS).user == "ada"


def test_a_pod_is_run_as_its_template_has_it_with_what_only_pods_have() -> None:
    job = routed_job()
    pod = pod_of(job)
    spec = pod["spec"]
    spec["containers"][0] |= {
        "resources": {"limits": {"cpu": "7"}},
        "imagePullPolicy": "Always",
        "env": [{"name": "LD_PRELOAD", "value": "x"}],
        "command": ["id"],
    }
    spec["containers"].append({"name": "proxy", "image": "x"})
    spec |= {"volumes": [_volume(emptyDir={})], "serviceAccountName": "default", "imagePullSecrets": [{"name": "s"}]}
    template = job["spec"]["template"]["spec"]

    assert as_signed(pod, job) == {
        **pod,
        "spec": {
            **template,
            "containers": [
                {**template["containers"][0], "resources": {"limits": {"cpu": "7"}}, "imagePullPolicy": "Always"}
            ],
            "serviceAccountName": "default",
            "imagePullSecrets": [{"name": "s"}],
        },
    }


def _signed_as_earlier(job: dict[str, Any]) -> dict[str, Any]:
    """The Job as the release before the template's digest signed it."""
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    claims = signing.read(annotations[names.KEY_SIGNATURE], KEYS)
    values = {name: value for name, value in dataclasses.asdict(claims).items() if name != "template_sha256"}
    payload = base64.urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()
    head = f"v1.{signing.key_id(KEY.public_key())}.{payload}"
    proof = base64.urlsafe_b64encode(KEY.sign(head.encode())).rstrip(b"=").decode()
    annotations[names.KEY_SIGNATURE] = f"{head}.{proof}"
    return job


def test_what_an_earlier_release_signed_is_known_and_not_submitted() -> None:
    job = _signed_as_earlier(routed_job())

    assert owner_of(pod_of(job), SITE, KEYS) == "ada"
    with pytest.raises(SignatureError, match="signed by an earlier release") as caught:
        approve(pod_of(job), job, SITE, KEYS)
    assert not isinstance(caught.value, UnknownKey)


def test_what_a_later_release_signs_waits_for_a_later_agent() -> None:
    job = routed_job()
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    annotations[names.KEY_SIGNATURE] = annotations[names.KEY_SIGNATURE].replace("v3.", "v5.", 1)

    with pytest.raises(UnknownKey, match=r"format 'v5', .* upgrade the agent, and the Pod is submitted by itself"):
        approve(pod_of(job), job, SITE, KEYS)


READY = {"exec": {"command": ["true"]}, "periodSeconds": 10}


def test_hooks_and_probes_are_signed() -> None:
    job = routed_job(hostAliases=[{"ip": "192.0.2.1", "hostnames": ["a"]}])
    assert approve(pod_of(job), job, SITE, KEYS).user == "ada"

    job["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = READY

    with pytest.raises(SignatureError, match="hooks, probes or names"):
        approve(pod_of(job), job, SITE, KEYS)


def test_a_readiness_probe_that_an_earlier_release_did_not_run_is_no_difference() -> None:
    """Its script has none, so the container is Ready as long as it runs."""
    job = routed_job()
    job["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = READY

    assert approve(pod_of(job), job, SITE, KEYS).user == "ada"


def test_a_probe_that_another_webhook_adds_to_a_pod_is_told() -> None:
    job = routed_job()
    pod = pod_of(job)
    pod["spec"]["containers"][0]["readinessProbe"] = READY

    assert additions(pod, job) == (f"readinessProbe of container {pod['spec']['containers'][0]['name']}",)
