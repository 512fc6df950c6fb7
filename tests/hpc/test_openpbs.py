"""OpenPBS' words against recordings of a real server (recorded/openpbs)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BatchError, ConfigError, Full, OutputError, Refused, Unavailable
from router.hpc import Commands, JobState, NoHistory, Submission, Verdict, openpbs, torque

TRANSCRIPTS = Path(__file__).parent / "recorded" / "openpbs"
RECORDS = sorted(path for path in TRANSCRIPTS.glob("*.json") if '"Jobs"' in path.read_text())
USUAL = "env -i PATH=/opt/pbs/bin:/usr/local/bin:/usr/bin:/bin"


def _recorded(name: str) -> str:
    return (TRANSCRIPTS / name).read_text()


@pytest.mark.parametrize(
    ("name", "state", "status", "verdict"),
    [
        ("20-state-55.vm.json", JobState.QUEUED, None, None),
        ("20-state-W.json", JobState.QUEUED, None, None),
        ("20-state-54.vm.json", JobState.HELD, None, None),
        ("20-state-R.json", JobState.RUNNING, None, None),
        ("20-state-56__.vm.json", JobState.RUNNING, None, None),
        ("20-state-S.json", JobState.SUSPENDED, None, None),
        ("40-requeued-running-again.json", JobState.RUNNING, None, None),
        ("23-cgroups-10878.vm.json", JobState.HELD, -18, None),
        ("21-deleted-50.vm.json", JobState.FINISHED, 271, Verdict.DELETED),
        ("21-deleted-53.vm.json", JobState.FINISHED, 265, Verdict.DELETED),
        ("21-deleted-54.vm.json", JobState.FINISHED, None, Verdict.DELETED),
        ("21-deleted-58.vm.json", JobState.FINISHED, 266, Verdict.ENDED),
        ("22-kill-59.vm.json", JobState.FINISHED, -29, Verdict.WALLTIME),
        ("22-kill-64.vm.json", JobState.FINISHED, -27, Verdict.MEMORY),
        ("22-kill-73.json", JobState.FINISHED, -28, Verdict.CPU_TIME),
        ("22-kill-67.vm.json", JobState.FINISHED, 0, Verdict.ENDED),
        ("22-kill-69.vm.json", JobState.FINISHED, 3, Verdict.ENDED),
        ("22-kill-72.vm.json", JobState.FINISHED, 137, Verdict.ENDED),
    ],
)
def test_a_recorded_job(name: str, state: JobState, status: int | None, verdict: Verdict | None) -> None:
    (report,) = openpbs.parse_details(_recorded(name)).values()

    assert (report.state, report.exit_status, report.verdict) == (state, status, verdict)
    assert report.succeeded == (verdict is Verdict.ENDED and status == 0)


@pytest.mark.parametrize(
    ("comment", "state", "deletion"),
    [
        ("Job run at Sat Nov 21 at 01:35 on (n1:ncpus=1:mem=51200kb) and terminated by hpcuser@vm", "R", True),
        ("Job run at Sat Nov 21 at 01:35 on (n1:ncpus=1:mem=51200kb) and terminated by hpcuser@vm", "E", True),
        ("Job run at Sat Nov 21 at 01:35 on (n1:ncpus=1:mem=51200kb)", "E", False),
        ("Job run at Sat Nov 21 at 01:35 on (n1:ncpus=1:mem=51200kb) and terminated by hpcuser@vm", "F", False),
    ],
)
def test_a_deletion_is_told_before_the_job_is_over(comment: str, state: str, deletion: bool) -> None:
    job = {"job_state": state, "substate": 42, "comment": comment}
    (report,) = openpbs.parse_details(json.dumps({"pbs_server": "vm", "Jobs": {"50.vm": job}})).values()

    assert (report.deletion, report.verdict) == (deletion, Verdict.DELETED if state == "F" else None)


SOON = datetime(2026, 7, 21, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "start", "expected"),
    [
        ("Q", "Tue Jul 21 03:00:00 2026", SOON),
        ("Q", int(SOON.timestamp()), SOON),
        ("Q", "UNKNOWN", None),
        ("Q", None, None),
        ("R", "Tue Jul 21 03:00:00 2026", None),
    ],
)
def test_the_start_that_the_scheduler_estimates(state: str, start: object, expected: datetime | None) -> None:
    """Of sites whose scheduler estimates starts (strict_ordering; PBS Professional's est_start_time_freq); asked for in UTC."""
    estimated = {"exec_vnode": "(n1:ncpus=4)", "start_time": start}
    job = {"job_state": state, "comment": "Not Running: Insufficient amount of resource: ncpus", "estimated": estimated}

    (report,) = openpbs.parse_details(json.dumps({"pbs_server": "vm", "Jobs": {"50.vm": job}})).values()

    assert (report.expected, report.reason) == (expected, job["comment"])


@pytest.mark.parametrize(
    ("state", "comment", "aside"),
    [
        ("Q", "Not Running: Insufficient amount of resource: ncpus", False),
        ("Q", "", False),
        ("Q", "Can Never Run: Insufficient amount of resource: ncpus (R: 100 A: 8 T: 8)", True),
        ("W", "", True),
        ("H", "Can Never Run: what it said before it was held", False),
        ("R", "Job run at Sat Nov 21 at 02:24", False),
    ],
)
def test_a_job_that_waits_for_more_than_its_turn(state: str, comment: str, aside: bool) -> None:
    jobs = json.dumps({"pbs_server": "vm", "Jobs": {"50.vm": {"job_state": state, "comment": comment}}})
    record = f"<Job><Job_Id>50.vm</Job_Id><job_state>{state}</job_state><comment>{comment}</comment></Job>"

    assert openpbs.parse_details(jobs)["50.vm"].aside is aside
    assert torque.parse_details(f"<Data>{record}</Data>")["50.vm"].aside is aside


def test_the_start_that_the_scheduler_estimates_in_dsv() -> None:
    text = "Job Id: 1.vm|job_state=Q|estimated.exec_vnode=(n1:ncpus=4)|estimated.start_time=Tue Jul 21 03:00:00 2026\n"

    assert openpbs.parse_details(text)["1.vm"].expected == SOON


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("20-state-Q-waiting.json", r"Not Running: Not enough free nodes available"),
        ("20-state-Q-maxrun.json", r"Not Running: .*limit.*"),
    ],
)
def test_why_a_recorded_job_waits(name: str, words: str) -> None:
    reasons = [report.reason for report in openpbs.parse_details(_recorded(name)).values()]

    assert [one for one in reasons if re.fullmatch(words, one)], reasons


