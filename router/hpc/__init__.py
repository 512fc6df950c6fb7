"""Batch systems: one room each, made of argv builders, output parsers and one state table.

Pure: a module here knows only the words of a batch system's commands. The caller runs the commands and passes their
output back in. ``BatchSystem`` is what a module must offer.
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
    """A job's state, in one vocabulary for all batch systems."""

    QUEUED = "Queued"
    MOVED = "Moved"
    HELD = "Held"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    EXITING = "Exiting"
    FINISHED = "Finished"
    UNKNOWN = "Unknown"


WAITING: Final = frozenset({JobState.QUEUED, JobState.HELD})
"""States in which a job's reason says why it does not run yet."""


class Verdict(StrEnum):
    """Why a job ended, as far as the batch system's record tells. The script's files give the exit codes."""

    ENDED = "ended"  # the script ran to its end; the exit status says how
    DELETED = "deleted"  # by a person or by the agent, while running or queued
    WALLTIME = "walltime"
    CPU_TIME = "cpu time"
    MEMORY = "memory"
    NODE_LOST = "node lost"
    PREEMPTED = "preempted"  # ended to make room for others
    NEVER_RAN = "never ran"  # over without a start: a dependency that can never hold, a start that failed


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job as the batch system reports it.

    ``exit_status`` is the batch system's own figure; before FINISHED it is provisional. ``None`` means that the record
    has no exit status, which is different from success. ``verdict`` is None until the job is over; ``deletion`` says before
    that whether the job has been deleted. ``reason`` is the batch system's sentence about the job (OpenPBS
    ``comment``), ``plain`` what it means for a job that waits, empty if unknown. ``aside`` says of a QUEUED job that it
    waits for something else than its turn: another job, a date, a limit, or for ever. ``directory`` is the BATCHGATE_DIR
    that the job was given, empty if unknown. ``resources`` and ``used`` are in the batch system's words (``walltime`` -> ``00:10:00``). ``expected`` is the start that the
    scheduler plans for a waiting job, None if unknown. Times carry a zone.
    """

    job_id: str
    state: JobState
    code: str
    exit_status: int | None = None
    verdict: Verdict | None = None
    deletion: bool = False
    reason: str = ""
    plain: str = ""
    aside: bool = False
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
        """Whether the batch system's record shows success: the job ended by itself with exit status 0."""
        return self.state is JobState.FINISHED and self.verdict is Verdict.ENDED and self.exit_status == 0

    @property
    def one_host(self) -> bool:
        """Whether ``hosts`` surely names one host: several are ``n[1-2]`` or ``n1,n2`` (Slurm), ``n1/0+n2/0`` (PBS)."""
        return bool(self.hosts) and not any(mark in self.hosts for mark in "[,+")


@dataclass(frozen=True, slots=True)
class Submission:
    """The options of a submission, the same for every job; all paths are absolute, on the site.

    ``script`` is the file with the signed script, ``output`` the file in which the batch system puts the script's own
    output, ``directory`` the Pod's directory. ``name`` comes from ``job_name``.
    """

    name: str
    script: str
    directory: str
    output: str


@dataclass(frozen=True, slots=True)
class Commands:
    """How a site's commands are run: the words before each (``batchgate local``), and their whole environment.

    Commands run under ``env -i`` with these variables only, without the caller's environment.
    ``history`` says whether the batch system keeps records of finished jobs, where the commands depend on it: OpenPBS'
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
    """One queue as the batch system shows it. ``None`` is an unknown figure, or no limit.

    ``enabled``: jobs can be submitted; ``started``: jobs are started. If either is false, ``reason`` says why, in the
    batch system's words. ``destinations`` are the queues behind a routing queue.

    ``nodes_max``, ``walltime_max`` and ``walltime_default`` (seconds) apply to one job. ``queued_max`` and
    ``running_max`` limit the number of jobs, of one user where there is such a limit.

    ``nodes`` counts the working nodes, and ``broken`` names the rest; ``free_nodes`` have no job. ``cores_per_node``,
    ``memory_per_node`` (bytes) and ``gpus_per_node`` are the most that any one node has.

    ``queued`` counts jobs that wait to be started, on PBS without held ones. ``waited`` is the longest wait of a job
    for its turn, in seconds, 0 if no job waits. Jobs that are held, or wait for another job or a date, do not count.
    ``line`` has the ids of the jobs that wait for their turn, the first one first; None if only a list of all users'
    jobs would tell. ``listed`` has the ids of all jobs that were shown with it, waiting or running.
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
    line: tuple[str, ...] | None = None
    listed: frozenset[str] = frozenset()
    broken: tuple[str, ...] = ()


