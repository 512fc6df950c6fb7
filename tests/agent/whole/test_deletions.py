"""Jobs, Pods and Nodes are deleted at the wrong moment: nothing is left over, and nothing runs twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from tests.agent.whole.jobs import unique
from tests.agent.whole.long import LONG, only_long
from tests.agent.whole.site import ROUTE_NARROW
from tests.agent.whole.stack import NODES, Stack
from tests.agent.whole.waiting import stays, until

pytestmark = pytest.mark.timeout(900)


def queued(stack: Stack, name: str) -> None:
    """A Job that waits behind another: the narrow queue has a single place."""
    job = stack.runs.job(name, stack.waiting(name))
    job["metadata"]["labels"]["queue"] = ROUTE_NARROW
    stack.user.apply(job)
    stack.await_submitted(name)


def running(stack: Stack, name: str) -> None:
    stack.user.apply(stack.runs.job(name, stack.waiting(name)))
    stack.await_started(name)


def ending(stack: Stack, name: str) -> None:
    """A Job whose container has told that it ends, at that very moment."""
    stack.user.apply(stack.runs.job(name, "true"))
    until(lambda: stack.runs.ended(name), pause=0.02)


STATES: dict[str, Callable[[Stack, str], None]] = {"queued": queued, "running": running, "ending": ending}


@pytest.mark.parametrize("agent", ["up", "down"])
def test_a_deleted_job_leaves_nothing(stack: Stack, agent: str) -> None:
    """In every state, in the background and in the foreground."""
    ahead = unique("ahead")
    queued(stack, ahead)
    stack.await_started(ahead)
    jobs: list[str] = []
    for state, bring in STATES.items():
        made = [unique(state) for _ in range(2)]
        jobs += made
        for name in made:
            bring(stack, name)
        if agent == "down":
            stack.agent.kill()
        for name, how in zip(made, ("background", "foreground"), strict=True):
            stack.user.ok("delete", "job", name, f"--cascade={how}", "--wait=false")
        if agent == "down":
            stack.agent.start()

    stack.await_gone(*jobs)
    assert [name for name in jobs if stack.runs.twice(name)] == []
    assert [stack.runs.started(name) for name in jobs] == [0, 0, 1, 1, 1, 1]
    assert stack.runs.ended(ahead) == 0
    stack.let_go(ahead)
    assert stack.await_end(ahead) == ["Complete"]


def test_a_deletion_gives_the_container_its_grace_period(stack: Stack) -> None:
    """The script passes TERM on, and the program may say its last words."""
    name = unique("graceful")
    words, ready = (stack.runs.directory / f"{name}.{word}" for word in ("words", "ready"))
    body = f"trap 'echo goodbye >{words}; exit 0' TERM; : >{ready}; while :; do sleep 0.1; done"
    stack.user.apply(stack.runs.job(name, body, pod={"terminationGracePeriodSeconds": 20}))
    until(ready.exists, what="for its trap")  # it tells of its start before

    stack.user.ok("delete", "job", name, "--wait=false")

    stack.await_gone(name)
    assert words.read_text() == "goodbye\n"


@pytest.mark.parametrize("how", ["gently", "by force"])
def test_a_deleted_pod_is_replaced_only_after_its_end(stack: Stack, how: str) -> None:
    """The lock of the first run is the kernel's: the second cannot get it while any process of the first is there."""
    name = unique("replaced")
    lock = stack.runs.directory / f"{name}.lock"
    body = f"exec 9>>{lock}; flock -n 9 || tell overlap\ntrap '' TERM\n{stack.waiting(name)}"
    stack.user.apply(
        stack.runs.job(name, body, backoffLimit=3, pod={"terminationGracePeriodSeconds": 3, "restartPolicy": "Never"})
    )
    stack.await_started(name)
    first = stack.await_phase(name, "Running")["metadata"]

    force = ["--force", "--grace-period=0"] if how == "by force" else []
    stack.user.ok("delete", "pod", first["name"], "--wait=false", *force)
    until(lambda: stack.runs.started(name) == 2, what="for the replacement")
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert [line.event for line in stack.runs.lines(name)] == ["start", "start", "end"]
    assert stack.site.living(name) == []


