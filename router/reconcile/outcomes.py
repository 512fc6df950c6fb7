"""Updates the facts about a Pod after an answer from outside.

Pure. There is one function for each thing that can be learnt. The agent calls it when an action of a plan has an
outcome, or when it has observed something, and then plans again. If an action failed because the batch system or the
host could not be reached, only ``surroundings`` is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from router.hpc import JobReport, JobState
from router.pod.leftovers import read_exit
from router.pod.life import Life, Note, fold_all, is_job, with_alive, with_claim, with_exit, with_logs
from router.pod.view import PodView
from router.reconcile import starts
from router.reconcile.following import departed, followed
from router.reconcile.model import Attempt, Facts, Inspection, Job, Line, Tell, WordsTold
from router.reconcile.queuewords import WAITS, gist

_MOST_WORDS: Final = 300
"""Most characters of a job's last words, which stand in the Pod's message beside the batch system's reason."""


def first(pod: PodView) -> Facts:
    """The facts about a Pod that is seen for the first time: those that the Pod object carries.

    The remains of a Pod that no longer exists come from the batch system's list. The Pod's name is unknown then, so the
    batch system is not searched for it.
    """
    return _noting(Facts(pod, looked=departed(pod)), pod.job_id)


def with_pod(facts: Facts, pod: PodView) -> Facts:
    """The Pod has changed."""
    return replace(facts, pod=pod)


def wrote(facts: Facts, pod: PodView, now: float) -> Facts:
    """The agent has written a status; the API server answered with this Pod."""
    return replace(facts, pod=pod, written_at=now)


def told(facts: Facts, tell: Tell, now: float) -> Facts:
    """The agent has written an Event."""
    if tell.reason not in WAITS:
        return facts
    return replace(facts, words_told=WordsTold(gist(tell.reason, tell.message), now, starts.read(tell.message)[1]))


def surroundings(
    facts: Facts,
    *,
    reachable: bool,
    older: Sequence[str],
    disruptions: int,
    refused: str = "",
    line: Line | None = None,
) -> Facts:
    """Facts from outside the Pod have changed.

    :param reachable: whether the batch system answers
    :param older: descriptions of older runs of the same Job and index that may still be alive (the fence)
    :param disruptions: number of Pods of the same Job and index whose loss was excused
    :param refused: why nothing may be submitted to the site now; empty if it may
    :param line: who waits in the queue of the Pod's job; kept only while the job waits there, as it may be long
    """
    older, job = tuple(older), followed(facts)
    if job is None or job.report is None or job.report.state is not JobState.QUEUED:
        line = None
    return replace(facts, reachable=reachable, refused=refused, older=older, disruptions=disruptions, line=line)


# --- the directory ------------------------------------------------------------------------------------------------


def found_directory(facts: Facts) -> Facts:
    """A first submission found the Pod's directory: an earlier agent made it, and perhaps submitted a job."""
    return replace(facts, submitting=False, staged=True, looked=False)


def located(facts: Facts) -> Facts:
    """The Pod's directory was found in another place than where it was looked for, so it is to be read there."""
    return replace(facts, staged=True, inspected=None)


def inspected(facts: Facts, inspection: Inspection, now: float) -> tuple[Facts, tuple[str, ...]]:
    """The Pod's directory was read.

    :return: the new facts, and messages about files with invalid content
    """
    since = facts.locked_since if facts.locked_since is not None else now
    facts = replace(facts, inspected=now, staged=inspection.exists, locked_since=since if inspection.locked else None)
    if not inspection.exists:
        return facts, ()
    facts = replace(facts, output=_last_words(inspection.output) or facts.output)
    life = with_claim(facts.life, inspection.claim)
    if not life.cancelled:  # a claim that the agent itself has put there is no sign of the script's life
        life = with_alive(life, inspection.claimed_at, inspection.clock)
    life = with_alive(life, inspection.alive, inspection.clock)
    words = []
    for name, content in inspection.exits:
        found = read_exit(name, content)
        if isinstance(found, str):
            words.append(found)
        else:
            life = with_exit(life, *found)
    life = with_logs(life, dict(inspection.logs))
    facts = _living(facts, life, now)
    noted = inspection.job_id.decode(errors="replace").strip()
    return (facts if facts.noted else _noting(facts, noted)), tuple(words)


def _last_words(output: bytes) -> str:
    words = " ".join(output.decode(errors="replace").split())
    return "".join(one for one in words if one.isprintable())[-_MOST_WORDS:].strip("\ufffd ")


def noticed(facts: Facts, notes: Iterable[Note], now: float) -> Facts:
    """Notes from the spool have been read."""
    return _living(facts, fold_all(facts.life, notes), now)


def sealed(facts: Facts, claim: bytes | None, now: float) -> Facts:
    """The agent has tried to take the claim.

    :param claim: content of the claim now; None without a directory
    """
    if claim is None:
        return replace(facts, staged=False)
    life = with_claim(facts.life, claim)
    since = now if facts.unsealed_since is None else facts.unsealed_since
    facts = replace(facts, staged=True, sealed_at=now, unsealed_since=None if life.claimed else since)
    return _living(facts, life, now)


def untaken(facts: Facts) -> Facts:
    """The user has replaced or locked the claim or its directory, so that the agent could not replace the claim."""
    return replace(facts, untaken=True)


def _living(facts: Facts, life: Life, now: float) -> Facts:
    ended = facts.ended_seen if facts.ended_seen is not None else now
    facts = replace(facts, life=life, ended_seen=ended if life.end else None)
    return _with_job(facts, life.notes.job) if life.notes else facts


