"""The times of logs: noted while a container runs, written when it has ended, for real files on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.agent.files import log_times as indexing
from router.agent.files.log_times import Indexing
from router.agent.records import Record, Records
from router.host.local import LocalHost
from router.kubelet.index import Mark
from router.kubelet.indexes import Indexes, Run
from router.pod.layout import PodDirectory
from router.pod.status import ContainerStatus, PodStatus, Running
from router.reconcile import outcomes
from tests.local.queue import until
from tests.reconcile.given import T, began, life, pod

NOW = 1_700_001_000


class Site:
    """Pods whose logs lie below one directory."""

    def __init__(self, root: Path) -> None:
        root.mkdir(mode=0o700)
        self.host = LocalHost(root)
        self.records = Records(lambda view: PodDirectory(str(root), view.job_uid, view.index, view.uid))
        self.indexes = Indexes(write_seconds=3600, clock=lambda: NOW)
        self.indexing = Indexing(self.host, self.records, self.indexes)

    def running(self, uid: str = "u1") -> Record:
        """A Pod whose main container runs, with a log of three bytes."""
        status = PodStatus(phase="Running", started=T, containers=(ContainerStatus("main", Running(T)),))
        record = self.records.add(outcomes.first(pod(name=uid, uid=uid, status=status)))
        record.change(lambda facts: replace(facts, life=life(began())))
        Path(record.directory.log("main")).parent.mkdir(parents=True)
        self.write(record, 3, NOW - 100)
        return record

    def write(self, record: Record, size: int, modified: int) -> None:
        log = Path(record.directory.log("main"))
        new = log.with_name(".new")  # in one step: its thread may look between the size and the time
        new.write_bytes(bytes(size))
        os.utime(new, (modified, modified))
        new.replace(log)

    def end(self, record: Record) -> None:
        record.change(
            lambda facts: replace(facts, pod=replace(facts.pod, status=PodStatus(phase="Succeeded", started=T)))
        )

    def marks(self, record: Record) -> list[Mark]:
        return list(self.indexes.marks(Run(self.host, record.directory, "main", 0)))

    def written(self, record: Record) -> bytes:
        file = Path(record.directory.log_index("main", 0))
        return file.read_bytes() if file.exists() else b""


FIRST, SECOND = Mark((NOW - 100) * 1000, 3), Mark((NOW - 50) * 1000, 8)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


def test_a_log_is_looked_at_while_it_grows_and_once_more_when_it_has_ended(site: Site) -> None:
    record = site.running()

    site.indexing.look()
    assert (site.marks(record), site.written(record)) == ([FIRST], b"")

    site.write(record, 8, NOW - 50)
    site.end(record)
    site.indexing.look()

    assert site.marks(record) == [FIRST, SECOND]
    assert site.written(record) == f"{FIRST.time} 3\n{SECOND.time} 8\n".encode()


def test_what_has_not_begun_or_is_over_is_not_looked_at(site: Site) -> None:
    waits = site.records.add(outcomes.first(pod(name="waits", uid="waits")))
    over = site.running("over")
    site.end(over)

    site.indexing.look()

    assert (site.marks(waits), site.marks(over)) == ([], [])


def test_a_last_look_that_failed_comes_again(site: Site) -> None:
    """The directory is a file for a while: nothing can be read or written there."""
    record, other = site.running(), site.running("u2")
    site.indexing.look()
    logs = Path(record.directory.log("main")).parent
    logs.rename(logs.with_name("away"))
    logs.write_text("in the way")
    site.write(other, 8, NOW - 50)
    for one in (record, other):
        site.end(one)

    site.indexing.look()
    assert site.written(other) == f"{FIRST.time} 3\n{SECOND.time} 8\n".encode()

    logs.unlink()
    logs.with_name("away").rename(logs)
    site.indexing.look()
    assert site.written(record) == f"{FIRST.time} 3\n".encode()


def test_a_pod_that_is_forgotten_is_not_looked_at_for_ever(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    record = site.running()
    site.indexing.look()
    logs = Path(record.directory.log("main")).parent
    logs.rename(logs.with_name("away"))
    logs.write_text("in the way")
    site.end(record)
    site.records.drop(record)
    caplog.set_level("INFO", "batchgate.agent")

    for _ in range(3):
        site.indexing.look()

    assert len(caplog.records) == 1


@pytest.fixture
def quick(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setattr(indexing, "SECONDS", 0.01)
    yield site
    site.indexing.stop()


def test_its_thread_looks_again_and_again_until_it_is_stopped(quick: Site) -> None:
    record = quick.running()
    quick.indexing.start()
    until(lambda: quick.marks(record), lambda marks: marks == [FIRST])

    quick.write(record, 8, NOW - 50)
    until(lambda: quick.marks(record), lambda marks: marks == [FIRST, SECOND])

    assert quick.indexing.alive
    quick.indexing.stop()
    until(lambda: quick.indexing.alive, lambda alive: not alive)
