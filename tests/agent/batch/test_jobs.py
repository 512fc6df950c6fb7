"""How a batch system is asked about jobs: how many commands it takes, whose word counts, when absence is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.agent.batch.jobs import MOST_APART, MOST_NAMED, MOST_PROOFS, JobList, JobReports
from router.errors import Unavailable
from router.hpc import BatchSystem, JobState, Submission, Verdict, openpbs, slurm, torque
from tests.agent.batch.tools import INVALID, Tools
from tests.hpc.test_slurm import listed, recorded


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def test_what_the_list_tells_costs_no_second_command(tools: Tools) -> None:
    tools.says("squeue", listed() + listed(JobID="8", State="FAILED", exit_code="256"))
    batch = tools.jobs(slurm)

    shown = batch.listed()
    answer = batch.ask(["7", "8"], shown)

    assert shown.states == {"7": JobState.RUNNING}
    assert {job_id: one.state for job_id, one in answer.reports.items()} == {
        "7": JobState.RUNNING,
        "8": JobState.FINISHED,
    }
    assert (answer.unknown, tools.called()) == (frozenset(), ["squeue"])


def test_a_job_that_left_the_list_is_looked_for_in_the_records(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", recorded(JobIDRaw="8", State="TIMEOUT"))
    batch = tools.jobs(slurm)

    answer = batch.ask(["7", "8"])

    assert answer.reports["8"].verdict is Verdict.WALLTIME
    assert (answer.unknown, tools.called()) == (frozenset(), ["squeue", "sacct"])


def test_records_that_lag_behind_are_not_believed(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", recorded(JobIDRaw="8", State="PENDING"))
    tools.says("scontrol", stderr=INVALID, rc=1)
    batch = tools.jobs(slurm)

    answer = batch.ask(["7", "8"])

    assert (set(answer.reports), set(answer.unknown)) == ({"7"}, {"8"})
    assert tools.called() == ["squeue", "sacct", "scontrol"]


def test_without_accounting_a_few_absences_are_proved_and_of_the_rest_nothing_is_said(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", stderr="Slurm accounting storage is disabled", rc=1)
    tools.says("scontrol", stderr=INVALID, rc=1)
    batch = tools.jobs(slurm)
    gone = [str(number) for number in range(10, 20)]

    first, second = batch.ask(["7", *gone]), batch.ask(["7", *gone])

    assert (set(first.reports), set(first.unknown)) == ({"7"}, set(gone[:MOST_PROOFS]))
    assert first.unknown == second.unknown
    proofs = ["scontrol"] * MOST_PROOFS
    assert tools.called() == ["squeue", "sacct", *proofs, "squeue", *proofs]


def test_records_that_cannot_be_asked_say_nothing_and_hide_no_living_job(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", stderr="sacct: error: Connection refused", rc=1)
    batch = tools.jobs(slurm)

    answer = batch.ask(["7", "8"])

    assert (set(answer.reports), answer.unknown) == ({"7"}, frozenset())
    with pytest.raises(Unavailable):
        batch.details(["7", "8"])


def test_an_observers_silence_is_no_proof(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct")
    batch = tools.jobs(slurm, observes=True)
    gone = [str(number) for number in range(10, 20)]

    answer = batch.ask(["7", *gone])

    assert (set(answer.reports), answer.unknown) == ({"7"}, frozenset(gone))
    assert tools.called() == ["squeue", "sacct"]
    tools.says("sacct", stderr="sacct: error: Connection refused", rc=1)
    tools.says("squeue")
    answer = batch.ask(gone)
    assert (dict(answer.reports), answer.unknown) == ({}, frozenset())


def test_an_empty_list_of_slurm_has_told_everything(tools: Tools) -> None:
    tools.says("squeue")
    tools.says("sacct", recorded())
    batch = tools.jobs(slurm)

    listed_all = batch.listed("ada,ben")

    assert listed_all == JobList({}, {})
    assert set(batch.ask(["7"], listed_all).reports) == {"7"}
    assert tools.called() == ["squeue", "sacct"]
    assert "-u ada,ben" in tools.words


JSON = '{"pbs_server": "vm", "Jobs": {"7.vm": {"job_state": "%s", "queue": "%s", "Exit_status": %s}}}'
NO_HISTORY = "qstat: PBS is not configured to maintain job history 7.vm"


def test_a_server_without_history_is_asked_without_it_from_then_on(tools: Tools) -> None:
    """With -x it answers exit code 0 and no job, though the job runs."""
    tools.says("qstat", JSON % ("R", "workq", "null"))
    tools.says("qstat", '{"pbs_server": "vm"}', stderr=NO_HISTORY, option="-x")
    batch = tools.jobs(openpbs)

    assert batch.ask(["7.vm"]).reports["7.vm"].state is JobState.RUNNING
    assert tools.called() == ["qstat", "qstat"]
    assert batch.ask(["7.vm"]).unknown == frozenset()
    assert tools.called() == ["qstat"]


def test_history_that_is_kept_after_all_is_asked_for_again(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.agent.batch.commands.HISTORY_SECONDS", 0.0)
    tools.says("qstat", "", stderr="qstat: 7.vm Job has finished, use -x or -H to obtain", rc=35)
    tools.says("qstat", '{"pbs_server": "vm"}', stderr=NO_HISTORY, option="-x")
    batch = tools.jobs(openpbs)

    assert batch.ask(["7.vm"]) == JobReports({})
    tools.says("qstat", JSON % ("F", "workq", "3"), option="-x")

    assert batch.ask(["7.vm"]).reports["7.vm"].exit_status == 3


# --- jobs at other servers ---

DOWN = "qstat: cannot connect to server other (errno=15010)"


def test_a_job_that_was_moved_is_followed_to_its_server(tools: Tools) -> None:
    tools.says("qstat", JSON % ("M", "workq@other", "null"))
    tools.says("qstat", JSON % ("F", "workq", "3"), option="7.vm@other")

    report = tools.jobs(openpbs).details(["7.vm"])["7.vm"]

    assert (report.state, report.exit_status, report.queue) == (JobState.FINISHED, 3, "workq@other")


def test_a_moved_job_that_its_server_does_not_know_is_unknown(tools: Tools) -> None:
    tools.says("qstat", JSON % ("M", "workq@other", "null"))
    tools.says("qstat", "", stderr="qstat: Unknown Job Id 7.vm", rc=153, option="7.vm@other")
    batch = tools.jobs(openpbs)

    assert batch.ask(["7.vm"]) == JobReports({}, frozenset({"7.vm"}))
    assert batch.details(["7.vm"]) == {}


def test_another_server_that_is_down_is_that_of_its_jobs_alone(tools: Tools) -> None:
    both = "".join(f"Job Id: {number}.vm|job_state={code}|queue={queue}\n" for number, code, queue in MOVED_AND_RUNNING)
    tools.says("qstat", both)
    tools.says("qstat", stderr=DOWN, rc=255, option="7.vm@other")
    batch = tools.jobs(openpbs)

    first, second = batch.ask(["7.vm", "8.vm"]), batch.ask(["7.vm", "8.vm"])

    assert {job_id: one.state for job_id, one in first.reports.items()} == {"8.vm": JobState.RUNNING}
    assert (first.unknown, second) == (frozenset(), first)
    assert tools.called() == ["qstat", "qstat", "qstat"], "the other server was asked once"
    with pytest.raises(Unavailable, match=r"7\.vm"):
        batch.details(["7.vm"])


MOVED_AND_RUNNING = (("7", "M", "workq@other"), ("8", "R", "workq"))


def test_another_server_tells_of_the_jobs_that_it_was_given_and_of_their_owners(tools: Tools) -> None:
    here = "Job Id: {}.vm|job_state=M|queue=workq@other|Job_Owner={}@vm\n"
    there = "Job Id: {}.vm|job_state=F|queue=workq|Exit_status=0|Job_Owner={}@vm\n"
    running = "Job Id: 9.vm|job_state=R|queue=workq|Job_Owner=ben@vm\n"
    tools.says("qstat", here.format(7, "ada") + here.format(8, "ada") + running)
    tools.says("qstat", there.format(7, "ada") + there.format(8, "ben") + there.format(9, "ben"), option="7.vm@other")

    answer = tools.jobs(openpbs).ask(["7.vm", "8.vm", "9.vm"])

    assert {job_id: one.state for job_id, one in answer.reports.items()} == {
        "7.vm": JobState.FINISHED,
        "9.vm": JobState.RUNNING,
    }
    assert answer.unknown == frozenset()


def test_a_server_that_keeps_no_history_says_nothing_of_ours(tools: Tools) -> None:
    tools.says("qstat", '{"pbs_server": "other"}', stderr=NO_HISTORY, option="-x -f -F json 7.vm@other")
    tools.says("qstat", "", stderr="qstat: Unknown Job Id 7.vm", rc=153, option="7.vm@other")
    tools.says("qstat", JSON % ("M", "workq@other", "null"))
    batch = tools.jobs(openpbs)

    assert batch.ask(["7.vm"]) == JobReports({}, frozenset({"7.vm"}))
    tools.says("qstat", JSON % ("F", "workq", "3"), option="-x")
    assert batch.ask(["7.vm"]).reports["7.vm"].exit_status == 3


# --- whose words ids are ---


@pytest.mark.parametrize(
    ("system", "program", "right", "wrong"),
    [
        (openpbs, "qstat", "7.vm", ["-u root", "nonsense", "7[].vm", "7[1].vm", "8.vm@evil", "٧.vm", "7", "08.vm"]),
        (torque, "qstat", "7.vm", ["-u root", "nonsense", "7[].vm", "7[1].vm", "8.vm@evil", "٧.vm", "08.vm", "@evil"]),
        (slurm, "squeue", "7", ["-u root", "nonsense", "7_1", "7.vm", "٧", "9999999999", "2147483648", "0", "7,8"]),
    ],
)
def test_what_is_no_id_is_not_asked_about(
    tools: Tools, system: BatchSystem, program: str, right: str, wrong: list[str]
) -> None:
    shown = {"qstat": XML if system is torque else JSON % ("R", "workq", "null"), "squeue": listed()}
    tools.says(program, shown[program])
    batch = tools.jobs(system)

    answer = batch.ask([right, *wrong])

    assert set(answer.reports) == {right}
    assert answer.unknown == frozenset(wrong) - {"7"}
    assert tools.called() == [program]
    asked = set(tools.words.replace(",", " ").split())
    assert asked & {right, "7", *(word for one in wrong for word in one.replace(",", " ").split())} == {"7"}
    assert batch.ask(wrong[:2]) == JobReports({}, frozenset(wrong[:2]))
    assert tools.called() == []


XML = "<Data><Job><Job_Id>7.vm</Job_Id><job_state>R</job_state></Job></Data>"


def test_a_server_that_nothing_but_an_id_names_is_not_asked(tools: Tools) -> None:
    tools.says("qselect", "5.vm\n")
    tools.says("qstat", JSON % ("R", "workq", "null"), stderr="qstat: Unknown Job Id 8.vm", rc=153)
    batch = tools.jobs(openpbs)

    first = batch.ask(["7.evil.example", "8.evil.example"])
    assert batch.commands.find("tag") == ("5.vm",)
    second = batch.ask(["7.vm", "7.evil.example", "8.evil.example", "8.vm"])

    assert first == JobReports(first.reports, frozenset({"7.evil.example", "8.evil.example"}))
    assert second == JobReports(first.reports, frozenset({"7.evil.example", "8.evil.example", "8.vm"}))
    assert set(first.reports) == {"7.vm"}
    tools.called()
    asked = [line.split("dsv ")[1] for line in tools.words.splitlines() if "dsv" in line]
    assert asked == ["7 8", "7.vm 7 8 8.vm"]


def test_a_submission_names_the_server(tools: Tools) -> None:
    tools.says("qsub", "5.vm\n")
    tools.says("qstat", JSON % ("R", "workq", "null"))
    batch = tools.jobs(openpbs)

    assert batch.commands.submit(Submission("n", "/w/script", "/w", "/w/out")).job_id == "5.vm"
    batch.ask(["7.vm"])

    tools.called()
    assert tools.words.splitlines()[-1].endswith(" 7.vm")


@pytest.mark.parametrize(
    ("system", "stderr"),
    [
        (openpbs, "qstat: Unauthorized Request  29.pbs\nqstat: Unknown Job Id 98765.pbs"),
        (torque, "qstat: Unauthorized Request  29.pbs\nqstat: Unknown Job Id Error 98765.pbs"),
        (torque, "qstat: Unknown Job Id Error 98765.pbs.example.org"),
    ],
)
def test_only_what_the_server_names_as_unknown_is_so(tools: Tools, system: BatchSystem, stderr: str) -> None:
    tools.says("qstat", stderr=stderr, rc=153)

    assert tools.jobs(system).ask(["29.pbs", "98765.pbs"]) == JobReports({}, frozenset({"98765.pbs"}))


def test_what_a_question_about_several_leaves_out_is_unknown_once_the_server_says_so(tools: Tools) -> None:
    """``qstat -E`` leaves unknown ids out in silence. A server that only an id names is not asked."""
    tools.says("qstat", "Job Id: 7.vm|job_state=R|queue=workq\n", option="-E")
    tools.says("qstat", stderr="qstat: Unknown Job Id 8.vm", rc=153)
    batch = tools.jobs(openpbs)
    batch.ask(["7.vm", "9.vm"])  # "vm" is known from now on
    tools.called()

    answer = batch.ask(["7.vm", "8.vm", "9.vm"])

    assert (set(answer.reports), answer.unknown) == ({"7.vm"}, frozenset({"8.vm"}))
    assert tools.called() == ["qstat", "qstat"]
    asked = [line.partition(" -x ")[2] for line in tools.words.splitlines()[-2:]]
    assert asked == ["-E -f -F dsv 7.vm 8.vm 9.vm", "-f -F dsv 8.vm 9.vm"]
    batch.ask(["7.vm", "9.elsewhere"])
    tools.called()
    assert "elsewhere" not in tools.words


def test_to_an_observer_what_such_a_question_leaves_out_is_its_owners_to_ask_about(tools: Tools) -> None:
    tools.says("qstat", "Job Id: 7.vm|job_state=R|queue=workq\n", option="-E")
    batch = tools.jobs(openpbs, user="", observes=True)
    batch.commands.learn(["7.vm"])

    answer = batch.ask(["7.vm", "8.vm"])

    assert (set(answer.reports), answer.unknown, tools.called()) == ({"7.vm"}, frozenset({"8.vm"}), ["qstat"])


def test_of_very_many_that_are_left_out_each_is_asked_about_in_time(tools: Tools) -> None:
    """The server tells of none of them. The first ones do not stand in the way of the last."""
    tools.says("qstat", "Job Id: 7.vm|job_state=R|queue=workq\n", option="-E")
    tools.says("qstat")
    many = [f"{number}.vm" for number in range(100, 100 + 2 * MOST_NAMED)]
    batch = tools.jobs(openpbs)
    batch.commands.learn(many)
    asked: list[list[str]] = []

    while {one for part in asked for one in part} != set(many):
        assert batch.ask(["7.vm", *many]).unknown == frozenset()
        tools.called()
        asked.append(tools.words.splitlines()[-1].partition(" dsv ")[2].split())
        assert len(asked) < 100

    assert {len(part) for part in asked} == {MOST_NAMED}


# --- questions that fail ---

STRANGE = "qstat: nobody has ever seen this"
BAD = "666.vm"


def fails_for_one(tools: Tools) -> None:
    """A server that answers all questions but those in which one job stands."""
    tools.says("qstat", "".join(f"Job Id: {number}.vm|job_state=R|queue=workq\n" for number in range(20)))
    tools.says("qstat", "", option="-w")
    tools.says("qstat", stderr=STRANGE, rc=1, option=BAD)
    tools.says("qstat", stderr=STRANGE, rc=1, option="666")


def test_a_job_for_which_a_question_fails_harms_no_other(tools: Tools, caplog: pytest.LogCaptureFixture) -> None:
    fails_for_one(tools)
    batch = tools.jobs(openpbs)
    ids = [f"{number}.vm" for number in range(20)]

    first = batch.ask([*ids, BAD])
    failed = len(tools.called())
    second = batch.ask([*ids, BAD])

    assert (set(first.reports), first.unknown, second) == (set(ids), frozenset(), first)
    assert failed <= 12
    assert tools.called() == ["qstat"], "it is left out from then on"
    assert [one.fields["jobs"] for one in caplog.records] == [[BAD]]  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match=BAD):
        batch.details([BAD])


def test_a_job_for_which_only_the_question_that_names_fails_harms_no_other(tools: Tools) -> None:
    """Such as one that was moved to a server that is down: ``qstat -E`` leaves it out, and ``qstat`` goes there."""
    ids = [f"{number}.vm" for number in range(20)]
    tools.says("qstat", "", option="-w")
    tools.says("qstat", "Job Id: 7.vm|job_state=R|queue=workq\n", option="-E")
    tools.says("qstat", stderr=DOWN, rc=255, option=BAD)
    tools.says("qstat", stderr="".join(f"qstat: Unknown Job Id {one}\n" for one in ids), rc=153)
    batch = tools.jobs(openpbs)
    batch.commands.learn(ids)

    first = batch.ask([*ids, BAD])
    tools.called()
    second = batch.ask([*ids, BAD])

    assert (set(first.reports), first.unknown, second) == ({"7.vm"}, frozenset(ids) - {"7.vm"}, first)
    assert tools.called() == ["qstat", "qstat"], "it is left out from then on"


def test_a_single_job_for_which_the_question_fails_is_no_outage(tools: Tools) -> None:
    fails_for_one(tools)
    batch = tools.jobs(openpbs)
    batch.ask(["7.vm"])
    tools.called()

    assert batch.ask([BAD]) == JobReports({})
    assert tools.called() == ["qstat", "qstat", "qstat"], "the question, the list, the question again"
    assert batch.ask([BAD]) == JobReports({})
    assert tools.called() == []


def test_to_an_observer_such_a_job_is_its_owners_to_ask_about(tools: Tools) -> None:
    fails_for_one(tools)
    batch = tools.jobs(openpbs, user="", observes=True)
    with pytest.raises(Unavailable, match=STRANGE):
        batch.ask([BAD])  # nobody's list was ever asked for

    assert batch.listed("ada,ben").states == {}
    assert batch.ask([BAD]) == JobReports({}, frozenset({BAD}))


def test_whoever_was_never_told_of_any_job_cannot_ask(tools: Tools) -> None:
    tools.says("qstat", stderr=STRANGE, rc=1)
    tools.says("qstat", "", option="-w")
    batch = tools.jobs(openpbs)

    with pytest.raises(Unavailable, match=STRANGE):
        batch.ask([f"{number}.vm" for number in range(2000)])

    assert len(tools.called()) == MOST_APART + 2


def test_a_server_that_shows_no_list_either_does_not_answer(tools: Tools) -> None:
    tools.says("qstat", JSON % ("R", "workq", "null"))
    batch = tools.jobs(openpbs)
    batch.ask(["7.vm"])
    tools.says("qstat", stderr="qstat: cannot connect to server vm (errno=111)", rc=255)
    tools.called()

    with pytest.raises(Unavailable, match="cannot connect"):
        batch.ask(["7.vm", "8.vm"])

    assert tools.called() == ["qstat", "qstat"]
    tools.says("qstat", JSON % ("R", "workq", "null"))
    assert set(batch.ask(["7.vm", "8.vm"]).reports) == {"7.vm"}


def test_records_that_cannot_be_asked_are_no_outage(tools: Tools) -> None:
    """slurmdbd is down; slurmctld has answered, with or without a list before."""
    tools.says("squeue")
    tools.says("sacct", stderr="sacct: error: Problem talking to the database: Connection refused", rc=1)
    batch = tools.jobs(slurm)

    assert batch.ask(["5"]) == JobReports({})
    assert batch.ask(["5"], batch.listed()) == JobReports({})


def test_of_a_cut_id_nothing_is_unknown(tools: Tools) -> None:
    tools.says("qstat", "", stderr="qstat: Unknown Job Id 7.vm\nqstat: Unknown Job Id 8.vm", rc=153)

    assert tools.jobs(openpbs).ask(["7", "8.vm"]).unknown == {"8.vm"}
