from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import names, policy, script
from router.errors import JobError
from router.policy.deciding import first_to_hold
from router.policy.decision import Considered, QueueState, QueueStates, Requester
from router.policy.model import Policy
from router.workload import workload_of
from router.workload.model import Workload
from tests.policy.given import ADA, SITES, UNHURRIED, job, loaded, workload

LARGE = {"cpu": "6", "memory": "4Gi"}
STRANGER = Requester("eve", (), "lab")

TWO = SITES.replace("name: small", "name: big2").replace("nodes: 1, cpusPerNode: 4", "nodes: 1, cpusPerNode: 8")


def states(**up: bool | None) -> QueueStates:
    sites = {"small": "pbs", "big": "pbs", "gpu": "gpus"}
    return QueueStates(
        {(sites[queue], queue): QueueState(sites[queue], queue, up=value) for queue, value in up.items()}
    )


def rule(text: str) -> str:
    return f"  - {{name: r, {text}}}\n"


# what is decided: rules, what the Job asks for, and (target, rule, the reason or its start)
DECIDED = [
    ("", None, ("cloud", "rest", "rule rest keeps it in the cloud: it asks for nothing")),
    ("", {"cpu": "500m"}, ("cloud", "rest", "rule rest keeps it in the cloud: it asks for 500m cores")),
    (
        rule("when: job.cpus > 4, deny: no more than 4 cores"),
        LARGE,
        ("deny", "r", "no more than 4 cores"),
    ),
    (rule("when: job.cpus > 8, deny: never"), LARGE, ("cloud", "rest", "rule rest keeps it in the cloud: it asks for 6 cores")),
    (
        rule("when: job.cpus > 4, hpc: [{queue: big}]"),
        LARGE,
        (
            "hpc",
            "r",
            "rule r sends it to queue big of site pbs, as ada: 1 node, 6 cores, 4Gi for 1h",
        ),
    ),
    (
        rule("when: job.cpus > 4, hpc: [{queue: small}, {queue: big}]"),
        LARGE,
        ("hpc", "r", "rule r sends it to queue big of site pbs, as ada: 1 node, 6 cores, 4Gi for 1h (queue small of site pbs: it asks for 6"),
    ),
    (
        rule("when: job.cpus > 1, hpc: [{queue: small}]"),
        LARGE,
        ("cloud", "r", "rule r would send it to HPC, but it cannot go there: queue small of site pbs: it asks for 6"),
    ),
    (
        rule("when: job.cpus > 1, hpc: [{queue: small}], ifNotRoutable: deny"),
        LARGE,
        ("deny", "r", "rule r allows it only on HPC, but it cannot go there: queue small of site pbs: it asks for 6"),
    ),
    (
        rule("when: \"job.labels['a'] == 'b'\", hpc: [{queue: big}]"),
        LARGE,
        ("cloud", "r", 'the condition of rule r cannot be evaluated for this Job: Key not found in map : "a"'),
    ),
    (
        rule("when: \"job.labels['a'] == 'b'\", deny: stop"),
        LARGE,
        ("deny", "r", 'the condition of rule r cannot be evaluated for this Job: Key not found in map : "a"; the rule denies'),
    ),
    (
        rule("when: \"job.labels['a'] == 'b'\", mode: audit, deny: stop"),
        LARGE,
        ("cloud", "rest", "rule rest keeps it in the cloud: it asks for 6 cores"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "requests", "expected"), DECIDED)
def test_decisions(rules: str, requests: dict[str, str] | None, expected: tuple[str, str, str]) -> None:
    decision = policy.decide(loaded(rules), workload(requests), ADA)

    assert (decision.target, decision.rule, decision.reason[: len(expected[2])]) == expected
    assert (decision.route is not None) == (decision.target == "hpc")


def bursting(memory: tuple[str, str] = ("5Gi", "60Gi"), cpu: tuple[str, str] = ("1", "4"), **spec: Any) -> Workload:
    """A Job whose limits are above its requests."""
    manifest: Any = job({"memory": memory[0], "cpu": cpu[0]}, **spec)
    manifest["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] = {"memory": memory[1], "cpu": cpu[1]}
    return workload_of(manifest, namespace="lab")


BIG = "rule r sends it to queue big of site pbs, as ada"
COUNTED = [
    (
        rule("when: \"job.memory == quantity('20Gi') && job.cpus == 1\", hpc: [{queue: big}]"),
        f"{BIG}: 1 node, 1 core (the limit is 4), 20Gi (the request is 5Gi) for 1h",
    ),
    (
        rule(
            "when: \"job.memory == quantity('5Gi') && job.cpus == 4\", hpc: [{queue: big}], "
            "figures: {memory: requests, cpus: limits}"
        ),
        f"{BIG}: 1 node, 4 cores (the request is 1), 5Gi (the limit is 20Gi) for 1h",
    ),
    (
        # Each rule sees its own figures, whatever those of the rule before it are.
        "  - {name: q, when: \"job.memory > quantity('5Gi')\", figures: {memory: requests}, deny: too large}\n"
        + rule("when: \"job.memory > quantity('5Gi')\", hpc: [{queue: big}]"),
        f"{BIG}: 1 node, 1 core (the limit is 4), 20Gi (the request is 5Gi) for 1h",
    ),
    (
        rule("when: job.pods == 1, figures: {memory: requests}, cloud: true"),
        "rule r keeps it in the cloud: job.pods == 1, with job.pods = 1",
    ),
    (
        rule("when: job.pods == 1, hpc: [{queue: small}]"),
        (
            "rule r would send it to HPC, but it cannot go there: queue small of site pbs: it asks for 20Gi of memory "
            "(the request is 5Gi, for which the rule's key figures: {memory: requests} would ask); a node has 8Gi"
        ),
    ),
]


@pytest.mark.parametrize(("rules", "reason"), COUNTED)
def test_memory_counts_by_limits_and_cores_by_requests_unless_the_rule_says_otherwise(rules: str, reason: str) -> None:
    assert policy.decide(loaded(rules), bursting(("5Gi", "20Gi")), ADA).reason == reason


def test_rules_count_as_rule_defaults_say_unless_they_say_otherwise() -> None:
    defaults = {"d.yaml": "ruleDefaults: {figures: {memory: requests, cpus: limits}}\n"}
    text = "when: job.pods == 1, hpc: [{queue: big}]"

    reasons = [
        policy.decide(loaded(rule(f"{text}{own}"), more=defaults), bursting(("5Gi", "20Gi")), ADA).reason
        for own in ("", ", figures: {cpus: requests}", ", figures: {memory: limits}")
    ]

    assert reasons == [
        f"{BIG}: 1 node, 4 cores (the request is 1), 5Gi (the limit is 20Gi) for 1h",
        f"{BIG}: 1 node, 1 core (the limit is 4), 5Gi (the limit is 20Gi) for 1h",
        f"{BIG}: 1 node, 4 cores (the request is 1), 20Gi (the request is 5Gi) for 1h",
    ]


def test_a_rule_that_failed_by_its_queues_is_tried_with_its_own_figures() -> None:
    rules = (
        "  - {name: q, when: \"job.memory < quantity('6Gi') && queues['big'].freeNodes > 1\", "
        "figures: {memory: requests}, hpc: [{queue: big}]}\n"
    )
    busy = QueueStates({("pbs", "big"): QueueState("pbs", "big", up=True, free_nodes=0)})
    decision = policy.decide(loaded(rules), bursting(), ADA, busy)

    assert decision.reason.endswith("; the rules saw queues['big'].freeNodes = 0")


PODS: list[tuple[dict[str, Any], str]] = [
    ({}, "1 node"),
    ({"completions": 1000, "parallelism": 50}, "each of 1,000 Pods (50 at once): 1 node"),
    ({"completions": 4, "parallelism": 9}, "each of 4 Pods: 1 node"),
    ({"parallelism": 3}, "each of 3 Pods: 1 node"),
    ({"completions": 1, "parallelism": 5}, "1 node"),
]


@pytest.mark.parametrize(("spec", "figures"), PODS)
def test_figures_of_one_pod_say_how_many_there_are(spec: dict[str, Any], figures: str) -> None:
    decision = policy.decide(
        loaded(rule("when: job.pods < 99, hpc: [{queue: big}]")), workload({"cpu": "1"}, **spec), ADA
    )

    assert decision.reason == f"{BIG}: {figures}, 1 core for 1h"


def test_everything_in_the_way_is_told_at_once() -> None:
    """Of all layers: a user who mends one thing does not meet the next one afterwards."""
    manifest: Any = job({"cpu": "9", "memory": "64Gi", "nvidia.com/gpu": "1"}, annotations=hint(walltime="48h"))
    manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "team"
    pod = manifest["spec"]["template"]["spec"]
    pod["hostPID"] = True
    pod["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]
    checked = loaded(rule("when: job.cpus > 4, hpc: [{queue: small}, {queue: big}], forbidHints: [walltime]"))

    decision = policy.decide(checked, workload_of(manifest, namespace="lab"), STRANGER, states(small=True, big=False))

    spans = (
        "only MPI programs span nodes: the hint batchgate.dev/ranks, impliesMpi of the MPI profile or mpi: true of the "
        "rule says that it is one"
    )
    small, big = "queue small of site pbs", "queue big of site pbs"
    gpu = "it asks for 1 GPU; a node has 0 (asked for: spec.template.spec.containers[0].resources.requests[nvidia.com/gpu])"
    time = "it asks for 2d and 30s of grace; the longest walltime"
    assert decision.in_the_way == (
        "spec.template.spec.hostPID: sees the processes of the node",
        "metadata.annotations[batchgate.dev/walltime]: rule r forbids this hint; remove it",
        "metadata.labels[kueue.x-k8s.io/queue-name]: it waits in Kueue's queue team, and rule r lacks kueue: true",
        "spec.template.spec.volumes[0].secret: needs Secret s, and secrets of site pbs is cloud; its admin could set stage",
        f"{small}: it asks for 9 CPUs, and a node has 4; {spans}; it asks for 64Gi of memory; a node has 8Gi; {gpu}; {time} is 1h: ask for at most 59m30s",
        f"{small}, {big}: no account at site pbs is for user eve in namespace lab",
        f"{big}: it asks for 9 CPUs, and a node has 8; {spans}; it asks for 64Gi of memory; a node has 32Gi; {gpu}; {time} is 1d: ask for at most 23h59m30s",
        f"{big}: the queue is closed, down, or not in the batch system",
    )
    assert decision.reason.endswith(f"it cannot go there: {'; '.join(decision.in_the_way)}")


GROUNDS = [
    ("queues['big'].waitSeconds > 3600", "queues['big'].waitSeconds > 3600, with queues['big'].waitSeconds = 7200 (2h)"),
    ("job.cpus > 4 &&  !job.mpi", "job.cpus > 4 && !job.mpi, with job.cpus = 6, job.mpi = false"),
    ("'big' in queues", "'big' in queues, with queues['pbs/small'].up = unset, queues['pbs/big'].up = true, queues['gpus/gpu'].up = unset"),
]  # fmt: skip


@pytest.mark.parametrize(("when", "grounds"), GROUNDS)
def test_why_a_rule_keeps_a_job_is_told(when: str, grounds: str) -> None:
    busy = QueueStates({("pbs", "big"): QueueState("pbs", "big", up=True, wait_seconds=7200)})
    decision = policy.decide(loaded(rule(f'when: "{when}", cloud: true')), workload({"cpu": "6"}), ADA, busy)

    assert decision.reason == f"rule r keeps it in the cloud: {grounds}"


SENT = "rule r sends it to queue big of site pbs, as ada: 1 node, 6 cores, 4Gi for 1h"
KEPT = "rule rest keeps it in the cloud: it asks for 6 cores, 4Gi of memory"
SAW = [
    ("queues['big'].freeNodes > 1", "hpc: [{queue: big}]", f"{SENT}; the rules saw queues['big'].freeNodes = 3"),
    (
        "queues['big'].freeNodes > 9 || queues['big'].waitSeconds < 60 || queues['big'].freeNodes == 0",
        "hpc: [{queue: big}]",
        f"{KEPT}; the rules saw queues['big'].freeNodes = 3, queues['big'].waitSeconds = 7200 (2h)",
    ),
    (
        "queues['small'].queuedJobs > 0",
        "hpc: [{queue: small}]",
        f"{KEPT}; the rules saw queues['small'].queuedJobs = unset",
    ),
    ("job.mpi && queues['big'].freeNodes > 9", "hpc: [{queue: big}]", KEPT),
    ("queues['big'].waitSeconds > 60", "deny: not now", "not now"),
    ("queues['big'].nodes > 1", "hpc: [{queue: big}]", SENT),
]


@pytest.mark.parametrize(("when", "outcome", "reason"), SAW)
def test_which_figures_of_queues_were_seen_is_told(when: str, outcome: str, reason: str) -> None:
    """Also where a rule did not hold by them, and only there: what does not matter to a Job is not told.

    What is declared was not seen, and who denies says what is to be read.
    """
    busy = QueueStates({("pbs", "big"): QueueState("pbs", "big", up=True, free_nodes=3, wait_seconds=7200)})

    decision = policy.decide(loaded(rule(f'when: "{when}", {outcome}')), workload(LARGE), ADA, busy)

    assert decision.reason == reason


def test_grounds_are_not_told_without_end() -> None:
    labelled = "'team' in job.labels && job.labels['team'] != '" + "x" * 1000 + "'"
    decision = policy.decide(loaded(rule(f'when: "{labelled}", cloud: true')), workload({"cpu": "6"}), ADA)

    assert (len(decision.reason), decision.reason[-2:]) == (len("rule r keeps it in the cloud: ") + 500, "x…")


@pytest.mark.parametrize(("outcome", "warned"), [("hpc: [{queue: big}]", 0), ("cloud: true", 1), ("deny: stop", 0)])
def test_an_evaluation_error_is_told_once(outcome: str, warned: int) -> None:
    """In the reason, which is a warning where the Job was wanted or is denied; else in a warning of its own."""
    decision = policy.decide(loaded(rule(f"when: \"job.labels['a'] == 'b'\", {outcome}")), workload(LARGE), ADA)

    assert (decision.wanted, len(decision.warnings)) == (outcome.startswith("hpc"), warned)


def test_the_first_rule_that_holds_decides() -> None:
    rules = "".join(f"  - {{name: r{number}, when: job.cpus > {number}, deny: d{number}}}\n" for number in (9, 7, 5, 3))

    decision = policy.decide(loaded(rules), workload(LARGE), ADA)

    assert (decision.rule, decision.reason) == ("r5", "d5")


UP = [
    (states(), "small", ""),
    (states(small=None), "small", ", whose state is not known"),
    (states(small=True), "small", ""),
    (states(small=False), "big", ", whose state is not known"),
    (states(small=False, big=True), "big", ""),
]


@pytest.mark.parametrize(("known", "queue", "said"), UP)
def test_the_first_queue_that_is_up_and_fits(known: QueueStates, queue: str, said: str) -> None:
    rules = rule("when: job.cpus > 1, hpc: [{queue: small}, {queue: big}]")

    decision = policy.decide(loaded(rules), workload({"cpu": "2"}), ADA, known)

    assert decision.route is not None
    assert decision.route.queue.name == queue
    assert decision.reason.startswith(f"rule r sends it to queue {queue} of site pbs{said}, as ada: ")


def test_no_queue_is_up() -> None:
    decision = policy.decide(
        loaded(rule("when: job.cpus > 1, hpc: [{queue: small}, {queue: big}]")),
        workload({"cpu": "2"}),
        ADA,
        states(small=False, big=False),
    )

    assert decision.reason == (
        "rule r would send it to HPC, but it cannot go there: queue small of site pbs, queue big of site pbs: "
        "the queue is closed, down, or not in the batch system"
    )
    assert (decision.target, decision.wanted, decision.obstacles) == ("cloud", True, ())


def test_live_state_in_conditions() -> None:
    checked = loaded(rule("when: \"has(queues['big'].freeNodes) && queues['big'].freeNodes > 1\", hpc: [{queue: big}]"))

    def target(free: int | None) -> str:
        known = QueueStates({("pbs", "big"): QueueState("pbs", "big", up=True, free_nodes=free)})
        return policy.decide(checked, workload(LARGE), ADA, known).target

    assert [target(None), target(1), target(2)] == ["cloud", "cloud", "hpc"]
    assert policy.decide(checked, workload(LARGE), ADA).target == "cloud"


def test_without_an_account_nobody_gets_to_hpc() -> None:
    rules = rule("when: job.cpus > 4, hpc: [{queue: big}]")

    stays = policy.decide(loaded(rules), workload(LARGE), STRANGER)
    denied = policy.decide(loaded(rules.replace("}]", "}], ifNotRoutable: deny")), workload(LARGE), STRANGER)

    assert (stays.target, denied.target) == ("cloud", "deny")
    assert "queue big of site pbs: no account at site pbs is for user eve in namespace lab" in stays.reason


def test_the_route_holds_all_that_the_script_needs() -> None:
    checked = loaded(
        rule("when: job.cpus > 4, hpc: [{queue: big, maxNodes: 2, maxWalltime: 2h}], defaults: {walltime: 90m}")
    )

    route = policy.decide(checked, workload(LARGE), Requester("bo", ("physicists",), "lab")).route

    assert route is not None
    assert (route.site.name, route.queue.name, route.rule.name, route.profile) == ("pbs", "big", "r", None)
    assert (route.identity.user, route.identity.account, route.identity.project) == ("phys", "p1", "q1")
    assert (route.allocation.walltime, route.allocation.nodes) == (90 * 60, 1)


MPI = [
    ("mpirun", "solver:1", "", "ompi"),
    ("tool", "solver:1", "", None),
    ("mpirun", "other:1", "", "rest"),
    ("tool", "auto:1", "", "auto"),
]


@pytest.mark.parametrize(("program", "image", "_", "profile"), MPI)
def test_the_profile_is_the_first_that_matches_the_image(program: str, image: str, _: str, profile: str | None) -> None:
    sites = """
sites:
  - name: pbs
    system: openpbs
    workDir: /w
    queues: [{name: big, nodes: 4, cpusPerNode: 8}]
    mpi:
      - {name: ompi, launcher: openmpi, images: ['solver:*']}
      - {name: auto, launcher: hydra, images: ['auto:*'], impliesMpi: true}
      - {name: rest, launcher: openmpi}
"""
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": image, "command": [program, "-n", "2", "a"]}],
                }
            }
        },
    }
    checked = loaded(rule("when: job.pods == 1, hpc: [{queue: big}]"), sites=sites)

    route = policy.decide(checked, workload_of(job, namespace="lab"), ADA).route

    assert route is not None
    assert (route.profile.name if route.profile else None) == profile


