"""Daemons of OpenPBS and TORQUE that are killed, nodes that crash, and a job that is started again by hand: nothing fails that runs, nothing runs twice."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.agent.bed.jobs import SECONDS, apply, pod_of
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Stack
from tests.agent.pbs.jobs import (
    await_ends,
    await_nothing_left,
    await_started,
    counted,
    events,
    let_go,
    submitted,
    told,
    waiting,
)
from tests.agent.pbs.site import ADA, RUNS
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.timeout(900)]
JOBS = 8


def conditions(stack: Stack, name: str) -> dict[str, str]:
    """The conditions of a Job's one Pod."""
    return {one["type"]: one["status"] for one in pod_of(stack.ada, name)["status"].get("conditions", ())}


def test_jobs_that_are_submitted_while_the_server_is_killed_run_once(attending: Stack) -> None:
    names = [apply(attending.ada, counted()) for _ in range(JOBS)]

    with server.killed("server"):
        names += [apply(attending.ada, counted()) for _ in range(JOBS)]

    assert await_ends(attending.ada, *names) == dict.fromkeys(names, "Complete")
    assert [told(name) for name in names] == [["start", "end"]] * 2 * JOBS
    await_nothing_left(names, ADA)


@pytest.mark.skipif(server.TORQUE, reason="TORQUE's daemon lets jobs live that had run before it")
def test_a_job_whose_nodes_daemon_is_killed_and_comes_back_runs_again(attending: Stack) -> None:
    """The daemon ends what had run before it. The job's record alone is no proof of that: silence is waited for."""
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job = submitted(attending.ada, name)
    first = pod_of(attending.ada, name)["metadata"]["uid"]

    with server.killed("mom"):
        pass
    until(lambda: server.attribute(batch_job, "Exit_status"), lambda status: status == "-4", seconds=SECONDS)
    await_nothing_left([name], ADA)
    until(lambda: conditions(attending, name).get("NodeLost"), lambda holds: holds == "True", seconds=SECONDS)
    until(lambda: told(name), lambda events: events == ["start"] * 2, seconds=2 * SECONDS, what="to run again")
    let_go(name)

    assert await_ends(attending.ada, name) == {name: "Complete"}
    seen = RUNS.lines(name)
    assert [(line.event, line.uid == first) for line in seen] == [("start", True), ("start", False), ("end", False)]
    await_nothing_left([name], ADA)


@pytest.mark.skipif(not server.TORQUE, reason="OpenPBS' daemon ends what had run before it")
def test_a_job_whose_nodes_daemon_is_killed_and_comes_back_lives_on(attending: Stack) -> None:
    name = apply(attending.ada, waiting())
    await_started(name)

    with server.killed("mom"):
        pass
    let_go(name)

    assert await_ends(attending.ada, name) == {name: "Complete"}
    assert told(name) == ["start", "end"]
    await_nothing_left([name], ADA)


@pytest.mark.skipif(not server.TORQUE, reason="OpenPBS says of such a job that its node was lost")
@pytest.mark.parametrize(
    ("fail", "options", "status"),
    [
        pytest.param(server.crash, "", "0", id="crashed"),
        pytest.param(lambda: server.kill("mom"), "-r", "-4", id="daemon started with -r"),
    ],
)
def test_a_job_whose_node_has_failed_runs_again(
    attending: Stack, fail: Callable[[], None], options: str, status: str
) -> None:
    """TORQUE's record of a job that a crash has ended says that it ended well."""
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job = submitted(attending.ada, name)
    first = pod_of(attending.ada, name)["metadata"]["uid"]

    fail()
    server.start(options)
    until(lambda: server.attribute(batch_job, "Exit_status"), lambda seen: seen == status, seconds=SECONDS)
    until(lambda: conditions(attending, name).get("NodeLost"), lambda holds: holds == "True", seconds=SECONDS)
    until(lambda: told(name), lambda events: events == ["start"] * 2, seconds=3 * SECONDS, what="to run again")
    let_go(name)

    assert await_ends(attending.ada, name) == {name: "Complete"}
    seen = RUNS.lines(name)
    assert [(line.event, line.uid == first) for line in seen] == [("start", True), ("start", False), ("end", False)]
    await_nothing_left([name], ADA)


