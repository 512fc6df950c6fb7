"""OpenPBS and PBS Professional: the arguments of qsub, qselect, qstat, pbsnodes, qdel and qsig, and their answers.

Pure. Everything here was measured on OpenPBS 23.06.06; the recordings are in the tests. Traps:

- The first job id is 0.
- qstat's JSON prints only the first of several ids, and turns values that look like numbers, null or lists into these.
- A record without Exit_status is no success.
- An answer without jobs proves nothing.
- qstat makes a connection for each id, which ``-E`` prevents; then it leaves out unknown ids in silence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Final

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobReport, JobState, NoHistory, QueueReport, Submission, nodelogin
from router.hpc.openpbs.queues import queue_states
from router.hpc.openpbs.records import STATES, reports
from router.hpc.pbs import by_signal
from router.names import ENV_DIR

DEFAULT: Final = Commands()
NAME_LIMIT: Final = 230
LISTS_ALL: Final = False

_OWN_ID: Final = re.compile(r"(?:0|[1-9][0-9]{0,11})\.[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_ID: Final = re.compile(r"\d+(?:\[\d*\])?\.[A-Za-z0-9][A-Za-z0-9._-]*")
_CUT_ID: Final = re.compile(r"\d+(?:\[\d*\])?(?:\.[A-Za-z0-9._-]*)?\*?")
_CELLS: Final = 11
_UNKNOWN: Final = re.compile(r"(?:Unknown Job Id|maintain job history)\s+(\d+(?:\[\d*\])?\.[A-Za-z0-9._-]+)")
_UNSAFE_DIRECTORY: Final = re.compile(r"[\\\"'\x00-\x1f\x7f]")

# Exit codes of the commands: PBSE codes modulo 256 (pbs_error.h).
_FINISHED, _UNKNOWN_JOB, _BAD_HOST, _SYSTEM, _BAD_STATE = 35, 153, 160, 162, 168
_FULL: Final = frozenset({38, 39, 173})
_HOOK: Final = 32
"""A hook refuses the job; its text may say anything."""
_ZONE: Final = ("TZ", "UTC")
"""Set only for commands that print times: qsub would pass it to the job as PBS_O_TZ."""
_NO_COMMAND: Final = frozenset({126, 127})
_NO_CONNECTION: Final = re.compile(
    r"cannot connect|couldn't connect|connection (?:refused|reset|timed out)|unknown host|timed? ?out|end of file",
    re.IGNORECASE,
)
_NO_HISTORY: Final = re.compile(r"not configured to maintain job history", re.IGNORECASE)
_IN_PLACE_OF: Final[Mapping[str, str]] = {"TERM": "INT"}
_TEMPORARY: Final = re.compile(r"temporar", re.IGNORECASE)


def submit_argv(submission: Submission, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qsub`` with the options that every submission has.

    ``-f``: no background qsub that lives on in the wrong cgroup. ``-r n``: no requeue. ``-S``: a login shell that reads
    stdin would swallow the script and exit with 0. ``-k oed``: output is written directly, not staged. Raises
    ConfigError if ``-v`` would change the directory's path, or the output's path is not ASCII.
    """
    words = ("-f", "-N", submission.name, "-o", _output(submission.output), "-j", "oe", "-k", "oed")
    fixed = ("-r", "n", "-S", "/bin/bash", "-W", "umask=077", "-v", f"{ENV_DIR}={_variable(submission.directory)}")
    return commands.argv("qsub", *words, *fixed, submission.script)


def _output(path: str) -> str:
    if not path.isascii():
        raise ConfigError(f"{path!r}: OpenPBS takes only ASCII in the path of an output file; choose another workDir")
    return path


def _variable(directory: str) -> str:
    if _UNSAFE_DIRECTORY.search(directory) or directory != directory.rstrip():
        raise ConfigError(
            f"{directory!r}: qsub -v changes quotes, backslashes, control characters and trailing blanks; "
            "choose another workDir"
        )
    return f'"{directory}"' if "," in directory else directory


