"""What scripts note of their jobs' usage, for Pods of which the batch system tells nothing."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pytest

from router.agent.files import usage
from router.agent.files.log_source import Logged
from router.agent.files.usage import NotedUsage, noted
from router.agent.records import Record, Records
from router.host import HostUnavailable
from router.host.local import LocalHost
from router.kubelet.figures import ContainerUsage, Usage
from router.pod import layout
from router.pod.layout import PodDirectory
from router.pod.status import ContainerStatus, PodStatus, Running
from router.reconcile import outcomes
from router.script.completing import FORMAT, part_text
from tests.agent.files.test_log_source import NO_ENTRANCE, NOWHERE
from tests.reconcile.given import JOB, T, pod, report


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"1700000000 2500000000 4096\n", Usage(1_700_000_000, 2.5, 4096)),
        (b"1700000000 - 4096\n", Usage(1_700_000_000, None, 4096)),
        (b"1700000000 2500000000 -\n", Usage(1_700_000_000, 2.5, None)),
        (b"1800000009 0 0\n", Usage(1_800_000_000, 0.0, 0)),
        (b"1700000000 - -\n", None),
        (b"1700000000 2500000000 40", None),
        (b"", None),
        (b"1700000000 -5 4096\n", None),
        (b"1700000000 1 1\n1700000000 1 1\n", None),
        (b"1700000000 " + b"9" * 40 + b" 1\n", None),
        (b"1700000000 1 9223372036854775808\n", None),
        (b"1700000000 nan 1\n", None),
        (b"1700000000 1e5 inf\n", None),
        ("1700000000 \N{ARABIC-INDIC DIGIT ONE} 1\n".encode(), None),
        (b'1700000000 1 1\npod_memory{pod="b"} 1\n', None),
    ],
    ids=[
        "both", "memory", "cores", "a clock ahead", "nothing", "half", "empty", "negative", "two lines", "huge",
        "beyond 64 bits with a sign", "no number", "infinite", "other digits", "another Pod's",
    ],
)  # fmt: skip
def test_the_line_of_a_script(content: bytes, expected: Usage | None) -> None:
    assert noted(content, 1_800_000_000.0) == expected


@pytest.fixture
def known(tmp_path: Path) -> Records:
    return Records(lambda view: PodDirectory(str(tmp_path), view.job_uid, view.index, view.uid))


def running(known: Records, name: str, *, node: str = "one", containers: int = 1) -> Record:
    """A Pod that runs, known by its name as its uid."""
    names = ["main", "proxy"][:containers]
    statuses = tuple(ContainerStatus(one, Running(T)) for one in names)
    found = pod(
        name=name, uid=name, node=node, job_id=JOB, status=PodStatus(phase="Running", started=T, containers=statuses)
    )
    found = replace(found, containers=tuple(replace(found.containers[0], name=one) for one in names))
    record = known.add(outcomes.first(found))
    Path(record.directory.path).mkdir(parents=True)
    return record


def write(record: Record, text: str) -> None:
    (Path(record.directory.path) / layout.USAGE).write_text(text)


def line(cpu: int, memory: int, age: float = 0) -> str:
    return f"{int(time.time() - age)} {cpu}000000000 {memory}\n"


def test_a_pod_shows_what_its_script_notes_unless_the_batch_system_tells(known: Records, tmp_path: Path) -> None:
    alone, two, told, silent, old = (
        running(known, name, containers=count)
        for name, count in (("alone", 1), ("two", 2), ("told", 1), ("silent", 1), ("old", 1))
    )
    for record in (alone, two, told):
        write(record, line(7, 4096))
    write(old, line(7, 4096, age=700))
    told.change(
        lambda facts: outcomes.reported(facts, report(name="train-0.c0ffee00.told", used={"mem": "1kb"}), T + 100)
    )
    source = Logged(NOWHERE, lambda _: LocalHost(tmp_path), known, "hpc1", NO_ENTRANCE)

    found = {one.name: one for one in source.usage("").pods}

    figures = {name: (one.usage.cpu_seconds, one.usage.memory_bytes) for name, one in found.items() if one.usage}
    assert figures == {"alone": (7.0, 4096), "two": (7.0, 4096), "told": (None, 1024)}
    assert found["alone"].containers == (ContainerUsage("main", T, found["alone"].usage),)
    assert found["two"].containers == (ContainerUsage("main", T), ContainerUsage("proxy", T))
    assert found[silent.facts.pod.name].usage is None


class Host(LocalHost):
    """The local files, with a note of each that is read; each read takes a second of the test's clock."""

    def __init__(self, root: Path, clock: list[float]) -> None:
        super().__init__(root)
        self.reads: list[str] = []
        self.ticks = clock
        self.silent = False
        self.during: Callable[[], object] = dict

    def read(self, path: PurePath | str, offset: int = 0, limit: int = 0) -> bytes:
        self.reads.append(PurePath(path).parts[-2])
        self.ticks[0] += 1
        self.during()
        if self.silent:
            raise HostUnavailable("does not answer")
        return super().read(path, offset, limit)


@pytest.fixture
def asked(known: Records, tmp_path: Path) -> tuple[Host, Callable[[float], dict[str, Any]], list[Record]]:
    clock = [1000.0]
    host = Host(tmp_path, clock)
    records = [running(known, f"p{number}") for number in range(5)]
    for record in records:
        write(record, line(1, 1))
    figures = NotedUsage(lambda _: host, clock=lambda: clock[0])
    living = {one.uid for one in records}

    def ask(after: float) -> dict[str, Any]:
        clock[0] += after
        return figures.of(records, living)

    return host, ask, records


