"""The batch system asked in few questions, on a real embedded queue: what comes of it stands in the Pods' facts."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from router.agent.batch import questions
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.batch.reachability import Reachability
from router.agent.batch.user_observer import ObserverSettings, UserObserver
from router.agent.files.log_source import Logged
from router.agent.metrics import Metrics
from router.agent.records import Record, Records
from router.background.backoff import BackOff
from router.errors import Refused
from router.host.local import LocalHost
from router.hpc import JobState, Submission, job_name, local
from router.kube.client import Api
from router.pod.layout import PodDirectory
from router.reconcile import outcomes, pace
from tests.agent.files.test_log_source import NO_ENTRANCE
from tests.agent.test_records import pod
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue, until

CLUSTER = "0a1b2c3d"


class Site:
    """An embedded queue, a directory, and an observer of both."""

    def __init__(self, queue: EmbeddedQueue, tmp_path: Path) -> None:
        self.queue = queue
        self.root = str(tmp_path / "site")
        self.host = LocalHost(self.root)
        self.metrics = Metrics()
        commands = local.commands_of(str(queue.directory), prefix=(sys.executable, "-m", "router.local"))
        self.batch = BatchCommands(self.host, local, commands, getpass.getuser(), 60, self.metrics)
        self.records = Records(
            lambda view: PodDirectory(self.root, view.job_uid, view.index, view.uid), user=getpass.getuser()
        )
        self.said: list[str] = []
        self.reach = Reachability(self.said.append, BackOff(first=0.2, longest=1))
        self.woken: list[str] = []
        self.observer = self.looking_every(0.5)

    def looking_every(self, seconds: float) -> UserObserver:
        asking = ObserverSettings(self.root, CLUSTER, usual=seconds, quick=seconds, idle=seconds, lost_proof=600)
        return UserObserver(
            BatchJobs(self.batch), asking, self.records, self.reach, wake=self.woken.append, notice=lambda: None
        )

    def directory(self, uid: str, index: str = "3") -> PodDirectory:
        return PodDirectory(self.root, "job-1", index, uid)

    def submit(self, uid: str, script: str = "sleep 600") -> str:
        """A batch job with a Pod's tag and directory."""
        directory = self.directory(uid)
        self.host.put(directory.script, f"#!/bin/bash\n{script}\n".encode())
        name = job_name("p", CLUSTER, uid, self.batch.name_limit)
        return self.batch.submit(
            Submission(name, str(directory.script), str(directory.path), str(directory.output))
        ).job_id

    def record(self, uid: str) -> Record:
        return self.records.add(outcomes.first(pod(uid, uid, index="3")))

    def asked(self, kind: str) -> float:
        """How many commands of a kind were run."""
        return float(self.metrics.commands.labels(kind, "ok")._value.get())


@pytest.fixture
def site(queue: EmbeddedQueue, tmp_path: Path) -> Iterator[Site]:
    made = Site(queue, tmp_path)
    yield made
    made.observer.stop()
    made.observer.await_end()  # a command of its would start the queue's process again after its end


def state(record: Record) -> JobState | None:
    """Of the Pod's one job."""
    jobs = record.facts.jobs
    return jobs[0].report.state if jobs and jobs[0].report else None


def test_a_job_is_found_by_its_tag_and_followed_to_its_end(site: Site) -> None:
    record = site.record("u1")
    job_id = site.submit("u1")

    site.observer.start()

    until(lambda: state(record), lambda seen: seen is JobState.RUNNING)
    assert [job.job_id for job in record.facts.jobs] == [job_id]
    assert site.observer.looked.wait(30)
    until(lambda: record.facts.looked)
    assert "u1" in site.woken
    site.batch.cancel([job_id])
    until(lambda: state(record), lambda seen: seen is JobState.FINISHED)
    assert record.facts.jobs[0].over_since is not None


def test_a_job_that_does_not_end_by_itself_ends_by_force(site: Site) -> None:
    """It hears no TERM, and the queue would give it a day."""
    site.queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 4}, killDelay=86400)
    record = site.record("u1")
    job_id = site.submit("u1", "trap '' TERM; while :; do sleep 1; done")
    site.observer.start()
    until(lambda: state(record), lambda seen: seen is JobState.RUNNING)

    site.batch.cancel([job_id])
    site.batch.cancel([job_id], force=True)

    until(lambda: state(record), lambda seen: seen is JobState.FINISHED)


def test_many_jobs_cost_as_many_questions_as_one(site: Site) -> None:
    """Two commands a cycle at most, and one while nothing changes."""
    site.queue.define({"name": "workq", "nodes": 4, "cpusPerNode": 40, "memory": "64gb", "walltimeMax": 3600})
    records = [site.record(f"u{number}") for number in range(12)]
    for record in records:
        site.submit(record.uid)

    site.observer.start()

    until(lambda: [state(record) for record in records], lambda seen: set(seen) == {JobState.RUNNING})
    lists = site.asked("list")
    details = site.asked("details")
    assert details <= lists + 1
    until(lambda: site.asked("list"), lambda count: count >= lists + 3)
    assert site.asked("details") <= details + 1


