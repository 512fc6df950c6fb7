"""MPI Jobs over the bed's nodes, started by Open MPI's mpirun and by srun: an ordinary command each, real ranks.

The programs are ``bed/ring.c`` and ``bed/ranks.c``, in the bed's image.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bed.daemons import node_tmp
from bed.layout import NODES
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, job, job_id, pod_of, printed
from tests.agent.bed.site import ADA, LAYOUT, SUDO, TALLY, BedSite, slurm
from tests.agent.bed.tally import await_empty, await_ends
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1200)]

LAUNCHERS = ("mpirun", "srun")
NEVER = "/no/such/file"
"""Ranks that wait for it wait until they are ended."""


@dataclass(frozen=True)
class MpiSite(BedSite):
    """The bed with both launchers: the image's name says which, and what it is called the users' commands need not know."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        found["sites.yaml"]["sites"][0]["mpi"] = [
            {
                "name": "slurm",
                "launcher": "srun",
                "images": ["srun/*"],
                "options": ["--mpi=pmix"],
                # The shared-memory store of Debian's PMIx fails now and then under srun, in containers or not.
                "env": {"PMIX_MCA_gds": "hash", "OMPI_MCA_btl_tcp_if_include": "lo"},
            },
            {
                "name": "reporting",
                "launcher": "openmpi",
                "images": ["report/*"],
                "options": ["--report-bindings"],
                "env": {"OMPI_MCA_btl_tcp_if_include": "lo"},
            },
            {"name": "open-mpi", "launcher": "openmpi", "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}},
        ]
        return found


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    for left in scratch():  # of jobs that other tests have killed
        shutil.rmtree(left)
    with reached(cluster, SUDO, kind=MpiSite) as found:
        yield found


def mpi(launcher: str, *command: str, cpus: int, nodes: int | None = None, **pod: Any) -> dict[str, Any]:
    """A Job with this command; ``nodes`` is the hint. Its container sees the directory of the tally."""
    made = job("", pod=pod)
    if nodes is not None:
        made["metadata"]["annotations"]["batchgate.dev/nodes"] = str(nodes)
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"{launcher}/programs:1"
    container["command"] = list(command)
    # Of each core; the runtime, its image and the launcher's daemon are in it.
    container["resources"] = {"requests": {"cpu": str(cpus), "memory": f"{cpus * 160}Mi"}}
    container["volumeMounts"] = [{"name": "tally", "mountPath": str(TALLY)}]
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "tally", "hostPath": {"path": str(TALLY)}}]
    return made


def fields(line: str) -> dict[str, str]:
    """What a rank has printed of itself: ``name=value`` words."""
    return dict(word.split("=", 1) for word in line.split())


def nodes_of(batch_job: str) -> list[str]:
    """The nodes that Slurm gave to a job."""
    found = re.search(r"\bNodeList=(\S+)", slurm("scontrol", "show", "job", batch_job))
    assert found
    return slurm("scontrol", "show", "hostnames", found[1]).split()


def work_of(batch_job: str) -> Path:
    """The Pod's directory of a job."""
    found = re.search(r"\bWorkDir=(\S+)", slurm("scontrol", "show", "job", batch_job))
    assert found
    return Path(found[1])


@dataclass(frozen=True)
class Case:
    """How many ranks, what is asked beside them, and how many there are on each node, the most first."""

    ranks: int
    spread: tuple[int, ...]
    nodes: int | None = None
    cpus_per_rank: int = 1


CASES = {
    "one node": Case(4, (4,)),
    "two nodes": Case(8, (4, 4)),
    "four nodes": Case(8, (2, 2, 2, 2), nodes=4),
    "all that there is": Case(16, (4, 4, 4, 4)),
    "unevenly on two nodes": Case(7, (4, 3)),
    "unevenly on three nodes": Case(10, (4, 3, 3)),
    "unevenly on four nodes": Case(10, (3, 3, 2, 2), nodes=4),
    "with threads": Case(8, (2, 2, 2, 2), cpus_per_rank=2),
}


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[tuple[str, str], str]:
    """The Job of each case and launcher, when all are over."""
    made = {}
    for launcher in LAUNCHERS:
        for name, case in CASES.items():
            words = ("mpirun", "-np", str(case.ranks), "-x", "MODE=fast", "ranks", "OMP_NUM_THREADS", "MODE", "OWN")
            one = mpi(launcher, *words, cpus=case.ranks * case.cpus_per_rank, nodes=case.nodes)
            one["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OWN", "value": "the-job-s"}]
            made[launcher, name] = apply(stack.ada, one)
    await_ends(stack.ada, list(made.values()), seconds=3 * SECONDS)
    return made


