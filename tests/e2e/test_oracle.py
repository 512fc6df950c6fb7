"""The same Jobs on a real kubelet and on a virtual node: what containers print and what the API shows is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from kindcluster.layout import SOURCE
from tests.e2e import oracle, sidebyside
from tests.e2e.conftest import Both
from tests.e2e.jobs import JOBS, WORDS
from tests.e2e.sidebyside import Places

pytestmark = [pytest.mark.kind, pytest.mark.timeout(1800)]

RUNC: Final = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: "
    "unable to start container process: exec: "
)


def _never_started(code: int, runc: str, apptainer: str) -> tuple[str, dict[str, Any]]:
    state = "pods.0.containers.0.state.terminated"
    return (
        "runc refuses the program before its log begins: 128, StartError; Apptainer says so in the log, and the codes are a shell's",
        {
            f"{state}.exitCode": (128, code),
            f"{state}.message": (f"{RUNC}{runc}: unknown", apptainer),
            f"{state}.reason": ("StartError", "CreateContainerError"),
            "pods.0.logs.main": ("", f"FATAL:   {apptainer}\n"),
        },
    )


MISSING: Final = "stat /no/such/program: no such file or directory"
DIFFERENT: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "terminates-itself": (
        "the program is no process 1, which the kernel spares a signal that it does not catch",
        {
            "job.conditions.0": (
                ("Complete", "True", "CompletionsReached", "Reached expected number of succeeded pods"),
                ("Failed", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
            ),
            "job.conditions.1": (
                ("SuccessCriteriaMet", "True", "CompletionsReached", "Reached expected number of succeeded pods"),
                ("FailureTarget", "True", "BackoffLimitExceeded", "Job has reached the specified backoff limit"),
            ),
            "job.failed": (None, 1),
            "job.succeeded": (1, None),
            "pods.0.conditions.0": (("ContainersReady", "False", "PodCompleted"), ("ContainersReady", "False", "PodFailed")),
            "pods.0.conditions.1": (("Initialized", "True", "PodCompleted"), ("Initialized", "True", "")),
            "pods.0.conditions.3": (("Ready", "False", "PodCompleted"), ("Ready", "False", "PodFailed")),
            "pods.0.containers.0.state.terminated.exitCode": (0, 143),
            "pods.0.containers.0.state.terminated.reason": ("Completed", "Error"),
            "pods.0.logs.main": ("lives\n", ""),
            "pods.0.phase": ("Succeeded", "Failed"),
        },
    ),
    "missing-program": _never_started(127, f'"/no/such/program": {MISSING}', MISSING),
    "not-executable": _never_started(126, '"/etc/passwd": permission denied', "permission denied"),
    "deadline-of-a-pod": (
        "the script ends the run and says why; the program is no process 1, which the kernel spares a TERM",
        {
            "pods.0.conditions.4": (None, ("batchgate.dev/WalltimeExceeded", "True", "DeadlineExceeded")),
            "pods.0.containers.0.state.terminated.exitCode": (137, 143),
            "pods.0.containers.0.state.terminated.reason": ("Error", "DeadlineExceeded"),
            "pods.0.message": (
                "Pod was active on the node longer than the specified deadline", "job N was ended at its deadline",
            ),
        },
    ),
}  # fmt: skip
"""By Job, why its ends differ, and each difference: what is seen in the cloud, and on HPC."""
KEPT: Final = SOURCE / "build" / "e2e" / "differences.json"


@pytest.fixture(scope="module")
def where(both: Both) -> Iterator[Places]:
    with sidebyside.places(both.cluster, {"ConfigMap": {"words": {"data": WORDS}}}, both.agent) as found:
        yield found


@pytest.fixture(scope="module")
def seen(where: Places) -> dict[str, sidebyside.Pair]:
    """All Jobs on both, at once; by name what was seen in the cloud and on HPC."""
    found = sidebyside.run(where, JOBS)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    KEPT.write_text(json.dumps({name: oracle.differences(*pair) for name, pair in found.items()}, indent=1))
    return found


@pytest.mark.parametrize("name", JOBS)
def test_it_shows_the_same(seen: Mapping[str, sidebyside.Pair], name: str) -> None:
    found = oracle.differences(*seen[name])

    _, allowed = DIFFERENT.get(name, ("", {}))
    assert found == allowed


def test_each_ran_where_it_was_to(where: Places, seen: Mapping[str, sidebyside.Pair]) -> None:
    """Else two clouds would be compared."""
    cloud, hpc = (sidebyside.on_virtual_nodes(where, place) for place in where.both)

    assert (set(cloud), set(hpc)) == ({False}, {True})
    assert min(len(cloud), len(hpc)) >= len(JOBS) - 1
