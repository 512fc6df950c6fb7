"""Slurm: the words of sbatch, squeue, sacct, scontrol and scancel, and what their ends mean.

Pure. Every command of Slurm fails with exit code 1, so its words decide. Traps that shaped it: a list drops ids that are
unknown, purged or hidden without a word; sacct lags behind squeue and shows a job that ran as PENDING; only
``scontrol show job ID`` says that there is no such job, and it takes one id. Fields of our own choice end in control
characters, as names and paths may hold anything else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Final

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobReport, JobState, NoHistory, QueueReport, Submission
from router.hpc.slurm import records as slurmrecords
from router.hpc.slurm.queues import COUNTED, queue_states
from router.hpc.slurm.records import (
    LISTED,
    RECORD_END,
    RECORDED,
    UNIT_END,
    accounting_reports,
    controller_reports,
    listed_reports,
)

DEFAULT: Final = Commands(
    environment=(("PATH", "/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin"), ("SLURM_TIME_FORMAT", "%s")),
)
"""Slurm's own times have no zone; with this variable they are seconds since 1970."""
STATES: Final[Mapping[str, JobState]] = slurmrecords.STATES
NAME_LIMIT: Final = 255
"""Slurm itself sets none; its accounting keeps so many characters."""
LISTS_ALL: Final = True

