"""The processor time that one review may take, whatever its Job is made of.

Shell. A thread looks at the reviews in hand some fifty times a second, by each thread's own CPU clock, so that a busy
machine costs nobody his review. One that is not done soon gives up its turn, so that the others go on; where it stands
is noted from then on; and over its budget it is interrupted, in the midst of whatever loop it is in: Python lets one
thread raise an exception in another, before its next bytecode. Nothing in Python can interrupt a call into C. One that
lasts, and lets others run, ends the worker, which the arbiter starts again; one that lets nobody run stops the worker's
heartbeat, upon which the arbiter does the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Final, TypeVar

from router.background.loop import Loop
from router.startup.settings import REVIEW_BUDGET

T = TypeVar("T")

SLOW_SECONDS: Final = 0.05
"""After which a review is no ordinary one: those take some milliseconds."""
_LOOK_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 0.25
"""Of CPU time after which one that went on (something has swallowed the exception) is interrupted again."""
_STUBBORN: Final = 5
"""Times its budget after which a review that nothing interrupts ends the worker."""

_STEPS: Final = (
    ("router.policy.", "the rules of the policy"),
    ("router.site.allocation", "its place on the queue"),
    ("router.workload.resultpaths", "the paths of its results"),
    ("router.workload.bounds", "its size"),
    ("router.workload.", "its figures and containers"),
    ("router.script.", "its script"),
    ("router.placement.", "what changes in it"),
    ("router.gate.patching", "the patch"),
    ("router.placement.signing", "its signature"),
    ("router.gate.review", "reading it"),
)
_FIELDS: Final = ("path", "where", "here", "field")
"""What the pure part calls the path of the field in hand."""
_RULES: Final = ("rule", "checked")


@dataclass(frozen=True, slots=True)
class Step:
    """Where a review spent its time: a step in words, and the field of the Job where one was in hand."""

    step: str
    field: str


class OverBudget(Exception):
    """A review took more CPU time than it may. ``place``: where most of it went."""

    def __init__(self, place: Step, seconds: float) -> None:
        super().__init__(f"more than {seconds:g} seconds of processor time, most of them for {place.step}")
        self.place = place
        self.seconds = seconds


class Crowded(Exception):
    """A review that takes long, while others do already."""


class _Interrupted(BaseException):
    """Raised in a review's thread from outside; no ``except Exception`` on its way takes it for its own."""


@dataclass(slots=True, eq=False)
class _Spending:
    """One review in hand. ``slowed`` is called once it takes long, and says whether it may go on beside the others."""

    thread: int
    clock: int
    began: float
    slowed: Callable[[], bool]
    slow: bool = False
    crowded: bool = False
    interruptions: int = 0
    places: Counter[Step] = field(default_factory=Counter)


class Budget:
    """Watches over reviews; thread-safe. Its thread begins with the first of them.

    :param seconds: of CPU time, for each
    """

    def __init__(self, log: logging.Logger, seconds: float = REVIEW_BUDGET) -> None:
        self.seconds = seconds
        self._log = log
        self._lock = threading.Lock()
        self._spending: dict[int, _Spending] = {}
        self._loop: Loop | None = None

    @property
    def alive(self) -> bool:
        """False where nobody watches any more."""
        return self._loop is None or self._loop.alive

    def spend(self, work: Callable[[], T], slowed: Callable[[], bool]) -> T:
        """What the work returns, or raises.

        :param slowed: called from another thread when it takes long; False: it may not go on
        :raises OverBudget: it took too long
        :raises Crowded: it was not let go on
        """
        thread = threading.get_ident()
        spending = _Spending(thread, time.pthread_getcpuclockid(thread), time.thread_time(), slowed)
        try:
            try:
                self._begin(spending)
                return work()
            finally:
                self._end(spending)
                if spending.interruptions:
                    raise _Interrupted  # whatever else came of it
        except _Interrupted:
            self._end(spending)  # once more: it may have come in the midst of that
        raise Crowded if spending.crowded else OverBudget(_most(spending.places), self.seconds)

    def _begin(self, spending: _Spending) -> None:
        with self._lock:
            self._spending[spending.thread] = spending
            if self._loop is None:
                self._loop = Loop("review-budget", self._watch)
                self._loop.start(_LOOK_SECONDS)

    def _end(self, spending: _Spending) -> None:
        """From here on nothing is raised in the thread any more: what was on its way has come."""
        with self._lock:
            self._spending.pop(spending.thread, None)
        if not spending.interruptions:
            return
        # Taken back (None), Python would go on looking for it, and a function that is profiled would never begin.
        with contextlib.suppress(_Interrupted):
            _interrupt(spending.thread)
            while True:
                pass

    def _watch(self) -> float:
        with self._lock:
            for spending in self._spending.values():
                self._look(spending)
        return _LOOK_SECONDS

    def _look(self, spending: _Spending) -> None:
        seconds = time.clock_gettime(spending.clock) - spending.began
        if seconds < SLOW_SECONDS:
            return
        spending.places[place_of(sys._current_frames().get(spending.thread))] += 1  # noqa: SLF001 - documented all the same
        if not spending.slow:
            spending.slow = True
            spending.crowded = not spending.slowed()
        due = spending.interruptions * _AGAIN_SECONDS + (0 if spending.crowded else self.seconds)
        if seconds >= due:
            spending.interruptions += 1
            _interrupt(spending.thread)
        if seconds >= _STUBBORN * self.seconds:
            place = _most(spending.places)
            fields = {"step": place.step, "field": place.field, "cpu": round(seconds, 2)}
            self._log.critical("a review that nothing interrupts ends this worker", extra={"fields": fields})
            os.kill(os.getpid(), signal.SIGKILL)  # gunicorn handles others, and waits for all threads


def _interrupt(thread: int) -> None:
    """Raise it in that thread before its next bytecode, in place of one that is on its way."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Interrupted))


def _most(places: Counter[Step]) -> Step:
    """The step where most of the time went, with the field that was seen most often there."""
    steps: Counter[str] = Counter()
    for place, count in places.items():
        steps[place.step] += count
    step = steps.most_common(1)[0][0]
    fields = Counter({place.field: count for place, count in places.items() if place.step == step and place.field})
    return Step(step, fields.most_common(1)[0][0] if fields else "")


def place_of(frame: FrameType | None) -> Step:
    """Where a thread stands, by the functions it is in, from the innermost: those of the pure part name the field."""
    step = path = ""
    for module, variables in _ours(frame):
        if not step:
            step = next((words for start, words in _STEPS if f"{module}.".startswith(start)), "")
        if module.startswith("router.policy."):
            named = next((name for one in _RULES if (name := getattr(variables.get(one), "name", ""))), "")
            step = f"rule {named}" if isinstance(named, str) and named else step
        if not path:
            found = (variables.get(name) for name in _FIELDS)
            path = next((one for one in found if isinstance(one, str) and one.startswith(("spec", "metadata"))), "")
    return Step(step or "judging it", path)


def _ours(frame: FrameType | None) -> Iterator[tuple[str, dict[str, object]]]:
    """Module and variables of each of our own functions in a stack, the innermost first."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("router."):
            yield module, frame.f_locals
        frame = frame.f_back
