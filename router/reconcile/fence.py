"""The fence: while an older run of the same Job and index may be alive, nothing new is submitted.

Pure. The fence keeps work from running twice at once after a Node was deleted, after ``delete pod --force``, or after
the Pod garbage collector has removed a Pod. The Pods of a Job that is not Indexed are alike: for them the fence keeps
the number of runs within the Job's parallelism.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from router.names import CONDITION_DISRUPTION
from router.pod.layout import NO_INDEX
from router.pod.view import PodView
from router.reconcile.following import concluded, departed, followed
from router.reconcile.model import Facts


@dataclass(frozen=True, slots=True)
class Rival:
    """Another Pod of the same Job and index, or the remains of a deleted Pod, that may still run.

    The directory of a Pod tells its Job: a Pod that was released from its Job names no controller, and may still run.

    :param age: time of creation, and uid. A run whose Pod no longer exists is older than all Pods that exist
    :param what: describes it in words
    """

    age: tuple[int, str]
    what: str


def rival(facts: Facts, *, over: bool) -> Rival | None:
    """The Pod, or its remains, as a rival of the other Pods of its Job; None if all of its runs are over.

    A script writes its end note when all its containers have ended, and only this script ever holds the claim.

    :param over: ``Plan.over`` of the last plan for the Pod
    """
    pod = facts.pod
    if over or concluded(pod.status) or facts.life.end is not None:
        return None
    job = followed(facts)
    what = f"batch job {job.job_id}" if job else "an earlier run"
    if not departed(pod):
        what += f" of Pod {pod.name}"
    else:
        what += f" of a Pod that is gone ({pod.uid})"
    return Rival((pod.created, pod.uid), what + " may still run")


def in_the_way(pod: PodView, rivals: Iterable[Rival], *, parallelism: int) -> tuple[str, ...]:
    """Descriptions of the older runs that keep a Pod from being submitted; empty if it may be submitted.

    :param parallelism: of the Pod's Job; it counts only if the Job is not Indexed
    """
    older = sorted(one.what for one in rivals if one.age < (pod.created, pod.uid))
    room = 1 if pod.index != NO_INDEX else max(1, parallelism)
    return tuple(older) if len(older) >= room else ()


def excused(pods: Iterable[PodView]) -> int:
    """How many other Pods of the same Job and index carry the condition that excuses their loss."""
    return sum(one.status.terminal and one.status.holds(CONDITION_DISRUPTION) for one in pods)