_LAST_ID: Final = (1 << 31) - 1
"""Of a greater number squeue says that it is no job's, and nothing of the others that it was asked about."""
_ID: Final = re.compile(r"\d{1,10}")
_PARSABLE: Final = re.compile(r"(\d{1,10})(?:;[A-Za-z0-9_.-]+)?")
_FORMAT: Final = ",".join(f"{name}:{UNIT_END}" for name in LISTED[:-1]) + f",{LISTED[-1]}:{RECORD_END}"
_COUNTED: Final = ",".join(f"{name}:{UNIT_END}" for name in COUNTED[:-1]) + f",{COUNTED[-1]}:{RECORD_END}"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_NO_COMMAND: Final = frozenset({126, 127})
_SIGNALLED: Final = range(128 + 1, 128 + 65)
"""What a shell says of a command that a signal has ended: many sites have a script in front of Slurm's commands."""
_GONE: Final = re.compile(r"invalid job id specified|already (?:completing or )?completed|not running", re.IGNORECASE)
_FULL: Final = re.compile(
    r"\w*Max(?:Submit)?Jobs?(?:PerUser|PerAccount|PerAcct)?Limit\b|\w*SubmitJobs?(?:PerUser|PerAccount|PerAcct)?Limit\b"
    r"|temporarily|partition (?:not available|is (?:down|drained|inactive))|required partition not available",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(r"^sbatch: error: Batch job submission failed: (.*)$", re.MULTILINE)
"""Slurm's own reason. The lines before it may be a plugin's, in words that its author chose."""
_NO_HISTORY: Final = "accounting storage is disabled"
_NO_ANSWER: Final = re.compile(
    r"unable to contact|connect(?:ion)? (?:failure|refused|reset|timed out|error)|timed out|zero bytes were transmitted"
    r"|could not establish a configuration|dns srv lookup failed|standby mode|authentication (?:credential|error|plugin)"
    r"|munge|failed to open persistent connection|communication (?:error|shutdown)|unexpected message|incompatible version"
    r"|send/recv|retrying|slurmdbd",
    re.IGNORECASE,
)


def submit_argv(submission: Submission, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``sbatch`` with the same options for every job.

    The Pod's directory is the script's argument, and its working directory, by which it is found again. A percent
    sign in the output's path would be a pattern. ConfigError where a path holds control characters.
    """
    for path in (submission.script, submission.directory, submission.output):
        if _CONTROL.search(path):
            raise ConfigError(f"{path!r}: Slurm's lists cannot carry control characters; choose another workDir")
    output = submission.output.replace("%", "%%")
    fixed = ("--parsable", "--export=NONE", "--no-requeue", f"--job-name={submission.name}")
    places = (f"--chdir={submission.directory}", f"--output={output}")
    return commands.argv("sbatch", *fixed, *places, submission.script, submission.directory)


def job_id(stdout: str) -> str:
    """The last line that is exactly ``ID`` or ``ID;cluster``: plugins print lines of their own. OutputError."""
    for line in reversed(stdout.splitlines()):
        if found := _PARSABLE.fullmatch(line.strip()):
            return found[1]
    raise OutputError(("sbatch",), 0, f"no job id in the output of sbatch: {stdout[:500]!r}")


def is_id(text: str) -> bool:
    """A number: Slurm's ids have nothing else."""
    return re.fullmatch(r"[1-9][0-9]{0,9}", text) is not None and int(text) <= _LAST_ID


def list_argv(*, user: str = "", name: str = "", commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``squeue -a -t all``: exact matches, hidden partitions too; jobs that are over are listed until MinJobAge (300 s by
    default).
    """
    words = (*(("-u", user) if user else ()), *((f"--name={name}",) if name else ()))
    return commands.argv("squeue", "-a", "-h", "-t", "all", *words, "-O", f"JobID:{RECORD_END}")


def parse_list(stdout: str) -> tuple[str, ...]:
    """Ids, each once, lowest first. OutputError."""
    if stdout and not stdout.endswith(f"{RECORD_END}\n"):
        raise OutputError(("squeue",), 0, "the list ends within a record")
    ids = {one.strip() for one in stdout.split(f"{RECORD_END}\n")[:-1]}
    for found in ids:
        if not _ID.fullmatch(found):
            raise OutputError(("squeue",), 0, f"not a job id: {found[:200]!r}")
    return tuple(sorted(ids, key=int))


def states_argv(users: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``squeue -a -t all -u``: all that Slurm's controller knows of these users' jobs.

    Without ``-a`` those of hidden partitions are left out without a word, also those of the asker.
    """
    return commands.argv("squeue", "-a", "-h", "-t", "all", "-u", users, "-O", _FORMAT)


def parse_states(stdout: str) -> dict[str, JobState]:
    """States by id, of jobs that are over as well. OutputError."""
    return {found: report.state for found, report in listed_reports(stdout, UTC).items()}


def parse_listed(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
    """All of the list: it has state, reason and exit code, so no second command is needed. OutputError."""
    return listed_reports(stdout, zone)


def details_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``squeue -a -t all -j``; it drops unknown ids without a word where there are several."""
    if not job_ids:
        raise ValueError("details of no job: squeue without ids lists the whole server")
    return commands.argv("squeue", "-a", "-h", "-t", "all", "-j", ",".join(job_ids), "-O", _FORMAT)


def past_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``sacct -j``, of the job and its steps, where accounting is on: jobs that squeue has forgotten."""
    if not commands.history:
        return None
    fields = ",".join(RECORDED)
    words = ("-n", "-P", f"--delimiter={UNIT_END}", "-o", fields)
    return commands.argv("sacct", *words, "-j", ",".join(job_ids))


def proof_argv(job_id: str, commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``scontrol show job -a ID``: fails with "Invalid job id" where there is none, or it is hidden from the asker.

    Not by its partition, with ``-a``.
    """
    return commands.argv("scontrol", "show", "job", "-a", job_id)


def parse_details(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
    """What squeue, sacct or scontrol print of jobs, as the three commands above ask for it. OutputError."""
    if not stdout.strip():
        return {}
    if stdout.startswith("JobId="):
        return controller_reports(stdout, zone)
    if RECORD_END in stdout:
        return listed_reports(stdout, zone)
    return accounting_reports(stdout, zone)


def unknown_ids(stderr: str) -> frozenset[str]:  # noqa: ARG001
    """None: squeue drops ids without a word."""
    return frozenset()


def cancel_argv(job_id: str, commands: Commands = DEFAULT, *, force: bool = False) -> tuple[str, ...]:  # noqa: ARG001
    """``scancel``: TERM to all of it, then KILL after KillWait; queued jobs go at once.

    It knows no force: what a node does not answer to, the controller ends by itself.
    """
    return commands.argv("scancel", job_id)


def signal_argv(job_id: str, signal: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``scancel -b -s TERM ID``: the script alone, which passes it on; ``--full`` would reach the image's process."""
    return commands.argv("scancel", "-b", "-s", signal, job_id)


def signal_ends(report: JobReport) -> bool:  # noqa: ARG001
    """Never: a signal reaches the script."""
    return False


def queues_argvs(commands: Commands = DEFAULT) -> tuple[tuple[str, ...], ...]:
    """Partitions, nodes, and of each job that is waiting or running its state, partition, time waited and reason.

    ``show`` comes first: that an observer may run nothing else of scontrol is said by the first words of a command.
    """
    return (
        commands.argv("scontrol", "show", "partition", "-a", "-o"),
        commands.argv("scontrol", "show", "node", "-a", "-o"),
        commands.argv("squeue", "-a", "-h", "-t", "PENDING,RUNNING", "-O", _COUNTED),
    )


def parse_queues(outputs: Sequence[str]) -> dict[str, QueueReport]:
    """Partitions by name. With ``PrivateData=jobs`` only the asker's jobs are counted and waited for. OutputError."""
    partitions, nodes, jobs = outputs
    return queue_states(partitions, nodes, jobs)


def failure(argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
    """What a command's end means; None for success, and where all it says is that a job is over or not there.

    Words of a lost connection count even with exit code 0. Unknown words are Refused for sbatch, Unavailable for all
    else. ``AssocMaxSubmitJobLimit`` and its like, on a line before the general one, are Full. What a plugin says before
    Slurm's own reason is no sign of a lost connection.
    """
    words = stderr.strip()
    if returncode is None or returncode < 0 or returncode in _NO_COMMAND or returncode in _SIGNALLED:
        return Unavailable(argv, returncode, words or "the command could not be run to its end")
    submitting = "sbatch" in argv
    if not submitting and _NO_HISTORY in words:
        return NoHistory(argv, returncode, words)
    reasons = _REFUSAL.findall(words) if submitting else []
    no_answer = _NO_ANSWER.search(reasons[-1] if reasons else words)
    if submitting and returncode:
        kind = Full if _FULL.search(words) else Unavailable if no_answer else Refused
        return kind(argv, returncode, words)
    done = submitting or ((returncode == 0 or _GONE.search(words)) and not no_answer)
    return None if done else Unavailable(argv, returncode, words)
