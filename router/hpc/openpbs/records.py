"""Parses what qstat -f prints about jobs, as JSON or dsv, into ``JobReport``s.

Pure. In JSON, qstat writes a text that looks like a number, null, boolean or list as one (``-v X=007`` is 7); every
value is turned back into text. In dsv:

- A delimiter in a value has a backslash before it, and so has a backslash (but not before a quote or a comma).
- A newline in a value is the two characters ``\\n`` (23.06.06), or a newline whose next line lacks ``Job Id:``.

A repeated attribute is an error: the second could be part of a value that imitates an attribute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Any, Final

from router.errors import OutputError
from router.hpc import WAITING, JobReport, JobState, Verdict, waiting
from router.names import ENV_DIR

STATES: Final[Mapping[str, JobState]] = {
    "Q": JobState.QUEUED,
    "T": JobState.QUEUED,
    "W": JobState.QUEUED,
    "M": JobState.MOVED,
    "H": JobState.HELD,
    "R": JobState.RUNNING,
    "B": JobState.RUNNING,
    "S": JobState.SUSPENDED,
    "U": JobState.SUSPENDED,
    "E": JobState.EXITING,
    "F": JobState.FINISHED,
    "X": JobState.FINISHED,
}

_ARGV: Final = ("qstat", "-f")
_VARIABLES: Final = "Variable_List"
"""May hold a repeated key: a user may give a variable several times."""
_HEAD: Final = "Job Id: "
_ID: Final = re.compile(r"\d+(?:\[\d*\])?\.[A-Za-z0-9][A-Za-z0-9._-]*")
_FIELD_END: Final = re.compile(r"(?<!\\)((?:\\\\)*)\|")
_ESCAPED: Final = re.compile(r"\\([\\|nf])")
_MEANT: Final[Mapping[str, str]] = {"n": "\n", "f": "\f"}
_VARIABLE_END: Final = re.compile(r"(?<!\\)((?:\\\\)*),")
_CTIME: Final = "%a %b %d %H:%M:%S %Y"

_ENDED_BY_PBS: Final[Mapping[int | None, Verdict]] = {
    -29: Verdict.WALLTIME,
    -28: Verdict.CPU_TIME,
    -27: Verdict.MEMORY,
    -26: Verdict.MEMORY,  # virtual memory
    -20: Verdict.NODE_LOST,  # its node was given up
    -4: Verdict.NODE_LOST,  # its node's daemon was restarted and ended the jobs that ran there
}
"""JOB_EXEC_… codes (job.h) of jobs that had run. Other negative codes mean that the job could not be started."""
_DELETED_SUBSTATE: Final = "91"


def reports(text: str, zone: tzinfo) -> dict[str, JobReport]:
    """Reports by job id, of JSON or dsv. ``zone`` is the zone of the times, which lack one. Raises OutputError."""
    records = json_records(text) if text.lstrip().startswith("{") else dsv_records(text)
    return {found: report(found, attributes, zone) for found, attributes in records.items()}


def json_records(text: str) -> dict[str, dict[str, Any]]:
    """Attributes by job id, of ``-F json``; empty if ``Jobs`` is absent. Raises OutputError."""
    try:
        answer = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise OutputError(_ARGV, 0, f"not JSON: {error}: {text[:200]!r}") from error
    jobs = answer.get("Jobs", {}) if isinstance(answer, dict) else None
    if not isinstance(jobs, dict) or not isinstance(answer.get("pbs_server"), str):
        raise OutputError(_ARGV, 0, f"not an answer of qstat: {text[:200]!r}")
    _demand_once(answer, jobs)
    for job_id, attributes in jobs.items():
        if not _ID.fullmatch(job_id) or not isinstance(attributes, dict):
            raise OutputError(_ARGV, 0, f"not a job: {job_id[:200]!r}")
        _demand_once(attributes, *(value for name, value in attributes.items() if name != _VARIABLES))
    return jobs


class _Repeated(dict[str, Any]):
    """A JSON object in which a key is repeated; it holds the key's last value."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _Repeated(found)


def _demand_once(*values: object) -> None:
    for value in values:
        if isinstance(value, _Repeated):
            raise OutputError(_ARGV, 0, f"a job or an attribute twice: {str(value)[:200]}")


def dsv_records(text: str) -> dict[str, dict[str, Any]]:
    """Attributes by job id, of ``-F dsv`` with its default delimiter. Raises OutputError."""
    if not text.strip():
        return {}
    if not text.endswith("\n"):
        raise OutputError(_ARGV, 0, "the answer ends within a line")
    if not text.startswith(_HEAD):
        raise OutputError(_ARGV, 0, f"not an answer of qstat: {text[:200]!r}")
    records: dict[str, dict[str, Any]] = {}
    for record in re.split(rf"\n(?={_HEAD})", text[:-1]):
        head, *fields = _split(record, _FIELD_END)
        job_id = head.removeprefix(_HEAD)
        if not _ID.fullmatch(job_id):
            raise OutputError(_ARGV, 0, f"not a job id: {job_id[:200]!r}")
        attributes = _attributes(fields)
        if records.setdefault(job_id, attributes) != attributes:
            raise OutputError(_ARGV, 0, f"{job_id} twice: a value of a job pretends to be a job")
    return records


