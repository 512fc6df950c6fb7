"""What a job's processes use, and what ``qstat`` says of it while they run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from subprocess import PIPE

import pytest

from router.local import shepherd, using
from router.local.records import Job
from router.local.resources import seconds
from tests.local.queue import EmbeddedQueue, until
from tests.processes import started

HOLDS = "import sys; held = b'x' * (100 << 20); print('up', flush=True); sys.stdin.read()"
PYTHON = [sys.executable, "-I", "-S", "-c"]
# Burns one second in a child that ends, then waits with a child that holds 100 MiB; stands for a shepherd and its job.
TREE = f"""
import subprocess, sys
subprocess.run([sys.executable, "-I", "-S", "-c", "import time\\nwhile time.process_time() < 1: pass"])
subprocess.run([sys.executable, "-I", "-S", "-c", {HOLDS!r}])
"""


def job_of(pid: int, **fields: object) -> Job:
    found = Job(
        seq=0, server="local", name="n", owner="u", host="h", queue="workq", state="R", substate=42, chunks=[],
        place="free", walltime=None, listed={"ncpus": "2"}, options={}, attributes={}, variables={}, origin={},
        arguments="", output="", error="", created=0, modified=0, started=1000.0,
        shepherd=[pid, shepherd.start_time(pid) or 0],
    )  # fmt: skip
    for name, value in fields.items():
        setattr(found, name, value)
    return found


@pytest.fixture(scope="module")
def tree() -> Iterator[int]:
    with started([*PYTHON, TREE], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process.pid


def test_ended_children_and_those_that_run_count(tree: int) -> None:
    job = job_of(tree)

    using.measure([job], 1063.0)

    memory = int(job.used["mem"].removesuffix("kb"))
    assert job.used == {"cput": job.used["cput"], "mem": f"{memory}kb", "ncpus": "2", "walltime": "00:01:03"}
    assert 1 <= seconds(job.used["cput"]) < 5
    assert 100 << 10 < memory < 130 << 10


def test_a_job_is_measured_again_after_ten_seconds_or_where_the_clock_was_set_back(tree: int) -> None:
    job, seen = job_of(tree), []
    for now in (1003.0, 1012.9, 1013.0, 1022.0, 900.0):
        using.measure([job], now)
        seen.append(job.measured)

    assert seen == [1003.0, 1003.0, 1013.0, 1013.0, 900.0]


def test_memory_that_processes_share_counts_once() -> None:
    shares = "import mmap, os, sys; m = mmap.mmap(-1, 50 << 20); m.write(bytes(50 << 20))"
    forks = "\nfor _ in range(3):\n if not os.fork(): m.seek(0); m.read(); break"
    text = f"import subprocess, sys; subprocess.run([*{PYTHON!r}, sys.argv[1]])"
    reads = "\nprint('up', flush=True); sys.stdin.read()"
    with started([*PYTHON, text, shares + forks + reads], stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(4)] == [b"up\n"] * 4
        job = job_of(process.pid)
        using.measure([job], 1060.0)

    assert 50 << 10 < int(job.used["mem"].removesuffix("kb")) < 100 << 10


@pytest.mark.parametrize(
    ("fields", "walltime"),
    [
        ({}, "00:01:00"),
        ({"away": 20.0}, "00:00:40"),
        ({"state": "S", "stopped": 1030.0}, "00:00:30"),
        ({"state": "S", "stopped": 1050.0, "away": 20.0}, "00:00:30"),
    ],
)
def test_suspended_time_is_no_walltime(tree: int, fields: dict[str, object], walltime: str) -> None:
    job = job_of(tree, **fields)

    using.measure([job], 1060.0)

    assert job.used["walltime"] == walltime


def test_time_that_was_seen_is_not_lost(tree: int) -> None:
    job = job_of(tree, used={"cput": "01:00:00"})

    using.measure([job], 1060.0)

    assert job.used["cput"] == "01:00:00"


@pytest.mark.parametrize("fields", [{"state": "F"}, {"state": "Q"}, {"shepherd": []}, {"shepherd": [1, 5]}])
def test_other_jobs_are_left_as_they_are(tree: int, fields: dict[str, object]) -> None:
    job = job_of(tree, **fields)

    using.measure([job], 1060.0)

    assert (job.used, job.measured) == ({}, 0.0)


def test_a_query_measures_a_hundred_jobs_and_the_next_one_others(tree: int) -> None:
    jobs = [job_of(tree) for _ in range(150)]

    using.measure(jobs, 1060.0)
    using.measure(jobs, 1061.0)

    assert [job.measured for job in jobs] == [1060.0] * 100 + [1061.0] * 50


def test_the_list_that_the_agent_reads_has_them(queue: EmbeddedQueue) -> None:
    job_id = queue.submit(f"sleep 60 | {shlex.join([*PYTHON, HOLDS])}")
    assert queue.output() == "up\n"

    jobs = json.loads(until(lambda: queue.ok("qstat", "-f", "-F", "json"), lambda text: "resources_used" in text))

    used = jobs["Jobs"][job_id]["resources_used"]
    assert used.keys() == {"cput", "mem", "ncpus", "walltime"}
    assert int(used["mem"].removesuffix("kb")) > 100 << 10
