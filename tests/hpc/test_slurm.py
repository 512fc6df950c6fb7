"""Slurm's words: what is asked, what the answers and ends mean."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobState, NoHistory, Submission, Verdict, slurm
from router.hpc.slurm.records import LISTED, RECORD_END, RECORDED, UNIT_END

USUAL = "env -i PATH=/opt/slurm/bin:/usr/local/bin:/usr/bin:/bin SLURM_TIME_FORMAT=%s"


def listed(**fields: str) -> str:
    """One record of squeue."""
    usual = {
        "JobID": "7", "State": "RUNNING", "Reason": "None", "exit_code": "0", "UserName": "ada", "Partition": "batch",
        "SubmitTime": "1795346700", "StartTime": "1795346710", "EndTime": "1795350310", "NodeList": "node[1-2]",
        "TimeUsed": "0:42", "TimeLimit": "1:00:00", "Name": "pod.0123abcd.uid", "WorkDir": "/w/pods/a",
    }  # fmt: skip
    return UNIT_END.join({**usual, **fields}[name] for name in LISTED) + f"{RECORD_END}\n"


def recorded(**fields: str) -> str:
    """One record of sacct."""
    usual = {
        "JobIDRaw": "7", "State": "COMPLETED", "ExitCode": "0:0", "User": "ada", "Partition": "batch",
        "Submit": "1795346700", "Start": "1795346710", "End": "1795346752", "NodeList": "node1", "Elapsed": "00:00:42",
        "Timelimit": "01:00:00", "MaxRSS": "", "TotalCPU": "", "JobName": "pod.0123abcd.uid", "WorkDir": "/w/pods/a",
    }  # fmt: skip
    return UNIT_END.join({**usual, **fields}[name] for name in RECORDED) + "\n"


@pytest.mark.parametrize(
    ("state", "reason", "code", "expected"),
    [
        ("PENDING", "Priority", "0", (JobState.QUEUED, None, None)),
        ("PENDING", "JobHeldUser", "0", (JobState.HELD, None, None)),
        ("PENDING", "JobHeldAdmin", "0", (JobState.HELD, None, None)),
        ("PENDING", "launch failed requeued held", "0", (JobState.HELD, None, None)),
        ("CONFIGURING", "None", "0", (JobState.QUEUED, None, None)),
        ("REQUEUED", "None", "0", (JobState.QUEUED, None, None)),
        ("REQUEUE_HOLD", "None", "0", (JobState.HELD, None, None)),
        ("RUNNING", "None", "0", (JobState.RUNNING, None, None)),
        ("SUSPENDED", "None", "0", (JobState.SUSPENDED, None, None)),
        ("COMPLETING", "None", "256", (JobState.EXITING, None, None)),
        ("REVOKED", "None", "0", (JobState.MOVED, None, None)),
        ("NEW_IN_SOME_RELEASE", "None", "0", (JobState.UNKNOWN, None, None)),
        ("COMPLETED", "None", "0", (JobState.FINISHED, 0, Verdict.ENDED)),
        ("FAILED", "NonZeroExitCode", "1792", (JobState.FINISHED, 7, Verdict.ENDED)),
        ("FAILED", "RaisedSignal:9(Killed)", "9", (JobState.FINISHED, 137, Verdict.ENDED)),
        ("FAILED", "RaisedSignal:11(Segmentation_fault)", "139", (JobState.FINISHED, 139, Verdict.ENDED)),
        ("FAILED", "JobLaunchFailure", "11", (JobState.FINISHED, 139, Verdict.ENDED)),
        ("FAILED", "JobLaunchFailure", "256", (JobState.FINISHED, 1, Verdict.NEVER_RAN)),
        ("FAILED", "None", "0", (JobState.FINISHED, None, Verdict.NEVER_RAN)),
        ("TIMEOUT", "TimeLimit", "15", (JobState.FINISHED, 143, Verdict.WALLTIME)),
        ("TIMEOUT", "TimeLimit", "0", (JobState.FINISHED, None, Verdict.WALLTIME)),
        ("DEADLINE", "DeadLine", "0", (JobState.FINISHED, None, Verdict.WALLTIME)),
        ("OUT_OF_MEMORY", "OutOfMemory", "125", (JobState.FINISHED, 253, Verdict.MEMORY)),
        ("CANCELLED", "None", "15", (JobState.FINISHED, 143, Verdict.DELETED)),
        ("CANCELLED", "None", "0", (JobState.FINISHED, None, Verdict.DELETED)),
        ("NODE_FAIL", "NodeDown", "0", (JobState.FINISHED, None, Verdict.NODE_LOST)),
        ("PREEMPTED", "None", "0", (JobState.FINISHED, None, Verdict.PREEMPTED)),
        ("BOOT_FAIL", "None", "0", (JobState.FINISHED, None, Verdict.NEVER_RAN)),
        ("LAUNCH_FAILED", "None", "0", (JobState.FINISHED, None, Verdict.NEVER_RAN)),
        ("RECONFIG_FAIL", "None", "0", (JobState.FINISHED, None, Verdict.NEVER_RAN)),
    ],
)  # fmt: skip
def test_every_state_of_squeue(
    state: str, reason: str, code: str, expected: tuple[JobState, int | None, Verdict | None]
) -> None:
    (report,) = slurm.parse_details(listed(State=state, Reason=reason, exit_code=code)).values()

    assert (report.state, report.exit_status, report.verdict) == expected
    assert report.succeeded == (state == "COMPLETED")
    assert report.code == state


@pytest.mark.parametrize(
    ("spent", "limit", "used", "asked"),
    [
        ("0:00", "30:00", "00:00:00", "00:30:00"),
        ("59:59", "1:00:00", "00:59:59", "01:00:00"),
        ("1-02:03:04", "2-00:00:00", "1-02:03:04", "2-00:00:00"),
        ("12:03:04", "UNLIMITED", "12:03:04", "UNLIMITED"),
    ],
)
def test_spans_of_time_are_as_sacct_writes_them(spent: str, limit: str, used: str, asked: str) -> None:
    (report,) = slurm.parse_listed(listed(TimeUsed=spent, TimeLimit=limit)).values()

    assert (report.resources, report.used) == ({"walltime": asked}, {"walltime": used})


def test_everything_of_a_listed_job() -> None:
    (report,) = slurm.parse_listed(listed(State="COMPLETED", Name="odd\nname | x=y", WorkDir="/w/a b")).values()

    assert (report.job_id, report.owner, report.queue, report.hosts) == ("7", "ada", "batch", "node[1-2]")
    assert (report.name, report.directory, report.reason) == ("odd\nname | x=y", "/w/a b", "")
    assert (report.resources, report.used) == ({"walltime": "01:00:00"}, {"walltime": "00:00:42"})
    assert report.submitted == datetime(2026, 11, 22, 11, 25, tzinfo=UTC)
    assert report.ended == datetime(2026, 11, 22, 12, 25, 10, tzinfo=UTC)


def test_the_start_that_slurm_expects_is_no_start() -> None:
    (report,) = slurm.parse_listed(listed(State="PENDING", Reason="Priority", NodeList="")).values()

    assert (report.started, report.ended, report.used, report.hosts) == (None, None, {}, "")
    assert report.expected == datetime(2026, 11, 22, 11, 25, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "reason", "start", "expected"),
    [
        ("PENDING", "Resources", "1795346710", datetime(2026, 11, 22, 11, 25, 10, tzinfo=UTC)),
        ("PENDING", "Priority", "N/A", None),
        ("PENDING", "Priority", "0", None),
        ("PENDING", "JobHeldUser", "1795346710", None),
        ("RUNNING", "None", "1795346710", None),
        ("COMPLETED", "None", "1795346710", None),
    ],
)
def test_the_expected_start_is_that_of_a_job_that_waits(
    state: str, reason: str, start: str, expected: datetime | None
) -> None:
    (report,) = slurm.parse_listed(listed(State=state, Reason=reason, StartTime=start)).values()

    assert report.expected == expected


@pytest.mark.parametrize(
    ("state", "reason", "aside"),
    [
        ("PENDING", "Priority", False),
        ("PENDING", "Resources,Priority", False),
        ("PENDING", "None", False),
        ("PENDING", "Dependency", True),
        ("PENDING", "BeginTime", True),
        ("PENDING", "Priority,QOSMaxJobsPerUserLimit", True),
        ("PENDING", "PartitionTimeLimit", True),
        # What holds a job back is its state; one that runs stands in no line.
        ("PENDING", "JobHeldUser", False),
        ("RUNNING", "Prolog", False),
    ],
)
def test_a_job_that_waits_for_more_than_its_turn(state: str, reason: str, aside: bool) -> None:
    (report,) = slurm.parse_listed(listed(State=state, Reason=reason)).values()

    assert report.aside is aside


def test_times_without_seconds_since_1970_have_the_servers_zone() -> None:
    east = timezone(timedelta(hours=2))

    (report,) = slurm.parse_listed(listed(SubmitTime="2026-11-22T11:25:00", StartTime="N/A"), zone=east).values()

    assert (report.submitted, report.started) == (datetime(2026, 11, 22, 11, 25, tzinfo=east), None)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([{}], (JobState.FINISHED, 0, Verdict.ENDED, "")),
        ([{"State": "CANCELLED by 1000", "ExitCode": "0:15"}], (JobState.FINISHED, 143, Verdict.DELETED, "CANCELLED by 1000")),
        ([{"State": "CANCELLED by 0", "Start": "None", "End": "None"}], (JobState.FINISHED, None, Verdict.DELETED, "CANCELLED by 0")),
        ([{"State": "FAILED", "ExitCode": "7:0"}], (JobState.FINISHED, 7, Verdict.ENDED, "")),
        ([{"State": "TIMEOUT"}], (JobState.FINISHED, None, Verdict.WALLTIME, "TIMEOUT")),
        ([{"State": "PENDING", "Start": "Unknown", "End": "Unknown"}], (JobState.QUEUED, None, None, "")),
        (
            [{}, {"JobIDRaw": "7.batch", "State": "OUT_OF_MEMORY", "ExitCode": "0:125"}, {"JobIDRaw": "7.extern"}],
            (JobState.FINISHED, 0, Verdict.MEMORY, ""),
        ),
    ],
)  # fmt: skip
def test_what_sacct_says(
    records: list[dict[str, str]], expected: tuple[JobState, int | None, Verdict | None, str]
) -> None:
    (report,) = slurm.parse_details("".join(recorded(**one) for one in records)).values()

    assert (report.state, report.exit_status, report.verdict, report.reason) == expected


def test_the_largest_memory_of_a_jobs_steps() -> None:
    steps = [recorded(), recorded(JobIDRaw="7.batch", MaxRSS="900K"), recorded(JobIDRaw="7.0", MaxRSS="2M")]

    (report,) = slurm.parse_details("".join(steps)).values()

    assert report.used == {"walltime": "00:00:42", "mem": "2M"}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"TotalCPU": "01:20.250"}, {"walltime": "00:00:42", "cput": "00:01:20"}),
        ({"TotalCPU": "26:03:04"}, {"walltime": "00:00:42", "cput": "26:03:04"}),
        ({"TotalCPU": "1-02:03:04"}, {"walltime": "00:00:42", "cput": "1-02:03:04"}),
        ({"TotalCPU": "00:00.008"}, {"walltime": "00:00:42", "cput": "00:00:00"}),
        ({"TotalCPU": "00:00:00"}, {"walltime": "00:00:42"}),  # jobacct_gather/none
        ({"TotalCPU": ""}, {"walltime": "00:00:42"}),
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown", "TotalCPU": "00:01:00"}, {}),
    ],
)
def test_the_processors_time_of_a_job(fields: dict[str, str], expected: dict[str, str]) -> None:
    """The job's own record has that of all its steps."""
    (report,) = slurm.parse_details(recorded(**fields) + recorded(JobIDRaw="7.batch", TotalCPU="00:07.000")).values()

    assert report.used == expected


