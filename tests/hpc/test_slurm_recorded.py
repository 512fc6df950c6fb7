"""Slurm's words against recordings of a real server (recorded/slurm), which its own index explains."""

from __future__ import annotations

import shlex
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

from router.errors import BatchError, Full, Refused, Unavailable
from router.hpc import JobReport, JobState, NoHistory, Verdict, slurm
from router.hpc.slurm.queues import COUNTED
from router.hpc.slurm.records import LISTED, RECORD_END, RECORDED, UNIT_END
from tests.hpc.recordings import ROOT

PLACE, WITHOUT = (ROOT / "slurm" / name for name in ("accounting", "without-accounting"))
SACCT = {"JobIDRaw", "State", "ExitCode", "Submit", "Start", "End", "Partition", "User", "NodeList", "Elapsed"}


@dataclass(frozen=True)
class Kept:
    name: str
    rc: int
    words: tuple[str, ...]
    out: str
    err: str

    @property
    def tool(self) -> str:
        return self.words[0]


def _kept(place: Path) -> list[Kept]:
    found = []
    for line in (place / "index.txt").read_text().splitlines()[1:]:
        name, rc, _, command = line.split("\t", 3)
        out, err = (_text(place / f"{name}.{kind}") for kind in ("out", "err"))
        found.append(Kept(name, int(rc), tuple(shlex.split(command)), out, err))
    return found


def _text(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.exists() else ""


KEPT = _kept(PLACE)
PLAIN = _kept(WITHOUT)
"""Without slurmdbd: sacct says only that there is none."""


def _fields(one: Kept) -> list[str]:
    """The fields that squeue -O or sacct -o was asked for."""
    option = one.words[one.words.index("-O" if one.tool == "squeue" else "-o") + 1]
    return [field.partition(":")[0] for field in option.split(",")]


def asked_our_way(one: Kept) -> str:
    """The answer with our fields and ends in place of the recorded ones; empty where it lacks one of them."""
    if one.tool == "scontrol":
        return one.out
    names, wanted = _fields(one), LISTED if one.tool == "squeue" else RECORDED
    aliases = {"Name": "JobName"} if one.tool == "sacct" else {}
    rows = []
    for line in one.out.splitlines():
        values = line.split("|")
        if one.tool == "squeue":
            values = values[:-1]
        if len(values) != len(names):
            return ""
        row = {aliases.get(name, name): value for name, value in zip(names, values, strict=True)}
        rows.append(UNIT_END.join(row.get(name, "") for name in wanted))
    end = f"{RECORD_END}\n" if one.tool == "squeue" else "\n"
    return "".join(f"{row}{end}" for row in rows)


def _of_one_job(one: Kept) -> bool:
    if one.rc or not one.out.strip() or "--json" in one.words:
        return False
    if one.tool == "scontrol":
        return one.words[1:3] == ("show", "job") and "-o" not in one.words and one.out.startswith("JobId=")
    return one.tool in {"squeue", "sacct"} and ("-O" in one.words or "-o" in one.words) and "-j" in one.words


STORIES: dict[str, dict[str, Kept]] = defaultdict(dict)
for _kind, _all in (("", KEPT), (" without accounting", PLAIN)):
    for _one in _all:
        if _of_one_job(_one) and not _one.name.startswith(("newline", "nasty", "ended")):
            STORIES[_one.name.partition(".")[0] + _kind][_one.tool] = _one


@pytest.mark.parametrize("story", sorted(STORIES))
def test_the_three_commands_tell_the_same_story(story: str) -> None:
    """Of jobs that are over; of others sacct may lag behind."""
    told: dict[str, dict[str, JobReport]] = {}
    for tool, one in STORIES[story].items():
        if (output := asked_our_way(one)).strip():
            told[tool] = slurm.parse_details(output)

    for job_id in {found for reports in told.values() for found in reports}:
        same = [reports[job_id] for tool, reports in told.items() if job_id in reports and tool != "sacct"]
        past = told.get("sacct", {}).get(job_id)
        if past is not None and past.state is JobState.FINISHED and same and same[0].state is JobState.FINISHED:
            same.append(past)
        assert len({(one.state, one.verdict, one.code) for one in same}) <= 1, same
        # What ended from outside has 0:15 in the one and 0:0 in the other.
        assert len({one.exit_status for one in same if one.verdict is Verdict.ENDED}) <= 1, same
        assert JobState.UNKNOWN not in {one.state for one in same}


def test_most_stories_are_told_by_several_commands() -> None:
    """So that there is something to compare: where sacct is none, of two."""
    tools = {
        story: {tool for tool, one in told.items() if asked_our_way(one).strip()} for story, told in STORIES.items()
    }

    assert {"squeue", "scontrol", "sacct"} in tools.values()
    for story in ("completed", "failed", "cancelled-by-user", "timeout", "memory", "node-fail"):
        assert tools[story] == {"squeue", "scontrol", "sacct"}, story
        assert tools[f"{story} without accounting"] == {"squeue", "scontrol"}, story


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        ("completed", (JobState.FINISHED, 0, Verdict.ENDED)),
        ("held", (JobState.HELD, None, None)),
        ("held-by-admin", (JobState.HELD, None, None)),
        ("dependency", (JobState.QUEUED, None, None)),
        ("cancelled-waiting", (JobState.FINISHED, None, Verdict.DELETED)),
        ("cancelled-by-user", (JobState.FINISHED, 143, Verdict.DELETED)),
    ],
)
def test_a_recorded_job(story: str, expected: tuple[JobState, int | None, Verdict | None]) -> None:
    (report,) = slurm.parse_details(STORIES[story]["scontrol"].out).values()

    assert (report.state, report.exit_status, report.verdict) == expected


