"""The Jobs that are drawn for the comparison with a real kubelet: each may go to HPC, and together they have what is honoured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from router import policy
from router.gate.judging import Gate, judge
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.reference.rows import Outcome
from router.reference.table import ROOT, TYPES
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.e2e import site
from tests.e2e.drawn import draw_jobs
from tests.e2e.drawnvolumes import Json
from tests.gates import ISSUED_AT

_NUMBER: Final = 200


@pytest.fixture(scope="module")
def drawn() -> list[Json]:
    return draw_jobs(_NUMBER, 1)


def test_each_may_go_to_hpc(drawn: list[Json]) -> None:
    places = policy.load({"all.yaml": site.policy(site.Images(Path("/a.sif"), Path("/b.sif")), Path("/work"))})
    gate = Gate(places, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, ISSUED_AT)
    stay = []
    for number, job in enumerate(drawn):
        named = job | {"metadata": {"name": f"drawn-{number}", "namespace": "lab"}}
        decision = judge(named, requester=Requester("ada", ("system:authenticated",), "lab"), gate=gate).decision
        assert decision is not None
        stay += [(number, decision.in_the_way)] if decision.target != "hpc" else []

    assert stay == []


def test_the_same_start_draws_the_same_jobs(drawn: list[Json]) -> None:
    assert draw_jobs(10, 5) == draw_jobs(10, 5) != draw_jobs(10, 6)


_NO_OUTPUT: Final = "the Job controller or the garbage collector alone reads it, and a Pod on HPC is a Pod to them"
NOT_DRAWN: Final = {
    "JobSpec.manualSelector": _NO_OUTPUT,
    "JobSpec.selector": _NO_OUTPUT,
    "ObjectMeta.finalizers": _NO_OUTPUT,
    "PodSecurityContext.runAsNonRoot": "the one user of this site is root, whom a kubelet refuses",
    "PodSpec.imagePullSecrets": "nothing is pulled in this cluster",
    "PodSpec.overhead": "comes from a RuntimeClass, and is asked of the batch system alone",
    "PodSpec.serviceAccount": "the API server sets it to serviceAccountName",
    "SecurityContext.runAsNonRoot": "the one user of this site is root, whom a kubelet refuses",
    "VolumeProjection.serviceAccountToken": "no API server is reached from this site, so tokens are not staged",
}
"""Rows of the table that are honoured and not drawn, each with the reason."""


def honoured() -> set[str]:
    return {
        f"{kind}.{name}"
        for kind, rows in TYPES.items()
        for name, row in rows.items()
        if row.outcome is Outcome.HONOURED
    }


def used(value: object, kind: str) -> Iterator[str]:
    for fields in value if isinstance(value, list) else [value]:
        for name, below in fields.items() if isinstance(fields, dict) else ():
            yield f"{kind}.{name}"
            if held := TYPES[kind][name].holds:
                yield from used(below, held)


def test_they_have_what_is_honoured(drawn: list[Json]) -> None:
    found = {name for job in drawn for name in used(job["spec"], ROOT)}

    assert honoured() - found == NOT_DRAWN.keys()
