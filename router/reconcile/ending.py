"""Decides whether a Pod's run is over, and how it ended.

Pure. There are three sources of truth. The script's files give exit codes. The batch system's record gives its verdict
(why it killed the job), which overrules an exit code of 0, but not always the script's last word. The claim says
whether anything can still start. The silence of a batch system proves nothing.
"""

from __future__ import annotations

from dataclasses import replace

from router.hpc import JobState, Verdict
from router.pod.life import End
from router.reconcile.files import all_well, complete, told
from router.reconcile.following import departed, followed, unsealable, wanted_no_more
from router.reconcile.model import Ask, Facts, Inspect, Job, Look, Seal, Take, Terms
from router.reconcile.verdicts import (
    TOLD_TO_SCRIPT,
    Ending,
    by_files,
    by_record,
    cancelled,
    lost,
    never_ran,
    started_twice,
    twice,
    unclaimed,
)
from router.reconcile.waiting import Wait, both, spread, stretched

_FRESH = 15.0
"""Most seconds since the last look at ``alive`` when the agent concludes that a job is lost: one heartbeat."""

_NOT_CLAIMED = 75
"""The script's exit code if it has not run any container (EX_TEMPFAIL)."""


def judge(facts: Facts, terms: Terms, now: float) -> Ending | Wait:
    """How the Pod's run has ended, or what to do and to wait for until this is known."""
    job = followed(facts)
    if facts.submitting:
        return Wait()
    if facts.life.ran and job is not None:
        return _started(facts, job, terms, now)
    return _not_started(facts, job, terms, now)


# --- nothing has started ------------------------------------------------------------------------------------------


def _not_started(facts: Facts, job: Job | None, terms: Terms, now: float) -> Ending | Wait:
    if facts.life.sealed:
        return _nothing_starts(facts, job)
    if unsealable(facts, terms, now):
        return _not_to_be_sealed(facts, job, terms, now)
    if wanted_no_more(facts):
        return _unwanted(facts, job, terms, now)
    if job is None:
        return Wait()
    if job.finished:
        return _over_without_claim(facts, job, terms, now)
    return _unknown_without_claim(facts, job, terms, now) if job.unknown else Wait()


def _unwanted(facts: Facts, job: Job | None, terms: Terms, now: float) -> Ending | Wait:
    """An unwanted Pod that has not started, as far as is known: read its directory, then seal the claim."""
    if facts.staged is None or (facts.staged and facts.inspected is None):
        return Wait((Inspect(),))
    return _seal(facts, terms, now) if facts.staged else _nothing_starts(facts, job)


def _seal(facts: Facts, terms: Terms, now: float) -> Wait:
    """Take the claim if it is free. If a script holds it, the content of the claim may become readable only later."""
    again = now if facts.sealed_at is None else facts.sealed_at + terms.retry
    return Wait((Seal(),) if now >= again else (), max(again, now + terms.retry))


def _not_to_be_sealed(facts: Facts, job: Job | None, terms: Terms, now: float) -> Ending | Wait:
    """The claim names no script, but the agent is unable to take it: the run is over once the batch system says so.

    The agent searches the batch system by the Pod's tag once more, and asks by id for each job that it ever knew. A
    script that starts nevertheless finds a claim that names another, and runs no container.
    """
    since = facts.unsealed_since or 0.0
    again = (facts.sealed_at or 0.0) + terms.retry_most
    seal = Wait((Seal(),) if now >= again else (), max(again, now + terms.retry))
    if not facts.reachable:
        return seal
    if facts.looked_at is None or facts.looked_at < since:
        return both((Wait((Look(),)), seal))
    unheard = tuple(one.job_id for one in facts.jobs if one.report is None and not one.unknown)
    if unheard:
        return both((Wait((Ask(unheard),), now + terms.retry), seal))
    if any(one.alive for one in facts.jobs):
        return seal
    for one in facts.jobs:
        if (wait := _may_linger(facts, one, terms, now)) is not None:
            return both((wait, seal))
    return unclaimed(facts, job)


def _may_linger(facts: Facts, job: Job, terms: Terms, now: float) -> Wait | None:
    """What to wait for until it is certain that a finished or unknown job runs nothing; None if it is certain now."""
    if job.finished:
        lost_node = job.report is not None and job.report.verdict is Verdict.NODE_LOST
        return _breathing(facts, terms, now) if lost_node else None
    since, last = _unknown_times(job, now)
    if _agreed(job):
        return None
    if last - since < terms.lost_proof:
        return _ask_at(facts, job, since + terms.lost_proof, terms, now)
    return _breathing(facts, terms, now)


def _nothing_starts(facts: Facts, job: Job | None) -> Ending | Wait:
    """Nothing can start any more: the claim is sealed, or the directory is missing.

    If the batch system can be reached, the jobs that are left are deleted before the Pod is reported as ended.
    """
    if facts.reachable:
        unheard = tuple(one.job_id for one in facts.jobs if one.report is None and not one.unknown)
        if unheard:
            return Wait((Ask(unheard),))
        if any(one.alive for one in facts.jobs) or (facts.staged and not facts.looked):
            return Wait()
    return never_ran(facts, job)


