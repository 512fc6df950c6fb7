"""From opt-in to opt-out and back, while Jobs arrive: in the order of a `helm upgrade`, on a real API server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from tests.certs.arriving import EXPECTED, Arrivals, arriving, clean, each_met_one, prepare, sent
from tests.certs.conftest import SYSTEM, Installed, webhook
from tests.chart.rendering import NEEDED, objects
from tests.webhook.servers import until


@pytest.fixture
def switched(installed: Installed) -> Iterator[Installed]:
    """With namespaces of each kind."""
    prepare(installed.plane)
    yield installed
    helm(installed.plane, "opt-in")
    clean(installed.plane)


def helm(plane: ControlPlane, namespaces: str) -> None:
    """What Helm writes between the two Jobs of an upgrade: guards and ConfigMap."""
    found = objects(NEEDED | {"registration": {"namespaces": namespaces}}, ["guards", "registration"])
    kept = [one for one in found if "Policy" in one["kind"] or one["kind"] == "ConfigMap"]
    plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(kept))


def upgrade(installed: Installed, namespaces: str) -> None:
    """As `helm upgrade` does: a Job, then objects, then a Job."""
    code, said = installed.certs("ensure", f"--switch-to={namespaces}")
    assert code == 0, said
    helm(installed.plane, namespaces)
    code, said = installed.certs("ensure", "--activate", "--wait", "60s")
    assert code == 0, said


@pytest.mark.parametrize("first", ["opt-in", "opt-out"])
def test_no_job_is_refused_and_none_slips_through(switched: Installed, tmp_path: Path, first: str) -> None:
    second = "opt-out" if first == "opt-in" else "opt-in"
    assert switched.certs("ensure")[0] == 0
    helm(switched.plane, first)
    with webhook(switched, tmp_path):
        assert switched.certs("ensure", "--activate", "--wait", "60s")[0] == 0
        asker = Arrivals(connect(str(switched.plane.kubeconfig())))
        before = "judged" if first == "opt-out" else "as sent"
        until(lambda: asker.fate("switch-changing", sent("4", forged=False)) == before)
        until(lambda: asker.fate("switch-out", sent("4", forged=True)) == "guarded")

        with arriving(switched.plane) as arrivals:
            until(lambda: arrivals.fates("switch-changing", forged=True))
            upgrade(switched, second)
            until(lambda: each_met_one(arrivals) == EXPECTED)
            time.sleep(3)  # in which none may get another answer

    assert each_met_one(arrivals) == EXPECTED
    assert [one["name"] for one in switched.webhooks()] == ["jobs.batchgate.dev"]


def test_the_charts_jobs_switch_before_the_guards_and_after() -> None:
    args = {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]["containers"][0]["args"]
        for one in objects(NEEDED | {"registration": {"namespaces": "opt-out"}}, ["certs"])
        if one["kind"] == "Job"
    }

    assert args == {
        "batchgate-certs": ["certs", "ensure", f"--namespace={SYSTEM}", "--switch-to=opt-out"],
        "batchgate-activate": ["certs", "ensure", "--activate", f"--namespace={SYSTEM}"],
    }


def test_nothing_is_switched_before_the_first_registration(installed: Installed) -> None:
    code, said = installed.certs("ensure", "--switch-to=opt-out")

    assert (code, "waits" in said, installed.webhooks()) == (0, False, [])