def test_a_name_with_a_newline_does_not_hide_the_next_job() -> None:
    found = slurm.parse_details(recorded(JobName="two\nlines") + recorded(JobIDRaw="8", State="FAILED", ExitCode="1:0"))

    assert {job_id: (one.name, one.exit_status) for job_id, one in found.items()} == {
        "7": ("two\nlines", 0),
        "8": ("pod.0123abcd.uid", 1),
    }


ANSWERS = {
    "squeue": listed() + listed(JobID="8", State="FAILED", exit_code="256", Name="a\nb"),
    "sacct": recorded() + recorded(JobIDRaw="7.batch", MaxRSS="3K") + recorded(JobIDRaw="8", State="CANCELLED by 1"),
}


@pytest.mark.parametrize(
    "text",
    [
        listed(JobID="8", Name="x\x1f/w\x1e\n" + listed(State="COMPLETED")[:-2]) + listed(),
        listed() + listed(JobID="8", Name="x\x1f/w\x1e\n" + listed(State="COMPLETED")[:-2]),
        recorded(JobIDRaw="8", JobName="x\x1f/w\n" + recorded(State="FAILED")[:-1]) + recorded(),
    ],
)
def test_a_name_that_pretends_to_be_another_job_is_found_out(text: str) -> None:
    with pytest.raises(OutputError, match=r"7 twice|not a record"):
        slurm.parse_details(text)


