"""Everything that a Job meets on its way: a control plane, the webhook, the agent, the embedded queue, and a user.

All are real and each is a process of its own, held by the control plane's keeper, so that nothing outlives the tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from router import names
from router.controlplane.plane import ControlPlane, await_condition
from router.controlplane.processes import Component
from router.controlplane.realnode import is_ready
from router.demo.apiserver import is_ready as answers
from tests.agent.whole import unreliable
from tests.agent.whole.jobs import LABEL, Runs, finished
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import NARROW, SITE, WIDE, Site
from tests.agent.whole.waiting import until

NAMESPACE = "default"
LEASE_SECONDS = 3
COMMAND_SECONDS = 15
"""After which the agent gives a command up. Short, so that a late answer is one; a busy machine answers sooner."""
LEADS, WAITS = "leading", "waiting to lead"
"""How the lines begin that an agent logs when it has become the leader, and when it begins to wait for that."""
LEASE = f"batchgate-{SITE}"
NODES = tuple(names.node_name(SITE, queue) for queue in (WIDE, NARROW))
_TAIL = 60
_ROOT = Path(__file__).parent.parent.parent.parent


class Agent:
    """One agent, started again where it ends by itself, as a Deployment or systemd would; what a test kills stays dead.

    It ends by itself when it has lost the lead, for one.
    """

    def __init__(self, component: Component) -> None:
        self.component = component
        self.wanted = False
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """Its identity in the Lease begins so."""
        return self.component.name

    @property
    def pid(self) -> int:
        return self.component.pid

    @property
    def running(self) -> bool:
        return self.component.running

    def start(self) -> None:
        with self._lock:
            self.wanted = True
            self.component.start()

    def keep(self) -> None:
        """Start it again where it has ended though it is wanted."""
        with self._lock:
            if self.wanted and not self.component.running:
                self.component.start()

    def kill(self) -> None:
        """SIGKILL, also of one that is stopped; nothing where there is none."""
        self._end(signal.SIGKILL, 10)

    def terminate(self) -> int:
        """SIGTERM, and the exit code; minus 9 where it had to be killed in the end."""
        return self._end(signal.SIGTERM, 30)

    def _end(self, number: int, seconds: float) -> int:
        with self._lock:
            self.wanted = False
            return self.component.end(number, seconds) if self.component.running else 0

    def pause(self) -> None:
        """SIGSTOP: it does nothing until ``resume``, and does not know it."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def lines(self) -> list[dict[str, Any]]:
        """Its log, of all of its processes; a line that a kill cut short is left out."""
        found = []
        for line in self.component.log.read_text(errors="replace").splitlines() if self.component.log.exists() else ():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            found.append(value)
        return found

    def logged(self, message: str) -> list[dict[str, Any]]:
        """Its lines whose message begins so."""
        return [line for line in self.lines() if str(line.get("message", "")).startswith(message)]