def test_a_memory_kill_that_left_exit_status_0() -> None:
    """The cgroup hook's record: the script went on after the kill, only diag_messages tells."""
    killed = [
        report
        for name in ("23-cgroups-10881.vm.json", "23-cgroups-10882.vm.json")
        for report in openpbs.parse_details(_recorded(name)).values()
        if "mem limit exceeded" in _recorded(name)
    ]

    assert killed
    assert {(report.exit_status, report.verdict) for report in killed} == {(0, Verdict.MEMORY)}


def test_everything_of_a_record() -> None:
    (report,) = openpbs.parse_details(_recorded("22-kill-59.vm.json")).values()

    assert (report.job_id, report.name, report.owner, report.queue) == ("59.vm", "notrap", "hpcuser", "workq")
    assert (report.hosts, report.resources["walltime"], report.used["walltime"]) == ("n1/0", "00:00:05", "00:00:21")
    assert report.reason.endswith("and exceeded resource walltime")
    assert report.submitted == datetime(2026, 11, 21, 1, 36, 40, tzinfo=UTC)
    assert report.ended == datetime(2026, 11, 21, 1, 37, 2, tzinfo=UTC)


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_cut_off_anywhere_is_no_record(path: Path) -> None:
    text = path.read_text().strip()
    assert openpbs.parse_details(text)

    for end in range(0, len(text), 1 if len(text) < 4000 else 13):
        try:
            assert openpbs.parse_details(text[:end]) == {}
        except OutputError:
            continue
        assert not text[:end].strip()


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
@pytest.mark.parametrize("rubbish", ["x", "}", "\nqstat: end of file\n", "\x00", "{}"])
def test_a_record_with_rubbish_behind_it_is_no_record(path: Path, rubbish: str) -> None:
    with pytest.raises(OutputError):
        openpbs.parse_details(path.read_text() + rubbish)


