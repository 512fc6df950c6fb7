"""Every parser on everything that was recorded, also by other systems: whole, cut off, with rubbish behind it.

What a parser has to read is cut off at every character in ``test_recorded_cut``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BatchError, OutputError
from router.hpc import BatchSystem, JobReport, JobState, local, openpbs, slurm, torque
from tests.hpc.recordings import Recorded, outputs, text

SYSTEMS: dict[str, BatchSystem] = {"openpbs": openpbs, "torque": torque, "slurm": slurm, "local": local}
OUTPUTS = outputs()


def parsers(system: BatchSystem) -> Iterator[Callable[[str], object]]:
    yield from (system.job_id, system.parse_list, system.parse_states, system.parse_listed, system.parse_details)
    yield lambda output: system.parse_queues([output] * len(system.queues_argvs()))


def parsed(system: BatchSystem, output: str) -> int:
    """How many parsers took it; all others said OutputError, and none anything else."""
    taken = 0
    for parse in parsers(system):
        try:
            parse(output)
        except OutputError:
            continue
        taken += 1
    return taken


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_everything_is_a_result_or_an_output_error(name: str) -> None:
    taken = [one for one in OUTPUTS if parsed(SYSTEMS[name], one.stdout)]

    assert len(OUTPUTS) > 300
    assert taken


@given(
    name=st.sampled_from(sorted(SYSTEMS)),
    recorded=st.sampled_from(OUTPUTS),
    share=st.floats(min_value=0, max_value=1),
    rubbish=st.one_of(
        st.just(""), st.text(max_size=30), st.sampled_from(["\x00", "</Data>", "}", "\n", "Job Id: 1.x|"])
    ),
)
def test_cut_off_anywhere_and_with_rubbish(name: str, recorded: Recorded, share: float, rubbish: str) -> None:
    end = round(share * len(recorded.stdout))

    parsed(SYSTEMS[name], recorded.stdout[:end] + rubbish)


XML = ["20-qstat-x-all.xml", "22-qdel-queued.xml", "22-qdel-running.xml", "22-walltime-exceeded.xml", "23-array-x.xml"]


@pytest.mark.parametrize("name", XML)
@given(share=st.floats(min_value=0, max_value=1, exclude_max=True))
def test_xml_cut_off_is_no_answer(name: str, share: float) -> None:
    whole = text(f"torque/{name}").rstrip()
    cut = whole[: round(share * len(whole))]

    if cut.strip() and cut != whole:
        with pytest.raises(OutputError):
            torque.parse_details(cut)


@given(st.text())
def test_any_text_is_torques_or_an_output_error(words: str) -> None:
    for output in (words, f"<Data>{words}</Data>", f"<Data><Job><Job_Id>1.vm</Job_Id>{words}</Job></Data>"):
        parsed(torque, output)


@given(
    rc=st.one_of(st.none(), st.integers(min_value=-64, max_value=255)),
    stderr=st.one_of(st.text(), st.sampled_from(sorted({one.stderr for one in OUTPUTS}) or [""])),
    command=st.sampled_from(["qsub", "qstat", "qdel", "qselect", "qsig", "sbatch", "squeue", "sacct", "scontrol", "scancel"]),
)  # fmt: skip
def test_every_end_of_a_command_means_something(rc: int | None, stderr: str, command: str) -> None:
    for system in SYSTEMS.values():
        failure = system.failure((command, "7"), rc, stderr)

        assert failure is None or isinstance(failure, BatchError)
        if rc is None or rc < 0:
            assert failure is not None
        if command in {"qsub", "sbatch"} and rc:
            assert failure is not None or (command == "sbatch") is not (system is slurm)


def test_the_state_tables_hold_every_state_that_was_recorded() -> None:
    tables: Mapping[str, BatchSystem] = {"openpbs": openpbs, "torque": torque}
    for name, system in tables.items():
        found: dict[str, JobReport] = {}
        for one in OUTPUTS:
            if one.place.startswith(name) and one.place.endswith((".json", ".xml")) and "Unknown Job" not in one.stdout:
                found |= system.parse_details(one.stdout)

        assert len(found) > 20
        assert {report.state for report in found.values()} >= {JobState.QUEUED, JobState.FINISHED, JobState.RUNNING}
        assert JobState.UNKNOWN not in {report.state for report in found.values()}
