"""Prints jobs like ``qstat``: the plain and the wide table, ``-f`` as text, dsv and JSON.

Pure. Attribute names and order, widths and oddities are those of OpenPBS 23.06.06. Its JSON has only the first of
several ids, and shows texts that look like numbers, null or lists as such.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import Any, Final

from router.local.records import EXITING, FINISHED, RUNNING, Job
from router.local.resources import clock

VERSION: Final = "23.06.06"
_NODE_LETTER: Final = "n"
_PLAIN_HEAD: Final = (
    "Job id            Name             User              Time Use S Queue\n"
    "----------------  ---------------- ----------------  -------- - -----\n"
)
_WIDE_WIDTHS: Final = (30, 15, 15, 15, 8, 4, 5, 6, 5, 1, 5)
_WIDE_NAMES: Final = (
    "Job ID", "Username", "Queue", "Jobname", "SessID", "NDS", "TSK", "Memory", "Time", "S", "Time"
)  # fmt: skip


def node_name(queue: str, number: int) -> str:
    """The name of a queue's node, as in exec_vnode."""
    return f"{queue}-{_NODE_LETTER}{number + 1}"


def exec_vnode(job: Job) -> str:
    """``(workq-n1:ncpus=2:mem=102400kb)+…``."""
    return "+".join(
        f"({node_name(job.queue, share.node)}:ncpus={share.ncpus}"
        + (f":mem={-(-share.memory // 1024)}kb" if share.memory else "")
        + (f":ngpus={len(share.gpus)}" if share.gpus else "")
        + ")"
        for share in job.shares
    )


def exec_host(job: Job) -> str:
    """``workq-n1/0*2+…``."""
    hosts = []
    for index, share in enumerate(job.shares):
        before = sum(other.node == share.node for other in job.shares[:index])
        hosts.append(f"{node_name(job.queue, share.node)}/{before}" + ("" if share.ncpus == 1 else f"*{share.ncpus}"))
    return "+".join(hosts)


def ctime(moment: float) -> str:
    """Local time as OpenPBS prints it, without a zone."""
    return time.ctime(moment)


def attributes(job: Job) -> dict[str, Any]:
    """The attributes of ``qstat -f``, in its order; ``Resource_List.ncpus`` is nested. All values are text."""
    found = {**_asked(job), **_happened(job)}
    return {name: found[name] for name in _ORDER if found.get(name) not in (None, {})}


def _asked(job: Job) -> dict[str, Any]:
    """The attributes from the submission."""
    options = job.options
    return {
        "Job_Name": job.name,
        "Job_Owner": f"{job.owner}@{job.host}",
        "queue": job.queue,
        "server": job.server,
        "Account_Name": options.get("-A"),
        "Checkpoint": "u",
        "ctime": ctime(job.created),
        "Error_Path": f"{job.host}:{job.error}",
        "Join_Path": options.get("-j", "n"),
        "Keep_Files": options.get("-k", "n"),
        "Mail_Points": options.get("-m", "a"),
        "Output_Path": f"{job.host}:{job.output}",
        "Priority": options.get("-p", "0"),
        "qtime": ctime(job.created),
        "Rerunable": "False" if options.get("-r") == "n" else "True",
        "Resource_List": dict(job.listed),
        "Shell_Path_List": options.get("-S"),
        "Variable_List": {**job.origin, **job.variables},
        "umask": job.attributes.get("umask", "").lstrip("0") or None,
        "Submit_arguments": job.arguments,
        "project": options.get("-P", "_pbs_project_default"),
        "Submit_Host": job.host,
    }


def _happened(job: Job) -> dict[str, Any]:
    """The attributes from the job's run and end."""
    ran = job.started is not None
    return {
        "resources_used": dict(job.used),
        "job_state": job.state,
        "exec_host": exec_host(job) if ran else None,
        "exec_vnode": exec_vnode(job) if ran else None,
        "Hold_Types": "u" if job.held else "n",
        "mtime": ctime(job.modified),
        "stime": _moment(job.started),
        "obittime": _moment(job.ended) if ran else None,
        "session_id": _figure(job.session),
        "substate": str(job.substate),
        "comment": job.comment or None,
        "etime": None if job.held else ctime(job.created),
        "run_count": _figure(job.run_count or None),
        "Stageout_status": _figure(job.stageout),
        "Exit_status": _figure(job.exit_status),
        "history_timestamp": _figure(job.ended if job.state == FINISHED else None),
    }


def _moment(moment: float | None) -> str | None:
    return None if moment is None else ctime(moment)


def _figure(value: float | None) -> str | None:
    return None if value is None else str(int(value))


_ORDER: Final = (
    "Job_Name", "Job_Owner", "resources_used", "job_state", "queue", "server", "Account_Name", "Checkpoint", "ctime",
    "Error_Path", "exec_host", "exec_vnode", "Hold_Types", "Join_Path", "Keep_Files", "Mail_Points", "mtime",
    "Output_Path", "Priority", "qtime", "Rerunable", "Resource_List", "Shell_Path_List", "stime", "obittime",
    "session_id", "substate", "Variable_List", "umask", "comment", "etime", "run_count", "Stageout_status",
    "Exit_status", "Submit_arguments", "history_timestamp", "project", "Submit_Host",
)  # fmt: skip


