"""TORQUE's words against recordings of a real server (recorded/torque)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobReport, JobState, QueueReport, Submission, Verdict, torque
from tests.hpc.recordings import ROOT, session, text

USUAL = "env -i PATH=/opt/torque/bin:/usr/local/bin:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("name", "job_id", "expected"),
    [
        ("20-qstat-x-all.xml", "0.vm", (JobState.FINISHED, 7, Verdict.ENDED)),
        ("20-qstat-x-all.xml", "1.vm", (JobState.FINISHED, 0, Verdict.ENDED)),
        ("20-qstat-x-all.xml", "45.vm", (JobState.HELD, None, None)),
        ("20-qstat-x-all.xml", "63.vm", (JobState.QUEUED, None, None)),
        ("20-qstat-x-all.xml", "60.vm", (JobState.RUNNING, None, None)),
        ("22-qdel-queued.xml", "63.vm", (JobState.FINISHED, None, Verdict.DELETED)),
        ("22-qdel-running.xml", "64.vm", (JobState.FINISHED, 271, Verdict.DELETED)),
        ("22-walltime-exceeded.xml", "67.vm", (JobState.FINISHED, -11, Verdict.WALLTIME)),
        ("24-qstat-x-all.xml", "67.vm", (JobState.FINISHED, -11, Verdict.WALLTIME)),
    ],
)
def test_a_recorded_job(name: str, job_id: str, expected: tuple[JobState, int | None, Verdict | None]) -> None:
    report = torque.parse_details(text(f"torque/{name}"))[job_id]

    assert (report.state, report.exit_status, report.verdict) == expected
    assert report.succeeded == (expected[1:] == (0, Verdict.ENDED))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (-1, Verdict.NEVER_RAN),
        (-3, Verdict.NEVER_RAN),
        (-4, Verdict.NODE_LOST),
        (-5, Verdict.NODE_LOST),
        (-6, Verdict.NODE_LOST),
        (-9, Verdict.NEVER_RAN),
        (-10, Verdict.MEMORY),
        (-12, Verdict.CPU_TIME),
    ],
)
def test_what_a_negative_status_means(status: int, expected: Verdict) -> None:
    """JOB_EXEC_… of pbs_job.h."""
    recorded = text("torque/22-qdel-running.xml").replace(">271<", f">{status}<")

    assert torque.parse_details(recorded)["64.vm"].verdict is expected


def test_why_a_recorded_job_waits() -> None:
    """TORQUE's own scheduler expects no starts."""
    report = torque.parse_details(text("torque/20-qstat-x-all.xml"))["63.vm"]

    assert (report.reason, report.expected) == ("Not Running: Queue not started.", None)


def test_everything_of_a_record() -> None:
    report = torque.parse_details(text("torque/22-qdel-running.xml"))["64.vm"]

    assert (report.name, report.owner, report.queue, report.hosts) == ("notrap", "hpcuser", "batch", "n1/2")
    assert (report.resources["walltime"], report.used["walltime"]) == ("00:05:00", "00:00:07")
    assert report.reason == "Job started on Sat Nov 21 at 02:24"
    assert report.started == datetime(2026, 11, 21, 2, 24, 10, tzinfo=UTC)
    assert report.ended == datetime(2026, 11, 21, 2, 24, 17, tzinfo=UTC)


def test_several_documents_one_after_another_and_the_variable() -> None:
    """The second is put behind the first here: what a server prints between them was not kept, only that both come."""
    one = text("torque/22-qdel-queued.xml").replace("PBS_O_QUEUE=stoppedq", "BATCHGATE_DIR=/w/pods/a b,PBS_O_QUEUE=x")

    found = torque.parse_details(one + text("torque/22-qdel-running.xml"))

    assert {job_id: report.directory for job_id, report in found.items()} == {"63.vm": "/w/pods/a b", "64.vm": ""}
    assert torque.parse_details("") == {}


@pytest.mark.parametrize(
    "bad",
    [
        "<Data><Job><Job_Id>1.vm</Job_Id><job_state>C</job_state><exit_status>٣</exit_status></Job></Data>",
        "<Data><Job><Job_Id>1.vm</Job_Id><job_state>C</job_state></Job><Job><Job_Id>1.vm</Job_Id><job_state>R</job_state></Job></Data>",
        "<Data><Node/></Data>", "<Data><Job/></Data>", "<Other></Other></Data>", "text<Data></Data>", '<!DOCTYPE x [<!ENTITY a "b">]><Data></Data>'],
)  # fmt: skip
def test_what_is_no_answer(bad: str) -> None:
    with pytest.raises(OutputError):
        torque.parse_details(bad)


