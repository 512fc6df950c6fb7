"""Exit codes and words of whole commands, and the agent's own way through them."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from router import hpc
from router.hpc import JobState, Submission, Verdict, local
from tests.local.queue import EmbeddedQueue, Run, until


def test_exit_codes_of_qsub(queue: EmbeddedQueue) -> None:
    queue.define(
        {"name": "workq", "nodes": 1, "cpusPerNode": 1, "walltimeMax": 600},
        {"name": "closed", "nodes": 1, "cpusPerNode": 1, "enabled": False},
    )
    (queue.work / "ok.sh").write_text("true\n")
    (queue.work / "crlf.sh").write_bytes(b"#PBS -N a\r\ntrue\r\n")

    def qsub(*words: str) -> Run:
        return queue.run("qsub", *words)

    assert qsub("-h", "ok.sh") == Run(0, "0.local\n", "")
    assert qsub("-q", "nosuch", "ok.sh") == Run(170, "", "qsub: Unknown queue\n")
    assert qsub("-q", "closed", "ok.sh") == Run(173, "", "qsub: Queue is not enabled\n")
    too_long = "qsub: Job violates queue and/or server resource limits\n"
    assert qsub("-l", "walltime=00:10:01", "ok.sh") == Run(188, "", too_long)
    assert qsub("-h", "ok.sh") == Run(0, "2.local\n", "")  # the refused one has burnt an id
    assert qsub("crlf.sh") == Run(1, "", "qsub: script contains cr, lf\n")
    assert qsub("missing.sh") == Run(1, "", "qsub: script file:: No such file or directory\n")
    assert qsub(str(queue.work)) == Run(1, "", "qsub: script not a file\n")
    assert qsub("ok.sh", "extra").rc == 2
    assert qsub("-h", "-z", "ok.sh") == Run(0, "", "")
    assert queue.job("0.local")["Resource_List"]["walltime"] == "00:10:00"


def test_exit_codes_of_the_others(queue: EmbeddedQueue) -> None:
    done, held = queue.submit("true"), queue.submit("true", "-h", "-N", "held-one", "-P", "proj")
    queue.ended(done)
    finished = "has finished, use -x or -H to obtain historical job information"

    assert queue.run("qstat", done) == Run(35, "", f"qstat: {done} Job {finished}\n")
    assert queue.run("qstat", "99") == Run(153, "", "qstat: Unknown Job Id 99.local\n")
    assert queue.run("qstat", "nosuchq") == Run(170, "", "qstat: Unknown queue destination nosuchq\n")
    assert queue.run("qstat", "0.local,1.local").rc == 1
    assert queue.run("qstat", "-u", "me", "-f", "-F", "json").rc == 2
    assert queue.run("qdel", done) == Run(35, "", f"qdel: Job has finished {done}\n")
    assert queue.run("qdel", "99") == Run(153, "", "qdel: Unknown Job Id 99.local\n")
    assert queue.run("qdel", "nonsense") == Run(1, "", "qdel: illegally formed job identifier: nonsense\n")
    assert queue.run("qsig", held) == Run(168, "", f"qsig: Request invalid for state of job {held}\n")
    assert queue.run("qsig", "-s", "NOPE", held).rc == 165
    assert queue.run("qselect", "-N", "held-one") == Run(0, f"{held}\n", "")
    assert queue.run("qselect", "-N", "held") == Run(0, "", "")
    assert queue.run("qselect", "-P", "proj") == Run(0, f"{held}\n", "")
    assert queue.run("qselect", "-x") == Run(0, f"{done}\n{held}\n", "")
    assert queue.run("qselect", "-u", "nobody-here") == Run(0, "", "")
    assert queue.run("qselect", "-N", "a*").rc == 2
    assert queue.run("qdel", "-x", held, done) == Run(0, "", "")
    assert queue.run("qselect", "-x") == Run(0, "", "")


def test_json_of_several_ids_has_only_the_first_and_numbers_for_values(queue: EmbeddedQueue) -> None:
    first = queue.submit("true", "-h", "-v", "X=007,Y=null,Z=text")
    second = queue.submit("true", "-h")

    several = json.loads(queue.ok("qstat", "-f", "-F", "json", first, second))
    every = json.loads(queue.ok("qstat", "-f", "-F", "json"))

    assert list(several["Jobs"]) == [first]
    assert list(every["Jobs"]) == [first, second]
    shown = several["Jobs"][first]["Variable_List"]
    assert (shown["X"], shown["Y"], shown["Z"]) == (7, None, "text")


def test_tables(queue: EmbeddedQueue) -> None:
    queue.submit("true", "-h", "-N", "a-name-of-twenty-odd")

    plain = queue.ok("qstat").splitlines()
    wide = queue.ok("qstat", "-w", "-a").splitlines()

    assert plain[0] == "Job id            Name             User              Time Use S Queue"
    assert plain[2].split()[:2] == ["0.local", "a-name-of-twent*"]
    assert wide[-1].split()[0] == "0.local"
    assert len(wide[-1]) == len(wide[-2])


def test_no_daemon_can_be_started(queue: EmbeddedQueue) -> None:
    broken = EmbeddedQueue(queue.work / "file" / "below", queue.work)
    (queue.work / "file").touch()

    assert [broken.run(*words).rc for words in (["qstat"], ["qsub"], ["qdel", "0"], ["qselect"])] == [
        255,
        162,
        162,
        162,
    ]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "no queues"),
        ({"queues": [{"name": "a", "nodes": 1}]}, "queues[0].cpusPerNode: is missing"),
        ({"queues": [{"name": "a", "nodes": 1, "cpusPerNode": 1, "colour": 1}]}, "queues[0].colour: is unknown"),
        ({"queues": [{"name": "a", "nodes": -1, "cpusPerNode": 1}]}, "queues[0].nodes: cannot be -1"),
        ({"queues": [{"name": "a", "nodes": 1, "cpusPerNode": 1}] * 2}, "a name occurs twice"),
    ],
)
def test_queues_that_cannot_be(queue: EmbeddedQueue, document: object, words: str) -> None:
    refused = queue.run("queues", "--define", "-", stdin=json.dumps(document))

    assert refused.rc != 0
    assert words in refused.err
    assert "Traceback" not in refused.err


def test_the_queues_state_is_what_rules_read(queue: EmbeddedQueue) -> None:
    queue.reached(queue.submit("sleep 60"), "R")
    queue.submit("true", "-h")

    shown = json.loads(queue.ok("queues", "-o", "json"))

    assert shown == {
        "queues": [{"site": "local", "queue": "workq", "up": True, "freeNodes": 1, "queuedJobs": 0, "runningJobs": 1}]
    }


def test_a_queue_that_jobs_wait_in_is_not_taken_away(queue: EmbeddedQueue) -> None:
    queue.submit("true", "-h")
    other = json.dumps({"queues": [{"name": "other", "nodes": 1, "cpusPerNode": 1}]})

    refused = queue.run("queues", "--define", "-", stdin=other)

    assert "jobs that are not over need the queue workq" in refused.err
    assert "workq" in queue.ok("queues")


def test_a_submission_that_the_agent_makes(queue: EmbeddedQueue) -> None:
    """argv builders, the real commands and the parsers, end to end."""
    commands = local.commands_of(str(queue.directory), (sys.executable, "-m", "router.local"))
    directory = queue.work / "pods, and more"
    directory.mkdir()
    script = directory / "script"
    script.write_text("#!/bin/bash\n#PBS -l select=1:ncpus=2:mpiprocs=2\necho $BATCHGATE_DIR\n")
    name = hpc.job_name("pod", hpc.cluster_id("cluster"), "uid-1", local.NAME_LIMIT)

    def run(argv: tuple[str, ...]) -> str:
        done = _run(argv, queue.work)
        assert local.failure(argv, done.rc, done.err) is None, done
        return done.out

    submission = Submission(name, str(script), str(directory), str(directory / "output"))
    job_id = local.job_id(run(local.submit_argv(submission, commands)))
    other = local.job_id(run(local.submit_argv(submission, commands)))
    assert local.parse_list(run(local.list_argv(name=name, commands=commands))) == (job_id, other)

    reports = until(
        lambda: local.parse_details(run(local.details_argv([job_id, other], commands)), zone=UTC),
        lambda found: all(report.state is JobState.FINISHED for report in found.values()),
    )
    single = local.parse_details(run(local.details_argv([job_id], commands)))

    report = reports[job_id]
    assert (report.succeeded, report.verdict, report.name) == (True, Verdict.ENDED, name)
    assert (report.directory, report.resources["mpiprocs"]) == (str(directory), "2")
    assert isinstance(report.ended, datetime)
    assert single[job_id] == report
    assert (directory / "output").read_text() == f"{directory}\n"
    run(local.cancel_argv(job_id, commands))
    run(local.cancel_argv(other, commands))


def _run(argv: tuple[str, ...], cwd: Path) -> Run:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=60, check=False)
    return Run(done.returncode, done.stdout, done.stderr)
