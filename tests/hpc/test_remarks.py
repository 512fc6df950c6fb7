"""What a site's filters and hooks print beside a job's id, for people to read."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import OutputError
from router.hpc import openpbs, slurm, torque
from router.hpc.remarks import LONGEST, Submitted, remarks, submitted

SPENT = "Your allocation is nearly spent"


@pytest.mark.parametrize(
    ("system", "stdout", "stderr", "expected"),
    [
        (slurm, "7\n", "", Submitted("7")),
        (slurm, "7;cluster\n", "", Submitted("7")),
        (slurm, f"7\n{SPENT}\n", "", Submitted("7", SPENT)),
        (
            slurm,
            "7\n",
            f"sbatch: {SPENT}\nsbatch: ask for more\n",
            Submitted("7", f"sbatch: {SPENT}; sbatch: ask for more"),
        ),
        (slurm, "3\n7\n", "", Submitted("7", "3")),
        (openpbs, "0.vm\n", "", Submitted("0.vm")),
        (
            openpbs,
            f"Welcome\n0.vm\n{SPENT}\n",
            "qsub: checked\n",
            Submitted("0.vm", f"Welcome; {SPENT}; qsub: checked"),
        ),
        (torque, f"{SPENT}\n\n39.vm\n", "", Submitted("39.vm", SPENT)),
    ],
)
def test_what_is_beside_the_id(system: ModuleType, stdout: str, stderr: str, expected: Submitted) -> None:
    assert submitted(stdout, stderr, system.job_id) == expected


@pytest.mark.parametrize("system", [slurm, openpbs, torque])
def test_without_an_id_there_is_no_job_to_remark_on(system: ModuleType) -> None:
    with pytest.raises(OutputError):
        submitted(f"{SPENT}\n", "", system.job_id)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], ""),
        (["", " \t "], ""),
        ([SPENT, SPENT], SPENT),
        ([" 98 %\tused "], "98 % used"),
        (["\x1b[1;31mStop\x1b[0m\x07, \x00please\x7f"], "Stop, please"),
        (["\x1b]0;a title\x07words \x1b]8;;https://example.org\x1b\\more"], "words more"),
        (["\u202eright to left\u200b, \x9bcontrol"], "right to left, control"),
        (["no \udcff text"], "no \N{REPLACEMENT CHARACTER} text"),
        (["x" * LONGEST], "x" * LONGEST),
        (["x" * LONGEST, "y"], "x" * (LONGEST - 1) + "…"),
    ],
)
def test_remarks_are_one_line_of_text(lines: list[str], expected: str) -> None:
    assert remarks(lines) == expected


@given(st.lists(st.text(st.characters(codec=None)), max_size=5))
def test_whatever_is_printed_can_be_shown(lines: list[str]) -> None:
    found = remarks(lines)

    assert len(found) <= LONGEST
    assert found.encode().decode().isprintable() or not found