@pytest.mark.parametrize(("mpi", "ranks"), [("", 0), (", mpi: true", 16)])
def test_a_rule_may_say_that_its_jobs_are_mpi_programs(mpi: str, ranks: int) -> None:
    sites = """
sites:
  - name: pbs
    system: openpbs
    workDir: /w
    queues: [{name: big, nodes: 4, cpusPerNode: 8}]
    mpi: [{name: ompi, launcher: openmpi, images: ['solver:*']}]
"""
    text = f"when: job.cpus > 4, hpc: [{{queue: big}}]{mpi}"

    found = policy.decide(loaded(rule(text), sites=sites), mpi_script("solver:1"), ADA)
    other = policy.decide(loaded(rule(text), sites=sites), mpi_script("other:1"), ADA)

    assert (found.route.allocation.ranks if found.route else 0) == ranks
    assert (found.route is not None, other.route) == (bool(mpi), None)
    assert (
        "the rule says that it is an MPI program (mpi), and site pbs has no MPI profile for it" in other.reason
    ) is bool(mpi)


def mpi_script(image: str) -> Workload:
    """A Job of 16 CPUs whose script is out of sight."""
    main = {"name": "c", "image": image, "command": ["bash", "/cfg/run.sh"], "resources": {"requests": {"cpu": "16"}}}
    pod = {"restartPolicy": "Never", "containers": [main]}
    return workload_of({"metadata": {"name": "j"}, "spec": {"template": {"spec": pod}}}, namespace="lab")