TABLE = """
vm:
                                                                                  Req'd       Req'd       Elap
Job ID                  Username    Queue    Jobname          SessID  NDS   TSK   Memory      Time    S   Time
----------------------- ----------- -------- ---------------- ------ ----- ------ --------- --------- - ---------
0.vm                    hpcuser     batch    envtest            5645     1      2        --  00:02:00 C       --
63.vm                   hpcuser     stoppedq e.sh                --     --     --        --        -- Q       --
1234.pbs-server.some.u  hpcuser     batch    long              19132     1      1        --  00:05:00 R  00:00:07
"""
"""In the columns of TORQUE's qstat -u; no recording of this table exists."""


def test_the_states_of_a_users_jobs() -> None:
    assert torque.parse_states(TABLE) == {
        "0.vm": JobState.FINISHED,
        "63.vm": JobState.QUEUED,
        "1234.pbs-server.some.u*": JobState.RUNNING,
    }
    assert torque.parse_states("") == {}
    for bad in (TABLE.rstrip(), TABLE + "x\n", "nothing\n"):
        with pytest.raises(OutputError):
            torque.parse_states(bad)


def test_the_commands() -> None:
    commands = Commands((("PATH", "/bin"),), ("sudo", "-n"))
    start = ("env", "-i", "PATH=/bin", "sudo", "-n")

    assert " ".join(torque.submit_argv(Submission("pod.0123abcd.uid", "/w/s", "/w/a", "/w/a/output"))) == (
        f"{USUAL} qsub -N pod.0123abcd.uid -o /w/a/output -j oe -r n -S /bin/bash -W umask=0077 -v BATCHGATE_DIR=/w/a /w/s"
    )
    assert torque.list_argv(name="a.b", commands=commands) == (*start, "qselect", "-N", "a.b")
    assert torque.states_argv("ada,bob", commands) == (*start, "qstat", "-u", "ada,bob")
    assert torque.details_argv(["0.vm", "1.vm"], commands) == (*start, "qstat", "-f", "-x", "0.vm", "1.vm")
    assert (torque.past_argv(["0.vm"]), torque.proof_argv("0.vm")) == (None, None)
    assert torque.cancel_argv("0.vm", commands) == (*start, "qdel", "0.vm")
    assert torque.signal_argv("0.vm", "TERM", commands) == (*start, "qsig", "-s", "INT", "0.vm")
    with pytest.raises(ValueError, match="lists the whole server"):
        torque.details_argv([])


@pytest.mark.parametrize(
    ("directory", "output"),
    [("/w/a,b", "/o"), ("/w/a'b", "/o"), ("/w/a ", "/o"), ("/w", "/o:x"), ("/w", "/$HOME/o"), ("/w", "/o\n")],
)
def test_a_path_that_qsub_cannot_carry(directory: str, output: str) -> None:
    with pytest.raises(ConfigError):
        torque.submit_argv(Submission("n", "/s", directory, output))


