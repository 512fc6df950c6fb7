"""What a Pod's script has left on the site: claim, heartbeat, notes of changes of state, exit files.

Pure. Files come in any order, twice, late or cut: folding them in is idempotent and does not depend on the order. A file
that cannot be right is answered with a word about it and changes nothing. Times are seconds since 1970 by the clock of
whoever wrote them. The script writes these files (``router/script/templates/base.sh``); docs/script.md describes them.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from sys import intern
from typing import Any, Final

from router.names import REASON_CREATE_CONTAINER, REASON_ERR_IMAGE_PULL

CANCELLED: Final = "cancelled"
"""What the agent writes into a claim that no script shall have."""

_NOTE_NAME: Final = re.compile(r"([A-Za-z0-9-]{1,64})\.([1-9][0-9]{0,8})\.(started|running|exited|ended)")
_EXIT_NAME: Final = re.compile(r"([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\.(0|[1-9][0-9]{0,8})")
_JOB: Final = r"[0-9]{1,12}(?:\.[A-Za-z0-9][A-Za-z0-9._-]{0,254})?"
_CLAIM: Final = re.compile(rf"({_JOB})\.[0-9]{{1,20}}")
_LAST_TIME: Final = 1 << 38
_LARGEST_LOG: Final = 1 << 62
_EXITS_KEPT: Final = 2
_NEVER_STARTED: Final = (REASON_CREATE_CONTAINER, REASON_ERR_IMAGE_PULL)
_LONGEST_SENTENCE: Final = 1000
_LONGEST_SAID: Final = 4096  # bytes; the kubelet's MaxContainerTerminationMessageLength


def is_job(text: str) -> bool:
    """Whether this may be a batch job's id: a number, and its server where ids have one.

    Users can write all files that name jobs. What has another form names none: it is not asked about, nor an array, nor
    a job at a server behind an ``@``.
    """
    return re.fullmatch(_JOB, text) is not None


class Event(StrEnum):
    """What a note tells."""

    STARTED = "started"
    RUNNING = "running"
    EXITED = "exited"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Note:
    """One file of the spool: ``<uid>.<number>.<event>``. What an event does not have is empty or 0."""

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


@dataclass(frozen=True, slots=True, order=True)
class Exit:
    """One exit file: how run number ``restart`` (from 0) of a container ended. ``deadline``: its time was up.

    ``log`` is how many bytes its log had then; 0 where the script has not said. ``reason`` and ``message`` say why its
    program was never started: ``CreateContainerError`` or ``ErrImagePull``, and the runtime's words; ``said`` its last word.
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


@dataclass(frozen=True, slots=True, order=True)
class Began:
    """A note ``running``: run number ``restart`` of a container has a process since about ``time``."""

    restart: int
    time: int


@dataclass(frozen=True, slots=True, order=True)
class Exited:
    """A note ``exited``. The exit file says more and is written before it, but may be seen after it."""

    restart: int
    time: int
    code: int


@dataclass(frozen=True, slots=True, order=True)
class Start:
    """The note ``started``: the claim is won."""

    time: int
    host: str


@dataclass(frozen=True, slots=True, order=True)
class End:
    """The note ``ended``: the script's last word. ``reason``: ``signal``, ``deadline``, ``lost``, or by itself: empty."""

    time: int
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class ContainerNotes:
    """The latest notes about one container."""

    name: str
    began: Began | None = None
    exited: Exited | None = None


