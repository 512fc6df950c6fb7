"""Jobs that arrive all the time, in namespaces of each kind, while opt-in becomes opt-out or the other way round."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from router import names
from router.controlplane.plane import ControlPlane
from router.errors import ApiError
from router.kube.client import Api, connect
from tests.certs.test_ensure import job

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


def prepare(plane: ControlPlane) -> None:
    """Make the namespaces, with their labels."""
    plane.make_namespaces({name: () for name in NAMESPACES if name.startswith("switch-")})
    for name, labels in NAMESPACES.items():
        for key, value in labels.items():
            plane.kubectl("label", "namespace", name, "--overwrite", f"{key}={value}")


def clean(plane: ControlPlane) -> None:
    """Delete the Jobs; the namespaces stay."""
    api = connect(str(plane.kubeconfig()))
    for namespace in NAMESPACES:
        jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
        for one in [one["metadata"]["name"] for page, _ in api.pages(jobs) for one in page]:
            api.delete(f"{jobs}/{one}", grace=0, propagation="Background")


def each_met_one(arrivals: Arrivals) -> dict[str, tuple[set[str], set[str]]]:
    """What became of ordinary Jobs and of forged ones, by their namespaces; it must be ``EXPECTED``."""
    return {name: (arrivals.fates(name, forged=False), arrivals.fates(name, forged=True)) for name in NAMESPACES}


EXPECTED = {
    "switch-in": ({"judged"}, {"judged"}),
    "switch-out": ({"as sent"}, {"guarded"}),
    # Where the label is missing, a Job meets the webhook or the guard; one that is not judged does not name our nodes.
    "switch-changing": ({"judged", "as sent"}, {"judged", "guarded"}),
    "kube-public": ({"as sent"}, {"guarded"}),
}
