"""Holds the values of a decision: the facts about a Pod, the site's terms, and the actions to take.

Pure data. Times are seconds since 1970 by the agent's clock, unless a field says otherwise. Facts that are only in the
agent's memory (timers, back-off, earlier answers) may be lost at any moment; the agent then asks or waits anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from router.hpc import JobReport, JobState
from router.pod.life import Life
from router.pod.status import PodStatus
from router.pod.view import PodView
from router.reconcile.starts import Plans, Start

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long the agent waits for a site; all in seconds, except ``disruptions``.

    :param fs_delay: until a file written on a node is visible at the latest. Short on a local host
    :param silence: a script that has given no sign of life for this long has ended its containers (it ends them after
        60 s without its directory)
    :param listen: between two looks for the script's sign of life, while the batch system says that its job runs
    :param lost_proof: between two answers "unknown id" that prove a job lost while its script may be alive
    :param record_patience: how long to wait for the batch system's record after a script has ended; also between two
        answers "unknown id" that prove a job lost while its script is silent
    :param collect_patience: how long the terminal status waits for results
    :param kill_slack: between the end of the grace period, when the script kills its containers, and the job's deletion
    :param linger: how long the batch system may take to end a job whose run has ended (epilogue, stage-out)
    :param retry: before the agent asks, signals or deletes once more; doubled each time up to ``retry_most``
    :param words_interval: least time between two statuses that differ only in the batch system's words
    :param event_interval: least time between two Events with different words about a job in the same state
    :param disruptions: number of lost Pods of a Job and index that are excused (the policy's ``retries.disruptions``)
    """

    fs_delay: float = 120
    silence: float = 180
    listen: float = 600
    lost_proof: float = 600
    record_patience: float = 30
    collect_patience: float = 60
    kill_slack: float = 5
    linger: float = 300
    retry: float = 2
    retry_most: float = 60
    words_interval: float = 30
    event_interval: float = 600
    disruptions: int = 5


@dataclass(frozen=True, slots=True)
class Job:
    """One batch job that may be the Pod's.

    :param report: the last report; None before the first
    :param over_since: when the job was first seen FINISHED
    :param unknown_since: time of the first answer "unknown id" since the last report, asked by id as the job's owner
    :param unknown_last: time of the last answer "unknown id" since the last report
    :param heard: time of the last answer, be it a report or "unknown id"
    :param deletes: how often the agent has asked the batch system to delete the job
    :param deleted_at: when it last asked
    :param agreed_at: when the batch system last accepted a deletion
    :param plans: the starts that the scheduler has planned; None before the first
    """

    job_id: str
    report: JobReport | None = None
    over_since: float | None = None
    unknown_since: float | None = None
    unknown_last: float | None = None
    heard: float | None = None
    deletes: int = 0
    deleted_at: float | None = None
    agreed_at: float | None = None
    plans: Plans | None = None

    @property
    def finished(self) -> bool:
        """Whether the batch system's record says that the job is over."""
        return self.report is not None and self.report.state is JobState.FINISHED

    @property
    def unknown(self) -> bool:
        """Whether the last answer was that there is no such job."""
        return self.unknown_last is not None

    @property
    def alive(self) -> bool:
        """Whether the batch system has the job and says that it is not over."""
        return self.report is not None and not self.finished and not self.unknown


@dataclass(frozen=True, slots=True)
class Attempt:
    """Why the last attempt to submit made no job.

    :param reason: the reason with which the Pod fails, or its containers wait
    :param message: says more about the reason
    :param final: whether the Pod fails now; otherwise its containers wait and the agent tries again
    :param not_before: when the agent tries again, at the earliest
    :param image: the image that the problem is about, if any: then only containers with this image show the reason
    """

    reason: str
    message: str
    final: bool = False
    not_before: float = 0
    image: str = ""


class Counted(Enum):
    """Whose jobs are counted in a line: this cluster's, those that the agent may see, or all users'."""

    OWN = auto()
    SEEN = auto()
    ALL = auto()