def test_a_question_takes_a_short_time_and_those_longest_unread_come_first(
    asked: tuple[Host, Callable[[float], dict[str, Any]], list[Record]],
) -> None:
    host, ask, records = asked

    assert set(ask(0)) == {"p0", "p1", "p2"}
    assert set(ask(0)) == {"p0", "p1", "p2", "p3", "p4"}
    assert len(ask(0)) == 5
    assert host.reads == ["p0", "p1", "p2", "p3", "p4"]

    write(records[0], line(9, 9))
    assert ask(usage.AGAIN_SECONDS)["p0"].cpu_seconds == 9.0
    assert host.reads[5:] == ["p0", "p1", "p2"]


def test_a_host_that_does_not_answer_is_asked_once_a_question(
    asked: tuple[Host, Callable[[float], dict[str, Any]], list[Record]],
) -> None:
    host, ask, _ = asked
    ask(0), ask(0)
    host.silent = True

    assert len(ask(usage.AGAIN_SECONDS)) == 5
    assert host.reads[5:] == ["p0"]


@pytest.mark.parametrize("kind", ["link", "directory", "pipe", "sparse", "Pod's link"])
def test_a_file_that_its_user_exchanged_costs_other_pods_nothing(
    kind: str, asked: tuple[Host, Callable[[float], dict[str, Any]], list[Record]]
) -> None:
    host, ask, records = asked
    file = Path(records[0].directory.path) / layout.USAGE
    file.unlink()
    match kind:
        case "link":
            file.symlink_to(Path(records[1].directory.path) / layout.USAGE)
        case "directory":
            file.mkdir()
        case "pipe":
            os.mkfifo(file)
        case "sparse":
            file.touch()
            os.truncate(file, 1 << 40)
        case _:
            file.parent.rmdir()
            file.parent.symlink_to(Path(records[1].directory.path))

    assert set(ask(0)) == {"p1", "p2"}
    assert set(ask(0)) == {"p1", "p2", "p3", "p4"}
    assert host.reads == ["p0", "p1", "p2", "p3", "p4"]


def test_a_question_while_another_reads_is_answered_at_once(
    asked: tuple[Host, Callable[[float], dict[str, Any]], list[Record]],
) -> None:
    host, ask, _ = asked
    meanwhile: list[set[str]] = []
    host.during = lambda: meanwhile.append(set(ask(0)))

    assert set(ask(0)) == {"p0", "p1", "p2"}
    assert meanwhile == [set(), {"p0"}, {"p0", "p1"}]


STAT = "cache 0\ninactive_file 96\ntotal_inactive_file 1096\n"
# the lines of /proc/PID/cgroup; files below the directory of cgroups -> cores and memory
CGROUPS: dict[str, tuple[str, dict[str, str], str]] = {
    "version 2": (
        "0::/system.slice/slurmstepd.scope/job_7/step_batch/user/task_0\n",
        {
            "system.slice/slurmstepd.scope/job_7/cpu.stat": "usage_usec 2500\nuser_usec 2000\n",
            "system.slice/slurmstepd.scope/job_7/memory.current": "5096\n",
            "system.slice/slurmstepd.scope/job_7/memory.stat": STAT,
        },
        "2500000 5000",
    ),
    "version 2 without memory": (
        "0::/system.slice/slurmstepd.scope/job_7/step_batch\n",
        {"system.slice/slurmstepd.scope/job_7/cpu.stat": "usage_usec 1\n"},
        "1000 -",
    ),
    "version 1": (
        "4:memory:/slurm/uid_5/job_7/step_batch/task_0\n2:cpu,cpuacct:/slurm/uid_5/job_7/step_batch/task_0\n0::/\n",
        {
            "memory/slurm/uid_5/job_7/memory.usage_in_bytes": "5096\n",
            "memory/slurm/uid_5/job_7/memory.stat": STAT,
            "cpuacct/slurm/uid_5/job_7/cpuacct.usage": "77\n",
        },
        "77 4000",
    ),
    "version 1, cores by processes": (
        "4:memory:/slurm/uid_5/job_7/step_batch/task_0\n2:cpuacct:/\n",
        {
            "memory/slurm/uid_5/job_7/memory.usage_in_bytes": "5096\n",
            "memory/slurm/uid_5/job_7/memory.stat": STAT,
            "memory/slurm/uid_5/job_7/step_batch/task_0/cgroup.procs": "999999999\n",
        },
        "00000000 4000",
    ),
    "another job's": ("0::/slurm/job_77/step_batch\n", {}, ""),
    "none": ("0::/\n", {}, ""),
}


@pytest.mark.parametrize("row", CGROUPS)
def test_what_a_script_finds_of_its_cgroup(row: str, tmp_path: Path) -> None:
    own, files, expected = CGROUPS[row]
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    text = f'{part_text(FORMAT, "usage")}\njob_id=7\nmeasure "$1/cgroup" "$1/own" 2>/dev/null'

    said = subprocess.run(["bash", "-c", text, "bash", str(tmp_path)], capture_output=True, text=True, check=False)

    assert said.stdout.partition(" ")[2] == (f"{expected}\n" if expected else "")
    if expected:
        assert noted(said.stdout.encode(), time.time()) is not None
