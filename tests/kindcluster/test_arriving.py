"""Jobs arrive all the time while Batchgate comes, changes and goes, on the cluster that ``make kind`` has made."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kindcluster import installing, provider
from kindcluster.layout import SOURCE
from kindcluster.provider import Provider
from router.names import SYSTEM_NAMESPACE
from tests.kindcluster import arriving
from tests.kindcluster.arriving import Arrival
from tests.kindcluster.test_installed import LAYOUT, chosen, helm, ok

__all__ = ["chosen"]
pytestmark = [pytest.mark.kind, pytest.mark.timeout(900)]

NAMESPACE = "arrivals"


@pytest.fixture
def gated(chosen: Provider) -> Iterator[Provider]:
    """A namespace that has opted in, whatever is installed."""
    ok(chosen, "create", "namespace", NAMESPACE)
    ok(chosen, "label", "namespace", NAMESPACE, "batchgate.dev/gate=enabled")
    yield chosen
    ok(chosen, "delete", "namespace", NAMESPACE)


@contextmanager
def jobs(chosen: Provider, rate: int, file: Path) -> Iterator[Callable[[], list[Arrival]]]:
    """So many Jobs a second; yields a function that tells what has come of them so far."""
    argv = [sys.executable, "-m", "tests.kindcluster.arriving", str(LAYOUT.kubeconfig), NAMESPACE, str(rate), str(file)]
    process = subprocess.Popen([*provider.inside(LAYOUT, chosen), *argv], cwd=SOURCE)
    try:
        deadline = time.monotonic() + 60
        while not arriving.read(file):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield lambda: arriving.read(file)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0  # what is due meanwhile is still sent, however slowly


def came(arrivals: list[Arrival], since: float = 0.0, until: float = float("inf")) -> Counter[tuple[str, str]]:
    """How many Jobs went where, or what their error was, of those whose answer lies wholly within these times."""
    return Counter((one.target, one.error) for one in arrivals if since < one.sent and one.sent + one.took < until)


def succeeds(chosen: Provider, *words: str) -> None:
    """Run Helm, and wait until all is ready."""
    done = helm(chosen, *words, "--wait")
    assert done.returncode == 0, done.stderr


def history(chosen: Provider) -> list[str]:
    """The release's revisions, one a line, the oldest first."""
    done = helm(chosen, "history", "batchgate")
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[1:]


def test_no_job_fails_while_the_replicas_are_replaced(gated: Provider, tmp_path: Path) -> None:
    deployment = f"--namespace={SYSTEM_NAMESPACE}", "deployment/batchgate-webhook"
    file = tmp_path / "arrivals"
    with jobs(gated, 50, file):
        for _ in range(2):
            ok(gated, "rollout", "restart", *deployment)
            ok(gated, "rollout", "status", *deployment, "--timeout=300s")

    found = came(arriving.read(file))
    assert set(found) == {("hpc", "")}
    assert found["hpc", ""] > 500


def test_no_job_fails_or_is_missed_from_the_install_to_the_end(gated: Provider, tmp_path: Path) -> None:
    succeeds(gated, "uninstall", "batchgate")
    file = tmp_path / "arrivals"
    with jobs(gated, 10, file):
        time.sleep(3)
        began = time.time()
        installing.install(LAYOUT, gated, print)
        installed = time.time()
        (revision,) = (line.split()[0] for line in history(gated)[-1:])
        changed = ["--set", "webhook.podLabels.round=two", "--set", "webhook.replicas=3"]
        succeeds(gated, "upgrade", "batchgate", str(installing.CHART), "--reuse-values", *changed)
        succeeds(gated, "rollback", "batchgate", revision)
        leaving = time.time()
        succeeds(gated, "uninstall", "batchgate")
        left = time.time()
        time.sleep(3)

    arrivals = arriving.read(file)
    before, meanwhile = came(arrivals, until=began), came(arrivals, installed, leaving)
    assert set(before) == {("", "")}
    assert set(meanwhile) == {("hpc", "")}
    assert set(came(arrivals, since=left)) == {("", "")}
    assert set(came(arrivals)) == {("", ""), ("hpc", "")}
    assert sum(meanwhile.values()) > 100