@dataclass(frozen=True, slots=True)
class JobNotes:
    """The notes of one batch job."""

    job: str
    start: Start | None = None
    end: End | None = None
    containers: tuple[ContainerNotes, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """The latest run of a container: number ``restart``, as far as files tell.

    ``began`` is the time of its note, ``exit`` its exit file, ``exited`` its note; ``previous`` the exit file of the
    run before.
    """

    restart: int
    began: int | None
    exit: Exit | None
    exited: Exited | None
    previous: Exit | None

    @property
    def over(self) -> bool:
        """Whether file or note say that it has ended."""
        return self.exit is not None or self.exited is not None


@dataclass(frozen=True, slots=True)
class Life:
    """All that is known of a Pod's directory and of its notes.

    ``owner`` is the batch job that the claim names or named, ``cancelled`` whether the agent has it now. ``alive`` is
    when the script last gave a sign of life (touched ``alive``, made the claim), ``clock`` the file server's time when
    that was looked at. ``short`` are the runs whose logs were seen shorter than their exit files say, by the names of
    these.
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
        """The notes that are believed: of the job with the claim. None where nothing has started.

        A claim that the agent has taken over from a job names it no longer: the notes then do, as no other job has
        ever written any.
        """
        if self.owner:
            return next((one for one in self.jobs if one.job == self.owner), JobNotes(self.owner))
        if self.cancelled and self.jobs:
            return max(self.jobs, key=lambda one: (one.start or Start(0, ""), one.job))
        return None

    @property
    def ran(self) -> bool:
        """Whether a script has had the claim: its containers may have run."""
        return self.notes is not None

    @property
    def sealed(self) -> bool:
        """Whether nothing has started and nothing can start any more."""
        return self.cancelled and not self.ran

    @property
    def claimed(self) -> bool:
        """Whether the claim is anybody's."""
        return self.cancelled or bool(self.owner)

    @property
    def end(self) -> End | None:
        """The believed last word of the script."""
        return self.notes.end if self.notes else None

    @property
    def silence(self) -> float | None:
        """Seconds since the last sign of life, by the file server's clock; None where there was none."""
        return None if self.alive is None or self.clock is None else max(0.0, self.clock - self.alive)

    def run(self, container: str) -> Run | None:
        """The latest run of a container; None where it has not begun, as far as is known."""
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
        )

    @property
    def unread(self) -> tuple[tuple[str, int], ...]:
        """Exit files (container, restart) that must be there and have not been read."""
        found = dict(self.exits)
        notes = self.notes.containers if self.notes else ()
        return tuple(
            (one.name, one.exited.restart)
            for one in notes
            if one.exited and one.exited.restart not in {had.restart for had in found.get(one.name, ())}
        )


def fold(life: Life, note: Note) -> Life:
    """The same with one note. Notes of every job are kept; which are believed depends on the claim."""
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
        case Event.RUNNING | Event.EXITED:
            mine = next((one for one in job.containers if one.name == note.container), ContainerNotes(note.container))
            others = (one for one in job.containers if one.name != note.container)
            known = tuple(sorted((*others, _of_container(mine, note)), key=lambda one: one.name))
            return replace(job, containers=known)


def _of_container(container: ContainerNotes, note: Note) -> ContainerNotes:
    if note.event is Event.RUNNING:
        began = Began(note.restart, note.time)
        return replace(container, began=max(container.began or began, began))
    exited = Exited(note.restart, note.time, note.code)
    return replace(container, exited=max(container.exited or exited, exited))


def with_exit(life: Life, container: str, one: Exit) -> Life:
    """The same with one exit file; only the last two runs of a container are kept."""
    known = dict(life.exits)
    by_restart = {had.restart: had for had in known.get(container, ())}
    by_restart[one.restart] = max(by_restart.get(one.restart, one), one)
    known[container] = tuple(by_restart[number] for number in sorted(by_restart)[-_EXITS_KEPT:])
    return replace(life, exits=tuple(sorted(known.items())))


def with_logs(life: Life, sizes: Mapping[str, int]) -> Life:
    """The same with the bytes that were seen of the logs of runs that have ended, by the names of their exit files."""
    runs = {f"{container}.{one.restart}": one.log for container, exits in life.exits for one in exits}
    return replace(life, short=tuple(sorted(name for name, size in sizes.items() if size < runs.get(name, 0))))


def with_claim(life: Life, content: bytes) -> Life:
    """The same with what ``claim`` holds: ``<job id>.<number>`` or ``cancelled``. Anything else is not believed."""
    text = _text(content)
    if text == CANCELLED + "\n":
        return replace(life, cancelled=True)
    found = _CLAIM.fullmatch(text[:-1]) if text.endswith("\n") else None
    return replace(life, owner=found[1]) if found else life


