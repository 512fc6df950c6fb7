"""Compares the work from a decoded review to a JSON Patch with ``jsonpatch.make_patch`` on the two whole documents."""

from __future__ import annotations

import copy
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonpatch
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.report import Row, write
from router import policy
from router.gate import judging as gate
from router.gate import patching
from router.notation import documents
from router.placement import signing
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.startup.policyfiles import read_directory
from router.workload.cluster import UNKNOWN_CLUSTER

ROUNDS = 2000
JOBS = Path(__file__).parent / "jobs"
ASKED = {"two containers": ("two-containers.yaml", 1.5), "MPI": ("mpi.yaml", 2.5)}


def median_ratio(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[float, float, float]:
    """Medians in microseconds of two calls, and their ratio. The calls alternate, to meet the same machine speed."""
    mine, other = [], []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        ours()
        middle = time.perf_counter_ns()
        theirs()
        mine.append(middle - start)
        other.append(time.perf_counter_ns() - middle)
    a, b = statistics.median(mine) / 1000, statistics.median(other) / 1000
    return a, b, a / b


def opened_gate() -> gate.Gate:
    """A gate with the examples' policy and a signing key, without queue states."""
    return gate.Gate(
        policy=policy.load(read_directory(Path("examples/policies"))),
        cluster=UNKNOWN_CLUSTER,
        states=NO_QUEUE_STATES,
        signer=signing.Signer(Ed25519PrivateKey.generate(), {}),
        issued_at=1_800_000_000,
    )


def main() -> None:
    """Print the ratio for each Job."""
    opened = opened_gate()
    requester = Requester("ada", (), "default")
    rows = []
    for title, (name, bound) in ASKED.items():
        job: dict[str, Any] = documents.parse((JOBS / name).read_text(), name)[0].value
        routed = gate.judge(job, requester=requester, gate=opened).routed
        assert jsonpatch.apply_patch(job, patching.diff(job, routed)) == routed
        assert routed["spec"]["template"]["spec"]["nodeName"]
        whole = copy.deepcopy(routed)

        def ours(job: dict[str, Any] = job) -> object:
            return patching.diff(job, gate.judge(job, requester=requester, gate=opened).routed)

        def theirs(job: dict[str, Any] = job, whole: object = whole) -> object:
            return jsonpatch.make_patch(job, whole)

        median_ratio(ours, theirs, 100)
        mine, other, ratio = median_ratio(ours, theirs, ROUNDS)
        rows += [
            Row(f"{title}: strip to diff", mine, "us"),
            Row(f"{title}: jsonpatch.make_patch alone", other, "us"),
            Row(f"{title}: ratio", ratio, "", bound),
        ]
    sys.exit(not write("pipeline", rows))


if __name__ == "__main__":
    main()
