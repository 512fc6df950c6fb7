"""Who leads, with Leases on a real API server, over wires that are cut."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from router.controlplane.plane import ControlPlane
from router.kube.client import Api, connect
from router.kube.election import Election, Seen, clock, held, is_free, micro_time
from tests.kube.wire import Wire, await_true, wire_to

SECONDS = 6
NOW = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)
STAMP = "2026-03-01T12:00:00.000005Z"


def lease(holder: str | None, seconds: int | None = 15) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}


@pytest.mark.parametrize(
    ("found", "seen", "now", "expected"),
    [
        (None, None, 100, True),
        (None, Seen("", 90), 100, False),
        (None, Seen("", 80), 100, True),
        ({"metadata": {"resourceVersion": "7"}}, None, 100, True),
        (lease(""), None, 100, True),
        (lease(None), Seen("7", 99), 100, True),
        (lease("me"), Seen("7", 99), 100, True),
        (lease("other"), None, 100, False),
        (lease("other"), Seen("7", 85), 100, False),
        (lease("other"), Seen("7", 84.9), 100, True),
        (lease("other", 30), Seen("7", 84.9), 100, False),
        (lease("other", None), Seen("7", 85), 100, True),
    ],
)
def test_a_lease_is_free_when_its_holder_has_not_renewed_it_for_the_time_it_promised(
    found: dict[str, Any] | None, seen: Seen | None, now: float, expected: bool
) -> None:
    assert is_free(found, "me", seen, now, 12) is expected


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (None, {"acquireTime": STAMP, "leaseTransitions": 0}),
        ({"spec": {}}, {"acquireTime": STAMP, "leaseTransitions": 0}),
        (
            {"spec": {"holderIdentity": "other", "leaseTransitions": 4, "acquireTime": "then", "strategy": "x"}},
            {"acquireTime": STAMP, "leaseTransitions": 5, "strategy": "x"},
        ),
        (
            {"spec": {"holderIdentity": "me", "leaseTransitions": 4, "acquireTime": "then"}},
            {"acquireTime": "then", "leaseTransitions": 4},
        ),
    ],
)
def test_a_lease_that_is_ours(before: dict[str, Any] | None, expected: dict[str, Any]) -> None:
    assert held(before, "me", 15, NOW) == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": STAMP,
        **expected,
    }


def test_times_have_microseconds() -> None:
    assert micro_time(NOW) == STAMP


# --- against the real API server ----------------------------------------------------------------------------------

Candidate = Callable[..., Election]


@pytest.fixture
def api(plane: ControlPlane) -> Api:
    """The API server, as admin."""
    return connect(str(plane.kubeconfig()))


@pytest.fixture
def candidate(api: Api, namespace: str) -> Iterator[Candidate]:
    """A candidate that is ended with the test."""
    running: list[Election] = []

    def begin(name: str, through: Api = api, seconds: int = SECONDS) -> Election:
        election = Election(through, namespace, "agent", name, seconds)
        running.append(election)
        election.start()
        return election

    yield begin
    for election in running:
        election.release()


@pytest.fixture
def far(plane: ControlPlane, tmp_path: Path) -> Iterator[tuple[Wire, Api]]:
    """The API server over a wire."""
    with wire_to(plane.kubeconfig(), tmp_path) as (wire, kubeconfig):
        yield wire, connect(kubeconfig)


@contextlib.contextmanager
def never_both(*elections: Election) -> Iterator[None]:
    """While this lasts, at most one of them leads at any moment that is looked at."""
    ended = threading.Event()
    both: list[float] = []

    def look() -> None:
        last = False
        while not last:
            last = ended.wait(0.002)  # and once more when it has ended
            leading = [election for election in elections if election.leading]
            if len(leading) > 1 and leading[0].leading:  # still, as it may have let go between the two looks
                both.append(clock())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(10)
    assert both == []


def stored(api: Api, namespace: str) -> dict[str, Any]:
    spec: dict[str, Any] = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/agent")["spec"]
    return spec


def test_one_leads_and_the_other_begins_at_once_when_it_lets_go(api: Api, candidate: Candidate, namespace: str) -> None:
    first = candidate("first", seconds=60)
    assert first.wait(60)
    second = candidate("second", seconds=60)
    with never_both(first, second):
        assert not second.wait(2)
        assert stored(api, namespace)["holderIdentity"] == first.identity

        began = time.monotonic()
        first.release()
        assert not first.leading
        assert second.wait(50)
        took = time.monotonic() - began

    assert took < 50  # far less than the Lease's time
    assert stored(api, namespace) | {"acquireTime": "", "renewTime": ""} == {
        "holderIdentity": second.identity,
        "leaseDurationSeconds": 60,
        "leaseTransitions": 1,
        "acquireTime": "",
        "renewTime": "",
    }
    assert (first.term, second.term) == (1, 1)


def test_a_leader_renews(api: Api, candidate: Candidate, namespace: str) -> None:
    first = candidate("first", seconds=30)
    assert first.wait(60)
    before = stored(api, namespace)

    await_true(lambda: stored(api, namespace)["renewTime"] > before["renewTime"], "a renewal")
    assert stored(api, namespace)["acquireTime"] == before["acquireTime"]
    assert (first.term, first.problem) == (1, "")


@pytest.mark.parametrize("how", ["silent", "refused"])
def test_a_leader_that_is_cut_off_knows_it_before_another_leads(
    candidate: Candidate, far: tuple[Wire, Api], how: str
) -> None:
    wire, through = far
    first = candidate("first", through)
    assert first.wait(60)
    second = candidate("second")
    with never_both(first, second):
        if how == "silent":
            wire.stop()
        else:
            wire.refuses = True
            wire.cut()
        assert second.wait(90)
        assert not first.leading
        assert first.problem or how == "silent"

        wire.refuses = True  # what was held back is lost
        wire.cut()
        wire.mend()
        await_true(lambda: first.problem == "", "it is a candidate again")
        second.release()
        assert first.wait(90)
    assert first.term > 1


def test_a_short_trouble_is_no_change_of_leaders(candidate: Candidate, far: tuple[Wire, Api]) -> None:
    wire, through = far
    first = candidate("first", through, seconds=60)
    assert first.wait(60)

    for _ in range(5):
        wire.cut()
        time.sleep(0.1)

    assert first.leading
    assert first.term == 1


def test_a_process_with_the_same_name_is_another_one(candidate: Candidate) -> None:
    first = candidate("agent-0", seconds=60)
    assert first.wait(60)
    second = candidate("agent-0", seconds=60)

    assert not second.wait(3)
    assert first.leading


def test_a_lease_that_is_deleted_changes_nothing(api: Api, candidate: Candidate, namespace: str) -> None:
    first = candidate("first", seconds=30)
    assert first.wait(60)
    second = candidate("second", seconds=30)
    await_true(lambda: second._seen is not None, "the other has looked")
    with never_both(first, second):
        api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/agent")
        await_true(lambda: stored_or_none(api, namespace) == first.identity or not first.leading, "it is written again")
        assert first.leading
    assert second.term == 0


def test_a_lease_deleted_under_another_leader_is_not_free_to_the_former_one(
    plane: ControlPlane, api: Api, candidate: Candidate, namespace: str, far: tuple[Wire, Api], tmp_path: Path
) -> None:
    wire, through = far
    (tmp_path / "second").mkdir()
    with wire_to(plane.kubeconfig(), tmp_path / "second") as (other, kubeconfig):
        first = candidate("first", through)
        assert first.wait(60)
        second = candidate("second", connect(kubeconfig))
        with never_both(first, second):
            wire.refuses = True
            wire.cut()
            assert second.wait(90)

            other.refuses = True
            other.cut()
            api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/agent")
            wire.refuses = False
            assert first.wait(90)


def stored_or_none(api: Api, namespace: str) -> str | None:
    found = api.find(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/agent")
    return found["spec"]["holderIdentity"] if found else None


def test_many_candidates_have_one_leader_at_a_time(candidate: Candidate) -> None:
    elections = [candidate(f"agent-{number}") for number in range(5)]
    led: list[Election] = []
    with never_both(*elections):
        for _ in elections:
            await_true(lambda: any(one.leading for one in elections), "a leader")
            (leader,) = (one for one in elections if one.leading)
            led.append(leader)
            leader.release()

    assert len(set(map(id, led))) == 5


def test_without_rights_the_trouble_is_told(plane: ControlPlane, candidate: Candidate) -> None:
    eve = candidate("eve", connect(str(plane.kubeconfig("eve"))))

    await_true(lambda: 'User "eve" cannot get resource "leases"' in eve.problem, "the refusal")
    assert not eve.leading
