"""Every parser on what it has to read: its own system's recordings, cut off at every character.

Slurm's lists were recorded with other ends of fields and records than ours; they are put into our form first
(``test_slurm_recorded``). Where a cut is taken for an answer, it says nothing that the whole does not say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import pytest

from router.errors import OutputError
from router.hpc import BatchSystem, openpbs, slurm, torque
from router.hpc.slurm.records import RECORD_END
from tests.hpc.recordings import ROOT, outputs, session, text
from tests.hpc.test_openpbs_replayed import REPLAYS
from tests.hpc.test_slurm_recorded import KEPT, PLAIN, asked_our_way

S = TypeVar("S")
T = TypeVar("T")

SLURM = {one.name: one.out for one in KEPT}

LONGEST = 6000
"""Characters of an answer that is cut at each of them; a longer one is cut so often."""
SYSTEMS: Mapping[str, BatchSystem] = {"openpbs": openpbs, "torque": torque, "slurm": slurm}
_FIELDS = {"-O", "-o"}
"""Options before the names of fields."""
TOLD: Mapping[str, tuple[str, ...]] = {
    "openpbs": ("list", "states", "details"),
    "torque": ("list", "details"),
    "slurm": ("list", "states", "listed", "details"),
}
"""What a system's recordings tell something to. OpenPBS' and TORQUE's lists tell no more than states, and no table of
TORQUE's was recorded (``test_torque`` has one that was put together)."""


def answers(name: str) -> Iterator[str]:
    """The system's recorded answers, each once."""
    if name == "slurm":
        found = [asked_our_way(one) for one in (*KEPT, *PLAIN) if one.tool == "scontrol" or _FIELDS & {*one.words}]
        yield from dict.fromkeys([*found, *(_ids(one) for one in found)])
    else:
        own = [one.stdout for one in outputs() if one.place.startswith(name)]
        yield from dict.fromkeys(own)


def _ids(listed: str) -> str:
    """A list of jobs as ``squeue -O JobID`` prints it."""
    return "".join(f"{job_id}{RECORD_END}\n" for job_id in _taken(slurm.parse_listed, listed) or ())


def parsers(system: BatchSystem) -> Mapping[str, Callable[[str], object]]:
    return {
        "list": lambda output: dict.fromkeys(system.parse_list(output), ""),
        "states": system.parse_states,
        "listed": system.parse_listed,
        "details": system.parse_details,
    }


def _taken(parse: Callable[[S], T], output: S) -> T | None:
    try:
        return parse(output)
    except OutputError:
        return None


def cuts(whole: str) -> Iterator[str]:
    step = max(1, len(whole) // LONGEST)
    yield from (whole[:end] for end in range(0, len(whole), step))


@pytest.mark.parametrize("name", sorted(SYSTEMS))
def test_a_cut_says_nothing_that_the_whole_does_not(name: str) -> None:
    found = parsers(SYSTEMS[name])
    told = set()
    for whole in answers(name):
        for kind, parse in found.items():
            said = _taken(parse, whole)
            told |= {kind} if said else set()
            for cut in cuts(whole):
                part = _taken(parse, cut)
                assert not part or said is None or _within(part, said), (kind, cut[-200:])
    assert told >= set(TOLD[name])


def _within(part: object, said: object) -> bool:
    assert isinstance(part, dict)
    assert isinstance(said, dict)
    return part.items() <= said.items()


def queues() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The recorded answers about queues and nodes."""
    said = {one.command: one.stdout for one in session(ROOT / "torque" / "61-misc.txt")}
    yield "openpbs", (text("openpbs/90-qstat-Qf.json"), text("openpbs/90-pbsnodes-av.json"))
    yield "openpbs", (REPLAYS["queues"].out, REPLAYS["nodes"].out)
    yield "slurm", (SLURM["site.partitions"], SLURM["site.nodes"], "")
    yield "torque", (said["qstat -Q -f short"], said["pbsnodes -x"])


@pytest.mark.parametrize(("name", "pair"), list(queues()), ids=["openpbs", "openpbs live", "slurm", "torque"])
def test_queues_cut_off_are_no_others(name: str, pair: tuple[str, ...]) -> None:
    whole = SYSTEMS[name].parse_queues(pair)
    assert whole

    for number, output in enumerate(pair):
        for cut in cuts(output.rstrip()):
            if number and (not cut or (name == "slurm" and cut.endswith("\n"))):
                continue  # no nodes at all, or a cut between two of them: neither can be seen
            answer = [*pair[:number], cut, *pair[number + 1 :]]
            part = _taken(SYSTEMS[name].parse_queues, answer)
            assert not part or part.items() <= whole.items(), (number, cut[-200:])