def test_what_a_running_job_uses_is_asked_where_somebody_wants_it(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_FIGURES_AGAIN", 1.0)
    record = site.record("u1")
    site.submit("u1", "while :; do :; done")
    site.observer.start()
    until(lambda: state(record), lambda seen: seen is JobState.RUNNING)
    lists = site.asked("list")
    details = until(lambda: site.asked("details") if site.asked("list") >= lists + 3 else None)
    lists = site.asked("list")
    until(lambda: site.asked("list"), lambda count: count >= lists + 3)
    assert site.asked("details") == details, "nobody wants it yet"

    Logged(cast("Api", None), lambda _: site.host, site.records, "hpc1", NO_ENTRANCE).usage("")

    until(lambda: record.facts.jobs[0].report, lambda report: bool(report and report.used.get("cput", "") > "00:00:00"))
    assert site.asked("details") > details


def test_a_job_of_ours_without_a_pod_is_missed_and_not_touched(site: Site) -> None:
    job_id = site.submit("stray")

    site.observer.start()

    record = until(lambda: site.records.get("stray"))
    assert record is not None
    assert record.missing is not None
    assert (record.name, record.directory) == ("p", site.directory("stray"))
    assert [job.job_id for job in record.facts.jobs] == [job_id]
    assert site.queue.job(job_id)["job_state"] in {"Q", "R"}


def test_other_jobs_of_the_same_user_are_nothing_to_us(site: Site) -> None:
    site.queue.submit("sleep 600", "-N", "by-hand")
    site.observer.start()

    assert site.observer.looked.wait(30)
    details = site.asked("details")
    lists = site.asked("list")
    until(lambda: site.asked("list"), lambda count: count >= lists + 3)

    assert site.records.all() == []
    assert site.asked("details") == details, "asked about once"


def test_a_job_that_the_server_forgot_is_unknown(site: Site) -> None:
    record = site.record("u1")
    job_id = site.submit("u1")
    site.observer.start()
    until(lambda: state(record))

    site.queue.ok("qdel", "-x", "-W", "force", job_id)

    until(lambda: record.facts.jobs[0].unknown)
    assert record.facts.jobs[0].unknown_since is not None


def test_a_job_whose_id_is_another_pods_by_now_is_unknown(site: Site) -> None:
    """A batch system that dies forgets the last jobs that it took, and gives their ids away once more."""
    job_id = site.submit("u2")
    first, second = site.record("u1"), site.record("u2")
    for record in (first, second):
        record.change(lambda facts: outcomes.submitted(facts, job_id))

    site.observer.start()

    until(lambda: state(second), lambda seen: seen is JobState.RUNNING)
    until(lambda: first.facts.jobs[0].unknown)
    assert first.facts.jobs[0].report is None
    assert not second.facts.jobs[0].unknown
    assert "u1" in site.woken


def test_a_job_whose_id_is_somebody_elses_by_now_is_unknown(site: Site) -> None:
    job_id = site.queue.submit("sleep 600", "-N", "by-hand", "-v", "BATCHGATE_DIR=/elsewhere")
    record = site.record("u1")
    record.change(lambda facts: outcomes.submitted(facts, job_id))

    site.observer.start()

    until(lambda: record.facts.jobs[0].unknown)


def test_jobs_that_vanish_all_at_once_are_not_believed_to_be_gone(site: Site) -> None:
    records = [site.record(f"u{number}") for number in range(5)]
    ids = [site.submit(record.uid, "exec sleep 600") for record in records]
    site.observer = site.looking_every(3600)  # it must not look while some are gone and some are not
    site.observer.start()
    until(lambda: [state(record) for record in records], all)

    site.queue.ok("qdel", "-x", "-W", "force", *ids)
    until(lambda: site.queue.ok("qstat"), lambda listed: not listed)  # by then none is ending any more
    site.observer.check()

    until(lambda: site.reach.reason, lambda words: "vanished at once" in words, seconds=120)
    assert [record.facts.jobs[0].unknown for record in records] == [False] * 5


def test_a_server_that_has_lost_them_is_believed_in_the_end(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "DOUBTED_FOR", 0.005)
    records = [site.record(f"u{number}") for number in range(5)]
    ids = [site.submit(record.uid, "exec sleep 600") for record in records]
    site.observer.start()
    until(lambda: [state(record) for record in records], all)

    site.queue.ok("qdel", "-x", "-W", "force", *ids)

    until(lambda: [record.facts.jobs[0].unknown for record in records], all, seconds=120)


def test_a_server_that_does_not_answer_changes_nothing(site: Site) -> None:
    record = site.record("u1")
    site.submit("u1")
    site.observer.start()
    until(lambda: record.facts.looked and state(record) is JobState.RUNNING)
    before = record.facts

    site.queue.ok("faults", "unreachable=on")
    until(lambda: not site.reach.ok)
    assert record.facts == before
    site.queue.run("faults", "none")
    until(lambda: site.reach.ok)

    assert [bool(words) for words in site.said[-2:]] == [True, False]


def test_a_question_for_one_job_is_answered_between_the_cycles(queue: EmbeddedQueue, tmp_path: Path) -> None:
    site = Site(queue, tmp_path)
    site.observer = site.looking_every(3600)
    record = site.record("u1")
    site.observer.start()
    assert site.observer.looked.wait(30)
    job_id = site.submit("u1")
    record.change(lambda facts: outcomes.submitted(facts, job_id))

    site.observer.ask([job_id])

    until(lambda: state(record))
    assert site.asked("list") == 1
    site.observer.stop()


def test_what_a_submission_is_refused_for_is_told_in_the_servers_words(site: Site) -> None:
    with pytest.raises(Refused, match="limits"):
        site.submit("u1", "#PBS -l walltime=99:00:00\ntrue")


def test_a_pods_job_is_found_by_its_name(site: Site) -> None:
    job_id = site.submit("u1")

    assert site.batch.find(job_name("p", CLUSTER, "u1", site.batch.name_limit)) == (job_id,)
    assert site.batch.find("nobody.x.y") == ()
    assert [report.job_id for report in site.observer.search("u1")] == [job_id]
