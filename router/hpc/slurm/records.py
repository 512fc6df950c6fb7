"""Parses what squeue, sacct and scontrol print about jobs into ``JobReport``s.

Pure. All three use the same states. sacct and scontrol write an exit code as ``status:signal``, squeue as a wait
status. Times are seconds since 1970 if the command got SLURM_TIME_FORMAT, else local time without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Final

from router.errors import OutputError
from router.hpc import WAITING, JobReport, JobState, Verdict, waiting

UNIT_END: Final = "\x1f"
RECORD_END: Final = "\x1e"

LISTED: Final = (
    "JobID", "State", "Reason", "exit_code", "UserName", "Partition", "SubmitTime", "StartTime", "EndTime", "NodeList",
    "TimeUsed", "TimeLimit", "Name", "WorkDir",
)  # fmt: skip
"""The fields asked of squeue, by the names of its ``-O``."""
RECORDED: Final = (
    "JobIDRaw", "State", "ExitCode", "User", "Partition", "Submit", "Start", "End", "NodeList", "Elapsed", "Timelimit",
    "MaxRSS", "TotalCPU", "JobName", "WorkDir",
)  # fmt: skip
"""The fields asked of sacct, by the names of its ``-o``."""

STATES: Final[Mapping[str, JobState]] = {
    "PENDING": JobState.QUEUED,
    "CONFIGURING": JobState.QUEUED,
    "REQUEUED": JobState.QUEUED,
    "REQUEUE_FED": JobState.QUEUED,
    "POWER_UP_NODE": JobState.QUEUED,
    "REQUEUE_HOLD": JobState.HELD,
    "SPECIAL_EXIT": JobState.HELD,
    "RESV_DEL_HOLD": JobState.HELD,
    "RUNNING": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "UPDATE_DB": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "STOPPED": JobState.SUSPENDED,
    "COMPLETING": JobState.EXITING,
    "STAGE_OUT": JobState.EXITING,
    "REVOKED": JobState.MOVED,
    "COMPLETED": JobState.FINISHED,
    "FAILED": JobState.FINISHED,
    "TIMEOUT": JobState.FINISHED,
    "OUT_OF_MEMORY": JobState.FINISHED,
    "CANCELLED": JobState.FINISHED,
    "NODE_FAIL": JobState.FINISHED,
    "PREEMPTED": JobState.FINISHED,
    "DEADLINE": JobState.FINISHED,
    "BOOT_FAIL": JobState.FINISHED,
    "LAUNCH_FAILED": JobState.FINISHED,
    "RECONFIG_FAIL": JobState.FINISHED,
}
"""Slurm's states, https://slurm.schedmd.com/job_state_codes.html."""

_VERDICTS: Final[Mapping[str, Verdict]] = {
    "COMPLETED": Verdict.ENDED,
    "FAILED": Verdict.ENDED,
    "TIMEOUT": Verdict.WALLTIME,
    "DEADLINE": Verdict.WALLTIME,
    "OUT_OF_MEMORY": Verdict.MEMORY,
    "CANCELLED": Verdict.DELETED,
    "NODE_FAIL": Verdict.NODE_LOST,
    "PREEMPTED": Verdict.PREEMPTED,
    "BOOT_FAIL": Verdict.NEVER_RAN,
    "LAUNCH_FAILED": Verdict.NEVER_RAN,
    "RECONFIG_FAIL": Verdict.NEVER_RAN,
}
_NOT_STARTED: Final = re.compile(r"JobLaunchFailure|launch[ _]failed|Prolog", re.IGNORECASE)
_HELD: Final = re.compile(r"JobHeld|JobHoldMaxRequeue|launch[ _]failed[ _]requeued[ _]held|SpecialExit", re.IGNORECASE)

