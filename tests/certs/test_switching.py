"""From opt-in to opt-out and back, while Jobs arrive: in the order of a `helm upgrade`, on a real API server."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane.plane import ControlPlane
from router.errors import ApiError
from router.kube.client import Api, connect
from tests.certs.conftest import SYSTEM, Installed, webhook
from tests.certs.test_ensure import job
from tests.chart.rendering import NEEDED, objects
from tests.webhook.servers import until

Json = dict[str, Any]
FORGED = "v2.forged.forged.forged"
NAMESPACES = {
    "switch-in": {names.LABEL_GATE: names.GATE_ENABLED},
    "switch-out": {names.LABEL_GATE: names.GATE_DISABLED},
    "switch-changing": {},
    "kube-public": {},
}


def sent(cpus: str, *, forged: bool) -> Json:
    """A Job that a rule sends to HPC if it is judged. It is suspended, so that it makes no Pod."""
    made: Json = json.loads(job(cpus=cpus))
    del made["metadata"]["namespace"]
    made["metadata"] = {"generateName": "arrives-"}
    made["spec"]["suspend"] = True
    if forged:
        made["spec"]["template"]["metadata"] = {
            "annotations": {names.KEY_SIGNATURE: FORGED, names.KEY_REQUESTER: "admin"}
        }
        made["spec"]["template"]["spec"]["nodeName"] = names.node_name("demo", "batch")
    return made


@dataclass
class Arrivals:
    """Jobs that arrive all the time in all namespaces, and what became of them."""

    api: Api
    found: list[tuple[str, bool, str]] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def arrive(self) -> None:
        """One after the other, until it is ended."""
        for namespace, forged in itertools.cycle(itertools.product(NAMESPACES, (False, True))):
            if self.ended.is_set():
                return
            self.found.append((namespace, forged, self.fate(namespace, sent("4", forged=forged))))
            time.sleep(0.02)

    def fate(self, namespace: str, made: Json) -> str:
        """`judged`, `as sent` or `guarded`, or what else the API server said."""
        try:
            done = self.api.create(f"/apis/batch/v1/namespaces/{namespace}/jobs", made)
        except ApiError as error:
            return (
                "guarded" if "jobs.batchgate.dev" in error.message and "virtual node" in error.message else str(error)
            )
        annotations = done["spec"]["template"]["metadata"].get("annotations") or {}
        signature = annotations.get(names.KEY_SIGNATURE, "")
        return "as sent" if signature in ("", FORGED) else "judged"

    def fates(self, namespace: str, *, forged: bool) -> set[str]:
        return {fate for where, whether, fate in self.found if (where, whether) == (namespace, forged)}


@contextlib.contextmanager
def arriving(plane: ControlPlane) -> Iterator[Arrivals]:
    arrivals = Arrivals(connect(str(plane.kubeconfig())))
    thread = threading.Thread(target=arrivals.arrive)
    thread.start()
    try:
        yield arrivals
    finally:
        arrivals.ended.set()
        thread.join()


@pytest.fixture
def switched(installed: Installed) -> Iterator[Installed]:
    """With namespaces of each kind."""
    plane = installed.plane
    plane.make_namespaces({name: () for name in NAMESPACES if name.startswith("switch-")})
    for name, labels in NAMESPACES.items():
        for key, value in labels.items():
            plane.kubectl("label", "namespace", name, "--overwrite", f"{key}={value}")
    yield installed
    helm(plane, "opt-in")
    api = connect(str(plane.kubeconfig()))
    for namespace in NAMESPACES:
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        for one in [one["metadata"]["name"] for page, _ in api.pages(jobs) for one in page]:
            api.delete(f"{jobs}/{one}", grace=0, propagation="Background")


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
            upgrade(switched, second)
            time.sleep(3)

    assert arrivals.fates("switch-in", forged=False) == {"judged"}
    assert arrivals.fates("switch-in", forged=True) == {"judged"}
    assert arrivals.fates("switch-out", forged=False) == {"as sent"}
    assert arrivals.fates("switch-out", forged=True) == {"guarded"}
    assert arrivals.fates("kube-public", forged=False) == {"as sent"}
    assert arrivals.fates("kube-public", forged=True) == {"guarded"}
    # Where the label is missing, each Job meets one of the two: judged, or unjudged and guarded.
    assert arrivals.fates("switch-changing", forged=False) == {"judged", "as sent"}
    assert arrivals.fates("switch-changing", forged=True) == {"judged", "guarded"}
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
