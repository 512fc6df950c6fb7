"""Jobs that choose their nodes by labels, from ``kubectl apply`` to their end on a virtual node.

The Pods keep the user's own selector, which no label of the virtual Node meets: the webhook binds them, so the scheduler
is not asked. The Node lacks the labels, as with them it would attract DaemonSets.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from router import names
from tests.agent.whole.jobs import IMAGE, unique
from tests.agent.whole.site import POOL, SITE, WIDE
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
NODE = names.node_name(SITE, WIDE)
OURS = {names.KEY_SITE: SITE, names.KEY_QUEUE: WIDE}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["nvme", "ssd"]}]},
            ]
        }
    }
}


def patched(stack: Stack, name: str, *, suspend: bool, **selector: str | None) -> str:
    """What kubectl says to an update as Kueue makes it: the selector of the template and ``suspend`` at once."""
    spec = {"suspend": suspend, "template": {"spec": {"nodeSelector": selector}}}
    done = stack.user.run("patch", "job", name, "--type=merge", "-p", json.dumps({"spec": spec}))
    return str(done.err)


def selector_of(manifest: dict[str, Any]) -> Any:
    return manifest["spec"]["template"]["spec"].get("nodeSelector")


def test_a_job_that_selects_nodes_runs_on_a_queue_whose_nodes_are_so(stack: Stack) -> None:
    name, own = unique("selecting"), {"disk": "ssd", POOL: "large", "kubernetes.io/arch": "amd64"}

    applied = stack.user.apply(stack.runs.job(name, pod={"nodeSelector": own, "affinity": AFFINITY}))

    assert "Warning: This Job goes to HPC" in applied.err
    assert f"have no effect there: {POOL}=large." in applied.err
    assert stack.await_end(name) == ["Complete"]
    pod = stack.pod(name)
    assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == (NODE, "Succeeded")
    assert (pod["spec"]["nodeSelector"], pod["spec"]["affinity"]) == (own | OURS, AFFINITY)
    assert (stack.runs.started(name), stack.runs.ended(name)) == (1, 1)


def test_a_job_whose_selector_no_queue_meets_stays_and_is_told_key_and_value(stack: Stack) -> None:
    name = unique("picky")

    applied = stack.user.run("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(stack.runs.job(
        name, pod={"nodeSelector": {"disk": "hdd"}}
    )))  # fmt: skip

    assert "asks for disk=hdd, and nodeLabels of queue wide say ssd" in " ".join(applied.err.split())


def test_labels_that_come_with_the_start_of_a_suspended_job_are_met_or_refused(stack: Stack) -> None:
    name = unique("queued")
    stack.user.apply(stack.runs.job(name, stack.waiting(name), suspend=True))
    before = stack.job(name)

    refused = patched(stack, name, suspend=False, disk="hdd")
    accepted = patched(stack, name, suspend=False, disk="ssd", **{POOL: "large"})

    assert "asks for disk=hdd, and nodeLabels of queue wide say ssd" in refused
    assert refused.rstrip().endswith("delete and create it")
    assert "denied" not in accepted
    until(lambda: stack.runs.started(name), lambda count: count == 1, what="for the start")
    assert selector_of(stack.job(name)) == {"disk": "ssd", POOL: "large"} | OURS

    stack.user.ok("patch", "job", name, "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    until(lambda: stack.pods(name), lambda pods: not pods, what="for no Pods")
    # As Kueue does: before 1.35 Kubernetes keeps the selector of a Job that has a start.
    stack.admin.ok(
        "patch", "job", name, "--subresource=status", "--type=merge", "-p", '{"status": {"startTime": null}}'
    )
    patched(stack, name, suspend=True, disk=None, **{POOL: None})
    assert selector_of(stack.job(name)) == selector_of(before)
    stack.let_go(name)
    patched(stack, name, suspend=False, disk="ssd")
    assert stack.await_end(name) == ["Complete"]
    assert (stack.runs.started(name), stack.runs.ended(name), stack.runs.twice(name)) == (2, 1, [])


def test_the_virtual_node_attracts_no_daemon_set_by_the_labels_of_its_queue(stack: Stack) -> None:
    name, chosen = unique("driver"), {"disk": "ssd"}
    container = {"name": "main", "image": IMAGE, "command": ["sleep", "1d"]}
    made = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"nodeSelector": chosen, "tolerations": [{"operator": "Exists"}], "containers": [container]},
            },
        },
    }
    stack.user.apply(made)

    seen = until(
        lambda: (stack.user.get("daemonset", name) or {})["status"],
        lambda status: status.get("observedGeneration") == 1,
        what="for the DaemonSet's controller",
    )
    stack.user.ok("delete", "daemonset", name)

    assert seen["desiredNumberScheduled"] == 0
