from __future__ import annotations

import json
from pathlib import Path

import pytest

from router import policy
from router.policyfiles import read_directory
from router.workload.cluster import Cluster
from tests.policy.given import ACCOUNTS, SITES, job

DEFAULTS = Path(__file__).parents[2] / "policies"
RULES = """
rules:
  - {name: gold, when: "'tier' in request.namespaceLabels", deny: gold Jobs stay at home}
  - {name: busy, when: "queues['pbs/big'].queuedJobs > 5", cloud: true}
  - {name: large, when: job.cpus > 4, hpc: [{queue: big}]}
  - {name: rest, cloud: true}
"""
LARGE = json.dumps(job({"cpu": "6"}))

TESTS = [
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc, rule: large, site: pbs, queue: big}}", True),
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc}}", True),
    (f"job: {LARGE}, expect: {{target: cloud, rule: large, reason: no account}}", True),
    (f"job: {LARGE}, expect: {{target: hpc}}", False),
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc, queue: small}}", False),
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc, site: gpus}}", False),
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc, rule: rest}}", False),
    (f"job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc, reason: other words}}", False),
    (
        f"job: {LARGE}, request: {{user: ada}}, queues: {{big: {{queuedJobs: 6}}}}, expect: {{target: cloud, rule: busy}}",
        True,
    ),
    (
        f"job: {LARGE}, request: {{user: ada}}, queues: {{pbs/big: {{up: false}}}}, expect: {{target: cloud, rule: large}}",
        True,
    ),
    (f"job: {LARGE}, request: {{namespaceLabels: {{tier: '1'}}}}, expect: {{target: deny, rule: gold}}", True),
    (f"job: {LARGE}, request: {{namespace: known}}, expect: {{target: deny, rule: gold}}", True),
    (f"job: {LARGE}, request: {{user: ada, namespace: other}}, expect: {{target: hpc}}", True),
    ("job: {kind: Job, apiVersion: batch/v1, spec: {}}, expect: {target: deny, reason: spec.template}", True),
    ("job: {kind: Pod, apiVersion: v1}, expect: {target: cloud}", False),
    ("file: large.yaml, request: {user: ada}, expect: {target: hpc}", True),
]


@pytest.mark.parametrize(("text", "passed"), TESTS)
def test_a_test_compares_what_it_names(text: str, passed: bool) -> None:
    files = {"a": SITES, "b": ACCOUNTS, "c": RULES, "large.yaml": LARGE, "t": f"tests:\n  - {{name: t, {text}}}\n"}
    cluster = Cluster(namespaces={"known": {"tier": "2"}})

    (result,) = policy.run_tests(policy.load(files), cluster)

    assert (result.passed, result.name, result.place) == (passed, "t", "t:2")
    assert result.expected
    assert result.got


def test_what_is_told_of_a_failed_test() -> None:
    files = {
        "a": SITES,
        "b": ACCOUNTS,
        "c": RULES,
        "t": f"tests: [{{name: t, job: {LARGE}, expect: {{target: hpc, queue: big}}}}]",
    }

    (result,) = policy.run_tests(policy.load(files))

    assert result.expected == "hpc in queue big"
    assert result.got.startswith("cloud by rule large: rule large would send it to HPC, but it cannot go there: ")


def test_the_default_policy_checks_and_its_tests_pass() -> None:
    checked = policy.load(read_directory(DEFAULTS))

    assert [result for result in policy.run_tests(checked) if not result.passed] == []
    assert checked.warnings == ()


def test_every_rule_of_the_default_policy_but_the_audited_has_a_test() -> None:
    checked = policy.load(read_directory(DEFAULTS))

    tested = {test.test.expect.rule for test in checked.tests}

    assert {rule.name for rule in checked.rules if rule.rule.mode == "enforce"} == tested
