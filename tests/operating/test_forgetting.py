"""What goes when a site is gone for good, and what stays."""

from __future__ import annotations

from router import names
from router.operating.forgetting import LeftJob, LeftNode, LeftPod, Plan, Remains, holder, in_need, lasts, plan, version
from router.operating.jobs import facts
from router.pod.view import view
from tests.operating.objects import at, job, lease, node, over, pod, queues


def test_all_of_a_site_and_nothing_else() -> None:
    stranger = node("far") | {"spec": {"providerID": "aws://x/y"}}
    found = Remains(
        jobs=(
            facts(job("b", spec={"suspend": True})),
            facts(job("a")),
            facts(job("done", status=over("Complete"))),
            facts(job("goes", deleted=at("09:00:00"))),
            facts(job("elsewhere", site="second")),
        ),
        nodes=(node("debug"), node("batch"), node("other", site="second"), stranger),
        pods=(
            view(pod("b", of="b")),
            view(pod("a", of="a", phase="Running", annotations={names.KEY_JOB_ID: "7.pbs"})),
            view(pod("done", of="done", phase="Succeeded", annotations={names.KEY_JOB_ID: "6.pbs"})),
        ),
        lease=lease("agent", at("09:00:00")),
        queues=queues(),
        checks={"demo.json": "{}"},
    )

    assert plan("demo", found, "0a1b2c3d") == Plan(
        site="demo",
        jobs=(LeftJob("default", "a", "job-a", False), LeftJob("default", "b", "job-b", True)),
        nodes=(LeftNode("batch.demo.batchgate", "node-batch"), LeftNode("debug.demo.batchgate", "node-debug")),
        pods=(
            LeftPod("default", "a", "pod-a", "a", "batch.demo.batchgate", "7.pbs"),
            LeftPod("default", "b", "pod-b", "b", "batch.demo.batchgate", ""),
        ),
        ended=1,
        lease="batchgate-demo",
        queue_state="demo.json",
        checks="demo.json",
        batch_jobs=("7.pbs",),
        directory="demo.0a1b2c3d",
    )


def test_which_pods_need_their_agent() -> None:
    daemon = pod("proxy", of="d", phase="Running")
    daemon["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "kind": "DaemonSet"}
    found = [pod("b", of="b"), pod("a", of="a", phase="Running"), pod("done", of="c", phase="Succeeded"), daemon]

    assert in_need(view(one) for one in found) == ("default/a", "default/b")


def test_nothing_is_left() -> None:
    found = plan("demo", Remains((), (node("other", site="second"),), (), None, {"second.json": ""}, {}), "")

    assert (found.empty, found.directory) == (True, "demo.*")


def test_what_a_lease_says() -> None:
    held = lease("agent", at("09:00:00"), version="12")

    assert [(holder(one), lasts(one), version(one)) for one in (held, None)] == [("agent", 15, "12"), ("", 0, "")]
