"""Each field of a Pod template: harmless, or a reason to stay that names it, and never silently dropped."""

from __future__ import annotations

from typing import Any

import pytest

from router.workload import workload_of
from router.workload.obstacles import UNKNOWN
from tests.workload.manifests import Manifest, asking, container, job

PEERS = "spec.template.spec.subdomain: is found by its peers through the cluster's DNS, which HPC nodes do not have"
INSTEAD = "; take it out if none looks another up, or let one Pod start all of them as its ranks (docs/mpi.md)"
POD = "spec.template.spec"
MAIN = f"{POD}.containers[0]"
TRUE = {"exec": {"command": ["true"]}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def obstacles(manifest: Manifest) -> list[str]:
    return [obstacle.path for obstacle in workload_of(manifest, namespace="lab").obstacles]


def warnings(manifest: Manifest) -> tuple[str, ...]:
    return workload_of(manifest, namespace="lab").warnings


def node_affinity(*expressions: Manifest, **term: Any) -> Manifest:
    terms = [{"matchExpressions": list(expressions), **term}]
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}}


NODE_AFFINITY = f"{POD}.affinity.nodeAffinity.{REQUIRED}"

POD_FIELDS: list[tuple[Manifest, list[str]]] = [
    ({"hostNetwork": True}, []),
    ({"hostNetwork": False, "hostPID": False, "hostIPC": False}, []),
    ({"hostPID": True, "hostIPC": True}, [f"{POD}.hostPID"]),
    ({"hostUsers": False}, []),
    ({"volumes": [{"name": "v", "emptyDir": {"medium": "HugePages-2Mi"}}]}, [f"{POD}.volumes[0].emptyDir.medium"]),
    (
        {
            "volumes": [
                {
                    "name": "v",
                    "ephemeral": {
                        "volumeClaimTemplate": {"spec": {"dataSource": {"name": "s"}, "volumeMode": "Block"}}
                    },
                }
            ]
        },
        [
            f"{POD}.volumes[0].ephemeral.volumeClaimTemplate.spec.dataSource",
            f"{POD}.volumes[0].ephemeral.volumeClaimTemplate.spec.volumeMode",
        ],
    ),
    ({"shareProcessNamespace": True}, [f"{POD}.shareProcessNamespace"]),
    ({"nodeName": "n1"}, [f"{POD}.nodeName"]),
    ({"nodeName": ""}, []),
    ({"nodeSelector": {"disk": "ssd"}}, []),  # answered for each queue: tests/site/test_nodelabels.py
    (node_affinity({"key": "zone", "operator": "In", "values": ["a"]}), []),
    (node_affinity(), [f"{NODE_AFFINITY}.nodeSelectorTerms[0]"]),
    (node_affinity(moonPhase="full"), [f"{NODE_AFFINITY}.nodeSelectorTerms[0].moonPhase"]),
    ({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}}, [NODE_AFFINITY]),
    ({"affinity": {"nodeAffinity": {REQUIRED: {"moonPhase": "full"}}}}, [f"{NODE_AFFINITY}.moonPhase", NODE_AFFINITY]),
    ({"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1}]}}}, []),
    ({"affinity": {"podAffinity": {REQUIRED: [{}]}}}, [f"{POD}.affinity.podAffinity.{REQUIRED}"]),
    ({"affinity": {"podAntiAffinity": {REQUIRED: [{}]}}}, [f"{POD}.affinity.podAntiAffinity.{REQUIRED}"]),
    ({"affinity": {"podAntiAffinity": {PREFERRED: [{}]}}}, []),
    ({"affinity": {"moonAffinity": {REQUIRED: [{}]}}}, [f"{POD}.affinity.moonAffinity"]),
    ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, []),
    (
        {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]},
        [f"{POD}.topologySpreadConstraints[0]"],
    ),
    ({"schedulerName": "default-scheduler"}, []),
    ({"schedulerName": "volcano"}, []),  # a site answers it
    ({"schedulingGates": [{"name": "a"}]}, [f"{POD}.schedulingGates"]),
    ({"schedulingGates": []}, []),
    ({"resourceClaims": [{"name": "a"}]}, [f"{POD}.resourceClaims"]),
    ({"workloadRef": {"name": "a"}}, [f"{POD}.workloadRef"]),
    ({"schedulingGroup": {"podGroupName": "a"}}, [f"{POD}.schedulingGroup"]),
    ({"subdomain": "svc", "hostname": "a", "setHostnameAsFQDN": True}, []),
    ({"hostnameOverride": "a"}, []),
    ({"hostAliases": [{"ip": "1.2.3.4"}]}, []),
    ({"dnsPolicy": "ClusterFirst"}, []),
    ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["1.2.3.4"]}}, []),
    ({"dnsPolicy": "ClusterSecond"}, [f"{POD}.dnsPolicy"]),
    ({"dnsConfig": {"more": ["x"]}}, [f"{POD}.dnsConfig.more"]),
    ({"os": {"name": "linux"}}, []),
    ({"os": {"name": "windows"}}, [f"{POD}.os"]),
    ({"ephemeralContainers": [{"name": "x"}]}, [f"{POD}.ephemeralContainers"]),
    ({"securityContext": {"sysctls": [{"name": "a"}]}}, [f"{POD}.securityContext.sysctls"]),
    ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, [f"{POD}.securityContext.windowsOptions"]),
    ({"securityContext": {"runAsNonRoot": True, "fsGroup": 5, "runAsUser": 5}}, []),
    ({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, []),
    ({"securityContext": {"seccompProfile": {"type": "Localhost"}}}, [f"{POD}.securityContext.seccompProfile"]),
    ({"securityContext": {"moonPhase": "full"}}, [f"{POD}.securityContext.moonPhase"]),
    ({"priorityClassName": "high", "priority": 5, "preemptionPolicy": "Never"}, []),
    ({"tolerations": [{"operator": "Exists"}], "enableServiceLinks": False}, []),
    ({"imagePullSecrets": [{"name": "a"}], "automountServiceAccountToken": True}, []),
    ({"readinessGates": [{"conditionType": "x"}]}, []),
    ({"moonPhase": "full"}, [f"{POD}.moonPhase"]),
    ({"moonPhase": None}, []),
]


