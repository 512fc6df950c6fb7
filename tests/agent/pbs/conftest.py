"""A control plane, the webhook, and the agent in front of an OpenPBS; skipped, with the reason, where there is none."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.controlplane import installing, programs
from router.controlplane.options import RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.processes import Component
from router.controlplane.realnode import is_ready
from router.controlplane.start import control_plane
from router.demo import services
from router.kube.client import connect
from tests.agent.pbs import server
from tests.agent.pbs.jobs import NAMESPACE
from tests.agent.pbs.site import NODE, RUNS, SHARED, PbsSite, node_of, obstacle
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.stack import Agent, await_webhook, tail
from tests.agent.whole.surroundings import Surroundings
from tests.agent.whole.waiting import until

_ROOT = Path(__file__).parent.parent.parent.parent
"""The programs are started elsewhere, and must be those of this checkout."""
_NUMBERS = itertools.count(1)


@dataclass
class Stack:
    """What a test has: two people, an admin, and the agent."""

    plane: ControlPlane
    site: PbsSite
    ada: Kubectl
    ben: Kubectl
    admin: Kubectl
    agent: Agent

    def tell(self) -> str:
        """What helps to see why a test failed."""
        parts = {
            "Pods": self.admin.run("describe", "pods").out,
            "the server's jobs": server.run("qstat", "-x", "-f", "-w").stdout,
            "the agent's log": tail(self.agent.component.log),
        }
        return "\n".join(f"--- {title}\n{text}" for title, text in parts.items())


@dataclass
class Cluster:
    """A control plane with Batchgate installed."""

    plane: ControlPlane
    surroundings: Surroundings


@pytest.fixture(scope="package")
def cluster(control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with founded(tmp_path_factory.mktemp("pbs")) as found:
        yield found


@contextlib.contextmanager
def founded(directory: Path, *, plain_node: bool = True) -> Iterator[Cluster]:
    """A cluster of its own, with its files in this directory; the test is skipped where there is no such server.

    :param plain_node: see ``Surroundings``
    """
    if words := obstacle():
        pytest.skip(words)
    options = Options(editors={NAMESPACE: (RESEARCHERS,)})
    with control_plane(directory / "plane", options) as plane:
        installing.install(plane)
        surroundings = Surroundings(connect(str(plane.kubeconfig())), plain_node=plain_node)
        surroundings.start()
        try:
            yield Cluster(plane, surroundings)
        finally:
            surroundings.stop()
    shutil.rmtree(SHARED / "work", ignore_errors=True)
    shutil.rmtree(RUNS.directory, ignore_errors=True)


@contextlib.contextmanager
def attended(cluster: Cluster, observer: str = "", **site_fields: Any) -> Iterator[Stack]:
    """The webhook and the agent.

    :param observer: who looks at the jobs; empty for each user
    :param site_fields: further fields of ``PbsSite``
    """
    # The agent's user must be able to come to its files, and pytest's own directories are root's.
    with tempfile.TemporaryDirectory(prefix="bg-", ignore_cleanup_errors=True) as root, contextlib.ExitStack() as stack:
        Path(root).chmod(0o711)
        site = PbsSite(Path(root) / "agent", observer, **site_fields)
        site.make()
        certificates = Path(root) / "webhook"
        services.batchgate("certs", "create", str(certificates), "--host-name", "localhost", "--signing-key")
        number = next(_NUMBERS)  # a log is read from its beginning, so no two programs share one
        webhook = _component(cluster, f"webhook-{number}", _webhook_argv(site, certificates), Path(root))
        stack.callback(webhook.end)
        webhook.start()
        url = await_webhook(webhook, certificates / "ca.crt")
        installing.register(cluster.plane, url, certificates / "ca.crt", (NAMESPACE,))
        kubeconfig, key = site.home / "kubeconfig", site.home / "signing.pub"
        shutil.copy(installing.agent(cluster.plane), kubeconfig)
        shutil.copy(certificates / "signing.pub", key)
        site.give(site.home)
        agent = Agent(_component(cluster, f"agent-{number}", site.argv(kubeconfig, key), site.home))
        cluster.surroundings.programs.append(agent)
        stack.callback(cluster.surroundings.programs.remove, agent)
        ada, ben, admin = (
            Kubectl(cluster.plane.kubeconfig(name), NAMESPACE, Path(root)) for name in ("ada", "ben", "admin")
        )
        if site.others:  # the next agent is waited for until each Node serves logs, and has none of these
            stack.callback(admin.ok, "delete", "node", "--ignore-not-found", *map(node_of, site.others))
        stack.callback(agent.kill)
        agent.start()
        until(lambda: is_ready(cluster.plane, NODE), what="for the Node")
        installing.approve(cluster.plane)  # and waits until logs are served with what was issued
        yield Stack(cluster.plane, site, ada, ben, admin, agent)


@pytest.fixture(scope="module")
def attending(cluster: Cluster) -> Iterator[Stack]:
    """An agent that asks as each user."""
    with attended(cluster) as found:
        yield found


def _component(cluster: Cluster, name: str, argv: list[str], home: Path) -> Component:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(_ROOT),
    }
    return Component(name, argv, cluster.plane.place.logs, environment, cluster.plane.keeper)


def _webhook_argv(site: PbsSite, certificates: Path) -> list[str]:
    options = {
        "--listen": "127.0.0.1:0",
        "--host-name": "localhost",
        "--cert": certificates / "tls.crt",
        "--key": certificates / "tls.key",
        "--signing-key": certificates / "signing.key",
        "--policy": site.policy,
    }
    return [sys.executable, "-m", "router", "webhook", *(str(word) for pair in options.items() for word in pair)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Beside a failure stands what kubectl, the server and the log say at that moment."""
    report = yield
    values = getattr(item, "funcargs", {})
    found = values.get("attending") or values.get("observed") or values.get("queued")
    if report.failed and found is not None:  # type: ignore[attr-defined]
        report.sections.append(("what there is", found.tell()))  # type: ignore[attr-defined]
    return report
