"""Slurm: the arguments of sbatch, squeue, sacct, scontrol and scancel, and what their exit codes and errors mean.

Pure. Every command of Slurm fails with exit code 1, so only its error text tells failures apart. Traps:

- A list silently drops ids that are unknown, purged or hidden.
- sacct lags behind squeue and shows a job that ran as PENDING.
- Only ``scontrol show job ID`` says that a job does not exist, and it takes one id.

The fields that this module asks for end in control characters, as names and paths may hold anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, tzinfo
from typing import Final

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobReport, JobState, NoHistory, QueueReport, Submission
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
"""Slurm prints times without a zone; ``SLURM_TIME_FORMAT=%s`` makes them seconds since 1970."""
NAME_LIMIT: Final = 255
"""Slurm itself has no limit; its accounting keeps this many characters."""
LISTS_ALL: Final = True

_LAST_ID: Final = (1 << 31) - 1
"""Given a greater number, squeue reports an invalid id and leaves out all other jobs that it was asked about."""
_ID: Final = re.compile(r"\d{1,10}")
_PARSABLE: Final = re.compile(r"(\d{1,10})(?:;[A-Za-z0-9_.-]+)?")
_FORMAT: Final = ",".join(f"{name}:{UNIT_END}" for name in LISTED[:-1]) + f",{LISTED[-1]}:{RECORD_END}"
_COUNTED: Final = ",".join(f"{name}:{UNIT_END}" for name in COUNTED[:-1]) + f",{COUNTED[-1]}:{RECORD_END}"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

_NO_COMMAND: Final = frozenset({126, 127})
_SIGNALLED: Final = range(128 + 1, 128 + 65)
"""A shell's exit codes for a command that a signal ended: many sites wrap Slurm's commands in a script."""
_GONE: Final = re.compile(r"invalid job id specified|already (?:completing or )?completed|not running", re.IGNORECASE)
_FULL: Final = re.compile(
    r"\w*Max(?:Submit)?Jobs?(?:PerUser|PerAccount|PerAcct)?Limit\b|\w*SubmitJobs?(?:PerUser|PerAccount|PerAcct)?Limit\b"
    r"|temporarily|partition (?:not available|is (?:down|drained|inactive))|required partition not available",
    re.IGNORECASE,
)
_REFUSAL: Final = re.compile(r"^sbatch: error: Batch job submission failed: (.*)$", re.MULTILINE)
"""Slurm's own reason. The lines before it may come from a plugin, with any text."""
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

    The Pod's directory is the script's argument and its working directory, by which the agent finds it again. A percent
    sign in the output's path would be a pattern, so it is doubled. Raises ConfigError if a path holds control
    characters.
    """
    for path in (submission.script, submission.directory, submission.output):
        if _CONTROL.search(path):
            raise ConfigError(f"{path!r}: Slurm's lists cannot carry control characters; choose another workDir")
    output = submission.output.replace("%", "%%")
    fixed = ("--parsable", "--export=NONE", "--no-requeue", f"--job-name={submission.name}")
    places = (f"--chdir={submission.directory}", f"--output={output}")
    return commands.argv("sbatch", *fixed, *places, submission.script, submission.directory)


def job_id(stdout: str) -> str:
    """The id in the last line that is exactly ``ID`` or ``ID;cluster``; plugins print more. Raises OutputError."""
    for line in reversed(stdout.splitlines()):
        if found := _PARSABLE.fullmatch(line.strip()):
            return found[1]
    raise OutputError(("sbatch",), 0, f"no job id in the output of sbatch: {stdout[:500]!r}")


def is_id(text: str) -> bool:
    """Whether this is a number within Slurm's range of job ids."""
    return re.fullmatch(r"[1-9][0-9]{0,9}", text) is not None and int(text) <= _LAST_ID


