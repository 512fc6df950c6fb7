"""Jobs for the bed, and what people see of them."""

from __future__ import annotations

import json
import secrets
import subprocess
from typing import Any

from tests.agent.whole.jobs import LABEL, finished, job_of
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import until

SECONDS = 240.0
"""A job starts within seconds; the bed's machine does other things as well."""


def job(text: str, **spec: Any) -> dict[str, Any]:
    """A Job that goes to HPC."""
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["/bin/sh", "-c", text],
        "resources": {"requests": {"cpu": "2", "memory": "64Mi"}},
    }
    pod = spec.pop("pod", {})
    return job_of(f"bed-{secrets.token_hex(4)}", [container], pod=pod, annotations={}, **spec)


def apply(who: Kubectl, made: dict[str, Any]) -> str:
    """Apply a Job; its name."""
    who.ok("apply", "-f", "-", stdin=json.dumps(made))
    return str(made["metadata"]["name"])


def pod_of(who: Kubectl, name: str) -> dict[str, Any]:
    """The Job's one Pod."""
    (found,) = until(lambda: who.every("pods", f"{LABEL}={name}"), lambda pods: len(pods) == 1, what=f"Pod of {name}")
    return found


def is_running(who: Kubectl, name: str) -> bool:
    statuses = pod_of(who, name)["status"].get("containerStatuses", [])
    return any("running" in one["state"] for one in statuses)


def processes(user: str, word: str) -> list[str]:
    """Command lines of a user's processes with this word."""
    done = subprocess.run(["pgrep", "-u", user, "-a", "-f", word], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def job_id(who: Kubectl, name: str) -> str:
    """The batch job of a Job's one Pod, once it is noted there."""
    found = until(lambda: pod_of(who, name)["metadata"]["annotations"].get("batchgate.dev/job-id", ""), seconds=SECONDS)
    return str(found)


def end_of(who: Kubectl, name: str) -> str:
    """``Complete`` or ``Failed``, waited for."""
    return until(
        lambda: finished(who.get("job", name) or {}), seconds=SECONDS, what=f"{name}: {pod_of(who, name)['status']}"
    )


def exit_code(who: Kubectl, name: str) -> int:
    state = pod_of(who, name)["status"]["containerStatuses"][0]["state"]
    return int(state["terminated"]["exitCode"])


def printed(who: Kubectl, name: str) -> list[str]:
    """What the program has printed. A runtime from another release warns of the machine's libraries first."""
    return [line for line in who.ok("logs", f"job/{name}").splitlines() if "weak version" not in line]
