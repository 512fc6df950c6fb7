"""Plans how the batch jobs of a Pod that must not run (any longer) are ended.

Pure. If no container has started, the agent takes the claim and then deletes the Pod's jobs. If one has, the agent
signals the script alone and waits for the grace period. Then it deletes the job, again and again until the batch system
agrees that the job is gone. While the batch system is unreachable, nothing is planned.
"""

from __future__ import annotations

from typing import Final

from router.hpc import JobState
from router.reconcile.following import followed, others, unsealable
from router.reconcile.model import Action, Ask, Delete, Facts, Job, Look, Signal, Terms
from router.reconcile.waiting import Wait, both, due

_GENTLE_DELETES: Final = 3
"""After this number of deletions, a job that remains although its run has ended is deleted by force."""
_RUNS: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN})


def cancel(facts: Facts, terms: Terms, now: float) -> Wait:
    """What to do now to end everything that runs for the Pod; ``ending.judge`` says when it has ended."""
    if facts.submitting or not facts.reachable:
        return Wait()
    if facts.staged and not facts.looked and facts.inspected is not None and not facts.life.ran:
        return Wait((Look(),))
    mine = followed(facts)
    if not facts.life.ran or mine is None:
        if unsealable(facts, terms, now):  # any of the jobs may run
            return both(_end(facts, one, terms, now) for one in facts.jobs)
        return both(_delete(one, terms, now) for one in facts.jobs) if _settled(facts) else Wait()
    rest = both(_delete(one, terms, now) for one in others(facts))
    if mine.report is None and not mine.unknown:
        return both((Wait((Ask((mine.job_id,)),), now + terms.retry), rest))
    return both((_end(facts, mine, terms, now), rest))


def delete_others(facts: Facts, terms: Terms, now: float) -> Wait:
    """Delete every job with the Pod's tag except the one that holds the claim.

    While the claim is free, all jobs are left alone, as any of them may win it.
    """
    if not facts.reachable or not facts.life.claimed:
        return Wait()
    return both(_delete(one, terms, now) for one in others(facts))


def delete_lingering(facts: Facts, since: float | None, terms: Terms, now: float) -> Wait:
    """Delete the Pod's own job if the batch system still has it long after the end of its run.

    The Pod's containers have all ended, but the job still holds its nodes, and only the agent would ever end it.

    :param since: when the end became known; None if unknown
    """
    job = followed(facts)
    if job is None or not job.alive or job.report is None or since is None or not facts.reachable:
        return Wait()
    patience = since + terms.linger
    if now < patience:
        return Wait((), patience)
    if (
        job.heard is None or job.heard < patience
    ):  # the job may have ended unnoticed: the agent stops asking about jobs of Pods that are over
        return Wait((Ask((job.job_id,)),), now + terms.retry)
    again = due(job.deletes, job.deleted_at, terms)
    if now < again:
        return Wait((), again)
    asking: tuple[Action, ...] = (Ask((job.job_id,)),) if job.deletes else ()
    force = job.report.state is JobState.EXITING or job.deletes >= _GENTLE_DELETES
    return Wait((*asking, Delete(job.job_id, force=force)), now + terms.retry)


def _settled(facts: Facts) -> bool:
    """Whether it is certain that no job of the Pod can win the claim any more."""
    return facts.life.cancelled or facts.staged is False


def _end(facts: Facts, job: Job, terms: Terms, now: float) -> Wait:
    """End a job that may run the Pod: signal its script first, then delete the job."""
    if not job.alive or job.report is None:
        return Wait()
    gentle = job.report.state in _RUNS and facts.pod.grace > 0 and not facts.life.cancelled
    if not gentle:
        return _delete(job, terms, now)
    since = facts.signalled_at if facts.signalled_at is not None else now
    limit = since + facts.pod.grace + terms.kill_slack
    if now >= limit:
        return _delete(job, terms, now)
    again = due(facts.signals, facts.signalled_last, terms)
    if now < again:
        return Wait((), min(again, limit))
    asking: tuple[Action, ...] = (Ask((job.job_id,)),) if facts.signals else ()
    return Wait((*asking, Signal(job.job_id)), min(now + terms.retry, limit))


def _delete(job: Job, terms: Terms, now: float) -> Wait:
    """Delete a job, and ask whether it is gone, at longer and longer intervals."""
    if not job.alive or job.report is None or job.report.state is JobState.EXITING:
        return Wait()
    again = due(job.deletes, job.deleted_at, terms)
    if now < again:
        return Wait((), again)
    asking: tuple[Action, ...] = (Ask((job.job_id,)),) if job.deletes else ()
    return Wait((*asking, Delete(job.job_id)), now + terms.retry)