def hint(**values: str) -> dict[str, str]:
    return {f"{names.PREFIX}{key.replace('_', '-')}": value for key, value in values.items()}


def test_the_hint_cloud_keeps_a_job_in_the_cloud() -> None:
    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: big}]")), workload(LARGE, annotations=hint(route="cloud")), ADA
    )

    assert (decision.target, decision.rule, decision.wanted) == ("cloud", "r", False)
    assert decision.reason == "its hint batchgate.dev/route: cloud keeps it in the cloud; rule r would have sent it"


def test_the_hint_cloud_may_be_forbidden() -> None:
    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: big}], forbidHints: [route]")),
        workload(LARGE, annotations=hint(route="cloud")),
        ADA,
    )

    assert (decision.target, decision.refused_hints) == ("hpc", ("route",))


def test_the_hint_cloud_saves_nobody_from_a_denial() -> None:
    checked = loaded(rule("when: job.cpus > 4, deny: stop"))

    assert policy.decide(checked, workload(LARGE, annotations=hint(route="cloud")), ADA).target == "deny"


def test_a_forbidden_figure_is_refused_and_never_dropped() -> None:
    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: big}], forbidHints: [walltime, nodes]")),
        workload(LARGE, annotations=hint(walltime="2h")),
        ADA,
    )

    assert (decision.target, decision.wanted, decision.refused_hints) == ("cloud", True, ("walltime",))
    assert decision.reason == (
        "rule r would send it to HPC, but it cannot go there: metadata.annotations[batchgate.dev/walltime]: "
        "rule r forbids this hint; remove it"
    )


