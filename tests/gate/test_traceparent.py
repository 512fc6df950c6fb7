"""Where a new Job keeps the place of its review in a trace, and that nobody else's text stands there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from router import names
from router.gate.judging import judge
from router.gate.updating import judge_update
from router.policy.decision import Requester
from tests.gates import ISSUED_AT, gate, sized
from tests.placement.given import job_of

ADA = Requester("ada", ("system:authenticated",), "default")
OURS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LATER = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
HOSTILE = ["00-" + "6" * 32 + "-" + "7" * 16 + "-01", "", "$(touch /tmp/x)", 'x"\n#PBS -l nodes=9', "é" * 5000]
LARGE, SMALL = sized("3"), sized("1")


def routed(job: Any, traceparent: str = OURS) -> dict[str, Any]:
    return judge(job, requester=ADA, gate=gate(traceparent=traceparent)).routed


def places(job: Any) -> tuple[str | None, str | None]:
    """The annotation of the Job and that of its Pod template."""
    template = job["spec"]["template"].get("metadata") or {}
    return tuple((one.get("annotations") or {}).get(names.KEY_TRACEPARENT) for one in (job["metadata"], template))  # type: ignore[return-value]


def without(job: dict[str, Any]) -> dict[str, Any]:
    """The Job without this annotation."""
    job = copy.deepcopy(job)
    for metadata in (job["metadata"], job["spec"]["template"].get("metadata", {})):
        metadata.get("annotations", {}).pop(names.KEY_TRACEPARENT, None)
    return job


def annotated(pod: Any, **more: str) -> dict[str, Any]:
    """A Job with annotations of its author's, in both places."""
    own = {"app": "x", **more}
    job = job_of(pod=copy.deepcopy(pod), annotations=own)
    job["spec"]["template"]["metadata"] = {"annotations": own}
    return job


def test_a_job_for_hpc_and_its_pods_have_it_and_one_that_stays_has_it_alone() -> None:
    assert places(routed(job_of(pod=LARGE))) == (OURS, OURS)
    assert places(routed(job_of(pod=SMALL))) == (OURS, None)


@pytest.mark.parametrize("pod", [LARGE, SMALL], ids=["hpc", "cloud"])
def test_it_is_all_that_differs_between_a_traced_job_and_another(pod: Any) -> None:
    traced, other = routed(job_of(pod=pod)), routed(job_of(pod=pod), "")

    assert places(other) == (None, None)
    assert without(traced) == other


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("pod", [LARGE, SMALL], ids=["hpc", "cloud"])
def test_what_a_user_writes_there_is_taken_out(text: str, pod: Any) -> None:
    forged, plain = annotated(pod, **{names.KEY_TRACEPARENT: text}), annotated(pod)

    assert without(routed(forged)) == routed(forged, "") == routed(plain, "")
    assert places(routed(forged)) == places(routed(plain))


def test_a_job_that_is_applied_as_another_cluster_has_it_gets_no_warning_about_it() -> None:
    exported = routed(job_of(pod=LARGE))

    judged = judge(exported, requester=ADA, gate=gate(traceparent=LATER))

    assert places(judged.routed) == (LATER, LATER)
    assert [one for one in judged.warnings if names.KEY_TRACEPARENT in one] == []


def stored(**spec: Any) -> dict[str, Any]:
    job = routed(job_of(spec, copy.deepcopy(LARGE)))
    job["metadata"] |= {"uid": "u-1", "creationTimestamp": "2027-01-15T08:00:00Z"}
    return job


def updated(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    opened = gate(traceparent="", issued_at=ISSUED_AT + 60)
    return judge_update(before, now, requester=ADA, gate=opened).routed


@pytest.mark.parametrize("text", [*HOSTILE, None])
def test_an_update_keeps_the_place_of_the_creation(text: str | None) -> None:
    before = stored()
    now = copy.deepcopy(before)
    now["spec"]["suspend"] = True
    for metadata in (now["metadata"], now["spec"]["template"]["metadata"]):
        if text is None:
            del metadata["annotations"][names.KEY_TRACEPARENT]
        else:
            metadata["annotations"][names.KEY_TRACEPARENT] = text

    assert places(updated(before, now)) == (OURS, OURS)


def test_a_suspended_job_that_is_judged_anew_stays_in_its_trace() -> None:
    before = stored(suspend=True)
    now = copy.deepcopy(before)
    now["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    now["spec"]["template"]["metadata"]["annotations"][names.KEY_TRACEPARENT] = LATER

    found = updated(before, now)

    assert places(found) == (OURS, OURS)
    assert found["spec"]["template"]["spec"]["containers"] == now["spec"]["template"]["spec"]["containers"]
