"""One control plane for all tests of this package, with everything that a Job meets on its way; each test leaves none."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.controlplane import installing, programs, realnode
from router.controlplane.options import APISERVER, RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from router.demo import services
from router.kube.client import connect
from tests.agent.whole.jobs import IMAGE, unique
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.site import SHARED, STRANGER, USER, Site
from tests.agent.whole.stack import NAMESPACE, Agent, Stack, agent_argv, await_webhook, component, webhook_argv
from tests.agent.whole.surroundings import CLOUD, Surroundings

NAMESPACES = (NAMESPACE, SHARED)
SHORT = Options(editors=dict.fromkeys(NAMESPACES, (RESEARCHERS,)), node_grace_seconds=16, eviction_seconds=4)
"""A node is lost and its Pods are gone within 20 seconds, not within six minutes: nothing here may need more. A kubelet
shows itself every 10 seconds."""
REAL = Options(editors=dict.fromkeys(NAMESPACES, (RESEARCHERS,)))


@contextlib.contextmanager
def _stack(directory: Path, options: Options) -> Iterator[Stack]:
    # A socket's path has room for about 100 characters, so the queue's state lies in a short place.
    with tempfile.TemporaryDirectory(prefix="bg-", ignore_cleanup_errors=True) as root, contextlib.ExitStack() as stack:
        plane = stack.enter_context(control_plane(directory / "plane", _traced(directory, options)))
        site = Site(Path(root))
        site.make()
        stack.callback(site.stop)
        installing.install(plane)
        real = not realnode.obstacle()
        if real:
            realnode.start(plane, CLOUD, [IMAGE])
        surroundings = Surroundings(connect(str(plane.kubeconfig())), plain_node=not real)
        surroundings.start()
        stack.callback(surroundings.stop)
        running = _start(plane, site, directory)
        stack.callback(running.webhook.end)
        running.kept = surroundings.programs
        for agent in (running.agent, running.standby):
            running.kept.append(agent)
            stack.callback(agent.kill)
        yield running


def _traced(directory: Path, options: Options) -> Options:
    """With an API server that says with each review where its own span is. It samples none, so it needs no collector."""
    file = directory / "tracing.yaml"
    file.write_text("apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\n")
    return dataclasses.replace(options, arguments={APISERVER: (f"--tracing-config-file={file}",)})


def _start(plane: ControlPlane, site: Site, directory: Path) -> Stack:
    certificates = directory / "webhook"
    services.batchgate("certs", "create", str(certificates), "--host-name", "localhost", "--signing-key")
    webhook = component(plane, "webhook", webhook_argv(site, certificates, installing.webhook(plane)), site)
    webhook.start()
    url = await_webhook(webhook, certificates / "ca.crt")
    installing.register(plane, url, certificates / "ca.crt", NAMESPACES)
    kubeconfig, key = installing.agent(plane), certificates / "signing.pub"
    first, second = (
        Agent(component(plane, name, agent_argv(site, kubeconfig, key, name), site)) for name in ("agent", "standby")
    )
    user, admin = (Kubectl(plane.kubeconfig(name), NAMESPACE, site.root) for name in (USER, "admin"))
    first.start()
    stack = Stack(plane, site, user, admin, webhook, first, second, certificates / "signing.key")
    stack.await_nodes()
    installing.approve(plane)  # and waits until logs are served with what was issued
    return stack


@pytest.fixture(scope="package")
def whole(control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with _stack(tmp_path_factory.mktemp("whole"), SHORT) as started:
        yield started


@pytest.fixture(scope="package")
def real_times_whole(
    control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    with _stack(tmp_path_factory.mktemp("real-times"), REAL) as started:
        yield started


@pytest.fixture
def stack(whole: Stack) -> Iterator[Stack]:
    """Everything, well and empty at first; the test fails where anything is left of its Jobs."""
    yield from _for_a_test(whole)


@pytest.fixture
def real_times(real_times_whole: Stack) -> Iterator[Stack]:
    """The same with Kubernetes' own grace periods for nodes."""
    yield from _for_a_test(real_times_whole)


def _for_a_test(stack: Stack) -> Iterator[Stack]:
    stack.make_well()
    stack.notes.clear()
    yield stack
    stack.make_well()
    stack.settle()


@pytest.fixture
def stranger(stack: Stack) -> Kubectl:
    """Somebody who may edit the namespace, and has no account on the site."""
    return Kubectl(stack.plane.kubeconfig(STRANGER), NAMESPACE, stack.site.root)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """Beside a failure stands what kubectl, the queue and the logs say at that moment."""
    report = yield
    values = getattr(item, "funcargs", {})
    found = next((values[name] for name in ("stack", "real_times") if name in values), None)
    if report.failed and found is not None:  # type: ignore[attr-defined]
        with contextlib.suppress(FileNotFoundError):  # the last test's teardown has ended everything
            report.sections.append(("what there is", found.tell()))  # type: ignore[attr-defined]
    return report


@pytest.fixture
def unguarded(stack: Stack) -> Iterator[None]:
    """Without the guard of Jobs, which would refuse them: as in a cluster where somebody took it away."""
    stack.plane.kubectl("delete", "validatingadmissionpolicybinding", "jobs.batchgate.dev")
    yield
    stack.plane.kubectl("apply", "-k", str(installing.MANIFESTS / "guards"))


@pytest.fixture
def ungated(stack: Stack) -> Iterator[Kubectl]:
    """The user in a namespace of theirs that did not opt in, as any namespace is where the webhook is not asked."""
    namespace = unique("ungated")
    stack.plane.make_namespaces({namespace: (RESEARCHERS,)})
    yield stack.user.elsewhere(namespace)
    stack.plane.kubectl("delete", "namespace", namespace, "--timeout=120s")
