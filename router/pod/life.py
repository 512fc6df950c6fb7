"""Reads what a Pod's script has left on the site: claim, heartbeat, notes of changes of state, exit files.

Pure. Files come in any order, twice, late or truncated: folding them in is idempotent and independent of the order.
``router.pod.leftovers`` reads the files themselves. Times are seconds since 1970 by the clock of the host
that wrote them. The script writes these files (``router/script/runtime/1/base.sh``); docs/script.md describes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

CANCELLED: Final = "cancelled"
"""What the agent writes into a claim to keep all scripts from winning it."""

_JOB: Final = r"[0-9]{1,12}(?:\.[A-Za-z0-9][A-Za-z0-9._-]{0,254})?"
_CLAIM: Final = re.compile(rf"({_JOB})\.[0-9]{{1,20}}")
_EXITS_KEPT: Final = 2


def is_job(text: str) -> bool:
    """Whether a text has the form of a batch job's id: a number, and a server's name if ids have one.

    Users can write all files that name jobs. The agent ignores ids of any other form, so it never asks about an array
    or a job at a server behind an ``@``.
    """
    return re.fullmatch(_JOB, text) is not None


class Event(StrEnum):
    """What a note tells."""

    STARTED = "started"
    RUNNING = "running"
    PROBED = "probed"
    EXITED = "exited"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Note:
    """One file of the spool, ``<uid>.<number>.<event>``. Fields that the event lacks are empty, 0 or False.

    ``ready``, ``up`` and ``said`` are of a note ``probed``: what probes found of a container, and words for an Event.
    """

    uid: str
    number: int
    event: Event
    job: str
    host: str
    time: int
    container: str = ""
    restart: int = 0
    code: int = 0
    reason: str = ""
    ready: bool = False
    up: bool = False
    said: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Exit:
    """One exit file: how run number ``restart`` (from 0) of a container ended. ``deadline``: its time was up.

    ``log`` is the size of its log at the end in bytes; 0 if the script does not say. If its program was never started,
    ``reason`` is ``CreateContainerError`` or ``ErrImagePull``, and ``message`` has the runtime's words. ``said`` is the
    termination message. ``again`` (``yes`` or ``no``) says whether it runs again, where code and the Pod's restartPolicy do not.
    """

    restart: int
    code: int
    signal: int
    started: int
    finished: int
    deadline: bool
    log: int = 0
    reason: str = ""
    message: str = ""
    said: str = ""
    again: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Began:
    """A note ``running``: run number ``restart`` of a container has had a process since about ``time``."""

    restart: int
    time: int


@dataclass(frozen=True, slots=True, order=True)
class Exited:
    """A note ``exited``. The exit file says more and is written before it, but may be seen after it."""

    restart: int
    time: int
    code: int


@dataclass(frozen=True, slots=True, order=True)
class Probed:
    """A note ``probed``: whether run number ``restart`` is ready, and has started. The last note of a run counts."""

    restart: int
    number: int
    ready: bool
    up: bool


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """The note ``started``: the script has won the claim."""

    time: int
    host: str


@dataclass(frozen=True, slots=True, order=True)
class End:
    """The note ``ended``, the script's end note. ``reason``: ``signal``, ``deadline``, ``lost``; empty if by itself."""

    time: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ContainerNotes:
    """The latest notes about one container."""

    name: str
    began: Began | None = None
    exited: Exited | None = None
    probed: Probed | None = None


