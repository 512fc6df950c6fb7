"""The objects that tell what audit rules would do, and what is to be written of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from router import policy
from router.policy.model import Policy
from router.replay.audits import AuditTally, Finding, Judged, NamespaceAudit, Subject
from router.replay.policyreports import MOST_RESULTS, OPENREPORTS, WGPOLICY, Form, Plan, plan, report
from tests.policies import LARGE_GO_TO_HPC

Json = dict[str, Any]

SITES = LARGE_GO_TO_HPC.partition("rules:")[0]
LARGEST_OBJECT = 1024 * 1024
"""Well below the 1.5 MiB that etcd takes."""


def load(rules: str) -> Policy:
    return policy.load({"all.yaml": f"{SITES}rules:\n{rules}  - {{name: rest, cloud: true}}\n"})


CHECKED = load("""\
  - {name: vast, when: job.cpus > 4, deny: "too many\\ncores", mode: audit}
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}], mode: audit}
  - {name: strict, when: job.cpus >= 2, hpc: [{queue: batch}], ifNotRoutable: deny, mode: audit}
  - {name: small, when: job.cpus < 1, cloud: true, mode: audit}
""")
JOB = Subject("Job", "j", "uid-1", 1500)
RESOURCE = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "lab", "name": "j", "uid": "uid-1"}
NONE = "This rule holds for no Job here, so it would change nothing."
UNSURE = "This rule holds for no Job here as far as is known: facts on which it rests are unknown (property unknown)."
FAILED = "The condition of this rule cannot be evaluated for these Jobs; in force, it would {}. See: batchgate explain"
PERHAPS = "As far as is known, as facts on which it rests are unknown (property unknown): "
SENDS = "This rule would send these Jobs to HPC, to demo/batch. Those that cannot go there would {}."


def audit(*findings: Finding, checked: Policy = CHECKED) -> NamespaceAudit:
    """One Job with these findings, and an older one without any."""
    tally = AuditTally(checked)
    tally.add(Judged("lab", JOB, findings))
    tally.add(Judged("lab", Subject("Job", "old", "uid-0", 1000), ()))
    (found,) = tally.namespaces()
    return found


def result(rule: str, outcome: str, message: str, jobs: str = "0", **properties: str) -> Json:
    """A result as it is expected. Rules ``vast`` and ``strict`` may deny."""
    denies = rule in {"vast", "strict"}
    line = f"{SITES}rules:".count("\n") + 2 + ("vast", "large", "strict", "small").index(rule)
    return {
        "source": "batchgate",
        "policy": "batchgate-policies",
        "rule": rule,
        "category": "Job routing",
        "severity": "medium" if denies else "low",
        "result": outcome,
        "scored": denies and outcome != "warn",
        "message": message,
        "timestamp": {"seconds": 1500, "nanos": 0},
        "properties": {"jobs": jobs, "place": f"all.yaml:{line}", **properties},
        **({"resources": [RESOURCE]} if jobs != "0" else {}),
    }


RESULTS = [
    (Finding("vast", True, "deny"), result("vast", "fail", "This rule would deny these Jobs: too many cores", "1", **{"jobs-deny": "1"})),
    (Finding("vast", True, "deny", ("request.user",)), result("vast", "warn", f"{PERHAPS}This rule would deny these Jobs: too many cores", "1", **{"jobs-deny": "1", "jobs-uncertain": "1", "unknown": "request.user"})),
    (Finding("strict", True, "deny", ("request.user",)), result("strict", "warn", f"{PERHAPS}{SENDS.format('be denied')}", "1", **{"jobs-deny": "1", "jobs-uncertain": "1", "unknown": "request.user"})),
    (Finding("vast", None, "deny"), result("vast", "error", FAILED.format("deny them"), "1")),
    (Finding("vast", False, "", ("request.user",)), result("vast", "skip", UNSURE, **{"jobs-uncertain": "1", "unknown": "request.user"})),
    (Finding("large", True, "hpc"), result("large", "warn", SENDS.format("stay in the cloud"), "1", **{"jobs-hpc": "1"})),
    (Finding("large", True, "cloud", ("request.user",)), result("large", "warn", SENDS.format("stay in the cloud"), "1", **{"jobs-cloud": "1", "jobs-uncertain": "1", "unknown": "request.user"})),
    (Finding("large", None, "cloud"), result("large", "error", FAILED.format("keep them in the cloud"), "1")),
    (Finding("strict", True, "deny"), result("strict", "fail", SENDS.format("be denied"), "1", **{"jobs-deny": "1"})),
    (Finding("strict", True, "hpc"), result("strict", "warn", SENDS.format("be denied"), "1", **{"jobs-hpc": "1"})),
    (Finding("small", True, "cloud"), result("small", "warn", "This rule would keep these Jobs in the cloud.", "1", **{"jobs-cloud": "1"})),
]  # fmt: skip


@pytest.mark.parametrize(("finding", "expected"), RESULTS)
def test_each_outcome_is_a_result_and_the_other_rules_pass(finding: Finding, expected: Json) -> None:
    results = report(audit(finding), CHECKED, WGPOLICY)["results"]

    passed = [result(one, "pass", NONE) for one in ("vast", "large", "strict", "small")]
    assert results == [expected if one["rule"] == finding.rule else one for one in passed]


def test_a_rule_that_holds_for_one_job_and_fails_for_another_has_two_results() -> None:
    tally = AuditTally(CHECKED)
    tally.add(Judged("lab", JOB, (Finding("vast", True, "deny"),)))
    tally.add(Judged("lab", Subject("CronJob", "c"), (Finding("vast", None, "deny"),)))

    found = report(tally.namespaces()[0], CHECKED, WGPOLICY)

    assert [(one["rule"], one["result"], one["properties"]["jobs"]) for one in found["results"]] == [
        ("vast", "fail", "1"),
        ("vast", "error", "1"),
        ("large", "pass", "0"),
        ("strict", "pass", "0"),
        ("small", "pass", "0"),
    ]
    assert found["summary"] == {"pass": 3, "fail": 1, "warn": 0, "error": 1, "skip": 0}
    assert found["results"][1]["resources"] == [
        {"apiVersion": "batch/v1", "kind": "CronJob", "namespace": "lab", "name": "c"}
    ]


def test_one_job_that_a_rule_surely_denies_makes_it_fail() -> None:
    tally = AuditTally(CHECKED)
    tally.add(Judged("lab", Subject("Job", "new", "u", 2000), (Finding("vast", True, "deny", ("request.user",)),)))
    tally.add(Judged("lab", JOB, (Finding("vast", True, "deny"),)))

    found = report(tally.namespaces()[0], CHECKED, WGPOLICY)["results"][0]

    assert (found["result"], found["message"]) == ("fail", "This rule would deny these Jobs: too many cores")
    assert (found["properties"]["jobs-deny"], found["properties"]["jobs-uncertain"]) == ("2", "1")


@pytest.mark.parametrize(
    ("form", "head"),
    [
        (WGPOLICY, {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport"}),
        (OPENREPORTS, {"apiVersion": "openreports.io/v1alpha1", "kind": "Report", "source": "batchgate"}),
    ],
)
def test_both_forms_differ_in_kind_and_source_alone(form: Form, head: Json) -> None:
    found = report(audit(), CHECKED, form)

    assert found == {
        **head,
        "metadata": {
            "name": "batchgate-audit",
            "namespace": "lab",
            "labels": {"app.kubernetes.io/managed-by": "batchgate"},
            "annotations": {"batchgate.dev/policy": CHECKED.digest},
        },
        "scope": {"apiVersion": "v1", "kind": "Namespace", "name": "lab", "namespace": "lab"},
        "summary": {"pass": 4, "fail": 0, "warn": 0, "error": 0, "skip": 0},
        "results": [result(one, "pass", NONE) for one in ("vast", "large", "strict", "small")],
    }


def test_a_report_of_the_longest_texts_stays_small_and_says_what_is_left_out() -> None:
    deny = "\u2603" * 4096
    rules = [
        f"  - {{name: {'r' * 59}{number:04}, when: job.cpus > {number}, deny: {deny}, mode: audit}}\n"
        for number in range(MOST_RESULTS)
    ]
    checked = load("".join([*rules, "  - {name: last, when: job.cpus > 9999, deny: never, mode: audit}\n"]))
    tally = AuditTally(checked)
    for number in range(20):
        subject = Subject("Job", f"{'n' * 61}{number:02}", "u" * 36, number)
        tally.add(
            Judged(
                "s" * 63,
                subject,
                tuple(Finding(one.name, True, "deny", ("f" * 200,) * 20) for one in checked.rules[:-2]),
            )
        )
        tally.add(Judged("s" * 63, subject, (Finding("last", None, "deny"),)))

    found = report(tally.namespaces()[0], checked, WGPOLICY)

    assert len(found["results"]) == MOST_RESULTS
    assert len(json.dumps(found, ensure_ascii=False).encode()) < LARGEST_OBJECT
    assert found["results"][-1] == {
        "source": "batchgate",
        "policy": "batchgate-policies",
        "category": "Job routing",
        "result": "skip",
        "message": f"2 more results are left out: a report holds {MOST_RESULTS}.",
    }
    assert found["summary"] == {"pass": 0, "fail": 0, "warn": MOST_RESULTS - 2, "error": 1, "skip": 1}


# --- what is written --------------------------------------------------------------------------------------------


def wanted(namespace: str = "lab", form: Form = WGPOLICY) -> Json:
    tally = AuditTally(CHECKED)
    tally.add(Judged(namespace, JOB, (Finding("vast", True, "deny"),)))
    return report(tally.namespaces()[0], CHECKED, form)


def stored(one: Json, **changed: Any) -> Json:
    """As a list of the API server has it: with metadata that it adds, without kind and version."""
    metadata = {"uid": "u", "resourceVersion": "7", **one["metadata"]}
    labels = {**metadata["labels"], "team": "a"}
    return {
        **{key: one[key] for key in one if key not in {"kind", "apiVersion"}},
        "metadata": metadata | {"labels": labels},
        **changed,
    }


FOREIGN = stored(wanted(), metadata={"name": "batchgate-audit", "namespace": "lab", "uid": "u"})
OLD_POLICY = {**stored(wanted())["metadata"], "annotations": {"batchgate.dev/policy": "older"}}
PLANS = [
    ("missing", {WGPOLICY: []}, Plan((wanted(),), (), 0, ())),
    ("as it should be", {WGPOLICY: [stored(wanted())]}, Plan((), (), 1, ())),
    ("of other results", {WGPOLICY: [stored(wanted(), results=[])]}, Plan((wanted(),), (), 0, ())),
    ("of another policy", {WGPOLICY: [stored(wanted(), metadata=OLD_POLICY)]}, Plan((wanted(),), (), 0, ())),
    ("with a field of somebody's", {WGPOLICY: [stored(wanted(), scopeSelector={})]}, Plan((), (), 1, ())),
    ("somebody else's", {WGPOLICY: [FOREIGN]}, Plan((), (), 0, ("lab",))),
    (
        "of a namespace without Jobs",
        {WGPOLICY: [stored(wanted()), stored(wanted("old"))]},
        Plan((), ((WGPOLICY, stored(wanted("old"))),), 1, ()),
    ),
    (
        "of another form",
        {WGPOLICY: [], OPENREPORTS: [stored(wanted(form=OPENREPORTS))]},
        Plan((wanted(),), ((OPENREPORTS, stored(wanted(form=OPENREPORTS))),), 0, ()),
    ),
    ("somebody else's of another form", {WGPOLICY: [], OPENREPORTS: [FOREIGN]}, Plan((wanted(),), (), 0, ())),
]


@pytest.mark.parametrize(("found", "expected"), [one[1:] for one in PLANS], ids=[one[0] for one in PLANS])
def test_only_what_differs_is_written_and_only_ours_is_deleted(found: dict[Form, list[Json]], expected: Plan) -> None:
    assert plan([wanted()], WGPOLICY, found) == expected
