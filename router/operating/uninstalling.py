"""Plans how Batchgate is taken off a cluster: what stands against it, what is deleted in which order, what stays.

Pure. Nothing is deleted while a routed Job or Pod lives: without its agent, a deleted Pod stays ``Terminating`` and its
batch job runs on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router import names
from router.operating.jobs import JobFacts
from router.operating.overview import place_of
from router.pod.view import PodView

Json = Mapping[str, Any]

REGISTRATIONS: Final = "/apis/admissionregistration.k8s.io/v1"
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces"
REQUESTS: Final = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
_MOST_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class Deletion:
    """One object to delete. ``words`` names it for people."""

    path: str
    words: str


@dataclass(frozen=True, slots=True)
class Found:
    """What is on the cluster.

    :param registrations: our webhook configurations, each with its kind
    :param nodes: our virtual Nodes
    :param jobs: those of all namespaces with our label
    :param pods: those on our Nodes, and those with our label
    :param leases: of the system namespace
    :param node_leases: of all Nodes
    :param requests: agents' certificate requests
    :param accounts: those of sites' agents outside the cluster, with their bindings, in the order of their deletion
    :param kept: paths of the Secrets and the ConfigMap that `certs ensure` or cert-manager made
    :param deployed: our Deployments in the system namespace, by their names
    :param gated: namespaces with the label that opts in or out, by their names
    """

    registrations: tuple[Json, ...]
    nodes: tuple[Json, ...]
    jobs: tuple[JobFacts, ...]
    pods: tuple[PodView, ...]
    leases: tuple[Json, ...] = ()
    node_leases: tuple[Json, ...] = ()
    requests: tuple[Json, ...] = ()
    accounts: tuple[Deletion, ...] = ()
    kept: tuple[str, ...] = ()
    deployed: tuple[str, ...] = ()
    gated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The deletions, in this order, and sentences: ``against`` says why nothing may be deleted, ``then`` what follows."""

    against: tuple[str, ...]
    deletions: tuple[Deletion, ...]
    then: tuple[str, ...]


def plan(found: Found, system: str, leading: Iterable[str]) -> Plan:
    """The plan.

    :param system: the namespace of our own objects
    :param leading: the holders of agents' Leases that were renewed while somebody looked
    """
    return Plan(tuple(_against(found, leading)), tuple(_deletions(found, system)), tuple(_then(found, system)))


def plan_registrations(found: Found) -> Plan:
    """The plan where the rest is taken away by Helm: its agents still run, and its objects are its own."""
    after = "The virtual Nodes stay until `batchgate uninstall` is run, when the agents are gone"
    return Plan(tuple(_against(found, ())), tuple(_registrations(found)), (after,) if found.nodes else ())


def leaving(found: Found) -> tuple[str, ...]:
    """What has been deleted and has not ended yet, in words; empty where something else lives, which ends only later."""
    return () if any(_staying(found)) else tuple(_leaving(found))


def _against(found: Found, leading: Iterable[str]) -> Iterable[str]:
    yield from _staying(found)
    if gone := list(_leaving(found)):
        yield (
            f"deleted, but not ended yet: {_some(gone)}. Their agent ends them: try again, and where it takes long, the "
            "Events of the Pods say why"
        )
    for holder in leading:
        yield (
            f"the agent {holder} runs, and would make its Nodes again. End it first: where it is a Deployment, scale it "
            "to 0; where it is a systemd unit, stop and disable that"
        )


def _staying(found: Found) -> Iterable[str]:
    jobs = [_of_namespace(one) for one in found.jobs if not one.finished and not one.deleting]
    if jobs:
        yield (
            f"{len(jobs)} routed Jobs have not ended: {_some(jobs)}. Wait for them, or delete them; the agent cancels "
            "their batch jobs"
        )
    pods = [_of_namespace(one) for one in _living(found) if not one.deleting]
    if pods:
        yield f"{len(pods)} Pods live on virtual nodes: {_some(pods)}. Wait until they have ended, or delete their Jobs"


def _leaving(found: Found) -> Iterable[str]:
    for job in found.jobs:
        if job.deleting and not job.finished:
            yield f"Job {_of_namespace(job)}"
    for pod in _living(found):
        if pod.deleting:
            yield f"Pod {_of_namespace(pod)}"


def _living(found: Found) -> Iterable[PodView]:
    # The Pod of a DaemonSet runs nothing on a virtual node; it goes with the Node.
    return (one for one in found.pods if not one.status.terminal and one.owner != "DaemonSet")


def _of_namespace(one: JobFacts | PodView) -> str:
    return f"{one.namespace}/{one.name}"


def _some(found: Iterable[str]) -> str:
    every = sorted(found)
    more = f" and {len(every) - _MOST_NAMED} more" if len(every) > _MOST_NAMED else ""
    return ", ".join(every[:_MOST_NAMED]) + more


def _registrations(found: Found) -> Iterable[Deletion]:
    for one in found.registrations:
        kind = str(one["kind"])
        yield Deletion(
            f"{REGISTRATIONS}/{kind.lower()}s/{_name(one)}", f"{kind} {_name(one)}: no Job is judged any more"
        )


def _deletions(found: Found, system: str) -> Iterable[Deletion]:
    yield from _registrations(found)
    ours = [_name(one) for one in found.nodes if place_of(one) is not None]
    for name in sorted(ours):
        yield Deletion(f"/api/v1/nodes/{name}", f"Node {name}")
    for one in found.node_leases:
        if _name(one).endswith(names.NODE_SUFFIX):
            yield Deletion(f"{_LEASES}/{names.NODE_LEASES}/leases/{_name(one)}", f"Lease of Node {_name(one)}")
    for one in found.requests:
        yield Deletion(f"{REQUESTS}/{_name(one)}", f"CertificateSigningRequest {_name(one)}")
    yield from found.accounts
    if found.deployed:  # their processes would make these again
        return
    for one in found.leases:
        if is_our_lease(one):
            yield Deletion(f"{_LEASES}/{system}/leases/{_name(one)}", f"Lease {_name(one)}")
    for path in found.kept:
        yield Deletion(path, path.rpartition("/")[2])


def is_our_lease(lease: Json) -> bool:
    """Whether a Lease of the system namespace is that of agents or of the webhook."""
    return _name(lease).startswith("batchgate-")


def _then(found: Found, system: str) -> Iterable[str]:
    if found.deployed:
        yield (
            f"Now take away what you installed, Deployments {', '.join(found.deployed)} included: `helm uninstall "
            f"batchgate -n {system}`, or `kubectl delete -k` on each folder that you applied, `base` last"
        )
        if found.kept:
            yield (
                "Where namespace "
                f"{system} stays, as with helm, run `batchgate uninstall` once more: it then deletes the Secrets with "
                "certificates and keys"
            )
    if found.gated:
        yield (
            f"The label {names.LABEL_GATE} has no effect any more on namespaces {_some(found.gated)}: `kubectl label "
            f"namespaces --all {names.LABEL_GATE}-`"
        )


def _name(found: Json) -> str:
    return str(found["metadata"]["name"])