@dataclass(frozen=True, slots=True)
class JobNotes:
    """The notes of one batch job."""

    job: str
    start: Start | None = None
    end: End | None = None
    containers: tuple[ContainerNotes, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The latest run of a container, number ``restart``, as far as files tell.

    ``began`` is the time of its note ``running``, ``exit`` its exit file, ``exited`` its note, and ``previous`` the
    exit file of the run before. ``probed`` is None for a container without hooks and probes.
    """

    restart: int
    began: int | None
    exit: Exit | None
    exited: Exited | None
    previous: Exit | None
    probed: Probed | None = None

    @property
    def ready(self) -> bool:
        """Whether probes found it ready; without any it always is."""
        return self.probed is None or self.probed.ready

    @property
    def up(self) -> bool:
        """Whether its hook and startup probe are done; without any they are."""
        return self.probed is None or self.probed.up

    @property
    def over(self) -> bool:
        """Whether its exit file or its note says that it has ended."""
        return self.exit is not None or self.exited is not None


@dataclass(frozen=True, slots=True)
class Life:
    """All that is known from a Pod's directory and its notes.

    ``owner`` is the batch job that the claim names or named; ``cancelled`` says that the agent holds the claim now.
    ``alive`` is the time of the script's last sign of life (it touched ``alive``, made the claim), and ``clock`` the
    file server's time when ``alive`` was read. ``short`` names the exit files that tell of more log than is visible.
    """

    owner: str = ""
    cancelled: bool = False
    alive: float | None = None
    clock: float | None = None
    jobs: tuple[JobNotes, ...] = ()
    exits: tuple[tuple[str, tuple[Exit, ...]], ...] = ()
    short: tuple[str, ...] = ()

    @property
    def notes(self) -> JobNotes | None:
        """The notes that count: those of the job with the claim. None before a start.

        A claim that the agent has taken over no longer names its job. Then the notes tell the job, as only a job that
        has won the claim writes any.
        """
        if self.owner:
            return next((one for one in self.jobs if one.job == self.owner), JobNotes(self.owner))
        if self.cancelled and self.jobs:
            return max(self.jobs, key=lambda one: (one.start or Start(0, ""), one.job))
        return None

    @property
    def ran(self) -> bool:
        """Whether a script has won the claim, so its containers may have run."""
        return self.notes is not None

    @property
    def sealed(self) -> bool:
        """Whether all containers are kept from starting for good: the agent took the claim before any script."""
        return self.cancelled and not self.ran

    @property
    def claimed(self) -> bool:
        """Whether a job or the agent holds the claim."""
        return self.cancelled or bool(self.owner)

    @property
    def end(self) -> End | None:
        """The end note of the script that has won the claim; None before it is seen."""
        return self.notes.end if self.notes else None

    @property
    def silence(self) -> float | None:
        """Seconds since the last sign of life, by the file server's clock; None before the first."""
        return None if self.alive is None or self.clock is None else max(0.0, self.clock - self.alive)

    def run(self, container: str) -> Run | None:
        """The latest run of a container; None until it is seen to have begun."""
        if self.notes is None:
            return None
        found = next((one for one in self.notes.containers if one.name == container), ContainerNotes(container))
        exits = {one.restart: one for one in dict(self.exits).get(container, ())}
        numbers = [one.restart for one in (found.began, found.exited) if one] + list(exits)
        if not numbers:
            return None
        last = max(numbers)
        return Run(
            restart=last,
            began=found.began.time if found.began and found.began.restart == last else None,
            exit=exits.get(last),
            exited=found.exited if found.exited and found.exited.restart == last else None,
            previous=exits.get(last - 1),
            probed=found.probed if found.probed and found.probed.restart == last else None,
        )

    @property
    def unread(self) -> tuple[tuple[str, int], ...]:
        """Exit files (container, restart) that must exist by the notes and have not been read."""
        found = dict(self.exits)
        notes = self.notes.containers if self.notes else ()
        return tuple(
            (one.name, one.exited.restart)
            for one in notes
            if one.exited and one.exited.restart not in {had.restart for had in found.get(one.name, ())}
        )


def fold(life: Life, note: Note) -> Life:
    """The life with one more note. Notes of every job are kept; the claim decides which of them count."""
    mine = next((one for one in life.jobs if one.job == note.job), JobNotes(note.job))
    others = (one for one in life.jobs if one.job != note.job)
    return replace(life, jobs=tuple(sorted((*others, _noted(mine, note)), key=lambda one: one.job)))


def _noted(job: JobNotes, note: Note) -> JobNotes:
    match note.event:
        case Event.STARTED:
            start = Start(note.time, note.host)
            return replace(job, start=min(job.start or start, start))
        case Event.ENDED:
            end = End(note.time, note.code, note.reason)
            return replace(job, end=max(job.end or end, end))
        case Event.RUNNING | Event.EXITED | Event.PROBED:
            mine = next((one for one in job.containers if one.name == note.container), ContainerNotes(note.container))
            others = (one for one in job.containers if one.name != note.container)
            known = tuple(sorted((*others, _of_container(mine, note)), key=lambda one: one.name))
            return replace(job, containers=known)


def _of_container(container: ContainerNotes, note: Note) -> ContainerNotes:
    if note.event is Event.RUNNING:
        began = Began(note.restart, note.time)
        return replace(container, began=max(container.began or began, began))
    if note.event is Event.PROBED:
        probed = Probed(note.restart, note.number, note.ready, note.up)
        return replace(container, probed=max(container.probed or probed, probed))
    exited = Exited(note.restart, note.time, note.code)
    return replace(container, exited=max(container.exited or exited, exited))


def with_exit(life: Life, container: str, one: Exit) -> Life:
    """The life with one more exit file; only the last two runs of a container are kept."""
    known = dict(life.exits)
    by_restart = {had.restart: had for had in known.get(container, ())}
    by_restart[one.restart] = max(by_restart.get(one.restart, one), one)
    known[container] = tuple(by_restart[number] for number in sorted(by_restart)[-_EXITS_KEPT:])
    return replace(life, exits=tuple(sorted(known.items())))


def with_logs(life: Life, sizes: Mapping[str, int]) -> Life:
    """The life with the visible bytes of ended runs' logs, by the names of their exit files."""
    runs = {f"{container}.{one.restart}": one.log for container, exits in life.exits for one in exits}
    return replace(life, short=tuple(sorted(name for name, size in sizes.items() if size < runs.get(name, 0))))


def with_claim(life: Life, content: bytes) -> Life:
    """The life with the content of ``claim``: ``<job id>.<number>`` or ``cancelled``. Any other content is ignored."""
    text = _text(content)
    if text == CANCELLED + "\n":
        return replace(life, cancelled=True)
    found = _CLAIM.fullmatch(text[:-1]) if text.endswith("\n") else None
    return replace(life, owner=found[1]) if found else life


def with_alive(life: Life, alive: float | None, clock: float) -> Life:
    """The life with a sign of life, and the file server's time when it was looked for."""
    times = [time for time in (life.alive, alive) if time is not None]
    return replace(life, alive=max(times, default=None), clock=max(life.clock or clock, clock))


def fold_all(life: Life, notes: Iterable[Note]) -> Life:
    """The life with several more notes."""
    for note in notes:
        life = fold(life, note)
    return life


def _text(content: bytes) -> str:
    return content.decode(errors="replace")