@given(st.text())
def test_any_text_is_reports_or_an_output_error(text: str) -> None:
    for candidate in (text, f"Job Id: {text}\n", f"Job Id: 1.vm|job_state=F|{text}\n", "{" + text):
        try:
            openpbs.parse_details(candidate)
            openpbs.parse_list(text)
        except OutputError:
            pass


def test_dsv_of_several_jobs() -> None:
    text = (
        "Job Id: 0.vm|Job_Name=a|job_state=F|substate=92|Exit_status=0|comment=x \\| y|Resource_List.ncpus=2|"
        "Variable_List=PBS_O_HOME=/home/u,BATCHGATE_DIR=/w/a\\,b,X=1=2\n"
        "Job Id: 1.vm|Job_Name=b|Account_Name=two\nlines|job_state=R|substate=42\n"
    )

    found = openpbs.parse_details(text)

    assert list(found) == ["0.vm", "1.vm"]
    first = found["0.vm"]
    assert (first.succeeded, first.reason, first.directory) == (True, "x | y", "/w/a,b")
    assert first.resources == {"ncpus": "2"}
    assert (found["1.vm"].name, found["1.vm"].state) == ("b", JobState.RUNNING)


def test_dsv_with_a_backslash_before_a_delimiter() -> None:
    """As qstat writes it: each backslash twice, but for one before a quote or a comma; then the delimiter."""
    text = (
        r"Job Id: 0.vm|Job_Name=a\\|job_state=F|substate=93|comment=x\\\|Exit_status=0 \\n \n \'|Exit_status=1|queue=\\"
        r"|Variable_List=A=1\\\,B=b\,c,BATCHGATE_DIR=/w" + "\n"
    )

    (report,) = openpbs.parse_details(text).values()

    assert (report.name, report.queue, report.exit_status, report.verdict) == ("a\\", "\\", 1, Verdict.ENDED)
    assert report.directory == "/w"
    assert report.reason == "x\\|Exit_status=0 \\n \n \\'"


@pytest.mark.parametrize(
    "text",
    [
        "Job Id: 1.vm|job_state=F|Exit_status=1|comment=x|Exit_status=0\n",
        "Job Id: 1.vm|job_state=F|Resource_List.ncpus=1|Resource_List.ncpus=2\n",
        '{"pbs_server":"vm","Jobs":{"1.vm":{"job_state":"F","Exit_status":1,"Exit_status":0}}}',
        '{"pbs_server":"vm","Jobs":{"1.vm":{"job_state":"F","Exit_status":1},"1.vm":{"job_state":"F","Exit_status":0}}}',
        '{"pbs_server":"vm","Jobs":{},"Jobs":{"1.vm":{"job_state":"F","Exit_status":0}}}',
        '{"pbs_server":"vm","Jobs":{"1.vm":{"job_state":"F","Exit_status":0}},"Jobs":{}}',
        '{"pbs_server":"vm","Jobs":{"1.vm":{"job_state":"F","Resource_List":{"ncpus":1,"ncpus":2}}}}',
    ],
)
def test_what_stands_twice_is_no_answer(text: str) -> None:
    with pytest.raises(OutputError, match="twice"):
        openpbs.parse_details(text)


