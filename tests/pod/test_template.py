"""What of a Pod template is signed: the same however it is written, another for whatever decides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from router import placement, policy
from router.agent.approval import as_signed
from router.errors import JobError
from router.gate.judging import judge
from router.pod import files as podfiles
from router.pod import image as ociimage
from router.pod import template as podtemplate
from router.pod.template import Difference, differences, digest
from router.policy.decision import Requester
from router.workload import workload_of
from tests.gates import gate
from tests.placement.given import job_of

SPEC: dict[str, Any] = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 30,
    "containers": [
        {
            "name": "c",
            "image": "busybox:1.36",
            "command": ["sh", ""],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "files", "defaultMode": 420}}],
}
Change = Callable[[dict[str, Any]], Any]


def changed(change: Change) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    change(spec)
    return spec


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec.update(initContainers=[], schedulerName="x", tolerations=[{"key": "x"}], nodeName="n"),
        lambda spec: spec.update(activeDeadlineSeconds=None, serviceAccountName=""),
        lambda spec: spec["containers"][0].update(args=None, workingDir="", resources={"limits": {"cpu": 1}}),
        lambda spec: spec["containers"][0]["volumeMounts"][0].update(readOnly=False, recursiveReadOnly="IfPossible"),
        lambda spec: spec["containers"][0].update(tty=True, securityContext={"runAsUser": 3}),
        lambda spec: spec["volumes"][0]["configMap"].update(optional=False, items=[]),
    ],
)
def test_what_says_nothing_or_decides_nothing_is_not_of_it(change: Change) -> None:
    assert digest(changed(change)) == digest(SPEC)
    assert list(differences(SPEC, changed(change))) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: spec["containers"][0]["command"].pop(), Difference("containers", "c", "command")),
        (lambda spec: spec["containers"][0]["env"].reverse(), Difference("containers", "c", "env")),
        (lambda spec: spec["containers"][0].update(args=[""]), Difference("containers", "c", "args", added=True)),
        (lambda spec: spec["containers"][0].pop("image"), Difference("containers", "c", "image", removed=True)),
        (lambda spec: spec["containers"].append({"name": "d"}), Difference("containers", "d", "", added=True)),
        (lambda spec: spec["containers"].clear(), Difference("containers", "c", "", removed=True)),
        (
            lambda spec: spec["containers"][0]["volumeMounts"][0].update(readOnly=True),
            Difference("containers", "c", "volumeMounts"),
        ),
        (lambda spec: spec["volumes"][0]["configMap"].update(name="x"), Difference("volumes", "v", "configMap")),
        (lambda spec: spec["volumes"].append({"name": "w"}), Difference("volumes", "w", "", added=True)),
        (lambda spec: spec.update(activeDeadlineSeconds=1), Difference("", "", "activeDeadlineSeconds", added=True)),
        (lambda spec: spec.update(restartPolicy="OnFailure"), Difference("", "", "restartPolicy")),
    ],
)
def test_what_decides_is_of_it_and_is_named(change: Change, expected: Difference) -> None:
    assert digest(changed(change)) != digest(SPEC)
    assert list(differences(SPEC, changed(change))) == [expected]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda spec: spec.update(hostAliases=[{"ip": "192.0.2.1"}]), Difference("", "", "hostAliases", added=True)),
        (
            lambda spec: spec["containers"][0].update(livenessProbe={"exec": {"command": ["a"]}}),
            Difference("containers", "c", "livenessProbe", added=True),
        ),
        (
            lambda spec: spec["containers"][0].update(lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
            Difference("containers", "c", "lifecycle", added=True),
        ),
    ],
)
def test_what_is_done_around_containers_has_a_digest_of_its_own(change: Change, expected: Difference) -> None:
    now = changed(change)

    assert digest(now) == digest(SPEC)
    assert podtemplate.surroundings(now, readiness=True) == podtemplate.surroundings(now, readiness=False) != ""
    assert list(differences(SPEC, now)) == [expected]


def test_readiness_probes_count_only_where_they_are_run() -> None:
    now = changed(lambda spec: spec["containers"][0].update(readinessProbe={"tcpSocket": {"port": 1}}))

    assert podtemplate.surroundings(SPEC, readiness=True) == podtemplate.surroundings(now, readiness=False) == ""
    assert podtemplate.surroundings(now, readiness=True) != ""


def test_the_signal_that_is_sent_anyway_is_nothing_around() -> None:
    now = changed(lambda spec: spec["containers"][0].update(lifecycle={"stopSignal": "SIGTERM"}))

    assert podtemplate.surroundings(now, readiness=True) == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text(max_size=3), below, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*podtemplate.POD_FIELDS, *podtemplate.GROUPS, "volumes"])
specs = st.dictionaries(fields, json_values, max_size=4)


@given(specs | json_values, specs | json_values)
@example({"initContainers": [{}, {}, {}]}, {"initContainers": [{}, {}, {}]})
def test_two_specs_have_one_digest_where_nothing_differs(one: Any, other: Any) -> None:
    """Whatever a review holds, it has a digest."""
    assert digest(one) == digest(copy.deepcopy(one))
    if digest(one) == digest(other):
        assert list(differences(one, other)) == []


POLICY = """
sites:
  - name: big
    system: openpbs
    host: ssh://login
    access: own-keys
    knownHosts: /etc/batchgate/known_hosts
    keys: /etc/batchgate/keys
    workDir: /scratch/{user}
    images: [{match: "*", path: /images/all.sif}]
    tokens: stage
    apiServer: https://kubernetes.example.org:6443
    queues: [{name: any, nodes: 10, cpusPerNode: 64, memoryPerNode: 1Ti, walltimeMax: 1000h}]
