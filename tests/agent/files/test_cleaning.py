"""Old directories: gone when nobody needs them, never while a job may live; with a real queue and real files."""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.files import cleaning
from router.agent.files.cleaning import Cleaned, Cleaning, Retention, is_over, last_sign
from router.agent.metrics import Metrics
from router.agent.pods.watching import uids_of
from router.agent.records import Records
from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.errors import Unavailable
from router.host.local import LocalHost
from router.hpc import JobReport, JobState, Submission, local
from router.kube.client import connect
from router.local import client
from router.pod import layout
from router.pod.layout import PodDirectory
from router.reconcile import outcomes
from tests.agent.test_records import pod
from tests.local.conftest import queue as queue  # noqa: PLC0414 - a fixture
from tests.local.queue import EmbeddedQueue, until

DAY = 86400.0
KEEP = 7 * DAY


@pytest.mark.parametrize(
    ("times", "last"),
    [((), None), ((None, None), None), ((1.0, None, 3.0), 3.0), ((5.0, 100.0 + 2 * DAY), 5.0), ((100.5,), 100.5)],
)
def test_the_last_sign_of_life(times: tuple[float | None, ...], last: float | None) -> None:
    assert last_sign(times, 100.0) == last


@pytest.mark.parametrize("state", list(JobState))
def test_only_a_job_that_has_ended_or_is_unknown_is_over(state: JobState) -> None:
    reports = {"7.vm": JobReport("7.vm", state, "?")}

    assert is_over(("7", "8"), reports) is (state is JobState.FINISHED)
    assert is_over(("8",), reports)
    assert is_over((), reports)


class Site:
    """A site's directory with what Pods have left, an embedded queue, and who cleans them."""

    def __init__(self, queue: EmbeddedQueue, root: Path) -> None:
        self.queue = queue
        self.root = root / "site"
        self.root.mkdir()
        self.host = LocalHost(self.root)
        commands = local.commands_of(str(queue.directory), prefix=client.program())
        self.batch = BatchCommands(self.host, local, commands, getpass.getuser(), 60, Metrics())
        self.records = Records(lambda view: PodDirectory(str(self.root), view.job_uid, view.index, view.uid))
        self.pods: set[str] = set()
        self.asked: list[str] = []
        self.ready = True
        self.cleaning = Cleaning(
            self.host, BatchJobs(self.batch), self.records, Retention(str(self.root), KEEP),
            pods_of=self._pods_of, ready=lambda: self.ready,
        )  # fmt: skip

    def _pods_of(self, job_uid: str) -> Collection[str]:
        self.asked.append(job_uid)
        return self.pods

    def left(self, uid: str, days: float = 8, *, job: str = "job-1", noted: str = "", claim: str = "") -> Path:
        """A Pod's directory in which nothing has happened for so many days."""
        path = Path(PodDirectory(str(self.root), job, "noindex", uid).path)
        for name in (layout.LOG, layout.EXIT):
            (path / name).mkdir(parents=True)
        (path / layout.LOG / "main.0").write_text("log\n")
        for name, content in ((layout.JOB_ID, noted), (layout.CLAIM, claim)):
            if content:
                (path / name).write_text(f"{content}\n")
        (self.root / layout.SPOOL).mkdir(exist_ok=True)
        note = self.root / layout.SPOOL / f"{uid}.1.started"
        note.touch()
        for one in (note, *path.rglob("*"), path):
            self.age(one, days)
        return path

    def age(self, path: Path, days: float) -> None:
        then = time.time() - days * DAY
        os.utime(path, (then, then), follow_symlinks=False)

    def notes(self) -> set[str]:
        return {path.name for path in (self.root / layout.SPOOL).iterdir()}


@pytest.fixture
def site(queue: EmbeddedQueue, tmp_path: Path) -> Site:
    return Site(queue, tmp_path)


def test_credentials_go_soon_from_the_directory_of_a_pod_that_is_gone(site: Site) -> None:
    """It was deleted by force while the agent was away; all else stays for ``keep``."""
    fresh, old, living, plain = (site.left(name, days=0.1) for name in ("fresh", "old", "living", "plain"))
    for path in (fresh, old, living, plain):
        (path / "env").mkdir()
        if path != plain:
            (path / layout.CREDENTIALS).touch()
        site.age(path, 0.001 if path == fresh else 0.1)
    site.pods = {"living"}
    for one in (fresh / layout.LOG, fresh / layout.EXIT):
        site.age(one, 0.001)

    assert site.cleaning.look() == Cleaned()
    assert [(path / "env").exists() for path in (fresh, old, living, plain)] == [True, False, True, True]
    assert (old / layout.CLAIM).read_text() == "cancelled\n"
    assert (old / layout.LOG / "main.0").exists()