def test_a_variable_that_its_user_gave_twice() -> None:
    job = '{"job_state":"R","Variable_List":{"A":1,"A":2,"BATCHGATE_DIR":"/w"}}'

    (report,) = openpbs.parse_details(f'{{"pbs_server":"vm","Jobs":{{"1.vm":{job}}}}}').values()

    assert report.directory == "/w"


@pytest.mark.parametrize("status", ["٣", "1.0", "--1", ""])
def test_an_exit_status_that_is_none(status: str) -> None:
    with pytest.raises(OutputError):
        openpbs.parse_details(f"Job Id: 0.vm|job_state=F|Exit_status={status}\n")


@pytest.mark.parametrize("end", range(-40, 0))
def test_dsv_cut_off_is_no_answer(end: int) -> None:
    with pytest.raises(OutputError):
        openpbs.parse_details("Job Id: 0.vm|job_state=F|substate=93|Exit_status=271\n"[:end])


def test_values_that_json_makes_numbers_are_text_again() -> None:
    job = {"job_state": "F", "substate": 92, "Exit_status": 0, "Variable_List": {"BATCHGATE_DIR": 7, "Y": None}}

    (report,) = openpbs.parse_details(json.dumps({"pbs_server": "vm", "Jobs": {"0.vm": job}})).values()

    assert (report.job_id, report.directory, report.succeeded) == ("0.vm", "7", True)


def test_no_exit_status_is_no_success_and_no_jobs_are_no_reports() -> None:
    job = {"job_state": "F", "substate": 92}

    (report,) = openpbs.parse_details(json.dumps({"pbs_server": "vm", "Jobs": {"0.vm": job}})).values()

    assert (report.verdict, report.succeeded) == (Verdict.NEVER_RAN, False)
    assert openpbs.parse_details('{"timestamp":1,"pbs_version":"23.06.06","pbs_server":"vm"}') == {}


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (-2, Verdict.NEVER_RAN),
        (-4, Verdict.NODE_LOST),
        (-20, Verdict.NODE_LOST),
        (-26, Verdict.MEMORY),
        (-27, Verdict.MEMORY),
        (-28, Verdict.CPU_TIME),
        (-29, Verdict.WALLTIME),
    ],
)
def test_the_statuses_of_jobs_that_were_ended_or_never_began(status: int, verdict: Verdict) -> None:
    """JOB_EXEC_… of OpenPBS' job.h."""
    job = {"job_state": "F", "substate": 93, "Exit_status": status, "comment": "Job run at noon on (n1) and failed"}

    (report,) = openpbs.parse_details(json.dumps({"pbs_server": "vm", "Jobs": {"0.vm": job}})).values()

    assert (report.exit_status, report.verdict) == (status, verdict)


def test_a_state_that_nobody_knows() -> None:
    text = json.dumps({"pbs_server": "vm", "Jobs": {"0.vm": {"job_state": "Z"}}})

    assert openpbs.parse_details(text)["0.vm"].state is JobState.UNKNOWN


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        ("0.vm\n", "0.vm"),
        ("39[].vm\n", "39[].vm"),
        ("Welcome to the filter\n12.pbs-server.site.org\nhave a nice day\n", "12.pbs-server.site.org"),
        ("1.vm\n2.vm\n", "2.vm"),
        ("job 1.vm submitted\n3.vm\n", "3.vm"),
    ],
)
def test_the_job_id_is_the_last_line_of_its_form(stdout: str, expected: str) -> None:
    assert openpbs.job_id(stdout) == expected


@pytest.mark.parametrize("stdout", ["", "\n", "0\n", "vm\n", "job 1.vm submitted\n", "1.vm extra\n"])
def test_no_job_id(stdout: str) -> None:
    with pytest.raises(OutputError):
        openpbs.job_id(stdout)


