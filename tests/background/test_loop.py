"""A thread that takes one turn after another: when the next one comes, and how it ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from router.background.loop import Loop

LONG = 60.0


class Turns:
    """A loop whose turns are counted, and say what they are told to."""

    def __init__(self, pause: float | None) -> None:
        self.pause = pause
        self.count = 0
        self._changed = threading.Condition()
        self.loop = Loop("turns", self._turn)

    def _turn(self) -> float | None:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
        return self.pause

    def reached(self, count: int) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self.count >= count, LONG)


@pytest.fixture
def made() -> Iterator[Callable[[float | None], Turns]]:
    """Makes loops that are ended with the test."""
    found: list[Turns] = []

    def make(pause: float | None) -> Turns:
        found.append(Turns(pause))
        return found[-1]

    yield make
    for one in found:
        one.loop.stop()
        one.loop.await_end(LONG)
        assert not one.loop.alive


def test_turns_follow_each_other_until_it_is_stopped(made: Callable[[float | None], Turns]) -> None:
    turns = made(0.001)
    assert not turns.loop.alive

    turns.loop.start()

    assert turns.reached(3)
    assert (turns.loop.alive, turns.loop.stopping) == (True, False)
    turns.loop.stop()
    turns.loop.await_end(LONG)
    assert (turns.loop.alive, turns.loop.stopping) == (False, True)


@pytest.mark.parametrize("pause", [3600.0, None])
def test_a_pause_ends_when_it_is_woken(made: Callable[[float | None], Turns], pause: float | None) -> None:
    turns = made(pause)
    turns.loop.start()
    assert turns.reached(1)

    for count in (2, 3):
        turns.loop.wake()
        assert turns.reached(count)


def test_the_first_turn_may_come_later(made: Callable[[float | None], Turns]) -> None:
    turns = made(None)

    turns.loop.start(3600.0)
    turns.loop.stop()
    turns.loop.await_end(LONG)

    assert turns.count == 0


def test_who_wakes_it_during_a_turn_is_not_forgotten() -> None:
    began, go = threading.Event(), threading.Event()
    turns: list[int] = []

    def turn() -> None:
        turns.append(len(turns))
        began.set()
        go.wait(LONG)

    loop = Loop("woken", turn)
    loop.start()
    assert began.wait(LONG)
    began.clear()
    loop.wake()
    go.set()

    assert began.wait(LONG)
    loop.stop()
    loop.await_end(LONG)
    assert turns == [0, 1]


def test_a_stop_during_a_turn_lets_it_finish_and_begins_no_other() -> None:
    began, go, ended = threading.Event(), threading.Event(), []

    def turn() -> float:
        began.set()
        go.wait(LONG)
        ended.append(True)
        return 0.0

    loop = Loop("busy", turn)
    loop.start()
    assert began.wait(LONG)
    loop.stop()
    loop.await_end(0.01)
    assert (loop.alive, ended) == (True, [])
    go.set()
    loop.await_end(LONG)

    assert (loop.alive, ended) == (False, [True])


def test_many_that_wake_and_one_that_stops_never_leave_it_waiting() -> None:
    """A wake-up between the look at the end and the pause, again and again."""
    for _ in range(200):
        turns = Turns(None)
        turns.loop.start()
        threads = [threading.Thread(target=turns.loop.wake) for _ in range(3)]
        threads.append(threading.Thread(target=turns.loop.stop))
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        turns.loop.await_end(LONG)
        assert not turns.loop.alive


def test_what_never_began_is_not_waited_for(made: Callable[[float | None], Turns]) -> None:
    began = time.monotonic()

    made(None).loop.await_end()

    assert time.monotonic() - began < LONG


def test_an_exception_ends_it_visibly(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ends.append((args.thread.name, str(args.exc_value))))

    def fails() -> float:
        raise KeyError("a bug")

    loop = Loop("fails", fails)
    loop.start()
    loop.await_end(LONG)

    assert (loop.alive, ends) == (False, [("fails", "'a bug'")])