@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("row", CASES)
def test_each_rank_knows_its_place_and_its_values(
    stack: Stack, over: dict[tuple[str, str], str], row: str, launcher: str
) -> None:
    case, name = CASES[row], over[launcher, row]

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    ranks = sorted((fields(line) for line in printed(stack.ada, name)), key=lambda rank: int(rank["rank"]))
    nodes = [rank.pop("node") for rank in ranks]
    cores = {rank.pop("cores") for rank in ranks}
    values = {"container": "yes", "OMP_NUM_THREADS": str(case.cpus_per_rank), "MODE": "fast", "OWN": "the-job-s"}
    assert ranks == [{"rank": str(rank), "size": str(case.ranks), **values} for rank in range(case.ranks)]
    assert tuple(sorted(Counter(nodes).values(), reverse=True)) == case.spread
    # On one node ranks have the Pod's name as any container has.
    several = len(case.spread) > 1
    given = nodes_of(job_id(stack.ada, name)) if several else [pod_of(stack.ada, name)["metadata"]["name"]]
    assert (set(nodes), nodes[0]) == (set(given), given[0])
    assert len(cores) == 1  # bound to nothing, as nothing asks for it


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_on_four_nodes_talk_to_each_other(stack: Stack, launcher: str) -> None:
    name = apply(stack.ada, mpi(launcher, "mpirun", "-np", "8", "ring", cpus=8, nodes=4))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    found = [fields(line) for line in printed(stack.ada, name)]
    assert sorted((one["rank"], one["from"], one["sum"]) for one in found) == [
        (str(rank), str((rank - 1) % 8), "36") for rank in range(8)
    ]
    assert {one["node"] for one in found} == set(NODES)


WHERE = "WHERE=$$(pwd) exec ranks WHERE"
PLACED = {
    "by node and core": (
        (
            "report",
            "mpirun",
            "-np",
            "4",
            "--map-by",
            "node",
            "--bind-to",
            "core",
            "--oversubscribe",
            "--report-bindings",
            "-wdir",
            "/var/tmp",
        ),
        [("0", "first", "0"), ("1", "second", "0"), ("2", "first", "1"), ("3", "second", "1")],
    ),
    "by slot and core": (
        ("report", "mpirun", "-np", "4", "--map-by", "slot", "--bind-to", "core", "--wdir", "/var/tmp"),
        [("0", "first", "0"), ("1", "first", "1"), ("2", "second", "0"), ("3", "second", "1")],
    ),
    "cyclic by srun": (
        ("srun", "srun", "-n", "4", "--distribution=cyclic", "--chdir=/var/tmp"),
        [("0", "first", ""), ("1", "second", ""), ("2", "first", ""), ("3", "second", "")],
    ),
    "block by srun": (
        ("srun", "srun", "-n", "4", "--distribution", "block", "-D", "/var/tmp"),
        [("0", "first", ""), ("1", "first", ""), ("2", "second", ""), ("3", "second", "")],
    ),
}
"""Launcher's words; each rank, its node and core. The bed's Slurm binds to no cores. Two ranks a node: it has two cores."""


@pytest.mark.parametrize("row", PLACED)
def test_ranks_are_where_the_user_s_launcher_puts_them(stack: Stack, row: str) -> None:
    (launcher, *words), expected = PLACED[row]

    name = apply(stack.ada, mpi(launcher, *words, "sh", "-c", WHERE, cpus=4, nodes=2))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    first, second = nodes_of(job_id(stack.ada, name))
    lines = printed(stack.ada, name)
    found = sorted((fields(line) for line in lines if line.startswith("rank=")), key=lambda rank: rank["rank"])
    titles = {first: "first", second: "second"}
    cores = {rank["rank"]: rank["cores"] if launcher == "report" else "" for rank in found}
    assert [(rank["rank"], titles[rank["node"]], cores[rank["rank"]]) for rank in found] == expected
    assert {rank["WHERE"] for rank in found} == {"/var/tmp"}
    reported = [line for line in lines if re.search(r"MCW rank \d bound to socket 0\[core \d\[hwt 0\]\]", line)]
    assert len(reported) == (4 if launcher == "report" else 0)  # by the option of the profile


def waiting(stack: Stack, launcher: str, *options: str, grace: int) -> str:
    """A Job of eight ranks on four nodes that all run and wait, and write to the tally; its name."""
    made = mpi(launcher, "", cpus=8, nodes=4, terminationGracePeriodSeconds=grace)
    file = TALLY / made["metadata"]["name"]
    text = f"exec ranks -w {NEVER} {' '.join(options)} >>{file}"
    made["spec"]["template"]["spec"]["containers"][0]["command"] = ["mpirun", "-np", "8", "/bin/sh", "-c", text]
    name = apply(stack.ada, made)
    until(lambda: words_of(name, "node"), lambda found: found == set(range(8)), seconds=SECONDS, what="for the ranks")
    return name


