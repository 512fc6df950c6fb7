"""How a batch system is asked: how many commands it takes, whose word counts, when absence is proved.

The commands are little programs that note how they were called and print what they are told to.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from router.agent.batch import MOST_PROOFS, Batch
from router.agent.metrics import Metrics
from router.errors import Unavailable
from router.host.local import LocalHost
from router.hpc import BatchSystem, Commands, JobState, Verdict, openpbs, slurm
from tests.hpc.test_slurm import listed, recorded

INVALID = "slurm_load_jobs error: Invalid job id specified"


class Tools:
    """Programs of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.words = ""
        """All that was called until ``called`` was last asked."""
        self._answers: dict[tuple[str, str], str] = {}
        self._count = 0
        self.commands = Commands((("PATH", f"{directory}:/usr/bin:/bin"),))

    def says(self, name: str, stdout: str = "", *, stderr: str = "", rc: int = 0, option: str = "") -> None:
        """What a program answers; with an option, only where that is among its words."""
        self._count += 1  # a program that runs goes on with the answer that it has begun
        output = self.directory / f"{name}.{self._count}.out"
        output.write_text(stdout)
        answer = f"cat '{output}'; printf %s '{stderr}' >&2; exit {rc}"
        self._answers[name, option] = answer
        cases = [
            f'case " $* " in *" {word} "*) {told};; esac'
            for (of, word), told in self._answers.items()
            if of == name and word
        ]
        usual = self._answers.get((name, ""), "exit 99")
        new = self.directory / f"{name}.new"
        new.write_text("\n".join(["#!/bin/sh", f'echo "{name} $*" >>"{self.log}"', *cases, usual, ""]))
        new.chmod(0o755)
        new.replace(self.directory / name)

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def called(self) -> list[str]:
        """The programs that were called since the last time, in their order."""
        text = self.log.read_text() if self.log.exists() else ""
        self.log.unlink(missing_ok=True)
        self.words += text
        return [line.split()[0] for line in text.split("\n")[:-1]]

    def batch(
        self,
        system: BatchSystem,
        *,
        history: bool = True,
        user: str = "ada",
        metrics: Metrics | None = None,
        observer: bool = False,
    ) -> Batch:
        commands, host = replace(self.commands, history=history), LocalHost(self.directory)
        metrics = metrics or Metrics()
        return Batch(host, system, commands, user=user, seconds=30, metrics=metrics, observer=observer)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


def test_what_the_list_tells_costs_no_second_command(tools: Tools) -> None:
    tools.says("squeue", listed() + listed(JobID="8", State="FAILED", exit_code="256"))
    batch = tools.batch(slurm)

    assert batch.states() == {"7": JobState.RUNNING}
    answer = batch.ask(["7", "8"])

    assert {job_id: one.state for job_id, one in answer.reports.items()} == {
        "7": JobState.RUNNING,
        "8": JobState.FINISHED,
    }
    assert (answer.unknown, tools.called()) == (frozenset(), ["squeue"])


def test_a_job_that_left_the_list_is_looked_for_in_the_records(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", recorded(JobIDRaw="8", State="TIMEOUT"))
    batch = tools.batch(slurm)

    answer = batch.ask(["7", "8"])

    assert answer.reports["8"].verdict is Verdict.WALLTIME
    assert (answer.unknown, tools.called()) == (frozenset(), ["squeue", "sacct"])


def test_records_that_lag_behind_are_not_believed(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", recorded(JobIDRaw="8", State="PENDING"))
    tools.says("scontrol", stderr=INVALID, rc=1)
    batch = tools.batch(slurm)

    answer = batch.ask(["7", "8"])

    assert (set(answer.reports), set(answer.unknown)) == ({"7"}, {"8"})
    assert tools.called() == ["squeue", "sacct", "scontrol"]


def test_without_accounting_a_few_absences_are_proved_and_of_the_rest_nothing_is_said(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", stderr="Slurm accounting storage is disabled", rc=1)
    tools.says("scontrol", stderr=INVALID, rc=1)
    batch = tools.batch(slurm)
    gone = [str(number) for number in range(10, 20)]

    first, second = batch.ask(["7", *gone]), batch.ask(["7", *gone])

    assert (set(first.reports), set(first.unknown)) == ({"7"}, set(gone[:MOST_PROOFS]))
    assert first.unknown == second.unknown
    proofs = ["scontrol"] * MOST_PROOFS
    assert tools.called() == ["squeue", "sacct", *proofs, "squeue", *proofs]


def test_records_that_cannot_be_asked_say_nothing_and_hide_no_living_job(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct", stderr="sacct: error: Connection refused", rc=1)
    batch = tools.batch(slurm)

    answer = batch.ask(["7", "8"])

    assert (set(answer.reports), answer.unknown) == ({"7"}, frozenset())
    with pytest.raises(Unavailable):
        batch.details(["7", "8"])


def test_an_observers_silence_is_no_proof(tools: Tools) -> None:
    tools.says("squeue", listed())
    tools.says("sacct")
    batch = tools.batch(slurm, observer=True)
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
    batch = tools.batch(slurm)

    assert batch.states("ada,ben") == {}
    assert set(batch.ask(["7"], listed=True).reports) == {"7"}
    assert tools.called() == ["squeue", "sacct"]
    assert "-u ada,ben" in tools.words


JSON = '{"pbs_server": "vm", "Jobs": {"7.vm": {"job_state": "%s", "queue": "%s", "Exit_status": %s}}}'
NO_HISTORY = "qstat: PBS is not configured to maintain job history 7.vm"


def test_a_server_without_history_is_asked_without_it_from_then_on(tools: Tools) -> None:
    """With -x it answers exit code 0 and no job, though the job runs."""
    tools.says("qstat", JSON % ("R", "workq", "null"))
    tools.says("qstat", '{"pbs_server": "vm"}', stderr=NO_HISTORY, option="-x")
    batch = tools.batch(openpbs)

    assert batch.ask(["7.vm"]).reports["7.vm"].state is JobState.RUNNING
    assert tools.called() == ["qstat", "qstat"]
    assert batch.ask(["7.vm"]).unknown == frozenset()
    assert tools.called() == ["qstat"]


def test_a_job_that_was_moved_is_followed_to_its_server(tools: Tools) -> None:
    tools.says("qstat", JSON % ("M", "workq@other", "null"))
    tools.says("qstat", JSON % ("F", "workq", "3"), option="7.vm@other")
    batch = tools.batch(openpbs)

    report = batch.details(["7.vm"])["7.vm"]

    assert (report.state, report.exit_status) == (JobState.FINISHED, 3)
    tools.says("qstat", "", stderr="qstat: Unknown Job Id 7.vm", rc=153, option="7.vm@other")
    assert batch.details(["7.vm"])["7.vm"].state is JobState.MOVED
    assert batch.ask(["7.vm"]).unknown == frozenset()


def test_of_a_cut_id_nothing_is_unknown(tools: Tools) -> None:
    tools.says("qstat", "", stderr="qstat: Unknown Job Id 7.vm\nqstat: Unknown Job Id 8.vm", rc=153)

    assert tools.batch(openpbs).ask(["7", "8.vm"]).unknown == {"8.vm"}


def test_jobs_are_cancelled_one_by_one(tools: Tools) -> None:
    tools.says("qdel")

    tools.batch(openpbs).cancel(["7.vm", "8.vm"])

    assert tools.log.read_text() == "qdel 7.vm\nqdel 8.vm\n"
