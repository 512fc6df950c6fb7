"""Short ways to say what is known of a Pod."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from router.hpc import JobReport, JobState, Verdict
from router.pod.leftovers import read_note
from router.pod.life import Exit, Life, Note, fold_all, with_alive, with_claim, with_exit
from router.pod.status import PodStatus
from router.pod.view import PodContainer, PodView
from router.reconcile.model import Facts, Job, Terms
from router.workload.model import ContainerKind

T = 1_700_000_000
"""When the Pod was created."""

UID = "00000000-0000-4000-8000-000000000001"
JOB = "7.pbs"
TERMS = Terms()
INIT, SIDECAR, MAIN = ContainerKind.INIT, ContainerKind.SIDECAR, ContainerKind.MAIN

PLAIN = PodView(
    namespace="lab",
    name="train-0",
    uid=UID,
    resource_version="1",
    node="batch.hpc1.batchgate",
    site="hpc1",
    queue="batch",
    owner="Job",
    job="train",
    job_uid="job-uid",
    index="0",
    created=T,
    deleted_at=None,
    grace=30,
    finalizers=True,
    restart_policy="Never",
    deadline=None,
    containers=(PodContainer("main", "app:1", MAIN),),
    rule="gpu",
    profile="",
    account="{}",
    signed=True,
    job_id="",
    queue_now="",
    exit="",
    used="",
    status=PodStatus(),
)


def pod(*containers: tuple[str, ContainerKind], **fields: Any) -> PodView:
    """A Pod with these containers, else with ``main`` alone."""
    found = replace(PLAIN, **fields)
    if containers:
        found = replace(found, containers=tuple(PodContainer(name, f"{name}:1", kind) for name, kind in containers))
    return found


def deleted(grace: int = 30, **fields: Any) -> PodView:
    """A Pod that somebody has deleted."""
    return pod(deleted_at=T + 100 + grace, grace=grace, **fields)


def report(state: JobState = JobState.RUNNING, job_id: str = JOB, **fields: Any) -> JobReport:
    """What the batch system says of a job."""
    base = JobReport(job_id=job_id, state=state, code="?", queue="batch", name=f"train-0.c0ffee00.{UID}")
    for key in ("submitted", "started", "ended"):
        if isinstance(fields.get(key), int | float):
            fields[key] = datetime.fromtimestamp(fields[key], tz=UTC)
    return replace(base, **fields)


def over(verdict: Verdict = Verdict.ENDED, status: int | None = 0, **fields: Any) -> JobReport:
    """What the batch system says of a job that is over."""
    return report(
        JobState.FINISHED, verdict=verdict, exit_status=status, **{"started": T + 10, "ended": T + 60, **fields}
    )


def job(found: JobReport | None = None, **fields: Any) -> Job:
    """A job with its last report."""
    since = T + 60 if found is not None and found.state is JobState.FINISHED else None
    job_id = found.job_id if found is not None else JOB
    return replace(Job(job_id, found, over_since=since, heard=T + 60 if found else None), **fields)


def note(event: str, time: int, **fields: Any) -> Note:
    """A note of the script of the job ``JOB``."""
    content = json.dumps({"event": event, "job": JOB, "host": "n1", "time": time, **fields}) + "\n"
    found = read_note(f"{UID}.1.{event}", content.encode())
    assert isinstance(found, Note), found
    return found


def began(name: str = "main", time: int = T + 12, restart: int = 0) -> Note:
    """A container has begun."""
    return note("running", time, container=name, restart=restart)


def probed(name: str = "main", *, ready: bool, up: bool = True, number: int = 1, restart: int = 0) -> Note:
    """What probes have found."""
    found = note("probed", T + 13, container=name, restart=restart, ready=ready, started=up)
    return replace(found, number=number)


def exited(name: str = "main", code: int = 0, time: int = T + 50, restart: int = 0) -> Note:
    """A container has ended."""
    return note("exited", time, container=name, code=code, restart=restart)


def ended(code: int = 0, reason: str = "", time: int = T + 55) -> Note:
    """The script has ended."""
    return note("ended", time, code=code, reason=reason)


def left(code: int = 0, name: str = "main", restart: int = 0, **fields: Any) -> tuple[str, Exit]:
    """An exit file."""
    signal = max(0, code - 128)
    found = Exit(restart, code, signal, started=T + 11, finished=T + 50, deadline=False)
    return name, replace(found, **fields)


def life(
    *notes: Note, exits: tuple[tuple[str, Exit], ...] = (), claim: bytes = b"7.pbs.1\n", silence: float = 5
) -> Life:
    """What the script has left, by default with the claim."""
    found = with_alive(with_claim(Life(), claim), T + 100, T + 100 + silence)
    found = fold_all(found, [note("started", T + 10), *notes] if claim.startswith(b"7") else notes)
    for one in exits:
        found = with_exit(found, *one)
    return found


NOTHING = Life()
ALL_WELL = life(began(), exited(), ended(), exits=(left(),))
"""One container that ran well, and a script that has said so."""


def facts(view: PodView = PLAIN, /, *jobs: Job, **fields: Any) -> Facts:
    """What is known of a Pod that was submitted and whose directory was read a while ago."""
    base = Facts(view, jobs=jobs, noted=jobs[0].job_id if jobs else "", staged=bool(jobs), looked=bool(jobs))
    base = replace(base, inspected=T + 100 if jobs else None)
    return replace(base, **fields)