def _over_without_claim(facts: Facts, job: Job, terms: Terms, now: float) -> Ending | Wait:
    """The batch system says that the job is over, but no claim is seen: the file may only become visible later."""
    if facts.staged is False:
        return _nothing_starts(facts, job)
    over = job.over_since if job.over_since is not None else now
    started = job.report is not None and (job.report.started is not None or job.report.exit_status is not None)
    delay = terms.fs_delay if started else 0
    return _inspected(facts, over, delay, terms, now) or _seal(facts, terms, now)


def _unknown_without_claim(facts: Facts, job: Job, terms: Terms, now: float) -> Ending | Wait:
    """The job is unknown and no container has started: it is lost if it stays unknown and the claim can be sealed."""
    since, last = _unknown_times(job, now)
    if last - since < terms.lost_proof:
        return _ask_at(facts, job, since + terms.lost_proof, terms, now)
    if facts.staged is False:
        return _nothing_starts(facts, job)
    return _inspected(facts, last, 0, terms, now) or _seal(facts, terms, now)


# --- a script has won the claim -----------------------------------------------------------------------------------


def _started(facts: Facts, job: Job, terms: Terms, now: float) -> Ending | Wait:
    if job.finished:
        return _recorded(facts, job, terms, now)
    if facts.life.end is not None:
        return _without_record(facts, job, facts.life.end, terms, now)
    if job.unknown:
        return _vanished(facts, job, terms, now)
    return _listened(facts, job, terms, now)


def _listened(facts: Facts, job: Job, terms: Terms, now: float) -> Wait:
    """The batch system says that the job runs: check now and then that its script gives signs of life.

    TORQUE reports a job on a dead node as running for ever. A suspended script gives no sign of life.
    """
    running = job.report is not None and job.report.state in {JobState.RUNNING, JobState.EXITING}
    if not running or facts.inspected is None:
        return Wait()
    silence = facts.life.silence
    silent = silence is not None and silence >= terms.silence
    often = silent or facts.signals or job.deletes
    again = facts.inspected + (terms.retry_most if often else spread(facts.pod.uid, terms.listen))
    return Wait((Inspect(),) if now >= again else (), max(again, now + terms.retry), node_lost=silent)


def _recorded(facts: Facts, job: Job, terms: Terms, now: float) -> Ending | Wait:
    """The batch system has a record of the end: the files give the exit codes, once they are visible."""
    verdict = job.report.verdict if job.report else None
    if facts.life.end is None and (verdict is Verdict.NODE_LOST or _started_again(facts, job)):
        return _silent(facts, job, terms, now) or lost(facts, job, Verdict.NODE_LOST)
    if facts.life.end is None and job.report is not None and started_twice(facts, job.report):
        return _silent(facts, job, terms, now) or twice(job.report)
    over = job.over_since if job.over_since is not None else now
    if (wait := _files(facts, over, terms, now) or _last_word(facts, job, over, terms, now)) is not None:
        return wait
    if not facts.locked and _cut_off(facts, job):
        return _silent(facts, job, terms, now) or lost(facts, job, Verdict.NODE_LOST)
    return by_record(facts, job)


def _last_word(facts: Facts, job: Job, over: float, terms: Terms, now: float) -> Wait | None:
    """What to wait for until a last word is visible that would overrule the verdict; None if the verdict stands."""
    verdict = job.report.verdict if job.report else None
    if facts.life.end is not None or verdict not in TOLD_TO_SCRIPT or facts.locked:
        return None
    if cancelled(facts, job.job_id) is not None or (verdict is Verdict.WALLTIME and not all_well(facts)):
        return None
    return _inspected(facts, over, terms.fs_delay, terms, now)


def _cut_off(facts: Facts, job: Job) -> bool:
    """Whether the batch system reports success for a job whose script never came to its end.

    A script that ends writes the exit file of each container, or exits with a code other than 0. TORQUE reports 0 for a
    job whose node has crashed, once the daemon there is back (measured on TORQUE 6.1).
    """
    succeeded = job.report is not None and job.report.succeeded
    return succeeded and facts.life.end is None and not complete(facts)


def _started_again(facts: Facts, job: Job) -> bool:
    """Whether the batch system has started the job a second time, against its options: that start ran no container."""
    begun = facts.life.notes is not None and facts.life.notes.start is not None
    return begun and job.report is not None and job.report.exit_status == _NOT_CLAIMED


def _without_record(facts: Facts, job: Job, end: End, terms: Terms, now: float) -> Ending | Wait:
    """The script has written its end note: wait a short time for the batch system's record of the end."""
    seen = facts.ended_seen if facts.ended_seen is not None else now
    files = _files(facts, seen, terms, now)
    patience = seen + terms.record_patience
    if now >= patience or (job.unknown_last is not None and job.unknown_last >= seen):
        return files or by_files(facts, job, end)
    asking = Wait((), patience)
    if facts.reachable:
        again = job.heard + terms.retry / 2 if job.heard is not None else now
        asking = Wait((Ask((job.job_id,)),) if now >= again else (), min(patience, max(again, now + terms.retry / 2)))
    return both((files, asking)) if files else asking