@pytest.mark.parametrize("kind", sorted(ANSWERS))
def test_an_answer_cut_off_anywhere_has_nothing_but_whole_jobs(kind: str) -> None:
    text = ANSWERS[kind]
    whole = slurm.parse_details(text)
    assert set(whole) == {"7", "8"}

    for end in range(len(text)):
        try:
            found = slurm.parse_details(text[:end])
        except OutputError:
            continue
        assert found.keys() <= whole.keys()
        assert not text[:end].strip() or text[end - 1] == "\n"


@pytest.mark.parametrize("kind", sorted(ANSWERS))
@pytest.mark.parametrize("rubbish", ["x", "}", "\nslurm: end of file\n", "\x00\n", "9 RUNNING\n"])
def test_rubbish_behind_an_answer(kind: str, rubbish: str) -> None:
    with pytest.raises(OutputError):
        slurm.parse_details(ANSWERS[kind] + rubbish)


@given(st.text())
def test_any_text_is_reports_or_an_output_error(text: str) -> None:
    fields = (text, "JobId=" + text, f"7{UNIT_END}{text}\n", listed(State=text), recorded(ExitCode=text), text + "\n")
    for candidate in fields:
        for parse in (slurm.parse_details, slurm.parse_listed, slurm.parse_states, slurm.parse_list):
            with contextlib.suppress(OutputError):
                parse(candidate)
        with contextlib.suppress(OutputError):
            slurm.parse_queues((candidate, candidate, candidate))


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [("12\n", "12"), ("12;cluster1\n", "12"), ("Welcome!\n12\nUse --qos next time\n", "12"), ("1\n2\n", "2")],
)
def test_the_job_id(stdout: str, expected: str) -> None:
    assert slurm.job_id(stdout) == expected


