"""Several users' jobs looked at as one account: how many commands it takes, and what is asked as whom.

The batch system is a few little programs; the observer's are in one directory, each user's in another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from router.agent.batch.jobs import JobReports
from router.agent.batch.reachability import Reachability
from router.agent.batch.site_observer import SiteObserver
from router.agent.batch.user_observer import ObserverSettings, UserObserver
from router.agent.metrics import Metrics
from router.agent.records import Record, Records, SiteRecords
from router.background.backoff import BackOff
from router.hpc import JobState, Verdict, slurm
from router.pod.layout import PodDirectory
from router.reconcile import outcomes
from tests.agent.batch.test_user_observer import CLUSTER, state
from tests.agent.batch.tools import INVALID, Tools
from tests.agent.test_records import pod
from tests.hpc.test_slurm import listed, recorded
from tests.local.queue import until

ADA, BEN = "ada", "ben"
JOBS = {ADA: "7", BEN: "8"}
QUICK = 0.2
BACK_OFF = BackOff(first=QUICK, longest=1)


class Site:
    """Users with a Pod and a running job each, and the observer."""

    def __init__(self, tmp_path: Path, users: Sequence[str] = (ADA, BEN)) -> None:
        self.metrics = Metrics()
        self.tools = {name: Tools(tmp_path / name) for name in (*users, "watch")}
        for tools in self.tools.values():
            tools.directory.mkdir()
        batch = self.tools["watch"].jobs(slurm, user="", metrics=self.metrics, observes=True)
        self.site_observer = SiteObserver(batch, usual=QUICK, quick=QUICK, back_off=BACK_OFF)
        self.site = SiteRecords()
        self.reach: dict[str, Reachability] = {}
        self.said: dict[str, list[str]] = {user: [] for user in users}
        self.records: dict[str, Record] = {}
        self.observers = {user: self._observer(user) for user in users}

    def _observer(self, user: str) -> UserObserver:
        root = f"/w/{user}"
        records = Records(
            lambda view: PodDirectory(root, view.job_uid, view.index, view.uid), user=user, site=self.site
        )
        self.site.join(records)
        self.records[user] = records.add(outcomes.first(pod(f"uid-{user}", f"p-{user}", index="0")))
        self.reach[user] = Reachability(self.said[user].append, BACK_OFF)
        return UserObserver(
            self.tools[user].jobs(slurm, user=user, metrics=self.metrics),
            ObserverSettings(root, CLUSTER, usual=QUICK, quick=QUICK, idle=QUICK, lost_proof=600),
            records,
            self.reach[user],
            wake=lambda _: None,
            notice=lambda: None,
            site_observer=self.site_observer,
        )

    def shows(self, name: str, *jobs: str) -> None:
        """What squeue prints to somebody, and that nothing else is known."""
        tools = self.tools[name]
        tools.says("squeue", "".join(jobs))
        tools.says("sacct")
        tools.says("scontrol", stderr=INVALID, rc=1)

    def starts(self) -> None:
        """Each user sees the own job at the start, and all are looked at from then on."""
        for user, observer in self.observers.items():
            self.shows(user, job(user))
            observer.start()
        for observer in self.observers.values():
            assert observer.looked.wait(60)
        for tools in self.tools.values():
            tools.called()
        self.site_observer.start()

    def cycles(self, count: int) -> None:
        """Wait for so many more."""
        first = self.counted("observer-list")
        until(lambda: self.counted("observer-list"), lambda now: now >= first + count, seconds=60)

    def counted(self, kind: str) -> float:
        """How many commands of a kind were run, however they came out."""
        outcomes_ = ("ok", "unavailable", "not understood")
        return float(sum(self.metrics.commands.labels(kind, one)._value.get() for one in outcomes_))

    def state(self, user: str) -> JobState | None:
        return state(self.records[user])

    def stop(self) -> None:
        """A command that still runs would start the queue's process again after its end."""
        for observer in self.observers.values():
            observer.stop()
        self.site_observer.stop()
        until(lambda: not self.site_observer.alive and not any(one.alive for one in self.observers.values()))


def job(user: str, **fields: str) -> str:
    """A user's job as squeue shows it."""
    directory = f"/w/{user}/pods/job-1/0/uid-{user}"
    usual = {"JobID": JOBS.get(user, "9"), "UserName": user, "WorkDir": directory}
    return listed(**{**usual, "Name": f"p-{user}.{CLUSTER}.uid-{user}", **fields})


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def seldom(tmp_path: Path) -> Iterator[Site]:
    """Users whose observer looks once at everything, and then only at what it is asked about."""
    made = Site(tmp_path)
    batch = made.tools["watch"].jobs(slurm, user="", metrics=made.metrics, observes=True)
    made.site_observer = SiteObserver(batch, usual=3600, quick=3600, back_off=BackOff(first=3600, longest=1))
    for user in JOBS:
        made.observers[user]._site_observer = made.site_observer
    yield made
    made.stop()


