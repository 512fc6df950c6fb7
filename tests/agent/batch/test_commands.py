"""What a batch system is told, by commands that are little programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.hpc import BatchSystem, Submission, openpbs, slurm, torque
from router.hpc.remarks import Submitted
from tests.agent.batch.tools import Tools


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return Tools(tmp_path)


@pytest.mark.parametrize(
    ("system", "command", "stdout", "job_id"),
    [
        (openpbs, "qsub", "Welcome\n5.vm\n", "5.vm"),
        (torque, "qsub", "Welcome\n5.vm\n", "5.vm"),
        (slurm, "sbatch", "Welcome\n5\n", "5"),
    ],
)
def test_what_a_site_prints_at_a_submission_is_kept_beside_the_id(
    tools: Tools, system: BatchSystem, command: str, stdout: str, job_id: str
) -> None:
    tools.says(command, stdout, stderr="Your allocation is nearly spent\n")

    found = tools.batch(system).submit(Submission("n", "/w/script", "/w", "/w/out"))

    assert found == Submitted(job_id, "Welcome; Your allocation is nearly spent")


def test_a_search_is_for_the_users_own_jobs(tools: Tools) -> None:
    tools.says("qselect", "5.vm\n")
    tools.says("squeue", "5\x1e\n")

    assert (tools.batch(openpbs).find("tag"), tools.batch(slurm).find("tag")) == (("5.vm",), ("5",))

    tools.called()
    assert tools.words.splitlines()[0] == "qselect -x -u ada -N tag"
    assert "-u ada --name=tag" in tools.words


def test_jobs_are_cancelled_one_by_one(tools: Tools) -> None:
    tools.says("qdel")

    tools.batch(openpbs).cancel(["7.vm", "8.vm"])

    assert tools.log.read_text() == "qdel 7.vm\nqdel 8.vm\n"