def test_an_old_directory_goes_with_its_notes(site: Site) -> None:
    old, young = site.left("old"), site.left("young", days=6)

    assert site.cleaning.look() == Cleaned(pods=1)

    assert (old.exists(), young.exists()) == (False, True)
    assert site.notes() == {"young.1.started"}
    assert site.asked == ["job-1"]


def test_a_sign_of_life_keeps_a_directory(site: Site) -> None:
    paths = [site.left(f"pod-{name}") for name in (layout.ALIVE, layout.LOG, layout.EXIT)]
    for path in paths:
        one = path / path.name.removeprefix("pod-")
        one.touch() if not one.exists() else os.utime(one)
    for path in paths:
        site.age(path, 8)

    assert site.cleaning.look().pods == 0
    assert all(path.exists() for path in paths)


def test_a_pod_that_is_known_or_that_the_api_server_has_keeps_its_directory(site: Site) -> None:
    known, there = site.left("known"), site.left("there")
    site.records.add(outcomes.first(pod("known")))
    site.pods = {"there"}

    assert site.cleaning.look() == Cleaned(notes=1)  # an old note of a Pod that no record is of tells nobody anything
    assert known.exists()
    assert there.exists()


def test_nothing_is_removed_before_all_is_known(site: Site) -> None:
    path = site.left("old")
    site.ready = False

    assert site.cleaning.look() == Cleaned()
    assert path.exists()


# --- jobs --------------------------------------------------------------------------------------------------------


def _submit(site: Site, path: Path, script: str, *, held: bool = False) -> str:
    (path / layout.SCRIPT).write_text(f"#!/bin/bash\n{'#PBS -h' if held else ''}\n{script}\n")
    return site.batch.submit(Submission("tag", str(path / layout.SCRIPT), str(path), str(path / layout.OUTPUT))).job_id


@pytest.mark.parametrize("named", ["noted", "claimed"])
def test_a_living_job_keeps_its_directory_whatever_lists_say(site: Site, named: str) -> None:
    """Suspended for longer than anything is kept: it touches nothing, and goes on some day."""
    path = site.left("pod")
    job_id = _submit(site, path, "sleep 600")
    site.queue.runs(job_id)
    site.queue.ok("qsig", "-s", "suspend", job_id)
    if named == "noted":
        (path / layout.JOB_ID).write_text(f"{job_id}\n")
    else:
        (path / layout.CLAIM).write_text(f"{job_id}.123456\n")
    site.queue.ok("faults", "list-empty=on")
    for one in (*path.rglob("*"), path):
        site.age(one, 8)

    assert site.cleaning.look().pods == 0
    assert path.exists()
    site.queue.ok("qdel", "-W", "force", job_id)
    site.queue.reached(job_id, "F")
    assert site.cleaning.look().pods == 1
    assert not path.exists()


def test_a_job_that_nobody_knows_of_finds_no_directory(site: Site) -> None:
    """Its id was never noted. The claim goes first, so that it runs nothing however the two meet."""
    path = site.left("pod")
    ran = site.root / "ran"
    job_id = _submit(site, path, f'[[ -d "$BATCHGATE_DIR" ]] && touch {ran}', held=True)
    for one in (*path.rglob("*"), path):
        site.age(one, 8)

    assert site.cleaning.look().pods == 1
    site.queue.ok("qrls", job_id)

    site.queue.reached(job_id, "F")
    assert not ran.exists()


def test_a_batch_system_that_does_not_answer_keeps_all(site: Site) -> None:
    path = site.left("pod", noted="7.local")
    site.queue.ok("faults", "unreachable=on")

    with pytest.raises(Unavailable):
        site.cleaning.look()
    assert path.exists()

    site.queue.ok("faults", "none")
    assert site.cleaning.look().pods == 1