@pytest.mark.skipif(not server.TORQUE, reason="OpenPBS gives up a node by itself")
def test_a_job_on_a_node_that_stays_dead_says_so_and_is_over_when_an_admin_purges_it(attending: Stack) -> None:
    """TORQUE says for ever that it runs, and refuses to delete it."""
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job, pod = submitted(attending.ada, name), pod_of(attending.ada, name)["metadata"]["name"]

    server.crash()
    try:
        attending.ada.ok("delete", "pod", pod, "--wait=false")
        until(lambda: events(attending.ada, name).get("FailedKillPod", ""), seconds=2 * SECONDS, what="for the Event")
        until(lambda: conditions(attending, name).get("NodeLost"), lambda holds: holds == "True", seconds=3 * SECONDS)
        assert server.attribute(batch_job, "job_state") == "R"
        assert "Server could not connect to MOM" in events(attending.ada, name)["FailedKillPod"]

        server.ok("qdel", "-p", batch_job)
        until(lambda: attending.ada.get("pod", pod), lambda found: found is None, seconds=2 * SECONDS, what="to go")
    finally:
        server.start()

    assert await_ends(attending.ada, name) == {name: "Failed"}  # as its Pod was deleted
    await_nothing_left([name], ADA)
    assert told(name) == ["start"]


@pytest.mark.skipif(server.TORQUE, reason="TORQUE gives up no node")
@pytest.mark.parametrize("ends_well", [True, False], ids=["its processes end well", "its processes are killed"])
def test_a_job_of_a_lost_node_runs_again_only_when_its_processes_are_gone_without_an_end(
    attending: Stack, ends_well: bool
) -> None:
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job = submitted(attending.ada, name)
    first = pod_of(attending.ada, name)["metadata"]["uid"]

    with server.setting("node_fail_requeue", "10"), server.killed("mom"):
        until(
            lambda: server.attribute(batch_job, "job_state"),
            lambda state: state == "F",
            seconds=SECONDS,
            what="for the server to lose it",
        )
        until(lambda: conditions(attending, name).get("NodeLost"), lambda holds: holds == "True", seconds=SECONDS)
        stays(
            lambda: (server.living(ADA), told(name), pod_of(attending.ada, name)["status"]["phase"]),
            lambda seen: seen == ([], ["start"], "Running"),
            seconds=30,
            what="running once",
        )
        if ends_well:
            let_go(name)
            until(lambda: told(name), lambda events: events == ["start", "end"], seconds=SECONDS)
        else:
            subprocess.run(["pkill", "-KILL", "-u", ADA], check=True)
    if not ends_well:
        until(lambda: told(name), lambda events: events == ["start"] * 2, seconds=2 * SECONDS, what="to run again")
        let_go(name)

    assert await_ends(attending.ada, name) == {name: "Complete"}
    again = [] if ends_well else [("start", False)]
    seen = [(line.event, line.uid == first) for line in RUNS.lines(name)]
    assert seen == [("start", True), *again, ("end", ends_well)]
    await_nothing_left([name], ADA)


def test_a_job_that_an_admin_starts_again_is_refused_and_runs_once(attending: Stack) -> None:
    name = apply(attending.ada, waiting())
    await_started(name)
    batch_job = submitted(attending.ada, name)

    refused = server.run("qrerun", batch_job)
    let_go(name)

    code = 192 if server.TORQUE else 190
    assert (refused.returncode, "not rerunnable" in refused.stderr) == (code, True), refused
    assert await_ends(attending.ada, name) == {name: "Complete"}
    assert told(name) == ["start", "end"]
