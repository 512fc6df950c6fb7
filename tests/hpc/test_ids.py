"""Which texts are ids of single jobs, and which of these a server names as unknown: files of users name jobs, too."""

from __future__ import annotations

import pytest

from router.hpc import BatchSystem, local, openpbs, slurm, torque
from tests.hpc.recordings import ROOT, session

NONE = ["", "-u root", "nonsense", "71[].vm", "7[1].vm", "7.vm@evil", "7.vm:15001", "٧.vm", "٧", "07.vm", "7.", "7.-vm"]


@pytest.mark.parametrize("system", [openpbs, torque, local])
def test_an_id_of_pbs_is_a_number_and_a_server(system: BatchSystem) -> None:
    right = ["0.vm", "7.vm", "999999999999.pbs-1.example.org", "7.10.0.0.1"]
    wrong = [*NONE, "7", "7*", "7.vm*", "7.vm ", "7.vm\n", "1234567890123.vm", f"7.{'v' * 256}"]

    assert [one for one in (*right, *wrong) if system.is_id(one)] == right


def test_an_id_of_slurm_is_a_number_of_31_bits() -> None:
    right = ["1", "7", "67108863", "2147483647"]
    wrong = [*NONE, "0", "07", "7_1", "7+0", "7.vm", "7,8", "7\n", "2147483648", "4294967295", "9999999999"]

    assert [one for one in (*right, *wrong) if slurm.is_id(one)] == right


def test_the_ids_that_torque_was_recorded_not_to_know() -> None:
    said = [one.stderr for one in session(ROOT / "torque" / "10-qsub-errors.txt") if "Unknown Job Id" in one.stderr]

    assert [torque.unknown_ids(one) for one in said] == [{"99999.vm"}] * 2
    assert torque.unknown_ids("qstat: Unauthorized Request  29.vm") == frozenset()


def test_slurm_names_none() -> None:
    assert slurm.unknown_ids("slurm_load_jobs error: Invalid job id specified") == frozenset()
