"""Queues of OpenPBS and TORQUE: routing, moved between, closed and stopped in the middle, limited; and directives that reach a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from router import names
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Cluster, Stack, attended
from tests.agent.pbs.jobs import (
    await_ends,
    await_nothing_left,
    await_started,
    counted,
    events,
    let_go,
    submitted,
    told,
    waiting,
    waits,
)
from tests.agent.pbs.site import ADA, QUEUE, SITE, node_of, obstacle
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]
ROUTE, BEHIND = "bgroute", "bgbehind"
"""A routing queue, and the one that it routes to."""
SECOND = os.environ.get("BATCHGATE_PBS_SECOND", "")
"""A queue of another server, ``queue@server``, whose nodes know the same users and see the same directories.

Its scheduler looks every few seconds (``scheduler_iteration``): a job that arrives by qmove does not wake it. Its nodes
copy output themselves (``$usecp``), not by ssh to the server from which the job came.
"""
OWN: dict[str, dict[str, str]] = {
    "site": {} if server.TORQUE else {"place": "pack"},
    "rule": {} if server.TORQUE else {"chunk.arch": "linux"},
}
"""Directives of one of the systems alone."""
NAMED = {
    "site": {"directives": {"software": "of-the-site", "priority": "1", **OWN["site"]}},
    "queue": {"directives": {"priority": "2", "resource.nice": "3"}},
    "account": {
        "account": "physics of ours",
        "project": "lab-7",
        "directives": {"priority": "4", "resource.nice": "5"},
    },
    "rule": {"directives": {"priority": "7", **OWN["rule"]}},
}
FULL = ("max_queuable", "0") if server.TORQUE else ("max_queued", "'[u:PBS_GENERIC=0]'")
ONE_RUNS = ("max_user_run", "1") if server.TORQUE else ("max_run", "'[u:PBS_GENERIC=1]'")
ONE_QUEUED = ("max_user_queuable", "1") if server.TORQUE else ("max_queued", "'[u:PBS_GENERIC=1]'")
WORDS = (
    {"runs": "User has reached queue running job limit", "queued": "Maximum number of jobs already in queue"}
    if server.TORQUE
    else {
        "runs": "User has reached queue bgbehind running job limit",
        "queued": "would exceed queue generic's per-user limit",
    }
)
ASKED = (
    {"Resource_List.nodes": "1:ppn=2", "Resource_List.mem": "512mb", "umask": "63"}  # as a decimal number
    if server.TORQUE
    else {
        "project": "lab-7",
        "umask": "77",
        "Resource_List.place": "pack",
        "Resource_List.select": "1:ncpus=2:mpiprocs=1:ompthreads=2:mem=64mb:arch=linux",
    }
)


@pytest.fixture(scope="module")
def queued(cluster: Cluster) -> Iterator[Stack]:
    """A site with a routing queue, and one behind it, both with Nodes of their own."""
    if words := obstacle():
        pytest.skip(words)
    with (
        server.queue(BEHIND, queue_type="Execution"),
        server.queue(ROUTE, queue_type="Route", route_destinations=BEHIND, route_retry_time="2"),
        attended(cluster, others=(ROUTE, BEHIND), named=NAMED) as found,
    ):
        yield found


@contextmanager
def being(queue: str, attribute: str, value: str, after: str) -> Iterator[None]:
    """An attribute of a queue for a while, and what it is after it; empty for none."""
    server.queue_set(queue, attribute, value)
    try:
        yield
    finally:
        server.queue_set(queue, attribute, after)
        server.schedule()


def for_queue(made: dict[str, Any], queue: str) -> dict[str, Any]:
    """The same Job, for one of the queues beside the usual one."""
    made["metadata"]["labels"]["queue"] = queue
    return made


def queue_now(stack: Stack, name: str) -> str:
    """The queue that a Job's Pod says it is in, where that is another one than its Node's."""
    return str(pod_of(stack.ada, name)["metadata"]["annotations"].get("batchgate.dev/queue-now", ""))


def closed(stack: Stack, queue: str) -> tuple[str, str]:
    """Status and reason of a Node's condition ``QueueClosed``."""
    node = stack.admin.get("node", node_of(queue)) or {}
    found = [one for one in node.get("status", {}).get("conditions", ()) if one["type"] == "QueueClosed"]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def await_waiting(stack: Stack, name: str, reason: str, words: str = "") -> None:
    """Until a Job's container waits for this reason, with these words."""
    until(
        lambda: waits(stack.ada, name),
        lambda seen: seen[0] == reason and words in seen[1],
        seconds=SECONDS,
        what=f"{reason} {words}",
    )