# --- the batch system ---------------------------------------------------------------------------------------------


def looked(facts: Facts, reports: Iterable[JobReport], now: float) -> Facts:
    """The batch system was searched for the Pod's tag."""
    for report in reports:
        facts = reported(facts, report, now)
    return replace(facts, looked=True, looked_at=now)


def reported(facts: Facts, report: JobReport, now: float) -> Facts:
    """The batch system has reported the details of a job.

    A job with the name or directory of another Pod has only reused the id of a job that no longer exists.
    """
    if not _is_of(report, facts.pod.uid):
        known = any(one.job_id == report.job_id for one in facts.jobs)
        return unknown(facts, report.job_id, now) if known else facts
    over = report.state is JobState.FINISHED
    return _changed(
        facts,
        report.job_id,
        lambda job: replace(
            job,
            report=report,
            over_since=(job.over_since if job.over_since is not None else now) if over else None,
            unknown_since=None,
            unknown_last=None,
            heard=now,
            plans=starts.heard(job.plans, report.expected, now),
        ),
    )


def unknown(facts: Facts, job_id: str, now: float) -> Facts:
    """The batch system, asked by id as the owner, does not know the job. An earlier record of its end still holds."""

    def change(job: Job) -> Job:
        if job.finished:
            return job
        since = now if job.unknown_since is None else job.unknown_since
        return replace(job, unknown_since=since, unknown_last=now, heard=now)

    return _changed(facts, job_id, change)


def _is_of(report: JobReport, uid: str) -> bool:
    """Whether a job carries the Pod's tag. As a hook may change the job's name, its directory decides if known."""
    if report.directory:
        return report.directory.rstrip("/").endswith(f"/{uid}")
    return not report.name or report.name.endswith(uid)


# --- submission ---------------------------------------------------------------------------------------------------


def submitting(facts: Facts) -> Facts:
    """A submission has begun."""
    return replace(facts, submitting=True, attempt=None)


def not_begun(facts: Facts) -> Facts:
    """A planned submission was not begun: the site has been refused since then, or a thread was lacking."""
    return replace(facts, submitting=False)


def submitted(facts: Facts, job_id: str, image_ids: Mapping[str, str] | None = None) -> Facts:
    """The submit command has answered with a job id.

    :param image_ids: the known imageIDs, by container name
    """
    facts = replace(facts, submitting=False, staged=True, looked=True, attempt=None)
    facts = replace(facts, image_ids=image_ids) if image_ids else facts
    return replace(_with_job(facts, job_id), noted=job_id)


def held_back(facts: Facts, attempt: Attempt, *, staged: bool) -> Facts:
    """The attempt surely made no job: it ended before the submit command, or the batch system refused the job.

    :param staged: whether the Pod's directory was made
    """
    facts = replace(facts, submitting=False, attempt=attempt)
    return replace(facts, staged=True, looked=True) if staged else facts


def unclear(facts: Facts, attempt: Attempt) -> Facts:
    """A submit command was run, and it is unknown whether it made a job: look for the job before anything else."""
    return replace(facts, submitting=False, attempt=attempt, staged=True, looked=False)


def adopted(facts: Facts, job_id: str) -> Facts:
    """The job's id is noted in the Pod's directory."""
    return replace(facts, noted=job_id)


# --- the end ------------------------------------------------------------------------------------------------------


def signalled(facts: Facts, now: float) -> Facts:
    """The agent has asked the script to end, whether or not the command succeeded."""
    since = facts.signalled_at if facts.signalled_at is not None else now
    return replace(facts, signals=facts.signals + 1, signalled_at=since, signalled_last=now)


def deleted(facts: Facts, job_id: str, now: float, *, agreed: bool) -> Facts:
    """The agent has asked the batch system to delete a job.

    :param agreed: whether the batch system accepted the deletion
    """
    return _changed(
        facts,
        job_id,
        lambda job: replace(job, deletes=job.deletes + 1, deleted_at=now, agreed_at=now if agreed else job.agreed_at),
    )


def released(facts: Facts, now: float) -> Facts:
    """The agent has asked the API server to delete the Pod for good."""
    return replace(facts, releases=facts.releases + 1, released_at=now)


def collecting(facts: Facts, now: float) -> Facts:
    """Collecting the results has begun."""
    return replace(facts, collecting_since=facts.collecting_since if facts.collecting_since is not None else now)


def collected(facts: Facts) -> Facts:
    """The results have been collected, or cannot be (an Event said so)."""
    return replace(facts, collected=True)


# --- jobs ---------------------------------------------------------------------------------------------------------


def _noting(facts: Facts, job_id: str) -> Facts:
    """Take a noted job id. Directory and annotation can be written by users, so an id of the wrong form is ignored."""
    if not is_job(job_id):
        return facts
    return replace(_with_job(facts, job_id), noted=job_id, staged=True if facts.staged is None else facts.staged)


def _with_job(facts: Facts, job_id: str) -> Facts:
    return _changed(facts, job_id, lambda job: job)


def _changed(facts: Facts, job_id: str, change: Callable[[Job], Job]) -> Facts:
    """The facts with one of the jobs changed; the job is added first if it is new."""
    known = facts.jobs if any(one.job_id == job_id for one in facts.jobs) else (*facts.jobs, Job(job_id))
    return replace(facts, jobs=tuple(change(one) if one.job_id == job_id else one for one in known))
