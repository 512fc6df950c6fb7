"""Answers the read-only commands qstat and qselect, with OpenPBS' texts and exit codes.

Knows the ledger. A query by ids, by name, or for unfinished jobs takes time only for the jobs that it finds.
"""

from __future__ import annotations

import getopt
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from router.local import display, running, using
from router.local.ledger import Jobs, Ledger
from router.local.records import ACTIVE, FINISHED, Job
from router.local.resources import Rejection

Answer = dict[str, Any]
Call = Mapping[str, Any]
ID: Final = re.compile(r"(\d+)(?:\[\d*\])?(?:\.[A-Za-z0-9._-]+)?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_STATUS_RC, _SYSTEM_RC, _UNKNOWN_QUEUE, _FINISHED, _UNKNOWN = 255, 162, 170, 35, 153
_QSTAT_OPTIONS: Final = "fxwaHtn1sF:D:u:"
_QSTAT_USAGE: Final = "qstat [-f] [-x] [-F format | -w] [-D delim] [-a] [-H] [-u user] [ job_identifier... | queue... ]"
_QSELECT_USAGE: Final = (
    "qselect [-H] [-x] [-N name] [-q queue] [-s states] [-P project_name] [-A account] [-u user_name]"
)


def options_of(words: Sequence[str], options: str, usage: str) -> tuple[dict[str, str], list[str]]:
    """Options and operands of a command line. Raises Rejection with the usage."""
    try:
        given, rest = getopt.getopt(list(words), options)
    except getopt.GetoptError as error:
        raise Rejection(2, f"{error.msg}\nusage: {usage}") from error
    return dict(given), rest


def cannot_connect(name: str, words: Sequence[str], reason: str) -> Answer:
    """The answer of a command that cannot reach the server; qstat's JSON is valid even then."""
    said = f"{name}: cannot connect to server local (errno=15010)"
    if name == "qdel":
        said = "Couldn't connect to cluster: local"
    wants_json = name == "qstat" and "json" in " ".join(words)
    out = display.as_json((), several_asked=False, server="local", now=time.time()) if wants_json else ""
    return {"rc": _STATUS_RC if name == "qstat" else _SYSTEM_RC, "out": out, "err": f"{reason}\n{said}\n"}


def known(ledger: Ledger, call: Call, seq: int) -> Job | None:
    """The job of that number; None if it is unknown, or if a fault hides it."""
    unknown = ledger.faults.jobs_unknown and call.get("faults") != "ignore"
    return None if unknown else ledger.jobs.get(seq)


def _sees(ledger: Ledger, call: Call, job: Job) -> bool:
    hidden = ledger.faults.others_hidden and call.get("faults") != "ignore"
    return not hidden or call["user"] in {job.owner, *ledger.config.operators}


def _lists_nothing(ledger: Ledger, call: Call) -> bool:
    return ledger.faults.list_empty and call.get("faults") != "ignore"


def qstat(ledger: Ledger, call: Call) -> Answer:
    """Jobs by id, of queues, or all; as a table, or with all attributes as text, dsv or JSON."""
    words = call["words"]
    if list(words) == ["--version"]:
        return {"rc": 0, "out": f"pbs_version = {display.VERSION}\n", "err": ""}
    options, rest = options_of(words, _QSTAT_OPTIONS, _QSTAT_USAGE)
    form = options.get("-F", "")
    table = [flag for flag in ("-a", "-u", "-w", "-H") if flag in options]
    if ("-f" in options and table) or (form and "-f" not in options) or form not in {"", "dsv", "json"}:
        raise Rejection(2, f"conflicting options.\nusage: {_QSTAT_USAGE}")
    jobs, problems, rc = _found(ledger, call, rest, history="-x" in options or "-H" in options)
    if "-u" in options:
        users = _users(options["-u"])
        jobs = [job for job in jobs if job.owner in users]
    for job in jobs:
        if job.state in ACTIVE:
            running.find_session(job, ledger.state)
    using.measure(jobs, time.time())
    out = _shown(jobs, options, ledger.config.server, several=len(rest) > 1, wide=bool(table))
    return {"rc": rc, "out": out, "err": "".join(f"qstat: {line}\n" for line in problems)}


def _users(text: str) -> set[str]:
    return {name.partition("@")[0] for name in text.split(",")}


def _shown(jobs: list[Job], options: Mapping[str, str], server: str, *, several: bool, wide: bool) -> str:
    if options.get("-F") == "json":
        return display.as_json(jobs, several_asked=several, server=server, now=time.time())
    if options.get("-F") == "dsv":
        return display.as_dsv(jobs, options.get("-D", "|"))
    if "-f" in options:
        return display.as_text(jobs)
    return display.wide_table(jobs, server, time.time()) if wide else display.plain_table(jobs)


def _found(ledger: Ledger, call: Call, operands: Sequence[str], *, history: bool) -> tuple[list[Job], list[str], int]:
    """The jobs that operands name, in order; the problems of other operands; the exit code of the last problem."""
    found: list[Job] = []
    problems: list[str] = []
    rc = 0
    for operand in operands or [""]:
        match = ID.fullmatch(operand)
        if match is None:
            wrong, words = _not_listed(ledger, operand)
            if wrong:
                rc = wrong
                problems.append(words)
            elif not _lists_nothing(ledger, call):
                queue = operand.partition("@")[0]
                listed = (ledger.jobs if history else ledger.living).values()
                found += [job for job in listed if queue in {"", job.queue} and _sees(ledger, call, job)]
            continue
        job, job_id = known(ledger, call, int(match.group(1))), f"{match.group(1)}.{ledger.config.server}"
        if job is None:
            rc = _UNKNOWN
            problems.append(f"Unknown Job Id {job_id}")
        elif job.state == FINISHED and not history:
            rc = _FINISHED
            problems.append(f"{job_id} Job has finished, use -x or -H to obtain historical job information")
        elif _sees(ledger, call, job):
            found.append(job)
    return found, problems, rc


def _not_listed(ledger: Ledger, operand: str) -> tuple[int, str]:
    """Exit code and error for an operand other than an id; (0, "") if it names a queue or is empty."""
    if operand[:1].isdigit():
        return 1, f"illegally formed job identifier: {operand}"
    queue = operand.partition("@")[0]
    if queue and ledger.config.queue(queue) is None:
        return _UNKNOWN_QUEUE, f"Unknown queue destination {operand}"
    return 0, ""


def qselect(ledger: Ledger, call: Call) -> Answer:
    """The ids of jobs by exact criteria, in the order of submission."""
    options, rest = options_of(call["words"], "xHN:q:s:P:A:u:", _QSELECT_USAGE)
    if rest or not _NAME.fullmatch(options.get("-N", "_")):
        wrong = "" if rest else "illegal -N value\n"
        raise Rejection(2, f"{wrong}usage: {_QSELECT_USAGE}")
    queue = options.get("-q", "").partition("@")[0]
    if queue and ledger.config.queue(queue) is None:
        raise Rejection(_UNKNOWN_QUEUE, "Unknown queue destination")
    jobs = () if _lists_nothing(ledger, call) else _candidates(ledger, options).values()
    users = _users(options["-u"]) if "-u" in options else None
    chosen = [job for job in jobs if _selected(job, options, queue) and _sees(ledger, call, job)]
    chosen = sorted(
        (job for job in chosen if users is None or job.owner in users),
        key=lambda job: job.seq,
    )
    return {"rc": 0, "out": "".join(f"{job.job_id}\n" for job in chosen), "err": ""}


def _candidates(ledger: Ledger, options: Mapping[str, str]) -> Jobs:
    """The smallest index that has all jobs that can match."""
    if "-N" in options:
        return ledger.of_name.get(options["-N"], {})
    if "-H" in options:
        return ledger.finished
    if "-x" not in options:
        return ledger.living
    if "-u" not in options:
        return ledger.jobs
    return _joined(ledger.of_owner.get(user, {}) for user in _users(options["-u"]))


def _joined(indexes: Iterable[Jobs]) -> Jobs:
    return {seq: job for jobs in indexes for seq, job in jobs.items()}


def _selected(job: Job, options: Mapping[str, str], queue: str) -> bool:
    if job.state == FINISHED and not {"-x", "-H"} & set(options):
        return False
    return (
        ("-H" not in options or job.state == FINISHED)
        and queue in {"", job.queue}
        and job.state in options.get("-s", job.state)
        and options.get("-P", job.options.get("-P")) == job.options.get("-P")
        and options.get("-A", job.options.get("-A")) == job.options.get("-A")
    )
