"""TORQUE: the arguments of qsub, qselect, qstat, pbsnodes, qdel and qsig, and their answers.

Pure. Measured on TORQUE's 6.1 line; the recordings are in the tests. Differences from OpenPBS:

- It has no JSON, and other exit codes.
- It has no ``-x`` for history: finished jobs stay for ``keep_completed`` seconds, in state C.
- ``-P`` is another user.
- qsub silently takes a script with ``select``.
- ``qstat`` of an array's id lists every job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobReport, JobState, QueueReport, Submission, nodelogin
from router.hpc.pbs import by_signal
from router.hpc.torque.queues import queue_states
from router.hpc.torque.records import ID, STATES, reports
from router.names import ENV_DIR

DEFAULT: Final = Commands(environment=(("PATH", "/opt/torque/bin:/usr/local/bin:/usr/bin:/bin"),))
NAME_LIMIT: Final = 256
LISTS_ALL: Final = False

_OWN_ID: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})\.[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_UNKNOWN: Final = re.compile(r"Unknown Job Id(?: Error)?\s+([0-9]+\.[A-Za-z0-9._-]+)")
_CUT_ID: Final = re.compile(r"\d+(?:\[\d*\])?(?:\.[A-Za-z0-9._-]*)?")
_CELLS: Final = 11
_TABLE_ID: Final = 22
"""Characters of an id that fit into the table; qstat cuts the rest without a mark."""
_UNSAFE_DIRECTORY: Final = re.compile(r"[\\\"',\x00-\x1f\x7f]")
_UNSAFE_OUTPUT: Final = re.compile(r"[:$\\\"',\x00-\x1f\x7f]")

# Exit codes of the commands: PBSE codes modulo 256 (10-qsub-errors.txt), and the errno of a refused connection.
_UNKNOWN_JOB, _END_OF_FILE, _REFUSED_CONNECTION = 153, 67, 111
_DISABLED: Final = 175
_NO_COMMAND: Final = frozenset({126, 127})
_FULL: Final = re.compile(r"maximum number of jobs already in queue|queue is not enabled|temporar", re.IGNORECASE)
_NO_CONNECTION: Final = re.compile(
    r"cannot connect|could not connect|unable to communicate|connection (?:refused|reset|timed out)|end of file"
    r"|time(?:d)? ?out|too busy|communication failure|shutting down|no free connections|trqauthd|resolve host",
    re.IGNORECASE,
)
_FILTERED: Final = re.compile(
    r"^qsub: (?:Your job has been administratively rejected|submit filter returned an error)",
    re.IGNORECASE | re.MULTILINE,
)
"""The site's filter refuses the job; the lines before this one are its own text, which may say anything."""
_GONE: Final = re.compile(r"unknown job id|invalid state for job|request invalid for state of job", re.IGNORECASE)
_HIDDEN: Final = re.compile(
    r"(?:qstat: (?:Unauthorized Request|Unknown Job Id(?: Error)?)\s+[0-9]+\.[A-Za-z0-9._-]+\s*)+"
)
"""qstat's whole error text for missing jobs, and for jobs of other users if ``query_other_jobs`` is off."""
_IN_PLACE_OF: Final[Mapping[str, str]] = {"TERM": "INT"}


