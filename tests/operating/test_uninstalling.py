"""What stands against taking Batchgate off a cluster, and what is deleted in which order."""

from __future__ import annotations

from typing import Any

from router.operating.jobs import JobFacts
from router.operating.uninstalling import Deletion, Found, leaving, plan, plan_registrations
from router.pod.view import view

Json = dict[str, Any]
SYSTEM = "batchgate-system"
KEPT = f"/api/v1/namespaces/{SYSTEM}/secrets/batchgate-webhook-tls"


def named(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name}, **more}


def job(name: str, finished: str = "", deleting: bool = False) -> JobFacts:
    return JobFacts("physics", name, "u", "hpc", "demo", "batch", 0, finished, deleting, False, 0, 0, 0)


def pod(name: str, phase: str, owner: str = "Job", deleting: bool = False) -> Any:
    owners = [
        {
            "kind": owner,
            "name": "o",
            "uid": "u",
            "controller": True,
            "apiVersion": {"Job": "batch/v1", "DaemonSet": "apps/v1"}[owner],
        }
    ]
    metadata = {"name": name, "namespace": "physics", "uid": name, "ownerReferences": owners}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return view({"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}})


def found(**changes: Any) -> Found:
    values: Json = {
        "registrations": (named("batchgate", kind="MutatingWebhookConfiguration"),),
        "nodes": (named("b.demo.batchgate", spec={"providerID": "batchgate://demo/b"}), named("virtual-of-others")),
        "jobs": (job("over", "Complete"),),
        # That of a DaemonSet, which runs nothing there, goes with its Node.
        "pods": (pod("over", "Succeeded"), pod("kube-proxy-1", "Running", "DaemonSet")),
        "leases": (named("batchgate-demo"), named("others")),
        "node_leases": (named("b.demo.batchgate"), named("worker")),
        "requests": (named("batchgate-kubelet-1"),),
        "accounts": (Deletion("/binding", "ClusterRoleBinding x"), Deletion("/account", "ServiceAccount x")),
        "kept": (KEPT,),
        "deployed": (),
        "gated": ("physics",),
    }
    return Found(**{**values, **changes})


def test_the_registration_goes_first_and_only_what_is_ours() -> None:
    made = plan(found(), SYSTEM, [])

    assert made.against == ()
    assert [one.path for one in made.deletions] == [
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/batchgate",
        "/api/v1/nodes/b.demo.batchgate",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/b.demo.batchgate",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests/batchgate-kubelet-1",
        "/binding",
        "/account",
        f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/batchgate-demo",
        KEPT,
    ]


def test_what_processes_would_make_again_stays_until_they_are_gone() -> None:
    made = plan(found(deployed=("batchgate-webhook",)), SYSTEM, [])

    assert [one.path.rpartition("/")[2] for one in made.deletions] == [
        "batchgate",
        "b.demo.batchgate",
        "b.demo.batchgate",
        "batchgate-kubelet-1",
        "binding",
        "account",
    ]
    assert [one.partition(":")[0].partition(",")[0] for one in made.then] == [
        "Now take away what you installed",
        f"Where namespace {SYSTEM} stays",
        "The label batchgate.dev/gate has no effect any more on namespaces physics",
    ]


def test_nothing_goes_while_something_routed_lives_or_an_agent_runs() -> None:
    alive = found(jobs=(job("solve"), job("over", "Failed")), pods=(pod("solve-x", "Running"), pod("y", "Failed")))

    made = plan(alive, SYSTEM, ["login1_ab12"])

    assert [one.partition(".")[0] for one in made.against] == [
        "1 routed Jobs have not ended: physics/solve",
        "1 Pods live on virtual nodes: physics/solve-x",
        "the agent login1_ab12 runs, and would make its Nodes again",
    ]


def test_the_registrations_alone_go_while_agents_run_but_not_while_something_lives() -> None:
    made = plan_registrations(found())
    alive = plan_registrations(found(pods=(pod("solve-x", "Running"),)))

    assert (made.against, [one.path.rpartition("/")[2] for one in made.deletions]) == ((), ["batchgate"])
    assert made.then == ("The virtual Nodes stay until `batchgate uninstall` is run, when the agents are gone",)
    assert len(alive.against) == 1


def test_what_is_deleted_already_is_waited_for_unless_something_else_lives() -> None:
    going = {"jobs": (job("solve", deleting=True),), "pods": (pod("solve-x", "Running", deleting=True),)}
    rest = found(jobs=going["jobs"], pods=(*going["pods"], pod("other", "Running")))

    assert leaving(found(**going)) == ("Job physics/solve", "Pod physics/solve-x")
    assert [one.partition(". ")[0] for one in plan_registrations(found(**going)).against] == [
        "deleted, but not ended yet: Job physics/solve, Pod physics/solve-x"
    ]
    assert leaving(rest) == ()
    assert leaving(found()) == ()