def _attributes(fields: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in fields:
        name, equals, value = _ESCAPED.sub(lambda one: _MEANT.get(one[1], one[1]), field).partition("=")
        if not equals:
            raise OutputError(_ARGV, 0, f"not an attribute: {field[:200]!r}")
        group, dot, resource = name.partition(".")
        place = found.setdefault(group, {}) if dot else found
        if not isinstance(place, dict) or (resource or name) in place:
            raise OutputError(_ARGV, 0, f"an attribute twice: {name[:200]!r}")
        place[resource or name] = dict(_variables(value)) if name == _VARIABLES else value
    return found


def _split(text: str, end: re.Pattern[str]) -> list[str]:
    """The parts between delimiters, still escaped. An odd number of backslashes before a delimiter escapes it."""
    parts = end.split(text)
    return [part + backslashes for part, backslashes in zip(parts[::2], [*parts[1::2], ""], strict=True)]


def _variables(value: str) -> list[tuple[str, str]]:
    pairs = (item.partition("=") for item in _split(value, _VARIABLE_END))
    return [(name, content.replace("\\,", ",")) for name, _, content in pairs]


def report(job_id: str, attributes: Mapping[str, Any], zone: tzinfo) -> JobReport:
    """The report that a job's attributes mean. Raises OutputError for a missing state or an unreadable figure."""
    code = _text(attributes.get("job_state"))
    if not re.fullmatch(r"[A-Z]", code):
        raise OutputError(_ARGV, 0, f"{job_id}: no job_state")
    state = STATES.get(code, JobState.UNKNOWN)
    status = _status(job_id, attributes)
    used, asked = _group(attributes, "resources_used"), _group(attributes, "Resource_List")
    return JobReport(
        job_id=job_id,
        state=state,
        code=code,
        exit_status=status,
        verdict=_verdict(attributes, status) if state is JobState.FINISHED else None,
        deletion=state is not JobState.FINISHED and _is_deleted(attributes),
        reason=_text(attributes.get("comment")),
        plain=waiting.of_pbs(_text(attributes.get("comment"))) if state in WAITING else "",
        aside=state is JobState.QUEUED and waiting.aside_at_pbs(code, _text(attributes.get("comment"))),
        name=_text(attributes.get("Job_Name")),
        owner=_text(attributes.get("Job_Owner")).partition("@")[0],
        queue=_text(attributes.get("queue")),
        directory=_group(attributes, _VARIABLES).get(ENV_DIR, ""),
        hosts=_text(attributes.get("exec_host")),
        resources=asked,
        used=used,
        submitted=_time(job_id, attributes.get("qtime"), zone),
        expected=_expected(attributes, zone) if state is JobState.QUEUED else None,
        started=_time(job_id, attributes.get("stime"), zone),
        ended=_time(job_id, attributes.get("obittime"), zone),
    )


def _verdict(attributes: Mapping[str, Any], status: int | None) -> Verdict:
    """Why a finished job ended. A deletion outranks the exit status: a job that trapped TERM may have ended with 0."""
    if status in _ENDED_BY_PBS:
        return _ENDED_BY_PBS[status]
    if _is_deleted(attributes):
        return Verdict.DELETED
    if status is None or status < 0:
        return Verdict.NEVER_RAN
    diagnosis = _group(attributes, "resources_used").get("diag_messages", "")
    return Verdict.MEMORY if "mem limit exceeded" in diagnosis else Verdict.ENDED


def _is_deleted(attributes: Mapping[str, Any]) -> bool:
    """Whether the job was deleted. Its comment says so at once, while its processes still have time to end."""
    return _text(attributes.get("substate")) == _DELETED_SUBSTATE or " terminated" in _text(attributes.get("comment"))


def _status(job_id: str, attributes: Mapping[str, Any]) -> int | None:
    value = attributes.get("Exit_status")
    if value is None:
        return None
    if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]{1,9}", str(value)):
        raise OutputError(_ARGV, 0, f"{job_id}: not an Exit_status: {str(value)[:200]!r}")
    return int(value)


def _group(attributes: Mapping[str, Any], name: str) -> dict[str, str]:
    found = attributes.get(name)
    return {key: _text(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _time(job_id: str, value: object, zone: tzinfo) -> datetime | None:
    if value is None:
        return None
    try:
        return datetime.strptime(_text(value), _CTIME).replace(tzinfo=zone)
    except ValueError as error:
        raise OutputError(_ARGV, 0, f"{job_id}: not a time: {_text(value)[:200]!r}") from error


def _expected(attributes: Mapping[str, Any], zone: tzinfo) -> datetime | None:
    """``estimated.start_time``, if the site's scheduler estimates starts; else None."""
    text = _group(attributes, "estimated").get("start_time", "")
    try:
        if re.fullmatch(r"[0-9]{1,11}", text):
            return datetime.fromtimestamp(int(text), zone)
        return datetime.strptime(text, _CTIME).replace(tzinfo=zone)
    except ValueError:  # UNKNOWN or empty; no error, as the figure is only shown to people
        return None


def _text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
