"""Hooks, probes and restart rules, from ``kubectl apply`` to what kubectl shows of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.agent.whole.jobs import unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)


def execs(text: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/bash", "-c", text]}, **fields}


def status(stack: Stack, name: str) -> dict[str, Any]:
    found: dict[str, Any] = (stack.pod(name)["status"].get("containerStatuses") or [{}])[0]
    return found


def shown(stack: Stack, name: str) -> tuple[Any, Any, Any]:
    """Whether its container is ready, has started, and what the Pod's condition Ready is."""
    found = stack.pod(name)["status"]
    conditions = {one["type"]: one["status"] for one in found.get("conditions", ())}
    one = (found.get("containerStatuses") or [{}])[0]
    return one.get("ready"), one.get("started"), conditions.get("Ready")


def told(stack: Stack, name: str) -> set[tuple[str, str]]:
    pod = stack.pod(name)["metadata"]["name"]
    chosen = f"involvedObject.name={pod}"
    events = json.loads(stack.user.ok("get", "events", "--field-selector", chosen, "-o", "json"))["items"]
    return {(event["reason"], event["message"]) for event in events}


def test_a_container_that_a_probe_ends_runs_again_within_its_batch_job(stack: Stack) -> None:
    """The program ends with 0 when it is asked to, which would be its success if it had ended by itself."""
    name = unique("unhealthy")
    flag, up = (stack.runs.directory / f"{name}.{word}" for word in ("flag", "up"))
    body = f"[[ ! -e {flag} ]] || exit 0\ntrap 'exit 0' TERM\n: >{up}\nwhile :; do sleep 0.1; done"
    # The first probe may come before the program's first line, which is not to see what the probe leaves.
    broken = f"[[ -e {up} ]] || builtin exit 0; echo broken; : >{flag}; builtin exit 1"
    probe = execs(broken, periodSeconds=1, timeoutSeconds=20, failureThreshold=2)
    job = stack.runs.job(name, body, pod={"restartPolicy": "OnFailure"})
    job["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe

    stack.user.apply(job)

    assert stack.await_end(name) == ["Complete"]
    assert (status(stack, name)["restartCount"], stack.runs.started(name)) == (1, 2)
    until(
        lambda: (
            {
                ("Unhealthy", "Liveness probe failed: broken"),
                ("Killing", "Container main failed liveness probe, will be restarted"),
            }
            <= told(stack, name)
        ),
        what="the Events",
    )


def test_ready_and_started_are_what_the_probes_say(stack: Stack) -> None:
    name = unique("slow")
    up, good = (stack.runs.directory / f"{name}.{word}" for word in ("up", "good"))
    job = stack.runs.job(name, stack.waiting(name))
    job["spec"]["template"]["spec"]["containers"][0] |= {
        "startupProbe": execs(f"[[ -e {up} ]]", periodSeconds=1, failureThreshold=300),
        "readinessProbe": execs(f"[[ -e {good} ]]", periodSeconds=1, failureThreshold=1),
    }

    stack.user.apply(job)
    stack.await_running(name)

    until(lambda: shown(stack, name) == (False, False, "False"), what="a container that starts")
    up.touch()
    until(lambda: shown(stack, name) == (False, True, "False"), what="one that has started")
    good.touch()
    until(lambda: shown(stack, name) == (True, True, "True"), what="one that is ready")
    good.unlink()
    until(lambda: shown(stack, name) == (False, True, "False"), what="one that no longer is")
    stack.let_go(name)
    assert stack.await_end(name) == ["Complete"]


def test_a_containers_own_rules_have_it_run_again(stack: Stack) -> None:
    name = unique("ruled")
    flag = stack.runs.directory / f"{name}.flag"
    job = stack.runs.job(name, f"[[ ! -e {flag} ]] || exit 0\n: >{flag}\nexit 42")
    job["spec"]["template"]["spec"]["containers"][0] |= {
        "restartPolicy": "Never",
        "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
    }

    applied = stack.user.apply(job)

    assert "This Job goes to HPC" in applied.err
    assert stack.await_end(name) == ["Complete"]
    found = status(stack, name)
    assert (found["restartCount"], found["lastState"]["terminated"]["exitCode"]) == (1, 42)
