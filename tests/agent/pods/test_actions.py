"""What is told to the batch system for one Pod: which of the jobs found is its own, and where a job is told something."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from router.agent.metrics import Metrics
from router.agent.pods.actions import Tools, quick, slow, submit, tell_doubts
from router.agent.records import Record
from router.agent.submission.full_queues import FullQueues
from router.agent.submission.submitting import WrongUser
from router.background.backoff import BackOff
from router.errors import Full, Refused, Unavailable
from router.host.local import LocalHost
from router.hpc import JobReport, JobState
from router.hpc.remarks import Submitted
from router.pod.layout import PodDirectory
from router.pod.life import Event, Note
from router.reconcile import outcomes
from router.reconcile.model import Action, Adopt, Delete, Look, Seal, Signal, Take
from tests.agent.test_records import pod

ROOT = PurePosixPath("/w/ada")


@dataclass
class Told:
    """A batch system that has some jobs of a name, and notes what it is told."""

    reports: dict[str, JobReport]
    user: str = "ada"
    words: list[tuple[str, ...]] = field(default_factory=list)
    refusal: str = ""

    def find(self, name: str) -> tuple[str, ...]:
        self.words.append(("find", name))
        return tuple(self.reports)

    def details(self, job_ids: tuple[str, ...]) -> dict[str, JobReport]:
        return {job_id: self.reports[job_id] for job_id in job_ids}

    def signal(self, job_id: str, signal: str) -> None:
        self.words.append(("signal", job_id, signal))

    def signal_ends(self, report: JobReport) -> bool:
        return "+" in report.hosts

    def cancel(self, job_ids: list[str], *, force: bool = False) -> None:
        self.words.append(("cancel", *job_ids, "force" if force else ""))
        if self.refusal:
            raise Unavailable(("qdel", *job_ids), 224, self.refusal)


def record() -> Record:
    return Record(outcomes.first(pod("u1", "p", index="0")), PodDirectory(str(ROOT), "job-1", "0", "u1"))


def report(job_id: str, **fields: str) -> JobReport:
    usual = {"name": "p.0a1b2c3d.u1", "directory": f"{ROOT}/pods/job-1/0/u1", "owner": "ada", "queue": "workq"}
    return JobReport(job_id, JobState.RUNNING, "R", **{**usual, **fields})  # type: ignore[arg-type]


def does(action: Action, about: Record, *reports: JobReport) -> list[tuple[str, ...]]:
    batch = Told({one.job_id: one for one in reports})
    tools = SimpleNamespace(
        commands=batch,
        jobs=batch,
        submitter=SimpleNamespace(tag=lambda name, uid: f"{name}.0a1b2c3d.{uid}"),
        observer=SimpleNamespace(hurry=lambda: None),
        host=SimpleNamespace(put=lambda path, content: batch.words.append(("put", str(path), content.decode()))),
    )
    slow(cast("Tools", tools), about, action)
    return batch.words


def test_somebody_elses_job_is_not_the_pods_whatever_its_name_and_directory() -> None:
    about = record()

    does(Look(), about, report("7.vm"), report("8.vm", owner="mallory"), report("9.vm", owner=""))

    assert [job.job_id for job in about.facts.jobs] == ["7.vm"]
    assert about.facts.looked


@pytest.mark.parametrize(("queue", "address"), [("workq", "7.vm"), ("long@other", "7.vm@other")])
def test_a_job_is_told_where_it_is(queue: str, address: str) -> None:
    about = record()
    about.change(lambda facts: outcomes.reported(facts, report("7.vm", queue=queue), 0.0))

    assert does(Signal("7.vm"), about) == [("signal", address, "TERM")]
    assert does(Delete("7.vm"), about) == [("cancel", address, "")]
    assert does(Delete("7.vm", force=True), about) == [("cancel", address, "force")]
    assert about.facts.jobs[0].deletes == 2
    assert about.facts.jobs[0].agreed_at is not None
    assert does(Delete("8.vm"), about) == [("cancel", "8.vm", "")]


def test_a_script_that_no_signal_may_reach_is_asked_by_a_file() -> None:
    about = record()
    about.change(lambda facts: outcomes.reported(facts, report("7.vm", hosts="n1/0+n2/0"), 0.0))

    assert does(Signal("7.vm"), about) == [("put", f"{ROOT}/pods/job-1/0/u1/end", "end\n")]
    assert about.facts.signals == 1


def test_a_file_that_cannot_be_written_counts_as_asked_so_that_the_job_is_deleted_in_time() -> None:
    def refuse(path: object, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    about = record()
    about.change(lambda facts: outcomes.reported(facts, report("7.vm", hosts="n1/0+n2/0"), 0.0))
    tools = SimpleNamespace(
        commands=Told({}), observer=SimpleNamespace(hurry=lambda: None), host=SimpleNamespace(put=refuse)
    )

    slow(cast("Tools", tools), about, Signal("7.vm"))

    assert about.facts.signals == 1


def _locked(path: Path) -> None:
    path.parent.mkdir(parents=True)
    path.symlink_to(path.parent)


def _with_a_directory_as_claim(path: Path) -> None:
    (path / "claim").mkdir(parents=True)


def _with_a_directory_as_job_id(path: Path) -> None:
    (path / "job-id").mkdir(parents=True)


@pytest.mark.parametrize(
    ("damage", "action", "expected"),
    [
        (_locked, Adopt("7.vm"), ("7.vm", False, False)),
        (_with_a_directory_as_job_id, Adopt("7.vm"), ("7.vm", False, False)),
        (_locked, Seal(), ("", True, False)),
        (_with_a_directory_as_claim, Seal(), ("", True, False)),
        (_locked, Take("7.vm"), ("", True, True)),
        (_with_a_directory_as_claim, Take("7.vm"), ("", True, True)),
    ],
)
def test_what_a_job_does_to_its_directory_holds_no_plan_up(
    damage: Callable[[Path], None], action: Action, expected: tuple[object, ...], tmp_path: Path
) -> None:
    host = LocalHost(tmp_path)
    about = Record(outcomes.first(pod("u1", "p", index="0")), PodDirectory(str(tmp_path), "job-1", "0", "u1"))
    damage(Path(about.directory.path))
    submitter = SimpleNamespace(
        note=lambda directory, job_id: host.put(directory.job_id, f"{job_id}\n".encode()),
    )

    quick(cast("Tools", SimpleNamespace(host=host, submitter=submitter)), about, action)

    facts = about.facts
    assert (facts.noted, facts.unsealed_since is not None, facts.untaken) == expected


def test_a_file_system_that_is_full_holds_a_plan_up() -> None:
    def refuse(path: object, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        quick(cast("Tools", SimpleNamespace(host=SimpleNamespace(put=refuse))), record(), Take("7.vm"))


def test_a_deletion_that_is_refused_is_told_in_the_words_for_it() -> None:
    about, events = record(), list[tuple[str, ...]]()
    refusal = "qdel: Server could not connect to MOM 7.vm\n"
    tools = SimpleNamespace(
        commands=Told({}, refusal=refusal),
        observer=SimpleNamespace(hurry=lambda: None),
        recorder=SimpleNamespace(tell=lambda _, *words: events.append(words)),
    )

    slow(cast("Tools", tools), about, Delete("7.vm"))

    words = "Batch job 7.vm could not be deleted: qdel: Server could not connect to MOM 7.vm"
    assert events == [("Warning", "FailedKillPod", words)]
    assert (about.facts.jobs[0].deletes, about.facts.jobs[0].agreed_at) == (1, None)


@pytest.mark.parametrize(
    ("remarks", "expected"),
    [
        ("", []),
        (
            "Your allocation is nearly spent",
            [
                (
                    "Pod p u1",
                    "Normal",
                    "SiteRemark",
                    "When batch job 7.vm was submitted, the site said: Your allocation is nearly spent",
                )
            ],
        ),
    ],
)
def test_what_a_site_prints_at_a_submission_is_told_once(remarks: str, expected: list[tuple[str, ...]]) -> None:
    about, told, metrics = record(), list[tuple[str, ...]](), Metrics()
    tools = SimpleNamespace(
        full=FullQueues(BackOff(first=5, longest=60)),
        submitter=SimpleNamespace(
            prepare=lambda pod, *, fresh: SimpleNamespace(warnings=(), images={}, fresh=fresh),
            submit=lambda prepared: Submitted("7.vm", remarks),
        ),
        metrics=metrics,
        recorder=SimpleNamespace(
            tell=lambda about, *words: told.append((f"{about.kind} {about.name} {about.uid}", *words))
        ),
    )

    submit(cast("Tools", tools), about, fresh=True)

    assert (about.facts.noted, told) == ("7.vm", expected)
    assert submissions(metrics) == {"submitted": 1}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Full(["qsub"], 1, "too many jobs"), "QueueFull"),
        (Refused(["qsub"], 1, "walltime over the limit"), "Refused"),
        (WrongUser("the deployment may not act as ada"), "WrongUser"),
        (OSError("no space left"), "SiteStorage"),
        (Unavailable(["qsub"], 1, "qsub: cannot connect"), "HPCUnavailable"),
    ],
)
def test_a_submission_that_fails_is_counted_by_its_reason(error: Exception, outcome: str) -> None:
    def fail(prepared: object) -> Submitted:
        raise error

    metrics = Metrics()
    tools = SimpleNamespace(
        full=FullQueues(BackOff(first=5, longest=60)),
        submitter=SimpleNamespace(prepare=lambda pod, *, fresh: None, submit=fail),
        observer=SimpleNamespace(check=lambda: None),
        metrics=metrics,
    )

    submit(cast("Tools", tools), record(), fresh=True)

    assert submissions(metrics) == {outcome: 1}


def submissions(metrics: Metrics) -> dict[str, float]:
    """The submissions by outcome, without those that never came."""
    (found,) = (one for one in metrics.registry.collect() if one.name == "batchgate_agent_submissions")
    return {one.labels["outcome"]: one.value for one in found.samples if one.name.endswith("_total") and one.value}


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("Unhealthy", "Warning"),
        ("ProbeWarning", "Warning"),
        ("Killing", "Normal"),
        ("FailedPostStartHook", "Warning"),
        ("FailedPreStopHook", "Warning"),
    ],
)
def test_what_probes_and_hooks_found_is_told(reason: str, kind: str) -> None:
    told: list[tuple[str, ...]] = []
    recorder = SimpleNamespace(
        tell=lambda about, *words: told.append((about.name, *words)), allows=lambda uid: uid == "u1" and not told
    )
    tools = SimpleNamespace(recorder=recorder)
    plain = Note("u1", 1, Event.PROBED, "7.vm", "n1", 1000, container="main", ready=True)
    notes = [plain, replace(plain, reason=reason, said="a\nb"), replace(plain, reason="MPIUnknown", said="x")]
    notes += [replace(plain, reason=reason, said=f"more than is allowed {number}") for number in range(3)]

    tell_doubts(cast("Tools", tools), record(), notes)

    assert told == [("p", kind, reason, "a b")]


def test_a_script_s_doubt_is_told() -> None:
    told: list[tuple[str, ...]] = []
    tools = SimpleNamespace(recorder=SimpleNamespace(tell=lambda about, *words: told.append((about.name, *words))))
    sure = Note("u1", 1, Event.RUNNING, "7.vm", "n1", 1000, container="main")

    tell_doubts(cast("Tools", tools), record(), [sure, replace(sure, number=2, reason="MPIUnknown")])

    assert told == [
        (
            "p",
            "Normal",
            "MPIUnknown",
            "Container main runs, but whether its ranks can talk to each other is not known: the first line of its log says why",
        )
    ]
