"""Waiting for what a condition says, with a deadline and the last that was seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 120.0
"""The whole way takes a second or two; a machine that does other things takes longer."""
_PAUSE = 0.2
_LONGEST = 1500


def until(
    observe: Callable[[], T],
    holds: Callable[[T], object] = bool,
    *,
    what: str = "",
    seconds: float = SECONDS,
    pause: float = _PAUSE,
) -> T:
    """The first observation that holds; the test fails with the last one where none does in time."""
    deadline = time.monotonic() + seconds
    while True:
        seen = observe()
        if holds(seen):
            return seen
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain {what}: still {repr(seen)[:_LONGEST]}"
        time.sleep(pause)


def stays(observe: Callable[[], T], holds: Callable[[T], object], *, seconds: float, what: str = "") -> None:
    """Look for that long whether something holds all the time; the test fails at the first time that it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        seen = observe()
        assert holds(seen), f"no longer {what}: {repr(seen)[:_LONGEST]}"
        time.sleep(_PAUSE)