def test_a_job_of_kueue_stays_unless_the_rule_names_them() -> None:
    waiting = dataclasses.replace(workload(LARGE), kueue_queue="team")
    text = "when: job.cpus > 4, hpc: [{queue: big}]"
    default = {"d.yaml": "ruleDefaults: {kueue: true}\n"}

    stays = [
        policy.decide(loaded(rule(text)), waiting, ADA),
        policy.decide(loaded(rule(f"{text}, kueue: false"), more=default), waiting, ADA),
    ]
    goes = [
        policy.decide(loaded(rule(f"{text}, kueue: true")), waiting, ADA),
        policy.decide(loaded(rule(text), more=default), waiting, ADA),
    ]

    assert [one.target for one in (*stays, *goes)] == ["cloud", "cloud", "hpc", "hpc"]
    assert {one.reason for one in stays} == {
        (
            "rule r would send it to HPC, but it cannot go there: metadata.labels[kueue.x-k8s.io/queue-name]: it waits in "
            "Kueue's queue team, and rule r lacks kueue: true"
        )
    }


def test_what_all_queues_of_a_site_lack_is_told_once() -> None:
    asked = job(LARGE)
    asked["spec"]["template"]["spec"] |= {"nodeSelector": {"disk": "ssd", "kubernetes.io/arch": "arm64"}}  # type: ignore[index]

    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: big}, {queue: big2}]"), sites=TWO),
        workload_of(asked, namespace="lab"),
        ADA,
    )

    selector = "spec.template.spec.nodeSelector"
    assert decision.in_the_way == (
        f"{selector}.disk: asks for disk=ssd, which nodeLabels of a queue or ignoreNodeLabels of site pbs would have to answer",
        (
            f"{selector}[kubernetes.io/arch]: asks for kubernetes.io/arch=arm64, and nodes of site pbs have amd64 unless "
            "nodeLabels of a queue say otherwise"
        ),
    )


