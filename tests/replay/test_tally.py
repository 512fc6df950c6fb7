"""Groups of changes, hours, missing facts and kinds, from whole decisions by two policies."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import policy
from router.policy.decision import QueueState, QueueStates, Requester
from router.replay.borders import Border, borders
from router.replay.cases import Case
from router.replay.changes import Kind, change
from router.replay.outcomes import Outcome
from router.replay.plots import bars, sizes
from router.replay.tally import Hours, Tally, hours_of
from router.workload import workload_of
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.model import Figure, Workload

SITE = """
sites:
  - name: hpc
    system: slurm
    host: ssh://login
    access: own-keys
    knownHosts: /etc/batchgate/known_hosts
    keys: /etc/batchgate/keys
    workDir: /scratch/{user}
    queues:
      - {name: batch, nodes: 4, cpusPerNode: 64, memoryPerNode: 1Ti, walltimeDefault: 1h, walltimeMax: 72h}
      - {name: fast, nodes: 4, cpusPerNode: 64, memoryPerNode: 1Ti, walltimeMax: 72h}
accounts:
"""
ADA, LAB = "  - {users: [ada], as: ada}\n", "  - {users: [ada], as: lab, account: x}\n"
BATCH = "  - {name: all, when: job.cpus >= 1, hpc: [{queue: batch}]}\n"
NODES = "  - {name: idle, when: \"queues['fast'].freeNodes > 0\", hpc: [{queue: fast}]}\n"
LABEL = "  - {name: tier, when: \"'tier' in request.namespaceLabels\", cloud: true}\n"
NIGHT = "  - {name: night, when: request.time.getHours() < 6, hpc: [{queue: fast}]}\n"


def checked(rules: str = BATCH, accounts: str = ADA) -> policy.Policy:
    return policy.load({"all.yaml": f"{SITE}{accounts}rules:\n{rules}  - {{name: rest, cloud: true}}\n"})


def workload(**spec: object) -> Workload:
    container = {"name": "c", "image": "i", "command": ["x"], "resources": {"requests": {"cpu": "4"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}, **spec},
    }
    return workload_of(job, namespace="default", cluster=UNKNOWN_CLUSTER, gpu_resources={})


def case(found: Workload | None = None, **fields: object) -> Case:
    values: dict[str, object] = {
        "name": "default/j",
        "requester": Requester("ada", (), "default", {}, 1_772_366_400.0),
        "workload": found or workload(activeDeadlineSeconds=7200),
        "states": QueueStates(),
        "place": "log:1",
    }
    return Case(**{**values, **fields})  # type: ignore[arg-type]


def outcome(**fields: str) -> Outcome:
    return Outcome(**{"target": "hpc", "rule": "r", "place": "", "reason": "", "queue": "a/b", **fields})  # type: ignore[arg-type]


KINDS = [
    ({}, {}, Kind.NONE, "a/b"),
    ({"target": "cloud", "queue": ""}, {}, Kind.TARGET, "cloud to a/b"),
    ({}, {"target": "deny", "queue": ""}, Kind.DENIED, "a/b to deny"),
    ({"target": "deny", "queue": ""}, {}, Kind.TARGET, "deny to a/b"),
    ({}, {"queue": "a/c", "rule": "s"}, Kind.QUEUE, "a/b to a/c"),
    ({"account": "x"}, {"account": "y", "resources": "z"}, Kind.ACCOUNT, "a/b as x to a/b as y"),
    ({"resources": "x"}, {"resources": "y", "rule": "s"}, Kind.RESOURCES, "a/b"),
    ({}, {"rule": "s"}, Kind.RULE, "a/b"),
    (
        {"target": "cloud", "queue": ""},
        {"target": "cloud", "queue": "", "perhaps": "a/b"},
        Kind.TARGET,
        "cloud to a/b or cloud",
    ),
    (
        {"target": "cloud", "queue": "", "perhaps": "a/b"},
        {"target": "deny", "queue": "", "perhaps": "a/b"},
        Kind.DENIED,
        "a/b or cloud to a/b or deny",
    ),
    (
        {"target": "deny", "queue": "", "perhaps": "a/b"},
        {"target": "deny", "queue": ""},
        Kind.TARGET,
        "a/b or deny to deny",
    ),
    (
        {"target": "cloud", "queue": "", "perhaps": "a/b"},
        {"target": "cloud", "queue": "", "perhaps": "a/c", "rule": "s"},
        Kind.QUEUE,
        "a/b or cloud to a/c or cloud",
    ),
    (
        {"target": "cloud", "queue": "", "perhaps": "a/b"},
        {"target": "cloud", "queue": "", "perhaps": "a/b", "rule": "s"},
        Kind.RULE,
        "a/b or cloud",
    ),
]


@pytest.mark.parametrize(("before", "after", "kind", "words"), KINDS)
def test_a_change_is_of_the_first_kind_that_fits(
    before: dict[str, str], after: dict[str, str], kind: Kind, words: str
) -> None:
    found = change(outcome(**before), outcome(**after))

    assert (found.kind, found.words) == (kind, words)


def test_another_script_counts_only_where_nothing_else_changes() -> None:
    assert change(outcome(), outcome(rule="s"), "+x").kind is Kind.SCRIPT
    assert change(outcome(), outcome(queue="a/c"), "+x").kind is Kind.QUEUE


HOURS = [
    ({"activeDeadlineSeconds": 7200}, Hours(cores=8)),
    ({"activeDeadlineSeconds": 3600, "completions": 10, "parallelism": 2}, Hours(cores=40)),
    ({"activeDeadlineSeconds": 3600, "parallelism": 3}, Hours(cores=12)),
    ({"completions": 10}, Hours(unsized=1)),
]


@pytest.mark.parametrize(("spec", "hours"), HOURS)
def test_hours_are_those_that_a_job_asks_for(spec: dict[str, object], hours: Hours) -> None:
    assert hours_of(workload(**spec)) == hours


def test_hours_of_gpus_are_those_of_all_pods() -> None:
    asked = dataclasses.replace(workload(activeDeadlineSeconds=1800, completions=4), gpus=Figure(2, "x"))

    assert hours_of(asked) == Hours(cores=8, gpus=4)


UNKNOWN_STATE = QueueState("hpc", "fast")
MISSING = [
    (BATCH, {}, ()),
    (NODES + BATCH, {}, ("queues['fast'].freeNodes",)),
    (NODES + BATCH, {"states": QueueStates({("hpc", "fast"): UNKNOWN_STATE})}, ("queues['fast'].freeNodes",)),
    (NODES + BATCH, {"states": QueueStates({("hpc", "fast"): QueueState("hpc", "fast", free_nodes=0)})}, ()),
    (BATCH + NODES, {}, ()),  # it is not looked at
    (LABEL + BATCH, {"requester": Requester("ada", (), "default", None, 0.0)}, ("request.namespaceLabels",)),
    (LABEL + BATCH, {}, ()),
    (NIGHT + BATCH, {"requester": Requester("ada", (), "default", {}, None)}, ("request.time",)),
    (BATCH, {"unknown": frozenset({"request.user", "request.groups"})}, ("request.user",)),
]


@pytest.mark.parametrize(("rules", "fields", "missing"), MISSING)
def test_facts_that_a_decision_lacks_are_those_that_it_reads(
    rules: str, fields: dict[str, object], missing: tuple[str, ...]
) -> None:
    tally = Tally(checked(rules), checked(rules))
    tally.add(case(**fields))  # type: ignore[arg-type]

    assert tuple(tally.report().missing) == missing


NOBODY = Requester("", (), "default", {}, 0.0)
WHO = frozenset({"request.user", "request.groups"})
LARGER = BATCH.replace("cpus >= 1", "cpus >= 8")
PERHAPS = [
    (ADA, NOBODY, WHO, "hpc/batch"),
    (ADA, Requester("ben", (), "default", {}, 0.0), frozenset({"request.groups"}), ""),
    ("  - {groups: [lab], as: lab}\n", Requester("ben", (), "default", {}, 0.0), frozenset({"request.groups"}), "hpc/batch"),
    ("  - {serviceAccounts: [default/a], as: lab, shared: true}\n", NOBODY, WHO, "hpc/batch"),
    ("  - {users: [ada], namespaces: [lab], as: ada}\n", NOBODY, WHO, ""),
    ("  - {users: [ada], controller: true}\n  - {namespaces: [lab], as: lab, shared: true}\n", NOBODY, WHO, ""),
]  # fmt: skip


@pytest.mark.parametrize(("accounts", "requester", "unknown", "queue"), PERHAPS)
def test_where_a_job_of_an_unknown_maker_may_go_is_told(
    accounts: str, requester: Requester, unknown: frozenset[str], queue: str
) -> None:
    tally = Tally(checked(LARGER, accounts), checked(BATCH, accounts))
    tally.add(case(requester=requester, unknown=unknown))

    (group,) = tally.report().groups
    kind, words = (Kind.TARGET, f"cloud to {queue} or cloud") if queue else (Kind.RULE, "cloud")
    assert (group.change.kind, group.change.words) == (kind, words)


def test_a_job_that_something_else_keeps_in_the_cloud_stays_whoever_made_it() -> None:
    kept = workload(managedBy="example.org/other")
    tally = Tally(checked(LARGER), checked())
    tally.add(case(kept, requester=NOBODY, unknown=WHO))

    (group,) = tally.report().groups
    assert (group.change.kind, group.change.words, group.missing) == (Kind.RULE, "cloud", {"request.user": 1})


def test_decisions_that_stay_as_far_as_is_known_are_counted() -> None:
    """The rule is the same, and who made the Job may have an account by one policy alone."""
    other = ADA.replace("ada", "ben")
    tally, same, known = Tally(checked(), checked(accounts=other)), Tally(checked(), checked()), Tally(checked(), checked(accounts=other))  # fmt: skip
    for one in (tally, same):
        one.add(case(requester=NOBODY, unknown=WHO))
    known.add(case(requester=Requester("eve", (), "default", {}, 0.0)))

    assert [(one.report().changed, one.report().unsure) for one in (tally, same, known)] == [(0, 1), (0, 0), (0, 0)]


def test_another_account_is_a_change() -> None:
    tally = Tally(checked(), checked(accounts=LAB))
    tally.add(case())

    (group,) = tally.report().groups
    assert group.change.words == 'hpc/batch as {"user":"ada"} to hpc/batch as {"user":"lab","account":"x"}'
    assert (group.change.kind, group.jobs, group.hours, group.days, group.last) == (
        Kind.ACCOUNT, 1, Hours(cores=8), 1, 1_772_366_400.0,
    )  # fmt: skip


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ada", "bob"]), st.integers(1, 20), st.booleans()), max_size=12))
def test_each_job_is_counted_once_on_each_side_and_in_one_group(found: list[tuple[str, int, bool]]) -> None:
    rules = "  - {name: large, when: job.cpus >= 8, hpc: [{queue: batch}]}\n"
    tally = Tally(checked(), checked(rules))
    for user, cores, timed in found:
        sized = workload(activeDeadlineSeconds=3600) if timed else workload()
        asked = dataclasses.replace(sized, cpu=Figure(cores * 1000, "x"), requests=dataclasses.replace(sized.requests, cpu=Figure(cores * 1000, "x")))  # fmt: skip
        tally.add(case(asked, requester=Requester(user, (), "default", {}, 0.0)))
    report = tally.report()

    moved = [cores for user, cores, _ in found if user == "ada" and cores < 8]
    others = [cores for user, cores, _ in found if user == "bob" and cores < 8]
    larger = [cores for _, cores, _ in found if cores >= 8]  # to the same place by another rule
    assert sum(report.old.destinations.values()) == sum(report.new.destinations.values()) == report.judged == len(found)
    assert {group.change.kind: 0 for group in report.groups} == {
        **({Kind.TARGET: 0} if moved else {}),
        **({Kind.RULE: 0} if others or larger else {}),
    }
    assert report.changed == len(found)
    cores = sum(cores for _, cores, timed in found if timed)
    for side in (report.old, report.new):
        assert round(sum(hours.cores for hours in side.hours.values())) == cores
    assert len(bars(report)) == len({*report.old.destinations, *report.new.destinations})
    plot = sizes(report, checked(), checked(rules))
    assert (plot is None) == (not any(timed for _, _, timed in found))


BORDERS = [
    ("job.cpus >= 8", [("cpus", 8, "cpus >= 8")]),
    ("8 < job.cpus && job.mpi", [("cpus", 8, "8 < cpus")]),
    (
        "job.walltime > seconds('2h') || !(job.cpus == 3)",
        [("walltime", 7200, "walltime > 2h"), ("cpus", 3, "cpus == 3")],
    ),
    ("has(job.walltime) && job.walltime <= 90", [("walltime", 90, "walltime <= 1m30s")]),
    ("job.totalCpus > 64", [("totalCpus", 64, "totalCpus > 64")]),
    ("job.memory > quantity('1Gi') || job.cpus > 0", []),
]


@pytest.mark.parametrize(("when", "found"), BORDERS)
def test_borders_are_the_numbers_that_sizes_are_compared_with(when: str, found: list[tuple[str, int, str]]) -> None:
    rules = f'  - {{name: r, when: "{when}", cloud: true}}\n'

    assert borders(checked(rules)) == tuple(Border("r", *one) for one in found)