class NoHistory(Unavailable):
    """The batch system was asked for finished jobs, but keeps no records of them: ``Commands.history`` is wrong."""


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a batch system that job sizing and scripts depend on.

    :param walltime_step: seconds; the batch system counts walltimes in multiples of it
    :param memory_floor: bytes; with less, container runtimes do not start
    :param cores_per_line: whether the host file has one line per core; if false, one per rank
    :param tells_hosts: whether launchers ask the batch system for their hosts, and so need no host file
    :param projects: whether a job may have a project
    :param shows_projects: whether a job's project can be asked for
    :param signals_one_host: whether a signal kills what a job runs on its other hosts (``BatchSystem.signal_ends``)
    :param gres: whether a node's further resources are a list in the directive ``gres``, which scripts write alone
    :param lists_usage: whether its lists of jobs tell what a running job uses; if not, scripts measure it
    :param embedded: whether it is the agent's own queue (``batchgate local``)
    """

    walltime_step: int = 1
    memory_floor: int = 0
    cores_per_line: bool = False
    tells_hosts: bool = False
    projects: bool = True
    shows_projects: bool = False
    signals_one_host: bool = False
    gres: bool = False
    lists_usage: bool = True
    embedded: bool = False


@dataclass(frozen=True, slots=True)
class Advice:
    """What ``site check`` runs and recommends: text that an admin types, or writes into a configuration file.

    :param version: the command that prints the version
    :param history: how to keep records of finished jobs
    :param observer: how to let ``{observer}`` see all jobs
    :param kill_delay: how to give deleted jobs time to end
    """

    version: tuple[str, ...]
    history: str = "keep records"
    observer: str = "let {observer} see all jobs"
    kill_delay: str = "set a kill delay"


class BatchSystem(Protocol):
    """What a module of this package offers. ``DEFAULT`` are the commands of an ordinary installation. ``LISTS_ALL``:
    the cheap list shows every job that ``details_argv`` knows.

    The caller asks about a job in up to three steps: ``details_argv`` with ``naming_argv``; ``past_argv`` for jobs
    missing from the answer; ``proof_argv`` for jobs missing from both. Where a step is None, the step before it decides.
    """

    DEFAULT: Commands
    NAME_LIMIT: int
    LISTS_ALL: bool
    MARK: str
    ADVICE: Advice
    TRAITS: Traits
    STATES: Mapping[str, JobState]

    def submit_argv(self, submission: Submission, commands: Commands = ...) -> tuple[str, ...]:
        """The submit command. Raises ConfigError if it cannot carry one of the paths."""

    def job_id(self, stdout: str) -> str:
        """The job id in a submit command's output. Raises OutputError if there is none."""

    def is_id(self, text: str) -> bool:
        """Whether this is the complete id of one job. A cut id, a bare number on PBS and an array's id are not.

        If a query holds any other text, the batch system may refuse to answer at all, or list the whole server.
        """

    def list_argv(self, *, user: str = "", name: str = "", commands: Commands = ...) -> tuple[str, ...]:
        """The command that lists job ids, finished jobs included: of one user, or of exactly that job name."""

    def parse_list(self, stdout: str) -> tuple[str, ...]:
        """The job ids in the output of ``list_argv``. Raises OutputError."""

    def states_argv(self, users: str, commands: Commands = ...) -> tuple[str, ...]:
        """The command for the cheap list: the jobs of one or more users (joined by commas), with their states."""

    def parse_states(self, stdout: str) -> dict[str, JobState]:
        """States by job id, perhaps with finished jobs. A cut id ends in ``*``. Raises OutputError."""

    def parse_listed(self, stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
        """Reports from the cheap list, if it tells as much as ``details_argv``; otherwise empty. Raises OutputError."""

    def details_argv(self, job_ids: Sequence[str], commands: Commands = ...) -> tuple[str, ...]:
        """The command that shows everything about these jobs."""

    def naming_argv(
        self, asked: Sequence[str], left_out: Sequence[str], commands: Commands = ...
    ) -> tuple[str, ...] | None:
        """The command that says which jobs are unknown of those that an answer has left out in silence.

        It may take a connection for each of them. None if the answer has named the unknown ones, and where it takes a proof.

        :param asked: what ``details_argv`` was asked about
        :param left_out: those of them that are missing in its answer
        """

    def past_argv(self, job_ids: Sequence[str], commands: Commands = ...) -> tuple[str, ...] | None:
        """The command that shows records of jobs that may be over. Only what it says of finished jobs is reliable."""

    def proof_argv(self, job_id: str, commands: Commands = ...) -> tuple[str, ...] | None:
        """The command that proves whether a job exists, run as its owner: the job exists only if the answer has it."""

    def parse_details(self, stdout: str, *, zone: tzinfo = UTC) -> dict[str, JobReport]:
        """Reports by job id, from the output of any of these three commands. Raises OutputError."""

    def unknown_ids(self, stderr: str) -> frozenset[str]:
        """The ids that ``details_argv`` or ``naming_argv`` calls unknown; empty where only ``proof_argv`` can tell."""

    def cancel_argv(self, job_id: str, commands: Commands = ..., *, force: bool = False) -> tuple[str, ...]:
        """The command that ends one job, queued or running. Several ids with an unknown one can crash a server.

        ``force``: also if the job is already ending or its node is away, as far as a user may ask for that.
        """

    def signal_argv(self, job_id: str, signal: str, commands: Commands = ...) -> tuple[str, ...]:
        """The command that sends a running job's script a signal (``TERM``), and only the script if possible."""

    def within_argv(self, job_id: str, words: Sequence[str], commands: Commands = ...) -> tuple[str, ...] | None:
        """The command that runs a program within a running job, on the node of its script, with its own stdin and stdout.

        None where the batch system lacks such a command. Ended, or with its stdin closed, it leaves nothing on the node.
        """

    def over_ssh(
        self, job_id: str, hosts: str, words: Sequence[str], commands: Commands = ...
    ) -> tuple[str, ...] | None:
        """The same over ssh to the node of the job's script, by a program of the batch system that takes it into the job.

        None if the batch system lacks such a program, or ``hosts`` is empty.

        :param hosts: ``JobReport.hosts``
        """

    def signal_ends(self, report: JobReport) -> bool:
        """Whether any signal kills this job at once; its script then reads the file ``end`` (router.pod.layout)."""

    def directives(self, request: Request) -> Iterator[str]:
        """The options of a script's directives, in a fixed order, without ``MARK`` before each."""

    def entry_lines(self, cores_per_rank: int) -> tuple[str, ...]:
        """A script's lines after its directives: the Pod's directory, and variables for the batch system's programs."""

    def is_directive(self, key: str) -> bool:
        """Whether a policy may add this directive."""

    def allowed(self) -> str:
        """The directives that a policy may add, as text for a sentence."""

    def key_problem(self, key: str) -> str | None:
        """Why the batch system refuses this known directive, as one clause; None if it takes it."""

    def value_problem(self, key: str, value: str) -> str | None:
        """Why a value of a directive, ``account`` or ``project`` would be read as more than a value, as one clause."""

    def queues_argvs(self, commands: Commands = ...) -> tuple[tuple[str, ...], ...]:
        """The commands that together show all queues and their nodes."""

    def parse_queues(self, outputs: Sequence[str]) -> dict[str, QueueReport]:
        """Queues by name, from the outputs of ``queues_argvs`` in the same order. Raises OutputError."""

    def failure(self, argv: Sequence[str], returncode: int | None, stderr: str) -> BatchError | None:
        """The error that a command's end means; None if it did its work, or only says that a job is gone."""


CLUSTER_DIGITS: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.+-]")


def cluster_id(kube_system_uid: str) -> str:
    """A cluster's part of job names: eight hex digits of the SHA-256 of its ``kube-system`` namespace's uid."""
    return hashlib.sha256(kube_system_uid.encode()).hexdigest()[:CLUSTER_DIGITS]


def job_name(pod: str, cluster: str, pod_uid: str, limit: int) -> str:
    """The name by which the agent finds a Pod's job again: ``<pod name>.<cluster>.<pod uid>``.

    ``qsub -N`` takes letters, digits and ``_ . + -``, any of them first; every other character becomes ``-``. The name
    is cut from the left to the limit, so that cluster and uid stay whole.
    """
    name = _NOT_IN_NAMES.sub("-", f"{pod}.{cluster}.{pod_uid}")
    return name[-limit:] if limit > 0 else ""