def test_the_node_of_a_routing_queue_has_what_the_policy_says(queued: Stack) -> None:
    """OpenPBS tells of nodes only for queues that run jobs."""
    until(lambda: closed(queued, ROUTE), lambda seen: seen == ("False", "Open"), seconds=SECONDS)
    node = queued.admin.get("node", node_of(ROUTE))
    assert node is not None

    labels = {key: value for key, value in node["metadata"]["labels"].items() if key.startswith("batchgate.dev/")}

    assert labels == {
        "batchgate.dev/site": SITE,
        "batchgate.dev/queue": ROUTE,
        "batchgate.dev/nodes": "1",
        "batchgate.dev/ncpus-per-node": "4",
        "batchgate.dev/mem-per-node": "2000Mi",
        "batchgate.dev/walltime-max": "1h",
    }
    assert {key: node["status"]["capacity"].get(key) for key in ("cpu", "memory")} == {"cpu": "4", "memory": "2000Mi"}


def test_a_routed_job_is_followed_to_the_queue_where_it_runs(queued: Stack) -> None:
    name = apply(queued.ada, for_queue(waiting("exit 5"), ROUTE))
    await_started(name)

    batch_job = submitted(queued.ada, name)
    assert server.attribute(batch_job, "queue") == BEHIND
    until(lambda: queue_now(queued, name), lambda seen: seen == BEHIND, seconds=SECONDS)
    assert f"in queue {ROUTE} of site {SITE}" in events(queued.ada, name)["Submitted"]
    let_go(name)

    assert await_ends(queued.ada, name) == {name: "Failed"}
    assert told(name) == ["start", "end"]
    assert job_id(queued.ada, name) == batch_job


@pytest.mark.parametrize(
    ("queue", "attribute", "value", "after"),
    [
        pytest.param(BEHIND, "enabled", "False", "True", id="destination closed"),
        pytest.param(BEHIND, *FULL, "", id="destination full"),
        pytest.param(ROUTE, "started", "False", "True", id="routing stopped"),
    ],
)
def test_jobs_wait_in_a_routing_queue(queued: Stack, queue: str, attribute: str, value: str, after: str) -> None:
    """One is deleted there by its Job, one by its owner; one goes on when it may."""
    who = queued.ada
    with being(queue, attribute, value, after):
        goes, gone, deleted = (apply(who, for_queue(counted(), ROUTE)) for _ in range(3))
        for name in (goes, gone, deleted):
            await_waiting(queued, name, "Queued")
        batch_jobs = [submitted(who, name) for name in (goes, gone, deleted)]
        assert [server.attribute(one, "queue") for one in batch_jobs] == [ROUTE] * 3
        who.ok("delete", "job", gone, "--wait=false")
        server.ok("qdel", batch_jobs[2])
        until(lambda: who.every("pods", f"{LABEL}={gone}"), lambda pods: not pods, seconds=SECONDS)
        assert await_ends(who, deleted) == {deleted: "Failed"}
        until(lambda: server.living(ADA), lambda found: found == batch_jobs[:1], seconds=SECONDS)

    assert await_ends(who, goes) == {goes: "Complete"}
    assert pod_of(who, deleted)["status"]["reason"] == "JobDeleted"
    assert [told(name) for name in (goes, gone, deleted)] == [["start", "end"], [], []]
    await_nothing_left([goes], ADA)


def test_a_job_that_is_moved_to_another_queue_runs_there(queued: Stack) -> None:
    with being(BEHIND, "started", "False", "True"):
        name = apply(queued.ada, for_queue(counted(), BEHIND))
        await_waiting(queued, name, "Queued")
        batch_job = submitted(queued.ada, name)
        server.ok("qmove", QUEUE, batch_job)
        server.schedule()
        assert await_ends(queued.ada, name) == {name: "Complete"}

    assert (queue_now(queued, name), job_id(queued.ada, name)) == (QUEUE, batch_job)
    assert told(name) == ["start", "end"]


@pytest.mark.skipif(not SECOND, reason="no second OpenPBS: BATCHGATE_PBS_SECOND names no queue of one")
def test_jobs_that_are_moved_to_another_server_are_followed_there(queued: Stack) -> None:
    """One runs to its end there, one is cancelled there with its grace."""
    who, other = queued.ada, SECOND.partition("@")[2]
    traps = "trap 'tell term; exit 0' TERM; while :; do sleep 0.2; done"
    with being(BEHIND, "started", "False", "True"):
        ends = apply(who, for_queue(waiting("exit 3"), BEHIND))
        gone = apply(who, for_queue(counted(traps, pod={"terminationGracePeriodSeconds": 20}), BEHIND))
        batch_jobs = {name: submitted(who, name) for name in (ends, gone)}
        for batch_job in batch_jobs.values():
            server.ok("qmove", SECOND, batch_job)
        await_started(ends, gone)

        assert [server.attribute(one, "job_state") for one in batch_jobs.values()] == ["M", "M"]
        until(lambda: queue_now(queued, ends), lambda seen: seen == SECOND, seconds=SECONDS)
        let_go(ends)
        who.ok("delete", "job", gone, "--wait=false")
        assert await_ends(who, ends) == {ends: "Failed"}
        until(lambda: who.every("pods", f"{LABEL}={gone}"), lambda pods: not pods, seconds=SECONDS)

    assert [told(name) for name in (ends, gone)] == [["start", "end"], ["start", "term", "end"]]
    assert job_id(who, ends) == batch_jobs[ends]
    until(
        lambda: server.run("qselect", "-q", SECOND).stdout.split() + server.living(ADA),
        lambda found: not found,
        seconds=SECONDS,
        what=f"for nothing left on {other}",
    )