_SPAN: Final = re.compile(r"([0-9]+-)?(?:([0-9]{1,2}):)?([0-9]{1,3}):([0-9]{2})")
_NO_TIME: Final = frozenset({"", "0", "N/A", "Unknown", "NONE", "(null)", "None", "None assigned"})
_BEGUN: Final = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.EXITING, JobState.FINISHED})
_EXIT: Final = re.compile(r"(\d{1,5}):(\d{1,3})")
_JOB: Final = re.compile(r"\d{1,10}")
_STEP: Final = re.compile(r"(\d{1,10})(?:\+\d+)?(?:\.[A-Za-z0-9_+]+)?")
_WHOLE_LINE: Final = re.compile(r"(Command|WorkDir|StdErr|StdIn|StdOut|Comment|AdminComment|SystemComment)=(.*)")
_WORD: Final = re.compile(r"([A-Za-z][A-Za-z0-9:/_.]*)=(\S*)")
_SIGNALLED, _LAST_SIGNAL = 128, 31
_SHOW: Final = ("scontrol", "show", "job")
_SHOWN: Final = frozenset(
    {
        "JobId", "JobName", "UserId", "JobState", "Reason", "ExitCode", "RunTime", "TimeLimit", "SubmitTime", "StartTime",
        "EndTime", "Partition", "NodeList", "WorkDir",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Raw:
    """A job in a command's own words; ``exit`` is ``status:signal``."""

    command: str
    job_id: str
    state: str
    exit: str
    reason: str
    user: str
    queue: str
    submitted: str
    started: str
    ended: str
    hosts: str
    spent: str
    limit: str
    name: str
    directory: str


def listed_reports(text: str, zone: tzinfo) -> dict[str, JobReport]:
    """Reports by id, of ``squeue -O`` with the fields of ``LISTED``. Raises OutputError."""
    if text and not text.endswith(f"{RECORD_END}\n"):
        raise OutputError(("squeue",), 0, f"the list ends within a record: {text[-200:]!r}")
    reports: dict[str, JobReport] = {}
    for record in text.split(f"{RECORD_END}\n")[:-1]:
        values = record.split(UNIT_END)
        if len(values) != len(LISTED) or not _JOB.fullmatch(values[0]):
            raise OutputError(("squeue",), 0, f"not a record of squeue: {record[:200]!r}")
        job_id, state, reason, status, *rest = values
        report = _report(_Raw("squeue", job_id, state, _wait_status(status), reason, *rest), zone)
        if reports.setdefault(job_id, report) != report:
            raise OutputError(("squeue",), 0, f"{job_id} twice: a job's name or directory pretends to be a job")
    return reports


def _wait_status(text: str) -> str:
    """``status:signal`` of a wait(2) status; text that already has that form is unchanged. Raises OutputError."""
    if _EXIT.fullmatch(text):
        return text
    if not re.fullmatch(r"\d{1,10}", text):
        raise OutputError(("squeue",), 0, f"not an exit code: {text[:200]!r}")
    status = int(text)
    return f"{(status >> 8) & 0xFF}:{status & 0x7F}"


def accounting_reports(text: str, zone: tzinfo) -> dict[str, JobReport]:
    """Reports by id, of ``sacct -P`` with the fields of ``RECORDED``: one record a job, then one for each of its steps.

    If a step ran out of memory, so did the job, even if its script went on. Raises OutputError.
    """
    jobs: dict[str, JobReport] = {}
    for values in _accounted(text):
        step = _STEP.fullmatch(values[0])
        if not step:
            raise OutputError(("sacct",), 0, f"not a job id: {values[0][:200]!r}")
        job_id, state, exited, user, queue, submitted, started, ended, hosts, spent, limit, *rest = values
        memory, processor, name, place = rest
        if job_id == step[1]:
            if job_id in jobs:
                raise OutputError(("sacct",), 0, f"{job_id} twice: a job's name or directory pretends to be a job")
            times = (submitted, started, ended, hosts, spent, limit)
            report = _report(_Raw("sacct", job_id, state, exited, "", user, queue, *times, name, place), zone)
            jobs[job_id] = _with_processor(report, processor)
        elif step[1] in jobs:
            jobs[step[1]] = _with_step(jobs[step[1]], state, memory)
    return jobs


def _accounted(text: str) -> Iterator[list[str]]:
    """The fields of each record. A name may hold newlines, so a record continues until it has all of its fields."""
    if text and not text.endswith("\n"):
        raise OutputError(("sacct",), 0, "the answer ends within a line")
    pending = ""
    for line in text.split("\n")[:-1]:
        pending = f"{pending}\n{line}" if pending else line
        values = pending.split(UNIT_END)
        if len(values) > len(RECORDED):
            break
        if len(values) == len(RECORDED):
            yield values
            pending = ""
    if pending:
        raise OutputError(("sacct",), 0, f"not a record of sacct: {pending[:200]!r}")


def _with_processor(job: JobReport, spent: str) -> JobReport:
    """The report with the processor's time of all steps. Where Slurm gathers no figures, sacct writes 0 for it.

    :param spent: TotalCPU, which has thousandths below an hour: ``25:00.250``
    """
    if not job.used or not re.search("[1-9]", spent):
        return job
    return replace(job, used={**job.used, "cput": _span(spent.partition(".")[0])})


def _with_step(job: JobReport, state: str, memory: str) -> JobReport:
    killed = job.verdict is Verdict.ENDED and state.startswith("OUT_OF_MEMORY")
    most = max(job.used.get("mem", ""), memory, key=_figure)
    used = {**job.used, "mem": most} if most else job.used
    return replace(job, verdict=Verdict.MEMORY if killed else job.verdict, used=used)


def _figure(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)", text)
    return float(found[1]) * 1024.0 ** " KMGT".index(found[2] or " ") if found else -1.0


def controller_reports(text: str, zone: tzinfo) -> dict[str, JobReport]:
    """Reports by id, of ``scontrol show job ID``: of one job, or of all jobs of an array. Raises OutputError.

    A job ends in an empty line. Each free text ends its line: the name the first line, each path a line of its own.
    """
    if not text.endswith("\n\n"):
        raise OutputError(_SHOW, 0, "the answer ends within a job")
    jobs = [_shown(job, zone) for job in re.split(r"\n\s*\n(?=JobId=)", text)]
    return {job.job_id: job for job in jobs}


def _shown(text: str, zone: tzinfo) -> JobReport:
    found: dict[str, str] = {}
    for name, value in _attributes(text):
        if found.setdefault(name, value) != value:
            raise OutputError(_SHOW, 0, f"{name} twice: {text[:200]!r}")
    lacking = sorted(_SHOWN.difference(found))
    if lacking or not _JOB.fullmatch(found["JobId"]):
        raise OutputError(_SHOW, 0, f"not a whole job ({', '.join(lacking)}): {text[:200]!r}")
    user = found["UserId"].partition("(")[0]
    times = (found["SubmitTime"], found["StartTime"], found["EndTime"])
    what = (found["JobId"], found["JobState"], found["ExitCode"], found["Reason"], user, found["Partition"])
    spent = (found["NodeList"], found["RunTime"], found["TimeLimit"], found["JobName"], found["WorkDir"])
    return _report(_Raw("scontrol", *what, *times, *spent), zone)


def _attributes(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        rest = line.strip()
        if rest.startswith("JobId="):
            head, _, rest = rest.partition(" ")
            yield "JobId", head.removeprefix("JobId=")
            # An array's job: ArrayJobId=7 ArrayTaskId=1 JobName=...
            before, name, rest = rest.partition("JobName=")
            yield from _WORD.findall(before)
            yield name.removesuffix("="), rest
        elif whole := _WHOLE_LINE.fullmatch(rest):
            yield whole[1], whole[2]
        else:
            yield from _WORD.findall(rest)


def _report(raw: _Raw, zone: tzinfo) -> JobReport:
    """The report that a job's fields mean. Raises OutputError for an unreadable state or figure."""
    word = raw.state.partition(" ")[0]
    if not re.fullmatch(r"[A-Z_]{2,30}", word):
        raise OutputError((raw.command,), 0, f"{raw.job_id}: not a state: {raw.state[:200]!r}")
    state = STATES.get(word, JobState.UNKNOWN)
    if state is JobState.QUEUED and _HELD.search(raw.reason):
        state = JobState.HELD
    over = state is JobState.FINISHED
    exited = _exit_status(raw) if over else None
    verdict = _verdict(word, raw.reason, exited) if over else None
    begun = state in _BEGUN
    return JobReport(
        job_id=raw.job_id,
        state=state,
        code=word,
        # Slurm shows 0:0 for a job without an exit code, one that was ended from outside or never began.
        exit_status=None if exited == 0 and (verdict is not Verdict.ENDED or word == "FAILED") else exited,
        verdict=verdict,
        reason=_reason(raw, word),
        plain=waiting.of_slurm(raw.reason) if state in WAITING else "",
        aside=state is JobState.QUEUED and waiting.aside_at_slurm(raw.reason),
        name=raw.name,
        owner=raw.user,
        queue=raw.queue,
        directory=raw.directory,
        hosts="" if raw.hosts in _NO_TIME else raw.hosts,
        resources={} if raw.limit in _NO_TIME else {"walltime": _span(raw.limit)},
        used={"walltime": _span(raw.spent)} if begun and raw.spent not in _NO_TIME else {},
        submitted=_time(raw, raw.submitted, zone),
        # For some waiting jobs squeue shows the start that backfill currently plans.
        expected=_time(raw, raw.started, zone) if state is JobState.QUEUED else None,
        started=_time(raw, raw.started, zone) if begun else None,
        ended=_time(raw, raw.ended, zone) if over else None,
    )


def _span(text: str) -> str:
    """A span of time as sacct and PBS write it, HH:MM:SS; squeue omits leading zeros (0:42, 1-2:03:04)."""
    if (found := _SPAN.fullmatch(text)) is None:
        return text  # UNLIMITED, INVALID, Partition_Limit
    days, hours, minutes, seconds = found.groups(default="")
    return f"{days}{hours or '0':0>2}:{minutes:0>2}:{seconds}"


def _verdict(word: str, reason: str, exited: int | None) -> Verdict:
    verdict = _VERDICTS[word]
    # Slurm also says JobLaunchFailure of a script that a signal killed; a job that never began has other exit codes.
    signalled = _SIGNALLED < (exited or 0) <= _SIGNALLED + _LAST_SIGNAL
    if word == "FAILED" and ((_NOT_STARTED.search(reason) and not signalled) or exited == 0):
        return Verdict.NEVER_RAN
    return verdict


def _exit_status(raw: _Raw) -> int:
    found = _EXIT.fullmatch(raw.exit)
    if not found:
        raise OutputError((raw.command,), 0, f"{raw.job_id}: not an exit code: {raw.exit[:200]!r}")
    return _SIGNALLED + int(found[2]) if int(found[2]) else int(found[1])


def _reason(raw: _Raw, word: str) -> str:
    """Slurm's reason; without one, the state of a job that did not end by itself (``CANCELLED by 1000``)."""
    if raw.reason not in _NO_TIME:
        return raw.reason
    return raw.state if _VERDICTS.get(word, Verdict.ENDED) is not Verdict.ENDED else ""


def _time(raw: _Raw, text: str, zone: tzinfo) -> datetime | None:
    if text in _NO_TIME:
        return None
    try:
        if re.fullmatch(r"\d{1,12}", text):
            return datetime.fromtimestamp(int(text), UTC)
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=zone)
    except (ValueError, OverflowError, OSError) as error:
        raise OutputError((raw.command,), 0, f"{raw.job_id}: not a time: {text[:200]!r}") from error
