"""Why a batch job waits, as its user sees it."""

from __future__ import annotations

import json
import re
import time

import pytest

from router.names import CONDITION_QUEUED
from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.test_life import condition, narrow
from tests.agent.whole.test_operators import batchgate
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
SOON = 60.0


def _without_place(message: str) -> str:
    """The words without the place in the line, which stands there once the agent has asked for the queues."""
    return re.sub(r"; number \d+ of this cluster's \d+ jobs in line$", "", message)


def test_why_it_waits_is_on_the_pod_within_a_minute(stack: Stack) -> None:
    """In the queue's own words and in plain ones: in the condition, in an Event that is told once, and in ``batchgate describe``."""
    first, second = unique("first"), unique("second")
    stack.user.apply(narrow(stack.runs.job(first, stack.waiting(first))))
    stack.await_started(first)
    stack.user.apply(narrow(stack.runs.job(second)))
    stack.await_submitted(second)
    began = time.monotonic()

    pod = until(lambda: stack.pod(second), lambda found: "message" in found["status"], what="for words")
    took = time.monotonic() - began

    stack.notes.append(f"words after {took:.1f} s")
    assert took < SOON
    (batch,) = stack.site.of(second)
    assert batch.comment == "Not Running: Not enough free nodes available"
    words = f"{batch.comment} (the nodes that it could use are busy)"
    assert (pod["status"]["reason"], _without_place(pod["status"]["message"])) == ("Queued", words)
    queued = condition(pod, CONDITION_QUEUED)
    assert (queued["status"], queued["reason"], _without_place(queued["message"])) == ("True", "Queued", words)
    chosen = f"reason=Queued,involvedObject.name={pod['metadata']['name']}"
    events = until(
        lambda: json.loads(stack.user.ok("get", "events", "--field-selector", chosen, "-o", "json"))["items"],
        what="for the Event",
    )
    assert [(_without_place(event["message"]), event["count"]) for event in events] == [(words, 1)]
    assert f"Queued: {words}" in batchgate(stack.user, "describe", second, "-n", stack.user.namespace).out
    stack.let_go(first)
    assert stack.await_end(first, second) == ["Complete", "Complete"]
    left = condition(stack.pod(second), CONDITION_QUEUED)
    assert (left["status"], left["reason"]) == ("False", "LeftQueue")