@pytest.mark.parametrize(
    "one", [one for one in KEPT if one.tool == "scontrol" and _of_one_job(one)], ids=lambda one: one.name
)
def test_a_recorded_job_cut_off_is_none(one: Kept) -> None:
    for end in range(1, len(one.out.rstrip()), 17):
        with pytest.raises(BatchError):
            slurm.parse_details(one.out[:end])


@pytest.mark.parametrize(
    ("start", "tools", "expected"),
    [
        ("refused.", {"sbatch"}, Refused),
        ("full.", {"sbatch"}, Full),
        ("down.", {"sbatch", "squeue", "scontrol", "sacct", "scancel"}, Unavailable),
        ("unknown.", {"squeue", "scontrol", "scancel"}, type(None)),
        ("hidden.", {"squeue", "scontrol"}, type(None)),
    ],
)
def test_what_recorded_failures_mean(start: str, tools: set[str], expected: type[BatchError | None]) -> None:
    failed = [one for one in KEPT if one.name.startswith(start) and one.rc and one.tool in tools]

    assert failed
    assert {one.name: type(slurm.failure(one.words, one.rc, one.err)) for one in failed} == {
        one.name: expected for one in failed
    }


def test_what_failures_without_accounting_mean() -> None:
    failed = [one for one in PLAIN if one.rc and one.tool == "sacct" and not one.name.startswith("down")]

    assert failed
    assert {type(slurm.failure(one.words, one.rc, one.err)) for one in failed} == {NoHistory}


def test_the_recorded_waits() -> None:
    """Held, and for a dependency or a date: no wait for a turn. One second for resources, none by priority."""
    stories = ("running", "resources", "priority", "held", "held-by-admin", "dependency", "begin-time")
    fields = ("JobID", "ArrayJobID", "ArrayTaskID", "State", "Reason", "exit_code", "Partition", "UserName", "SubmitTime",
              "StartTime", "EndTime", "PendingTime")  # fmt: skip
    jobs = ""
    for story in stories:
        shown = dict(zip(fields, _text(PLACE / f"{story}.squeue.out").split("|"), strict=False))
        shown["PriorityLong"] = "1"  # which the recorder did not ask for
        jobs += UNIT_END.join(shown[name] for name in COUNTED) + f"{RECORD_END}\n"
    partitions, nodes = (_text(PLACE / f"site.{name}.out") for name in ("partitions", "nodes"))

    found = slurm.parse_queues((partitions, nodes, jobs))["batch"]

    assert (found.queued, found.running, found.waited, len(found.line or ())) == (6, 1, 1, 2)


def test_the_recorded_partitions() -> None:
    partitions, nodes = (_text(PLACE / f"site.{name}.out") for name in ("partitions", "nodes"))

    found = slurm.parse_queues((partitions, nodes, ""))

    assert {name: (one.nodes, one.cores_per_node, one.walltime_max) for name, one in found.items()} == {
        "batch": (2, 4, 86400),
        "debug": (2, 4, 1800),
        "gpu": (2, 4, 43200),
        "all": (4, 4, 14400),
    }
    assert (found["gpu"].gpus_per_node, found["batch"].gpus_per_node, found["debug"].nodes_max) == (2, 0, 1)