@pytest.mark.parametrize("stdout", ["", "Submitted batch job 12\n", "12.vm\n", "x12\n"])
def test_no_job_id(stdout: str) -> None:
    with pytest.raises(OutputError):
        slurm.job_id(stdout)


def test_the_list() -> None:
    assert slurm.parse_list(f"12{RECORD_END}\n7{RECORD_END}\n12{RECORD_END}\n") == ("7", "12")
    assert slurm.parse_list("") == ()
    for bad in ("12", f"12{RECORD_END}\n1", f"x{RECORD_END}\n"):
        with pytest.raises(OutputError):
            slurm.parse_list(bad)


def test_the_commands() -> None:
    submission = Submission("pod.0123abcd.uid", "/w/script", "/w/pods/a b", "/w/pods/100%/output")
    commands = Commands((("PATH", "/bin"),), ("sudo", "-n"))
    start = ("env", "-i", "PATH=/bin", "sudo", "-n")
    every = (*start, "squeue", "-a", "-h", "-t", "all")
    listing = slurm.states_argv("ada,bob", commands)[-1]

    assert " ".join(slurm.submit_argv(submission)) == (
        f"{USUAL} sbatch --parsable --export=NONE --no-requeue --job-name=pod.0123abcd.uid --chdir=/w/pods/a b "
        "--output=/w/pods/100%%/output /w/script /w/pods/a b"
    )
    assert slurm.list_argv(name="a.b", commands=commands) == (*every, "--name=a.b", "-O", f"JobID:{RECORD_END}")
    assert slurm.states_argv("ada,bob", commands)[:-1] == (*every, "-u", "ada,bob", "-O")
    assert listing.startswith(f"JobID:{UNIT_END},State:{UNIT_END}")
    assert listing.endswith(f",WorkDir:{RECORD_END}")
    assert slurm.details_argv(["7", "8"], commands)[:-2] == (*every, "-j", "7,8")
    assert (slurm.past_argv(["7", "8"], commands) or ())[-2:] == ("-j", "7,8")
    assert slurm.past_argv(["7"], Commands(history=False)) is None
    assert slurm.proof_argv("7", commands) == (*start, "scontrol", "show", "job", "-a", "7")
    assert slurm.cancel_argv("7", commands) == (*start, "scancel", "7")
    assert slurm.signal_argv("7", "TERM", commands) == (*start, "scancel", "-b", "-s", "TERM", "7")
    with pytest.raises(ValueError, match="lists the whole server"):
        slurm.details_argv([])


