"""How what shall not run (any longer) is brought to its end.

Pure. What has not started is sealed by the claim and its jobs are deleted. What runs is asked to end by a signal to its
script alone, has the grace period, and is then deleted, again and again until the batch system agrees that it is
gone. A server that cannot be reached is told later.
"""

from __future__ import annotations

from typing import Final

from router.hpc import JobState
from router.reconcile.following import followed, others, unsealable
from router.reconcile.model import Action, Ask, Delete, Facts, Job, Look, Signal, Terms
from router.reconcile.waiting import Wait, both, due

_GENTLE_DELETES: Final = 3
"""A job whose run has ended and that so many deletions did not end is deleted by force."""
_RUNS: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.UNKNOWN})


def cancel(facts: Facts, terms: Terms, now: float) -> Wait:
    """What to do now so that nothing of the Pod runs any more; ``ending.judge`` says when that is so."""
    if facts.submitting or not facts.reachable:
        return Wait()
    if facts.staged and not facts.looked and facts.inspected is not None and not facts.life.ran:
        return Wait((Look(),))
    mine = followed(facts)
    if not facts.life.ran or mine is None:
        if unsealable(facts, terms, now):  # any of them may run
            return both(_end(facts, one, terms, now) for one in facts.jobs)
        return both(_delete(one, terms, now) for one in facts.jobs) if _settled(facts) else Wait()
    rest = both(_delete(one, terms, now) for one in others(facts))
    if mine.report is None and not mine.unknown:
        return both((Wait((Ask((mine.job_id,)),), now + terms.retry), rest))
    return both((_end(facts, mine, terms, now), rest))


def delete_others(facts: Facts, terms: Terms, now: float) -> Wait:
    """Delete every job with the Pod's tag but the one with the claim. Before the claim is anybody's, any may win it."""
    if not facts.reachable or not facts.life.claimed:
        return Wait()
    return both(_delete(one, terms, now) for one in others(facts))


def delete_lingering(facts: Facts, since: float | None, terms: Terms, now: float) -> Wait:
    """Delete the Pod's own job where the batch system still has it long after the end of its run.

    Nothing of the Pod runs any more, but the job holds its nodes, and nobody else would ever end it.

    :param since: when the end was known; None where it is not
    """
    job = followed(facts)
    if job is None or not job.alive or job.report is None or since is None or not facts.reachable:
        return Wait()
    patience = since + terms.linger
    if now < patience:
        return Wait((), patience)
    if (
        job.heard is None or job.heard < patience
    ):  # it may have ended unnoticed: jobs of Pods that are over are not asked about
        return Wait((Ask((job.job_id,)),), now + terms.retry)
    again = due(job.deletes, job.deleted_at, terms)
    if now < again:
        return Wait((), again)
    asking: tuple[Action, ...] = (Ask((job.job_id,)),) if job.deletes else ()
    force = job.report.state is JobState.EXITING or job.deletes >= _GENTLE_DELETES
    return Wait((*asking, Delete(job.job_id, force=force)), now + terms.retry)


def _settled(facts: Facts) -> bool:
    """Whether no job of the Pod can win the claim any more."""
    return facts.life.cancelled or facts.staged is False


def _end(facts: Facts, job: Job, terms: Terms, now: float) -> Wait:
    """A job that may run the Pod: first its script alone, then the job."""
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
    """Deletion, and a question whether it has come about, at longer and longer intervals."""
    if not job.alive or job.report is None or job.report.state is JobState.EXITING:
        return Wait()
    again = due(job.deletes, job.deleted_at, terms)
    if now < again:
        return Wait((), again)
    asking: tuple[Action, ...] = (Ask((job.job_id,)),) if job.deletes else ()
    return Wait((*asking, Delete(job.job_id)), now + terms.retry)