def submit_argv(submission: Submission, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qsub`` with the same options for every job; ``router.hpc.openpbs`` gives the reasons.

    Raises ConfigError if ``-o`` or ``-v`` cannot carry a path unchanged.
    """
    for path, unsafe in ((submission.output, _UNSAFE_OUTPUT), (submission.directory, _UNSAFE_DIRECTORY)):
        if unsafe.search(path) or path != path.rstrip():
            raise ConfigError(
                f"{path!r}: TORQUE's qsub does not carry quotes, commas, backslashes, control characters or trailing "
                "blanks in a path, nor colons and dollars in that of an output file; choose another workDir"
            )
    words = ("-N", submission.name, "-o", submission.output, "-j", "oe", "-r", "n", "-S", "/bin/bash")
    fixed = ("-W", "umask=0077", "-v", f"{ENV_DIR}={submission.directory}", submission.script)
    return commands.argv("qsub", *words, *fixed)


def job_id(stdout: str) -> str:
    """The last line that is exactly a job id: filters print further lines. Raises OutputError."""
    for line in reversed(stdout.splitlines()):
        if ID.fullmatch(line.strip()):
            return line.strip()
    raise OutputError(("qsub",), 0, f"no job id in the output of qsub: {stdout[:500]!r}")


def is_id(text: str) -> bool:
    """Whether this is a number and a server: ``0.vm``. Given an array's id, ``39[].vm``, qstat lists every job."""
    return bool(_OWN_ID.fullmatch(text))


def list_argv(*, user: str = "", name: str = "", commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qselect``: exact matches, finished jobs included while the server keeps them."""
    words = (*(("-u", user) if user else ()), *(("-N", name) if name else ()))
    return commands.argv("qselect", *words)


def parse_list(stdout: str) -> tuple[str, ...]:
    """The ids, one per line. Raises OutputError."""
    if stdout and not stdout.endswith("\n"):
        raise OutputError(("qselect",), 0, "the list ends within a line")
    ids = tuple(line.strip() for line in stdout.splitlines() if line.strip())
    for found in ids:
        if not ID.fullmatch(found):
            raise OutputError(("qselect",), 0, f"not a job id: {found[:200]!r}")
    return ids


def states_argv(users: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qstat -u``: a table. (``-x`` has no effect beside ``-u``.)"""
    return commands.argv("qstat", "-u", users)


def parse_states(stdout: str) -> dict[str, JobState]:
    """States by id, from the rows below the table's rule: id first, state last but one of eleven cells. OutputError.

    An id as long as its column may have been cut, so it gets a ``*``.
    """
    if not stdout.strip():
        return {}
    lines = stdout.splitlines()
    rule = next((number for number, line in enumerate(lines) if line and not line.strip("- ")), None)
    if rule is None or not stdout.endswith("\n"):
        raise OutputError(("qstat", "-u"), 0, f"not a whole table of qstat: {stdout[:200]!r}")
    states = {}
    for line in lines[rule + 1 :]:
        cells = line.split()
        if len(cells) != _CELLS or not _CUT_ID.fullmatch(cells[0]) or not re.fullmatch(r"[A-Z]", cells[-2]):
            raise OutputError(("qstat", "-u"), 0, f"not a row of qstat: {line[:200]!r}")
        shown = cells[0] if len(cells[0]) < _TABLE_ID else f"{cells[0]}*"
        states[shown] = STATES.get(cells[-2], JobState.UNKNOWN)
    return states


def parse_listed(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:  # noqa: ARG001
    """Empty: the table cuts the fields that matter."""
    return {}


def details_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qstat -f -x``: XML."""
    if not job_ids:
        raise ValueError("details of no job: qstat without ids lists the whole server")
    return commands.argv("qstat", "-f", "-x", *job_ids)


def naming_argv(
    asked: Sequence[str],  # noqa: ARG001
    left_out: Sequence[str],  # noqa: ARG001
    commands: Commands = DEFAULT,  # noqa: ARG001
) -> tuple[str, ...] | None:
    """None: ``qstat`` names the ids that it does not know."""
    return None


def past_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:  # noqa: ARG001
    """None: qstat already shows finished jobs while the server keeps their records."""
    return None


def proof_argv(job_id: str, commands: Commands = DEFAULT) -> tuple[str, ...] | None:  # noqa: ARG001
    """None: qstat itself says which ids are unknown."""
    return None


def parse_details(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:  # noqa: ARG001
    """Reports by id. ``zone`` is unused, as times are seconds since 1970. Raises OutputError."""
    return reports(stdout)


def unknown_ids(stderr: str) -> frozenset[str]:
    """The ids that qstat calls unknown."""
    return frozenset(_UNKNOWN.findall(stderr))


def cancel_argv(job_id: str, commands: Commands = DEFAULT, *, force: bool = False) -> tuple[str, ...]:  # noqa: ARG001
    """``qdel``. Only TORQUE's operators may use force (``-p``), so ``force`` has no effect."""
    return commands.argv("qdel", job_id)


def signal_argv(job_id: str, signal: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qsig``, with INT in place of TERM as on OpenPBS: the script's parent is a shell here too."""
    return commands.argv("qsig", "-s", _IN_PLACE_OF.get(signal, signal), job_id)


def signal_ends(report: JobReport) -> bool:
    """Whether the job has several hosts: on any signal, the first host's MoM makes the other hosts kill their processes
    (``mom_req_signal_job`` calls ``terminate_sisters``, TORQUE master 34ff845).
    """
    return len({place.partition("/")[0] for place in report.hosts.split("+")}) > 1


def queues_argvs(commands: Commands = DEFAULT) -> tuple[tuple[str, ...], ...]:
    """``qstat -Q -f`` and ``pbsnodes -x``."""
    return commands.argv("qstat", "-Q", "-f"), commands.argv("pbsnodes", "-x")


def parse_queues(outputs: Sequence[str]) -> dict[str, QueueReport]:
    """Queues by name. Raises OutputError."""
    queues, nodes = outputs
    return queue_states(queues, nodes)


def failure(argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
    """The error that a command's end means; None for success, or if one of the jobs is over, unknown or hidden.

    Unknown codes are Refused for qsub, Unavailable for every other command. A submit filter's text is ignored as a sign
    of a lost connection.
    """
    words = stderr.strip()
    if returncode is None or returncode < 0 or returncode in _NO_COMMAND:
        return Unavailable(argv, returncode, words or "the command could not be run to its end")
    submitting = "qsub" in argv
    if submitting and by_signal(returncode, words):
        return Unavailable(argv, returncode, words or "a signal has ended the command")
    filtered = submitting and _FILTERED.search(words)
    no_connection = returncode in {_END_OF_FILE, _REFUSED_CONNECTION} or (not filtered and _NO_CONNECTION.search(words))
    if returncode == 0 and (submitting or not no_connection):
        return None
    if no_connection:
        return Unavailable(argv, returncode, words)
    if submitting:
        kind = Full if returncode == _DISABLED or _FULL.search(words) else Refused
        return kind(argv, returncode, words)
    gone = returncode == _UNKNOWN_JOB or _GONE.search(words) or _HIDDEN.fullmatch(words)
    return None if gone else Unavailable(argv, returncode, words)


def within_argv(job_id: str, words: Sequence[str], commands: Commands = DEFAULT) -> None:  # noqa: ARG001
    """None: TORQUE's commands do not carry the stdin of a program that a user starts within a running job."""
    return


def over_ssh(job_id: str, hosts: str, words: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``pbs_track``: the session becomes one of the job's, and ends with it."""
    return nodelogin.argv(hosts, ("pbs_track", "-j", job_id, "--"), words, commands)
