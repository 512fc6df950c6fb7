"""Batch systems: one module each, made of argv builders, output parsers and one state table.

Pure: a module here knows the words of a batch system's commands, and no process, file, clock or host. Whoever runs
the commands passes their output back in. ``BatchSystem`` is what a module must offer.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Final, Protocol

from router.errors import BatchError, Unavailable
from router.hpc.requests import Request


class JobState(StrEnum):
    """What a batch system says of a job, in one vocabulary."""

    QUEUED = "Queued"
    MOVED = "Moved"
    HELD = "Held"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    EXITING = "Exiting"
    FINISHED = "Finished"
    UNKNOWN = "Unknown"


class Verdict(StrEnum):
    """Why a job is over, as far as the batch system's record tells. The script's files give the exit codes."""

    ENDED = "ended"  # the script ran to its end, well or not; the exit status says which
    DELETED = "deleted"  # by a person or by the agent, running or still queued
    WALLTIME = "walltime"
    CPU_TIME = "cpu time"
    MEMORY = "memory"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"  # ended to make room for others
    NEVER_RAN = "never ran"  # over without having started: a dependency that can never hold, a start that failed


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job as the batch system reports it.

    ``exit_status`` is the batch system's own figure, None where its record has none (which never means success);
    before FINISHED it is provisional. ``verdict`` is None until the job is over; ``deletion`` says before that whether
    somebody has ended it. ``reason`` is its own sentence about the job (OpenPBS ``comment``). ``directory`` is the BATCHGATE_DIR that the job was given, empty if unknown.
    ``resources`` and ``used`` are its own words (``walltime`` -> ``00:10:00``). ``expected`` is when the scheduler plans to
    start one that waits, None where it says nothing of that. Times carry a zone.
    """

    job_id: str
    state: JobState
    code: str
    exit_status: int | None = None
    verdict: Verdict | None = None
    deletion: bool = False
    reason: str = ""
    name: str = ""
    owner: str = ""
    queue: str = ""
    directory: str = ""
    hosts: str = ""
    resources: Mapping[str, str] = field(default_factory=dict)
    used: Mapping[str, str] = field(default_factory=dict)
    submitted: datetime | None = None
    expected: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the batch system's record speaks of success: over by itself, with an exit status that is 0."""
        return self.state is JobState.FINISHED and self.verdict is Verdict.ENDED and self.exit_status == 0


@dataclass(frozen=True, slots=True)
class Submission:
    """The options of a submission, the same for every job; all paths are absolute, on the site.

    ``script`` is the file with the signed script, ``output`` where the batch system puts what the script itself
    prints, ``directory`` the Pod's directory. ``name`` comes from ``job_name``.
    """

    name: str
    script: str
    directory: str
    output: str


@dataclass(frozen=True, slots=True)
class Commands:
    """How a site's commands are reached: words before each (``batchgate local``), and their whole environment.

    Nothing of the caller's environment is passed on: commands run under ``env -i`` with these variables.
    ``history`` says whether the batch system keeps records of jobs that are over, as far as asking differs: OpenPBS'
    ``job_history_enable``, which is off by default; Slurm's accounting (slurmdbd).
    """

    environment: tuple[tuple[str, str], ...] = (("PATH", "/opt/pbs/bin:/usr/local/bin:/usr/bin:/bin"),)
    prefix: tuple[str, ...] = ()
    history: bool = True

    def argv(self, *words: str) -> tuple[str, ...]:
        """A whole command."""
        return ("env", "-i", *(f"{name}={value}" for name, value in self.environment), *self.prefix, *words)