def job_id(stdout: str) -> str:
    """The last line that is exactly a job id: filters and hooks print further lines. Raises OutputError."""
    for line in reversed(stdout.splitlines()):
        if _ID.fullmatch(line.strip()):
            return line.strip()
    raise OutputError(("qsub",), 0, f"no job id in the output of qsub: {stdout[:500]!r}")


def is_id(text: str) -> bool:
    """Whether this is a number and a server: ``0.vm``."""
    return bool(_OWN_ID.fullmatch(text))


def list_argv(*, user: str = "", name: str = "", commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qselect -x``: exact matches, finished jobs included if the server keeps them."""
    words = (*(("-u", user) if user else ()), *(("-N", name) if name else ()))
    return commands.argv("qselect", *_past(commands), *words)


def parse_list(stdout: str) -> tuple[str, ...]:
    """The ids, one per line. Empty output means no jobs, or hidden jobs of other users. Raises OutputError."""
    if stdout and not stdout.endswith("\n"):
        raise OutputError(("qselect",), 0, "the list ends within a line")
    ids = tuple(line.strip() for line in stdout.splitlines() if line.strip())
    for found in ids:
        if not _ID.fullmatch(found):
            raise OutputError(("qselect",), 0, f"not a job id: {found[:200]!r}")
    return ids


def states_argv(users: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qstat -w -u``: a table of these users' unfinished jobs. (``-F`` conflicts with ``-u``.)"""
    return commands.argv("qstat", "-w", "-u", users)


def parse_states(stdout: str) -> dict[str, JobState]:
    """States by id, from the rows below the table's rule: id first, state last but one of eleven cells. OutputError."""
    if not stdout.strip():
        return {}
    lines = stdout.splitlines()
    rule = next((number for number, line in enumerate(lines) if line and not line.strip("- ")), None)
    if rule is None or not stdout.endswith("\n"):
        raise OutputError(("qstat", "-w"), 0, f"not a whole table of qstat: {stdout[:200]!r}")
    states = {}
    for line in lines[rule + 1 :]:
        cells = line.split()
        if len(cells) != _CELLS or not _CUT_ID.fullmatch(cells[0]) or len(cells[-2]) != 1:
            raise OutputError(("qstat", "-w"), 0, f"not a row of qstat: {line[:200]!r}")
        states[cells[0]] = STATES.get(cells[-2], JobState.UNKNOWN)
    return states


def parse_listed(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:  # noqa: ARG001 - as the Protocol has it
    """Empty: the table cuts the fields that matter."""
    return {}


def details_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qstat -x -f`` of these ids, with times in UTC: qstat writes times in the zone of its environment.

    ``-E`` asks for all of them at once. Without it qstat makes a connection for each id, and the login of each takes one of
    the host's ports below 1024 for a minute. Without a free one every command of that host hangs for a minute (measured).
    """
    grouped = ("-E",) if _one_server(job_ids) else ()
    return _timed(commands).argv(*details_words(job_ids, commands, *grouped))


def _timed(commands: Commands) -> Commands:
    return replace(commands, environment=(*commands.environment, _ZONE))


def _one_server(job_ids: Sequence[str]) -> bool:
    """Whether these are several ids of one server, which is asked itself."""
    servers = {word.partition(".")[2] for word in job_ids}
    return len(job_ids) > 1 and len(servers) == 1 and "@" not in "".join(job_ids)


def details_words(job_ids: Sequence[str], commands: Commands, *options: str) -> tuple[str, ...]:
    """The words of ``qstat -x -f``: JSON for one id, dsv for several, as JSON would print only the first.

    Without ``-x`` if the server keeps no history.
    """
    if not job_ids:
        raise ValueError("details of no job: qstat without ids lists the whole server")
    return ("qstat", *_past(commands), *options, "-f", "-F", "json" if len(job_ids) == 1 else "dsv", *job_ids)


def _past(commands: Commands) -> tuple[str, ...]:
    return ("-x",) if commands.history else ()


def parse_details(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:  # noqa: ARG001 - see details_argv
    """Reports by id, of JSON or dsv with times in UTC. Raises OutputError."""
    return reports(stdout, UTC)


def naming_argv(asked: Sequence[str], left_out: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``qstat -x -f`` without ``-E``, which leaves unknown ids out in silence."""
    return _timed(commands).argv(*details_words(left_out, commands)) if _one_server(asked) else None


def past_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:  # noqa: ARG001
    """None: ``qstat -x`` shows finished jobs."""
    return None


def proof_argv(job_id: str, commands: Commands = DEFAULT) -> tuple[str, ...] | None:  # noqa: ARG001
    """None: qstat itself says which ids are unknown."""
    return None


def unknown_ids(stderr: str) -> frozenset[str]:
    """The ids that qstat calls unknown; a server without history also calls finished jobs unknown."""
    return frozenset(_UNKNOWN.findall(stderr))


def cancel_argv(job_id: str, commands: Commands = DEFAULT, *, force: bool = False) -> tuple[str, ...]:
    """``qdel``: TERM, then KILL after the server's kill_delay; queued jobs end at once.

    With ``force`` also a job that is exiting, or whose node does not answer; its processes are killed at once.
    """
    return commands.argv("qdel", *(("-W", "force") if force else ()), job_id)


def signal_argv(job_id: str, signal: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``qsig``, with INT in place of TERM: the signal goes to the job's whole session, whose first process is a shell
    that runs the script as its child. TERM ends that shell, and so the job, before the script can act (measured: exit
    status 271, once 0). On INT the shell waits for the script; the script's background processes ignore INT.
    """
    return commands.argv("qsig", "-s", _IN_PLACE_OF.get(signal, signal), job_id)


def signal_ends(report: JobReport) -> bool:  # noqa: ARG001
    """Never: a signal reaches the script."""
    return False


def queues_argvs(commands: Commands = DEFAULT) -> tuple[tuple[str, ...], ...]:
    """``qstat -Qf`` and ``pbsnodes -av``."""
    return commands.argv("qstat", "-Qf", "-F", "json"), commands.argv("pbsnodes", "-av", "-F", "json")


def parse_queues(outputs: Sequence[str]) -> dict[str, QueueReport]:
    """Queues by name. Raises OutputError."""
    queues, nodes = outputs
    return queue_states(queues, nodes)


def failure(argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
    """The error that a command's end means; None for success, or if one of the jobs is finished, unknown or in a state
    that forbids the command.

    - Exit code 0 with text about a lost connection is a lost connection, except for qsub.
    - On a server without history, ``-x`` exits with 0 and shows no job, even a running one: this is NoHistory.
    - An unknown exit code of qsub is Refused, as qsub then made no job.
    - An unknown exit code of any other command is Unavailable, as it says nothing about a job.
    - A hook's text is ignored as a sign of a lost connection.
    """
    words = stderr.strip()
    if returncode is None or returncode < 0 or returncode in _NO_COMMAND:
        return Unavailable(argv, returncode, words or "the command could not be run to its end")
    submitting = "qsub" in argv
    if not submitting and _NO_HISTORY.search(words):
        return NoHistory(argv, returncode, words)
    if submitting and by_signal(returncode, words):
        return Unavailable(argv, returncode, words or "a signal has ended the command")
    hooked = submitting and returncode == _HOOK
    no_connection = returncode in {_BAD_HOST, _SYSTEM} or (not hooked and _NO_CONNECTION.search(words))
    if returncode == 0 and (submitting or not no_connection):
        return None
    if submitting and not no_connection:
        kind = Full if returncode in _FULL or _TEMPORARY.search(words) else Refused
        return kind(argv, returncode, words)
    gone = returncode in {_FINISHED, _UNKNOWN_JOB, _BAD_STATE} and not no_connection
    return None if gone else Unavailable(argv, returncode, words)


def within_argv(job_id: str, words: Sequence[str], commands: Commands = DEFAULT) -> None:  # noqa: ARG001
    """None: OpenPBS's commands do not carry the stdin of a program that a user starts within a running job."""
    return


def over_ssh(job_id: str, hosts: str, words: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``pbs_attach``: the session becomes one of the job's, with the limits of its cgroup, and ends with it."""
    return nodelogin.argv(hosts, ("pbs_attach", "-j", job_id), words, commands)