def test_the_list() -> None:
    assert openpbs.parse_list("0.vm\n236[].vm\n") == ("0.vm", "236[].vm")
    assert openpbs.parse_list("") == ()
    for bad in ("0.v", "0.vm\nhello\n"):
        with pytest.raises(OutputError):
            openpbs.parse_list(bad)


TABLE = """
vm:
                                                                                                   Req'd  Req'd   Elap
Job ID                         Username        Queue           Jobname         SessID   NDS  TSK   Memory Time  S Time
------------------------------ --------------- --------------- --------------- -------- ---- ----- ------ ----- - -----
234.vm                         hpcuser         workq           wf-abc123.step*      --     1     1   50mb 00:01 H   --
10429.vm                       hpcuser         workq           notrap             26607    2     4  200mb 00:05 R 00:00
10433.vm                       hpcuser         workq           wantall              --     4    16    --    --  Q   --
71[].cluster-server-with-a-lo* hpcuser         workq           array                --     1     1    --    --  B   --
9.vm                           hpcuser         workq           new                  --     1     1    --    --  ?   --
"""
"""Rows as recorded (60-idempotent.txt, 90-qstat-ans.txt), in the wide table's columns."""


def test_the_states_of_a_users_jobs() -> None:
    assert openpbs.parse_states(TABLE) == {
        "234.vm": JobState.HELD,
        "10429.vm": JobState.RUNNING,
        "10433.vm": JobState.QUEUED,
        "71[].cluster-server-with-a-lo*": JobState.RUNNING,
        "9.vm": JobState.UNKNOWN,
    }
    assert openpbs.parse_states("") == {}


def test_the_recorded_row_of_the_wide_table() -> None:
    lines = _recorded("60-idempotent.txt").splitlines()
    at = lines.index("$ qstat -w -a | tail -2")
    shown = "".join(line.removeprefix("stdout| ") + "\n" for line in lines[at + 1 : at + 3])

    assert openpbs.parse_states(shown) == {"234.vm": JobState.HELD}


@pytest.mark.parametrize("end", range(1, len(TABLE)))
def test_a_table_cut_off_is_no_answer_or_ends_with_a_whole_row(end: int) -> None:
    """A cut between two rows cannot be seen; that is why nothing is concluded from what a list lacks."""
    try:
        found = openpbs.parse_states(TABLE[:end])
    except OutputError:
        return
    assert found == {} or TABLE[end - 1] == "\n"
    assert found.items() <= openpbs.parse_states(TABLE).items()


@pytest.mark.parametrize("row", ["hello\n", "234.vm hpcuser workq x -- 1 1 -- -- HH --\n", "234 a b\n"])
def test_a_row_that_is_none(row: str) -> None:
    with pytest.raises(OutputError):
        openpbs.parse_states(TABLE + row)


def test_the_fixed_options_of_a_submission() -> None:
    submission = Submission("pod.0123abcd.uid", "/w/script", "/w/pods/a", "/w/pods/a/output")

    argv = openpbs.submit_argv(submission)

    assert " ".join(argv) == (
        f"{USUAL} qsub -f -N pod.0123abcd.uid -o /w/pods/a/output -j oe -k oed -r n -S /bin/bash "
        "-W umask=077 -v BATCHGATE_DIR=/w/pods/a /w/script"
    )


def test_a_comma_in_the_directory_is_quoted_and_what_qsub_changes_is_refused() -> None:
    assert 'BATCHGATE_DIR="/w/a,b"' in openpbs.submit_argv(Submission("n", "/s", "/w/a,b", "/o"))
    for directory in ("/w/a\\b", "/w/a'b", '/w/a"b', "/w/a\nb", "/w/a "):
        with pytest.raises(ConfigError):
            openpbs.submit_argv(Submission("n", "/s", directory, "/o"))
    with pytest.raises(ConfigError):
        openpbs.submit_argv(Submission("n", "/s", "/w", "/ö"))