@dataclass(frozen=True, slots=True)
class QueueReport:
    """One queue as the batch system shows it. None: it does not say, or sets no limit.

    ``enabled``: jobs can be submitted; ``started``: jobs are started. ``reason`` is why not, in its own words.
    ``destinations`` are the queues behind a routing queue. ``nodes_max``, ``walltime_max`` and ``walltime_default``
    (seconds) are a job's, ``queued_max`` and ``running_max`` numbers of jobs, one user's where there is such a limit.
    ``nodes`` counts those in order, ``broken`` are the names of its others; ``free_nodes`` have no job. ``cores_per_node``, ``memory_per_node`` (bytes) and
    ``gpus_per_node`` are the most that any one node has. ``queued`` jobs wait to be started; held ones do not count.
    ``waited``: seconds for which the job has waited that waits longest for its turn, 0 where none does; not for somebody
    who holds it, another job or a date.
    """

    name: str
    enabled: bool
    started: bool
    reason: str = ""
    destinations: tuple[str, ...] = ()
    walltime_max: int | None = None
    walltime_default: int | None = None
    nodes_max: int | None = None
    queued_max: int | None = None
    running_max: int | None = None
    nodes: int | None = None
    free_nodes: int | None = None
    cores_per_node: int | None = None
    memory_per_node: int | None = None
    gpus_per_node: int | None = None
    free_cores: int | None = None
    queued: int | None = None
    running: int | None = None
    waited: int | None = None
    broken: tuple[str, ...] = ()


