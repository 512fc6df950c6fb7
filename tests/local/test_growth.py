"""The embedded queue under stress: its own death, suspension, kills, limits, other people."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from router.hpc import JobState, Verdict, local
from router.local import client
from tests.local.queue import EmbeddedQueue, is_alive, until

COUNTING = "n=0; while sleep 0.02; do echo $((n++)) > $WHERE$0; done"


def _verdict(queue: EmbeddedQueue, job_id: str) -> tuple[int | None, Verdict | None]:
    """What the agent's own parser makes of a finished job."""
    report = local.parse_details(queue.ok("qstat", "-x", "-f", "-F", "json", job_id))[job_id]
    assert report.state is JobState.FINISHED
    return report.exit_status, report.verdict


def _as(queue: EmbeddedQueue, user: str, **more: str) -> EmbeddedQueue:
    return EmbeddedQueue(queue.directory, queue.work, {"BATCHGATE_LOCAL_USER": user, **more})


def _stands(path: Path) -> bool:
    """Whether a counting job has made no step for many of its steps."""
    seen = path.read_text()
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        if path.read_text() != seen:
            return False
        time.sleep(0.02)
    return True


# --- its own death -----------------------------------------------------------------------------------------------


def test_everything_is_found_again_after_kills_while_jobs_wait_run_and_end(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 3})
    runs = queue.work / "runs"
    held = queue.submit("true", "-h")
    jobs = {}
    for code in range(12):
        if code % 3 == 0:
            os.kill(queue.daemon(), signal.SIGKILL)
        jobs[queue.submit(f"echo {code} >> {runs}; sleep 0.2; exit {code}")] = code
    for _ in range(5):
        queue.run("qstat")
        os.kill(queue.daemon(), signal.SIGKILL)

    ends = {job: queue.ended(job) for job in jobs}

    assert ends == {job: (code, 93 if code else 92) for job, code in jobs.items()}
    assert sorted(map(int, runs.read_text().split())) == list(range(12)), "each ran once"
    assert queue.job(held)["job_state"] == "H"
    # A daemon that dies between the record of a start and the start itself counts one more: nine did die.
    assert {queue.job(job)["run_count"] for job in jobs} <= set(range(1, 11))


def test_a_signal_reaches_a_job_that_has_only_just_been_started(queue: EmbeddedQueue) -> None:
    jobs = [queue.submit("sleep 60") for _ in range(4)]
    for job in jobs:
        queue.run("qdel", job)

    assert {queue.reached(job, "F")["substate"] for job in jobs} == {91}


def test_a_deletion_goes_on_although_the_daemon_dies(queue: EmbeddedQueue) -> None:
    job = queue.submit("trap '' TERM; echo up; while :; do sleep 60; done")
    queue.output()
    session = queue.runs(job)

    queue.ok("qdel", job)
    os.kill(queue.daemon(), signal.SIGKILL)

    until(lambda: not is_alive(session))
    assert queue.ended(job) == (271, 91)


def test_a_job_deleted_between_its_record_and_its_start_never_runs(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("echo ran > $WHERE", "-h", "-v", f"WHERE={queue.work / 'ran'}")
    queue.ok("stop")
    record = queue.directory / "jobs" / "0" / "job.json"
    started = {"state": "R", "held": False, "run_count": 1, "started": time.time(), "deleted_by": "me@here"}
    record.write_text(json.dumps({**json.loads(record.read_text()), **started}))

    job = queue.job(job_id)

    assert (job["job_state"], job["substate"], "Exit_status" in job) == ("F", 91, False)
    assert not (queue.work / "ran").exists()


def test_a_submission_cut_off_before_its_record_leaves_nothing(queue: EmbeddedQueue) -> None:
    queue.ok("stop")
    half = queue.directory / "jobs" / "7"
    half.mkdir(parents=True)
    (half / "script").write_text("true\n")

    assert queue.ok("qselect", "-x") == ""
    assert not half.exists()


def test_one_token_is_one_job(queue: EmbeddedQueue) -> None:
    """The command asks again where a daemon died before it answered."""
    queue.ok("qstat")
    root = str(queue.directory)
    request: dict[str, Any] = {
        "op": "qsub", "words": ["-h"], "script": "true\n", "environment": {}, "cwd": "/", "user": "me", "host": "here",
        "token": "the-same", "faults": "",
    }  # fmt: skip

    first = client.ask(root, request)
    os.kill(queue.daemon(), signal.SIGKILL)

    assert client.ask(root, request) == first == {"rc": 0, "out": "0.local\n", "err": ""}


# --- signals, suspension -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["HUP", "INT", "QUIT"])
def test_signals_that_the_daemon_ignores_can_be_trapped_in_a_job(queue: EmbeddedQueue, name: str) -> None:
    job_id = queue.submit(f"trap 'exit 7' {name}; echo up; sleep 60 & wait")
    queue.output()

    queue.ok("qsig", "-s", name, job_id)

    assert queue.ended(job_id) == (7, 93)


def test_a_suspended_job_stands_still_and_gives_its_slots_away(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1, "memory": "8gb"})
    where = queue.work / "count"
    both = f"bash -c '{COUNTING}' .one & setsid bash -c '{COUNTING}' .two & wait"  # the other in a session of its own
    first = queue.submit(both, "-v", f"WHERE={where}", "-l", "walltime=3600")
    counters = [where.with_name(f"count.{name}") for name in ("one", "two")]
    until(lambda: all(path.exists() and path.read_text() for path in counters))

    queue.ok("qsig", "-s", "suspend", first)

    job = queue.job(first)
    assert (job["job_state"], job["substate"]) == ("S", 43)
    until(lambda: all(map(_stands, counters)))
    second = queue.submit("echo up; until test -e $GO; do sleep 0.05; done", "-v", f"GO={queue.work / 'go'}")
    queue.runs(second)
    queue.ok("qsig", "-s", "resume", first)
    assert (queue.job(first)["job_state"], queue.job(first)["substate"]) == ("S", 45)  # its slot is taken
    (queue.work / "go").touch()
    assert queue.ended(second) == (0, 92)
    assert queue.reached(first, "R")["substate"] == 42
    until(lambda: not any(map(_stands, counters)))


