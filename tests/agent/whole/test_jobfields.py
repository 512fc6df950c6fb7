"""Fields of a Job that Kubernetes' own Job controller honours: to it a Pod on HPC is a Pod."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
INDEX = "$JOB_COMPLETION_INDEX"


def reason(job: dict[str, Any], kind: str) -> str:
    return next(str(one["reason"]) for one in job["status"]["conditions"] if one["type"] == kind)


def test_failures_are_counted_by_index(stack: Stack) -> None:
    name = unique("indexes")
    spec: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}

    body = f'[ "{INDEX}" != 1 ] || exit 3'
    stack.user.apply(stack.runs.job(name, body, backoffLimitPerIndex=1, maxFailedIndexes=3, **spec, backoffLimit=6))
    assert stack.await_end(name) == ["Failed"]

    job = stack.job(name)
    assert (job["status"]["failedIndexes"], job["status"]["completedIndexes"]) == ("1", "0,2")
    assert reason(job, "Failed") == "FailedIndexes"
    assert stack.runs.started(name) == 4


def test_too_many_failed_indexes_end_the_job(stack: Stack) -> None:
    name = unique("indexes")
    spec: dict[str, Any] = {"completions": 4, "parallelism": 1, "completionMode": "Indexed"}

    stack.user.apply(stack.runs.job(name, "exit 3", backoffLimitPerIndex=0, maxFailedIndexes=1, **spec, backoffLimit=6))
    assert stack.await_end(name) == ["Failed"]

    assert reason(stack.job(name), "Failed") == "MaxFailedIndexesExceeded"
    assert stack.runs.started(name) == 2


def test_a_success_policy_ends_the_job_and_what_still_runs(stack: Stack) -> None:
    name = unique("leader")
    spec: dict[str, Any] = {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    policy = {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}

    stack.user.apply(stack.runs.job(name, f'[ "{INDEX}" = 0 ] || sleep 300', successPolicy=policy, **spec))
    assert stack.await_end(name) == ["Complete"]

    assert reason(stack.job(name), "Complete") == "SuccessPolicy"
    until(lambda: [one for one in stack.site.of(name) if one.state != "F"], lambda left: not left)


def test_an_exit_code_that_the_jobs_own_failure_policy_names_ends_it(stack: Stack) -> None:
    name = unique("code")
    rule = {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}}

    stack.user.apply(stack.runs.job(name, "exit 42", backoffLimit=6, podFailurePolicy={"rules": [rule]}))
    assert stack.await_end(name) == ["Failed"]

    assert reason(stack.job(name), "Failed") == "PodFailurePolicy"
    assert stack.runs.started(name) == 1


def test_a_selector_of_the_users_own_and_a_finalizer(stack: Stack) -> None:
    name = unique("own")
    job = stack.runs.job(name, manualSelector=True, selector={"matchLabels": {"whole-test": name}})
    job["spec"]["template"]["metadata"] |= {"finalizers": ["example.com/kept"], "annotations": {"example.com/a": "b"}}

    stack.user.apply(job)
    assert stack.await_end(name) == ["Complete"]

    pod = stack.pod(name)
    metadata = pod["metadata"]
    assert ("example.com/kept" in metadata["finalizers"], metadata["annotations"]["example.com/a"]) == (True, "b")
    patch = json.dumps([{"op": "remove", "path": "/metadata/finalizers"}])
    stack.user.ok("patch", "pod", metadata["name"], "--type=json", "-p", patch)


def test_a_job_that_is_deleted_when_it_has_ended_leaves_its_results(stack: Stack) -> None:
    name = unique("ttl")

    stack.user.apply(stack.runs.job(name, "echo 42", ttlSecondsAfterFinished=0))
    until(lambda: stack.runs.ended(name), lambda count: count == 1, what="for its end")
    until(lambda: stack.user.run("get", "job", name).rc, lambda code: code != 0, what="for its deletion")

    directory = stack.site.results / stack.user.namespace / name
    # What begins with a dot is on its way.
    found = until(lambda: [*directory.glob("[!.]*/log/main.0")], bool, what=f"for results in {directory}")
    assert [one.read_text() for one in found] == ["42\n"]
