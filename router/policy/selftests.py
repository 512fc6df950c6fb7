"""Runs the tests of a policy: Jobs and the decision that each must get.

Pure. Judges as the gate does (job, sizing, decision), but places nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Final

from router.errors import JobError
from router.policy.deciding import decide
from router.policy.decision import Decision, QueueStates, Requester
from router.policy.identity import cronjob_controller
from router.policy.model import CheckedTest, Policy
from router.policy.schema import Expectation
from router.workload import job_of, managed_by, workload_of
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster

_UNTOUCHED: Final = "untouched"


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test: ``expected`` and ``got`` in words, ``place`` as ``file:line``. ``got`` ends with the reason.

    ``decision`` has every rule that was looked at; None for a Job that is left to others, or that lacks a time.
    """

    __test__ = False

    name: str
    passed: bool
    expected: str
    got: str
    place: str
    decision: Decision | None = None


def run_tests(policy: Policy, cluster: Cluster = UNKNOWN_CLUSTER, only: Sequence[str] = ()) -> list[TestResult]:
    """The tests of the policy, in the order of the files.

    :param only: globs over the tests' names; empty for all tests
    """
    return [
        _run(policy, checked, cluster)
        for checked in policy.tests
        if not only or any(fnmatchcase(checked.test.name, glob) for glob in only)
    ]


def _run(policy: Policy, checked: CheckedTest, cluster: Cluster) -> TestResult:
    expect = checked.test.expect
    decision: Decision | None = None
    asked_at = checked.test.request.time
    found = job_of(checked.job) if asked_at is None else job_of(checked.job, asked_at)
    if found is None:
        got, passed = "is neither a batch/v1 Job nor a CronJob", False
    elif (manager := managed_by(found[0])) in policy.controllers:
        got, passed = f"untouched: it is left to {manager}, which the policy lists", _is_untouched(expect)
    else:
        try:
            decision = _decision(policy, checked, cluster, *found)
        except JobError as error:
            # The webhook denies such a Job before any rule is asked.
            decision = Decision("deny", "", f"the Job is not valid: {error}")
        got, passed = _told(decision), meets(expect, decision)
        if checked.test.request.time is None and (reading := _read_time(policy, decision)):
            got, passed = f"cannot be told: rule {reading} reads request.time; give the test's request a time", False
            decision = None
    return TestResult(checked.test.name, passed, _expected(expect), got, checked.place, decision)


def _decision(policy: Policy, checked: CheckedTest, cluster: Cluster, job: Mapping[str, object], root: str) -> Decision:
    request = checked.test.request
    namespace = request.namespace or _namespace(checked.job) or "default"
    labels = request.namespace_labels
    workload = workload_of(job, namespace=namespace, cluster=cluster, gpu_resources=policy.gpu_resources, root=root)
    known = cluster.namespaces.get(namespace) if labels is None else labels
    requester = Requester(request.user, request.groups, namespace, known)
    if checked.job.get("kind") == "CronJob" and "user" not in request.model_fields_set:
        requester = cronjob_controller(policy.accounts, namespace, known)
    requester = replace(requester, time=request.time)
    return decide(policy, workload, requester, QueueStates(checked.states), explain=True)


def _is_untouched(expect: Expectation) -> bool:
    """Whether a test expects ``untouched`` alone, as an unjudged Job has no rule, site, queue or reason."""
    return expect.model_dump(exclude_unset=True) == {"target": _UNTOUCHED}


def _read_time(policy: Policy, decision: Decision) -> str:
    """The first rule that was looked at and reads the time; empty if there is none."""
    asked = {one.rule for one in decision.considered}
    looking = (rule.name for rule in policy.rules if "time" in rule.condition.fields("request") and rule.name in asked)
    return next(looking, "")


def _namespace(job: Mapping[str, object]) -> str:
    metadata = job.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, Mapping) else None
    return namespace if isinstance(namespace, str) else ""


def meets(expect: Expectation, decision: Decision) -> bool:
    """Whether a decision is the expected one. Fields that are left out are not compared."""
    site = decision.route.site.name if decision.route else None
    queue = decision.route.queue.name if decision.route else None
    return (
        expect.target == decision.target
        and expect.rule in {None, decision.rule}
        and expect.site in {None, site}
        and expect.queue in {None, queue}
        and (expect.reason is None or expect.reason in decision.reason)
    )


def _expected(expect: Expectation) -> str:
    words: list[str] = [expect.target]
    if expect.rule is not None:
        words.append(f"by rule {expect.rule}")
    if expect.queue is not None:
        words.append(f"in queue {expect.queue}")
    if expect.site is not None:
        words.append(f"of site {expect.site}")
    if expect.reason is not None:
        words.append(f"with a reason that contains {expect.reason!r}")
    return " ".join(words)


def _told(decision: Decision) -> str:
    words: list[str] = [decision.target]
    if decision.rule:
        words.append(f"by rule {decision.rule}")
    if decision.route is not None:
        words.append(f"in queue {decision.route.queue.name} of site {decision.route.site.name}")
    return f"{' '.join(words)}: {decision.reason}"