def test_queues_are_alternatives_and_what_some_lack_names_them() -> None:
    asked = job(LARGE)
    asked["spec"]["template"]["spec"] |= {"hostPID": True, "nodeSelector": {"disk": "ssd"}}  # type: ignore[index]
    sites = SITES.replace("memoryPerNode: 32Gi", "memoryPerNode: 32Gi, nodeLabels: {disk: ssd}")

    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: small}, {queue: big}]"), sites=sites),
        workload_of(asked, namespace="lab"),
        Requester("eve", (), "lab"),
    )

    assert (decision.least, decision.in_the_way) == (
        2,
        (
            "spec.template.spec.hostPID: sees the processes of the node",
            (
                "spec.template.spec.nodeSelector.disk: asks for disk=ssd, which nodeLabels of queue small or ignoreNodeLabels of "
                "site pbs would have to answer (queue small of site pbs)"
            ),
            (
                "queue small of site pbs: it asks for 6 CPUs, and a node has 4; only MPI programs span nodes: the hint "
                "batchgate.dev/ranks, impliesMpi of the MPI profile or mpi: true of the rule says that it is one"
            ),
            "queue small of site pbs, queue big of site pbs: no account at site pbs is for user eve in namespace lab",
        ),
    )


def test_what_every_layer_lacks_is_told_at_once() -> None:
    asked = job(LARGE)
    asked["spec"]["template"]["spec"] |= {"hostPID": True, "nodeSelector": {"disk": "ssd"}}  # type: ignore[index]

    decision = policy.decide(
        loaded(rule("when: job.cpus > 4, hpc: [{queue: big}]")), workload_of(asked, namespace="lab"), ADA
    )

    assert [one.path.rpartition("spec.")[2] for one in decision.obstacles] == ["hostPID", "nodeSelector.disk"]
    assert decision.reason == (
        "rule r would send it to HPC, but it cannot go there: spec.template.spec.hostPID: sees the processes of the node; "
        "spec.template.spec.nodeSelector.disk: asks for disk=ssd, which nodeLabels of a queue or "
        "ignoreNodeLabels of site pbs would have to answer"
    )


