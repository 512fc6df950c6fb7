"""Reconciler at the machine's limit of threads, and at its end with work that no thread has taken."""

from __future__ import annotations

import threading

import pytest

from router.reconcile.model import Collect
from tests.agent.pods.world import World, raw
from tests.local.queue import until


def few_threads(monkeypatch: pytest.MonkeyPatch, name: str, refused: int) -> None:
    """The next so many threads of this name cannot be started."""
    start, left = threading.Thread.start, iter(range(refused))

    def begin(thread: threading.Thread) -> None:
        if thread.name.startswith(name) and next(left, None) is not None:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", begin)


def slow(world: World, uid: str) -> None:
    """A Pod whose submission hangs until ``go``."""
    world.pods[uid] = raw(uid)
    world.add(uid)
    until(lambda: world.prepared, lambda prepared: uid in prepared)


def test_a_pod_is_submitted_later_and_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch, "submit", 2)
    record = world.add("good")

    world.reconciler.start()

    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")
    world.reconciler.finish()
    assert world.prepared == ["good"]
    assert record.failures == {}


def test_results_are_collected_later_and_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch, "collect", 2)
    record = world.add("good")

    world.reconciler._begin(record, Collect())

    assert (record.owed, record.busy, record.failures) == (True, set(), {"collect": 1})
    world.reconciler.start()
    until(lambda: not record.owed)
    world.reconciler.finish()
    assert len(world.brought) == 1


def test_one_plans_for_all_where_there_is_no_thread_for_a_second(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    few_threads(monkeypatch, "planner-1", 100)
    records = [world.add(uid) for uid in ("good", "other")]

    world.reconciler.start()

    for record in records:
        until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")  # noqa: B023 - used at once
    assert world.reconciler.alive


def test_afterwards_as_many_submit_at_the_same_time_as_before(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Python 3.11 a pool counts the threads that it could not start as idle ones."""
    few_threads(monkeypatch, "submit", 2)
    record = world.add("good")
    world.reconciler.start()
    until(lambda: record.facts.pod.status.phase, lambda phase: phase == "Failed")

    slow(world, "slow")
    other = world.add("other")

    until(lambda: other.facts.pod.status.phase, lambda phase: phase == "Failed")
    assert not world.go.is_set()


def test_the_end_waits_for_nothing_that_no_thread_has_taken(world: World) -> None:
    world.reconciler.start()
    slow(world, "slow-1")
    slow(world, "slow-2")
    record = world.add("good")
    until(lambda: record.busy, lambda busy: busy == {"submit"})

    world.reconciler.stop()
    world.go.set()

    assert world.end(60)
    assert (world.prepared, record.busy, record.facts.submitting) == (["slow-1", "slow-2"], set(), False)
