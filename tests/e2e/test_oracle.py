"""The same Jobs on a real kubelet and on a virtual node: what containers print and what the API shows is the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from kindcluster.layout import SOURCE
from router import names
from tests.agent.whole.waiting import until
from tests.e2e import oracle
from tests.e2e.jobs import JOBS, WORDS
from tests.together.installed import Installed

pytestmark = [pytest.mark.kind, pytest.mark.timeout(1800)]

CLOUD, HPC = "oracle-cloud", "oracle-hpc"
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
    "missing-program": _never_started(127, f'"/no/such/program": {MISSING}', MISSING),
    "not-executable": _never_started(126, '"/etc/passwd": permission denied', "permission denied"),
    "deadline-of-a-pod": (
        "the script ends the run and says why; the program is no process 1, which the kernel spares a TERM",
        {
            "pods.0.conditions.4": (None, ("batchgate.dev/WalltimeExceeded", "True", "DeadlineExceeded")),
            "pods.0.containers.0.state.terminated.exitCode": (137, 143),
            "pods.0.containers.0.state.terminated.reason": ("Error", "DeadlineExceeded"),
            "pods.0.containers.0.state.terminated.signal": (None, 15),
            "pods.0.message": (
                "Pod was active on the node longer than the specified deadline", "job N was ended at its deadline",
            ),
        },
    ),
}  # fmt: skip
"""By Job, why its ends differ, and each difference: what is seen in the cloud, and on HPC."""
KEPT: Final = SOURCE / "build" / "e2e" / "differences.json"
_SECONDS: Final = 600.0


@pytest.fixture(scope="module")
def seen(installed: Installed) -> Iterator[dict[str, tuple[oracle.Seen, oracle.Seen]]]:
    """All Jobs on both, at once; by name what was seen in the cloud and on HPC."""
    places = (CLOUD, HPC)
    installed.ok("apply", "-f", "-", stdin=_list(*map(_namespace, places), *map(_words, places)))
    try:
        for place in places:
            installed.ok("create", "-f", "-", stdin=_list(*(_named(name, place) for name in JOBS)))
        for place in places:
            until(lambda place=place: _running(installed, place), lambda left: not left, seconds=_SECONDS)  # type: ignore[misc]
        found = {name: (_seen(installed, CLOUD, name), _seen(installed, HPC, name)) for name in JOBS}
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps({name: oracle.differences(*pair) for name, pair in found.items()}, indent=1))
        yield found
    finally:
        installed.kubectl("delete", "namespace", *places, "--timeout=120s")


@pytest.mark.parametrize("name", JOBS)
def test_it_shows_the_same(seen: Mapping[str, tuple[oracle.Seen, oracle.Seen]], name: str) -> None:
    found = oracle.differences(*seen[name])

    _, allowed = DIFFERENT.get(name, ("", {}))
    assert found == allowed


def test_each_ran_where_it_was_to(installed: Installed, seen: object) -> None:
    """Else two clouds would be compared."""
    for place, virtual in ((CLOUD, False), (HPC, True)):
        nodes = installed.ok("-n", place, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").split()
        assert (len(nodes) >= len(JOBS) - 1, {node.endswith(".batchgate") for node in nodes}) == (True, {virtual})


def _seen(installed: Installed, place: str, name: str) -> oracle.Seen:
    return oracle.observe(installed, place, name)


def _running(installed: Installed, place: str) -> list[str]:
    """The Jobs that have not ended."""
    jobs = json.loads(installed.ok("-n", place, "get", "jobs", "-o", "json"))["items"]
    return [str(job["metadata"]["name"]) for job in jobs if not _ended(job)]


def _ended(job: Mapping[str, Any]) -> bool:
    conditions = job["status"].get("conditions", ())
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)


def _named(name: str, place: str) -> dict[str, Any]:
    return {**JOBS[name], "metadata": {"name": name, "namespace": place}}


def _list(*objects: Mapping[str, Any]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _namespace(name: str) -> dict[str, Any]:
    gate = names.GATE_ENABLED if name == HPC else "disabled"
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {names.LABEL_GATE: gate}}}


def _words(place: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words", "namespace": place}, "data": WORDS}