accounts: [{users: [ada], as: ada}]
rules: [{name: all, hpc: [{queue: any}]}]
"""
MAPS = {name: {"data": {"a": name, "b": "2"}} for name in ("files", "others")}
KEY = {"configMapKeyRef": {"name": "files", "key": "a"}}
OTHERS = [{"configMapRef": {"name": "others"}}]
BASE: dict[str, Any] = {
    "restartPolicy": "Never",
    "containers": [
        {
            "name": "c",
            "image": "busybox:1.36",
            "imagePullPolicy": "IfNotPresent",
            "command": ["sh", "$(A)"],
            "env": [{"name": "A", "valueFrom": KEY}],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
    ],
    "volumes": [{"name": "v", "configMap": {"name": "files"}}],
}
OF_PODS: Mapping[str, Any] = {
    "activeDeadlineSeconds": 60,
    "affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "automountServiceAccountToken": True,
    "dnsConfig": {"nameservers": ["192.0.2.1"]},
    "dnsPolicy": "Default",
    "enableServiceLinks": True,
    "ephemeralContainers": [{"name": "e", "image": "busybox:1.36", "targetContainerName": "c"}],
    "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}],
    "hostIPC": True,
    "hostNetwork": True,
    "hostPID": True,
    "hostUsers": False,
    "hostname": "h",
    "hostnameOverride": "h",
    "imagePullSecrets": [{"name": "s"}],
    "initContainers": [
        {"name": "i", "image": "busybox:1.36", "command": ["sh"], "env": [{"name": "A", "valueFrom": KEY}]}
    ],
    "nodeName": "n",
    "nodeSelector": {"disk": "ssd"},
    "os": {"name": "linux"},
    "overhead": {"cpu": "1"},
    "preemptionPolicy": "Never",
    "priority": 3,
    "priorityClassName": "high",
    "readinessGates": [{"conditionType": "a/b"}],
    "resourceClaims": [{"name": "r", "resourceClaimName": "r"}],
    "resources": {"limits": {"cpu": "3"}},
    "restartPolicy": "OnFailure",
    "runtimeClassName": "gvisor",
    "schedulerName": "other",
    "schedulingGates": [{"name": "a/b"}],
    "securityContext": {"runAsUser": 3, "fsGroup": 4, "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
    "serviceAccount": "runner",
    "serviceAccountName": "runner",
    "setHostnameAsFQDN": True,
    "shareProcessNamespace": True,
    "subdomain": "s",
    "terminationGracePeriodSeconds": 5,
    "tolerations": [{"key": "x", "operator": "Exists"}],
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}],
    "volumes": [{"name": "v", "configMap": {"name": "others"}}],
    "workloadRef": {"name": "w"},
}
"""Every field of a PodSpec but its containers (kubernetes.io/docs/reference/generated/kubernetes-api, v1.36)."""
_PROBE = {"exec": {"command": ["true"]}}
OF_CONTAINERS: Mapping[str, Any] = {
    "args": ["$(A)"],
    "command": ["sh", "-c", "$(A)"],
    "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "others", "key": "a"}}}],
    "envFrom": OTHERS,
    "image": "busybox:1.37",
    "imagePullPolicy": "Always",
    "lifecycle": {"preStop": _PROBE},
    "livenessProbe": _PROBE,
    "name": "d",
    "ports": [{"containerPort": 80, "name": "http"}],
    "readinessProbe": _PROBE,
    "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "NotRequired"}],
    "resources": {"requests": {"cpu": "3"}},
    "restartPolicy": "Never",
    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}],
    "securityContext": {"readOnlyRootFilesystem": True},
    "startupProbe": _PROBE,
    "stdin": True,
    "stdinOnce": True,
    "terminationMessagePath": "/v/last",
    "terminationMessagePolicy": "FallbackToLogsOnError",
    "tty": True,
    "volumeDevices": [{"name": "v", "devicePath": "/dev/v"}],
    "volumeMounts": [{"name": "v", "mountPath": "/w"}],
    "workingDir": "/v",
}
"""Every field of a Container, likewise."""


def ran(change: Change) -> tuple[tuple[str, str] | None, object]:
    """What is signed of a Job whose template is changed so, and what an agent makes of it; None and None where it does
    not go to HPC.
    """
    spec = copy.deepcopy(BASE)
    change(spec)
    known = gate(policy=policy.load({"all.yaml": POLICY}))
    try:
        judged = judge(job_of(pod=spec), requester=Requester("ada", (), "default"), gate=known)
    except JobError:
        return None, None
    if judged.script is None:
        return None, None
    template = judged.routed["spec"]["template"]["spec"]
    own = {"metadata": {"name": "p", "namespace": "default", "uid": "u"}, "spec": template}
    pod = as_signed(own, judged.routed)
    staged = podfiles.stage(
        pod,
        workload_of(placement.strip(judged.routed).job, namespace="default", gpu_resources={}),
        config_maps=MAPS,
        allocatable={"cpu": "64", "memory": "1Ti"},
    )
    containers = [one for group in podtemplate.GROUPS for one in pod["spec"].get(group) or ()]
    asked = [(one["name"], one["image"], ociimage.pull_policy(one)) for one in containers]
    secrets = pod["spec"].get("imagePullSecrets")
    signed = f"{digest(template)} {podtemplate.surroundings(template, readiness=True)}"
    return (signed, judged.script.text), (staged, asked, secrets)


def _of_pod(field: str) -> Change:
    return lambda spec: spec.update({field: OF_PODS[field]})


def _of_container(field: str) -> Change:
    return lambda spec: spec["containers"][0].update({field: OF_CONTAINERS[field]})


CHANGES: dict[str, Change] = {
    **{field: _of_pod(field) for field in OF_PODS},
    **{f"containers.{field}": _of_container(field) for field in OF_CONTAINERS},
}


@pytest.mark.parametrize("field", CHANGES)
def test_what_is_not_signed_changes_nothing_that_runs(field: str) -> None:
    before, now = ran(lambda spec: None), ran(CHANGES[field])

    assert None not in before
    assert now[0] != before[0] or now[1] == before[1]


def test_of_these_fields_some_change_what_an_agent_makes_while_the_script_stays() -> None:
    """So that the test above sees it where one of them is not signed."""
    (signed, made), found = ran(lambda spec: None), {field: ran(change) for field, change in CHANGES.items()}
    assert signed is not None
    unseen = {field for field, (s, m) in found.items() if s is not None and s[1] == signed[1] and m != made}

    of_containers = ("args", "command", "env", "envFrom", "image", "imagePullPolicy")
    assert unseen == {*[f"containers.{field}" for field in of_containers], "imagePullSecrets", "volumes"}
