from __future__ import annotations

import json
from pathlib import Path

import pytest

from router import policy
from router.startup.policyfiles import read_directory
from router.workload.cluster import Cluster
from tests.policy.given import ACCOUNTS, SITES, job, problems_of

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


NIGHT = "  - {name: night, when: \"request.time.getHours('Europe/Berlin') < 6\", hpc: [{queue: big}]}\n"
BY_NIGHT = [
    ("job.mpi", "time: '2026-07-01T03:59:59Z', user: ada", ("hpc by rule night in queue big of site pbs", "")),
    ("job.mpi", "time: '2026-07-01T04:00:00Z', user: ada", ("cloud by rule rest", "")),
    ("job.mpi", "user: ada", ("", "rule night reads request.time; give the test's request a time")),
    ("job.cpus > 4", "user: ada", ("deny by rule first: never", "")),
]


@pytest.mark.parametrize(("first", "asking", "said"), BY_NIGHT)
def test_a_test_says_when_where_a_rule_looks_at_the_time(first: str, asking: str, said: tuple[str, str]) -> None:
    rules = f"rules:\n  - {{name: first, when: {first}, deny: never}}\n{NIGHT}"
    test = f"tests: [{{name: t, job: {LARGE}, request: {{{asking}}}, expect: {{target: hpc}}}}]"
    files = {"a": SITES, "b": ACCOUNTS, "c": f"{rules}  - {{name: rest, cloud: true}}\n", "t": test}

    (result,) = policy.run_tests(policy.load(files))

    assert (result.got.startswith(said[0]), result.got.endswith(said[1])) == (True, True), result.got


def test_a_time_is_one() -> None:
    test = f"tests: [{{name: t, job: {LARGE}, request: {{time: '22:00'}}, expect: {{target: hpc}}}}]"
    rest, column = "rules: [{name: rest, cloud: true}]", test.index("'22") + 1

    assert problems_of({"r": rest, "t": test}) == [
        f"t:1:{column}: test t: request.time is not a time; write 2026-03-01T12:00:00Z or seconds since 1970"
    ]


@pytest.mark.parametrize(("text", "passed"), TESTS)
def test_a_test_compares_what_it_names(text: str, passed: bool) -> None:
    files = {"a": SITES, "b": ACCOUNTS, "c": RULES, "large.yaml": LARGE, "t": f"tests:\n  - {{name: t, {text}}}\n"}
    cluster = Cluster(namespaces={"known": {"tier": "2"}})

    (result,) = policy.run_tests(policy.load(files), cluster)

    assert (result.passed, result.name, result.place) == (passed, "t", "t:2")
    assert result.expected
    assert result.got


@pytest.mark.parametrize(
    ("listed", "expect", "result"),
    [
        ("kueue.x-k8s.io/multikueue", "target: untouched", (True, "untouched: it is left to kueue.x-k8s.io/multikueue, which the policy lists")),
        ("kueue.x-k8s.io/multikueue", "target: cloud", (False, "untouched: it is left to kueue.x-k8s.io/multikueue, which the policy lists")),
        ("kueue.x-k8s.io/multikueue", "target: untouched, rule: never", (False, "untouched: it is left to kueue.x-k8s.io/multikueue, which the policy lists")),
        ("example.com/other", "target: untouched", (False, "deny by rule never: nothing at all")),
    ],
)  # fmt: skip
def test_a_job_of_a_listed_controller_meets_no_rule(listed: str, expect: str, result: tuple[bool, str]) -> None:
    job = json.loads(LARGE)
    job["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    files = {
        "a": "rules: [{name: never, deny: nothing at all}]",
        "b": f"controllers: [{{managedBy: {listed}}}]",
        "t": f"tests: [{{name: t, job: {json.dumps(job)}, expect: {{{expect}}}}}]",
    }

    (found,) = policy.run_tests(policy.load(files))

    assert (found.passed, found.got) == result


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


CRON = json.dumps(
    {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "c", "namespace": "lab"},
        "spec": {"jobTemplate": {"spec": job({"cpu": "6"})["spec"]}},
    }
)
CONTROLLER = (
    "accounts: [{users: ['system:kube-controller-manager'], controller: true}, {users: [ada], as: ada}NAMESPACE]\n"
)
OF_LAB = ", {namespaces: [lab], shared: true, as: lab}"


@pytest.mark.parametrize(
    ("accounts", "asking", "said"),
    [
        (OF_LAB, "", "hpc by rule large in queue big of site pbs: rule large sends it to queue big of site pbs, as lab: "),
        ("", "", "cloud by rule large: "),
        ("", "request: {user: ada}, ", "hpc by rule large in queue big of site pbs: rule large sends it to queue big of site pbs, as ada: "),
    ],
)  # fmt: skip
def test_a_cronjob_is_decided_for_its_controller(accounts: str, asking: str, said: str) -> None:
    test = f"tests: [{{name: t, job: {CRON}, {asking}expect: {{target: hpc}}}}]\n"
    files = {"a": SITES, "b": CONTROLLER.replace("NAMESPACE", accounts), "c": RULES, "t": test}

    (result,) = policy.run_tests(policy.load(files))

    assert result.got.startswith(said), result.got