@pytest.mark.parametrize("agent", ["up", "down"])
def test_a_pod_that_is_taken_from_its_job_ends_before_another_runs(stack: Stack, agent: str) -> None:
    """The Job controller releases a Pod without its labels. Ours stay: the agent finds the Pod by them."""
    name = unique("released")
    lock = stack.runs.directory / f"{name}.lock"
    deaf = "trap '' TERM"  # it uses its whole grace period
    body = f"{deaf}; exec 9>>{lock}; flock -n 9 || tell overlap\n{stack.waiting(name)}"
    stack.user.apply(stack.runs.job(name, body, pod={"terminationGracePeriodSeconds": 3}))
    stack.await_started(name)
    first = stack.await_phase(name, "Running")["metadata"]

    all_of_them = dict.fromkeys(first["labels"])
    refused = stack.admin.run("patch", "pod", first["name"], "-p", json.dumps({"metadata": {"labels": all_of_them}}))
    if agent == "down":
        stack.agent.kill()
    stack.admin.ok("label", "pod", first["name"], "batch.kubernetes.io/controller-uid-", "controller-uid-")
    until(lambda: len(stack.pods(name)) == 2, what="for the Pod in its place")
    if agent == "down":
        stack.agent.start()

    assert "are changed by the agent only" in refused.err
    until(lambda: stack.runs.started(name) == 2, what="for the one in its place")
    stack.let_go(name)
    assert stack.await_end(name) == ["Complete"]
    assert [line.event for line in stack.runs.lines(name)] == ["start", "start", "end"]
    assert stack.site.living(name) == []
    stack.admin.ok("delete", "pod", first["name"], "--wait=false")


def test_a_virtual_node_that_is_deleted_comes_back_before_its_pods_are(stack: Stack) -> None:
    name = unique("node")
    running(stack, name)
    uid = stack.await_phase(name, "Running")["metadata"]["uid"]
    old = {node: (stack.admin.get("node", node) or {})["metadata"]["uid"] for node in NODES}

    stack.admin.ok("delete", "node", *NODES)
    deleted = time.monotonic()
    for node in NODES:
        until(lambda node=node: _is_new(stack, node, old[node]), what=f"for {node}")  # type: ignore[misc]
    # Before the collector of Pods without a node believes it: it looks every 20 seconds, and waits 40 more. The 10 seconds
    # that are promised are held in tests/agent/nodes/test_keeping.py, where nothing else runs and no kubectl is waited for.
    assert time.monotonic() - deleted < 40
    if LONG:
        stays(lambda: stack.pod(name)["metadata"]["uid"], lambda now: now == uid, seconds=90, what="the same Pod")
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert stack.pod(name)["metadata"]["uid"] == uid
    assert stack.runs.started(name) == 1
    after = unique("after")
    stack.user.apply(stack.runs.job(after))
    assert stack.await_end(after) == ["Complete"]


def _is_new(stack: Stack, name: str, old: str) -> bool:
    node = stack.admin.get("node", name)
    return node is not None and node["metadata"]["uid"] != old


@only_long
def test_a_virtual_node_that_is_away_with_its_agent_costs_a_run_and_no_overlap(stack: Stack) -> None:
    """Kubernetes deletes the Pods of a Node that is gone: the Job's next Pod waits for the end of the first run."""
    name = unique("gone")
    lock = stack.runs.directory / f"{name}.lock"
    body = f"exec 9>>{lock}; flock -n 9 || tell overlap\n{stack.waiting(name)}"
    stack.user.apply(stack.runs.job(name, body, backoffLimit=3))
    stack.await_started(name)
    first = stack.await_phase(name, "Running")["metadata"]["uid"]

    stack.agent.kill()
    stack.admin.ok("delete", "node", *NODES)
    until(lambda: [pod["metadata"]["uid"] for pod in stack.pods(name)] != [first], seconds=300)
    stack.agent.start()
    until(lambda: stack.runs.started(name) == 2, what="for the second run")
    stack.let_go(name)

    assert stack.await_end(name) == ["Complete"]
    assert [line.event for line in stack.runs.lines(name)] == ["start", "start", "end"]


def test_pods_of_a_deleted_job_that_nobody_watched_are_reaped(stack: Stack) -> None:
    """Job and Pod vanish while the agent is down, by force: what runs in the queue is an orphan of ours."""
    name = unique("orphan")
    running(stack, name)
    stack.await_phase(name, "Running")

    stack.agent.kill()
    stack.user.ok("delete", "job", name, "--cascade=orphan")
    for pod in stack.pods(name):
        word = pod["metadata"]["name"]
        stack.user.ok("delete", "pod", word, "--force", "--grace-period=0", "--wait=false")
        stack.admin.run("patch", "pod", word, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    until(lambda: stack.pods(name), lambda pods: not pods)
    (batch,) = stack.site.living(name)
    stack.agent.start()

    stack.await_gone(name)
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 0)
    assert any(batch.job_id in line["jobs"] for line in stack.agent.logged("reaped"))
