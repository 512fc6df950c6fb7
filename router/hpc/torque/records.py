"""Parses what TORQUE's qstat -f -x prints about jobs into ``JobReport``s.

Pure. For several ids qstat prints several XML documents, one after another. Times are seconds since 1970.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

from router.errors import OutputError
from router.hpc import WAITING, JobReport, JobState, Verdict, waiting
from router.names import ENV_DIR

STATES: Final[Mapping[str, JobState]] = {
    "Q": JobState.QUEUED,
    "T": JobState.QUEUED,
    "W": JobState.QUEUED,
    "H": JobState.HELD,
    "R": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "E": JobState.EXITING,
    "C": JobState.FINISHED,
}

ID: Final = re.compile(r"\d+(?:\[\d*\])?\.[A-Za-z0-9][A-Za-z0-9._-]*")

_DOCUMENT_END: Final = "</Data>"
_DECLARATION: Final = re.compile(r"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)
_VARIABLE: Final = re.compile(rf"(?:^|,){ENV_DIR}=([^,]*)")
# JOB_EXEC_… codes (pbs_job.h) of jobs that had run, and the codes of a shell that TERM or KILL ended from outside.
_VERDICTS: Final[Mapping[int, Verdict]] = {
    -4: Verdict.NODE_LOST,  # INITABT: its node's daemon was restarted (pbs_mom -r) and ended the jobs that ran there
    -5: Verdict.NODE_LOST,  # INITRST: the same for a job with a checkpoint
    -6: Verdict.NODE_LOST,  # INITRMG: the same for a job whose checkpoint was moved
    -10: Verdict.MEMORY,
    -11: Verdict.WALLTIME,
    -12: Verdict.CPU_TIME,
    265: Verdict.DELETED,
    271: Verdict.DELETED,
}


def elements(text: str, kind: str, argv: tuple[str, ...]) -> Iterator[ET.Element]:
    """The elements of that kind in all documents of an answer. Raises OutputError."""
    *documents, rest = text.split(_DOCUMENT_END)
    if rest.strip() or _DECLARATION.search(text):
        raise OutputError(argv, 0, f"no whole XML documents: {rest[:200]!r}")
    for document in documents:
        try:
            # XML is unsafe through entities; without declarations there are none.
            root = ET.fromstring(document.strip() + _DOCUMENT_END)  # noqa: S314
        except (ET.ParseError, ValueError) as error:
            raise OutputError(argv, 0, f"not XML: {error}: {document[:200]!r}") from error
        if root.tag != "Data" or any(one.tag != kind for one in root) or (root.text or "").strip():
            raise OutputError(argv, 0, f"not a list of {kind}: {document[:200]!r}")
        yield from root


def reports(text: str) -> dict[str, JobReport]:
    """Reports by job id. Raises OutputError."""
    found: dict[str, JobReport] = {}
    for job in elements(text, "Job", ("qstat", "-x")):
        report = _report(job)
        if found.setdefault(report.job_id, report) != report:
            raise OutputError(("qstat", "-x"), 0, f"{report.job_id} twice, and not the same")
    return found


def _report(job: ET.Element) -> JobReport:
    job_id, code = _text(job, "Job_Id"), _text(job, "job_state")
    if not ID.fullmatch(job_id) or not re.fullmatch(r"[A-Z]", code):
        raise OutputError(("qstat", "-x"), 0, f"not a job, or without a state: {job_id[:200]!r} {code[:20]!r}")
    state = STATES.get(code, JobState.UNKNOWN)
    status = _status(job_id, _text(job, "exit_status"))
    variable = _VARIABLE.search(_text(job, "Variable_List"))
    started = _time(job_id, _text(job, "start_time"))
    return JobReport(
        job_id=job_id,
        state=state,
        code=code,
        exit_status=status,
        verdict=_verdict(status, started) if state is JobState.FINISHED else None,
        reason=_text(job, "comment"),
        plain=waiting.of_pbs(_text(job, "comment")) if state in WAITING else "",
        aside=state is JobState.QUEUED and waiting.aside_at_pbs(code, _text(job, "comment")),
        name=_text(job, "Job_Name"),
        owner=_text(job, "Job_Owner").partition("@")[0],
        queue=_text(job, "queue"),
        directory=variable[1] if variable else "",
        hosts=_text(job, "exec_host"),
        resources=_group(job, "Resource_List"),
        used=_group(job, "resources_used"),
        submitted=_time(job_id, _text(job, "qtime")),
        started=started,
        ended=_time(job_id, _text(job, "comp_time")),
    )


def _verdict(status: int | None, started: datetime | None) -> Verdict:
    """Why a job ended. The record of a job deleted while queued lacks exit status and start."""
    if status is None:
        return Verdict.NEVER_RAN if started else Verdict.DELETED
    if status in _VERDICTS:
        return _VERDICTS[status]
    return Verdict.ENDED if status >= 0 else Verdict.NEVER_RAN


def _status(job_id: str, text: str) -> int | None:
    if not text:
        return None
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise OutputError(("qstat", "-x"), 0, f"{job_id}: not an exit_status: {text[:200]!r}")
    return int(text)


def _time(job_id: str, text: str) -> datetime | None:
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,11}", text):
        raise OutputError(("qstat", "-x"), 0, f"{job_id}: not a time: {text[:200]!r}")
    return datetime.fromtimestamp(int(text), UTC)


def _text(element: ET.Element, name: str) -> str:
    return (element.findtext(name) or "").strip()


def _group(element: ET.Element, name: str) -> dict[str, str]:
    found = element.find(name)
    return {} if found is None else {one.tag: (one.text or "").strip() for one in found}
