"""EASY backfilling: schedules worked out by hand, and what must hold for every queue."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simulate.easy import Batch, Easy
from router.simulate.nodes import Nodes, chosen, needs
from tests.steps import steps_of


@dataclass(frozen=True)
class Asked:
    """A job: when it comes, nodes with slots each, the walltime, how long it runs."""

    arrives: float
    nodes: int
    slots: int
    limit: float
    runs: float


@dataclass
class Schedule:
    """When each job began and ended, the first promise to each that was first in the queue, and the fullest moment."""

    began: dict[int, float] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    promised: dict[int, float] = field(default_factory=dict)
    most: list[int] = field(default_factory=list)


def scheduled(jobs: Sequence[Asked], nodes: int, slots: int) -> Schedule:
    easy, found = Easy(Nodes(nodes, slots)), Schedule(most=[0] * nodes)
    events = [(job.arrives, 1, number) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    while events:
        now, arrives, number = heapq.heappop(events)
        if arrives:
            job = jobs[number]
            easy.submit(Batch(number, "s/q", needs({job.slots: job.nodes}), job.limit), now)
        else:
            easy.end(number)
            found.ended[number] = now
            if events and events[0][:2] == (now, 0):
                continue
        for batch in list(easy.start(now)):
            assert batch.number not in found.began
            found.began[batch.number] = now
            heapq.heappush(events, (now + jobs[batch.number].runs, 0, batch.number))
        if easy.reservation is not None:
            found.promised.setdefault(easy.waiting[0].number, easy.reservation.start)
        taken = [slots - free for free in easy.nodes.free]
        found.most = [max(pair) for pair in zip(found.most, taken, strict=True)]
    return found


@pytest.mark.parametrize(
    ("jobs", "began"),
    [
        pytest.param([Asked(0, 2, 1, 10, 10), Asked(1, 4, 1, 10, 10), Asked(2, 2, 1, 8, 8)], [0, 10, 2], id="a short one goes before, as it ends in time"),
        pytest.param([Asked(0, 2, 1, 10, 10), Asked(1, 4, 1, 10, 10), Asked(2, 2, 1, 9, 1)], [0, 10, 20], id="not if its walltime is too long, however short it is"),
        pytest.param([Asked(0, 2, 1, 10, 10), Asked(1, 3, 1, 10, 10), Asked(2, 1, 1, 99, 99)], [0, 10, 2], id="a long one goes before on the node that the first one leaves"),
        pytest.param([Asked(0, 2, 1, 10, 4), Asked(1, 4, 1, 10, 10), Asked(2, 2, 1, 8, 8)], [0, 10, 2], id="a reservation holds although the first ended early, while the gap is used"),
        pytest.param([Asked(0, 4, 1, 10, 3), Asked(1, 4, 1, 10, 10)], [0, 3], id="an early end starts the next"),
        pytest.param([Asked(0, 4, 1, 5, 5), Asked(1, 1, 1, 9, 9), Asked(2, 1, 1, 9, 9)], [0, 5, 5], id="those that fit together start together"),
        pytest.param([Asked(0, 3, 1, 10, 10), Asked(1, 2, 1, 5, 5), Asked(2, 2, 1, 5, 5), Asked(3, 1, 1, 5, 5)], [0, 10, 10, 3], id="only the first that waits has a reservation"),
    ],
)  # fmt: skip
def test_schedules_on_four_nodes(jobs: list[Asked], began: list[float]) -> None:
    assert [scheduled(jobs, 4, 1).began[number] for number in range(len(jobs))] == began


def test_parts_of_a_job_are_on_different_nodes() -> None:
    """Two nodes of four slots have room for four parts of two slots; a job of two parts takes one on each."""
    jobs = [Asked(0, 2, 2, 10, 10), Asked(0, 2, 2, 10, 10), Asked(0, 1, 1, 10, 10)]

    assert scheduled(jobs, 2, 4).began == {0: 0, 1: 0, 2: 10}


def test_slots_that_lie_apart_hold_no_larger_part() -> None:
    """Each node has one slot left, so a job of two slots waits for a node."""
    jobs = [Asked(0, 2, 3, 10, 10), Asked(1, 1, 2, 10, 10)]

    assert scheduled(jobs, 2, 4).began == {0: 0, 1: 10}


def test_a_job_of_unequal_parts_takes_the_larger_first() -> None:
    assert chosen([1, 3, 2, 3], needs({3: 1, 1: 2})) == ((1, 3), (0, 1), (2, 1))
    assert chosen([1, 2, 2, 1], needs({3: 1, 1: 2})) is None


NODES, SLOTS = 4, 3
JOBS = st.lists(
    st.builds(
        lambda arrives, nodes, slots, limit, share: Asked(arrives, nodes, slots, limit, max(1, limit * share // 4)),
        st.integers(0, 30),
        st.integers(1, NODES),
        st.integers(1, SLOTS),
        st.integers(1, 12),
        st.integers(1, 4),
    ),
    min_size=1,
    max_size=25,
)


@given(JOBS)
@settings(max_examples=80, deadline=None)
def test_what_holds_for_every_queue(jobs: list[Asked]) -> None:
    found = scheduled(jobs, NODES, SLOTS)

    assert sorted(found.ended) == list(range(len(jobs)))
    assert max(found.most) <= SLOTS
    assert {number for number, promise in found.promised.items() if found.began[number] > promise} == set()
    assert all(found.began[number] >= job.arrives for number, job in enumerate(jobs))


@given(JOBS, st.integers(1, NODES), st.integers(1, SLOTS), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_equal_jobs_start_in_their_order(jobs: list[Asked], nodes: int, slots: int, limit: int) -> None:
    """With equal walltimes and sizes nothing can pass."""
    equal = sorted(
        [Asked(job.arrives, nodes, slots, limit, min(job.runs, limit)) for job in jobs], key=lambda job: job.arrives
    )

    began = scheduled(equal, NODES, SLOTS).began

    assert sorted(began.values()) == [began[number] for number in range(len(equal))]


@given(JOBS)
@settings(max_examples=40, deadline=None)
def test_the_first_in_the_queue_waits_only_for_nodes(jobs: list[Asked]) -> None:
    """With true walltimes the promise to the first one that waits is kept to the second, or the job starts earlier."""
    true = [Asked(job.arrives, job.nodes, job.slots, job.runs, job.runs) for job in jobs]
    found = scheduled(true, NODES, SLOTS)

    assert {number: found.began[number] for number in found.promised} == found.promised


@given(JOBS, st.lists(st.sampled_from(["s/a", "s/b"]), min_size=25, max_size=25))
@settings(max_examples=80, deadline=None)
def test_the_first_of_each_queue_is_found_as_in_the_line_itself(jobs: list[Asked], queues: list[str]) -> None:
    """One walks through the whole line for each queue; the batch system keeps what it finds."""
    easy, arrived = Easy(Nodes(NODES, SLOTS)), dict[int, float]()
    events = [(job.arrives, 1, number) for number, job in enumerate(jobs)]
    heapq.heapify(events)
    while events:
        now, arrives, number = heapq.heappop(events)
        if arrives:
            job, arrived[number] = jobs[number], now
            easy.submit(Batch(number, queues[number], needs({job.slots: job.nodes}), job.limit), now)
        else:
            easy.end(number)
        for batch in list(easy.start(now)):
            heapq.heappush(events, (now + jobs[batch.number].runs, 0, batch.number))
        line = {name: [arrived[job.number] for job in easy.waiting if job.queue == name] for name in ("s/a", "s/b")}
        assert {name: easy.first_waiting(name) for name in line} == {
            name: next(iter(waiting), None) for name, waiting in line.items()
        }
        assert [easy.queued[name] for name in line] == list(map(len, line.values()))


def test_asking_for_the_first_of_each_queue_takes_no_longer_in_a_longer_line() -> None:
    """Behind one job that runs, all others wait in one of two queues."""

    def asked(count: int) -> int:
        easy = Easy(Nodes(1, 1))
        for number in range(count):
            easy.submit(Batch(number, "s/a", needs({1: 1}), 10), number)
        list(easy.start(count))
        return steps_of(lambda: [easy.first_waiting(queue) for queue in ("s/a", "s/b")])

    assert asked(200) == asked(2)
