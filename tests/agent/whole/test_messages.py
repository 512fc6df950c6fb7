"""A program's last word: what a kubelet shows of it, the agent shows as well."""

from __future__ import annotations

from typing import Any

import pytest

from router.controlplane import realnode
from tests.agent.whole.jobs import BUSY, IMAGE, job_of, unique
from tests.agent.whole.stack import Stack

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(realnode.obstacle()), reason=f"no real node of the cloud: {realnode.obstacle()}"),
]
FALLBACK = {"terminationMessagePolicy": "FallbackToLogsOnError"}
COUNTING = "i=0; while [ $i != 100 ]; do echo line $((i+=1)); done; exit 1"


def messages(stack: Stack, cpus: int, containers: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What the containers of a Job's Pod said last."""
    name = unique("words")
    given: list[dict[str, Any]] = [{"name": key, "image": IMAGE, **fields} for key, fields in containers.items()]
    given[0]["resources"] = {"requests": {"cpu": str(cpus)}}
    stack.user.apply(job_of(name, given, pod={}, annotations={}))
    stack.await_end(name)
    states = {one["name"]: one["state"]["terminated"] for one in stack.pod(name)["status"]["containerStatuses"]}
    return {key: state.get("message", "") for key, state in states.items()}


def sh(line: str, **fields: Any) -> dict[str, Any]:
    return {"command": ["/bin/sh", "-c", line], **fields}


def test_the_end_of_a_log_is_the_same_on_a_real_node(stack: Stack) -> None:
    containers = {
        "well": sh("echo well", **FALLBACK),
        "lines": sh(COUNTING, **FALLBACK),
        "wide": sh("printf %04000d 0; exit 1", **FALLBACK),
        "quiet": sh("exit 2", **FALLBACK),
        "plain": sh("echo log; exit 3"),
        "asked": sh("echo log >&2; exit 3", **FALLBACK),
    }

    on_hpc = messages(stack, BUSY, containers)

    assert on_hpc == messages(stack, 0, containers)
    assert {key: len(value) for key, value in on_hpc.items()} == {
        "well": 0, "lines": 79 * len("line 21\n") + len("line 100\n"), "wide": 2048, "quiet": 0, "plain": 0, "asked": 4
    }  # fmt: skip


def test_what_a_real_node_reads_from_a_file(stack: Stack) -> None:
    """The rules that ``tests/script/test_messages.py`` holds the script to."""
    file = {"terminationMessagePath": "/why"}
    containers = {
        "long": sh("printf %05000d 0 >/why; printf end >>/why", **file),
        "own": sh("echo log; printf own >/why; exit 1", **file, **FALLBACK),
    }

    assert messages(stack, 0, containers) == {"long": "0" * 4093 + "end", "own": "own"}
