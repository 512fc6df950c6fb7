"""kubectl exec into a Job on the site: as into one on a real node, told by an Event, and never left behind."""

from __future__ import annotations

from typing import Any

import pytest

from router.controlplane import realnode
from tests.agent.whole.jobs import BUSY, IMAGE, job_of, processes, unique
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)
WAITS = "trap 'exit 0' TERM; i=0; while [ $i -lt 300 ]; do echo on; sleep 1; i=$((i+1)); done"


def running(stack: Stack, cpus: int) -> str:
    """The Pod of a Job whose container waits, once it runs."""
    name = unique("entered")
    container: dict[str, Any] = {
        "name": "main",
        "image": IMAGE,
        "command": ["/bin/sh", "-c", WAITS],
        "env": [{"name": "FOO", "value": "a b"}],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    stack.user.apply(job_of(name, [container], pod={}, annotations={}))
    return str(until(lambda: of(stack, name), lambda found: found != ""))


def of(stack: Stack, name: str) -> str:
    """The Pod of a Job whose container runs; empty while there is none."""
    for pod in stack.user.every("pods", f"job-name={name}"):
        if any("running" in one["state"] for one in pod["status"].get("containerStatuses", [])):
            return str(pod["metadata"]["name"])
    return ""


@pytest.mark.skipif(bool(realnode.obstacle()), reason=f"no real node of the cloud: {realnode.obstacle()}")
def test_commands_are_as_on_a_real_node(stack: Stack) -> None:
    on_hpc, in_cloud = running(stack, BUSY), running(stack, 0)
    asked = [
        (("--", "true"), ""),
        (("--", "sh", "-c", 'echo "$FOO"; echo wrong >&2; exit 7'), ""),
        (("-i", "--", "cat"), "through"),
        (("-i", "--", "wc", "-c"), "x" * 300_000),
        (("--", "sh", "-c", "kill -9 $$"), ""),
        (("-c", "other", "--", "true"), ""),
        (("-c", "main", "--", "sh", "-c", "echo $0 $1", "a;b", "$HOME"), ""),
    ]

    def said(pod: str) -> list[tuple[int, str, str]]:
        found = [stack.user.run("exec", pod, *words, stdin=stdin) for words, stdin in asked]
        return [(one.rc, one.out, one.err.replace(pod, "POD")) for one in found]

    assert said(on_hpc) == said(in_cloud)
    stack.user.ok("delete", "jobs", "--all")


def test_who_came_in_is_told_by_an_event_without_arguments(stack: Stack) -> None:
    pod = running(stack, BUSY)

    assert stack.user.ok("exec", pod, "--", "echo", "secret") == "secret\n"
    words = until(lambda: events(stack, pod), lambda found: found != [])
    assert [one.split(" as HPC user ")[0] for one in words] == ['kubectl exec runs "echo" in container main']
    assert "secret" not in stack.agent.component.log.read_text()
    stack.user.ok("delete", "jobs", "--all")


def events(stack: Stack, pod: str) -> list[str]:
    found = stack.user.every("events")
    return [one["message"] for one in found if one["reason"] == "Exec" and one["involvedObject"]["name"] == pod]


@pytest.mark.parametrize("end", ["the Pod", "the agent"])
def test_a_command_ends_with(end: str, stack: Stack) -> None:
    pod = running(stack, BUSY)
    mark = unique("87")[3:]
    with stack.user.start("exec", pod, "--", "sh", "-c", f"trap '' HUP; sleep 600; : {mark}") as command:
        until(lambda: alive(mark), lambda found: found > 1)  # kubectl's own words are one
        if end == "the Pod":
            stack.user.ok("delete", "jobs", "--all", "--wait=false")
        else:
            stack.agent.kill()

        command.communicate(timeout=60)
    until(lambda: alive(mark), lambda found: found == 0)
    if end == "the Pod":
        assert command.returncode == 137
    else:
        stack.agent.start()
    stack.user.ok("delete", "jobs", "--all")


@pytest.mark.parametrize("words", [("exec", "POD", "--", "sh", "-c", "echo on; sleep 600"), ("attach", "POD")])
def test_a_session_that_the_agent_cuts_has_not_succeeded(words: tuple[str, ...], stack: Stack) -> None:
    pod = running(stack, BUSY)
    with stack.user.start(*(pod if word == "POD" else word for word in words)) as session:
        assert session.stdout is not None
        while session.stdout.readline() != "on\n":
            assert session.poll() is None
        stack.agent.terminate()

        said = session.communicate(timeout=60)[0]
    stack.agent.start()
    assert (session.returncode, "the agent of this site ends or begins anew" in said) == (1, True), said
    stack.user.ok("delete", "jobs", "--all")


def alive(mark: str) -> int:
    return sum(mark in words for words, _ in processes())


def test_whoever_may_not_exec_does_not(stack: Stack) -> None:
    pod = running(stack, BUSY)
    stack.plane.kubectl("create", "rolebinding", "sees", "--clusterrole=view", "--user=viewer", "-n", "default")
    try:
        until(lambda: stack.admin.run("get", "pod", pod, "--as=viewer").rc == 0, what="for the role to count")
        said = stack.admin.run("exec", pod, "--as=viewer", "--", "true")
        assert (said.rc, 'cannot create resource "pods/exec"' in said.err) == (1, True), said
    finally:
        stack.plane.kubectl("delete", "rolebinding", "sees", "-n", "default")
    stack.user.ok("delete", "jobs", "--all")
