"""Users' directories on a file system that believes for a minute what it knows of names, sizes and times.

Nodes write to the directories themselves; the login node, and so the agent, sees them through that file system, where
the link count is always 1. Nothing may be lost, run twice or be taken for lost, and logs are whole when a Job is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from bed import login
from router import names
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import apply, exit_code, job_id, pod_of, printed
from tests.agent.bed.site import ADA, BEN, LAYOUT, SUDO, as_user, living, slurm
from tests.agent.bed.tally import await_empty, await_ends, await_started, counted, let_go, lines, told, waiting
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1800)]
FS_DELAY = 2 * login.CACHE_SECONDS + 10
"""The kernel believes what sshfs has told it, which may itself have been believed for as long."""
SECONDS = 2 * FS_DELAY + 240.0
LINES = 45
"""One a second: long enough that the agent has looked at the log before its last line, and believes what it has seen."""
PRINTS = f"for n in $(seq {LINES}); do echo line $n; sleep 1; done"
PRINTED = [f"line {number}" for number in range(1, LINES + 1)]


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    missing = [path for path in (LAYOUT.slow / ADA, LAYOUT.slow / BEN) if str(path) not in login.mounted()]
    if missing:
        pytest.skip(f"{missing[0]} is not mounted")
    with reached(cluster, SUDO, work=LAYOUT.slow, fs_delay=FS_DELAY) as found:
        yield found


def with_results(made: dict[str, Any]) -> dict[str, Any]:
    """The same Job with a file of its own as a result."""
    made["metadata"]["annotations"] = {names.HINT_RESULTS: "out/data"}
    spec = made["spec"]["template"]["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "out", "mountPath": "/out"})
    spec["volumes"].append({"name": "out", "emptyDir": {}})
    return made


def await_running(stack: Stack, jobs: Sequence[str], seconds: float) -> None:
    def left() -> list[str]:
        return [name for name in jobs if pod_of(stack.ada, name)["status"]["phase"] != "Running"]

    until(left, lambda names: not names, seconds=seconds, what="to be shown as running")


def brought(stack: Stack, name: str, file: str) -> str:
    """A file that the agent has brought of a Job's one Pod."""
    (found,) = [one for one in stack.site.results.rglob(file) if name in one.parts]
    return found.read_text()


def test_how_jobs_end_is_seen_within_the_delay_and_their_logs_and_results_are_whole(stack: Stack) -> None:
    well = apply(stack.ada, with_results(waiting(counted(f"{PRINTS}; seq 20000 >/out/data"))))
    fails = apply(stack.ada, waiting(counted(f"{PRINTS}; tell end; exit 7")))
    await_started(well, fails)
    await_running(stack, (well, fails), FS_DELAY)

    with ExitStack() as following:
        # kubectl ends a stream when it has waited so long for the Pod, though it did not need to.
        follow = ("logs", "-f", "--pod-running-timeout=1h")
        followers = {name: following.enter_context(stack.ada.start(*follow, f"job/{name}")) for name in (well, fails)}
        let_go(well, fails)
        until(lambda: [name for name in (well, fails) if not told(name, "end")], lambda left: not left, seconds=SECONDS)
        begun = time.monotonic()
        ends = await_ends(stack.ada, [well, fails], seconds=SECONDS)
        took = time.monotonic() - begun
        logs = {name: printed(stack.ada, name) for name in (well, fails)}
        followed = {name: one.communicate(timeout=SECONDS)[0].splitlines() for name, one in followers.items()}

    assert ends == {well: "Complete", fails: "Failed"}
    assert exit_code(stack.ada, fails) == 7
    assert took < FS_DELAY + 60
    assert logs == {well: PRINTED, fails: PRINTED}
    assert {name: [line for line in text if line.startswith("line")] for name, text in followed.items()} == logs
    for name in (well, fails):
        log = brought(stack, name, "main.0").splitlines()
        assert [line for line in log if line.startswith("line")] == PRINTED
        assert [line.event for line in lines(name)] == ["start", "end"]
    assert brought(stack, well, "data") == "".join(f"{number}\n" for number in range(1, 20001))
    await_empty(well, fails)


def test_one_that_runs_is_deleted_with_its_grace_and_one_that_waits_never_starts(stack: Stack) -> None:
    body = "trap 'tell term; exit 0' TERM; while :; do sleep 0.2; done"
    runs = apply(stack.ada, counted(body, pod={"terminationGracePeriodSeconds": 20}))
    await_started(runs)
    whole = ("--partition=all", "--nodes=4", "--exclusive", "--chdir=/", "--output=/dev/null", "--wrap=sleep 900")
    others = slurm(*as_user(BEN), "sbatch", "--parsable", *whole).strip()
    try:
        waits = apply(stack.ada, counted())
        waits_id = job_id(stack.ada, waits)
        until(lambda: living(ADA), lambda ids: waits_id in ids, seconds=SECONDS)

        stack.ada.ok("delete", "job", runs, waits, "--wait=false")

        for name in (runs, waits):
            until(lambda: stack.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, seconds=SECONDS)  # noqa: B023 - used at once
        await_empty(runs, waits)
    finally:
        slurm("scancel", others)
    assert [line.event for line in lines(runs)] == ["start", "term"]
    assert lines(waits) == []


def test_an_agent_that_is_killed_loses_nothing_and_runs_nothing_twice(stack: Stack) -> None:
    """Killed while Jobs run, while some have ended unseen, and while one has just come."""
    end, run = ([apply(stack.ada, waiting(counted())) for _ in range(2)] for _ in range(2))
    fails = apply(stack.ada, waiting(counted("tell end; exit 3")))
    await_started(*end, *run, fails)
    come = apply(stack.ada, counted())

    stack.agent.kill()
    let_go(*end, fails)
    until(lambda: [name for name in (*end, fails) if not told(name, "end")], lambda left: not left, seconds=SECONDS)
    stack.agent.start()
    until(lambda: stack.agent.logged("adopted"), lambda seen: len(seen) > 1, seconds=SECONDS, what="to act")
    stack.agent.kill()
    let_go(*run)
    stack.agent.start()

    every = [*end, *run, come]
    ends = await_ends(stack.ada, [*every, fails], seconds=SECONDS)
    assert ends == {**dict.fromkeys(every, "Complete"), fails: "Failed"}
    assert exit_code(stack.ada, fails) == 3
    events = {name: [line.event for line in lines(name)] for name in (*every, fails)}
    assert events == {name: ["start", "end"] for name in (*every, fails)}
    await_empty(*every, fails)