def list_argv(*, user: str = "", name: str = "", commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``squeue -a -t all``: exact matches, hidden partitions too; finished jobs until MinJobAge (default 300 s)."""
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

    Without ``-a`` squeue silently leaves out jobs in hidden partitions, even the caller's own.
    """
    return commands.argv("squeue", "-a", "-h", "-t", "all", "-u", users, "-O", _FORMAT)


def parse_states(stdout: str) -> dict[str, JobState]:
    """States by id, finished jobs included. Raises OutputError."""
    return {found: report.state for found, report in listed_reports(stdout, UTC).items()}


def parse_listed(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
    """Reports of all listed jobs: the list has all fields, so no second command is needed. Raises OutputError."""
    return listed_reports(stdout, zone)


def details_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``squeue -a -t all -j``. Of several ids it silently drops unknown ones."""
    if not job_ids:
        raise ValueError("details of no job: squeue without ids lists the whole server")
    return commands.argv("squeue", "-a", "-h", "-t", "all", "-j", ",".join(job_ids), "-O", _FORMAT)


def naming_argv(
    asked: Sequence[str],  # noqa: ARG001
    left_out: Sequence[str],  # noqa: ARG001
    commands: Commands = DEFAULT,  # noqa: ARG001
) -> tuple[str, ...] | None:
    """None, as only ``proof_argv`` names a job as unknown."""
    return None


def past_argv(job_ids: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``sacct -j`` for jobs that squeue has forgotten, with their steps; None if accounting is off."""
    if not commands.history:
        return None
    fields = ",".join(RECORDED)
    words = ("-n", "-P", f"--delimiter={UNIT_END}", "-o", fields)
    return commands.argv("sacct", *words, "-j", ",".join(job_ids))


def proof_argv(job_id: str, commands: Commands = DEFAULT) -> tuple[str, ...] | None:
    """``scontrol show job -a ID``: fails with "Invalid job id" if the job does not exist or is hidden from the caller.

    With ``-a`` a hidden partition does not hide its jobs.
    """
    return commands.argv("scontrol", "show", "job", "-a", job_id)


def parse_details(stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
    """Reports by id, from the output of the three commands above (squeue, sacct, scontrol). Raises OutputError."""
    if not stdout.strip():
        return {}
    if stdout.startswith("JobId="):
        return controller_reports(stdout, zone)
    if RECORD_END in stdout:
        return listed_reports(stdout, zone)
    return accounting_reports(stdout, zone)


def unknown_ids(stderr: str) -> frozenset[str]:  # noqa: ARG001
    """Empty: squeue drops unknown ids silently."""
    return frozenset()


def cancel_argv(job_id: str, commands: Commands = DEFAULT, *, force: bool = False) -> tuple[str, ...]:  # noqa: ARG001
    """``scancel``: TERM to all processes, then KILL after KillWait; queued jobs end at once.

    scancel has no force option: the controller itself ends a job whose node is down.
    """
    return commands.argv("scancel", job_id)


def signal_argv(job_id: str, signal: str, commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``scancel -b -s TERM ID``: signals the script alone, which passes it on; ``--full`` would reach the container."""
    return commands.argv("scancel", "-b", "-s", signal, job_id)


def signal_ends(report: JobReport) -> bool:  # noqa: ARG001
    """Never: a signal reaches the script."""
    return False


def queues_argvs(commands: Commands = DEFAULT) -> tuple[tuple[str, ...], ...]:
    """The commands for partitions, for nodes, and for waiting and running jobs (state, partition, time waited, reason, priority, id).

    ``show`` is scontrol's first word, so that a site can allow an observer ``scontrol show`` alone.
    """
    return (
        commands.argv("scontrol", "show", "partition", "-a", "-o"),
        commands.argv("scontrol", "show", "node", "-a", "-o"),
        commands.argv("squeue", "-a", "-h", "-t", "PENDING,RUNNING", "-O", _COUNTED),
    )


def parse_queues(outputs: Sequence[str]) -> dict[str, QueueReport]:
    """Partitions by name. With ``PrivateData=jobs``, only the caller's jobs are counted. Raises OutputError."""
    partitions, nodes, jobs = outputs
    return queue_states(partitions, nodes, jobs)


def failure(argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
    """The error that a command's end means; ``None`` for success, or if the job is only over or missing.

    Text about a lost connection counts even with exit code 0. Unknown text is Refused for sbatch, Unavailable for all
    other commands. ``AssocMaxSubmitJobLimit`` and similar limits, on a line before the general one, are Full. A
    plugin's text before Slurm's own reason is ignored as a sign of a lost connection.
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


def within_argv(job_id: str, words: Sequence[str], commands: Commands = DEFAULT) -> tuple[str, ...]:
    """``srun --overlap``: a step of one task beside the script's own, on the job's first node, with all of its memory.

    ``--overlap`` came with Slurm 20.11. Without ``--unbuffered`` output waits for a whole line.
    """
    place = (f"--jobid={job_id}", "--overlap", "--nodes=1", "--ntasks=1", "--relative=0", "--mem=0", "--chdir=/")
    return commands.argv("srun", *place, "--unbuffered", "--export=NONE", "--mpi=none", "--cpu-bind=none", *words)


def over_ssh(
    job_id: str,  # noqa: ARG001 - as the Protocol has it
    hosts: str,  # noqa: ARG001
    words: Sequence[str],  # noqa: ARG001
    commands: Commands = DEFAULT,  # noqa: ARG001
) -> None:
    """None: ``within_argv`` is Slurm's own way."""
    return
