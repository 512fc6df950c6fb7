"""Pods as the kubelet API shows them: states as their status says them, runs as their files do, usage as the job's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from router import names
from router.agent.files.entering import Entrance
from router.agent.files.log_source import Logged, logged, measured, usage_of
from router.agent.records import Record, Records
from router.host.local import LocalHost
from router.hpc import JobReport, JobState
from router.kube.client import Api
from router.kubelet.figures import ContainerUsage, PodUsage, Usage
from router.kubelet.runs import LoggedContainer, RunState
from router.pod.layout import PodDirectory
from router.pod.life import fold_all
from router.pod.status import ContainerStatus, PodStatus, Running, State, Terminated, Waiting
from router.pod.view import PodView
from router.reconcile import outcomes
from tests.reconcile.given import JOB, MAIN, NOTHING, SIDECAR, UID, T, began, life, note, pod, report

NOWHERE = cast("Api", object())
"""Is not asked."""
NO_ENTRANCE = cast("Entrance", SimpleNamespace(enter=None, allow=None))


def records() -> Records:
    return Records(lambda view: PodDirectory("/w", view.job_uid, view.index, view.uid))


def record_of(view: PodView, *reports: JobReport, known: Records | None = None, heard: float = T + 100) -> Record:
    """A Pod that the agent knows, with what the batch system says of its job."""
    record = (known or records()).add(outcomes.first(view))
    for one in reports:
        record.change(lambda facts: outcomes.reported(facts, one, heard))  # noqa: B023 - called at once
    return record


def running(*containers: ContainerStatus, **fields: object) -> PodView:
    return pod(status=PodStatus(phase="Running", started=T + 10, containers=containers), **fields)


@pytest.mark.parametrize(
    ("state", "restarts", "expected"),
    [
        (Running(T + 12), 0, LoggedContainer("main", RunState.RUNNING, 0)),
        (Terminated(1, "Error"), 2, LoggedContainer("main", RunState.TERMINATED, 2)),
        (Waiting("Queued"), 0, LoggedContainer("main", RunState.WAITING, None, "Queued")),
        (Waiting("CrashLoopBackOff"), 3, LoggedContainer("main", RunState.WAITING, 3, "CrashLoopBackOff")),
    ],
    ids=["running", "ended", "queued", "restarting"],
)
def test_the_run_of_a_container_by_its_status(state: State, restarts: int, expected: LoggedContainer) -> None:
    """An agent that has just started knows no notes."""
    found = logged(record_of(running(ContainerStatus("main", state, restarts=restarts))))

    assert found.containers == (expected,)
    assert (found.namespace, found.name, found.uid, found.node) == ("lab", "train-0", UID, "batch.hpc1.batchgate")
    assert str(found.directory.log("main", 1)) == f"/w/pods/job-uid/0/{UID}/log/main.1"


def test_the_files_know_a_run_before_its_status_does() -> None:
    record = record_of(running(ContainerStatus("main", Running(T + 12))))
    record.change(lambda facts: replace(facts, life=life(began(), began(restart=1, time=T + 40))))

    assert logged(record).containers == (LoggedContainer("main", RunState.RUNNING, 1),)


def test_a_container_without_a_status_waits() -> None:
    record = record_of(pod(("main", MAIN), ("proxy", SIDECAR)))

    assert logged(record).containers == (
        LoggedContainer("main", RunState.WAITING, None, names.REASON_CREATING),
        LoggedContainer("proxy", RunState.WAITING, None, names.REASON_CREATING),
    )


def test_a_pod_is_found_by_its_name_for_as_long_as_there_is_one(tmp_path: Path) -> None:
    known = records()
    record = record_of(running(ContainerStatus("main", Running(T + 12))), known=known)
    source = Logged(NOWHERE, lambda _: LocalHost(tmp_path), known, "hpc1", NO_ENTRANCE)

    found = source.pod("lab", "train-0")

    assert found == logged(record)
    assert found is not None
    assert isinstance(source.files(found), LocalHost)
    assert source.pod("lab", "train-1") is None
    assert source.pod("other", "train-0") is None
    record.depart()
    assert source.pod("lab", "train-0") is None


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ({"cput": "00:01:05", "mem": "2048kb"}, (65.0, 2 << 20)),
        ({"mem": "2048kb"}, (None, 2 << 20)),
        ({"cput": "soon", "mem": "2048kb"}, (None, 2 << 20)),
        ({"cput": "100000:00:01", "mem": "2048kb"}, (360_000_001.0, 2 << 20)),
        ({"cput": "00:00:00", "mem": "2048kb"}, (0.001, 2 << 20)),
        ({"cput": "00:01:05", "mem": "0kb"}, (65.0, None)),
    ],
)
def test_what_a_running_job_uses(used: dict[str, str], expected: tuple[float | None, int | None]) -> None:
    found = usage_of(record_of(running(ContainerStatus("main", Running(T + 12)), job_id=JOB), report(used=used)))

    assert found is not None
    assert found.usage is not None
    assert (found.usage.cpu_seconds, found.usage.memory_bytes) == expected
    assert (found.namespace, found.name, found.uid, found.started) == ("lab", "train-0", UID, T + 10)
    assert found.containers == (ContainerUsage("main", T + 12, found.usage),)


@pytest.mark.parametrize(
    ("start", "walltime", "heard", "at"),
    [
        (T, "00:10:00", T + 603, T + 600),
        (T, "00:10:00", T + 1199, T + 600),
        (T, "00:10:00", T + 1201, T + 1201),
        (T, "00:10:00", T + 599, T + 599),
        (T, "", T + 603, T + 603),
        (T, "long", T + 603, T + 603),
        (None, "00:10:00", T + 603, T + 603),
    ],
    ids=["a job's own time", "late", "it was suspended", "a clock is ahead", "no walltime", "bad", "no start"],
)
def test_when_it_was_measured(start: float | None, walltime: str, heard: float, at: float) -> None:
    started = None if start is None else datetime.fromtimestamp(start, UTC)
    record = record_of(
        running(ContainerStatus("main", Running(T)), job_id=JOB),
        replace(report(used={"mem": "4kb", "walltime": walltime}), started=started),
        heard=heard,
    )

    found = usage_of(record)

    assert found is not None
    assert found.usage == Usage(at, None, 4096, walltime)


def test_what_a_job_uses_is_not_shared_out_among_its_containers() -> None:
    view = replace(
        running(ContainerStatus("main", Running(T + 12)), ContainerStatus("proxy", Running(T + 11)), job_id=JOB),
        containers=pod(("main", MAIN), ("proxy", SIDECAR)).containers,
    )

    found = usage_of(record_of(view, report(used={"mem": "4kb"})))

    assert found is not None
    assert found.usage is not None
    assert found.usage.memory_bytes == 4096
    assert found.containers == (ContainerUsage("main", T + 12), ContainerUsage("proxy", T + 11))


def test_what_nobody_knows_is_left_out() -> None:
    view = running(ContainerStatus("main", Running(T + 12)), job_id=JOB)
    over = replace(view, status=replace(view.status, phase="Succeeded"))

    assert usage_of(record_of(pod())) is None
    assert usage_of(record_of(over, report(used={"mem": "4kb"}))) is None
    nothing: tuple[dict[str, str], ...] = (
        {},
        {"cput": "soon", "mem": "much"},
        {"mem": "0kb"},
        {"walltime": "00:10:00", "ncpus": "4"},
    )
    for known in (record_of(view), *(record_of(view, report(used=used)) for used in nothing)):
        found = usage_of(known)
        assert found is not None
        assert found.usage is None


def test_the_usage_of_a_node_is_that_of_its_pods() -> None:
    known = records()
    status = PodStatus(phase="Running", started=T, containers=(ContainerStatus("main", Running(T)),))
    for name, node in (("a", "one"), ("b", "two"), ("c", "one")):
        record_of(pod(name=name, uid=name, node=node, status=status), known=known)
    record_of(pod(name="waits", uid="d", node="one"), known=known)
    source = Logged(NOWHERE, lambda _: LocalHost(Path("/w")), known, "hpc1", NO_ENTRANCE)

    assert [one.name for one in source.usage("one").pods] == ["a", "c"]
    assert [one.name for one in source.usage("").pods] == ["a", "b", "c"]
    assert source.usage("one").name == "one"


class Cluster:
    """The API server's Pods, by the two selectors that are used."""

    def __init__(self, *pods: dict[str, Any]) -> None:
        self.every = pods

    def pages(self, path: str, **query: str) -> Iterator[tuple[list[Any], str]]:
        assert path == "/api/v1/pods"
        key, _, site = query.get("labelSelector", "").partition("=")
        node = query.get("fieldSelector", "").removeprefix("spec.nodeName=")
        for one in self.every:  # a page each
            if one["metadata"]["labels"].get(key, "") == site and node in ("", one["spec"]["nodeName"]):
                yield [one], "7"