@pytest.mark.parametrize(("pod", "expected"), POD_FIELDS, ids=range(len(POD_FIELDS)))
def test_pod_fields(pod: Manifest, expected: list[str]):
    assert obstacles(job(pod=pod)) == expected


def env(**source: Any) -> Manifest:
    return {"env": [{"name": "A", "valueFrom": source}]}


VALUE = f"{MAIN}.env[0].valueFrom"

CONTAINER_FIELDS: list[tuple[Manifest, list[str]]] = [
    ({"ports": [{"containerPort": 80}]}, []),
    ({"ports": [{"containerPort": 80, "hostPort": 80}]}, [f"{MAIN}.ports[0].hostPort"]),
    ({"securityContext": {"privileged": True}}, []),
    ({"securityContext": {"privileged": False, "allowPrivilegeEscalation": True}}, []),
    ({"securityContext": {"capabilities": {"drop": ["ALL"]}}}, []),
    ({"securityContext": {"capabilities": {"add": [], "drop": ["ALL"]}}}, []),
    ({"securityContext": {"capabilities": {"add": ["IPC_LOCK", "CHOWN"]}}}, []),
    ({"securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}}}, [f"{MAIN}.securityContext.capabilities.add"]),
    ({"securityContext": {"procMount": "Unmasked"}}, [f"{MAIN}.securityContext.procMount"]),
    ({"securityContext": {"readOnlyRootFilesystem": True, "runAsNonRoot": True}}, []),
    ({"livenessProbe": TRUE, "startupProbe": TRUE, "readinessProbe": TRUE}, []),
    ({"lifecycle": {"preStop": TRUE, "postStart": TRUE}}, []),
    ({"lifecycle": {"stopSignal": "SIGTERM"}}, []),
    ({"lifecycle": {"stopSignal": "SIGUSR1"}}, [f"{MAIN}.lifecycle.stopSignal"]),
    ({"stdin": True, "tty": True}, []),
    ({"stdin": False, "tty": False}, []),
    ({"volumeDevices": [{"name": "a"}]}, [f"{MAIN}.volumeDevices"]),
    ({"restartPolicy": "Never"}, []),
    ({"restartPolicy": "OnFailure"}, []),
    ({"resizePolicy": [{"resourceName": "cpu"}]}, []),
    ({"terminationMessagePolicy": "File", "terminationMessagePath": "/dev/termination-log"}, []),
    (env(fieldRef={"fieldPath": "metadata.name"}), []),
    (env(fieldRef={"fieldPath": "status.podIP"}), [f"{VALUE}.fieldRef.fieldPath"]),
    (env(secretKeyRef={"name": "s", "key": "k"}), []),
    (env(fileKeyRef={"path": "x"}), [f"{VALUE}.fileKeyRef"]),
    ({"moonPhase": "full"}, [f"{MAIN}.moonPhase"]),
    ({"resources": {"claims": [{"name": "gpu"}]}}, [f"{MAIN}.resources.claims"]),
]


@pytest.mark.parametrize(("fields", "expected"), CONTAINER_FIELDS, ids=range(len(CONTAINER_FIELDS)))
def test_container_fields(fields: Manifest, expected: list[str]):
    assert obstacles(job(container(**fields))) == expected


def test_what_is_asked_of_the_node_is_judged_by_each_site() -> None:
    asking = job(container(securityContext={"privileged": True}), pod={"hostNetwork": True, "hostIPC": True})
    sized = workload_of(asking, namespace="lab")

    assert (sized.shared, sized.privileged) == (
        (f"{POD}.hostNetwork", f"{POD}.hostIPC"),
        (f"{MAIN}.securityContext.privileged",),
    )


def test_a_port_on_the_nodes_own_network_is_no_demand() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}]  # the second by the API server

    assert obstacles(job(container(ports=ports), pod={"hostNetwork": True})) == []