def test_one_list_shows_everybodys_jobs_and_nobody_is_asked(site: Site) -> None:
    site.shows("watch", job(ADA, State="SUSPENDED"), job(BEN))
    site.starts()

    until(lambda: site.state(ADA), lambda seen: seen is JobState.SUSPENDED, seconds=60)
    site.shows("watch", job(ADA, State="COMPLETED"), job(BEN, State="FAILED", exit_code="768"))
    until(lambda: site.state(ADA), lambda seen: seen is JobState.FINISHED, seconds=60)
    until(lambda: site.state(BEN), lambda seen: seen is JobState.FINISHED, seconds=60)
    site.cycles(2)

    report = site.records[BEN].facts.jobs[0].report
    assert report is not None
    assert (report.exit_status, report.verdict) == (3, Verdict.ENDED)
    assert [site.tools[user].called() for user in (ADA, BEN)] == [[], []]
    assert set(site.tools["watch"].called()) == {"squeue"}
    assert "squeue -a -h -t all -u ada,ben -O" in site.tools["watch"].words


def test_a_cycle_takes_two_commands_however_many_users_there_are(tmp_path: Path) -> None:
    users = [f"u{number}" for number in range(12)]
    site = Site(tmp_path, users)
    ids = {user: str(100 + number) for number, user in enumerate(users)}
    jobs = [job(user, JobID=ids[user]) for user in users]
    try:
        site.shows("watch", *jobs)
        for user in users:
            site.shows(user, job(user, JobID=ids[user]))
            site.observers[user].start()
        assert all(observer.looked.wait(60) for observer in site.observers.values())
        for user in users:
            site.tools[user].called()
        # All end, and Slurm has forgotten them when the observer looks: their records are asked for, once for all.
        over = [
            recorded(JobIDRaw=ids[user], User=user, JobName=f"p.{CLUSTER}.uid-{user}", WorkDir="") for user in users
        ]
        site.tools["watch"].says("squeue")
        site.tools["watch"].says("sacct", "".join(over))
        site.site_observer.start()
        until(lambda: {site.state(user) for user in users}, lambda seen: seen == {JobState.FINISHED}, seconds=60)

        assert site.tools["watch"].called()[:2] == ["squeue", "sacct"]
        site.cycles(2)
        assert set(site.tools["watch"].called()) <= {"squeue"}, "nothing is left to ask about"
        assert [site.tools[user].called() for user in users] == [[]] * 12
    finally:
        site.stop()


