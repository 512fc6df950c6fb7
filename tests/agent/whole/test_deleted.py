"""A batch job that somebody deletes in the batch system, past Kubernetes."""

from __future__ import annotations

import pytest

from router.names import CONDITION_DELETED
from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.test_life import condition, narrow, shown, terminated

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(
    ("trap", "codes"),
    [("", {143, 137}), ("trap 'tell end; builtin exit 0' TERM", {0, 137})],
    ids=["killed", "caught"],
)
def test_a_running_job_that_somebody_deletes_does_not_come_back(stack: Stack, trap: str, codes: set[int]) -> None:
    """The queue kills a second after it has asked, which a busy machine may need."""
    name = unique("qdel")
    stack.user.apply(stack.runs.job(name, f"{trap}\n{stack.waiting(name)}", backoffLimit=6))
    stack.await_running(name)
    (batch,) = stack.site.of(name)

    stack.site.local("qdel", batch.job_id)

    assert stack.await_end(name) == ["Failed"]
    over = condition(stack.job(name), "Failed")
    assert over["reason"] == "PodFailurePolicy"
    assert CONDITION_DELETED in over["message"]
    pod = stack.pod(name)
    assert (shown(stack, name), pod["status"]["reason"]) == ("JobDeleted", "JobDeleted")
    assert terminated(pod)["exitCode"] in codes
    assert terminated(pod)["reason"] == "JobDeleted"
    assert batch.job_id in pod["status"]["message"]
    assert (len(stack.site.of(name)), stack.runs.started(name)) == (1, 1)


def test_a_waiting_job_that_somebody_deletes_does_not_come_back(stack: Stack) -> None:
    blocker, name = unique("blocker"), unique("qdel-queued")
    stack.user.apply(narrow(stack.runs.job(blocker, stack.waiting(blocker))))
    stack.await_started(blocker)
    stack.user.apply(narrow(stack.runs.job(name, backoffLimit=6)))
    stack.await_submitted(name)
    (batch,) = stack.site.of(name)

    stack.site.local("qdel", batch.job_id)

    assert stack.await_end(name) == ["Failed"]
    assert condition(stack.job(name), "Failed")["reason"] == "PodFailurePolicy"
    assert shown(stack, name) == "JobDeleted"
    assert (len(stack.site.of(name)), stack.runs.started(name)) == (1, 0)
    stack.let_go(blocker)
    assert stack.await_end(blocker) == ["Complete"]
