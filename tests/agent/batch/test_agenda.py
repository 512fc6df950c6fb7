"""When the batch system is asked next: everything once a cycle, single jobs a second apart, nothing while it is away."""

from __future__ import annotations

import math
import time

import pytest

from router.agent.batch import agenda
from router.agent.batch.agenda import NEVER, Agenda


class Asked:
    """An agenda by a clock that stands still until it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: float = 30.0) -> None:
        self.now = 1_000.0
        self.again = 0.0
        self.woken = 0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        self.agenda = Agenda(slow=lambda: slow, quick=5.0, again=lambda: self.again, wake=self._wake)

    def _wake(self) -> None:
        self.woken += 1


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def test_the_first_cycle_is_due_at_once_and_the_next_after_the_slow_interval(asked: Asked) -> None:
    assert (asked.agenda.pause(), asked.agenda.take(), asked.agenda.take()) == (0.0, (), None)
    assert asked.agenda.pause() == 30.0
    asked.now += 30.0
    assert (asked.agenda.pause(), asked.agenda.take()) == (0.0, ())


def test_a_change_hurries_the_cycles_for_a_minute(asked: Asked) -> None:
    asked.agenda.take()
    asked.agenda.hurry()

    assert (asked.woken, asked.agenda.pause()) == (1, 5.0)
    asked.now += 61.0
    assert asked.agenda.take() == ()
    assert asked.agenda.pause() == 30.0


def test_single_jobs_are_asked_about_a_second_apart(asked: Asked) -> None:
    asked.agenda.take()
    asked.agenda.ask(["2", "1"])
    assert (asked.woken, asked.agenda.pause(), asked.agenda.take()) == (1, 0.0, ["1", "2"])

    asked.agenda.ask(["3"])

    assert (asked.agenda.take(), asked.agenda.pause()) == (None, agenda.URGENT_SECONDS)
    asked.now += agenda.URGENT_SECONDS
    assert asked.agenda.take() == ["3"]


def test_nothing_is_due_while_the_batch_system_is_not_asked(asked: Asked) -> None:
    asked.agenda.ask(["1"])
    asked.again = asked.now + 7.0

    assert (asked.agenda.take(), asked.agenda.pause()) == (None, 7.0)
    asked.now += 7.0
    assert (asked.agenda.take(), asked.agenda.take()) == ((), ["1"])


def test_who_has_no_cycles_takes_those_that_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, slow=NEVER)
    assert asked.agenda.take() == ()
    assert (asked.agenda.take(), asked.agenda.pause()) == (None, agenda._LONGEST)
    assert math.isfinite(agenda._LONGEST)

    asked.agenda.check()

    assert (asked.woken, asked.agenda.pause(), asked.agenda.take()) == (1, 0.0, ())
