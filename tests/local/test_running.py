"""What happens to jobs that really run: their ends, environment, slots, and a daemon that dies."""

from __future__ import annotations

import json
import os
import pwd
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from router.local import shepherd
from tests.local.queue import EmbeddedQueue, is_alive, until
from tests.processes import started


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("true", (0, 92)),
        ("exit 3", (3, 93)),
        ("exit 300", (300 % 256, 93)),
        ("kill -SEGV $$", (128 + signal.SIGSEGV, 93)),
        ("", (127, 93)),
        ("no-such-program-here", (127, 93)),
    ],
)
def test_a_job_ends_as_its_script_does(queue: EmbeddedQueue, script: str, expected: tuple[int, int]) -> None:
    assert queue.ended(queue.submit(script)) == expected


def test_a_signal_from_outside_is_256_and_more(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("echo up; sleep 60; sleep 60")
    queue.output()

    queue.ok("qsig", "-s", "USR1", job_id)

    assert queue.ended(job_id) == (256 + signal.SIGUSR1, 93)


def test_the_walltime_ends_a_job_that_ignores_term(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("trap '' TERM; sleep 60 & wait; sleep 60", "-l", "walltime=1")

    job = queue.reached(job_id, "F")

    assert (job["Exit_status"], job["substate"]) == (-29, 93)
    assert job["comment"].endswith(" and exceeded resource walltime")


def test_deleting_a_running_job_gives_it_time_after_term(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 4}, killDelay=60)
    job_id = queue.submit("trap 'echo trapped; exit 0' TERM; echo up; sleep 60 & wait")
    queue.output()

    queue.ok("qdel", job_id)

    assert queue.ended(job_id) == (271, 91)
    assert queue.output() == "up\ntrapped\n"


def test_force_deletes_at_once(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("trap '' TERM; echo up; while :; do sleep 60; done")
    queue.output()

    queue.ok("qdel", "-W", "force", job_id)

    assert queue.ended(job_id) == (265, 91)


def test_what_ignores_term_is_killed_after_the_delay(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("trap '' TERM; echo up; while :; do sleep 60; done")
    queue.output()

    queue.ok("qdel", job_id)

    assert queue.ended(job_id) == (271, 91)


def test_a_job_deleted_while_it_waits_has_no_exit_status(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("true", "-h")
    assert queue.job(job_id)["job_state"] == "H"

    queue.ok("qdel", job_id)

    job = queue.job(job_id)
    assert (job["job_state"], job["substate"], "Exit_status" in job, "stime" in job) == ("F", 91, False, False)


def test_held_until_it_is_released(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("true", "-l", "select=9:ncpus=1", "-h")
    queue.ok("qrls", job_id)
    queue.ok("qhold", job_id)
    assert queue.job(job_id)["job_state"] == "H"

    other = queue.submit("true", "-h")
    queue.ok("qrls", other)

    assert queue.ended(other) == (0, 92)


def test_jobs_wait_for_slots_in_their_order(queue: EmbeddedQueue) -> None:
    blocker = queue.submit("sleep 60", "-l", "select=2:ncpus=3,place=scatter")
    queue.reached(blocker, "R")
    wide = queue.submit("true", "-l", "select=1:ncpus=4")
    small = queue.submit("true", "-l", "select=1:ncpus=1")

    assert [queue.job(job)["job_state"] for job in (wide, small)] == ["Q", "Q"]
    assert queue.job(wide)["comment"] == "Not Running: Not enough free nodes available"
    queue.ok("qdel", "-W", "force", blocker)
    assert queue.ended(wide) == queue.ended(small) == (0, 92)


def test_what_can_never_run_is_taken_and_holds_nobody_up(queue: EmbeddedQueue) -> None:
    hopeless = queue.submit("true", "-l", "select=1:ncpus=100")

    assert queue.ended(queue.submit("true")) == (0, 92)
    job = queue.job(hopeless)
    assert (job["job_state"], job["comment"]) == (
        "Q", "Can Never Run: Insufficient amount of resource: ncpus (R: 100 A: 8 T: 8)"
    )  # fmt: skip


def test_two_queues_have_nodes_of_their_own(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1}, {"name": "second", "nodes": 1, "cpusPerNode": 1})
    first = queue.submit("sleep 60", "-q", "workq")
    queue.reached(first, "R")

    assert queue.ended(queue.submit("true", "-q", "second")) == (0, 92)
    assert queue.job(first)["job_state"] == "R"


def test_a_job_sees_what_a_pbs_job_sees(queue: EmbeddedQueue) -> None:
    secret = "CALLERS_OWN=1"
    other = EmbeddedQueue(queue.directory, queue.work, dict([secret.split("=")]))
    job_id = other.submit(
        "env; echo cwd=$PWD umask=$(umask); cat $PBS_NODEFILE; test -d $TMPDIR && echo scratch",
        "-N", "seen", "-v", "BATCHGATE_DIR=/a b/c,X=1", "-l", "select=1:ncpus=4:mpiprocs=2:ompthreads=2+1:ncpus=1",
    )  # fmt: skip
    assert queue.ended(job_id) == (0, 92)

    lines = queue.output().splitlines()
    host = socket.gethostname()
    assert {
        f"PBS_JOBID={job_id}", "PBS_JOBNAME=seen", "PBS_QUEUE=workq", "PBS_ENVIRONMENT=PBS_BATCH",
        "BATCHGATE_DIR=/a b/c", "X=1", "NCPUS=2", "OMP_NUM_THREADS=2", f"PBS_O_WORKDIR={queue.work}", "scratch",
        f"cwd={pwd.getpwuid(os.getuid()).pw_dir} umask=0077",
    } <= set(lines)  # fmt: skip
    assert secret not in lines
    assert lines.count(host) == 3


def test_a_queue_may_name_its_nodes_as_hosts(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 3, "cpusPerNode": 4, "hostPerNode": True})
    job_id = queue.submit("cat $PBS_NODEFILE", "-l", "select=2:ncpus=2:mpiprocs=2+1:ncpus=1", "-l", "place=scatter")

    assert queue.ended(job_id) == (0, 92)
    assert queue.output().splitlines() == ["workq-n1", "workq-n1", "workq-n2", "workq-n2", "workq-n3"]
    assert queue.job(job_id)["exec_host"] == "workq-n1/0*2+workq-n2/0*2+workq-n3/0"


def test_gpus_of_jobs_side_by_side_are_disjoint(queue: EmbeddedQueue) -> None:
    script = "echo $CUDA_VISIBLE_DEVICES > $WHERE; sleep 60"
    files = [queue.work / name for name in ("a", "b", "c")]
    asked = ["select=1:ncpus=1:ngpus=1", "select=1:ncpus=1:ngpus=2", "select=1:ncpus=1:ngpus=1"]
    for file, select in zip(files, asked, strict=True):
        queue.submit(script, "-v", f"WHERE={file}", "-l", select)

    until(lambda: all(file.exists() and file.read_text() for file in files))
    granted = [file.read_text().strip() for file in files]

    assert sorted(",".join(granted).split(",")) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("name", ["with space", "colon:and,comma", "quote'\"", "-dash"])
def test_output_goes_to_odd_paths(queue: EmbeddedQueue, name: str) -> None:
    path = queue.work / name
    assert queue.run("qsub", "-o", str(path), "-j", "oe", stdin="echo here; echo there >&2").rc == 0

    assert until(lambda: path.read_text() if path.exists() else "", lambda text: "there" in text) == "here\nthere\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_output_that_cannot_be_delivered_does_not_fail_the_job(queue: EmbeddedQueue) -> None:
    job_id = queue.ok("qsub", "-o", "/nonexistent/out", "-j", "oe", stdin="echo lost").strip()

    assert queue.ended(job_id) == (0, 92)
    assert queue.job(job_id)["Stageout_status"] == 0


def test_the_shell_is_the_one_asked_for(queue: EmbeddedQueue) -> None:
    assert queue.ended(queue.submit('test -z "$BASH_VERSION"', "-S", "/bin/sh")) == (0, 92)
    assert queue.ended(queue.submit("true", "-S", "/bin/nonexistent")) == (254, 93)


def test_nothing_of_a_job_outlives_it(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("setsid sleep 61 & echo $! ; sleep 0.2")
    pid = int(queue.output())

    assert queue.ended(job_id) == (0, 92)
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize("lists", [shepherd.LISTS, Path("/nowhere")], ids=["lists of the kernel", "all of /proc"])
def test_what_descends_from_a_shepherd_is_found_in_every_session(lists: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shepherd, "LISTS", lists)
    script = "setsid sleep 61 & echo $!; sleep 61 & echo $!; wait"
    with started(["/bin/bash", "-c", script], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        pids = {shell.pid, *(int(shell.stdout.readline()) for _ in range(2))}
        try:
            assert pids - {*shepherd._descendants()} == set()
        finally:
            shepherd._signal(pids, signal.SIGKILL)
    until(lambda: not pids & {*shepherd._descendants()})


def test_jobs_outlive_a_killed_daemon(queue: EmbeddedQueue) -> None:
    go = queue.work / "go"
    long = queue.submit(f"until test -e '{go}'; do sleep 0.05; done; exit 4")
    queue.reached(long, "R")
    short = queue.submit(f"until test -e '{go}'; do sleep 0.05; done; sleep 1; exit 5")
    session = queue.runs(short)

    os.kill(queue.daemon(), signal.SIGKILL)
    go.touch()
    until((queue.directory / "jobs" / long.partition(".")[0] / "exit.json").exists)

    assert queue.ended(long) == (4, 93)
    assert queue.job(short)["session_id"] == session
    assert queue.ended(short) == (5, 93)


def test_a_daemon_killed_before_the_job_began_lets_the_next_one_run_it_once(queue: EmbeddedQueue) -> None:
    """The record says "running", no shepherd ever claimed the run: as after a kill between the two."""
    job_id = queue.submit("echo ran >> $WHERE", "-h", "-v", f"WHERE={queue.work / 'runs'}")
    queue.ok("stop")
    record = queue.directory / "jobs" / "0" / "job.json"
    job = json.loads(record.read_text())
    record.write_text(json.dumps({**job, "state": "R", "held": False, "run_count": 1, "started": time.time()}))

    assert queue.ended(job_id) == (0, 92)
    assert queue.job(job_id)["run_count"] == 2
    assert (queue.work / "runs").read_text() == "ran\n"


def test_a_shepherd_that_comes_late_runs_nothing(queue: EmbeddedQueue, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert shepherd.claim(tmp_path, 1, 0)

    shepherd.main(tmp_path, 1)

    assert not (tmp_path / "exit.json").exists()


def test_a_job_whose_shepherd_was_killed_is_lost(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("sleep 60")
    session = queue.runs(job_id)
    shepherd = int(Path(f"/proc/{session}/stat").read_text().rpartition(")")[2].split()[1])

    os.kill(shepherd, signal.SIGKILL)

    assert queue.ended(job_id) == (-20, 93)
    until(lambda: not is_alive(session))


def test_two_directories_do_not_disturb_each_other(queue: EmbeddedQueue, tmp_path: Path) -> None:
    other = EmbeddedQueue(tmp_path / "other", queue.work)
    try:
        first, second = queue.submit("sleep 60"), other.submit("exit 2")
        assert first == second == "0.local"
        assert other.ended(second) == (2, 93)
        assert queue.job(first)["job_state"] == "R"
    finally:
        other.run("stop", "--delete")


def test_a_very_long_directory_serves_too(queue: EmbeddedQueue, tmp_path: Path) -> None:
    deep = EmbeddedQueue(tmp_path / ("d" * 120) / ("e" * 120), queue.work)
    try:
        assert deep.ended(deep.submit("true")) == (0, 92)
    finally:
        deep.run("stop", "--delete")


def test_stopped_jobs_run_on_and_are_found_again(queue: EmbeddedQueue) -> None:
    job_id = queue.submit("sleep 60")
    queue.reached(job_id, "R")
    daemon = queue.daemon()

    queue.ok("stop")

    until(lambda: not is_alive(daemon))
    assert queue.job(job_id)["job_state"] == "R"
    assert queue.ok("stop", "--delete") == ""
    assert queue.ended(job_id) == (265, 91)


def test_an_idle_daemon_ends_and_comes_again(queue: EmbeddedQueue) -> None:
    queue.define({"name": "workq", "nodes": 1, "cpusPerNode": 1}, idleSeconds=0.2)
    job_id = queue.submit("true")
    assert queue.ended(job_id) == (0, 92)
    daemon = queue.daemon()

    until(lambda: not is_alive(daemon))

    assert queue.ended(job_id) == (0, 92)


def test_a_whole_qsub_is_quick(queue: EmbeddedQueue) -> None:
    """Its processor time: how long it takes also depends on what else the machine does."""
    queue.submit("true", "-h")
    used = []
    for _ in range(5):
        begun = _used_by_children()
        queue.submit("true", "-h")
        used.append(_used_by_children() - begun)

    assert min(used) < 0.25


def _used_by_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
