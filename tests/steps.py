"""How much work a function does, as the number of its lines that run: the same on a busy machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


class TooManySteps(BaseException):
    """The work was stopped."""


def steps_of(work: Callable[[], object], most: int = sys.maxsize) -> int:
    """Lines of Python that the work runs through; TooManySteps above the most."""
    count = 0

    def line(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "line"
        if count > most:
            raise TooManySteps
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
