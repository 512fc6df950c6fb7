"""The fence: while an older run of the same Job and index may be alive, nothing new is submitted (design 9).

Pure. Neither a deleted Node, nor ``delete pod --force``, nor the garbage collector of Pods then makes work run twice at
once. For Jobs that are not Indexed the Pods are alike: there it is the number of runs that must not grow beyond the
Job's parallelism.
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
    """Another Pod of the same Job and index, or what is left of one.

    Its directory says of which Job it is: a Pod that was taken from its Job names none any more, and may still run.

    :param age: its place in the order of creation: time and uid; what has no Pod any more is older than all that have
    :param what: it in words
    """

    age: tuple[int, str]
    what: str


def rival(facts: Facts, *, over: bool) -> Rival | None:
    """What a Pod, or what is left of it, is to the other Pods of its Job; None where nothing of it can run.

    A script says its last word when all its containers have ended; nothing else ever has the claim.

    :param over: what the last plan for it said
    """
    pod = facts.pod
    if over or concluded(pod.status) or facts.life.end is not None:
        return None
    job = followed(facts)
    what = f"batch job {job.job_id}" if job else "an earlier run"
    if not departed(pod):
        what += f" of Pod {pod.name}" if job else f", Pod {pod.name}"
    else:
        what += f" of a Pod that is gone ({pod.uid})"
    return Rival((pod.created, pod.uid), what + " may still run")


def in_the_way(pod: PodView, rivals: Iterable[Rival], *, parallelism: int) -> tuple[str, ...]:
    """What keeps a Pod from being submitted, each in words; empty where nothing does.

    :param parallelism: of the Pod's Job; of an Indexed Job, whose indexes run once each, it is not asked
    """
    older = sorted(one.what for one in rivals if one.age < (pod.created, pod.uid))
    room = 1 if pod.index != NO_INDEX else max(1, parallelism)
    return tuple(older) if len(older) >= room else ()


def excused(pods: Iterable[PodView]) -> int:
    """How many of the other Pods of the same Job and index were lost without being a failure."""
    return sum(one.status.terminal and one.status.holds(CONDITION_DISRUPTION) for one in pods)