def test_the_state_of_a_suspended_job(queue: EmbeddedQueue) -> None:
    waiting, running = queue.submit("true", "-h"), queue.submit("sleep 60")
    queue.runs(running)

    assert queue.run("qsig", "-s", "suspend", waiting).rc == 168
    assert queue.run("qsig", "-s", "resume", running).rc == 168
    queue.ok("qsig", "-s", "suspend", running)
    assert queue.run("qsig", "-s", "suspend", running).rc == 168
    report = local.parse_details(queue.ok("qstat", "-x", "-f", "-F", "json", running))[running]
    assert report.state is JobState.SUSPENDED
    assert json.loads(queue.ok("queues", "-o", "json"))["queues"][0]["runningJobs"] == 0
    queue.ok("qdel", running)
    assert queue.ended(running) == (271, 91)


def test_suspended_time_is_no_walltime_and_outlives_the_daemon(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("echo up; sleep 60", "-l", "walltime=20")
    queue.output()
    queue.ok("qsig", "-s", "suspend", job_id)
    os.kill(queue.daemon(), signal.SIGKILL)
    assert queue.ended(queue.submit("sleep 28")) == (0, 92)  # longer than the walltime: all of it passes

    assert queue.job(job_id)["job_state"] == "S"
    queue.ok("qsig", "-s", "resume", job_id)
    job = queue.reached(job_id, "F")

    assert _verdict(queue, job_id) == (-29, Verdict.WALLTIME)
    assert "00:00:20" <= job["resources_used"]["walltime"] < "00:00:28"


# --- kills -------------------------------------------------------------------------------------------------------

EATER = (
    f"exec {sys.executable} -I -S -c 'b = bytearray(200 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1\n"
    'print("eaten", flush=True)\nimport time\ntime.sleep(600)\''
)


def test_memory_beyond_what_was_asked_for_ends_a_job(queue: EmbeddedQueue) -> None:
    job_id = queue.submit(EATER, "-l", "select=1:ncpus=1:mem=100mb")

    job = queue.reached(job_id, "F")

    assert _verdict(queue, job_id) == (-27, Verdict.MEMORY)
    assert job["comment"].endswith(" and exceeded resource mem")
    assert "=>> PBS: job killed: mem " in queue.output()
    assert "kb exceeded limit 102400kb\n" in queue.output()
    assert int(job["resources_used"]["mem"].removesuffix("kb")) > 100 << 10


def test_memory_that_processes_share_counts_once(queue: EmbeddedQueue) -> None:
    """Twenty shells of 4 MB each, nearly all of it the same 4 MB."""
    job_id = queue.submit(
        "for i in $(seq 20); do sleep 3 & (sleep 3; true) & done; sleep 3", "-l", "select=1:ncpus=1:mem=40mb"
    )

    assert queue.ended(job_id) == (0, 92)


@pytest.mark.parametrize(("options", "enforced"), [([], True), (["-l", "select=1:mem=100mb"], False)])
def test_memory_is_the_job_s_own_business(queue: EmbeddedQueue, options: list[str], enforced: bool) -> None:
    """Where it asked for none, or the queue enforces nothing: it has its memory for longer than between two looks."""
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 4, "memory": "8gb"}, enforceMemory=enforced)
    job_id = queue.submit(EATER.replace("sleep(600)", "sleep(2)"), *options)

    assert queue.ended(job_id) == (0, 92)
    assert "eaten" in queue.output()


