"""Decides which of the batch jobs with a Pod's tag is the Pod's own, and whether any of them may still run it.

Pure. The Pod's own job is the one that holds the claim. Before any job does, the agent follows the job most likely to
run and deletes none, as any of them may win the claim at that moment.
"""

from __future__ import annotations

from router.hpc import JobReport
from router.names import CONDITION_READY, REASON_POD_COMPLETED, REASON_POD_FAILED
from router.pod.status import PodStatus
from router.pod.view import PodView
from router.reconcile.model import Facts, Job, Terms


def followed(facts: Facts) -> Job | None:
    """The Pod's own job: the one that the claim names, or while the claim is free, the best one. None without jobs."""
    notes = facts.life.notes
    if notes is not None:
        return next((one for one in facts.jobs if one.job_id == notes.job), Job(notes.job))
    return min(facts.jobs, key=lambda job: _rank(job, facts.noted), default=None)


def queue_of(facts: Facts) -> str:
    """The queue in which the Pod's job is by its last report, or else by the Pod's annotation; before that, its own."""
    job = followed(facts)
    reported = queue_name(job.report) if job is not None and job.report is not None else ""
    return reported or facts.pod.queue_now.partition("@")[0] or facts.pod.queue


def queue_name(report: JobReport) -> str:
    """The queue of a job, without the server that PBS may write behind it."""
    return report.queue.partition("@")[0]


def others(facts: Facts) -> tuple[Job, ...]:
    """The jobs with the Pod's tag other than the Pod's own job."""
    mine = followed(facts)
    return tuple(one for one in facts.jobs if mine is None or one.job_id != mine.job_id)


def _rank(job: Job, noted: str) -> tuple[int, bool, int, str]:
    """The order of jobs: alive, without report, finished, unknown; among equals the noted one, then the oldest."""
    state = 0 if job.alive else 3 if job.unknown else 2 if job.finished else 1
    return state, job.job_id != noted, len(job.job_id), job.job_id


def wanted_no_more(facts: Facts) -> bool:
    """Whether the Pod must not run (any longer): it was deleted, refused for good, ended by others, or sealed."""
    final = facts.attempt is not None and facts.attempt.final
    return facts.pod.deleting or facts.pod.status.terminal or final or facts.life.cancelled


def unsealable(facts: Facts, terms: Terms, now: float) -> bool:
    """Whether the agent fails to take a claim that names no script: the user has overwritten or replaced the file.

    A claim that a script has just made may be unreadable for as long as files take to become visible.
    """
    since = facts.unsealed_since
    return since is not None and now >= since + terms.fs_delay and not facts.life.claimed


def departed(pod: PodView) -> bool:
    """Whether the Pod no longer exists and there are only its remains on the site."""
    return not pod.name


def concluded(status: PodStatus) -> bool:
    """Whether the agent itself wrote the terminal phase, which it does only when nothing can run any more.

    Other programs end Pods while their batch jobs run (for example the garbage collector after a Node is deleted). They
    write the phase and a condition of their own. The agent, like a kubelet, also says in ``Ready`` that the Pod is
    over.
    """
    ready = status.condition(CONDITION_READY)
    return status.terminal and ready is not None and ready.reason in {REASON_POD_COMPLETED, REASON_POD_FAILED}