def test_a_queue_that_is_closed_in_the_middle_takes_its_jobs_when_it_opens(queued: Stack) -> None:
    who = queued.ada
    runs = apply(who, for_queue(waiting(), BEHIND))
    await_started(runs)
    with being(BEHIND, "enabled", "False", "True"):
        comes = apply(who, for_queue(counted(), BEHIND))
        await_waiting(queued, comes, "QueueFull", "Queue is not enabled")
        let_go(runs)
        assert await_ends(who, runs) == {runs: "Complete"}
        until(lambda: closed(queued, BEHIND), lambda seen: seen == ("True", "Disabled"), seconds=SECONDS)

    assert await_ends(who, comes) == {comes: "Complete"}
    until(lambda: closed(queued, BEHIND), lambda seen: seen == ("False", "Open"), seconds=SECONDS)
    assert [told(name) for name in (runs, comes)] == [["start", "end"]] * 2


def test_a_queue_that_is_stopped_in_the_middle_starts_its_jobs_later(queued: Stack) -> None:
    who = queued.ada
    runs = apply(who, for_queue(waiting(), BEHIND))
    await_started(runs)
    with being(BEHIND, "started", "False", "True"):
        comes = apply(who, for_queue(counted(), BEHIND))
        await_waiting(queued, comes, "Queued")
        let_go(runs)
        assert await_ends(who, runs) == {runs: "Complete"}
        until(lambda: closed(queued, BEHIND), lambda seen: seen == ("True", "Stopped"), seconds=SECONDS)
        assert (told(comes), server.attribute(submitted(who, comes), "job_state")) == ([], "Q")

    assert await_ends(who, comes) == {comes: "Complete"}
    until(lambda: closed(queued, BEHIND), lambda seen: seen == ("False", "Open"), seconds=SECONDS)
    assert [told(name) for name in (runs, comes)] == [["start", "end"]] * 2


def test_a_job_beyond_what_may_run_waits_with_the_words_for_it(queued: Stack) -> None:
    who = queued.ada
    with being(BEHIND, *ONE_RUNS, ""):
        first = apply(who, for_queue(waiting(), BEHIND))
        await_started(first)
        second = apply(who, for_queue(counted(), BEHIND))
        await_waiting(queued, second, "Queued", WORDS["runs"])
        _, said = waits(who, second)
        conditions = pod_of(who, second)["status"]["conditions"]
        assert [
            (one["status"], one["reason"], one["message"])
            for one in conditions
            if one["type"] == names.CONDITION_QUEUED
        ] == [("True", "Queued", said)]
        until(lambda: WORDS["runs"] in events(who, second).get("Queued", ""), seconds=SECONDS, what="for the Event")
        assert told(second) == []
        let_go(first)
        ended = await_ends(who, first, second)

    assert ended == dict.fromkeys((first, second), "Complete")
    assert [told(name) for name in (first, second)] == [["start", "end"]] * 2


def test_a_job_beyond_what_may_be_queued_says_what_the_server_said(queued: Stack) -> None:
    who = queued.ada
    with being(BEHIND, *ONE_QUEUED, ""):
        first = apply(who, for_queue(waiting(), BEHIND))
        await_started(first)
        second = apply(who, for_queue(counted(), BEHIND))
        await_waiting(queued, second, "QueueFull", WORDS["queued"])
        let_go(first)
        ended = await_ends(who, first, second)

    assert ended == dict.fromkeys((first, second), "Complete")
    assert [told(name) for name in (first, second)] == [["start", "end"]] * 2


def test_directives_of_site_queue_account_and_rule_reach_the_job(queued: Stack) -> None:
    """The later of two that name the same wins, in this order."""
    name = apply(queued.ada, for_queue(counted(), BEHIND))
    assert await_ends(queued.ada, name) == {name: "Complete"}

    batch_job = submitted(queued.ada, name)
    expected = {
        "Account_Name": "physics of ours",
        "Priority": "7",
        "queue": BEHIND,
        "Rerunable": "False",
        "Resource_List.software": "of-the-site",
        "Resource_List.nice": "5",
        **ASKED,
    }
    assert {key: server.attribute(batch_job, key) for key in expected} == expected
