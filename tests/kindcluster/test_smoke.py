"""A real cluster, made and taken away: only with BATCHGATE_KIND=required, as ``make test-kind`` says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kindcluster import cluster, provider
from kindcluster.commands import run
from kindcluster.layout import Layout
from kindcluster.provider import Provider
from router.controlplane import image
from router.errors import ConfigError

pytestmark = [pytest.mark.kind, pytest.mark.timeout(1800)]  # on a busy machine a cluster alone takes minutes

BUSYBOX = "busybox:1.36"


@pytest.fixture(scope="module")
def chosen() -> Provider:
    if os.environ.get("BATCHGATE_KIND") != "required":
        pytest.skip("kubeadm does not end in time beside other tests, so it is run by `make test-kind` only")
    return cluster.choose()


@pytest.fixture(scope="module")
def layout(chosen: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layout]:
    """A cluster of these tests alone, beside one that `make kind` has made."""
    found = Layout("batchgate-test", files=tmp_path_factory.mktemp("kind") / "kind")
    cluster.down(found, print)  # of an earlier run that was killed
    try:
        cluster.up(found, print)
        yield found
    finally:
        cluster.down(found, print)


def kubectl(layout: Layout, *words: str) -> str:
    """As a user calls it, after reading the variables."""
    script = '. "$1"; shift; kubectl "$@"'
    return run(["/bin/sh", "-ec", script, "sh", str(layout.variables), *words])


def run_pod(layout: Layout, name: str, command: Sequence[str], *, using: str = BUSYBOX) -> None:
    options = [f"--image={using}", "--image-pull-policy=IfNotPresent", "--restart=Never", "--port=8080"]
    kubectl(layout, "run", name, *options, "--", *command)


def test_a_job_runs_and_its_log_is_shown(layout: Layout) -> None:
    kubectl(layout, "create", "job", "hello", f"--image={BUSYBOX}", "--", "sh", "-c", "echo hello from a Job")
    kubectl(layout, "wait", "--for=condition=complete", "job/hello", "--timeout=300s")

    assert kubectl(layout, "logs", "job/hello") == "hello from a Job\n"


def test_the_api_server_reaches_a_pods_address(layout: Layout) -> None:
    """An agent in the cluster serves the kubelet API of its nodes there, for `kubectl logs`."""
    run_pod(layout, "web", ["sh", "-c", "echo reached >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"])
    kubectl(layout, "wait", "--for=condition=ready", "pod/web", "--timeout=300s")

    assert kubectl(layout, "get", "--raw", "/api/v1/namespaces/default/pods/web:8080/proxy/index.html") == "reached\n"


def test_a_service_has_a_name_and_an_address(layout: Layout) -> None:
    kubectl(layout, "expose", "pod", "web")
    kubectl(layout, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=300s")
    # The address is in force a moment after the Service was made.
    asking = "until wget -qO- http://web.default.svc.cluster.local:8080/index.html; do sleep 1; done"
    run_pod(layout, "ask", ["timeout", "120", "sh", "-c", asking])
    kubectl(layout, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/ask", "--timeout=300s")

    assert "reached\n" in kubectl(layout, "logs", "ask")


def test_a_loaded_image_is_there(layout: Layout, chosen: Provider, tmp_path: Path) -> None:
    try:
        image.write(tmp_path / "image.tar", ["localhost/loaded:1"])
    except ConfigError as error:
        pytest.skip(str(error))

    cluster.load(layout, chosen, [tmp_path / "image.tar"], print)

    run_pod(layout, "loaded", ["echo", "loaded"], using="localhost/loaded:1")
    kubectl(layout, "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/loaded", "--timeout=300s")
    assert kubectl(layout, "logs", "loaded") == "loaded\n"


def test_up_again_leaves_a_running_cluster_alone(layout: Layout) -> None:
    told: list[str] = []

    cluster.up(layout, told.append)

    assert told == ["The cluster batchgate-test runs already."]
    assert cluster.states(layout, cluster.choose()) == ["running"]


def test_down_takes_all_away_and_may_be_repeated(layout: Layout, chosen: Provider) -> None:
    cluster.down(layout, print)
    cluster.down(layout, print)

    assert remains(layout, chosen) == []


def test_down_after_an_up_that_was_cut_off(layout: Layout, chosen: Provider) -> None:
    """A container that kind has made, and a folder of ours, without a cluster."""
    if chosen is Provider.DOCKER:
        pytest.skip("with Docker only kind itself leaves something half-made")
    kept = cluster._prepare(layout, print)
    argv = ["podman", "create", "--label", f"io.x-k8s.kind.cluster={layout.name}", "--network=none", kept]
    run([*provider.inside(layout, chosen), *argv], extra=provider.environment(layout, chosen))
    assert cluster.states(layout, chosen) == ["created"]

    cluster.down(layout, print)

    assert remains(layout, chosen) == []


def remains(layout: Layout, chosen: Provider) -> list[str]:
    """What is left of a cluster on this machine."""
    paths = [layout.namespace, layout.state, layout.running, layout.leases, layout.files, layout.variables]
    mounted = subprocess.run(["cat", "/proc/self/mounts"], capture_output=True, text=True, check=True).stdout
    return [
        *cluster.states(layout, chosen),
        *(str(path) for path in paths if path.exists()),
        *(line for line in mounted.splitlines() if layout.own in line),
    ]