@dataclass(frozen=True, slots=True)
class Line:
    """Who waits in a queue for a turn.

    :param places: the place of each job by its id, counted from 1
    :param waits: seconds that this cluster's Pods waited there which began within a day, in ascending order
    """

    places: Mapping[str, int] = field(default_factory=dict)
    counted: Counted = Counted.OWN
    waits: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class WordsTold:
    """The last Event about why a Pod's job waits: its text without figures, its time, the start that it told."""

    gist: str
    at: float
    start: Start | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one Pod (made by ``outcomes.first``, changed by the functions of ``outcomes`` only).

    :param jobs: every batch job known by the Pod's tag, its directory, the noted id or the claim
    :param noted: the job id in the Pod's directory or annotation, or of the submission just made; empty if there is
        none
    :param staged: whether the Pod's directory exists; None while unknown
    :param inspected: when its directory was last read (claim, ``alive``, exit files)
    :param looked: whether the batch system was searched for the tag after the last time a job may have been made
        unnoticed
    :param looked_at: when the batch system was last searched for the tag
    :param reachable: whether the batch system answers
    :param refused: why nothing may be submitted to the site now; empty if it may
    :param submitting: whether a submission is under way: until its end the lack of a job proves nothing
    :param older: descriptions of older runs of the same Job and index that may still be alive (the fence)
    :param disruptions: number of Pods of the same Job and index whose loss was already excused
    :param output: last words of the batch job, read before a script holds the claim
    :param sealed_at: when the agent last tried to take the claim
    :param unsealed_since: since when the agent has failed to take the claim although no script holds it
    :param locked_since: since when the user keeps the agent from reading the directory; None if it is readable
    :param untaken: whether the user has kept the agent from replacing a job's claim
    :param signals: how often the agent has asked the script to end
    :param signalled_at: when it first did
    :param signalled_last: when it last did
    :param ended_seen: when the script's end note was first seen
    :param collecting_since: when the agent began to collect the results
    :param collected: whether the results have been collected, or cannot be
    :param releases: how often the agent has asked the API server to delete the Pod for good
    :param released_at: when it last did
    :param written_at: when a status was last written
    :param words_told: the last Event about why the Pod's job waits; None before the first by this agent
    :param line: who waits in the queue of the Pod's job, as long as that job waits; None if unknown
    :param image_ids: the imageID (repository and digest) of each submitted container, by container name
    """

    pod: PodView
    life: Life = field(default_factory=Life)
    jobs: tuple[Job, ...] = ()
    noted: str = ""
    staged: bool | None = None
    inspected: float | None = None
    looked: bool = False
    looked_at: float | None = None
    reachable: bool = True
    refused: str = ""
    submitting: bool = False
    attempt: Attempt | None = None
    older: tuple[str, ...] = ()
    disruptions: int = 0
    output: str = ""
    sealed_at: float | None = None
    unsealed_since: float | None = None
    locked_since: float | None = None
    untaken: bool = False
    signals: int = 0
    signalled_at: float | None = None
    signalled_last: float | None = None
    ended_seen: float | None = None
    collecting_since: float | None = None
    collected: bool = False
    releases: int = 0
    released_at: float | None = None
    written_at: float | None = None
    words_told: WordsTold | None = None
    line: Line | None = None
    image_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def locked(self) -> bool:
        """Whether the directory is there, but its user keeps the agent from reading it."""
        return self.locked_since is not None and self.staged is not False


@dataclass(frozen=True, slots=True)
class Inspection:
    """The content of a Pod's directory, as it was read.

    :param exists: whether the directory exists; if not, the other fields but ``locked`` are empty
    :param claim: content of ``claim``, empty if there is no such file
    :param claimed_at: modification time of ``claim``, by the file server's clock
    :param alive: modification time of ``alive``
    :param clock: the file server's time at this look
    :param exits: name and content of each file in ``exit/``
    :param logs: visible bytes of the log of each container's last run that has an exit file, by the exit file's name
    :param job_id: content of the file with the noted job id
    :param output: the end of the batch job's output; empty once a script holds the claim
    :param locked: whether the user has replaced, locked or removed the directory, or that of the exit files
    """

    exists: bool
    claim: bytes = b""
    claimed_at: float | None = None
    alive: float | None = None
    clock: float = 0
    exits: tuple[tuple[str, bytes], ...] = ()
    logs: tuple[tuple[str, int], ...] = ()
    job_id: bytes = b""
    output: bytes = b""
    locked: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Search the batch system for the Pod's tag, as the owner -> ``looked``."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read the Pod's directory now: claim, ``alive``, the whole of ``exit/``, the noted job id -> ``inspected``."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask for the details of these jobs in one query, as their owner -> ``reported`` or ``unknown`` each."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Verify, stage, submit, note the id -> ``submitted``, ``held_back``, ``unclear``.

    :param fresh: whether no earlier submission is known. If the directory exists nevertheless, nothing is submitted ->
        ``found_directory``. If False, an existing directory is used as it is
    """

    fresh: bool


@dataclass(frozen=True, slots=True)
class Adopt:
    """Note this job's id in the Pod's directory -> ``adopted``, also if its user prevents it.

    The annotation is the plan's.
    """

    job_id: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send TERM to the job's script alone -> ``signalled``."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this one job -> ``deleted``.

    :param force: delete it even if its node does not answer or the job is already ending
    """

    job_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    """Link the claim ``cancelled`` if it is free -> ``sealed`` with the claim's content (None without a directory)."""


@dataclass(frozen=True, slots=True)
class Take:
    """Replace a job's claim by ``cancelled`` (rename) -> ``sealed``, or ``untaken`` if its user prevents it.

    The job's script ends when it sees this.
    """

    job_id: str


@dataclass(frozen=True, slots=True)
class Collect:
    """Collect results and logs -> ``collecting`` at the start, ``collected`` at the end. Planning goes on meanwhile."""


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the Pod with grace period 0 and its uid as the precondition -> ``released``."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Write an Event about the Pod."""

    kind: str
    reason: str
    message: str


Action = Look | Inspect | Ask | Submit | Adopt | Signal | Delete | Seal | Take | Collect | Release | Tell


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now about a Pod, in this order: actions, annotations, status.

    :param annotations: the annotations to set on the Pod; empty if they are already right
    :param status: the status to write; None if it is already right
    :param again_at: plan again at this time at the latest; None: only when something has changed
    :param over: nothing of the Pod can still run. For a Pod that no longer exists: its jobs have ended too
    """

    actions: tuple[Action, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    status: PodStatus | None = None
    again_at: float | None = None
    over: bool = False
