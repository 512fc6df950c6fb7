"""Makes a virtual node's Node object (labels, taint, capacity, addresses, conditions) and its Lease.

Pure. Also makes the patches that correct an object. Labels, taints and conditions that others have added to a Node stay
as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from router import __version__, names
from router.hpc import QueueReport
from router.notation import durations, quantity
from router.site import nodelabels
from router.site.schema import Queue

Json = dict[str, Any]

READY: Final = "Ready"
HEARTBEAT_SECONDS: Final = 300.0
"""How often unchanged conditions are written, as by kubelets; in between, the Lease is the heartbeat."""
_RESOURCES: Final = ("cpu", "memory", "nvidia.com/gpu", "amd.com/gpu", "pods")
_LABELS: Final = (names.LABEL_NODES, names.LABEL_NCPUS, names.LABEL_MEMORY, names.LABEL_WALLTIME)


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """The resources and limits of a queue; None if unknown. Memory in bytes, walltime in seconds.

    :param gpu_resource: the resource name under which the GPUs are counted
    """

    nodes: int | None = None
    cpus_per_node: int | None = None
    memory_per_node: int | None = None
    gpus_per_node: int | None = None
    gpu_resource: str = "nvidia.com/gpu"
    walltime_max: int | None = None


def declared(queue: Queue) -> QueueFigures:
    """The figures of a queue in the policy, used until the batch system has answered."""
    return QueueFigures(
        nodes=queue.nodes,
        cpus_per_node=queue.cpus_per_node,
        memory_per_node=queue.memory_per_node,
        gpus_per_node=queue.gpus_per_node or None,
        gpu_resource="amd.com/gpu" if queue.gpu_vendor == "amd" else "nvidia.com/gpu",
        walltime_max=queue.walltime_max,
    )


def reported(figures: QueueFigures, state: QueueReport) -> QueueFigures:
    """The batch system's figures of a queue; figures that it leaves open stay as declared.

    ``nodes`` counts the healthy nodes, at most as many as one job may have.
    """
    nodes = [one for one in (state.nodes, state.nodes_max) if one is not None]
    gpus = figures.gpus_per_node if state.gpus_per_node is None else state.gpus_per_node or None
    return replace(
        figures,
        nodes=min(nodes, default=figures.nodes),
        cpus_per_node=figures.cpus_per_node if state.cores_per_node is None else state.cores_per_node,
        memory_per_node=figures.memory_per_node if state.memory_per_node is None else state.memory_per_node,
        gpus_per_node=gpus,
        walltime_max=figures.walltime_max if state.walltime_max is None else state.walltime_max,
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """One desired condition. ``status`` is ``True``, ``False`` or ``Unknown``."""

    type: str
    status: str
    reason: str
    message: str


def queue_condition(queue: str, state: QueueReport | None) -> Condition:
    """The condition that says whether a queue takes and starts jobs.

    :param state: None if the batch system reports other queues only
    """
    kind = names.CONDITION_QUEUE_CLOSED
    if state is None:
        return Condition(kind, "True", "NotThere", f"the batch system has no queue {queue}, or does not show it")
    if not state.enabled:
        return Condition(kind, "True", "Disabled", state.reason or "it takes no jobs")
    if not state.started:
        return Condition(kind, "True", "Stopped", state.reason or "it starts no jobs")
    return Condition(kind, "False", "Open", "it takes and starts jobs")


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """The desired content of a queue's Node.

    :param address: the IP where the API server reaches the kubelet API
    :param version: the API server's version; the kubelet's version is made of it, as tools compare the two
    :param policy: the digest of the agent's policy, for an annotation; empty: none is written
    """

    site: str
    queue: str
    figures: QueueFigures
    address: str
    port: int
    version: str
    conditions: tuple[Condition, ...] = ()
    policy: str = ""
    architecture: str = nodelabels.USUAL_ARCH

    @property
    def name(self) -> str:
        """The Node's name."""
        return names.node_name(self.site, self.queue)

    @property
    def provider_id(self) -> str:
        """The ``providerID`` that proves a Node to be ours: only the agent writes it, and it is immutable."""
        return f"{names.NODE_PROVIDER}{self.site}/{self.queue}"


