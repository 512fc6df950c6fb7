"""The state of sites at one moment, from objects as the API serves them."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.creations import FailedCreation
from router.operating.jobs import JobPhase, facts
from router.operating.overview import TOO_OLD, JobCount, Leader, Overview, Queue, Seen, WaitingJob, overview, sites_of
from router.operating.releases import Running
from router.operating.stuck import Stuck
from router.pod.view import view
from router.startup.settings import QUEUES_MAX_AGE
from tests.operating.objects import NOW, at, job, lease, node, over, pod, queues

FIGURES = {"queue": "batch", "up": True, "freeNodes": 3, "queuedJobs": 1, "runningJobs": 2}


def queue(state: str = "open", reason: str = "", age: int | None = 30, **figures: Any) -> Queue:
    known = {"free_nodes": 3, "queued_jobs": 1, "running_jobs": 2} | figures
    return Queue("demo", "batch", "batch.demo.batchgate", state, reason, age=age, **known)


UNKNOWN: dict[str, Any] = {"free_nodes": None, "queued_jobs": None, "running_jobs": None}


def test_all_of_a_site() -> None:
    seen = Seen(
        now=NOW,
        queues=queues(FIGURES),
        nodes=(node("batch", OrphanLimit=("True", "too many")),),
        leases={"batchgate-demo": lease("agent_1", at("09:59:55.000000"))},
        jobs=(
            facts(job("young", created="09:50:00")),
            facts(job("old", created="09:40:00")),
            facts(job("runs")),
            facts(job("done", status=over("Complete"))),
            facts(job("small", site="", created="08:00:00")),
        ),
        pods=(
            view(pod("runs", of="runs", phase="Running")),
            view(pod("old", of="old", created="09:40:00", reason="Held", message="by ada")),
        ),
        failed_creations=tuple(
            FailedCreation("default", name, f"job-{name}", "exceeded quota", int(NOW)) for name in ("young", "small")
        ),
    )

    assert overview(seen) == Overview(
        time=at("10:00:00"),
        queues=(queue(),),
        jobs=(
            JobCount("", JobPhase.WAITING, 1),
            JobCount("demo", JobPhase.WAITING, 2),
            JobCount("demo", JobPhase.RUNNING, 1),
            JobCount("demo", JobPhase.COMPLETE, 1),
        ),
        oldest_waiting=WaitingJob("default", "old", "demo", "batch", at("09:40:00"), 1200),
        stuck=(
            Stuck("Node", "", "batch.demo.batchgate", "", "demo", "batch", "OrphanLimit", at("09:00:00"), "too many"),
            Stuck(
                "Job", "default", "young", "young", "demo", "batch", "FailedCreate", at("09:50:00"), "exceeded quota"
            ),
            Stuck("Pod", "default", "old", "old", "demo", "batch", "Held", at("09:40:00"), "by ada"),
        ),
        leaders=(Leader("demo", "agent_1", at("09:59:55"), 5, in_force=True),),
        releases=(Running("agent", "demo", "unknown"),),
    )


BEGAN = {"startTime": at("08:00:00")}


@pytest.mark.parametrize(
    ("status", "pods", "since"),
    [
        ({}, [], at("08:00:00")),  # no Pod yet
        ({"active": 1}, [], at("08:00:00")),  # its Pods may not be seen
        ({"failed": 2}, [], ""),  # both tries have failed, and the next Pod is to come
        ({"failed": 1, "active": 1}, [], ""),  # the one that is there may not be seen
        ({"failed": 1}, [{"created": "08:10:00", "phase": "Failed"}], ""),
        ({"failed": 1}, [{"created": "08:10:00", "phase": "Failed"}, {"created": "09:50:00"}], at("09:50:00")),
        ({"active": 2}, [{"created": "09:50:00"}, {"created": "09:45:00"}], at("09:45:00")),
        ({"active": 1}, [{"created": "09:50:00", "startTime": at("09:51:00")}], ""),  # an init container runs
        ({"terminating": 1}, [{"created": "09:50:00", "deleted": "09:55:00"}], ""),
    ],
)
def test_a_job_waits_for_a_queue_with_a_pod_that_waits_or_before_its_first(
    status: dict[str, Any], pods: list[dict[str, Any]], since: str
) -> None:
    waits = facts(job("waits", created="07:00:00", status=BEGAN | status))
    seen = Seen(NOW, jobs=(waits,), pods=tuple(view(pod(f"p{n}", of="waits", **one)) for n, one in enumerate(pods)))

    found = overview(seen).oldest_waiting

    assert ("" if found is None else found.since) == since


@pytest.mark.parametrize(
    ("nodes", "published", "expected"),
    [
        ([node("batch")], queues(FIGURES), queue()),
        ([node("batch", QueueClosed=("False", ""))], {}, queue(age=None, **UNKNOWN)),
        ([node("batch")], {}, queue("unknown", "the agent has not told yet", None, **UNKNOWN)),
        ([node("batch", QueueClosed=("True", "drained"))], queues(FIGURES), queue("closed", "drained")),
        (
            [node("batch")],
            queues(FIGURES | {"up": False}),
            queue("closed", "the batch system says that it is down"),
        ),
        (
            [node("batch", HPCUnavailable=("True", "no server"), QueueClosed=("True", "drained"))],
            queues(FIGURES),
            queue("unreachable", "no server"),
        ),
        (
            [node("batch", SiteRefused=("True", "no right to write"), QueueClosed=("False", ""))],
            queues(FIGURES | {"up": False}),
            queue("refused", "no right to write"),
        ),
        ([node("batch", Ready=("Unknown", "silent"))], queues(FIGURES), queue("agent-away", "silent")),
        ([], queues(FIGURES), queue("no-node", "it has no Node; does an agent of its site run?")),
        (
            [node("batch")],
            queues(FIGURES, time=at("09:00:00")),
            queue(reason="the figures are too old for rules to go by", age=3600),
        ),
        (
            [node("batch", QueueClosed=("True", "drained"))],
            queues(FIGURES, time=at("09:00:00")),
            queue("closed", "drained; the figures are too old for rules to go by", 3600),
        ),
    ],
)
def test_a_queue(nodes: list[dict[str, Any]], published: dict[str, str], expected: Queue) -> None:
    assert overview(Seen(NOW, queues=published, nodes=tuple(nodes))).queues == (expected,)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (None, Leader("demo", "", "", None, in_force=False)),
        (lease("", at("09:59:55")), Leader("demo", "", at("09:59:55"), 5, in_force=False)),
        (lease("a", at("09:59:00")), Leader("demo", "a", at("09:59:00"), 60, in_force=False)),
        (lease("a", at("10:00:05")), Leader("demo", "a", at("10:00:05"), 0, in_force=True)),
    ],
)
def test_who_leads(found: dict[str, Any] | None, expected: Leader) -> None:
    leases = {} if found is None else {"batchgate-demo": found}

    assert overview(Seen(NOW, nodes=(node("batch"),), leases=leases)).leaders == (expected,)


def test_one_site_alone() -> None:
    seen = Seen(
        NOW,
        nodes=(node("batch"), node("other", site="second")),
        jobs=(facts(job("a")), facts(job("b", site="second")), facts(job("c", site=""))),
    )

    found = overview(seen, "second")

    assert sites_of(seen) == ["demo", "second"]
    assert ([one.queue for one in found.queues], [(one.site, one.count) for one in found.jobs]) == (
        ["other"],
        [("second", 1)],
    )


def test_what_is_not_understood_is_named_and_a_stranger_s_node_left_out() -> None:
    stranger = node("batch") | {"spec": {"providerID": "aws://x/y"}}

    found = overview(Seen(NOW, queues={"demo.json": "{"}, nodes=(stranger,)))

    assert found.queues == ()
    assert len(found.problems) == 1
    assert "ConfigMap batchgate-queues, demo.json" in found.problems[0]


def test_the_age_that_is_too_old_is_the_webhook_s() -> None:
    assert TOO_OLD == QUEUES_MAX_AGE
