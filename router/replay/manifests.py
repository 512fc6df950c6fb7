"""Jobs and CronJobs as a cluster or a file has them, each as who made it asked.

Pure. The maker of a Job stands in the webhook's annotation. On a Job that went to HPC its signature shows that it is the
webhook's. One in the cloud has none: there it counts in a namespace whose Jobs the webhook judges, as it replaces what a
user writes there. Of a Job of a CronJob the maker is the CronJob controller. The maker of any other Job is unknown, and so
are the groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from router import names, placement
from router.errors import JobError, SignatureError
from router.gate.judging import Gate, created, sized
from router.placement import signing
from router.policy.decision import QueueStates, Requester
from router.policy.identity import CRONJOB_CONTROLLERS, cronjob_controller
from router.policy.model import Policy
from router.replay.cases import EARLIER, GROUPS, UNDATED, UNJUDGED, USER, Case, Skipped
from router.values import unchanging
from router.workload import check_bounds, job_of
from router.workload.cluster import Cluster
from router.workload.model import Workload

_CONTROLLER_MANAGER: Final = "kube-controller-manager"
_INVALID: Final = "invalid"
_OTHER_VERSION: Final = "of another API version than batch/v1"
_KINDS: Final = frozenset({"Job", "CronJob"})
_NO_NAMESPACE: Final = "default"


@unchanging
class Known:
    """What is known beside a manifest.

    :param policies: the two that are compared
    :param states: of the queues, taken for all Jobs
    :param since: seconds since 1970; a Job that was created earlier is skipped
    :param keys: the public keys in force by their ids: the maker of an HPC Job that none of them signed is unknown.
        Without them (None), as with files, each annotation is believed
    :param judged: the namespaces whose Jobs the webhook judges, so that others are left out; None if unknown
    """

    policies: tuple[Policy, Policy]
    cluster: Cluster
    states: QueueStates
    since: float = 0.0
    keys: Mapping[str, Ed25519PublicKey] | None = None
    judged: frozenset[str] | None = None


def from_manifest(value: Mapping[str, Any], place: str, known: Known) -> Case | Skipped | None:
    """The Job of a Job or CronJob; None for any other object."""
    try:
        found = job_of(value)
        if found is None:
            other = value.get("kind") in _KINDS
            return Skipped(_OTHER_VERSION, f"{place}: {value.get('apiVersion')}") if other else None
        moment = created(value)
        if why := _left_out(value, moment, known):
            return Skipped(why, "" if why == EARLIER else place)
        job, root = found
        check_bounds(job, root)
        own = placement.strip(job, root=root).job
        requester, unknown = _requester(value, job, moment, known)
        workload = _sized(own, requester, known, 0, root)
        old, new = (policy.gpu_resources for policy in known.policies)
        resized = None if old == new else _sized(own, requester, known, 1, root)
    except JobError as error:
        return Skipped(_INVALID, f"{place}: {error}")
    name = f"{requester.namespace}/{_name(value)}"
    return Case(name, requester, workload, known.states, place, unknown, None, resized, (job, root), known.cluster)


def _left_out(value: Mapping[str, Any], moment: float | None, known: Known) -> str:
    """Why a Job is not judged at all; empty if it is."""
    if known.since and moment is None:
        return UNDATED
    if moment is not None and moment < known.since:
        return EARLIER
    namespace = _text(value, "metadata", "namespace") or _NO_NAMESPACE
    return UNJUDGED if known.judged is not None and namespace not in known.judged else ""


def _sized(job: dict[str, Any], requester: Requester, known: Known, number: int, root: str) -> Workload:
    """The Job as one of the policies sizes it. They differ only in which resources are GPUs."""
    return sized(job, requester, Gate(known.policies[number], known.cluster, known.states, None, 0), root)


def _requester(
    value: Mapping[str, Any], job: Mapping[str, Any], moment: float | None, known: Known
) -> tuple[Requester, frozenset[str]]:
    """Who asked for a Job, and which facts about that are unknown."""
    namespace = _text(value, "metadata", "namespace") or _NO_NAMESPACE
    labels = known.cluster.namespaces.get(namespace)
    notes = _mapping(job, "spec", "template", "metadata", "annotations")
    cronjob = value.get("kind") == "CronJob"
    # A Job in the cloud has the annotation itself. The webhook sees no CronJob: its owner may have written it, with any name.
    maker = _text(notes, names.KEY_REQUESTER) or _text(value, "metadata", "annotations", names.KEY_REQUESTER)
    if not cronjob and maker and _believed(value, known):
        groups = CRONJOB_CONTROLLERS.get(maker, signing.groups_in(notes))
        return Requester(maker, groups or (), namespace, labels, moment), frozenset({GROUPS} if groups is None else ())
    if cronjob or _by_controller(value):
        accounts = (*known.policies[0].accounts, *known.policies[1].accounts)
        controller = cronjob_controller(accounts, namespace, labels)
        return Requester(controller.user, controller.groups, namespace, labels, moment), frozenset()
    return Requester("", (), namespace, labels, moment), frozenset({USER, GROUPS})


def _believed(job: Mapping[str, Any], known: Known) -> bool:
    """Whether the annotation tells who made a Job. Where the webhook judges no Jobs, anybody may write it."""
    if known.keys is None:
        return True
    if not _text(job, "spec", "template", "metadata", "annotations", names.KEY_REQUESTER):
        # Only the Job itself has it, as in the cloud. The webhook removes a user's own, and an update leaves its own.
        # Jobs of a namespace that is known not to be judged are left out.
        return known.judged is not None
    try:
        signing.signed_claims(job, _text(job, "metadata", "namespace"), known.keys)
    except SignatureError:
        return False
    return True


def _by_controller(value: Mapping[str, Any]) -> bool:
    """Whether the CronJob controller made a Job: it owns it, or wrote its spec. By hand it is somebody's, with a note."""
    if _text(value, "metadata", "annotations", names.CRONJOB_INSTANTIATE) == "manual":
        return False
    metadata = _mapping(value, "metadata")
    owners, fields = metadata.get("ownerReferences"), metadata.get("managedFields")
    owned = any(_text(one, "kind") == "CronJob" for one in (owners if isinstance(owners, list) else ()))
    return owned or any(
        _text(one, "manager") == _CONTROLLER_MANAGER
        and not one.get("subresource")
        and "f:spec" in _mapping(one, "fieldsV1")
        for one in (fields if isinstance(fields, list) else ())
        if isinstance(one, dict)
    )


def _name(value: Mapping[str, Any]) -> str:
    return _text(value, "metadata", "name") or f"{_text(value, 'metadata', 'generateName')}*"


def _mapping(value: object, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _text(value: object, *path: str) -> str:
    found = _mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""