def test_a_job_that_the_observer_does_not_see_is_not_gone(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """It is no operator any more, and Slurm answers that there is nothing: the owner knows better."""
    site.shows("watch", job(BEN))
    site.starts()

    until(lambda: "squeue" in site.tools[ADA].called(), seconds=60)
    site.cycles(3)

    facts = site.records[ADA].facts.jobs[0]
    assert (site.state(ADA), facts.unknown_since) == (JobState.RUNNING, None)
    assert site.tools[BEN].called() == []
    assert "scontrol" not in site.tools["watch"].called(), "what an observer does not see proves nothing"
    words = "the observer does not see a job that its owner sees"
    until(lambda: [one for one in caplog.records if one.message == words], seconds=60)
    site.cycles(3)
    assert len([one for one in caplog.records if one.message == words]) == 1


def test_a_job_that_its_owner_does_not_know_either_is_unknown(site: Site) -> None:
    site.shows("watch", job(BEN))
    site.starts()
    site.shows(ADA)

    until(lambda: site.records[ADA].facts.jobs[0].unknown, seconds=60)

    assert not site.records[BEN].facts.jobs[0].unknown
    assert "scontrol" in site.tools[ADA].called()


def test_records_that_cannot_be_asked_send_nobody_to_ask(site: Site) -> None:
    """The same records would not answer the owner."""
    site.tools["watch"].says("squeue", job(BEN))
    site.tools["watch"].says("sacct", stderr="sacct: error: Connection refused", rc=1)
    site.starts()

    site.cycles(3)

    assert site.tools[ADA].called() == []
    assert site.state(ADA) is JobState.RUNNING
    assert site.reach[ADA].ok


def test_an_observer_that_cannot_look_changes_nothing(site: Site) -> None:
    site.shows("watch", job(ADA), job(BEN))
    site.starts()
    site.cycles(1)
    before = {user: site.state(user) for user in JOBS}

    site.tools["watch"].says("squeue", stderr="watch on login: nothing listens on port 22", rc=255)
    until(lambda: [site.reach[user].reason for user in JOBS], all, seconds=60)
    failed = site.counted("observer-list")
    assert {user: site.state(user) for user in JOBS} == before
    assert [site.tools[user].called() for user in JOBS] == [[], []]
    site.shows("watch", job(ADA, State="SUSPENDED"), job(BEN))
    until(lambda: [site.reach[user].ok for user in JOBS], all, seconds=60)

    assert site.counted("observer-list") > failed
    until(lambda: site.state(ADA), lambda seen: seen is JobState.SUSPENDED, seconds=60)


def test_who_begins_while_the_observer_is_away_does_not_reach_the_site_either(site: Site) -> None:
    """That the user's own question was answered at the start says nothing of the jobs later."""
    site.shows("watch", job(ADA), job(BEN))
    site.starts()
    site.tools["watch"].says("squeue", stderr="watch on login: nothing listens on port 22", rc=255)
    until(lambda: site.reach[ADA].reason, seconds=60)
    site.site_observer.stop()
    site.observers[BEN].stop()

    again = site.observers[BEN] = site._observer(BEN)
    again.start()

    until(lambda: (again.looked.is_set(), "nothing listens" in site.reach[BEN].reason), all, seconds=60)


FORGED = "x\x1f/w\x1e\n" + listed(JobID="7", UserName=ADA, State="COMPLETED")[:-2]


@pytest.mark.parametrize("name", ["x\x1e\nrubbish", FORGED])
def test_what_somebody_gives_as_a_name_harms_nobody_else(site: Site, name: str) -> None:
    """A list that cannot be believed: each looks as itself, and only its author sees what that leads to."""
    site.shows("watch", job(ADA, State="SUSPENDED"), job(BEN, Name=name))
    site.starts()
    site.shows(ADA, job(ADA, State="SUSPENDED"))
    site.shows(BEN, job(BEN, Name=name))

    until(lambda: site.state(ADA), lambda seen: seen is JobState.SUSPENDED, seconds=60)

    assert site.reach[ADA].ok
    assert site.counted("observer-list") >= 1


def test_a_job_that_says_to_be_anothers_pods_is_not(site: Site) -> None:
    """It is told to its owner alone, who has no such Pod."""
    site.shows("watch", job(ADA), job(BEN), job(ADA, JobID="99", UserName=BEN, State="FAILED"))
    site.starts()

    site.cycles(3)

    assert [one.job_id for one in site.records[ADA].facts.jobs] == ["7"]
    assert [one.job_id for one in site.records[BEN].facts.jobs] == ["8"]


def test_a_job_that_is_somebody_elses_is_none_of_the_pods_that_names_it(site: Site) -> None:
    """Its number stands in a file, its name and directory say to be that Pod's: its owner decides."""
    site.records[ADA].change(lambda facts: outcomes.submitted(facts, "99"))
    (forged,) = slurm.parse_details(job(ADA, JobID="99", UserName=BEN, State="FAILED")).values()

    site.observers[ADA]._answer(JobReports({"99": forged}))

    assert [(one.job_id, one.report, one.unknown) for one in site.records[ADA].facts.jobs] == [("99", None, True)]


def test_a_job_for_which_questions_fail_is_an_outage_for_nobody(seldom: Site) -> None:
    """Whatever a user's file names as a job, and whatever the batch system says to that."""
    watch = seldom.tools["watch"]
    seldom.shows("watch", job(ADA), job(BEN))
    watch.says("squeue", stderr="squeue: error: nobody has ever seen this", rc=1, option="666")
    seldom.starts()
    until(lambda: seldom.counted("observer-list"), seconds=60)

    def asked() -> bool:
        seldom.observers[BEN].ask({"nonsense", "666"})
        return " 666 " in watch.log.read_text()

    until(asked, seconds=60)
    seldom.shows("watch", job(ADA, State="SUSPENDED"))

    def seen() -> JobState | None:
        seldom.observers[ADA].ask(["7"])
        return seldom.state(ADA)

    until(seen, lambda state: state is JobState.SUSPENDED, seconds=60)
    assert seldom.said == {ADA: [], BEN: []}
    assert "nonsense" not in watch.log.read_text()


def test_a_question_between_the_cycles_is_the_observers_too(seldom: Site) -> None:
    seldom.shows("watch", job(ADA), job(BEN))
    seldom.starts()
    until(lambda: seldom.counted("observer-list"), seconds=60)
    seldom.shows("watch", job(ADA, State="SUSPENDED"))

    def asked() -> JobState | None:
        seldom.observers[ADA].ask(["7"])
        return seldom.state(ADA)

    until(asked, lambda seen: seen is JobState.SUSPENDED, seconds=60)
    assert seldom.counted("observer-list") == 1
    assert seldom.tools[ADA].called() == []