@pytest.mark.parametrize(
    ("command", "rc", "stderr", "expected"),
    [
        ("qsub", 0, "", None),
        ("qsub", 175, "qsub: submit error (Queue is not enabled MSG=queue is disabled: user a@vm, queue q)", Full),
        ("qsub", 197, "qsub: submit error (Maximum number of jobs already in queue for user MSG=total)", Full),
        ("qsub", 177, "qsub: submit error (Bad UID for job execution MSG=...)", Refused),
        ("qsub", 67, "qsub: submit error (End of File)", Unavailable),
        ("qsub", 67, "qsub: submit error (End of File)\n", Unavailable),
        (
            "qsub",
            1,
            "no hours left, and your request timed out\nqsub: Your job has been administratively rejected by the queueing system.\nqsub: There may be a more detailed explanation prior to this notice.\n",
            Refused,
        ),
        ("qsub", 1, "end of file\nqsub: submit filter returned an error code, aborting job submission.\n", Refused),
        ("qsub", 137, "", Unavailable),
        ("qsub", 159, "", Unavailable),
        ("qsub", 159, "qsub: submit error (Unauthorized Request MSG=x)", Refused),
        ("qstat", 0, "", None),
        ("qstat", 153, "qstat: Unknown Job Id Error 9.vm", None),
        ("qdel", 153, "qdel: Unknown Job Id Error 9.vm", None),
        ("qdel", 170, "qdel: Request invalid for state of job MSG=invalid state for job - COMPLETE 9.vm", None),
        ("qdel", 159, "qdel: Unauthorized Request  57.vm", Unavailable),
        # Somebody else's job, where query_other_jobs is off; not the whole server.
        ("qstat", 159, "qstat: Unauthorized Request  32.vm\n", None),
        ("qstat", 159, "qstat: Unknown Job Id Error 999.vm\nqstat: Unauthorized Request  32.vm\n", None),
        ("qstat", 159, "qstat: Unauthorized Request \n", Unavailable),
        ("qstat", 159, "qstat: Unauthorized Request  32.vm\nqstat: cannot connect to server vm\n", Unavailable),
        ("qstat", 2, "usage", Unavailable),
        ("qstat", None, "", Unavailable),
    ],
)
def test_what_an_end_means(command: str, rc: int | None, stderr: str, expected: type[BatchError] | None) -> None:
    failure = torque.failure(("env", "-i", command, "9.vm"), rc, stderr)

    assert (type(failure) if failure else None) is expected


def test_every_submission_that_was_recorded_is_understood() -> None:
    submitted = [one for one in session(ROOT / "torque" / "10-qsub-errors.txt") if one.command.startswith("qsub ")]
    meaning = {
        (type(failure) if (failure := torque.failure(("qsub",), one.rc, one.stderr)) else None, one.rc)
        for one in submitted
    }

    assert len(submitted) > 50
    for one in submitted:
        if one.rc == 0:
            assert torque.is_id(torque.job_id(one.stdout)) == ("-t" not in one.command.split()), one.command
    assert {rc for kind, rc in meaning if kind is Unavailable} == {67, 111}
    assert {rc for kind, rc in meaning if kind is Full} == {175}
    assert {rc for kind, rc in meaning if kind is None} == {0}


def test_the_recorded_queue_and_nodes() -> None:
    said = {one.command: one.stdout for one in session(ROOT / "torque" / "61-misc.txt")}

    found = torque.parse_queues((said["qstat -Q -f short"], said["pbsnodes -x"]))

    memory = 24684092 * 1024
    assert found == {
        "short": QueueReport(
            name="short", enabled=True, started=True, walltime_max=600, running_max=2, nodes=4, free_nodes=4,
            cores_per_node=4, memory_per_node=memory, gpus_per_node=0, free_cores=16, queued=0, running=0,
        )
    }  # fmt: skip


NODES = (
    "<Data><Node><name>a</name><state>free</state><np>4</np><properties>fast</properties><jobs>0-1/7.vm,3/8.vm</jobs>"
    "<gpus>2</gpus></Node><Node><name>b</name><state>down,offline</state><np>8</np></Node></Data>"
)


def test_properties_used_cores_and_broken_nodes() -> None:
    queues = (
        "Queue: q\n    queue_type = Execution\n    state_count = Transit:0 Queued:3 Held:1 Running:2 Ex\n\titing:1 \n"
        "    resources_default.neednodes = fast\n    resources_default.walltime = 01:00:00\n    max_user_queuable = 5\n"
        "    enabled = False\n    started = True\n\nQueue: r\n    queue_type = Route\n    route_destinations = q,other\n"
        "    enabled = True\n    started = True\n\n"
    )

    found = torque.parse_queues((queues, NODES))

    assert found["q"] == QueueReport(
        name="q", enabled=False, started=True, reason="enabled = False", walltime_default=3600, queued_max=5, nodes=1,
        free_nodes=0, cores_per_node=4, gpus_per_node=2, free_cores=1, queued=3, running=3,
    )  # fmt: skip
    assert (found["r"].destinations, found["r"].nodes, found["r"].free_cores) == (("q", "other"), None, None)


@pytest.mark.parametrize(
    ("hosts", "ends"),
    [("", False), ("n1/0-3", False), ("n1/0+n1/1", False), ("n2/0-3+n1/0", True), ("n1/0+n1/1+n2/0", True)],
)
def test_a_signal_ends_what_runs_on_several_hosts(hosts: str, ends: bool) -> None:
    assert torque.signal_ends(JobReport("0.vm", JobState.RUNNING, "R", hosts=hosts)) is ends
