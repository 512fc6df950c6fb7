"""Works out how a Pod ends: phase, reason, message, and the condition that a podFailurePolicy may match.

Pure. The batch system's verdict gives the reason, and the files give the exit codes. Without a record of the batch
system, the script's own notes decide. A run that was told to end before its containers had ended never succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from router.hpc import JobReport, JobState, Verdict
from router.names import (
    CONDITION_DELETED,
    CONDITION_DISRUPTION,
    CONDITION_MEMORY,
    CONDITION_WALLTIME,
    REASON_CANCELLED,
    REASON_CPU_TIME,
    REASON_DEADLINE,
    REASON_JOB_DELETED,
    REASON_JOB_FAILED,
    REASON_JOB_LOST,
    REASON_MEMORY,
    REASON_NODE_FAILED,
    REASON_PREEMPTED,
)
from router.pod.life import End
from router.reconcile.files import all_well
from router.reconcile.model import Facts, Job


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a Pod.

    :param reason: of the Pod; empty if the containers' exit codes explain the end
    :param message: includes the batch system's own words
    :param condition: type of the condition that says why; empty if there is none
    :param never_ran: whether the end came before any container had started, so there are no results to collect
    :param succeeded: whether the phase is Succeeded; else Failed
    """

    reason: str = ""
    message: str = ""
    condition: str = ""
    never_ran: bool = False
    succeeded: bool = False


_VERDICTS: Final = {
    Verdict.WALLTIME: (REASON_DEADLINE, "exceeded its walltime", CONDITION_WALLTIME),
    Verdict.CPU_TIME: (REASON_CPU_TIME, "exceeded its CPU time", CONDITION_WALLTIME),
    Verdict.MEMORY: (REASON_MEMORY, "exceeded its memory", CONDITION_MEMORY),
    Verdict.NODE_LOST: (REASON_NODE_FAILED, "was lost with its node", CONDITION_DISRUPTION),
    Verdict.PREEMPTED: (REASON_PREEMPTED, "was ended to make room for others", CONDITION_DISRUPTION),
    Verdict.NEVER_RAN: (REASON_JOB_FAILED, "could not be started", ""),
}
"""Reason, words and condition for a verdict. CPU time counts as walltime, as running again would not help either."""

TOLD_TO_SCRIPT: Final = frozenset({Verdict.WALLTIME, Verdict.DELETED, Verdict.NODE_LOST})
"""Ends of which the script is told, or which it does not survive: its last word would say so, or be missing.

The others may hit a process or a step and not the script: out of memory, a limit of CPU time, the grace time of Slurm's
preemption.
"""

_CLOCKS_DIFFER: Final = 5
"""Seconds by which the node's clock may be behind that of the batch system's server."""

_REFUSED_WITHIN: Final = 5
"""Seconds within which a second start on the same node ends."""

_OVERWRITTEN: Final = (
    'the file "claim" in the Pod\'s directory was overwritten, so it is unknown whether the Pod has run; as the batch '
    "system has no running job of the Pod, the Pod counts as cancelled or failed"
)
_GONE: Final = "and its files are gone, so it is unknown whether it has run"
_LOCKED: Final = "the job replaced or locked its own directory, so its exit code and logs cannot be read"


def by_record(facts: Facts, job: Job) -> Ending:
    """The end of a run for which the batch system has a record."""
    report = job.report
    if report is None or report.verdict is None or _of_another_start(facts, report):
        return by_files(facts, job, facts.life.end)
    if report.verdict is Verdict.DELETED and (ours := cancelled(facts, report.job_id)) is not None:
        return ours
    if report.verdict in TOLD_TO_SCRIPT and _ended_well(facts, report):
        return by_files(facts, job, facts.life.end)
    if report.verdict is Verdict.DELETED:
        return _by_deletion(facts, report)
    if report.verdict in _VERDICTS:
        reason, did, condition = _VERDICTS[report.verdict]
        return Ending(reason, _words(job.job_id, did, report.reason), condition)
    return by_files(facts, job, facts.life.end)


def _ended_well(facts: Facts, report: JobReport) -> bool:
    """Whether the script came to its end, with every container well, before anybody told it to end.

    A killed slurmctld may forget that a job has ended. It then waits until the job's time is up, or finds no such job
    on the node, and records the end as it sees it (measured on Slurm 22.05: TIMEOUT, CANCELLED and NODE_FAIL). Of ranks
    on several nodes some may be told to end, and end well, while the script's own node is cut off.
    """
    end = facts.life.end
    would_be_told = not facts.pod.profile or report.one_host
    return would_be_told and end is not None and end.code == 0 and not end.reason and all_well(facts)


