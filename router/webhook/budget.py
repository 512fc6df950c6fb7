"""Limits the CPU time that one review may take.

Shell (a thread, CPU clocks). A thread checks the running reviews some fifty times a second. It reads each thread's CPU
clock, so that a busy machine costs no review its time.

- A slow review gives up its turn, so that the others go on. From then on, its current step is sampled.
- A review over its budget is interrupted, in any loop of Python code: Python lets one thread raise an exception in
  another, before its next bytecode.
- Python cannot interrupt a call into C. If a long call lets other threads run, this module ends the worker, and the
  arbiter starts it again. If it blocks all threads, the worker's heartbeat stops, and the arbiter replaces the worker.
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
"""CPU time after which a review counts as slow; ordinary ones take some milliseconds."""
_LOOK_SECONDS: Final = 0.02
_AGAIN_SECONDS: Final = 0.25
"""CPU time after which a review that went on (its code swallowed the exception) is interrupted again."""
_STUBBORN: Final = 5
"""Multiple of the budget after which an uninterruptible review ends the worker."""

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
"""Names of local variables that hold the path of the current field, in the pure part."""
_RULES: Final = ("rule", "checked")


@dataclass(frozen=True, slots=True)
class Step:
    """Where a review spent its time: a step in words, and the Job's field, if any."""

    step: str
    field: str


class OverBudget(Exception):
    """A review took more CPU time than it may. ``place`` says where it spent most of it."""

    def __init__(self, place: Step, seconds: float) -> None:
        super().__init__(f"more than {seconds:g} seconds of processor time, most of them for {place.step}")
        self.place = place
        self.seconds = seconds


class Crowded(Exception):
    """A slow review was stopped, as there are too many slow or large ones already."""


class _Interrupted(BaseException):
    """Raised in a review's thread from outside; a BaseException, so that no ``except Exception`` catches it."""


@dataclass(slots=True, eq=False)
class _Spending:
    """One running review. ``slowed`` is called once it is slow, and returns whether it may go on beside the others."""

    thread: int
    clock: int
    began: float
    slowed: Callable[[], bool]
    slow: bool = False
    crowded: bool = False
    interruptions: int = 0
    places: Counter[Step] = field(default_factory=Counter)


class Budget:
    """Watches the CPU time of reviews; thread-safe. Its thread starts with the first review.

    :param seconds: CPU time that each review may take
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
        """Do the work; returns or raises what it does.

        :param slowed: called from another thread when the work is slow; False stops it
        :raises OverBudget: the work took too much CPU time
        :raises Crowded: ``slowed`` has stopped the work
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
                    raise _Interrupted  # in place of the work's result
        except _Interrupted:
            self._end(spending)  # again, as the exception may have come within the first call
        raise Crowded if spending.crowded else OverBudget(_most(spending.places), self.seconds)

    def _begin(self, spending: _Spending) -> None:
        with self._lock:
            self._spending[spending.thread] = spending
            if self._loop is None:
                self._loop = Loop("review-budget", self._watch)
                self._loop.start(_LOOK_SECONDS)

    def _end(self, spending: _Spending) -> None:
        """Stop watching a review. Afterwards its thread gets no further exception; a pending one is used up."""
        with self._lock:
            self._spending.pop(spending.thread, None)
        if not spending.interruptions:
            return
        # Use up a pending exception: raise it here and catch it. If it were cancelled (None), Python would keep looking
        # for it. A profiled function would then never begin.
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
        spending.places[place_of(sys._current_frames().get(spending.thread))] += 1  # noqa: SLF001 - but documented
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
            os.kill(os.getpid(), signal.SIGKILL)  # gunicorn handles other signals, and waits for all threads


def _interrupt(thread: int) -> None:
    """Raise ``_Interrupted`` in a thread before its next bytecode; replaces a pending exception."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(_Interrupted))


def _most(places: Counter[Step]) -> Step:
    """The step that took most of the time, with the field that was seen most often in it."""
    steps: Counter[str] = Counter()
    for place, count in places.items():
        steps[place.step] += count
    step = steps.most_common(1)[0][0]
    fields = Counter({place.field: count for place, count in places.items() if place.step == step and place.field})
    return Step(step, fields.most_common(1)[0][0] if fields else "")


def place_of(frame: FrameType | None) -> Step:
    """A thread's current step and field, from its stack, innermost first; the pure part's functions hold the field."""
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
    """Module and variables of each function of this project in a stack, innermost first."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("router."):
            yield module, frame.f_locals
        frame = frame.f_back