def test_the_first_queue_whose_nodes_are_as_asked_is_used() -> None:
    asked = job({"cpu": "2"})
    asked["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}  # type: ignore[index]
    sites = SITES.replace("memoryPerNode: 32Gi", "memoryPerNode: 32Gi, nodeLabels: {disk: ssd}")
    sized = workload_of(asked, namespace="lab")

    decision = policy.decide(
        loaded(rule("when: job.cpus > 0, hpc: [{queue: small}, {queue: big}]"), sites=sites), sized, ADA
    )

    assert decision.route is not None
    assert (decision.route.queue.name, decision.route.nodes.met) == ("big", ("disk=ssd",))
    assert "(queue small of site pbs: spec.template.spec.nodeSelector.disk: asks for disk=ssd, which" in decision.reason


@pytest.mark.parametrize(
    ("own", "target"),
    [("", "hpc"), (", directives: {qos: low}", "hpc"), (", directives: {gpu-type: t4}", "cloud")],
)
def test_nodes_are_chosen_by_directives_unless_the_rule_says_otherwise(own: str, target: str) -> None:
    asked = job({"cpu": "2", "nvidia.com/gpu": "1"})
    asked["spec"]["template"]["spec"]["nodeSelector"] = {"gpu": "A100"}  # type: ignore[index]
    sites = SITES.replace(
        "gpuVendor: nvidia",
        "gpuVendor: nvidia, directives: {gpu-type: any}, nodeLabels: {gpu: {A100: {gpu-type: a100}}}",
    )
    sized = workload_of(asked, namespace="lab")

    decision = policy.decide(loaded(rule(f"when: job.cpus > 0, hpc: [{{queue: gpu}}]{own}"), sites=sites), sized, ADA)

    assert decision.target == target
    if decision.route is None:
        assert decision.reason.endswith("by the directive gpu-type, which is t4 and a100 (nodeLabels)")
    else:
        assert "#SBATCH --gres=gpu:a100:1" in script.render(sized, decision.route).text


def test_obstacles_are_told_with_their_fields() -> None:
    job = {
        "metadata": {"name": "j"},
        "spec": {
            "template": {
                "spec": {
                    "hostPID": True,
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "command": ["c"]}],
                }
            }
        },
    }
    sized = workload_of(job, namespace="lab")

    decision = policy.decide(loaded(rule("when: job.pods == 1, hpc: [{queue: big}]")), sized, ADA)

    assert (decision.target, decision.wanted, decision.obstacles) == ("cloud", True, sized.obstacles)
    assert [obstacle.path for obstacle in decision.obstacles] == ["spec.template.spec.hostPID"]
    assert "spec.template.spec.hostPID: " in decision.reason