_NUMBER: Final = re.compile(r"-?\d+")
_ALWAYS_TEXT: Final = frozenset({"Job_Name", "project", "Account_Name", "comment", "Submit_arguments", "umask"})


def as_json(jobs: Sequence[Job], *, several_asked: bool, server: str, now: float) -> str:
    """``-F json``. Given several ids, OpenPBS prints only the first (openpbs issue 2672)."""
    document: dict[str, Any] = {"timestamp": int(now), "pbs_version": VERSION, "pbs_server": server}
    shown = jobs[:1] if several_asked else jobs
    if shown:
        document["Jobs"] = {job.job_id: _typed(attributes(job)) for job in shown}
    return json.dumps(document, indent="\t", separators=(",", ":\t"), ensure_ascii=False) + "\n"


def _typed(found: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {key: _guessed(text) for key, text in value.items()}
        if isinstance(value, dict)
        else (value if name in _ALWAYS_TEXT or not _NUMBER.fullmatch(value) else int(value))
        for name, value in found.items()
    }


def _guessed(text: str) -> Any:
    """A value as JSON if it can be read as JSON, even with leading zeros (``007`` is 7)."""
    if _NUMBER.fullmatch(text):
        return int(text) if len(text) < 19 else float(text)
    try:
        return json.loads(text)
    except ValueError:
        return text


def as_dsv(jobs: Sequence[Job], delimiter: str = "|") -> str:
    """``-F dsv``: one line per job; a delimiter inside a value has a backslash before it."""
    return "".join(delimiter.join(_fields(job, delimiter)) + "\n" for job in jobs)


def _fields(job: Job, delimiter: str) -> list[str]:
    fields = [f"Job Id: {job.job_id}"]
    for name, text in _flat(attributes(job)):
        visible = "".join(char if ord(char) >= 0x20 else f"^{chr(ord(char) + 64)}" for char in text)
        # A backslash is escaped too, but not before a quote or a comma, as in OpenPBS' escape_delimiter.
        escaped = re.sub(rf"\\(?!['\",])|{re.escape(delimiter)}", lambda one: f"\\{one[0]}", visible)
        fields.append(f"{name}={escaped}")
    return fields


def _flat(found: dict[str, Any]) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for name, value in found.items():
        if name == "Variable_List":
            escaped = (f"{key}={text.replace(',', chr(92) + ',')}" for key, text in value.items())
            pairs.append((name, ",".join(escaped)))
        elif isinstance(value, dict):
            pairs += [(f"{name}.{key}", text) for key, text in value.items()]
        else:
            pairs.append((name, value))
    return pairs


def as_text(jobs: Sequence[Job]) -> str:
    """``-f``: one indented ``name = value`` per line, an empty line after each job."""
    blocks = []
    for job in jobs:
        lines = [f"Job Id: {job.job_id}", *(f"    {name} = {text}" for name, text in _flat(attributes(job)))]
        blocks.append("\n".join(lines) + "\n\n")
    return "".join(blocks)


def plain_table(jobs: Sequence[Job]) -> str:
    """``qstat`` without options; empty without jobs."""
    rows = []
    for job in jobs:
        name = job.name if len(job.name) <= 15 else job.name[:15] + "*"
        used = job.used.get("cput", "0") if job.state in {RUNNING, EXITING, FINISHED} else "0"
        rows.append(f"{job.job_id:<17} {name:<16} {job.owner:<16}  {used:>8} {job.state} {job.queue:<16}\n")
    return _PLAIN_HEAD + "".join(rows) if rows else ""


def wide_table(jobs: Sequence[Job], server: str, now: float) -> str:
    """``qstat -w -u`` and ``-w -a``; empty without jobs."""
    if not jobs:
        return ""
    top = " " * (sum(_WIDE_WIDTHS[:7]) + 7) + "Req'd  Req'd   Elap"
    lines = ["", f"{server}: ", top, _row(_WIDE_NAMES, "<"), " ".join("-" * width for width in _WIDE_WIDTHS)]
    return "\n".join([*lines, *(_row(_cells(job, now), ">") for job in jobs)]) + "\n"


def _cells(job: Job, now: float) -> tuple[str, ...]:
    elapsed = None if job.started is None else (job.ended or now) - job.started
    return (
        job.job_id,
        job.owner,
        job.queue,
        job.name if len(job.name) <= 14 else job.name[:14] + "*",
        str(job.session or " -- "),
        job.listed.get("nodect", "1"),
        job.listed.get("ncpus", "1"),
        job.listed.get("mem", " -- "),
        clock(job.walltime)[:-3] if job.walltime is not None else " -- ",
        job.state,
        " -- " if elapsed is None else clock(elapsed)[:-3],
    )


def _row(cells: Sequence[str], align: str) -> str:
    return " ".join(
        f"{cell:{'<' if index < 4 else align}{width}}"
        for index, (cell, width) in enumerate(zip(cells, _WIDE_WIDTHS, strict=True))
    )
