"""The last check of a site: kept in a real ConfigMap with the agent's own rights, and seen there by whoever leads."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator

import pytest

from router import names
from router.agent.lastcheck import CheckRecord, LastCheck
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.errors import ApiUnavailable, InputError, NotFound
from router.kube.client import connect
from router.preflight import Line, Mark
from router.preflight.record import Kept
from tests.kube.wire import await_true

TIME = "2026-03-01T12:00:00Z"
FULL = Line("work-directory", "ada", Mark.MUST, "the disk is full", "room", "make room")
GOOD = Line("work-directory", "ada", Mark.OK, "written", "room")
REFUSED = Kept({"ada": TIME}, {"ada": ("work-directory",)}, (FULL,))
_NUMBERS = itertools.count(1)


@pytest.fixture
def record(plane: ControlPlane) -> Iterator[CheckRecord]:
    """Of a site of the test's own, as the agent's account."""
    made = CheckRecord(connect(str(installing.agent(plane))), names.SYSTEM_NAMESPACE, f"checked{next(_NUMBERS)}")
    yield made
    write(plane, made, None)


def write(plane: ControlPlane, record: CheckRecord, text: str | None) -> None:
    """Put any text in the record's place, as an admin may."""
    patch = json.dumps({"data": {f"{record.site}.json": text}})
    place = (names.CHECKS_CONFIG_MAP, "-n", record.namespace)
    plane.kubectl("patch", "configmap", *place, "--type=merge", "-p", patch)


def test_a_site_that_was_never_checked(record: CheckRecord) -> None:
    record.look()

    assert record.read() == Kept()


def test_a_check_is_kept_and_read(plane: ControlPlane, record: CheckRecord) -> None:
    assert record.keep([FULL], ["ada"], TIME, whole=True) == REFUSED
    assert record.read() == REFUSED

    other = CheckRecord(record.api, record.namespace, f"{record.site}-2")
    assert other.keep([GOOD], ["ada"], TIME, whole=True) == Kept({"ada": TIME})

    assert (record.read(), other.read()) == (REFUSED, Kept({"ada": TIME}))
    write(plane, other, None)


def test_checks_that_end_at_the_same_time_are_all_kept(record: CheckRecord) -> None:
    users = ["ada", "ben", "eve"]
    start = threading.Barrier(len(users))

    def check(user: str) -> None:
        start.wait()
        record.keep([Line("reach", user, Mark.MUST, "", "", "")], [user], TIME, whole=False)

    threads = [threading.Thread(target=check, args=(user,)) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert record.read().broken == dict.fromkeys(users, ("reach",))


def test_what_is_no_record_is_said_and_replaced(plane: ControlPlane, record: CheckRecord) -> None:
    write(plane, record, "{")

    with pytest.raises(InputError, match=f"batchgate-checks, {record.site}.json: is not the record of a site check"):
        record.read()

    assert record.keep([GOOD], ["ada"], TIME, whole=True) == record.read()


def test_without_the_config_map(plane: ControlPlane, namespace: str) -> None:
    """As in a cluster whose manifests are older: nothing is known of any check, and none can be kept."""
    record = CheckRecord(connect(str(plane.kubeconfig())), namespace, "here")

    assert record.read() == Kept()
    for ask in (record.look, lambda: record.keep([GOOD], ["ada"], TIME, whole=True)):
        with pytest.raises(NotFound):
            ask()


class Following:
    """What a leader is told."""

    def __init__(self, record: CheckRecord) -> None:
        self.told: list[Kept] = []
        self.check = LastCheck(record, self.told.append, every=0.1)


@pytest.fixture
def following(record: CheckRecord) -> Iterator[Following]:
    made = Following(record)
    yield made
    made.check.stop()


def test_a_leader_is_told_of_each_check_without_a_restart(record: CheckRecord, following: Following) -> None:
    check = following.check
    assert not check.known.is_set()

    check.start()
    await_true(check.known.is_set, "the first look")
    assert (following.told, check.refusal()) == ([Kept()], "")

    record.keep([FULL], ["ada"], TIME, whole=True)
    await_true(check.refusal, "the refusal")
    assert check.refusal().startswith(f"the last check of site {record.site} failed (work-directory)")

    record.keep([GOOD], ["ada"], TIME, whole=True)
    await_true(lambda: not check.refusal(), "its end")
    await_true(lambda: following.told == [Kept(), REFUSED, Kept({"ada": TIME})], "what was told")

    check.stop()
    await_true(lambda: not check.alive, "the thread's end")


def test_what_cannot_be_understood_changes_nothing(
    plane: ControlPlane, record: CheckRecord, following: Following
) -> None:
    check = following.check
    record.keep([FULL], ["ada"], TIME, whole=True)
    check.look()

    write(plane, record, "{")
    check.look()

    assert (following.told, bool(check.refusal())) == ([REFUSED], True)


def test_nothing_is_known_while_the_first_look_has_not_come_out(record: CheckRecord) -> None:
    class Away:
        def find(self, path: str) -> None:
            raise ApiUnavailable(0, "no answer", "connection refused", path)

    told: list[Kept] = []
    check = LastCheck(CheckRecord(Away(), record.namespace, record.site), told.append)  # type: ignore[arg-type]

    with pytest.raises(ApiUnavailable):
        check.look()

    assert (check.known.is_set(), told) == (False, [])


def test_who_may_not_read_it_is_as_if_there_were_none(plane: ControlPlane, record: CheckRecord) -> None:
    """The webhook's account, which has no business there."""
    stranger = CheckRecord(connect(str(installing.webhook(plane))), record.namespace, record.site)
    told: list[Kept] = []
    check = LastCheck(stranger, told.append)

    check.look()

    assert (check.known.is_set(), told, check.refusal()) == (True, [Kept()], "")