def test_audit_rules_are_recorded_and_change_nothing() -> None:
    rules = (
        "  - {name: a, when: job.cpus > 4, mode: audit, deny: too large}\n"
        "  - {name: b, when: job.cpus > 5, mode: audit, hpc: [{queue: big}]}\n"
        "  - {name: c, when: job.cpus > 6, mode: audit, deny: never}\n"
        "  - {name: d, when: \"job.labels['x'] == ''\", mode: audit, deny: never}\n"
    )
    decision = policy.decide(loaded(rules), workload(LARGE), ADA)

    assert (decision.target, decision.rule, decision.considered) == ("cloud", "rest", ())
    assert [(noted.rule, noted.held, noted.outcome[:20]) for noted in decision.audited] == [
        ("a", True, "deny: too large"),
        ("b", True, "hpc: rule b sends it"),
        ("d", None, "deny: the condition "),
    ]


def test_explain_tells_each_condition_with_what_it_read() -> None:
    rules = (
        "  - {name: a, when: 'job.cpus > 8 && has(job.gpus)', deny: stop}\n"
        "  - {name: b, when: \"queues['big'].freeNodes > 1 || 'x' in request.groups\", deny: stop}\n"
        "  - {name: c, when: \"job.memory > quantity('1Gi') && job.walltime < 5\", cloud: true}\n"
    )
    known = QueueStates({("pbs", "big"): QueueState("pbs", "big", free_nodes=1)})

    decision = policy.decide(loaded(rules), workload(LARGE, activeDeadlineSeconds=60), ADA, known, explain=True)

    assert decision.considered == (
        Considered("a", held=False, why="job.cpus > 8 && has(job.gpus), with job.cpus = 6, job.gpus = unset"),
        Considered(
            "b",
            held=False,
            why="queues['big'].freeNodes > 1 || 'x' in request.groups, "
            "with queues['big'].freeNodes = 1, request.groups = ['staff']",
        ),
        Considered(
            "c",
            held=False,
            why="job.memory > quantity('1Gi') && job.walltime < 5, "
            "with job.memory = 4294967296 (4Gi), job.walltime = 60 (1m)",
        ),
        Considered("rest", held=True, why="true", outcome=f"cloud: {decision.reason}", target="cloud"),
    )


def test_explain_decides_the_same() -> None:
    checked = loaded(rule("when: job.cpus > 4, hpc: [{queue: big}]"))
    told = policy.decide(checked, workload(LARGE), ADA, explain=True)

    assert dataclasses.replace(told, considered=(), not_looked_at=()) == policy.decide(checked, workload(LARGE), ADA)


@pytest.mark.parametrize(
    ("cpus", "rule_of_it", "left"), [(9, "a", ("b", "c", "rest")), (6, "c", ("rest",)), (1, "rest", ())]
)
def test_explain_names_the_rules_behind_the_one_that_decided(cpus: int, rule_of_it: str, left: tuple[str, ...]) -> None:
    rules = (
        "  - {name: a, when: job.cpus > 8, deny: stop}\n"
        "  - {name: b, when: job.cpus > 4, mode: audit, deny: stop}\n"
        "  - {name: c, when: job.cpus > 2, cloud: true}\n"
    )
    sized = workload({"cpu": str(cpus)})

    decision = policy.decide(loaded(rules), sized, ADA, explain=True)

    assert (decision.rule, decision.not_looked_at) == (rule_of_it, left)
    assert policy.decide(loaded(rules), sized, ADA).not_looked_at == ()


def test_states_that_changed_are_seen() -> None:
    """Queue messages are kept between reviews; a new state with the same generation must not meet an old message."""
    checked = loaded(rule("when: \"queues['big'].up\", deny: is up"))

    found = [policy.decide(checked, workload(), ADA, states(big=up)).target for up in (True, False, True, None)]

    assert found == ["deny", "cloud", "deny", "cloud"]


# --- for every Job ------------------------------------------------------------------------------------------------