def _of_another_start(facts: Facts, report: JobReport) -> bool:
    """Whether a record that says deleted or node lost is about a start after the script had written its end note.

    A killed slurmctld forgets that a job has run, starts the job once more, and then cancels or loses it. This second
    start ran no container, and the record of the first start is lost. The end note's time comes from the node's clock.
    It is believed unless it puts the end before the submission.
    """
    end = facts.life.end
    if end is None or report.submitted is None or report.started is None:
        return False
    ended_from_outside = report.verdict in {Verdict.DELETED, Verdict.NODE_LOST}
    return ended_from_outside and report.submitted.timestamp() <= end.time < report.started.timestamp()


def started_twice(facts: Facts, report: JobReport) -> bool:
    """Whether a record that says deleted is about a moment in the midst of the script's run.

    A killed slurmctld may forget that it has started a job, and start it again. The node refuses at once, as it has the
    job already, and slurmd has it cancelled (measured on Slurm 22.05). Nobody deleted that job. The script's times come
    from the node's clock: if that is behind, the start alone looks like a second one, but then the record is longer.
    A script that came to its end untold has failed by itself.
    """
    notes, end = facts.life.notes, facts.life.end
    if report.submitted is None or report.started is None or report.ended is None or (end and not end.reason):
        return False
    if report.verdict is not Verdict.DELETED or cancelled(facts, report.job_id) is not None:
        return False
    if notes is None or notes.start is None:
        return False
    begun, again = notes.start.time, report.started.timestamp()
    within = begun + _CLOCKS_DIFFER < again and (end is None or again <= end.time)
    refused = report.ended.timestamp() - again <= _REFUSED_WITHIN
    return report.submitted.timestamp() <= begun and within and refused


def _by_deletion(facts: Facts, report: JobReport) -> Ending:
    if started_twice(facts, report):
        return twice(report)
    return _deleted(facts, report.job_id, report.reason)


def twice(report: JobReport) -> Ending:
    """The end of a run during which the batch system started the job a second time."""
    did = "was started a second time by the batch system while its script ran, and then ended"
    return Ending(REASON_JOB_LOST, _words(report.job_id, did, report.reason), CONDITION_DISRUPTION)


def _deleted(facts: Facts, job_id: str, words: str) -> Ending:
    if (ours := cancelled(facts, job_id)) is not None:
        return ours
    return Ending(REASON_JOB_DELETED, _words(job_id, "was deleted in the batch system", words), CONDITION_DELETED)


def cancelled(facts: Facts, job_id: str) -> Ending | None:
    """The end that the agent itself has asked for: of a deleted Pod, or of one that may not run; None else."""
    if facts.pod.deleting:
        return Ending(REASON_CANCELLED, _words(job_id, "was cancelled: the Pod was deleted", ""))
    if facts.attempt is not None and facts.attempt.final:
        return Ending(facts.attempt.reason, _words(job_id, f"was cancelled: {facts.attempt.message}", ""))
    return None


def by_files(facts: Facts, job: Job, end: End | None) -> Ending:
    """The end of a run as its files tell it.

    A script that was told to end cannot say by whom: a node that is shut down for maintenance tells it to end as well.
    So the end counts as a deletion, which a podFailurePolicy may exclude from retries, only if the batch system says
    so.

    :param end: the script's end note; None if missing
    """
    if _late(facts, end):
        return Ending(REASON_DEADLINE, _words(job.job_id, "was ended at its deadline", ""), CONDITION_WALLTIME)
    if end is not None and end.reason == "lost":
        did = "was ended by its script: the Pod's directory could not be reached from the node"
        return Ending(REASON_NODE_FAILED, _words(job.job_id, did, ""), CONDITION_DISRUPTION)
    if (end is None or end.reason) and job.report is not None and job.report.deletion:
        return _deleted(facts, job.job_id, job.report.reason)
    if end is not None and end.reason:
        return _told_to_end(facts, job)
    if all_well(facts):
        return Ending(succeeded=True)
    return _failed(facts, job, end)


def _told_to_end(facts: Facts, job: Job) -> Ending:
    if (ours := cancelled(facts, job.job_id)) is not None:
        return ours
    return Ending(REASON_JOB_DELETED, _words(job.job_id, "was told to end by the batch system", ""))


def _late(facts: Facts, end: End | None) -> bool:
    exits = (one for _, known in facts.life.exits for one in known)
    return (end is not None and end.reason == "deadline") or any(one.deadline for one in exits)


