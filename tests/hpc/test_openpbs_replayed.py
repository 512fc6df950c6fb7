"""Replayed: what a real OpenPBS 23.06.06 printed, recorded once (recorded/openpbs-real, with an index of the commands).

The contract tests ask such a server live where there is one.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BatchError, Full, OutputError, Refused, Unavailable
from router.hpc import JobState, NoHistory, QueueReport, Verdict, openpbs
from tests.hpc.recordings import ROOT

PLACE = ROOT / "openpbs-real"


@dataclass(frozen=True)
class Replay:
    name: str
    rc: int
    argv: tuple[str, ...]
    out: str
    err: str


def _replays() -> dict[str, Replay]:
    found = {}
    for line in (PLACE / "index.txt").read_text().splitlines()[1:]:
        name, rc, command = line.split("\t")
        err = PLACE / f"{name}.err"
        words = err.read_text() if err.exists() else ""
        found[name] = Replay(name, int(rc), tuple(shlex.split(command)), (PLACE / f"{name}.out").read_text(), words)
    return found


REPLAYS = _replays()


def failure(name: str) -> BatchError | None:
    one = REPLAYS[name]
    return openpbs.failure(one.argv, one.rc, one.err)


def test_several_jobs_with_odd_values() -> None:
    assert failure("several.dsv") is None
    found = openpbs.parse_details(REPLAYS["several.dsv"].out)

    assert {job_id: (one.name, one.state, one.exit_status, one.verdict) for job_id, one in found.items()} == {
        "29.pbs": ("ok", JobState.FINISHED, 0, Verdict.ENDED),
        "30.pbs": ("bad", JobState.FINISHED, 7, Verdict.ENDED),
        "31.pbs": ("odd", JobState.RUNNING, None, None),
        "32.pbs": ("line", JobState.RUNNING, None, None),
        "33.pbs": ("held", JobState.HELD, None, None),
        "34.pbs": ("routed", JobState.RUNNING, None, None),
    }
    assert found["31.pbs"].directory == "/home/ada/w|x=1"
    assert found["34.pbs"].queue == "workq"


@pytest.mark.parametrize("name", ["odd.json", "line.json", "held.json", "routed.json", "finished.json"])
def test_json_and_dsv_tell_the_same(name: str) -> None:
    several = openpbs.parse_details(REPLAYS["several.dsv"].out)

    ((job_id, report),) = openpbs.parse_details(REPLAYS[name].out).items()

    # What a job has used grows from the one question to the next.
    assert replace(report, used={}) == replace(several[job_id], used={})


def test_json_of_several_prints_the_first_alone() -> None:
    assert list(openpbs.parse_details(REPLAYS["several.json"].out)) == ["29.pbs"]


def test_an_unknown_id_among_known_ones() -> None:
    assert failure("several-unknown.dsv") is None
    assert list(openpbs.parse_details(REPLAYS["several-unknown.dsv"].out)) == ["29.pbs", "31.pbs"]
    assert openpbs.unknown_ids(REPLAYS["several-unknown.dsv"].err) == {"98765.pbs"}


def test_deleted_and_over_its_walltime() -> None:
    deleted = openpbs.parse_details(REPLAYS["deleted.dsv"].out)
    (walltime,) = openpbs.parse_details(REPLAYS["walltime.json"].out).values()

    assert {job_id: (one.state, one.verdict) for job_id, one in deleted.items()} == {
        "36.pbs": (JobState.FINISHED, Verdict.DELETED),
        "37.pbs": (JobState.FINISHED, Verdict.DELETED),
    }
    assert (walltime.exit_status, walltime.verdict) == (-29, Verdict.WALLTIME)


def test_a_job_whose_nodes_daemon_was_killed_and_started_again() -> None:
    """It ran, and its processes were ended: what is said of a job that could not be started would be false."""
    (report,) = openpbs.parse_details(REPLAYS["restarted.json"].out).values()

    assert (report.state, report.exit_status, report.verdict) == (JobState.FINISHED, -4, Verdict.NODE_LOST)
    assert report.started is not None


def test_a_job_that_was_moved_and_the_server_that_has_it() -> None:
    """It is over there under the same id, is asked for there by ``ID@server``, and qdel finds it by itself."""
    (here,) = openpbs.parse_details(REPLAYS["moved.json"].out).values()
    (there,) = openpbs.parse_details(REPLAYS["moved.there"].out).values()
    (deleted,) = openpbs.parse_details(REPLAYS["moved.there-deleted"].out).values()

    assert (here.job_id, here.state, here.queue) == ("56.pbs", JobState.MOVED, "workq@pbs2")
    assert (there.job_id, there.state, there.queue) == ("56.pbs", JobState.HELD, "workq")
    assert there.directory == here.directory == "/home/ada/w"
    assert (deleted.state, deleted.verdict) == (JobState.FINISHED, Verdict.DELETED)
    assert openpbs.parse_details(REPLAYS["moved.dsv"].out) == {"56.pbs": here}
    assert (failure("moved.qdel"), failure("moved.qsig")) == (None, None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("refused.queue", Refused), ("refused.walltime", Refused), ("refused.resource", Refused),
        ("refused.closed", Full), ("full", Full),
        ("unknown", None), ("unknown.qdel", None), ("unknown.qsig", None), ("finished.qdel", None),
        ("finished.qsig", None), ("held.qsig", None),
        ("no-history.living", NoHistory), ("no-history.several", NoHistory), ("no-history.list", NoHistory),
        ("no-history.living-plain", None), ("no-history.finished", None),
    ],
)  # fmt: skip
def test_what_an_end_means(name: str, expected: type[BatchError] | None) -> None:
    found = failure(name)

    assert (type(found) if found else None) is expected


def test_without_history_a_living_job_is_seen_only_without_x() -> None:
    assert openpbs.parse_details(REPLAYS["no-history.living"].out) == {}
    assert list(openpbs.parse_details(REPLAYS["no-history.living-plain"].out)) == ["31.pbs"]


def test_an_unreachable_server_is_unavailable_whatever_the_command() -> None:
    unreachable = [one for name, one in REPLAYS.items() if name.startswith("unreachable.")]

    assert {one.argv[0] for one in unreachable} == {"qstat", "qselect", "qsub", "qdel", "qsig", "pbsnodes"}
    assert {one.name: type(failure(one.name)) for one in unreachable} == {one.name: Unavailable for one in unreachable}


def test_lists() -> None:
    assert {"29.pbs", "31.pbs", "37.pbs"} <= set(openpbs.parse_list(REPLAYS["list"].out))
    assert openpbs.parse_list(REPLAYS["list-name"].out) == ("31.pbs",)
    for name in ("states", "states-two"):
        states = openpbs.parse_states(REPLAYS[name].out)
        assert (states["31.pbs"], states["33.pbs"]) == (JobState.RUNNING, JobState.HELD)
        assert "29.pbs" not in states


def test_queues() -> None:
    found = openpbs.parse_queues((REPLAYS["queues"].out, REPLAYS["nodes"].out))

    assert found["routeq"] == QueueReport(
        name="routeq", enabled=True, started=True, destinations=("workq",), queued=0, running=0
    )
    assert (found["fullq"].queued_max, found["fullq"].started, found["fullq"].queued) == (1, False, 1)
    assert (found["closedq"].enabled, found["closedq"].reason) == (False, "enabled = False")
    short = found["shortq"]
    assert (short.walltime_max, short.walltime_default, short.running_max) == (600, 300, 2)
    assert (short.nodes, short.cores_per_node, short.memory_per_node) == (1, 4, 24684084 * 1024)


DETAILS = sorted(name for name in REPLAYS if name.endswith((".dsv", ".json")))


@given(name=st.sampled_from(DETAILS), share=st.floats(min_value=0, max_value=1), rubbish=st.text(max_size=9))
def test_cut_off_anywhere_is_nothing_false(name: str, share: float, rubbish: str) -> None:
    """Of several jobs, those before the cut may be told; none with another state than it has."""
    whole = REPLAYS[name].out
    try:
        found = openpbs.parse_details(whole[: round(share * len(whole))] + rubbish)
    except OutputError:
        return
    known = openpbs.parse_details(whole)
    assert all(found[job_id].state is known[job_id].state for job_id in found.keys() & known.keys())