def test_the_pods_of_a_node_are_the_api_server_s(tmp_path: Path) -> None:
    """Whole Pods: of a Node also those of DaemonSets, which carry no label of ours; of all Nodes by the site's label."""

    def made(name: str, node: str, **labels: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "labels": labels}, "spec": {"nodeName": node, "containers": []}}

    ours = {names.KEY_SITE: "hpc1"}
    every = made("a", "one", **ours), made("b", "two", **ours), made("c", "one"), made("d", "one", **ours)
    source = Logged(cast("Api", Cluster(*every)), lambda _: LocalHost(tmp_path), records(), "hpc1", NO_ENTRANCE)

    assert source.pods("one") == [every[0], every[2], every[3]]
    assert source.pods("") == [every[0], every[1], every[3]]


def test_notes_of_another_job_say_nothing_of_a_run() -> None:
    """Only the job with the claim has run anything."""
    record = record_of(running(ContainerStatus("main", Waiting("Queued"))))
    record.change(
        lambda facts: replace(facts, life=fold_all(NOTHING, [note("running", T, container="main", restart=0)]))
    )

    assert logged(record).containers == (LoggedContainer("main", RunState.WAITING, None, "Queued"),)


def test_a_suspended_job_still_uses_memory() -> None:
    view = running(ContainerStatus("main", Running(T + 12)), job_id=JOB)

    found = usage_of(record_of(view, report(JobState.SUSPENDED, used={"mem": "4kb"})))

    assert found is not None
    assert found.usage is not None
    assert found.usage.memory_bytes == 4096


USED = Usage(T, 60.0, 4096)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (Usage(T + 30, 60.0, 4096), USED),
        (Usage(T + 30, 61.0, 4096), Usage(T + 30, 61.0, 4096)),
        (Usage(T + 30, 60.0, 8192), Usage(T + 30, 60.0, 8192)),
        (Usage(T + 601, 60.0, 4096), Usage(T + 601, 60.0, 4096)),
        (Usage(T + 30, 60.0, 4096, "00:01:30"), Usage(T + 30, 60.0, 4096, "00:01:30")),
        (None, None),
    ],
    ids=["the same", "more time", "more memory", "stale", "measured again", "unknown"],
)
def test_figures_keep_the_time_at_which_they_were_first_seen(later: Usage | None, expected: Usage | None) -> None:
    before = PodUsage("lab", "p", "u", T, USED, (ContainerUsage("main", T, USED),))
    now = PodUsage("lab", "p", "u", T, later, (ContainerUsage("main", T, later),))

    assert measured(before, now) == PodUsage("lab", "p", "u", T, expected, (ContainerUsage("main", T, expected),))
    assert measured(None, now) == now