def with_alive(life: Life, alive: float | None, clock: float) -> Life:
    """The same with a sign of life and the file server's time when it was looked for."""
    times = [time for time in (life.alive, alive) if time is not None]
    return replace(life, alive=max(times, default=None), clock=max(life.clock or clock, clock))


def read_note(name: str, content: bytes) -> Note | str:
    """A file of the spool, or in words why it is none of ours or not whole."""
    found = _NOTE_NAME.fullmatch(name)
    if not found:
        return f"{name!r} is no note of a script: it is not named <pod uid>.<number>.<event>"
    fields = _json(content)
    if fields is None or fields.get("event") != found[3]:
        return f"note {name}: cut, or not what a script writes"
    note = Note(
        uid=found[1],
        number=int(found[2]),
        event=Event(found[3]),
        job=_word(fields.get("job")),
        host=_word(fields.get("host")),
        time=_number(fields.get("time"), _LAST_TIME),
        container=_word(fields.get("container", "")),
        restart=_number(fields.get("restart", 0), 1 << 30),
        code=_number(fields.get("code", 0), 255),
        reason=_word(fields.get("reason", "")),
    )
    wrong = not is_job(note.job) or -1 in {note.time, note.restart, note.code}
    wrong |= note.event in {Event.RUNNING, Event.EXITED} and not note.container
    return f"note {name}: holds what cannot be" if wrong else note


def read_exit(name: str, content: bytes) -> tuple[str, Exit] | str:
    """An exit file's container and what it says, or in words why it is none or not whole."""
    found = _EXIT_NAME.fullmatch(name)
    if not found:
        return f"{name!r} is no exit file: it is not named <container>.<restart>"
    fields = _json(content)
    if fields is None:
        return f"exit file {name}: cut, or not what a script writes"
    numbers = {key: _number(fields.get(key), most) for key, most in _EXIT_FIELDS.items()}
    numbers["log"] = _number(fields.get("log", 0), _LARGEST_LOG)
    deadline = fields.get("deadline")
    if -1 in numbers.values() or not isinstance(deadline, bool):
        return f"exit file {name}: holds what cannot be"
    reason = fields.get("reason")
    reason = reason if reason in _NEVER_STARTED else ""
    words = _sentence(fields.get("message")) if reason else ""
    return found[1], Exit(int(found[2]), deadline=deadline, reason=reason, message=words, said=_said(fields), **numbers)


_EXIT_FIELDS: Final = {"code": 255, "signal": 64, "started": _LAST_TIME, "finished": _LAST_TIME}


def fold_all(life: Life, notes: Iterable[Note]) -> Life:
    """The same with several notes."""
    for note in notes:
        life = fold(life, note)
    return life


def _json(content: bytes) -> dict[str, Any] | None:
    """The object of a file that is whole: it ends with a newline."""
    if not content.endswith(b"\n"):
        return None
    try:
        value = json.loads(_text(content))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _text(content: bytes) -> str:
    return content.decode(errors="replace")


def _word(value: object) -> str:
    """A short text of one line; empty where it is none."""
    return intern(value) if isinstance(value, str) and len(value) <= 255 and value.isprintable() else ""


def _sentence(value: object) -> str:
    """A text made one printable line of at most ``_LONGEST_SENTENCE`` characters; empty where it is none."""
    text = value if isinstance(value, str) else ""
    return "".join([one if one.isprintable() else " " for one in text[:_LONGEST_SENTENCE]]).strip()


def _said(fields: Mapping[str, Any]) -> str:
    """What a program said last, from base64; empty where it is none. Bytes that are no UTF-8 become U+FFFD."""
    try:
        said = base64.b64decode(fields["said"], validate=True)
    except (KeyError, TypeError, ValueError):
        return ""
    return said[:_LONGEST_SAID].decode(errors="replace")


def _number(value: object, most: int) -> int:
    """A number from 0 to ``most``; -1 where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else -1
