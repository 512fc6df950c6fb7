"""A control plane, the webhook, and the agent in front of the bed; skipped, with the reason, where no bed stands."""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.controlplane import installing, programs
from router.controlplane.options import RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.processes import Component
from router.controlplane.realnode import is_ready
from router.controlplane.start import control_plane
from router.demo import services
from router.kube.client import connect
from tests.agent.bed.site import QUEUE, SITE, BedSite, obstacle
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.long import SEED, draw_seed
from tests.agent.whole.stack import Agent, await_webhook
from tests.agent.whole.surroundings import Surroundings
from tests.agent.whole.waiting import until

NAMESPACE = "default"
_ROOT = Path(__file__).parent.parent.parent.parent
"""The programs are started elsewhere, and must be those of this checkout."""
NODE = names.node_name(SITE, QUEUE)


@dataclass
class Stack:
    """What a test has: two people, the webhook and the agent."""

    plane: ControlPlane
    site: BedSite
    ada: Kubectl
    ben: Kubectl
    admin: Kubectl
    webhook: Component
    agent: Agent


@dataclass
class Cluster:
    """A control plane with Batchgate installed, and where a test's programs are kept."""

    plane: ControlPlane
    directory: Path
    surroundings: Surroundings


@pytest.fixture(scope="package")
def cluster(
    control_plane_programs: programs.Programs,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    with founded(tmp_path_factory.mktemp("bed")) as found:
        yield found


@contextlib.contextmanager
def founded(directory: Path, *, raised_limits: bool = False, plain_node: bool = True) -> Iterator[Cluster]:
    """A cluster of its own, with its files in this directory; the test is skipped where no bed stands.

    :param raised_limits: see ``Options``
    :param plain_node: see ``Surroundings``
    """
    if words := obstacle():
        pytest.skip(words)
    options = Options(editors={NAMESPACE: (RESEARCHERS,)}, raised_limits=raised_limits)
    with control_plane(directory / "plane", options) as plane:
        installing.install(plane)
        surroundings = Surroundings(connect(str(plane.kubeconfig())), plain_node=plain_node)
        surroundings.start()
        try:
            yield Cluster(plane, directory, surroundings)
        finally:
            surroundings.stop()


@contextlib.contextmanager
def reached(
    cluster: Cluster,
    way: str,
    observer: str = "",
    charge: str = "",
    *,
    kind: type[BedSite] = BedSite,
    watching: bool = False,
    **more: Any,
) -> Iterator[Stack]:
    """The agent and the webhook for one way to the bed's users.

    :param observer: who looks at the jobs; empty for each user
    :param charge: an account of Slurm
    :param kind: whose policy it is
    :param watching: whether the webhook watches the cluster, and so knows how the queues are
    :param more: of the site, see ``BedSite``
    """
    # The agent's user must be able to come to its files, and pytest's own directories are root's.
    with tempfile.TemporaryDirectory(prefix="bg-", ignore_cleanup_errors=True) as root, contextlib.ExitStack() as stack:
        Path(root).chmod(0o711)
        site = kind(way, Path(root) / "agent", observer, charge, **more)
        site.make()
        certificates = Path(root) / "webhook"
        services.batchgate("certs", "create", str(certificates), "--host-name", "localhost", "--signing-key")
        watched = {"--kubeconfig": installing.webhook(cluster.plane)} if watching else {}
        # A name of its own for each log: what an earlier webhook of this cluster listened on stands in that one's.
        mark = f"{way}{charge}-{Path(root).name}"
        webhook = _component(cluster, f"webhook-{mark}", _webhook_argv(site, certificates, watched), Path(root))
        stack.callback(webhook.end)
        webhook.start()
        url = await_webhook(webhook, certificates / "ca.crt")
        installing.register(cluster.plane, url, certificates / "ca.crt", (NAMESPACE,))
        kubeconfig, key = site.home / "kubeconfig", site.home / "signing.pub"
        shutil.copy(installing.agent(cluster.plane), kubeconfig)
        shutil.copy(certificates / "signing.pub", key)
        site.give(site.home)
        agent = Agent(_component(cluster, f"agent-{mark}", site.argv(kubeconfig, key), site.home))
        cluster.surroundings.programs.append(agent)
        # The next site, whose queue may be another, is awaited until all virtual nodes serve logs.
        node = names.node_name(site.name, site.queue)
        stack.callback(cluster.plane.kubectl, "delete", "node", node, "--ignore-not-found")
        stack.callback(cluster.surroundings.programs.remove, agent)
        stack.callback(agent.kill)
        agent.start()
        ada, ben, admin = (
            Kubectl(cluster.plane.kubeconfig(name), NAMESPACE, Path(root)) for name in ("ada", "ben", "admin")
        )
        found = Stack(cluster.plane, site, ada, ben, admin, webhook, agent)
        _await_ready(found)
        yield found


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> str:
    """What repeats this run's moments; shown where the test fails."""
    words = f"{SEED}={draw_seed()}"
    request.node.add_report_section("setup", "seed", words)
    return words


@pytest.fixture
def rng(seed: str) -> random.Random:
    """What is drawn from it."""
    return random.Random(seed.partition("=")[2])


def _await_ready(stack: Stack) -> None:
    node = names.node_name(stack.site.name, stack.site.queue)
    until(lambda: is_ready(stack.plane, node), what="for the Node")
    installing.approve(stack.plane)  # and waits until logs are served with what was issued


def _component(cluster: Cluster, name: str, argv: list[str], home: Path) -> Component:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": str(_ROOT),
    }
    return Component(name, argv, cluster.plane.place.logs, environment, cluster.plane.keeper)


def _webhook_argv(site: BedSite, certificates: Path, more: Mapping[str, Path]) -> list[str]:
    options = {
        "--listen": "127.0.0.1:0",
        "--host-name": "localhost",
        "--cert": certificates / "tls.crt",
        "--key": certificates / "tls.key",
        "--signing-key": certificates / "signing.key",
        "--policy": site.policy,
        **more,
    }
    return [sys.executable, "-m", "router", "webhook", *(str(word) for pair in options.items() for word in pair)]