@pytest.mark.parametrize("noted", ["7.other.server", "; rm -rf /", "-x", "7.local\n8.local", "\udcff", "9" * 21])
def test_what_a_user_wrote_as_a_job_s_id_stops_nothing(site: Site, noted: str) -> None:
    path = site.left("pod")
    (path / layout.JOB_ID).write_text(noted, errors="surrogateescape")
    for one in (*path.rglob("*"), path):
        site.age(one, 8)

    assert site.cleaning.look().pods == 1


def test_links_that_a_user_planted_lead_nowhere(site: Site, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    path = site.left("pod")
    (path / "volumes").symlink_to(precious)
    (path / layout.CLAIM).symlink_to(precious / "file")
    for directory in (path.parent, path.parent.parent, site.root / layout.PODS):
        (directory / "link").symlink_to(precious)
        (directory / "file").touch()
    for one in (path / "volumes", path / layout.CLAIM, path.parent / "link", path):
        site.age(one, 8)

    assert site.cleaning.look().pods == 2  # and the link that a user may have put in a Pod's place

    assert not path.exists()
    assert not (path.parent / "link").is_symlink()
    assert [one.name for one in precious.iterdir()] == ["file"]
    assert (precious / "file").read_bytes() == b""


# --- what is cut off, what is empty, how much at a time ------------------------------------------------------------


def test_what_was_being_written_when_its_writer_was_killed_goes(site: Site) -> None:
    path = site.left("young", days=1)
    old, young = path.with_name(f".young.{'0' * 16}"), path.with_name(f".young.{'1' * 16}")
    for half in (old, young):
        half.mkdir()
    site.age(old, 8)
    (site.root / layout.SPOOL / ".young.1.started").touch()
    site.age(site.root / layout.SPOOL / ".young.1.started", 8)

    site.cleaning.look()

    assert (old.exists(), young.exists(), path.exists()) == (False, True, True)
    assert site.notes() == {"young.1.started"}


def test_directories_of_jobs_go_when_they_are_empty_for_a_while(site: Site) -> None:
    path = site.left("pod")
    site.cleaning.look()
    assert path.parent.exists()  # a Pod of the same Job may be about to get its directory there

    site.age(path.parent, 1)
    site.cleaning.look()
    site.age(path.parent.parent, 1)
    site.cleaning.look()

    assert list((site.root / layout.PODS).iterdir()) == []


def test_a_turn_does_little_and_the_next_goes_on(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MOST_REMOVED", 3)
    monkeypatch.setattr(cleaning, "MOST_LOOKED", 8)
    for number in range(10):
        site.left(f"pod-{number}", job=f"job-{number}")

    removed: list[int] = []
    while len(removed) < 20 and any((site.root / layout.PODS).glob("*/*/*")):
        removed.append(site.cleaning.look().pods)

    assert sum(removed) == 10
    assert max(removed) == 3


def test_directories_that_cannot_go_do_not_keep_others_from_going(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "MOST_REMOVED", 2)
    site.pods = {"stays-0", "stays-1", "stays-2"}
    for number in range(3):
        site.left(f"stays-{number}", job=f"job-{number}")
    path = site.left("goes", job="job-9")

    until(lambda: site.cleaning.look() and not path.exists())

    assert len(list((site.root / layout.PODS).glob("*/*/*"))) == 3


def test_it_cleans_by_itself_and_survives_errors(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "SECONDS", 0.02)
    path = site.left("pod", noted="7.local")
    site.queue.ok("faults", "unreachable=on")

    site.cleaning.start()
    try:
        until(lambda: site.asked)
        assert site.cleaning.alive
        site.queue.ok("faults", "none")
        until(lambda: not path.exists())
    finally:
        site.cleaning.stop()
    until(lambda: not site.cleaning.alive)


# --- the cluster ---------------------------------------------------------------------------------------------------


def test_the_pods_of_a_job_as_the_api_server_has_them(plane: ControlPlane, namespace: str) -> None:
    api = connect(str(installing.agent(plane)))
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    spec = {"parallelism": 2, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": namespace}, "spec": spec}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(job))
    uid = plane.get("job", "j", "-n", namespace)["metadata"]["uid"]
    listed = until(lambda: plane.get("pods", "-n", namespace)["items"], lambda items: len(items) == 2)

    assert uids_of(api, uid) == {one["metadata"]["uid"] for one in listed}

    plane.kubectl("delete", "job", "j", "-n", namespace)
    until(lambda: uids_of(api, uid), lambda found: found == set())