@pytest.mark.parametrize("path", ["/w/a\nb", "/w/a\x1fb"])
def test_a_path_that_no_list_can_carry(path: str) -> None:
    with pytest.raises(ConfigError):
        slurm.submit_argv(Submission("n", "/s", path, "/o"))


@pytest.mark.parametrize(
    ("command", "rc", "stderr", "expected"),
    [
        ("sbatch", 0, "sbatch: Connection refused by nobody: a plugin's words\n", None),
        ("sbatch", 1, "sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: Invalid partition name specified\n", Refused),
        ("sbatch", 1, "sbatch: error: Batch job submission failed: Requested time limit is invalid (missing or exceeds some limit)\n", Refused),
        ("sbatch", 1, "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", Full),
        ("sbatch", 1, "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", Full),
        ("sbatch", 1, "sbatch: error: QOSGrpSubmitJobsLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n", Full),
        ("sbatch", 1, "sbatch: error: AssocMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n", Refused),
        ("sbatch", 1, "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n", Full),
        ("sbatch", 1, "sbatch: error: Batch job submission failed: Required partition not available (inactive or drain)\n", Full),
        ("sbatch", 1, "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n", Unavailable),
        ("sbatch", 1, "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n", Unavailable),
        ("sbatch", 1, "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified\n", Refused),
        ("sbatch", 1, "sbatch: error: lua: your project on munge-cluster has no hours left\nsbatch: error: Batch job submission failed: Unspecified error\n", Refused),
        ("sbatch", 1, "sbatch: error: this queue's reservation timed out; retrying is of no use\nsbatch: error: Batch job submission failed: Invalid partition name specified\n", Refused),
        ("sbatch", 1, 'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\nsbatch: error: Batch job submission failed: Protocol authentication error\n', Unavailable),
        ("sbatch", 1, 'sbatch: error: Munge encode failed: Failed to access "/run/munge/munge.socket.2"\n', Unavailable),
        ("sbatch", 1, "sbatch: fatal: Could not establish a configuration source\n", Unavailable),
        ("sbatch", None, "", Unavailable),
        ("sbatch", -9, "", Unavailable),
        ("sbatch", 137, "", Unavailable),
        ("sbatch", 143, "/usr/local/bin/sbatch: line 4: 4711 Terminated  /opt/slurm/bin/sbatch\n", Unavailable),
        ("sbatch", 127, "env: 'sbatch': No such file or directory\n", Unavailable),
        ("squeue", 0, "", None),
        ("squeue", 1, "slurm_load_jobs error: Invalid job id specified\n", None),
        ("squeue", 1, "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n", Unavailable),
        ("squeue", 1, "squeue: error: Invalid user: nobody-here\n", Unavailable),
        ("squeue", 0, "squeue: error: slurm_receive_msg: Zero Bytes were transmitted or received\n", Unavailable),
        ("scontrol", 1, "slurm_load_jobs error: Invalid job id specified\n", None),
        ("sacct", 1, "Slurm accounting storage is disabled\n", NoHistory),
        ("sacct", 1, "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:localhost:6819: Connection refused\n", Unavailable),
        ("scancel", 1, "scancel: error: Kill job error on job id 99: Invalid job id specified\n", None),
        ("scancel", 1, "scancel: error: Kill job error on job id 9: Job/step already completing or completed\n", None),
        ("scancel", 1, "scancel: error: Kill job error on job id 9: Access/permission denied\n", Unavailable),
    ],
)  # fmt: skip
def test_what_an_end_means(command: str, rc: int | None, stderr: str, expected: type[BatchError] | None) -> None:
    failure = slurm.failure(("env", "-i", command, "9"), rc, stderr)

    assert (type(failure) if failure else None) is expected
    if failure and stderr:
        assert failure.words == stderr.strip()