def _failed(facts: Facts, job: Job, end: End | None) -> Ending:
    runs = (facts.life.run(one.name) for one in facts.pod.containers)
    if any(run is not None and run.exit is not None and run.exit.code != 0 for run in runs):
        return Ending()
    if (ours := cancelled(facts, job.job_id)) is not None:
        return ours
    if facts.locked:
        return Ending(REASON_JOB_FAILED, f"job {job.job_id}: {_LOCKED}")
    status = end.code if end else job.report.exit_status if job.report else None
    did = "ended" if status is None else f"ended with exit code {status}"
    words = job.report.reason if job.report else ""
    return Ending(REASON_JOB_FAILED, _words(job.job_id, f"{did} before all its containers had ended", words))


def lost(facts: Facts, job: Job, verdict: Verdict | None) -> Ending:
    """The end of a run that is lost: there will never be any news of it again."""
    if (ours := cancelled(facts, job.job_id)) is not None:
        return ours
    words = job.report.reason if job.report else ""
    if verdict is Verdict.NODE_LOST:
        did = "was lost with its node"
        return Ending(REASON_NODE_FAILED, _words(job.job_id, did, words), CONDITION_DISRUPTION)
    did = "is not known to the batch system any more, and its script has given no sign of life"
    return Ending(REASON_JOB_LOST, _words(job.job_id, did, words), CONDITION_DISRUPTION)


def never_ran(facts: Facts, job: Job | None) -> Ending:
    """The end of a Pod of which no container has started or can start."""
    attempt = facts.attempt
    if attempt is not None and attempt.final:
        return Ending(attempt.reason, attempt.message, never_ran=True)
    if facts.pod.deleting:
        return Ending(REASON_CANCELLED, "the Pod was deleted before any of its containers had started", never_ran=True)
    if job is None:
        return Ending(REASON_CANCELLED, "the Pod was given up before any of its containers had started", never_ran=True)
    return _never_ran_job(facts, job)


def unclaimed(facts: Facts, job: Job | None) -> Ending:
    """The end of a Pod whose claim was overwritten. Only the batch system tells of it; it never counts as a success."""
    attempt = facts.attempt
    if attempt is not None and attempt.final:
        return Ending(attempt.reason, attempt.message, never_ran=True)
    did = _LOCKED if facts.locked else _OVERWRITTEN
    words = f"job {job.job_id}: {did}" if job is not None else did
    return Ending(REASON_CANCELLED if facts.pod.deleting else REASON_JOB_FAILED, words)


def _never_ran_job(facts: Facts, job: Job) -> Ending:
    report = job.report
    if report is None or report.state is not JobState.FINISHED or report.verdict is None:
        did = "is not known to the batch system any more, and had not started"
        return Ending(REASON_JOB_LOST, _words(job.job_id, did, ""), CONDITION_DISRUPTION, never_ran=True)
    if report.verdict is Verdict.DELETED:
        did = "was deleted in the batch system before it had started"
        return Ending(REASON_JOB_DELETED, _words(job.job_id, did, report.reason), CONDITION_DELETED, never_ran=True)
    if report.verdict in {Verdict.ENDED, Verdict.NEVER_RAN}:
        return _never_began(facts, job, report)
    reason, did, condition = _VERDICTS[report.verdict]
    return Ending(reason, _words(job.job_id, did, report.reason), condition, never_ran=True)


def _never_began(facts: Facts, job: Job, report: JobReport) -> Ending:
    """The end of a batch job before its script began: a failure of the batch system, after which a kubelet would try again.

    Under load, for example, slurmd may delete a script before it starts it (``_handle_stray_script``). The batch system
    or the files must prove it: a program of the job itself, or a site that removes old files, may have removed the claim.
    """
    life = facts.life
    if report.verdict is Verdict.NEVER_RAN:
        did = _VERDICTS[Verdict.NEVER_RAN][1]
    elif life.sealed and life.alive is None and not life.exits:
        did = "ended before any container had started" + _status(report)
    else:
        did = f"ended{_status(report)}, {_GONE}"
        return Ending(REASON_JOB_FAILED, _words(job.job_id, did, report.reason), never_ran=True)
    said = _words(job.job_id, did, report.reason)
    words = f"{said}; its output ends: {facts.output}" if facts.output else said
    return Ending(REASON_JOB_FAILED, words, CONDITION_DISRUPTION, never_ran=True)


def _status(report: JobReport) -> str:
    return "" if report.exit_status is None else f" (exit code {report.exit_status})"


def _words(job_id: str, did: str, words: str) -> str:
    said = " ".join(words.split())
    return f"job {job_id} {did}: {said}" if said else f"job {job_id} {did}"
