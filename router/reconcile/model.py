"""The values of a decision: what is known of a Pod, the site's terms, and what is to be done.

Pure data. Times are seconds since 1970 by the agent's clock, unless a field says otherwise. What is only in the agent's
memory (timers, back-off, answers already had) may be lost at any moment: it is then asked for or waited for anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from router.hpc import JobReport, JobState
from router.pod.life import Life
from router.pod.status import PodStatus
from router.pod.view import PodView

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


@dataclass(frozen=True, slots=True)
class Terms:
    """How long a site is waited for, in seconds.

    :param fs_delay: how late a file written on a node may be seen. Little on a local host
    :param silence: a script that has given no sign of life for so long runs nothing any more (it ends its containers
        after 60 s without its directory)
    :param listen: between two looks for the sign of life of a job that runs as the batch system says
    :param lost_proof: between two answers "unknown id" that prove a job to be lost whose script may be alive
    :param record_patience: how long a script that has ended waits for the batch system's record of the end; and between
        two answers "unknown id" that prove a job to be lost whose script is silent
    :param collect_patience: how long the terminal status waits for results
    :param kill_slack: between the end of the grace period, at which the script kills, and the deletion of its job
    :param linger: how long the batch system may take to end a job whose run has ended (epilogue, stage-out)
    :param retry: before something is asked, signalled or deleted once more; doubled each time up to ``retry_most``
    :param words_interval: a status that differs in nothing but the batch system's words is written this often at most
    :param event_interval: an Event tells other words about a job in the same state this often at most
    :param disruptions: so many lost Pods of a Job and index are no failure (the policy's ``retries.disruptions``)
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

    ``report`` is the last that was had, None before the first. ``over_since`` is when it was first seen FINISHED.
    ``unknown_since`` and ``unknown_last`` are the times of the first and the last answer "unknown id" to a question by
    id as its owner since the last report, ``heard`` of the last answer of either kind. ``deletes`` counts deletions that were asked for, ``deleted_at`` the last,
    ``agreed_at`` the last to which the batch system has agreed.
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

    @property
    def finished(self) -> bool:
        """Whether the batch system's record says that it is over."""
        return self.report is not None and self.report.state is JobState.FINISHED

    @property
    def unknown(self) -> bool:
        """Whether the last answer was that there is no such job."""
        return self.unknown_last is not None

    @property
    def alive(self) -> bool:
        """Whether the batch system has it and says that it is not over."""
        return self.report is not None and not self.finished and not self.unknown


@dataclass(frozen=True, slots=True)
class Attempt:
    """How the last submission came out, where it made no job.

    ``final``: it never will, and the Pod fails with ``reason`` and ``message``. Otherwise the containers wait with
    them and it is tried again at ``not_before``: those of ``image`` only, where it is about one.
    """

    reason: str
    message: str
    final: bool = False
    not_before: float = 0
    image: str = ""


@dataclass(frozen=True, slots=True)
class WordsTold:
    """The last Event about why a Pod's job waits: what it said without its figures, and when."""

    gist: str
    at: float


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one Pod (made by ``outcomes.first``, changed by the functions of ``outcomes`` only).

    :param jobs: every batch job known by the Pod's tag, its directory, the noted id or the claim
    :param noted: the job id in the Pod's directory or annotation, or of the submission just made; empty where none
    :param staged: whether the Pod's directory exists; None where that is not known yet
    :param inspected: when its directory was last read (claim, ``alive``, exit files)
    :param looked: whether the batch system was searched for the tag since a job may have been made unnoticed;
        ``looked_at``: when it last was
    :param reachable: whether the batch system answers
    :param refused: why nothing is submitted to the site now; empty where it may be
    :param submitting: a submission is under way: nothing is concluded from there being no job
    :param older: what may still run of older Pods of the same Job and index, each in words: the fence
    :param disruptions: Pods of the same Job and index that were already excused as lost
    :param sealed_at: when the agent last tried to take the claim; ``unsealed_since``: since when it could not, although
        the claim is no script's either
    :param signals: how often the script was asked to end, ``signalled_at`` first and ``signalled_last`` last
    :param ended_seen: when the script's last word was first seen
    :param collecting_since: when the results were first asked for; ``collected``: they are there, or cannot be had
    :param releases: how often the Pod's deletion for good was asked for, ``released_at`` last
    :param written_at: when a status was last written
    :param words_told: the last Event about why its job waits; None where this agent has told none
    :param image_ids: the imageID of containers that were submitted, by name: repository and digest
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
    sealed_at: float | None = None
    unsealed_since: float | None = None
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
    image_ids: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was read in a Pod's directory.

    :param exists: whether there is such a directory; what else is here is empty then
    :param claim: content of ``claim``, empty where it is not there
    :param claimed_at: modification time of ``claim``, by the file server's clock
    :param alive: modification time of ``alive``
    :param clock: the file server's time at this look
    :param exits: name and content of each file in ``exit/``
    :param logs: bytes seen of the log of each container's last run that has an exit file, by the name of that
    :param job_id: content of the noted job id
    """

    exists: bool
    claim: bytes = b""
    claimed_at: float | None = None
    alive: float | None = None
    clock: float = 0
    exits: tuple[tuple[str, bytes], ...] = ()
    logs: tuple[tuple[str, int], ...] = ()
    job_id: bytes = b""


@dataclass(frozen=True, slots=True)
class Look:
    """Search the batch system for the Pod's tag, as the owner -> ``looked``."""


@dataclass(frozen=True, slots=True)
class Inspect:
    """Read the Pod's directory now: claim, ``alive``, the whole of ``exit/``, the noted job id -> ``inspected``."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Details of these jobs at once, as their owner -> ``reported`` or ``unknown`` each."""

    job_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Submit:
    """Verify, stage, submit, note the id -> ``submitted``, ``held_back``, ``unclear``.

    ``fresh``: no submission is known to have been tried. Where the directory exists all the same, nothing is submitted
    -> ``found_directory``. Otherwise an existing directory is used as it is.
    """

    fresh: bool


@dataclass(frozen=True, slots=True)
class Adopt:
    """Note this job's id in the Pod's directory -> ``adopted`` (the annotation is the plan's)."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send TERM to the job's script alone -> ``signalled``."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete this one job -> ``deleted``. ``force``: also where its node does not answer or it is ending already."""

    job_id: str
    force: bool = False


@dataclass(frozen=True, slots=True)
class Seal:
    """Link the claim ``cancelled``, if it is nobody's -> ``sealed`` with what the claim holds then (None: no directory)."""


@dataclass(frozen=True, slots=True)
class Take:
    """Put ``cancelled`` in the place of another's claim (rename) -> ``sealed``. Its script ends when it sees that."""

    job_id: str


@dataclass(frozen=True, slots=True)
class Collect:
    """Bring results and logs -> ``collecting`` at the start, ``collected`` at the end. The plan does not wait for it."""


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the Pod with grace period 0, its uid as the precondition -> ``released``."""


@dataclass(frozen=True, slots=True)
class Tell:
    """An Event about the Pod."""

    kind: str
    reason: str
    message: str


Action = Look | Inspect | Ask | Submit | Adopt | Signal | Delete | Seal | Take | Collect | Release | Tell


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now about a Pod, in this order: actions, annotations, status.

    :param annotations: of the Pod, those to be set, empty where they are as they should be
    :param status: to be written, None where it is as it should be
    :param again_at: plan again at this time at the latest, None: when something has changed
    :param over: nothing of the Pod can still run; of one that is gone, nothing is left in the batch system either
    """

    actions: tuple[Action, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    status: PodStatus | None = None
    again_at: float | None = None
    over: bool = False
