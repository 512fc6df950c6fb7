"""Jobs whose Pods are gone: asked for first, given time, and then cancelled; never too many. The cluster is a dict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from router.agent.pods.straying import Strays
from router.agent.records import Record, Records, SiteRecords
from router.hpc import JobReport, JobState
from router.kube.client import Api
from router.pod.layout import PodDirectory
from router.pod.view import departed, view
from router.reconcile import outcomes
from tests.agent.test_records import pod

PATIENCE = 900.0


class Cluster:
    """The API server's answers: Pods by their path."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.asked = 0

    def find(self, path: str) -> dict[str, Any] | None:
        self.asked += 1
        return self.pods.get(path)

    def pages(self, path: str, **query: str) -> Iterator[tuple[list[dict[str, Any]], str]]:
        self.asked += 1
        yield list(self.pods.values()), "1"


class World:
    """Records, and what strays have led to."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.site = SiteRecords()
        self.records, self.others = self._joined("mallory"), self._joined("ada")
        self.woken: list[str] = []
        self.limits: list[str] = []
        self.strays = Strays(
            cast("Api", self.cluster),
            self.site,
            patience=PATIENCE,
            take=self.take,
            wake=self.woken.append,
            limit=self.limits.append,
        )

    def _joined(self, user: str) -> Records:
        records = Records(
            lambda view: PodDirectory("/w", view.job_uid, view.index, view.uid), user=user, site=self.site
        )
        self.site.join(records)
        return records

    def take(self, raw: dict[str, Any]) -> Record | None:
        """What the watch does with a Pod."""
        if "another site's" in raw["metadata"].get("labels", {}):
            return None
        record = self.records.get(raw["metadata"]["uid"])
        assert record is not None
        record.saw(view(raw))
        self.woken.append(record.uid)
        return record

    def missed(self, uid: str, *, seconds: float, records: Records | None = None) -> Record:
        """A Pod with a running job that the API server has not shown for so long."""
        record = (records or self.records).add(outcomes.first(pod(uid, uid, index="3")))
        report = JobReport(f"{uid}.s", JobState.RUNNING, "R", directory=f"/w/pods/job-1/3/{uid}")
        record.change(lambda facts: outcomes.reported(facts, report, 1.0))
        record.missing = time.time() - seconds
        return record


@pytest.fixture
def world() -> World:
    return World()


def test_nothing_is_done_before_the_time_is_up(world: World) -> None:
    record = world.missed("u1", seconds=PATIENCE - 60)

    assert world.strays.look() == 0
    assert (record.facts.pod.name, world.cluster.asked) == ("u1", 0)


def test_a_pod_that_is_surely_gone_departs(world: World) -> None:
    record = world.missed("u1", seconds=PATIENCE + 1)

    assert world.strays.look() == 1
    assert world.cluster.asked == 1
    assert (record.facts.pod.name, record.facts.pod.deleting, world.woken) == ("", True, ["u1"])
    assert not record.missing


def test_a_pod_that_the_watch_has_lost_and_the_server_has_comes_back(world: World) -> None:
    record = world.missed("u1", seconds=PATIENCE + 1)
    metadata = {"namespace": "ns", "name": "u1", "uid": "u1", "resourceVersion": "9"}
    world.cluster.pods["/api/v1/namespaces/ns/pods/u1"] = {"metadata": metadata, "spec": {}}

    assert world.strays.look() == 0
    assert not record.missing
    assert record.facts.pod.name == "u1"


def test_a_pod_of_another_site_is_left_to_it(world: World) -> None:
    world.missed("u1", seconds=PATIENCE + 1)
    metadata = {"namespace": "ns", "name": "u1", "uid": "u1", "labels": {"another site's": ""}}
    world.cluster.pods["/api/v1/namespaces/ns/pods/u1"] = {"metadata": metadata, "spec": {}}

    assert world.strays.look() == 0
    assert (world.records.get("u1"), world.woken) == (None, [])


def test_another_pod_of_the_name_is_another(world: World) -> None:
    world.missed("u1", seconds=PATIENCE + 1)
    metadata = {"namespace": "ns", "name": "u1", "uid": "another", "resourceVersion": "9"}
    world.cluster.pods["/api/v1/namespaces/ns/pods/u1"] = {"metadata": metadata, "spec": {}}

    assert world.strays.look() == 1


def test_one_whose_place_is_waited_for_goes_at_once(world: World) -> None:
    """Its Job has made another Pod, which waits at the fence."""
    record = world.missed("u1", seconds=1)
    waiting = world.records.add(outcomes.first(pod("u2", "u2", index="3")))
    waiting.change(lambda facts: outcomes.surroundings(facts, reachable=True, older=("u1",), disruptions=0))

    assert world.strays.look() == 1
    assert record.facts.pod.deleting


def test_one_of_which_only_the_job_is_known_is_asked_for_by_what_its_job_says(world: World) -> None:
    gone = departed(uid="u1", job_uid="job-1", index="3", job_id="7.s")
    record = world.records.add(outcomes.first(gone))
    record.missing = time.time() - PATIENCE - 1

    assert world.strays.look() == 1
    assert world.cluster.asked == 1


def test_too_many_at_once_are_left_for_a_person(world: World) -> None:
    for number in range(30):
        world.missed(f"u{number}", seconds=PATIENCE + 1)

    assert world.strays.look() == 0
    assert world.strays.look() == 0

    (words,) = world.limits
    assert words.startswith("30 batch jobs of HPC user mallory have no Pod any more, and the agent deletes at most 20")
    assert world.woken == []


def test_too_many_of_one_user_are_left_and_another_users_are_reaped(world: World) -> None:
    for number in range(21):
        world.missed(f"u{number}", seconds=PATIENCE + 1)
    world.missed("other", seconds=PATIENCE + 1, records=world.others)

    assert world.strays.look() == 1

    (words,) = world.limits
    assert words.startswith("21 batch jobs of HPC user mallory")
    assert world.woken == ["other"]


def test_what_is_over_is_forgotten(world: World) -> None:
    record = world.missed("u1", seconds=1)
    record.over = True

    world.strays.look()

    assert world.records.all() == []
