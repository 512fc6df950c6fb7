"""What the tests of a policy have shown of its rules, as whole values."""

from __future__ import annotations

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from router import policy
from router.policy.coverage import Branch, Coverage, RuleCoverage, coverage
from tests.policy.given import ACCOUNTS, SITES, UNHURRIED, job

RULES = """\
rules:
  - {name: labelled, when: "request.namespaceLabels['tier'] == 'gold'", deny: gold Jobs stay at home}
  - {name: watched, when: job.cpus > 4, mode: audit, hpc: [{queue: big}]}
  - {name: large, when: job.cpus > 4, hpc: [{queue: small, maxNodes: 1}, {queue: big}]}
  - {name: tiny, when: job.cpus < 1, cloud: true}
  - {name: rest, cloud: true}
"""
LARGE, SMALL = json.dumps(job({"cpu": "6"})), json.dumps(job({"cpu": "1"}))
GOLD, TIN = "namespaceLabels: {tier: gold}", "namespaceLabels: {tier: tin}"
TESTS = f"""\
tests:
  - {{name: gold, job: {LARGE}, request: {{{GOLD}}}, expect: {{target: deny}}}}
  - {{name: unlabelled, job: {LARGE}, request: {{namespaceLabels: {{}}}}, expect: {{target: deny}}}}
  - {{name: goes, job: {LARGE}, request: {{user: ada, {TIN}}}, expect: {{target: hpc}}}}
  - {{name: stranger, job: {LARGE}, request: {{{TIN}}}, expect: {{target: hpc}}}}
  - {{name: small, job: {SMALL}, request: {{{TIN}}}, expect: {{target: cloud}}}}
  - {{name: no Job, job: {{kind: Pod, apiVersion: v1}}, expect: {{target: cloud}}}}
  - {{name: invalid, job: {{kind: Job, apiVersion: batch/v1, spec: {{}}}}, expect: {{target: deny}}}}
"""


CHECKED = policy.load({"a": SITES, "b": ACCOUNTS, "c": RULES, "t": TESTS})


def shown_by(*only: str) -> Coverage:
    return coverage(CHECKED, policy.run_tests(CHECKED, only=only))


def branch(outcome: str, *tests: str, queue: str = "", counted: bool = True) -> Branch:
    return Branch(outcome, queue, tests, counted)  # type: ignore[arg-type]


def fails(*tests: str) -> Branch:
    return branch("notEvaluated", *tests, counted=False)


def test_each_rule_with_its_ways() -> None:
    past = ("goes", "stranger", "small")

    found = shown_by()

    assert found.rules == (
        RuleCoverage("labelled", "c:2", audit=False, state="decided", branches=(
            branch("held", "gold"), branch("notHeld", *past), fails("unlabelled"))),
        RuleCoverage("watched", "c:3", audit=True, state="recorded", branches=(
            branch("held", "goes", "stranger"), branch("notHeld", "small"), branch("queue", "goes", queue="pbs/big"),
            branch("notRoutable", "stranger", counted=False), fails())),
        RuleCoverage("large", "c:4", audit=False, state="decided", branches=(
            branch("held", "goes", "stranger"), branch("notHeld", "small"), branch("queue", queue="pbs/small"),
            branch("queue", "goes", queue="pbs/big"), branch("notRoutable", "stranger", counted=False), fails())),
        RuleCoverage("tiny", "c:5", audit=False, state="lookedAt", branches=(branch("held"), branch("notHeld", "small"), fails())),
        RuleCoverage("rest", "c:6", audit=False, state="decided", branches=(branch("held", "small"), fails())),
    )  # fmt: skip
    assert (found.taken, found.counted, found.share) == (10, 12, Fraction(1000, 12))


def test_only_the_tests_that_were_run_count() -> None:
    found = shown_by("gol*", "no Job")

    assert [(rule.rule, rule.state) for rule in found.rules] == [
        ("labelled", "decided"),
        ("watched", "never"),
        ("large", "never"),
        ("tiny", "never"),
        ("rest", "never"),
    ]
    assert found.taken == 1


def test_a_policy_without_rules_is_covered() -> None:
    assert Coverage(()).share == 100


RESULTS = policy.run_tests(CHECKED)
EVERYTHING = shown_by()


@UNHURRIED
@given(st.sets(st.sampled_from(range(len(RESULTS)))))
def test_a_further_test_never_covers_less(some: set[int]) -> None:
    found = coverage(CHECKED, [RESULTS[number] for number in some])

    assert 0 <= found.taken <= EVERYTHING.taken
    assert found.counted == EVERYTHING.counted
