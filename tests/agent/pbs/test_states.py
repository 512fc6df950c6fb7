"""States and limits that OpenPBS and TORQUE have of their own: suspended, deleted while it waits or by force, full, without a history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from router.reconcile.starts import PLANS, Start, read
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import (
    Seen,
    await_ends,
    await_nothing_left,
    await_started,
    counted,
    let_go,
    seen,
    submitted,
    told,
    waiting,
    waits,
)
from tests.agent.pbs.site import ADA, QUEUE
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]
MOST, JOBS = 2, 5
FEW = ("max_user_queuable", "2") if server.TORQUE else ("max_queued", "'[u:PBS_GENERIC=2]'")
FULL = "Maximum number of jobs already in queue" if server.TORQUE else "would exceed"
TOO_LONG = (
    "cannot satisfy queue max walltime requirement"
    if server.TORQUE
    else "Job violates queue and/or server resource limits"
)


@contextmanager
def limited(name: str, value: str) -> Iterator[None]:
    """An attribute of the queue for a while."""
    server.ok("qmgr", "-c", f"set queue {QUEUE} {name} = {value}")
    try:
        yield
    finally:
        server.ok("qmgr", "-c", f"unset queue {QUEUE} {name}")


def test_a_job_that_is_deleted_while_it_waits_never_ran(attending: Stack) -> None:
    with server.setting("scheduling", "False"):
        name = apply(attending.ada, counted())
        server.ok("qdel", submitted(attending.ada, name))
        assert await_ends(attending.ada, name) == {name: "Failed"}

    status = pod_of(attending.ada, name)["status"]
    assert (status["phase"], status["reason"], told(name)) == ("Failed", "JobDeleted", [])
    assert "was deleted in the batch system before it had started" in status["message"]


@pytest.mark.skipif(server.TORQUE, reason="TORQUE lets no user delete by force")
def test_a_job_that_is_deleted_by_force_leaves_nothing(attending: Stack) -> None:
    """OpenPBS kills it at once: the script writes nothing of its end."""
    name = apply(attending.ada, counted("sleep 600"))
    await_started(name)

    server.ok("qdel", "-W", "force", submitted(attending.ada, name))

    assert await_ends(attending.ada, name) == {name: "Failed"}
    assert pod_of(attending.ada, name)["status"]["reason"] == "JobDeleted"
    await_nothing_left([name], ADA)
    assert told(name) == ["start"]


def test_a_suspended_job_says_so_and_goes_on(attending: Stack) -> None:
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job = submitted(attending.ada, name)

    def suspended() -> str:
        conditions = pod_of(attending.ada, name)["status"].get("conditions", ())
        return next((one["status"] for one in conditions if one["type"].endswith("Suspended")), "")

    server.ok("qsig", "-s", "suspend", batch_job)
    until(suspended, lambda word: word == "True", seconds=SECONDS, what="to be suspended")
    server.ok("qsig", "-s", "resume", batch_job)
    until(suspended, lambda word: word != "True", seconds=SECONDS, what="to go on")
    let_go(name)

    assert await_ends(attending.ada, name) == {name: "Complete"}
    assert told(name) == ["start", "end"]


@pytest.mark.skipif(server.TORQUE, reason="TORQUE's own scheduler plans no starts")
def test_the_start_that_the_scheduler_plans_is_told(attending: Stack) -> None:
    """Every core is taken by a job whose time is known, and what comes behind it is planned behind it."""
    every = "+".join(f"1:host={host}:ncpus={cores}" for host, cores in server.hosts().items())
    full = ("qsub", "-q", QUEUE, "-l", f"select={every}", "-l", "walltime=00:40:00", "--", "/bin/sleep", "2400")
    with server.plans(5):
        taken = server.ok("runuser", "-u", ADA, "--", *full).strip()
        try:
            until(lambda: server.attribute(taken, "job_state"), lambda state: state == "R", seconds=SECONDS)
            name = apply(attending.ada, counted())
            batch_job = submitted(attending.ada, name)
            server.schedule()
            words = until(
                lambda: pod_of(attending.ada, name)["status"].get("message", ""),
                lambda said: "expected to start" in said,
                seconds=SECONDS,
                what="for an expected start",
            )
            planned = server.attribute(batch_job, "estimated.start_time")
        finally:
            server.ok("qdel", taken)
        assert await_ends(attending.ada, name) == {name: "Complete"}
    when = int(datetime.strptime(planned, "%c").astimezone().timestamp())
    assert read(words)[1] == Start(when, when, PLANS)


def test_5_jobs_run_where_2_may_be_queued(attending: Stack) -> None:
    with limited(*FEW):
        names = [apply(attending.ada, waiting()) for _ in range(JOBS)]

        def full() -> list[str]:
            found = [waits(attending.ada, name) for name in names]
            return [words for reason, words in found if reason == "QueueFull"]

        words = until(full, lambda found: len(found) == JOBS - MOST, seconds=SECONDS, what="for a full queue")
        assert [one for one in words if FULL not in one] == []
        let_go(*names)
        assert await_ends(attending.ada, *names) == dict.fromkeys(names, "Complete")
    assert [told(name) for name in names] == [["start", "end"]] * JOBS


def test_a_queue_that_refuses_for_good_says_why(attending: Stack) -> None:
    with limited("resources_max.walltime", "00:00:30"):
        name = apply(attending.ada, counted())
        assert await_ends(attending.ada, name) == {name: "Failed"}

    status = pod_of(attending.ada, name)["status"]
    assert TOO_LONG in status["message"]
    assert told(name) == []


def test_ends_are_known_where_the_server_keeps_no_history(attending: Stack) -> None:
    """OpenPBS' default: it forgets a job as soon as that is over. The agent learns of it, and goes by the files."""
    who = attending.ada
    with server.history(kept=False):
        well, fails = apply(who, counted("echo well")), apply(who, counted("exit 7"))
        deleted, gone = apply(who, counted("sleep 600")), apply(who, counted("sleep 600"))
        await_started(deleted, gone)
        server.ok("qdel", job_id(who, deleted))
        who.ok("delete", "job", gone, "--wait=false")

        ended = await_ends(who, well, fails, deleted)
        until(lambda: who.every("pods", f"{LABEL}={gone}"), lambda pods: not pods, seconds=SECONDS)
        await_nothing_left([well, fails, deleted, gone], ADA)
    assert ended == {well: "Complete", fails: "Failed", deleted: "Failed"}
    if not server.TORQUE:  # which does not say so
        assert attending.agent.logged("the batch system keeps no records of ended jobs")
    assert seen(who, fails) == Seen("Failed", "BackoffLimitExceeded", "Failed", "", 7, "Error", ("start", "end"))
    assert pod_of(who, deleted)["status"]["reason"] == "JobDeleted"