EVERYTHING = (
    "  - {name: a, when: \"job.labels['a'] == 'b' || job.totalCpus > 9\", mode: audit, hpc: [{queue: gpu}]}\n"
    "  - {name: b, when: \"job.totalMemory > quantity('1Ti') || job.name == 'x'\", deny: stop}\n"
    '  - {name: c, when: "job.gpus > 0 || queues.exists(q, queues[q].up)", hpc: [{queue: gpu}], ifNotRoutable: deny}\n'
    "  - {name: d, when: 'job.mpi || job.cpus > 1', hpc: [{queue: small}, {queue: big}], forbidHints: [ranks]}\n"
)


def _mapping(required: dict[str, Any], **optional: Any) -> Any:
    return st.fixed_dictionaries(required, optional=optional)


TEXT = st.text(max_size=8)
QUANTITIES = st.sampled_from(["0", "1", "500m", "7", "64", "1Gi", "100Ti", "9223372036854775807", "1e3"])
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "amd.com/gpu"]), QUANTITIES)
WORDS = st.lists(st.sampled_from(["mpirun", "-n", "4", "sh", "-c", "x"]), min_size=1)
CONTAINERS = st.lists(
    _mapping(
        {"name": st.sampled_from(["a", "b"]), "image": st.sampled_from(["i", "x/y:1"])},
        command=WORDS,
        resources=_mapping({"requests": RESOURCES}),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda container: str(container["name"]),
)
POD = _mapping(
    {"restartPolicy": st.sampled_from(["Never", "OnFailure"]), "containers": CONTAINERS},
    hostPID=st.booleans(),
    terminationGracePeriodSeconds=st.integers(0, 10**6),
)
HINTS = st.dictionaries(
    st.sampled_from([names.HINT_RANKS, names.HINT_NODES, names.HINT_WALLTIME]), st.sampled_from(["1", "5", "9000"])
)
JOBS = _mapping(
    {
        "metadata": _mapping({"name": TEXT, "labels": st.dictionaries(TEXT, TEXT, max_size=2), "annotations": HINTS}),
        "spec": _mapping(
            {"template": _mapping({"spec": POD})},
            parallelism=st.integers(0, 10**5),
            activeDeadlineSeconds=st.integers(1, 10**6),
        ),
    }
)


@pytest.fixture(scope="module")
def everything() -> Policy:
    return loaded(EVERYTHING)


def _sized(job: Mapping[str, object]) -> Workload | None:
    try:
        return workload_of(job, namespace="lab")
    except JobError:
        return None


@pytest.mark.parametrize(("outcome", "target"), [("cloud: true", "cloud"), ("deny: never", "deny")])
def test_a_condition_that_takes_too_many_turns_for_a_job_ends_the_search(outcome: str, target: str) -> None:
    containers = [{"name": f"c{number}", "image": f"i{number}", "command": ["x"]} for number in range(300)]
    large: dict[str, Any] = {
        **job(),
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": containers}}},
    }
    checked = loaded(rule(f"when: \"job.images.exists(i, job.images.exists(k, i == k + 'x'))\", {outcome}"))

    found = policy.decide(checked, workload_of(large, namespace="lab"), ADA)

    message = "the condition of rule r cannot be evaluated for this Job: Iteration budget exceeded"
    assert (found.target, found.rule, found.reason.partition(";")[0]) == (target, "r", message)


@UNHURRIED
@given(
    job=JOBS,
    up=st.sampled_from([None, True, False]),
    explain=st.booleans(),
    user=st.sampled_from(["ada", "eve", "\ud800"]),
)
def test_every_job_that_can_be_sized_is_decided(
    everything: Policy, job: Mapping[str, object], up: bool | None, explain: bool, user: str
) -> None:
    sized = _sized(job)
    if sized is None:
        return
    decision = policy.decide(everything, sized, Requester(user, ("g",), "lab"), states(gpu=up), explain=explain)

    assert decision.rule in {"b", "c", "d", "rest"}
    assert decision.target in {rule.name: rule.targets for rule in everything.rules}[decision.rule]
    assert decision.reason
    assert (decision.route is not None) == (decision.target == "hpc")
    assert decision.route is None or decision.route.identity.user == "ada"


@pytest.mark.parametrize(("rules", "requests", "expected"), DECIDED)
def test_the_first_rule_to_hold_is_the_one_that_decides(
    rules: str, requests: dict[str, str] | None, expected: tuple[str, str, str]
) -> None:
    given_rules = '  - {name: seen, when: "true", mode: audit, deny: audit}\n' + rules

    holds = None if "cannot be evaluated" in expected[2] else expected[1]
    assert first_to_hold(loaded(given_rules), workload(requests), ADA) == holds