def test_the_other_commands() -> None:
    commands = Commands((("PATH", "/bin"),), ("sudo", "-n"))
    start = ("env", "-i", "PATH=/bin", "sudo", "-n")

    assert openpbs.list_argv(user="ada", commands=commands) == (*start, "qselect", "-x", "-u", "ada")
    assert openpbs.list_argv(name="a.b", commands=commands) == (*start, "qselect", "-x", "-N", "a.b")
    assert openpbs.states_argv("ada", commands) == (*start, "qstat", "-w", "-u", "ada")
    timed = ("env", "-i", "PATH=/bin", "TZ=UTC", "sudo", "-n")
    assert openpbs.details_argv(["0.vm"], commands) == (*timed, "qstat", "-x", "-f", "-F", "json", "0.vm")
    two = openpbs.details_argv(["0.vm", "1.vm"], commands)
    assert two == (*timed, "qstat", "-x", "-E", "-f", "-F", "dsv", "0.vm", "1.vm")
    for apart in (["0.vm", "1"], ["0.vm", "1.other"], ["0.vm@other", "1.vm@other"]):
        assert openpbs.details_argv(apart, commands) == (*timed, "qstat", "-x", "-f", "-F", "dsv", *apart)
    both = ["0.vm", "1.vm"]
    assert openpbs.naming_argv(both, ["1.vm"], commands) == openpbs.details_argv(["1.vm"], commands)
    assert openpbs.naming_argv(both, both, commands) == (*timed, "qstat", "-x", "-f", "-F", "dsv", *both)
    assert [openpbs.naming_argv(asked, asked, commands) for asked in (["0.vm"], ["0.vm", "1"])] == [None, None]
    assert openpbs.past_argv(["0.vm"], commands) is None
    assert openpbs.cancel_argv("0.vm", commands) == (*start, "qdel", "0.vm")
    assert openpbs.cancel_argv("0.vm", commands, force=True) == (*start, "qdel", "-W", "force", "0.vm")
    assert openpbs.signal_argv("0.vm", "TERM", commands) == (*start, "qsig", "-s", "INT", "0.vm")
    assert openpbs.signal_argv("0.vm", "USR1", commands) == (*start, "qsig", "-s", "USR1", "0.vm")
    forgetful = Commands((("PATH", "/bin"),), history=False)
    assert openpbs.details_argv(["0.vm"], forgetful)[-5:] == ("qstat", "-f", "-F", "json", "0.vm")
    assert openpbs.list_argv(user="ada", commands=forgetful)[-3:] == ("qselect", "-u", "ada")
    with pytest.raises(ValueError, match="lists the whole server"):
        openpbs.details_argv([])


