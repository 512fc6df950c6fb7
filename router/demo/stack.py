"""Starts the webhook, the agent and the embedded queue on a control plane, for demo, benchmarks and make control-plane.

Shell: processes under the control plane's keeper, so that none outlives it.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from router.controlplane import installing, ports
from router.controlplane.plane import ControlPlane, await_condition
from router.controlplane.processes import Component
from router.demo import services
from router.demo.apiserver import is_ready
from router.demo.site import RESULTS, queue_definitions, site_name
from router.hpc import Commands

GRACE: Final = 10.0
START_SECONDS: Final = 120
"""Time for webhook and agent to become ready: two seconds on an idle machine, more on a busy one."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Everything that runs. ``results`` is the directory to which the agent brings results."""

    plane: ControlPlane
    commands: Commands
    webhook: Component
    agent: Component
    results: Path


@dataclass(frozen=True, slots=True)
class Places:
    """The directories of a stack. ``queue`` must have a short path, as it holds a unix socket."""

    work: Path
    queue: Path
    policy: Path
    namespaces: tuple[str, ...] = ("default",)
    agent_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def results(self) -> Path:
        """The directory of results, as in the policy."""
        return self.work / RESULTS


@contextmanager
def stack(plane: ControlPlane, places: Places) -> Iterator[Stack]:
    """Start everything and wait until it is ready; the queue's jobs and the programs end with the block."""
    places.results.mkdir(parents=True, exist_ok=True)
    with services.queue(places.queue, queue_definitions(places.policy)) as commands:
        running = start(plane, places, commands)
        try:
            yield running
        finally:
            running.agent.end()
            running.webhook.end()


def start(plane: ControlPlane, places: Places, commands: Commands) -> Stack:
    """Start webhook and agent, and leave them running."""
    installing.install(plane)
    webhook, url = _webhook(plane, places)
    installing.register(plane, url, places.work / "webhook" / "ca.crt", places.namespaces)
    agent = _agent(plane, places)
    return Stack(plane, commands, webhook, agent, places.results)


def _webhook(plane: ControlPlane, places: Places) -> tuple[Component, str]:
    directory = places.work / "webhook"
    services.batchgate("certs", "create", str(directory), "--host-name", "localhost", "--signing-key")
    (port,) = ports.free(1, "127.0.0.1")
    options = {
        "--listen": f"127.0.0.1:{port}",
        "--host-name": "localhost",
        "--cert": str(directory / "tls.crt"),
        "--key": str(directory / "tls.key"),
        "--signing-key": str(directory / "signing.key"),
        "--policy": str(places.policy),
        "--kubeconfig": str(installing.webhook(plane)),
    }
    component = _component(plane, places, "webhook", options)
    url = f"https://localhost:{port}"
    component.start()
    await_condition(component, lambda: is_ready(f"{url}/readyz", directory / "ca.crt"), START_SECONDS)
    return component, url


def _agent(plane: ControlPlane, places: Places) -> Component:
    (port,) = ports.free(1, "127.0.0.1")
    options = {
        "--site": site_name(places.policy),
        "--policy": str(places.policy),
        "--public-key": str(places.work / "webhook" / "signing.pub"),
        "--kubeconfig": str(installing.agent(plane)),
        "--listen": "127.0.0.1:0",
        "--metrics": f"127.0.0.1:{port}",
        "--address": "127.0.0.1",
        # The agent restarts at each change of the policy, but a second certificate request would not be approved.
        "--certificates": str(places.work / "agent" / "certificates"),
        "--local-state": str(places.queue),
        **places.agent_options,
    }
    component = _component(plane, places, "agent", options)
    component.start()
    await_condition(component, lambda: _answers(f"http://127.0.0.1:{port}/readyz"), START_SECONDS)
    installing.approve(plane)
    return component


def _component(plane: ControlPlane, places: Places, name: str, options: Mapping[str, str]) -> Component:
    words = [word for pair in options.items() for word in pair]
    environment = environment_of(os.environ, places.work)
    directory = places.work / name
    directory.mkdir(exist_ok=True)
    return Component(name, [sys.executable, "-m", "router", name, *words], directory, environment, plane.keeper, GRACE)


def environment_of(caller: Mapping[str, str], home: Path) -> dict[str, str]:
    """What a program of the stack gets of its caller's: where programs are, and where traces go."""
    traces = {name: value for name, value in caller.items() if name.startswith("OTEL_")}
    return {"PATH": caller.get("PATH", os.defpath), "HOME": str(home), **traces}


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - always http, on loopback
            json.loads(reply.read() or b"{}")
            return True
    except (OSError, ValueError):
        return False
