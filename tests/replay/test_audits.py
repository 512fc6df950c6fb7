"""What audit rules find about Jobs, counted by namespace and rule."""

from __future__ import annotations

import json

import pytest

from router import policy
from router.replay.audits import MOST_NAMED, AuditTally, Finding, Judged, Subject, audit_rules, judged
from router.replay.cases import Case, StatesOfLog, from_line
from tests.cli.test_policydiff import lines
from tests.policies import LARGE_GO_TO_HPC

RULES = """
rules:
  - {name: vast, when: job.cpus > 4, deny: too many cores, mode: audit}
  - {name: labelled, when: "job.labels['team'] == 'a'", cloud: true, mode: audit}
  - {name: waits, when: job.cpus == 3, cloud: true}
  - {name: busy, when: "queues['batch'].freeNodes > 2", hpc: [{queue: batch}], mode: audit}
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}], ifNotRoutable: deny, mode: audit}
  - {name: rest, cloud: true}
"""
SITES = LARGE_GO_TO_HPC.partition("rules:")[0].rstrip()
CHECKED = policy.load({"all.yaml": SITES + RULES})
DECIDES = """
rules:
  - {name: busy, when: "queues['batch'].freeNodes > 2", hpc: [{queue: batch}]}
  - {name: vast, when: job.cpus > 4, deny: too many cores, mode: audit}
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}], mode: audit}
  - {name: rest, cloud: true}
"""
FREE = "queues['batch'].freeNodes"
FAILED = Finding("labelled", None, "cloud")


def case(cores: int, user: str = "ada", *, free_nodes: int | None = 1, unknown: frozenset[str] = frozenset()) -> Case:
    found = from_line(lines((cores, user, 0), free_nodes=free_nodes), "log:1", StatesOfLog())
    assert isinstance(found, Case)
    found.unknown = unknown  # type: ignore[misc]  # as a Job in a cluster has it
    return found


@pytest.mark.parametrize(
    ("given", "findings"),
    [
        (case(1), (FAILED,)),
        (case(2), (FAILED, Finding("large", True, "hpc"))),
        (case(2, "eve"), (FAILED, Finding("large", True, "deny"))),
        (case(2, free_nodes=3), (FAILED, Finding("busy", True, "hpc"), Finding("large", True, "hpc"))),
        (case(6), (Finding("vast", True, "deny"), FAILED, Finding("large", True, "hpc"))),
        # Behind the rule that decides, no rule is looked at.
        (case(3, free_nodes=3), (FAILED,)),
        # What the rule itself reads is unknown. Those behind it do not rest on that, as an audit rule decides nothing.
        (case(1, free_nodes=None), (FAILED, Finding("busy", False, "", (FREE,)))),
        (case(2, free_nodes=None), (FAILED, Finding("busy", False, "", (FREE,)), Finding("large", True, "hpc"))),
        (case(3, free_nodes=None), (FAILED,)),
        # As whom it would run is unknown.
        (
            case(2, unknown=frozenset({"request.user"})),
            (FAILED, Finding("large", True, "hpc", ("request.user",))),
        ),
    ],
)  # fmt: skip
def test_what_is_found_about_a_job(given: Case, findings: tuple[Finding, ...]) -> None:
    assert judged(CHECKED, given, Subject("Job", "j")).findings == findings


@pytest.mark.parametrize(
    ("free_nodes", "findings"),
    [
        # The first one's own condition is known not to hold.
        (None, (Finding("large", True, "hpc", (FREE,)),)),
        (3, ()),
        (1, (Finding("large", True, "hpc"),)),
    ],
)
def test_a_rule_that_decides_makes_those_behind_it_rest_on_what_it_reads(
    free_nodes: int | None, findings: tuple[Finding, ...]
) -> None:
    checked = policy.load({"all.yaml": SITES + DECIDES})

    assert judged(checked, case(2, free_nodes=free_nodes), Subject("Job", "j")).findings == findings


def test_a_job_of_another_controller_is_not_judged() -> None:
    text = json.loads(lines((6, "ada", 0)))
    text["workload"]["managed_by"] = "kueue.x-k8s.io/multikueue"
    found = from_line(json.dumps(text), "log:1", StatesOfLog())
    assert isinstance(found, Case)
    left = policy.load({"all.yaml": f"controllers: [{{managedBy: kueue.x-k8s.io/multikueue}}]\n{LARGE_GO_TO_HPC}"})

    assert judged(left, found, Subject("Job", "j")).findings == ()


def test_jobs_are_counted_by_namespace_and_rule_and_the_newest_are_named() -> None:
    tally = AuditTally(CHECKED)
    for number in range(30):
        subject = Subject("Job", f"j{number}", f"u{number}", 1000 + number)
        unsure = Finding("busy", False, "", (FREE,))
        tally.add(Judged("lab", subject, (Finding("vast", True, "deny"), FAILED, unsure)))
    tally.add(Judged("lab", Subject("Job", "", "", 2000), (Finding("vast", True, "deny"),)))
    tally.add(Judged("lab", Subject("CronJob", "c", "", 1029), (Finding("large", True, "hpc", ("request.user",)),)))
    tally.add(Judged("lab", Subject("Job", "d", "", 1029), (Finding("large", True, "cloud", ("a fact",)),)))
    tally.add(Judged("a", Subject("Job", "j"), ()))

    other, lab = tally.namespaces()

    newest = tuple(
        Subject("Job", f"j{number}", f"u{number}", 1000 + number) for number in range(29, 29 - MOST_NAMED, -1)
    )
    assert (other.namespace, other.jobs, other.newest) == ("a", 1, 0)
    assert [one.rule for one in other.rules] == list(audit_rules(CHECKED))
    assert {(one.held, one.failed, one.uncertain) for one in other.rules} == {(0, 0, 0)}
    assert (lab.namespace, lab.jobs, lab.newest) == ("lab", 33, 2000)
    assert [
        (one.rule.name, one.targets, one.failed, one.uncertain, one.unknown, one.newest, one.newest_failed)
        for one in lab.rules
    ] == [
        ("vast", (("deny", 31),), 0, 0, (), newest, ()),
        ("labelled", (), 30, 0, (), (), newest),
        ("busy", (), 0, 30, (FREE,), (), ()),
        (
            "large",
            (("cloud", 1), ("hpc", 1)),
            0,
            2,
            ("a fact", "request.user"),
            (Subject("CronJob", "c", "", 1029), Subject("Job", "d", "", 1029)),
            (),
        ),
    ]  # fmt: skip
