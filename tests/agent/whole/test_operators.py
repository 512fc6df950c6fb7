"""What operators are told of a running system, by the commands themselves: status, describe, forget."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from router import __version__, names
from router.policy import inforce
from tests.agent.whole.jobs import unique
from tests.agent.whole.kubectl import Kubectl, Run
from tests.agent.whole.site import NARROW, ROUTE_NARROW, SITE, USER, WIDE
from tests.agent.whole.stack import LEASE, NODES, Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
NARROWLY = {"queue": ROUTE_NARROW}


def batchgate(person: Kubectl, *words: str) -> Run:
    """One command to its end, as that person."""
    home = {"HOME": str(person.home), "KUBECONFIG": str(person.kubeconfig), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-m", "router", *words], env=home, capture_output=True, text=True, timeout=400, check=False,
        stdin=subprocess.DEVNULL, cwd=Path(__file__).parents[3],
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)


def told(person: Kubectl, *words: str) -> dict[str, Any]:
    """The JSON that a command prints, which must succeed."""
    done = batchgate(person, *words, "-o", "json")
    assert done.rc == 0, done
    found: dict[str, Any] = json.loads(done.out)
    return found


def narrow(stack: Stack, name: str, body: str) -> dict[str, Any]:
    job = stack.runs.job(name, body)
    job["metadata"]["labels"] |= NARROWLY
    return job


def test_a_job_that_ended_one_that_waits_and_one_that_was_refused(stack: Stack) -> None:
    first, waits, ended, refused = (unique(name) for name in ("first", "waits", "ended", "refused"))
    stack.user.apply(stack.runs.job(ended, "exit 3"))
    assert stack.await_end(ended) == ["Failed"]
    stack.user.apply(narrow(stack, first, stack.waiting(first)))
    stack.await_running(first)
    stack.user.apply(narrow(stack, waits, stack.waiting(waits)))
    stack.await_submitted(waits)
    with stack.site.short(WIDE, 30):
        stack.user.apply(stack.runs.job(refused))
        assert stack.await_end(refused) == ["Failed"]
    until(lambda: stack.pod(waits)["status"].get("reason"), lambda reason: reason == "Queued", what="for Queued")
    until(lambda: told(stack.admin, "status", SITE)["queues"][0]["queuedJobs"], lambda n: n == 1, what="for figures")

    # Of the Lease, which is short here, also a leader may for a moment be late.
    found = until(
        lambda: told(stack.admin, "status", SITE),
        lambda seen: [one["inForce"] for one in seen["leaders"]] == [True],
        what="for a leader",
    )

    assert [(one["queue"], one["state"], one["reason"]) for one in found["queues"]] == [
        (NARROW, "open", ""),
        (WIDE, "open", ""),
    ]
    assert {(one["state"], one["count"]) for one in found["jobs"]} == {("running", 1), ("waiting", 1), ("failed", 2)}
    assert (found["oldestWaiting"]["name"], found["oldestWaiting"]["queue"]) == (waits, NARROW)
    assert [(one["job"], one["reason"]) for one in found["stuck"]] == [(refused, names.REASON_REFUSED)]
    assert [(one["site"], one["holder"].split("_")[0], one["inForce"]) for one in found["leaders"]] == [
        (SITE, stack.agent.name, True)
    ]
    assert found["notLookedAt"] == []
    table = batchgate(stack.admin, "status")
    assert (table.rc, "Traceback" in table.out + table.err) == (0, False)
    assert all(word in table.out for word in (waits, refused, NARROW, stack.agent.name))

    check_what_is_told_of_jobs(stack, ended, waits, refused)
    check_what_a_user_may_see(stack)
    stack.let_go(first, waits)


def check_what_is_told_of_jobs(stack: Stack, ended: str, waits: str, refused: str) -> None:
    story = told(stack.admin, "describe", ended, "-n", "default", "--policy", str(stack.site.policy))
    (pod,) = story["pods"]
    assert (story["state"], story["failed"]) == ("failed", 1)
    assert (story["decision"]["rule"], story["decision"]["requester"], story["decision"]["queue"]) == (
        "busy",
        USER,
        WIDE,
    )
    assert [(one["exitCode"], one["reason"]) for one in pod["containers"]] == [(3, "Error")]
    assert all(pod[key] for key in ("batchJob", "created", "queued", "started", "ended", "exit"))
    assert {"Submitted", "Started"} <= {one["reason"] for one in story["events"]}
    (on_site,) = story["onSite"]
    assert on_site["problem"] == ""
    assert {"script", "log/main.0", "exit/main.0"} <= {one["path"] for one in on_site["files"]}

    story = told(stack.admin, "describe", waits, "-n", "default")
    assert (story["state"], story["pods"][0]["phase"], story["pods"][0]["reason"]) == ("waiting", "Pending", "Queued")
    assert story["pods"][0]["ended"] == ""
    assert "--policy" in story["onSite"][0]["problem"]

    story = told(stack.admin, "describe", refused, "-n", "default")
    assert (story["state"], story["pods"][0]["reason"]) == ("failed", names.REASON_REFUSED)
    assert names.REASON_REFUSED in {one["reason"] for one in story["events"]}
    text = batchgate(stack.admin, "describe", refused, "--policy", str(stack.site.policy))
    assert (text.rc, "Refused" in text.out) == (0, True), text


def check_what_a_user_may_see(stack: Stack) -> None:
    """Somebody who may edit one namespace: that namespace is shown, and a sentence stands for each of the rest."""
    found = told(stack.user, "status")
    assert {one["state"] for one in found["jobs"]} == {"running", "waiting", "failed"}
    assert (found["queues"], found["leaders"], found["webhook"]) == ([], [], None)
    missed = [sentence.partition(" could not be looked at: ") for sentence in found["notLookedAt"]]
    assert [what for what, _, _ in missed] == [
        "the state of queues",
        "what each replica of the webhook publishes about itself",
        "the Nodes of queues",
        "the agents' Leases",
        "jobs of all namespaces",
        "pods of all namespaces",
        "events of all namespaces",
        "the webhook's Deployment",
        "the webhook's Pods",
        "certificate requests",
        "the policy",
        "the checks of sites",
        "which Jobs the API server sends to the webhook",
    ]
    assert all("forbidden" in why for _, _, why in missed)
    missing = batchgate(stack.user, "describe", "no-such-job")
    assert (missing.rc, missing.err.count("\n")) == (2, 1), missing


def test_the_releases_that_run_are_told_and_those_that_are_too_far_apart(stack: Stack) -> None:
    own = {"release": __version__}
    agent = {"program": "agent", "name": SITE, **own}

    found = until(
        lambda: told(stack.admin, "version", "--server"),
        lambda seen: len(seen["cluster"]["programs"]) == 2,
        what="for both",
    )
    webhook, second = found["cluster"]["programs"]
    assert (webhook, second) == ({"program": "webhook", "name": webhook["name"], **own}, agent)
    assert (found["version"], found["cluster"]["warnings"]) == (__version__, [])
    assert found["cluster"]["kubernetes"].startswith("v1.")
    assert f"Releases: all are {__version__}\n" in batchgate(stack.admin, "status").out

    later = f"0.{int(__version__.split('.')[1]) + 2}.0"
    other = {"other.json": inforce.document(inforce.InForce(time.time(), "", release=later))}
    system = stack.admin.elsewhere(names.SYSTEM_NAMESPACE)
    patch = ("patch", "configmap", names.POLICY_STATE_CONFIG_MAP, "-p")
    system.ok(*patch, json.dumps({"data": other}))
    try:
        apart = f"webhook other {later} and agent {SITE} {__version__} are more than one release apart"
        for command in (("version",), ("status",)):
            done = batchgate(stack.admin, *command)
            assert (done.rc, f"Warning: {apart}" in done.err, f"other {later}".split()[1] in done.out) == (
                0,
                True,
                True,
            )
    finally:
        system.ok(*patch, json.dumps({"data": dict.fromkeys(other)}))

    seen = batchgate(stack.user, "version")
    assert (seen.rc, "No webhook and no agent is to be seen" in seen.out) == (0, True)
    assert "could not be looked at" in seen.err


def test_a_site_that_is_gone_is_forgotten(stack: Stack) -> None:
    runs, waits = unique("runs"), unique("waits")
    stack.user.apply(narrow(stack, runs, stack.waiting(runs)))
    stack.await_running(runs)
    stack.user.apply(narrow(stack, waits, stack.waiting(waits)))
    stack.await_submitted(waits)

    refused = batchgate(stack.admin, "forget", SITE, "--yes")
    assert (refused.rc, "leads" in refused.err) == (2, True), refused
    refused = batchgate(stack.user, "forget", SITE, "--yes")
    assert (refused.rc, "Nodes of queues" in refused.err, "nothing was done" in refused.err) == (2, True, True), refused
    stack.agent.kill()
    assert batchgate(stack.admin, "forget", SITE).rc == 2  # no terminal, no --yes
    plan = told(stack.admin, "forget", SITE, "--dry-run")
    assert sorted(one["name"] for one in plan["jobs"]) == sorted([runs, waits])
    assert stack.admin.get("node", NODES[0]) is not None

    found = told(stack.admin, "forget", SITE, "--yes")

    assert found["problems"] == []
    assert sorted(found["batchJobs"]) == sorted(one.job_id for one in stack.site.living())
    assert [stack.admin.get("node", name) for name in NODES] == [None, None]
    system = stack.admin.elsewhere(names.SYSTEM_NAMESPACE)
    assert system.get("lease", LEASE) is None
    assert f"{SITE}.json" not in (system.get("configmap", names.QUEUES_CONFIG_MAP) or {}).get("data", {})
    until(stack.pods, lambda pods: all(one["status"]["phase"] == "Failed" for one in pods), what="for no living Pod")
    assert [stack.job(name)["spec"]["suspend"] for name in (runs, waits)] == [True, True]
    assert batchgate(stack.admin, "status", SITE).rc == 0  # its Jobs are there still

    stack.agent.start()
    stack.await_nodes()
    stack.let_go(runs, waits)