@dataclass
class Stack:
    """What a test has. ``user`` may edit the namespace, and no more."""

    plane: ControlPlane
    site: Site
    user: Kubectl
    admin: Kubectl
    webhook: Component
    agent: Agent
    standby: Agent
    signing_key: Path
    """The webhook's."""
    kept: list[Agent] = field(default_factory=list)
    """What is started again where it ends by itself: a busy machine may be too late to renew the Lease."""
    notes: list[str] = field(default_factory=list)
    """What a test wants to be shown where it fails."""

    @property
    def runs(self) -> Runs:
        return self.site.runs

    def await_nodes(self) -> None:
        """Until the virtual Nodes are there and Ready, and the user is known to the webhook's namespace."""
        until(lambda: [name for name in NODES if not is_ready(self.plane, name)], lambda missing: not missing)

    def make_well(self) -> None:
        """Whatever a test did: everything runs, one agent alone, and the queue answers."""
        self.site.local("faults", "none")
        unreliable.forget(self.site.faults)
        for name, part in self.plane.components.items():
            if not part.running:
                self.plane.start(name)
        self.standby.kill()
        if self.agent.wanted:
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself, and is started again
                self.agent.resume()
        else:
            self.agent.start()

    def job(self, name: str) -> dict[str, Any]:
        """A Job that exists."""
        found = self.user.get("job", name)
        assert found is not None, f"there is no Job {name}"
        return found

    def pods(self, job: str = "") -> list[dict[str, Any]]:
        """The Pods of a Job, the oldest first; of all Jobs where none is named."""
        chosen = f"{LABEL}={job}" if job else LABEL
        return sorted(self.user.every("pods", chosen), key=lambda pod: pod["metadata"]["creationTimestamp"])

    def pod(self, job: str) -> dict[str, Any]:
        """The one Pod of a Job, once it is there."""
        (found,) = until(lambda: self.pods(job), lambda pods: len(pods) == 1, what=f"for one Pod of {job}")
        return found

    def await_started(self, *jobs: str) -> None:
        """Until the main container of each of these Jobs runs."""
        until(lambda: [job for job in jobs if not self.runs.started(job)], lambda left: not left, what="for starts")

    def await_submitted(self, *jobs: str) -> None:
        """Until each of these Jobs has a batch job."""
        until(lambda: [job for job in jobs if not self.site.of(job)], lambda left: not left, what="for batch jobs")

    def await_running(self, *jobs: str) -> None:
        """Until Kubernetes knows that the main container of each of these Jobs runs."""
        for job in jobs:
            until(partial(self._is_running, job), what=f"for {job} to be seen running")

    def _is_running(self, job: str) -> bool:
        statuses = [one for pod in self.pods(job) for one in pod["status"].get("containerStatuses", ())]
        return any("running" in one["state"] for one in statuses)

    def await_phase(self, job: str, phase: str) -> dict[str, Any]:
        """The one Pod of a Job, once it is in that phase."""
        return until(lambda: self.pod(job), lambda pod: pod["status"]["phase"] == phase, what=f"for {job} {phase}")

    def await_end(self, *jobs: str, seconds: float = 120) -> list[str]:
        """How each of these Jobs ended: ``Complete`` or ``Failed``."""

        def look() -> dict[str, str]:
            every = {job["metadata"]["name"]: finished(job) for job in self.user.every("jobs", LABEL)}
            return {job: every.get(job, "gone") for job in jobs}

        ended = until(look, lambda seen: all(seen.values()), what="for the end of Jobs", seconds=seconds)
        return [ended[job] for job in jobs]

    def await_logs(self, logs: Mapping[str, str]) -> None:
        """Until ``kubectl logs`` shows just this of each of these Jobs: whoever leads may wait for its certificate."""
        for job, text in logs.items():
            until(partial(self.user.run, "logs", f"job/{job}"), lambda done: done.out == text, what=f"for {job}'s logs")  # noqa: B023

    def await_gone(self, *jobs: str, seconds: float = 120) -> None:
        """Until nothing is left of these Jobs: in Kubernetes, in the queue, and of their processes."""
        until(lambda: self.left(*jobs), lambda left: not left, what="for nothing left", seconds=seconds)

    def left(self, *jobs: str) -> list[str]:
        """What is left of these Jobs."""
        objects = [f"job {job['metadata']['name']}" for job in self.user.every("jobs", LABEL) if _of(job, jobs)]
        pods = [f"pod {pod['metadata']['name']}" for pod in self.pods() if _of(pod, jobs)]
        batch = [f"batch job {one.job_id} {one.state}" for job in jobs for one in self.site.living(job)]
        return objects + pods + batch + [words for words in self.runs.alive() if any(job in words for job in jobs)]

    def settle(self) -> None:
        """Delete every Job, and see that nothing is left anywhere."""
        self.user.ok("delete", "jobs,cronjobs", "-l", LABEL, "--wait=false")
        until(self._remains, lambda left: not left, what="for nothing left after the test")

    def _remains(self) -> list[str]:
        pods = [f"pod {pod['metadata']['name']}" for pod in self.pods()]
        jobs = [f"job {job['metadata']['name']}" for job in self.user.every("jobs", LABEL)]
        batch = [f"batch job {one.job_id} {one.name} {one.state}" for one in self.site.living()]
        return pods + jobs + batch + self.runs.alive()

    def let_go(self, *jobs: str) -> None:
        """End the wait of Jobs whose body is ``waiting``."""
        for job in jobs:
            (self.runs.directory / f"{job}.go").touch()

    def waiting(self, job: str, *, then: str = "true") -> str:
        """A body that goes on when it is let go; no time is slept."""
        return f"while [ ! -e {self.runs.directory / job}.go ]; do sleep 0.1; done\n{then}"

    def tell(self) -> str:
        """All that helps to see why a test failed."""
        parts = {
            "notes": "\n".join(self.notes),
            "Jobs": self.admin.run("describe", "jobs", "-l", LABEL).out,
            "Pods": self.admin.run("describe", "pods", "-l", LABEL).out,
            "Nodes": self.admin.run("get", "nodes", "-o", "wide").out,
            "the queue": _local(self.site, "qstat", "-x", "-f"),
            "the agent's log": tail(self.agent.component.log),
            "the standby's log": tail(self.standby.component.log),
            "the webhook's log": tail(self.webhook.log),
            "processes": "\n".join(self.runs.alive()),
        }
        return "\n".join(f"--- {title}\n{text}" for title, text in parts.items() if text)