def node_object(node: VirtualNode) -> Json:
    """The Node to create; its status is written later, through the subresource."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": labels(node)},
        "spec": {"providerID": node.provider_id, "taints": [taint(node)]},
    }


def is_ours(found: Mapping[str, Any], node: VirtualNode) -> bool:
    """Whether the agent made this object."""
    return (found.get("spec") or {}).get("providerID") == node.provider_id


def labels(node: VirtualNode) -> dict[str, str]:
    """The labels that the agent sets. Unknown figures are left out."""
    figures = node.figures
    memory, walltime = figures.memory_per_node, figures.walltime_max
    found = {
        "type": "virtual-kubelet",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": node.architecture,
        "kubernetes.io/hostname": names.node_label(node.name),
        names.LABEL_NO_BALANCER: "true",
        names.KEY_SITE: node.site,
        names.KEY_QUEUE: node.queue,
    }
    known = (
        None if figures.nodes is None else str(figures.nodes),
        None if figures.cpus_per_node is None else str(figures.cpus_per_node),
        None if memory is None else _quantity(memory),
        None if walltime is None else durations.show(walltime),
    )
    return found | {key: value for key, value in zip(_LABELS, known, strict=True) if value is not None}


def taint(node: VirtualNode) -> Json:
    """The taint that keeps away all Pods except those that were sent here."""
    return {"key": names.TAINT_QUEUE, "value": node.queue, "effect": "NoSchedule"}


def capacity(figures: QueueFigures) -> dict[str, str]:
    """The total resources of the queue, as far as known."""
    nodes = figures.nodes
    if nodes is None:
        return {}
    per_node = {
        "cpu": figures.cpus_per_node,
        "memory": figures.memory_per_node,
        figures.gpu_resource: figures.gpus_per_node,
    }
    return {name: _quantity(nodes * count) for name, count in per_node.items() if count is not None}


def _quantity(value: int) -> str:
    return quantity.show_bytes(value).partition(" ")[0] if value > 10**6 else str(value)


def allocatable(figures: QueueFigures) -> dict[str, str]:
    """The capacity with 0 Pods, so that the scheduler places none here. Pods that name the node are bound anyway."""
    return capacity(figures) | {"pods": "0"}


def metadata_patch(found: Mapping[str, Any], node: VirtualNode) -> Json | None:
    """A merge patch that corrects labels, taint and annotation; None if they are right.

    Taints are one list, so a patch of it only applies to the version that was read.
    """
    metadata = found["metadata"]
    have, want = metadata.get("labels") or {}, labels(node)
    changed: dict[str, str | None] = {key: value for key, value in want.items() if have.get(key) != value}
    changed.update({key: None for key in _LABELS if key in have and key not in want})
    taints: Sequence[Json] = (found.get("spec") or {}).get("taints") or []
    patch: Json = {"metadata": {"labels": changed}} if changed else {}
    if node.policy and (metadata.get("annotations") or {}).get(names.NODE_POLICY) != node.policy:
        patch.setdefault("metadata", {})["annotations"] = {names.NODE_POLICY: node.policy}
    if not any(_is_taint(one, taint(node)) for one in taints):
        others = [one for one in taints if one["key"] != names.TAINT_QUEUE]
        patch.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        patch["spec"] = {"taints": [*others, taint(node)]}
    return patch or None


def _is_taint(one: Json, wanted: Json) -> bool:
    return all(one.get(key) == value for key, value in wanted.items())


def status_patch(found: Mapping[str, Any], node: VirtualNode, now: datetime) -> Json | None:
    """A strategic merge patch that corrects the status; None if it is right.

    Unchanged conditions are included once in :data:`HEARTBEAT_SECONDS`.
    """
    status: Mapping[str, Any] = found.get("status") or {}
    patch: Json = {}
    for key, want in (("capacity", capacity(node.figures)), ("allocatable", allocatable(node.figures))):
        have = status.get(key) or {}
        gone = {name: None for name in _RESOURCES if name in have and name not in want}
        if gone or any(not _same_quantity(have.get(name), value) for name, value in want.items()):
            patch[key] = want | gone
    for key, want in (("daemonEndpoints", _endpoints(node)), ("nodeInfo", _node_info(node))):
        have = status.get(key) or {}
        if any(have.get(name) != value for name, value in want.items()):
            patch[key] = want
    # Only of type InternalIP: the API server would prefer a Hostname, but cannot resolve it.
    addresses = [{"type": "InternalIP", "address": node.address}]
    if status.get("addresses") != addresses:
        patch["addresses"] = [{"$patch": "replace"}, *addresses]
    conditions = _conditions(status.get("conditions") or [], node.conditions, now)
    if conditions:
        patch["conditions"] = conditions
    return {"status": patch} if patch else None


def _same_quantity(have: object, want: str) -> bool:
    try:
        return have is not None and quantity.millis(have) == quantity.millis(want)
    except ValueError:
        return False


def _endpoints(node: VirtualNode) -> Json:
    return {"kubeletEndpoint": {"Port": node.port}}


def _node_info(node: VirtualNode) -> Json:
    unknown = ("bootID", "kernelVersion", "kubeProxyVersion", "machineID", "systemUUID")
    return dict.fromkeys(unknown, "") | {
        "architecture": node.architecture,
        "operatingSystem": "linux",
        "kubeletVersion": f"{node.version}-batchgate.{__version__}",
        "containerRuntimeVersion": f"batchgate://{__version__}",
        "osImage": f"Queue {node.queue} of site {node.site}",
    }


def _conditions(have: Sequence[Json], wanted: Sequence[Condition], now: datetime) -> list[Json]:
    stamp = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    changed = []
    for want in wanted:
        before = next((one for one in have if one.get("type") == want.type), None)
        new = {"type": want.type, "status": want.status, "reason": want.reason, "message": want.message}
        if before is None or before.get("status") != want.status:
            changed.append({**new, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp})
        elif any(before.get(key) != value for key, value in new.items()) or _is_old(before, now):
            changed.append({**new, "lastHeartbeatTime": stamp})
    return changed


def _is_old(condition: Json, now: datetime) -> bool:
    try:
        last = datetime.fromisoformat(str(condition.get("lastHeartbeatTime")))
    except ValueError:
        return True
    return not 0 <= (now - last).total_seconds() < HEARTBEAT_SECONDS


def lease_object(node: VirtualNode, uid: str, seconds: int, renewed: str) -> Json:
    """The Lease that is the node's heartbeat. The Node object of this uid owns it, so it is deleted with the Node."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": node.name, "ownerReferences": [owner]},
        "spec": {"holderIdentity": node.name, "leaseDurationSeconds": seconds, "renewTime": renewed},
    }
