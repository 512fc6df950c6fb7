"""Reads the state of the running webhook with the caller's own rights: Deployment, Pods, each Pod's ``/statusz``.

Shell (the API). The requests to replicas go through the API server (``pods/proxy``), so that the caller need not reach
the Pods' network. The webhook itself writes no status.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from router import names
from router import policy as policies
from router.cli.cluster import Cluster
from router.errors import ApiError
from router.kube.client import Json
from router.notation import durations
from router.operating.policies import ConditionState, Holder, condition_state
from router.operating.replicas import PendingRequest, Replica, Webhook, is_ours, pending, webhook
from router.policy.matchcondition import PATH, registered

if TYPE_CHECKING:
    from router.policy import Policy

_PORT: Final = 8443
_SECONDS: Final = 10.0
_SIGNER: Final = "kubernetes.io/kubelet-serving"
_FORBIDDEN: Final = 403
HEAD: Final = ("REPLICA", "READY", "POLICY", "SINCE", "CERTIFICATE", "TROUBLE")


def look_at_webhook(cluster: Cluster) -> Webhook | None:
    """The webhook; None if both its Deployment and its Pods are forbidden."""
    missed = len(cluster.missed)
    deployment = cluster.one(
        "the webhook's Deployment", f"/apis/apps/v1/namespaces/{cluster.system}/deployments/{names.WEBHOOK}"
    )
    pods = cluster.every(
        "the webhook's Pods",
        f"/api/v1/namespaces/{cluster.system}/pods",
        dict,
        labelSelector=f"app.kubernetes.io/name={names.WEBHOOK}",
    )
    if deployment is None and pods is None and len(cluster.missed) - missed == 2:
        return None
    living = [pod for pod in pods or () if "deletionTimestamp" not in pod["metadata"]]
    return webhook(deployment, living, _told(cluster, living), time.time())


def _told(cluster: Cluster, pods: Sequence[Json]) -> dict[str, Json | str]:
    told: dict[str, Json | str] = {}
    for pod in pods:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{cluster.system}/pods/https:{name}:{_port(pod)}/proxy/statusz"
        try:
            told[name] = cluster.api.get(path, _SECONDS)
        except ApiError as error:
            if error.status == _FORBIDDEN:  # then the other Pods are forbidden too
                what = "which policy each replica of the webhook has in force"
                cluster.missed.append(f"{what} could not be looked at: {error.message}")
                return {}
            if error.status == 401:
                raise
            told[name] = f"it does not answer: {error.message}"
    return told


def _port(pod: Json) -> int:
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return next((int(port["containerPort"]) for port in ports if port.get("name") == "https"), _PORT)


def look_at_requests(cluster: Cluster) -> tuple[PendingRequest, ...]:
    """The agents' pending requests for serving certificates."""
    found = cluster.every(
        "certificate requests",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        lambda one: one if is_ours(one) else None,
        fieldSelector=f"spec.signerName={_SIGNER}",
    )
    return pending([one for one in found or () if one is not None], time.time())


def look_at_conditions(
    cluster: Cluster, policy: Policy | str, in_force: Sequence[Holder]
) -> tuple[ConditionState, ...]:
    """The registered match conditions that were made from a policy, against the policy in the cluster's ConfigMap.

    :param policy: that policy, or why there is none
    """
    found = registered(cluster.one("which Jobs the API server sends to the webhook", PATH))
    if not found:
        return ()
    wanted = policy if isinstance(policy, str) else policies.match_condition(policy)
    return tuple(condition_state(one, wanted, in_force) for one in found)


def head_line(found: Webhook | None) -> str:
    """One sentence about the whole webhook."""
    if found is None:
        return "not looked at"
    if found.wanted is None:
        return f"no Deployment {names.WEBHOOK} to be seen"
    apart = "; they do not have the same policy in force" if len(found.policies) > 1 else ""
    return f"{found.ready} of {found.wanted} replicas are ready{apart}"


def row(one: Replica) -> tuple[str, ...]:
    """A replica in the table under ``HEAD``."""
    lives = ((one.certificate_days, "{}d left"), (one.ca_days, "CA {}d"))
    days = ", ".join(words.format(count) for count, words in lives if count is not None) or "-"
    trouble = "; ".join(f"{source}: {error}" for source, error in (one.trouble or {}).items())
    policy = one.policy or ("none" if one.known else "-")
    return (one.name, "yes" if one.ready else "no", policy, one.loaded or "-", days, trouble)


def say_requests(waiting: Sequence[PendingRequest]) -> None:
    """Print the requests that an admin has to approve."""
    for one in waiting:
        words = f"{one.name} of {one.requester}, for {durations.show(one.age)}"
        click.echo(
            f"\nWaits for approval, and until then kubectl logs has no trusted certificate: {words}\n"
            f"  kubectl certificate approve {one.name}"
        )