ADD = f"{MAIN}.securityContext.capabilities.add"


@pytest.mark.parametrize(
    ("added", "blocked", "warned"),
    [
        (["NET_ADMIN"], [f"{ADD}: adds NET_ADMIN, a capability that an ordinary HPC user cannot have"], ()),
        (
            ["CAP_SYS_ADMIN", "ALL", "chown"],
            [f"{ADD}: adds CAP_SYS_ADMIN, ALL, capabilities that an ordinary HPC user cannot have"],
            (f"{ADD}[2]: not applied on HPC, where the process runs as the HPC user",),
        ),
        (
            ["CAP_IPC_LOCK"],
            [],
            (f"{ADD}: IPC_LOCK is not given on HPC; memory is locked within the limits of the site's jobs",),
        ),
        (
            ["SYS_PTRACE", "SYS_NICE"],
            [],
            (
                f"{ADD}: SYS_PTRACE is not given on HPC; a process may trace its own children without it",
                f"{ADD}: SYS_NICE is not given on HPC; threads and memory may be bound without it, and priorities are not raised",
            ),
        ),
        (["A", "B", "C", "D", "E", "F"], [f"{ADD}: adds A, B, C, D, E and 1 more, capabilities that an ordinary HPC user cannot have"], ()),
    ],
)  # fmt: skip
def test_capabilities(added: list[str], blocked: list[str], warned: tuple[str, ...]) -> None:
    sized = workload_of(job(container(securityContext={"capabilities": {"add": added}})), namespace="lab")

    assert ([str(one) for one in sized.obstacles], sized.warnings) == (blocked, warned)


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        ({"readOnly": True, "subPath": "a"}, []),
        ({"mountPropagation": "None", "recursiveReadOnly": "Disabled"}, []),
        ({"mountPropagation": "Bidirectional"}, ["mountPropagation"]),
        ({"mountPropagation": "HostToContainer"}, ["mountPropagation"]),
        ({"subPathExpr": "$(A)"}, ["subPathExpr"]),
        ({"recursiveReadOnly": "Enabled"}, ["recursiveReadOnly"]),
        ({"moonPhase": "full"}, ["moonPhase"]),
    ],
)
def test_mounts(mount: Manifest, expected: list[str]):
    manifest = job(
        container(volumeMounts=[{"name": "v", "mountPath": "/v", **mount}]), pod={"volumes": [{"name": "v"}]}
    )
    assert obstacles(manifest) == [f"{MAIN}.volumeMounts[0].{field}" for field in expected]


