"""Judges the fields of a Pod template one by one: read elsewhere, harmless, or a reason to stay in the cloud.

Pure. Has tables of the Pod and container fields of Kubernetes 1.31 to 1.36. An unknown field is an obstacle, as it must
not be silently dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from router import names
from router.reference.table import unknown
from router.workload.fields import Fields, Findings, as_flag, as_list, as_mapping, as_mappings, as_text, step, text
from router.workload.nodelabels import judge_affinity, judge_spread

Judge = Callable[[object, str, Findings], None]
Table = dict[str, "Judge | str | None"]
"""Maps a field name to None (harmless or read elsewhere), a reason (any value is an obstacle), or a function."""

_MOST_NAMED: Final = 50
_MOST_UNKNOWN: Final = 20
UNKNOWN: Final = "is not known to Batchgate"


def judge_fields(fields: Fields, path: str, table: Table, findings: Findings) -> None:
    """Judge each field that is set by a table. Raises JobError if a field has the wrong type."""
    for name, value in fields.items():
        entry = table.get(name, UNKNOWN)
        if entry is None or not value:  # a zero value is an absent field to Kubernetes
            continue
        if isinstance(entry, str):
            findings.block(step(path, name), entry)
        else:
            entry(value, step(path, name), findings)


def judge_unknown(spec: Fields, path: str, findings: Findings) -> None:
    """Keep a Job in the cloud that has a field without a row in ``router.reference``, wherever it stands.

    Judged last: a field that has its obstacle already is not named twice.
    """
    blocked = {obstacle.path for obstacle in findings.obstacles}
    for here in islice((here for here in unknown(spec, path) if here not in blocked), _MOST_UNKNOWN):
        findings.block(here, UNKNOWN)


def _when_true(reason: str) -> Judge:
    def judge(value: object, path: str, findings: Findings) -> None:
        if as_flag(value, path):
            findings.block(path, reason)

    return judge


def _unless(harmless: tuple[str, ...], reason: str) -> Judge:
    def judge(value: object, path: str, findings: Findings) -> None:
        if as_text(value, path) not in harmless:
            findings.block(path, reason)

    return judge


def _unhonoured(_value: object, path: str, findings: Findings) -> None:
    findings.unhonoured.append(path)


def _warned(sentence: str) -> Judge:
    def judge(value: object, path: str, findings: Findings) -> None:
        if as_flag(value, path):
            findings.warnings.append(f"{path}: {sentence}")

    return judge


def _nested(table: Callable[[], Table]) -> Judge:
    def judge(value: object, path: str, findings: Findings) -> None:
        judge_fields(as_mapping(value, path), path, table(), findings)

    return judge


def _capabilities(value: object, path: str, findings: Findings) -> None:
    here = step(path, "add")
    added = as_mapping(value, path).get("add")
    missing = []
    for index, item in enumerate(as_list(added, here) if added else ()):
        written = as_text(item, f"{here}[{index}]")
        name = written.upper().removeprefix("CAP_")
        if name in _USUAL_CAPABILITIES:
            findings.unhonoured.append(f"{here}[{index}]")
        elif name in _OWN_CAPABILITIES:
            findings.warnings.append(f"{here}: {name} is not given on HPC; {_OWN_CAPABILITIES[name]}")
        else:
            missing.append(written[:_CAPABILITY_SHOWN])
    if missing:
        shown = ", ".join(missing[:_MOST_CAPABILITIES])
        more = f" and {len(missing) - _MOST_CAPABILITIES} more" if len(missing) > _MOST_CAPABILITIES else ""
        reason = "capabilities that" if len(missing) > 1 else "a capability that"
        findings.block(here, f"adds {shown}{more}, {reason} an ordinary HPC user cannot have")


def _profile(value: object, path: str, findings: Findings) -> None:
    if text(as_mapping(value, path), "type", path) == "Localhost":
        findings.block(path, "names a security profile that is loaded on cloud nodes only")


def _privileged(value: object, path: str, findings: Findings) -> None:
    if as_flag(value, path):
        findings.privileged.append(path)


def _shared(value: object, path: str, findings: Findings) -> None:
    if as_flag(value, path):
        findings.shared.append(path)


def _windows(value: object, path: str, findings: Findings) -> None:
    if text(as_mapping(value, path), "name", path) != "linux":
        findings.block(path, "asks for an operating system other than Linux")


def _judge_ports(container: Fields, path: str, findings: Findings) -> None:
    for here, port in as_mappings(container.get("ports") or [], f"{path}.ports"):
        if port.get("hostPort"):
            findings.block(
                f"{here}.hostPort", "takes a port of the node, and HPC nodes take no connections from outside"
            )


def _mounts(value: object, path: str, findings: Findings) -> None:
    for here, mount in as_mappings(value, path):
        if not mount.keys() <= _PLAIN_MOUNT:
            judge_fields(mount, here, _MOUNT, findings)


def _scheduler(value: object, path: str, findings: Findings) -> None:
    if (name := as_text(value, path)) != "default-scheduler":
        findings.schedulers.append(name)


_USUAL_CAPABILITIES: Final = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "NET_RAW",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
"""Those that root has in every container of containerd and CRI-O: to add one asks for nothing more than to be root."""
_OWN_CAPABILITIES: Final = {
    "IPC_LOCK": "memory is locked within the limits of the site's jobs",
    "SYS_NICE": "threads and memory may be bound without it, and priorities are not raised",
    "SYS_PTRACE": "a process may trace its own children without it",
}
"""Those that batch jobs do without, with what they have instead."""
_CAPABILITY_SHOWN: Final = 40
_MOST_CAPABILITIES: Final = 5
_ROOTLESS: Final = "needs privileges that an ordinary HPC user cannot have"
_PEERS: Final = "is found by its peers through the cluster's DNS, which HPC nodes do not have"
_INSTEAD: Final = "take it out if none looks another up, or let one Pod start all of them as its ranks (docs/mpi.md)"
_DNS: Final = "needs the cluster's DNS or names, which HPC nodes do not have"

_POD_SECURITY: Final[Table] = {
    "seLinuxOptions": _unhonoured,
    "windowsOptions": "is for Windows nodes",
    "runAsUser": None,  # judged by judge_pod: 0 has a meaning there
    "runAsGroup": _unhonoured,
    "runAsNonRoot": None,  # holds: the process never is root
    "supplementalGroups": _unhonoured,
    "supplementalGroupsPolicy": _unhonoured,
    "fsGroup": _unhonoured,
    "fsGroupChangePolicy": None,
    "sysctls": "sets kernel parameters, which an ordinary HPC user cannot",
    "seccompProfile": _profile,
    "appArmorProfile": _profile,
    "seLinuxChangePolicy": None,
}

_CONTAINER_SECURITY: Final[Table] = {
    "capabilities": _capabilities,
    "privileged": _privileged,
    "seLinuxOptions": _unhonoured,
    "windowsOptions": "is for Windows nodes",
    "runAsUser": None,
    "runAsGroup": _unhonoured,
    "runAsNonRoot": None,
    "readOnlyRootFilesystem": None,
    "allowPrivilegeEscalation": None,
    "procMount": _unless(("Default",), _ROOTLESS),
    "seccompProfile": _profile,
    "appArmorProfile": _profile,
}

_MOUNT: Final[Table] = {
    "name": None,
    "mountPath": None,
    "subPath": None,
    "readOnly": None,
    "mountPropagation": _unless(("None",), "passes mounts between node and container, which needs privileges"),
    "subPathExpr": "makes a path from variables, which HPC does not support",
    "recursiveReadOnly": _unless(("Disabled", "IfPossible"), "demands recursive read-only mounts"),
}

_PLAIN_MOUNT: Final = frozenset(name for name, entry in _MOUNT.items() if entry is None)

_RESOURCES: Final[Table] = {
    "requests": None,
    "limits": None,
    "claims": "claims devices from the cluster's scheduler",
}

_CONTAINER: Final[Table] = {
    "name": None,
    "image": None,
    "command": None,
    "args": None,
    "workingDir": None,
    "ports": None,  # judged by judge_container: on the node's own network a port is no demand
    "envFrom": None,
    "env": None,  # judged where it is read
    "resources": _nested(lambda: _RESOURCES),
    "resizePolicy": None,
    "restartPolicy": None,  # judged with the kind of container
    "restartPolicyRules": None,  # likewise: router.workload.restarts
    "volumeMounts": _mounts,
    "volumeDevices": "needs a block device of the cluster",
    "livenessProbe": None,  # judged where it is read, as the next three: router.workload.handlers
    "readinessProbe": None,
    "startupProbe": None,
    "lifecycle": None,
    "terminationMessagePath": None,
    "terminationMessagePolicy": None,
    "imagePullPolicy": None,
    "securityContext": _nested(lambda: _CONTAINER_SECURITY),
    "stdin": _warned("nobody attaches to a batch job: what reads its input comes to the end at once"),
    "stdinOnce": None,
    "tty": _warned("a batch job has no terminal: programs print as they do into a file"),
}

_POD: Final[Table] = {
    "volumes": None,
    "initContainers": None,
    "containers": None,
    "ephemeralContainers": "has ephemeral containers, which only a kubelet can attach",
    "restartPolicy": None,
    "terminationGracePeriodSeconds": None,
    "activeDeadlineSeconds": None,
    "dnsPolicy": _unless(("ClusterFirst", "Default", "ClusterFirstWithHostNet", "None"), _DNS),
    "nodeSelector": None,  # like required node affinities, answered for each queue
    "serviceAccountName": None,
    "serviceAccount": None,
    "automountServiceAccountToken": None,
    "nodeName": "is bound to a node of the user's choice",
    "hostNetwork": _shared,
    "hostPID": _when_true("sees the processes of the node"),
    "hostIPC": _shared,
    "hostUsers": None,  # false asks for a user namespace: the process has no privileges on HPC in any case
    "shareProcessNamespace": _when_true("lets its containers see each other's processes"),
    "securityContext": _nested(lambda: _POD_SECURITY),
    "imagePullSecrets": None,
    "hostname": None,  # the agent gives it to the containers, as the next three
    "hostnameOverride": None,
    "subdomain": None,  # judge_subdomain
    "setHostnameAsFQDN": None,
    "hostAliases": None,  # the script adds them: router.workload.naming
    "affinity": judge_affinity,
    "schedulerName": _scheduler,
    "tolerations": None,  # they only let a Pod onto nodes, and never keep it off one
    "priorityClassName": None,
    "priority": None,
    "preemptionPolicy": None,
    "dnsConfig": None,  # router.workload.naming
    "readinessGates": None,
    "runtimeClassName": None,
    "enableServiceLinks": None,
    "overhead": None,
    "topologySpreadConstraints": judge_spread,
    "os": _windows,
    "schedulingGates": "waits for a gate of the cluster's scheduler",
    "resourceClaims": "claims devices from the cluster's scheduler",
    "resources": _nested(lambda: _RESOURCES),
    "workloadRef": "belongs to a group that the cluster's scheduler places together",
    "schedulingGroup": "belongs to a group that the cluster's scheduler places together",
}


def judge_pod(spec: Fields, path: str, findings: Findings) -> None:
    """Judge all fields of a Pod spec except its containers."""
    judge_fields(spec, path, _POD, findings)
    _judge_run_as(spec, path, findings)
    runtime = spec.get("runtimeClassName")
    if runtime:
        name = as_text(runtime, f"{path}.runtimeClassName")
        findings.warnings.append(
            f"{path}.runtimeClassName: RuntimeClass {name} has no effect on HPC, where the site's runtime runs containers"
        )


def judge_subdomain(spec: Fields, path: str, pods: int, labels: Fields, findings: Findings) -> None:
    """Keep a Job in the cloud whose Pods find each other by their names in a subdomain.

    :param pods: how many there are at once; a single one's name is known to itself
    :param labels: of the Job: one of a JobSet has peers in its other Jobs
    """
    if not spec.get("subdomain"):
        return
    if pods > 1:
        findings.block(f"{path}.subdomain", f"{_PEERS}; {_INSTEAD}")
    elif names.JOBSET_NAME in labels:
        findings.block(f"{path}.subdomain", f"{_PEERS}, as the Jobs of a JobSet do; {_INSTEAD}")


def judge_container(container: Fields, path: str, findings: Findings, *, host_network: bool = False) -> None:
    """Judge all fields of one container of any kind.

    :param host_network: whether the Pod is on its node's network. Each ``containerPort`` then has a ``hostPort`` too, by
        the API server, which is no wish of the user's
    """
    judge_fields(container, path, _CONTAINER, findings)
    if not host_network:
        _judge_ports(container, path, findings)
    _judge_run_as(container, path, findings)


def _judge_run_as(owner: Fields, path: str, findings: Findings) -> None:
    security = owner.get("securityContext")
    if not security:
        return
    here = f"{path}.securityContext"
    user = as_mapping(security, here).get("runAsUser")
    if user is None:
        return
    if user == 0 and not isinstance(user, bool):
        findings.warnings.append(f"{here}.runAsUser: asks for root; on HPC the process runs as the HPC user instead")
    else:
        findings.unhonoured.append(f"{here}.runAsUser")


def unhonoured_warning(findings: Findings) -> str | None:
    """One sentence for all fields without effect when the process runs as the HPC user; None without such fields."""
    if not findings.unhonoured:
        return None
    shown = ", ".join(findings.unhonoured[:_MOST_NAMED])
    more = len(findings.unhonoured) - _MOST_NAMED
    return (
        f"{shown}{f' and {more} more' if more > 0 else ''}: not applied on HPC, where the process runs as the HPC user"
    )
