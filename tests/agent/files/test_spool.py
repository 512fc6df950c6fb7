"""The spool: what scripts tell is read once, whoever comes late, and goes with its Pod."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from router.agent.files.spool import Spool
from router.agent.records import Record, Records
from router.host.local import LocalHost
from router.pod.layout import PodDirectory
from router.pod.life import Note
from router.reconcile import outcomes
from tests.agent.test_records import pod


class Site:
    """A site with a spool, and what was told of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = LocalHost(root)
        self.records = Records(lambda view: PodDirectory(str(root), view.job_uid, view.index, view.uid))
        self.news: list[tuple[str, list[int]]] = []
        self.troubles: list[str] = []
        self.spool = Spool(
            self.host, str(root), self.records, self._told, lambda error: self.troubles.append(str(error))
        )
        self.host.make_directory(root / "spool")

    def _told(self, record: Record, notes: list[Note]) -> None:
        self.news.append((record.uid, [note.number for note in notes]))

    def write(self, name: str, event: str = "started", job: str = "7.server") -> None:
        text = f'{{"event":"{event}","job":"{job}","host":"n1","time":1000}}\n'
        self.host.put(self.root / "spool" / name, text.encode())

    def names(self) -> list[str]:
        return sorted(self.host.names(self.root / "spool"))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "site")


def test_a_note_is_read_once_and_is_in_the_facts(site: Site) -> None:
    record = site.records.add(outcomes.first(pod("u1")))
    site.write("u1.1.started")

    site.spool.look()
    site.spool.look()

    assert site.news == [("u1", [1])]
    assert [notes.job for notes in record.facts.life.jobs] == ["7.server"]


def test_notes_of_a_pod_that_is_known_later_are_read_then(site: Site) -> None:
    """After a restart the spool is there before the Pods are."""
    site.write("u1.1.started")
    site.spool.look()
    assert site.news == []

    site.records.add(outcomes.first(pod("u1")))
    site.spool.look()

    assert site.news == [("u1", [1])]


def test_what_is_being_written_or_planted_is_not_believed(site: Site) -> None:
    site.records.add(outcomes.first(pod("u1")))
    (site.root / "spool" / ".u1.1.started").write_text("{")
    (site.root / "spool" / "u1.2.started").write_text('{"event":"started"')
    (site.root / "spool" / "u1.3.started").symlink_to("/etc/passwd")
    os.mkfifo(site.root / "spool" / "u1.4.ended")
    (site.root / "spool" / "nothing").write_text("")

    site.spool.look()

    assert site.news == []


def test_the_notes_of_a_pod_go_with_it(site: Site) -> None:
    site.records.add(outcomes.first(pod("u1")))
    for name in ("u1.1.started", "u1.2.ended", "u2.1.started"):
        site.write(name, event=name.rpartition(".")[2])
    site.spool.look()

    site.spool.clear("u1")

    assert site.names() == ["u2.1.started"]
    site.spool.clear("u1")


def test_no_spool_yet_is_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path / "site")
    (site.root / "spool").rmdir()

    site.spool.look()

    assert site.news == []


def test_notes_that_go_while_the_spool_is_looked_at(site: Site) -> None:
    """A Pod is let go by another thread, in the middle of a look."""
    for uid in ("u1", "u2", "u3"):
        site.records.add(outcomes.first(pod(uid)))
        site.write(f"{uid}.1.started")
    told = site.spool._news

    def clear_others(record: Record, notes: list[Note]) -> None:
        told(record, notes)
        for uid in {"u1", "u2", "u3"} - {record.uid}:
            site.spool.clear(uid)

    site.spool._news = clear_others
    site.spool.look()

    [(first, numbers)] = site.news  # the directory's order is the file system's
    assert numbers == [1]
    assert site.names() == [f"{first}.1.started"]