def test_init_containers_are_judged_as_well():
    init = [container("i", volumeDevices=[{"name": "a"}]), container("j", restartPolicy="Never")]
    assert obstacles(job(pod={"initContainers": init})) == [f"{POD}.initContainers[0].volumeDevices"]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"google.com/tpu": 4}, ["google.com/tpu"]),
        ({"google.com/tpu": 0}, []),
        ({"hugepages-2Mi": "64Mi"}, ["hugepages-2Mi"]),
        ({"hugepages-2Mi": "0"}, []),
        ({"ephemeral-storage": "1Gi"}, []),
        ({"nvidia.com/mig-1g.5gb": 1}, ["nvidia.com/mig-1g.5gb"]),
        ({"nvidia.com/gpu": 1, "amd.com/gpu": 1}, ["amd.com/gpu"]),
        ({"nvidia.com/gpu": 1, "amd.com/gpu": 0}, []),
    ],
)
def test_resources_that_no_queue_has_by_itself(limits: Manifest, expected: list[str]):
    sized = workload_of(job(asking(limits=limits)), namespace="lab")
    further = [path for one in sized.extended if not one.is_gpu for path, _ in one.fields]
    found = [one.path for one in sized.obstacles] + further
    assert len(found) == len(expected)
    for path, name in zip(found, expected, strict=True):
        assert name in path


def test_what_is_not_known_says_so():
    (found,) = workload_of(job(pod={"moonPhase": "full"}), namespace="lab").obstacles
    assert str(found) == f"{POD}.moonPhase: {UNKNOWN}"


def test_every_reason_is_a_clause_that_reads_on_after_the_field():
    for pod, _ in POD_FIELDS:
        for obstacle in workload_of(job(pod=pod), namespace="lab").obstacles:
            assert obstacle.reason[0].islower()
            assert not obstacle.reason.endswith(".")


def test_users_and_groups_end_in_one_warning():
    manifest = job(
        container(securityContext={"runAsGroup": 7}), pod={"securityContext": {"fsGroup": 5, "runAsUser": 5}}
    )
    assert warnings(manifest) == (
        (
            f"{POD}.securityContext.fsGroup, {POD}.securityContext.runAsUser, {MAIN}.securityContext.runAsGroup: "
            "not applied on HPC, where the process runs as the HPC user"
        ),
    )


def test_whoever_asks_for_root_is_told():
    assert warnings(job(container(securityContext={"runAsUser": 0}))) == (
        f"{MAIN}.securityContext.runAsUser: asks for root; on HPC the process runs as the HPC user instead",
    )


@pytest.mark.parametrize(
    ("pod", "fields", "word"),
    [
        ({"runtimeClassName": "kata"}, {}, "RuntimeClass kata"),
        ({}, {"stdin": True}, f"{MAIN}.stdin: nobody attaches to a batch job"),
        ({}, {"tty": True}, f"{MAIN}.tty: a batch job has no terminal"),
        (
            {
                "affinity": {"podAffinity": {PREFERRED: [{}]}, "nodeAffinity": {PREFERRED: [{"weight": 1}]}},
                "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
            },
            {},
            (
                f"{POD}.affinity.podAffinity.{PREFERRED}, {POD}.affinity.nodeAffinity.{PREFERRED}, "
                f"{POD}.topologySpreadConstraints[0]: preferences about nodes have no effect on HPC"
            ),
        ),
    ],
)
def test_what_means_nothing_on_hpc_is_a_warning(pod: Manifest, fields: Manifest, word: str):
    (warning,) = warnings(job(container(**fields), pod=pod))
    assert word in warning


def test_fields_without_effect_are_counted_after_fifty():
    containers = [container(f"c{n}", securityContext={"runAsGroup": 1}) for n in range(60)]
    (warning,) = workload_of(job(*containers), namespace="default").warnings
    assert warning.count("runAsGroup") == 50
    assert "and 10 more: not applied" in warning


@pytest.mark.parametrize(
    ("spec", "labels", "obstacles"),
    [
        ({"parallelism": 2, "completions": 2}, {}, [f"{PEERS}{INSTEAD}"]),
        ({"parallelism": 2}, {}, [f"{PEERS}{INSTEAD}"]),
        ({"parallelism": 1, "completions": 9}, {}, []),
        ({"parallelism": 9, "completions": 1}, {}, []),
        ({}, {"jobset.sigs.k8s.io/jobset-name": "a"}, [f"{PEERS}, as the Jobs of a JobSet do{INSTEAD}"]),
    ],
)
def test_pods_that_find_each_other_in_a_subdomain_stay(
    spec: dict[str, Any], labels: dict[str, str], obstacles: list[str]
) -> None:
    manifest = job(pod={"subdomain": "svc"}, **spec)
    manifest["metadata"]["labels"] = labels

    assert [str(one) for one in workload_of(manifest, namespace="lab").obstacles] == obstacles
