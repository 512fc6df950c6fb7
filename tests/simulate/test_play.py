"""Whole playings that are worked out by hand: who goes where, when each Pod begins and ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import policy as policies
from router.gate.judging import Gate, sized
from router.policy.decision import NO_QUEUE_STATES, QueueState, Requester
from router.policy.model import Policy
from router.replay.cases import Case, Skipped
from router.simulate.capacity import pools
from router.simulate.jobs import UNIFORM, Assumed, Job, drawn, in_order, of_case, runtime
from router.simulate.judging import Judge
from router.simulate.play import Played, World, play
from router.workload.cluster import UNKNOWN_CLUSTER

SITE = """
sites:
  - name: demo
    system: slurm
    workDir: /scratch/{user}
    mpi: [{name: m, launcher: openmpi}]
    margin: 1
    queues:
      - {name: batch, nodes: 2, cpusPerNode: 4, memoryPerNode: 8Gi, gpusPerNode: 2, walltimeMax: 24h}
      - {name: short, nodes: 2, cpusPerNode: 4, walltimeMax: 1h}
accounts:
  - {users: [ada], as: ada, shared: true}
rules:
"""
LARGE = "  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}]}\n  - {name: small, cloud: true}\n"
WHOLE = Assumed(fraction=1.0)


def checked(rules: str) -> Policy:
    return policies.load({"all.yaml": SITE + rules})


def manifest(cores: int = 4, walltime: int = 100, memory: str = "", gpus: int = 0, **spec: Any) -> dict[str, Any]:
    asked = (
        {"cpu": str(cores)} | ({"memory": memory} if memory else {}) | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
    )
    container = {"name": "c", "image": "i", "command": ["x"], "resources": {"requests": asked, "limits": asked}}
    template = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"activeDeadlineSeconds": walltime, "template": {"spec": template}, **spec},
    }


def job(policy: Policy, arrives: float, user: str = "ada", **asked: Any) -> Job:
    requester = Requester(user, (), "default", None, arrives)
    workload = sized(manifest(**asked), requester, Gate(policy, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 0))
    found = of_case(Case("default/j", requester, workload, NO_QUEUE_STATES, "f:1"), WHOLE)
    assert isinstance(found, Job)
    return found


def played(
    rules: str, *asked: dict[str, Any], cloud: int | None = None, capacity: tuple[str, ...] = ("demo/batch=2",)
) -> Played:
    policy = checked(rules)
    size = pools(capacity, [policy])
    return play(Judge(policy), [job(policy, **one) for one in asked], World(size, cloud, WHOLE), 1)


def runs(found: Played) -> list[tuple[int, str, float, float, float]]:
    return sorted((run.job, run.to, run.made, run.began, run.ended) for run in found.runs)


def test_jobs_go_where_rules_send_them_and_wait_for_nodes() -> None:
    found = played(LARGE, {"arrives": 0}, {"arrives": 1}, {"arrives": 2}, {"arrives": 3, "cores": 1})

    assert runs(found) == [
        (0, "demo/batch", 0, 0, 100),
        (1, "demo/batch", 1, 1, 101),
        (2, "demo/batch", 2, 100, 200),
        (3, "cloud", 3, 3, 103),
    ]
    assert (found.went, found.rules) == ({"demo/batch": 3, "cloud": 1}, {"large": 3, "small": 1})


def test_a_rule_sees_how_long_the_queue_of_the_model_waits() -> None:
    rules = '  - {name: busy, when: "queues[\'batch\'].waitSeconds >= 50", cloud: true}\n  - {name: all, when: "true", hpc: [{queue: batch}]}\n'
    found = played(rules, *({"arrives": at} for at in (0, 1, 10, 59, 60, 100, 101)))

    assert [(number, to) for number, to, *_ in runs(found)] == [
        (0, "demo/batch"),
        (1, "demo/batch"),
        (2, "demo/batch"),
        (3, "demo/batch"),
        (4, "cloud"),  # number 2 waits for 50 s
        (5, "demo/batch"),  # it has begun, and number 3 has waited for 41 s
        (6, "demo/batch"),
    ]


@pytest.mark.parametrize(
    ("condition", "cloud"),
    [
        ("queues['batch'].freeNodes == 0", [2, 3]),
        ("queues['batch'].queuedJobs > 0", [3]),
        ("queues['batch'].runningJobs == 2", [2, 3]),
        ("!queues['batch'].up", []),
        ("request.time >= timestamp('1970-01-01T00:00:02Z')", [2, 3]),
    ],
)
def test_every_figure_of_a_queue_is_the_models(condition: str, cloud: list[int]) -> None:
    rules = (
        f'  - {{name: c, when: "{condition}", cloud: true}}\n  - {{name: all, when: "true", hpc: [{{queue: batch}}]}}\n'
    )
    asked = [{"arrives": at} for at in range(4)]

    assert [number for number, to, *_ in runs(played(rules, *asked)) if to == "cloud"] == cloud


def test_pods_of_a_job_run_as_many_at_once_as_it_says() -> None:
    found = played(LARGE, {"arrives": 0, "cores": 2, "completions": 3, "parallelism": 2})

    assert runs(found) == [
        (0, "demo/batch", 0, 0, 100),
        (0, "demo/batch", 0, 0, 100),
        (0, "demo/batch", 100, 100, 200),
    ]
    assert found.went == {"demo/batch": 1}


def test_the_cloud_has_as_many_cores_as_are_given() -> None:
    asked = (
        {"arrives": 0, "cores": 3},
        {"arrives": 1, "cores": 2},
        {"arrives": 2, "cores": 1},
        {"arrives": 3, "cores": 5},
    )
    found = played("  - {name: all, cloud: true}\n", *asked, cloud=4000, capacity=())

    assert runs(found) == [(0, "cloud", 0, 0, 100), (1, "cloud", 1, 100, 200), (2, "cloud", 2, 2, 102)]
    assert found.stuck == {"cloud": (1, "default/j (f:1)")}


@pytest.mark.parametrize(
    ("asked", "began"),
    [
        pytest.param({"cores": 2}, [0, 0, 0, 0, 100], id="cores"),
        pytest.param({"cores": 2, "memory": "6Gi"}, [0, 0, 100, 100, 200], id="memory: three quarters of a node"),
        pytest.param({"cores": 2, "gpus": 2}, [0, 0, 100, 100, 200], id="GPUs: all of a node"),
    ],
)
def test_the_largest_share_of_a_node_counts(asked: dict[str, Any], began: list[float]) -> None:
    found = played(LARGE, *({"arrives": 0, **asked} for _ in range(5)))

    assert sorted(run.began for run in found.runs) == began


def test_queues_share_nodes_if_they_are_given_together() -> None:
    rules = '  - {name: short, when: job.walltime <= 50, hpc: [{queue: short}]}\n  - {name: all, when: "true", hpc: [{queue: batch}]}\n'
    asked = ({"arrives": 0}, {"arrives": 0}, {"arrives": 1, "walltime": 50})

    assert runs(played(rules, *asked, capacity=("demo/batch,demo/short=2",)))[2] == (2, "demo/short", 1, 100, 150)
    assert runs(played(rules, *asked, capacity=("demo/batch=2", "demo/short=1")))[2] == (2, "demo/short", 1, 1, 51)


def test_what_cannot_go_or_run_is_told() -> None:
    rules = "  - {name: three, when: job.cpus == 3, deny: not three}\n" + LARGE
    found = played(
        rules, {"arrives": 0, "cores": 3}, {"arrives": 1, "user": "eve"}, {"arrives": 2}, capacity=("demo/batch=2x3",)
    )

    assert (found.went, found.stuck) == (
        {"deny": 1, "cloud": 1, "demo/batch": 1},
        {"demo/batch": (1, "default/j (f:1)")},
    )
    assert list(found.kept) == ["large"]
    assert found.kept["large"][0] == 1
    assert found.kept["large"][1] == (
        "default/j (f:1): queue batch of site demo: no account at site demo is for user eve in namespace default"
    )


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.integers(1, 4), st.integers(20, 200), st.integers(0, 3), st.integers(1, 3)),
        min_size=1,
        max_size=12,
    )
)
@settings(max_examples=25, deadline=None)
def test_every_pod_runs_once_or_is_told(asked: list[tuple[int, int, int, int, int]]) -> None:
    policy = checked("  - {name: busy, when: \"queues['batch'].queuedJobs > 1\", cloud: true}\n" + LARGE)
    jobs = sorted(
        (
            job(policy, arrives, cores=cores, walltime=walltime, completions=pods or 1, parallelism=at_once)
            for arrives, cores, walltime, pods, at_once in asked
        ),
        key=lambda one: one.arrival,
    )
    world = World(pools(("demo/batch=2",), [policy]), 4000, Assumed())
    found, again = (play(Judge(policy), jobs, world, 7) for _ in range(2))

    pods = {
        number: one.case.workload.completions.value for number, one in enumerate(jobs) if one.case.workload.completions
    }
    assert {number: sum(run.job == number for run in found.runs) for number in pods} == pods
    assert all(run.made <= run.began <= run.ended for run in found.runs)
    assert found == again


def test_a_remembered_decision_is_the_one_of_a_first_playing() -> None:
    policy = checked("  - {name: busy, when: \"queues['batch'].queuedJobs > 0\", cloud: true}\n" + LARGE)
    jobs = [job(policy, at) for at in range(6)]
    world, judge = World(pools(("demo/batch=2",), [policy]), None, WHOLE), Judge(policy)

    assert play(judge, jobs, world, 1) == play(judge, jobs, world, 1) == play(Judge(policy), jobs, world, 1)


def test_a_condition_that_could_not_be_evaluated_is_judged_anew() -> None:
    short = "queues['batch'].waitSeconds / queues['batch'].queuedJobs < 600"
    policy = checked(
        f'  - {{name: short, when: "{short}", hpc: [{{queue: batch}}]}}\n  - {{name: rest, cloud: true}}\n'
    )
    judge, one = Judge(policy), job(policy, 0)

    def target(wait: int, queued: int) -> str:
        now = QueueState("demo", "batch", up=True, free_nodes=0, queued_jobs=queued, running_jobs=2, wait_seconds=wait)
        return judge.verdict(one, 0, {("demo", "batch"): now}).target

    # An empty queue divides by zero.
    assert [target(0, 0), target(30, 2), target(0, 0), target(2000, 2)] == ["cloud", "hpc", "cloud", "cloud"]


def test_jobs_without_times_are_left_out() -> None:
    policy = checked(LARGE)
    without = manifest()
    del without["spec"]["activeDeadlineSeconds"]
    gate = Gate(policy, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 0)

    def found(value: dict[str, Any], time: float | None, assumed: Assumed = WHOLE) -> Job | Skipped:
        requester = Requester("ada", (), "default", None, time)
        return of_case(Case("default/j", requester, sized(value, requester, gate), NO_QUEUE_STATES, "f:1"), assumed)

    assert found(manifest(), None) == Skipped("the time of their creation is unknown", "default/j (f:1)")
    assert found(without, 5) == Skipped("ask for no walltime; --assume-walltime gives them one", "default/j (f:1)")
    many = manifest(completions=100_001, parallelism=1)
    assert found(many, 5) == Skipped("have more than 100,000 Pods", "default/j (f:1)")
    assert found(manifest(suspend=True), 5) == Skipped("suspended, or without Pods", "default/j (f:1)")
    taken = found(without, 5, Assumed(walltime=70))
    assert isinstance(taken, Job)
    assert taken.walltime == 70


def test_what_is_drawn_is_even_and_always_the_same() -> None:
    numbers = sorted(drawn(3, "f:1", "default/j", pod) for pod in range(2000))

    assert numbers == sorted(drawn(3, "f:1", "default/j", pod) for pod in range(2000))
    assert numbers != sorted(drawn(4, "f:1", "default/j", pod) for pod in range(2000))
    # Kolmogorov and Smirnov: 1.63 / sqrt(n) is passed by one even sample of a hundred, and this sample is fixed.
    assert max(abs(number - (rank + 0.5) / 2000) for rank, number in enumerate(numbers)) < 1.63 / 2000**0.5


def test_what_is_drawn_for_a_job_rests_on_the_job_and_not_on_its_file() -> None:
    """A log is rotated, a directory is moved: the same Jobs are played."""
    policy = checked(LARGE)
    requester = Requester("ada", (), "default", None, 5)
    workload = sized(manifest(), requester, Gate(policy, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 0))

    def found(*places: str) -> list[float]:
        cases = [Case("default/j", requester, workload, NO_QUEUE_STATES, place) for place in places]
        jobs = in_order([job for one in cases if isinstance(job := of_case(one, WHOLE), Job)])
        return [runtime(job, 0, Assumed(fraction=UNIFORM), 1) for job in jobs]

    assert found("a:1", "a:2") == found("b:7", "c:8")
    # Two that were generated with one name in one second are two all the same.
    assert len(set(found("a:1", "a:2"))) == 2