def _of(thing: dict[str, Any], jobs: Sequence[str]) -> bool:
    return thing["metadata"]["labels"][LABEL] in jobs


def _local(site: Site, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "router.local", *words], env=site.environment(), capture_output=True, text=True,
        timeout=30, check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


def tail(log: Path) -> str:
    """The last lines of a log."""
    if not log.exists():
        return ""
    return "\n".join(log.read_text(errors="replace").splitlines()[-_TAIL:])


def await_webhook(part: Component, ca_file: Path) -> str:
    """The URL of a webhook that was started, once it is ready."""
    found = until(lambda: _address(part), what="for the webhook's address")
    url = f"https://localhost:{found.rpartition(':')[2]}"
    await_condition(part, lambda: answers(f"{url}/readyz", ca_file))
    return url


def _address(part: Component) -> str:
    lines = [json.loads(line) for line in part.log.read_text().splitlines()] if part.log.exists() else []
    return next((line["address"] for line in lines if line["message"] == "listening"), "")


def webhook_argv(site: Site, certificates: Path, kubeconfig: Path) -> list[str]:
    """The command line of a webhook."""
    options = {
        "--listen": "127.0.0.1:0",
        "--host-name": "localhost",
        "--cert": certificates / "tls.crt",
        "--key": certificates / "tls.key",
        "--signing-key": certificates / "signing.key",
        "--policy": site.policy,
        "--kubeconfig": kubeconfig,
    }
    return [sys.executable, "-m", "router", "webhook", *(str(word) for pair in options.items() for word in pair)]


def agent_argv(site: Site, kubeconfig: Path, public_key: Path, identity: str, name: str = SITE) -> list[str]:
    """The command line of an agent, with the times of these tests."""
    options = {
        "--site": name,
        "--policy": site.policy,
        "--public-key": public_key,
        "--kubeconfig": kubeconfig,
        "--identity": identity,
        "--listen": "127.0.0.1:0",
        "--metrics": "127.0.0.1:0",
        "--address": "127.0.0.1",
        "--certificates": site.root / f"{identity}-certificates",
        "--lease-seconds": LEASE_SECONDS,
        "--node-lease-seconds": 12,
        "--cycle-seconds": 2,
        "--quick-seconds": 1,
        "--command-seconds": COMMAND_SECONDS,
        "--orphan-seconds": 5,
        "--lost-seconds": 60,
        "--local-state": site.queue,
        "--local-commands": f"{sys.executable} {Path(unreliable.__file__)} {site.faults}",
    }
    return [sys.executable, "-m", "router", "agent", *(str(word) for pair in options.items() for word in pair)]


def component(plane: ControlPlane, name: str, argv: Sequence[str], site: Site, **more: str) -> Component:
    """A program of ours under the plane's keeper, with more variables; its log lies beside the plane's."""
    environment = {**site.environment(), "HOME": str(site.root), **more}
    return Component(name, argv, plane.place.logs, environment, plane.keeper)
