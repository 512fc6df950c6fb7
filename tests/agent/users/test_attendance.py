"""An attendance that follows another one of the same user."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from router.agent.batch.reachability import Reachability
from router.agent.users.attendance import Attendance
from router.background.backoff import BackOff


def test_a_former_one_that_does_not_end_is_told_once() -> None:
    """Its thread is in a file system that hangs; without a word nobody would know why the user's Pods wait."""
    told: list[str] = []
    one = Attendance.__new__(Attendance)
    one._after = SimpleNamespace(ended=threading.Event())  # type: ignore[assignment]
    one.parts = SimpleNamespace(reach=Reachability(told.append, BackOff(1, 60)))  # type: ignore[assignment]
    one._since = float("inf")

    one._turn()
    assert told == []
    one._since = float("-inf")
    for _ in range(2):
        one._turn()
    assert told == ["the last commands for this user have not ended, so none is begun"]
