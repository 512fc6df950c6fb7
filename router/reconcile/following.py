"""Which of the batch jobs with a Pod's tag is the Pod's, and whether any of them may still run it.

Pure. The claim decides; before it is anybody's, the one most likely to run is followed and none is deleted,
as any of them may win it at that very moment.
"""

from __future__ import annotations

from router.names import CONDITION_READY, REASON_POD_COMPLETED, REASON_POD_FAILED
from router.pod.status import PodStatus
from router.pod.view import PodView
from router.reconcile.model import Facts, Job, Terms


def followed(facts: Facts) -> Job | None:
    """The Pod's job: the one that the claim names; before that the best of all; None where there is none."""
    notes = facts.life.notes
    if notes is not None:
        return next((one for one in facts.jobs if one.job_id == notes.job), Job(notes.job))
    return min(facts.jobs, key=lambda job: _rank(job, facts.noted), default=None)


def others(facts: Facts) -> tuple[Job, ...]:
    """The jobs with the Pod's tag that are not the Pod's."""
    mine = followed(facts)
    return tuple(one for one in facts.jobs if mine is None or one.job_id != mine.job_id)


def _rank(job: Job, noted: str) -> tuple[int, bool, int, str]:
    """Alive before not heard of, before over, before unknown; the noted one first, then the oldest."""
    state = 0 if job.alive else 3 if job.unknown else 2 if job.finished else 1
    return state, job.job_id != noted, len(job.job_id), job.job_id


def wanted_no_more(facts: Facts) -> bool:
    """Whether the Pod must not run (any longer): deleted, refused for good, ended by others, or sealed."""
    final = facts.attempt is not None and facts.attempt.final
    return facts.pod.deleting or facts.pod.status.terminal or final or facts.life.cancelled


def unsealable(facts: Facts, terms: Terms, now: float) -> bool:
    """Whether the claim is nobody's and cannot be taken: its user has overwritten it, or put something in its place.

    A claim that a script has just made may not be readable yet, for so long as files take to be seen.
    """
    since = facts.unsealed_since
    return since is not None and now >= since + terms.fs_delay and not facts.life.claimed


def departed(pod: PodView) -> bool:
    """Whether there is no Pod any more, only what is left of it on the site."""
    return not pod.name


def concluded(status: PodStatus) -> bool:
    """Whether a terminal phase was written by the agent, which does so only when nothing can run any more.

    Others end Pods too (the garbage collector of a Node that is gone), whatever their batch jobs do. They write the
    phase and a condition of their own; the agent, as a kubelet, also says in ``Ready`` that the Pod is over.
    """
    ready = status.condition(CONDITION_READY)
    return status.terminal and ready is not None and ready.reason in {REASON_POD_COMPLETED, REASON_POD_FAILED}