class NoHistory(Unavailable):
    """The batch system keeps no records of jobs that are over, and was asked for them: ``Commands.history`` is wrong."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What a site's sizing and a script must know of a batch system.

    :param walltime_step: seconds; the batch system counts walltimes in these
    :param memory_floor: bytes; below that the container runtimes do not start
    :param cores_per_line: whether the file of hosts has a line for each core, where others have one for each rank
    :param tells_hosts: whether launchers ask the batch system for their hosts, and need no file
    :param projects: whether a job may have a project
    :param shows_projects: whether a job's project can be asked for
    :param signals_one_host: whether a signal kills what a job runs on its other hosts (``BatchSystem.signal_ends``)
    :param embedded: whether it is the queue that the agent brings itself
    """

    walltime_step: int = 1
    memory_floor: int = 0
    cores_per_line: bool = False
    tells_hosts: bool = False
    projects: bool = True
    shows_projects: bool = False
    signals_one_host: bool = False
    embedded: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What ``site check`` runs and says: words for an admin, each to be typed or written somewhere.

    :param version: the command that says the version
    :param history: how records of jobs that are over are kept
    :param observer: how ``{observer}`` is let see all jobs
    :param kill_delay: how jobs that are deleted get the time to end
    """

    version: tuple[str, ...]
    history: str = "keep records"
    observer: str = "let {observer} see all jobs"
    kill_delay: str = "set a kill delay"


class BatchSystem(Protocol):
    """What a module of this package offers. ``DEFAULT`` are the commands of an ordinary installation. ``LISTS_ALL``: what
    the cheap list does not show, ``details_argv`` would not tell either.

    A job is asked about in up to three steps: ``details_argv``; ``past_argv`` for those that it does not know;
    ``proof_argv`` for those that both do not know. Where a step is None, the one before it has the last word.
    """

    DEFAULT: Commands
    NAME_LIMIT: int
    LISTS_ALL: bool
    MARK: str
    ADVICE: Advice
    TRAITS: Traits
    STATES: Mapping[str, JobState]

    def submit_argv(self, submission: Submission, commands: Commands = ...) -> tuple[str, ...]:
        """The submit command. ConfigError where a path is one that it cannot carry."""

    def job_id(self, stdout: str) -> str:
        """The job id in a submit command's output. OutputError where there is none."""

    def is_id(self, text: str) -> bool:
        """Whether this is the whole id of one job: not one that a table has cut, nor the number of one, nor an array's.

        Whoever asks about what is none may be refused an answer about all others, or get the whole server's.
        """

    def list_argv(self, *, user: str = "", name: str = "", commands: Commands = ...) -> tuple[str, ...]:
        """The list of jobs' ids, finished ones included: of one user, or of exactly that name."""

    def parse_list(self, stdout: str) -> tuple[str, ...]:
        """Job ids of that list. OutputError."""

    def states_argv(self, users: str, commands: Commands = ...) -> tuple[str, ...]:
        """The cheap list of a user's jobs, or of several users' (names joined by commas), with their states."""

    def parse_states(self, stdout: str) -> dict[str, JobState]:
        """States by job id, perhaps with jobs that are over. A cut id ends in ``*``. OutputError."""

    def parse_listed(self, stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
        """What the cheap list alone tells as well as ``details_argv`` would; empty where it tells less. OutputError."""

    def details_argv(self, job_ids: Sequence[str], commands: Commands = ...) -> tuple[str, ...]:
        """Everything about these jobs."""

    def past_argv(self, job_ids: Sequence[str], commands: Commands = ...) -> tuple[str, ...] | None:
        """The records of jobs that may be over. What they say of jobs that are not over is not to be believed."""

    def proof_argv(self, job_id: str, commands: Commands = ...) -> tuple[str, ...] | None:
        """Whether there is such a job, asked as its owner: without an answer about it there is none."""

    def parse_details(self, stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
        """Reports by job id, of what any of these three commands prints. OutputError."""

    def unknown_ids(self, stderr: str) -> frozenset[str]:
        """The ids that ``details_argv`` names as unknown; empty where only a proof tells."""

    def cancel_argv(self, job_id: str, commands: Commands = ..., *, force: bool = False) -> tuple[str, ...]:
        """End this job, queued or running. One id a command: a mixture with unknown ids can crash a server.

        ``force``: also where it is ending already, or its node is away, as far as a user may ask for that.
        """

    def signal_argv(self, job_id: str, signal: str, commands: Commands = ...) -> tuple[str, ...]:
        """Tell a running job's script of a signal (``TERM``), and nothing but the script where that is possible."""

    def signal_ends(self, report: JobReport) -> bool:
        """Whether any signal kills at once what this job runs: its script then reads the file ``end`` (router.pod.layout)."""

    def directives(self, request: Request) -> Iterator[str]:
        """The options of a script's directives, in a fixed order, without ``MARK`` before each."""

    def entry_lines(self, cores_per_rank: int) -> tuple[str, ...]:
        """A script's lines behind its directives: how it gets the Pod's directory, what the system's own programs read."""

    def is_directive(self, key: str) -> bool:
        """Whether a policy may add this directive."""

    def allowed(self) -> str:
        """The directives that may be added, as a list within a sentence."""

    def key_problem(self, key: str) -> str | None:
        """Why a directive that is one cannot be added, as one clause."""

    def value_problem(self, key: str, value: str) -> str | None:
        """Why a value of a directive, ``account`` or ``project`` would be more than a value, as one clause."""

    def queues_argvs(self, commands: Commands = ...) -> tuple[tuple[str, ...], ...]:
        """The commands that together tell how all queues and their nodes are."""

    def parse_queues(self, outputs: Sequence[str]) -> dict[str, QueueReport]:
        """Queues by name, of what those commands printed, in their order. OutputError."""

    def failure(self, argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
        """What a command's end means: None where it did its work, or where all it says is that a job is gone."""


CLUSTER_DIGITS: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.+-]")


def cluster_id(kube_system_uid: str) -> str:
    """Eight hex digits that stand for a cluster in job names: of the SHA-256 of the ``kube-system`` namespace's uid."""
    return hashlib.sha256(kube_system_uid.encode()).hexdigest()[:CLUSTER_DIGITS]


def job_name(pod: str, cluster: str, pod_uid: str, limit: int) -> str:
    """The tag by which a Pod's job is found again: ``<pod name>.<cluster>.<pod uid>``.

    What ``qsub -N`` does not take (it takes letters, digits and ``_ . + -``, any of them first) becomes ``-``. Cut from
    the left to the limit, so that cluster and uid stay whole.
    """
    name = _NOT_IN_NAMES.sub("-", f"{pod}.{cluster}.{pod_uid}")
    return name[-limit:] if limit > 0 else ""