def _vanished(facts: Facts, job: Job, terms: Terms, now: float) -> Ending | Wait:
    """A job that has started, whose script has not written its end note, and that is unknown to the batch system.

    If its script is silent as well, a second answer soon after the first is proof enough: a batch system does not lose
    a job for a moment just when its node dies. A suspended script is always silent.
    """
    since, last = _unknown_times(job, now)
    if facts.inspected is None or facts.inspected < since:
        return Wait((Inspect(),))
    if _agreed(job):
        return _files(facts, since, terms, now) or by_files(facts, job, None)
    silence = facts.life.silence
    if silence is not None and silence >= terms.silence and complete(facts):
        return by_files(facts, job, None)
    breathing = _breathing(facts, terms, now)
    suspended = job.report is not None and job.report.state is JobState.SUSPENDED
    proof = terms.lost_proof if breathing or suspended else terms.record_patience
    if last - since < proof and not facts.life.cancelled:
        ask = _ask_at(facts, job, since + proof, terms, now)
        if breathing is None:
            return replace(ask, node_lost=not suspended)
        return both((ask, replace(breathing, node_lost=False)))
    return _silent(facts, job, terms, now) or lost(facts, job, None)


def _agreed(job: Job) -> bool:
    """Whether a job is unknown because it ended: it was ending, or the agent deleted it and then it was unknown.

    TORQUE refuses to delete a job on a dead node. If an admin then removes the job's record, processes may still run
    there. A batch system without history forgets a job as soon as it is over, that is, when its processes are gone.
    """
    ending = job.report is not None and job.report.state is JobState.EXITING
    return ending or (job.agreed_at is not None and (job.unknown_last or 0) > job.agreed_at)


def _silent(facts: Facts, job: Job, terms: Terms, now: float) -> Wait | None:
    """What to wait for until a script surely runs nothing any more: it is silent, and the claim was taken from it."""
    if (wait := _breathing(facts, terms, now)) is not None:
        return wait
    if facts.life.cancelled or facts.untaken or facts.locked_since is not None:
        return None
    fresh = facts.inspected is not None and now - facts.inspected <= _FRESH
    return Wait((Take(job.job_id) if fresh else Inspect(),), node_lost=True)


def _breathing(facts: Facts, terms: Terms, now: float) -> Wait | None:
    """What to wait for while a script may still be alive; None once it has been silent for long enough."""
    if facts.inspected is None:
        return Wait((Inspect(),), node_lost=True)
    silence = facts.life.silence
    if facts.locked_since is not None:  # no sign of life can be seen: the time since then counts, without a proof
        silence = facts.inspected - facts.locked_since
    elif silence is None:  # there was only ever the claim, and no script holds it by now
        silence = 0.0 if facts.life.owner and not facts.life.cancelled else terms.silence
    if silence >= terms.silence:
        return None
    again = facts.inspected + terms.silence - silence
    return Wait((Inspect(),) if now >= again else (), max(again, now + terms.retry), node_lost=True)


# --- looking again ------------------------------------------------------------------------------------------------


def _files(facts: Facts, since: float, terms: Terms, now: float) -> Wait | None:
    """What to wait for until the files of the end are visible; None if they are complete, or the time is up.

    A sidecar's exit file decides nothing, and yet its code is shown.
    The logs count too: if they were followed or collected now, the lines that are not visible yet would be missing. For
    a Pod that no longer exists, exit files and logs are irrelevant.
    """
    whole = departed(facts.pod) or (complete(facts) and told(facts) and not facts.life.short)
    return None if whole else _inspected(facts, since, terms.fs_delay, terms, now)


def _inspected(facts: Facts, since: float, delay: float, terms: Terms, now: float) -> Wait | None:
    """Wait until the directory is read ``delay`` seconds after ``since``; None if it already was.

    By then all files that were written before ``since`` are visible.
    """
    if facts.inspected is not None and facts.inspected >= since + delay:
        return None
    again = min(stretched(since, facts.inspected, terms), since + delay)
    return Wait((Inspect(),) if now >= again else (), max(again, now + terms.retry / 2))


def _ask_at(facts: Facts, job: Job, at: float, terms: Terms, now: float) -> Wait:
    """Ask for the job by id once more, but not before the time ``at``."""
    if not facts.reachable:
        return Wait()
    again = max(at, job.heard + terms.retry if job.heard is not None else at)
    return Wait((Ask((job.job_id,)),) if now >= again else (), max(again, now + terms.retry))


def _unknown_times(job: Job, now: float) -> tuple[float, float]:
    """The times of the first and the last answer that there is no such job."""
    since = job.unknown_since if job.unknown_since is not None else now
    return since, job.unknown_last if job.unknown_last is not None else since