def words_of(name: str, word: str) -> set[int]:
    """The ranks of a Job that have written a line with this word."""
    file = TALLY / name
    lines = file.read_text().splitlines() if file.exists() else []
    return {int(line.split()[0].removeprefix("rank=")) for line in lines if word in line}


def commands_of(user: str) -> dict[int, str]:
    """The commands of a user's processes on all nodes, but for those of connections, mounts and the agent."""
    uid, found = str(pwd.getpwnam(user).pw_uid), {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            status = (process / "status").read_text()
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if re.search(rf"^Uid:\t{uid}\t", status, re.MULTILINE) and words:
                found[int(process.name)] = words
    return {pid: words for pid, words in found.items() if not re.search(r"sitehelper|^sudo|^ssh", words)}


def await_nothing_left(name: str) -> None:
    """Until no process of the user and nothing in a node's /tmp is left of a Job: ranks, their images, launchers."""
    await_empty(name)
    until(lambda: commands_of(ADA), lambda found: not found, what="for the end of the user's processes")
    assert scratch() == []


def scratch() -> list[Path]:
    """What scripts and ranks have made in the /tmp of the nodes and not removed."""
    return [path for node in NODES for path in node_tmp(LAYOUT, node).glob("batchgate.*")]


def rank_of(pid: int) -> str:
    """The number of the rank that a process is, by what its launcher has set."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(entry.partition(b"=")[2].decode() for entry in environment if entry.startswith(b"PMIX_RANK="))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_rank_that_is_killed_ends_the_job(stack: Stack, launcher: str) -> None:
    name = waiting(stack, launcher, grace=30)
    programs = {rank_of(pid): pid for pid, words in commands_of(ADA).items() if words.startswith("ranks ")}
    assert sorted(programs) == [str(rank) for rank in range(8)]

    os.kill(programs["5"], signal.SIGKILL)

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 137
    await_nothing_left(name)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_rank_that_fails_ends_the_job_with_its_code(stack: Stack, launcher: str) -> None:
    words = ("mpirun", "-np", "8", "ranks", "-w", NEVER, "-f", "5", "-s", "9")

    name = apply(stack.ada, mpi(launcher, *words, cpus=8, nodes=4))

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 9
    await_nothing_left(name)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_job_that_is_deleted_gives_all_ranks_their_time_and_leaves_nothing(stack: Stack, launcher: str) -> None:
    name = waiting(stack, launcher, "-g", "15", "-s", "6", grace=60)
    directory = work_of(job_id(stack.ada, name))
    assert [words for words in commands_of(ADA).values() if "squashfuse_ll" in words]

    stack.ada.ok("delete", "job", name, "--wait=false")

    until(
        lambda: stack.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, seconds=SECONDS, what="for its end"
    )
    assert (words_of(name, "asked"), words_of(name, "ready")) == (set(range(8)), set(range(8)))
    assert json.loads((directory / "exit" / "main.0").read_text())["code"] == 6
    await_nothing_left(name)


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ranks_that_do_not_end_are_killed_after_the_grace_period(stack: Stack, launcher: str) -> None:
    name = waiting(stack, launcher, "-g", "600", grace=5)

    stack.ada.ok("delete", "pod", pod_of(stack.ada, name)["metadata"]["name"], "--wait=false")

    assert await_ends(stack.ada, [name]) == {name: "Failed"}
    await_nothing_left(name)
    assert (words_of(name, "asked"), words_of(name, "ready")) == (set(range(8)), set())


def test_a_node_whose_daemon_is_killed_ends_the_job(stack: Stack) -> None:
    """As the batch system's kill for memory, or an admin, may take mpirun's own process on another node."""
    name = waiting(stack, "mpirun", grace=30)
    (daemon, *_) = [pid for pid, words in commands_of(ADA).items() if "orted -mca" in words and "srun" not in words]

    os.kill(daemon, signal.SIGKILL)

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) not in {0, 255}
    await_nothing_left(name)


EAT = "x = []\nwhile True: x.append(bytearray(1 << 24))"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_rank_that_takes_too_much_memory_on_another_node_ends_the_job(stack: Stack, launcher: str) -> None:
    text = f"if [ $$PMIX_RANK = 7 ]; then exec python3 -c '{EAT}'; else exec ranks -w {NEVER}; fi"

    name = apply(stack.ada, mpi(launcher, "mpirun", "-np", "8", "sh", "-c", text, cpus=8, nodes=4))

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 137
    await_nothing_left(name)