@pytest.mark.parametrize(
    ("command", "rc", "stderr", "expected"),
    [
        ("qsub", 0, "", None),
        ("qsub", 0, "qsub: a filter's greeting: connection refused is what we say here\n", None),
        ("qsub", 170, "qsub: Unknown queue", Refused),
        ("qsub", 173, "qsub: Queue is not enabled", Full),
        ("qsub", 38, "qsub: would exceed queue generic's per-user limit", Full),
        ("qsub", 39, "qsub: would exceed per-user limit on resource ncpus in complex", Full),
        ("qsub", 32, "qsub: account required", Refused),
        ("qsub", 32, "qsub: the queue is temporarily closed", Full),
        ("qsub", 32, "qsub: request timed out by hook: see admin", Refused),
        ("qsub", 32, "qsub: no hours left\nend of file transfer quota", Refused),
        ("qsub", 159, "qsub: Unauthorized Request", Refused),
        ("qsub", 188, "qsub: Job violates queue and/or server resource limits", Refused),
        ("qsub", 162, "Connection refused\nqsub: cannot connect to server vm (errno=15010)", Unavailable),
        ("qsub", 160, "Unknown Host.\nqsub: cannot connect to server vm (errno=15008)", Unavailable),
        ("qsub", 255, "No passwd entry", Refused),
        ("qsub", 77, "never seen before", Refused),
        ("qsub", 127, "qsub: not found", Unavailable),
        ("qsub", None, "", Unavailable),
        ("qsub", -9, "", Unavailable),
        ("qsub", 129, "", Unavailable),
        ("qsub", 137, "", Unavailable),
        ("qsub", 143, "/usr/local/bin/qsub: line 4: 4711 Terminated  /opt/pbs/bin/qsub\n", Unavailable),
        ("qsub", 152, "", Unavailable),
        ("qsub", 153, "", Unavailable),
        ("qsub", 153, "/usr/local/bin/qsub: line 4: 4711 File size limit exceeded\n", Unavailable),
        ("qsub", 154, "qsub: Error (15002) submitting job", Refused),
        ("qsub", 159, "", Unavailable),
        ("qsub", 161, "", Refused),
        ("qstat", 0, "", None),
        ("qstat", 0, "qstat: cannot connect to server vm (errno=15010)", Unavailable),
        ("qstat", 153, "qstat: Unknown Job Id 9.vm", None),
        ("qstat", 0, "qstat: PBS is not configured to maintain job history 9.vm", NoHistory),
        ("qselect", 0, "qselect: PBS is not configured to maintain job history", NoHistory),
        ("qstat", 35, "qstat: 9.vm Job has finished, use -x or -H", None),
        ("qstat", 255, "Connection refused\nqstat: cannot connect to server vm (errno=15010)", Unavailable),
        ("qstat", 2, "qstat: conflicting options.", Unavailable),
        ("qdel", 153, "qdel: Unknown Job Id 9.vm", None),
        ("qdel", 35, "qdel: Job has finished 9.vm", None),
        ("qdel", 159, "qdel: Unauthorized Request  9.vm", Unavailable),
        ("qselect", 162, "Connection refused", Unavailable),
    ],
)
def test_what_an_exit_code_means(command: str, rc: int | None, stderr: str, expected: type[BatchError] | None) -> None:
    failure = openpbs.failure((command, "9.vm"), rc, stderr)

    assert (type(failure) if failure else None) is expected
    if failure:
        assert (failure.argv, failure.returncode) == ((command, "9.vm"), rc)


def test_every_refusal_that_was_recorded_is_understood() -> None:
    """Each command of the recording: a success has an id, a failure is one of ours, with the server's words."""
    blocks = re.findall(r"^\$ (qsub.*?)\n(.*?)^rc=(\d+)", _recorded("10-qsub-errors.txt"), re.MULTILINE | re.DOTALL)
    assert len(blocks) > 50
    for command, said, rc in blocks:
        stderr = "\n".join(line[8:] for line in said.splitlines() if line.startswith("stderr| "))
        stdout = "".join(line[8:] + "\n" for line in said.splitlines() if line.startswith("stdout| "))
        failure = openpbs.failure(("qsub",), int(rc), stderr)
        if int(rc) == 0:
            assert failure is None, command
            assert openpbs.job_id(stdout), command
        else:
            assert failure is not None, command
            assert failure.words == stderr.strip(), command


def test_which_ids_the_server_does_not_know() -> None:
    stderr = (
        "qstat: Unknown Job Id 99999.vm\nqstat: PBS is not configured to maintain job history 10.vm\n"
        "qstat: 1.vm Job has finished, use -x or -H to obtain historical job information\n"
    )

    assert openpbs.unknown_ids(stderr) == {"99999.vm", "10.vm"}


def test_times_are_asked_for_in_utc_and_read_so_wherever_the_agent_is() -> None:
    east = timezone(timedelta(hours=2))

    (report,) = openpbs.parse_details(_recorded("22-kill-59.vm.json"), zone=east).values()

    assert report.started == datetime(2026, 11, 21, 1, 36, 40, tzinfo=UTC)
    assert not any("TZ=" in word for word in openpbs.submit_argv(Submission("n", "/s", "/w", "/o")))
