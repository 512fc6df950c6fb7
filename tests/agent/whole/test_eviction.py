"""The agent is away for longer than Kubernetes waits for a node: running jobs keep their Pods."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from router import names
from tests.agent.whole.jobs import unique
from tests.agent.whole.long import only_long
from tests.agent.whole.site import SITE, WIDE
from tests.agent.whole.stack import NODES, Stack
from tests.agent.whole.test_life import CONTROLLER
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(1200)


def tainted(stack: Stack) -> bool:
    """Whether all virtual Nodes are tainted as unreachable, so that Pods are evicted."""
    nodes = [stack.admin.get("node", name) or {} for name in NODES]
    wanted = (names.TAINT_UNREACHABLE, "NoExecute")
    return all(wanted in [(one["key"], one["effect"]) for one in node["spec"].get("taints", ())] for node in nodes)


def ordinary_pod(stack: Stack, name: str, job: dict[str, Any]) -> dict[str, Any]:
    """A Pod on the virtual Node with the tolerations that Kubernetes gives to everybody, and none of ours."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": stack.user.namespace, "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"nodeName": names.node_name(SITE, WIDE), "containers": [container], "restartPolicy": "Never"},
    }  # fmt: skip


def check_nobody_is_evicted(stack: Stack, seconds: float) -> None:
    """The agent is killed while Jobs run, and stays away until an ordinary Pod was evicted, and ``seconds`` at least."""
    jobs = [unique("stays") for _ in range(3)]
    ordinary = unique("ordinary")
    stack.user.apply(*(stack.runs.job(name, stack.waiting(name)) for name in jobs))
    stack.await_started(*jobs)
    pods = [stack.await_phase(name, "Running")["metadata"]["uid"] for name in jobs]

    stack.agent.kill()
    killed = time.monotonic()
    pod = ordinary_pod(stack, ordinary, stack.job(jobs[0]))
    done = stack.admin.run("create", "-f", "-", CONTROLLER, stdin=json.dumps(pod))
    assert done.rc == 0, done
    until(lambda: tainted(stack), what="for the taint of unreachable nodes", seconds=seconds + 180)
    until(lambda: evicted(stack, ordinary), what="for the eviction of an ordinary Pod", seconds=seconds + 480)
    stack.let_go(jobs[0])
    time.sleep(max(0.0, killed + seconds - time.monotonic()))
    found = [stack.pod(name)["metadata"] for name in jobs]
    assert [one["uid"] for one in found] == pods
    assert [one for one in found if "deletionTimestamp" in one] == []
    stack.agent.start()

    until(lambda: not tainted(stack), what="for nodes that are ready again")
    assert [stack.pod(name)["metadata"]["uid"] for name in jobs] == pods
    stack.let_go(*jobs)
    assert stack.await_end(*jobs) == ["Complete"] * 3
    assert [stack.runs.started(name) for name in jobs] == [1, 1, 1]
    assert [len(stack.site.of(name)) for name in jobs] == [1, 1, 1]
    stack.admin.run("delete", "pod", ordinary, "--force", "--grace-period=0", "--ignore-not-found")


def evicted(stack: Stack, name: str) -> bool:
    pod = stack.admin.get("pod", name)
    return pod is None or "deletionTimestamp" in pod["metadata"]


def test_an_agent_that_is_down_gets_no_pod_evicted(stack: Stack) -> None:
    """With grace periods of seconds; the ordinary Pod shows that there is somebody who evicts."""
    check_nobody_is_evicted(stack, seconds=25)


@only_long
def test_an_agent_that_is_down_for_seven_minutes_gets_no_pod_evicted(real_times: Stack) -> None:
    check_nobody_is_evicted(real_times, seconds=420)