def test_the_walltime_is_said_on_stderr(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("sleep 60", "-l", "walltime=1")

    assert queue.ended(job_id) == (-29, 93)
    assert "=>> PBS: job killed: walltime 1 exceeded limit 1\n" in queue.output()


# --- limits, other people ----------------------------------------------------------------------------------------


def test_limits_on_queued_jobs(queue: EmbeddedQueue) -> None:
    queue.define(
        {"name": "mine", "nodes": 1, "cpusPerNode": 8, "maxQueuedPerUser": 2},
        {"name": "ours", "nodes": 1, "cpusPerNode": 8, "maxQueued": 1},
        {"name": "small", "nodes": 1, "cpusPerNode": 8, "maxQueuedCpusPerUser": 3},
        {"name": "closed", "nodes": 1, "cpusPerNode": 8, "enabled": False},
        {"name": "stopped", "nodes": 1, "cpusPerNode": 8, "started": False},
        maxQueuedPerUser=6, maxQueued=9, maxQueuedCpusPerUser=20,
    )  # fmt: skip
    bob = _as(queue, "bob")

    def qsub(name: str, *options: str, by: EmbeddedQueue = queue) -> tuple[int, str]:
        done = by.run("qsub", "-h", "-q", name, *options, stdin="true\n")
        return done.rc, done.err

    assert [qsub("mine"), qsub("mine")] == [(0, "")] * 2
    assert qsub("mine") == (38, "qsub: would exceed queue generic's per-user limit\n")
    assert qsub("mine", by=bob) == (0, "")
    assert qsub("ours") == (0, "")
    assert qsub("ours", by=bob) == (38, "qsub: Maximum number of jobs already in queue ours\n")
    assert qsub("small", "-l", "select=2:ncpus=2") == (
        39, "qsub: would exceed per-user limit on resource ncpus in queue small\n"
    )  # fmt: skip
    assert qsub("closed") == (173, "qsub: Queue is not enabled\n")
    assert qsub("stopped", "-l", "select=17:ncpus=1") == (0, "")
    assert qsub("stopped") == (39, "qsub: would exceed per-user limit on resource ncpus in complex\n")
    queue.ok("qdel", queue.ok("qselect", "-q", "stopped").strip())
    assert [qsub("stopped"), qsub("stopped"), qsub("stopped")] == [(0, "")] * 3
    assert qsub("stopped") == (38, "qsub: would exceed complex's per-user limit\n")
    assert [qsub("stopped", by=bob), qsub("stopped", by=bob)] == [(0, "")] * 2
    assert qsub("stopped", by=_as(queue, "eve")) == (38, "qsub: Maximum number of jobs already in complex\n")


def test_a_stopped_queue_takes_jobs_and_starts_them_when_it_is_started(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1, "started": False})
    job_id = queue.submit("true")
    assert queue.job(job_id)["job_state"] == "Q"

    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1})

    assert queue.ended(job_id) == (0, 92)


def test_other_people_s_jobs_are_theirs(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1}, operators=["watch"])
    ada, bob, watch = _as(queue, "ada"), _as(queue, "bob"), _as(queue, "watch")
    job_id = ada.submit("true", "-h")

    assert ada.job(job_id)["Job_Owner"].startswith("ada@")
    assert bob.run("qdel", job_id).rc == 159
    assert bob.run("qdel", job_id).err == f"qdel: Unauthorized Request  {job_id}\n"
    assert bob.ok("qselect", "-u", "ada") == f"{job_id}\n"
    queue.ok("faults", "others-hidden=on")
    assert bob.ok("qselect", "-u", "ada") == bob.ok("qselect", "-N", "script.sh") == ""
    assert bob.ok("qstat", "-x", "-f", "-F", "dsv", job_id) == bob.ok("qstat") == ""
    assert [who.ok("qselect") for who in (ada, watch)] == [f"{job_id}\n"] * 2
    watch.ok("qdel", job_id)


# --- its speed ---------------------------------------------------------------------------------------------------


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_burst_is_bound_by_the_commands_not_by_the_daemon(queue: EmbeddedQueue) -> None:
    """CPU time, which other people on the machine do not change much: the daemon takes far less than the commands."""
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1, "started": False})
    queue.ok("qstat")
    daemon, before = _cpu(queue.daemon()), os.times()
    environment = {"PATH": os.environ["PATH"], "BATCHGATE_LOCAL": str(queue.directory)}

    def submit(number: int) -> str:
        argv = [*client.program(), "qsub", "-N", f"burst{number}"]
        done = subprocess.run(argv, env=environment, input="true\n", capture_output=True, text=True, check=True)
        return done.stdout

    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(submit, range(200)))
    after = os.times()
    commands = after.children_user + after.children_system - before.children_user - before.children_system

    assert ids == {f"{number}.local\n" for number in range(200)}
    assert _cpu(queue.daemon()) - daemon < commands / 3


DEAR = {"dataclasses", "inspect", "pathlib", "subprocess", "typing", "click", "getopt", "router.errors"}
IMPORTING = "import sys; sys.path.insert(0, sys.argv[1]); from router.local import calling; print(*sys.modules)"


def test_a_command_imports_nothing_dear() -> None:
    """Half of the time of a process that only asks would be imports."""
    root = str(Path(client.__file__).parents[2])
    argv = [sys.executable, "-I", "-S", "-c", IMPORTING, root]

    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()

    assert "router.local.client" in loaded
    assert DEAR.isdisjoint(loaded)
