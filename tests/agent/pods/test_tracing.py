"""When the spans of a Pod are told: once, and only by whoever saw it end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.agent.pods.tracing import tell
from router.agent.records import Record
from router.names import CONDITION_READY, REASON_POD_COMPLETED
from router.notation.traces import Span
from router.pod.layout import PodDirectory
from router.pod.status import FAILED, RUNNING, SUCCEEDED, Condition, PodStatus
from router.pod.view import PodView
from router.reconcile import outcomes
from tests.reconcile.given import PLAIN, T, facts, job, over

TRACED = replace(PLAIN, trace=f"00-{'1' * 32}-{'2' * 16}-01")
ENDED = PodStatus(SUCCEEDED, started=T, conditions=(Condition(CONDITION_READY, "False", T + 60, REASON_POD_COMPLETED),))
ENDED_BY_OTHERS = PodStatus(FAILED, "NodeLost", started=T)


def record_of(status: PodStatus, pod: PodView = TRACED) -> Record:
    pod = replace(pod, status=status)
    return Record(facts(pod, job(over(submitted=T + 2))), PodDirectory("/work", pod.job_uid, pod.index, pod.uid))


def told(record: Record, *, over: bool = False) -> list[str]:
    found: list[Span] = []
    tell(found.append, record, list, over=over)
    return [one.name for one in found]


ALL = ["pod", "submit", "queue", "run", "finish"]


def test_spans_are_told_once_when_the_end_is_stored() -> None:
    record = record_of(PodStatus(RUNNING, started=T))

    before = told(record)
    record.change(lambda known: outcomes.with_pod(known, replace(TRACED, status=ENDED)))

    assert (before, told(record), told(record), told(record, over=True)) == ([], ALL, [], [])


@pytest.mark.parametrize("ended", [ENDED, ENDED_BY_OTHERS])
def test_a_pod_that_had_ended_before_this_agent_saw_it_is_left_alone(ended: PodStatus) -> None:
    """The agent before may have told it."""
    assert told(record_of(ended), over=True) == []


def test_a_pod_that_others_have_ended_is_told_when_its_run_is_over() -> None:
    record = record_of(PodStatus(RUNNING, started=T))
    record.change(lambda known: outcomes.with_pod(known, replace(TRACED, status=ENDED_BY_OTHERS)))

    assert (told(record), told(record, over=True), told(record, over=True)) == ([], ALL, [])


def test_nothing_is_told_without_traces_or_of_a_pod_without_one() -> None:
    off, untraced = record_of(PodStatus(RUNNING)), record_of(PodStatus(RUNNING), PLAIN)
    off.change(lambda known: outcomes.with_pod(known, replace(TRACED, status=ENDED)))
    untraced.change(lambda known: outcomes.with_pod(known, replace(PLAIN, status=ENDED)))

    tell(None, off, list, over=True)

    assert told(untraced, over=True) == []
