"""MPI Jobs over the hosts of a real OpenPBS or TORQUE: an ordinary command each, Open MPI's mpirun of the hosts, real ranks.

They need two execution hosts with four cores each whose processes this machine shows: daemons in network
namespaces with names of their own, say. Debian's Open MPI has been built without OpenPBS' library, so that its daemons
on the other hosts are started by OpenPBS' ``pbs_tmrsh`` or TORQUE's ``pbsdsh``, which the MPI profile names. Programs: ``bed/ranks.c`` and
``bed/ring.c`` in the bed's image.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.names import ENV_DIR
from tests.agent.bed.jobs import SECONDS, apply, end_of, exit_code, job, job_id, pod_of, printed
from tests.agent.pbs import server
from tests.agent.pbs.conftest import Cluster, Stack, attended
from tests.agent.pbs.jobs import await_ends, waits
from tests.agent.pbs.site import ADA, RUNS, SHARED, obstacle
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.pbs, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1200)]

CORES = 4
"""Of a host that a Job may have."""
NEVER = "/no/such/file"
"""Ranks that wait for it wait until they are ended."""
EVERY = set(range(5))
"""The ranks of a Job of ``running``."""
AGENT = SHARED / "tmrsh"
"""What Open MPI takes for ssh: ``pbs_tmrsh``, on TORQUE ``pbsdsh``, starts words, where ssh gives them to a shell."""


def agent() -> str:
    """The text of ``AGENT``, which every host must have."""
    if server.TORQUE:
        # Else a signal to the job, which MoM hands to all that TM has started, would end Open MPI's daemon at once.
        return f'#!/bin/sh\nhost=$1\nshift\nexec {server.program("pbsdsh")} -h "$host" setsid -w /bin/sh -c "$*"\n'
    return f'#!/bin/sh\nhost=$1\nshift\nexec {server.program("pbs_tmrsh")} "$host" /bin/sh -c "$*"\n'


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    if words := obstacle() or too_few_hosts():
        pytest.skip(words)
    OLD.update(scratch())
    AGENT.write_text(agent())
    AGENT.chmod(0o755)
    profile = {"name": "open-mpi", "launcher": "openmpi", "env": {"OMPI_MCA_plm_rsh_agent": str(AGENT)}}
    with attended(cluster, named={"site": {"mpi": [profile]}, "queue": {"nodes": 2}}) as found:
        yield found
    AGENT.unlink()


def too_few_hosts() -> str:
    """Why there are no Jobs over two hosts here; empty where there can be."""
    fit = [one for one, cores in server.hosts().items() if cores >= CORES]
    seen = len(daemons())
    return "" if min(len(fit), seen) > 1 else f"{len(fit)} hosts with {CORES} cores, {seen} daemons on this machine"


def mpi(*command: str, cpus: int, nodes: int | None = None, **pod: Any) -> dict[str, Any]:
    """A Job with this command; ``nodes`` is the hint. Its container sees the directory of the runs."""
    made = job("", pod={"volumes": [{"name": "runs", "hostPath": {"path": str(RUNS.directory)}}], **pod})
    if nodes is not None:
        made["metadata"]["annotations"]["batchgate.dev/nodes"] = str(nodes)
    made["spec"]["template"]["spec"]["containers"][0] |= {
        "command": list(command),
        "resources": {"requests": {"cpu": str(cpus), "memory": f"{cpus * 160}Mi"}},
        "volumeMounts": [{"name": "runs", "mountPath": str(RUNS.directory)}],
    }
    return made


def fields(line: str) -> dict[str, str]:
    """What a rank has printed of itself: ``name=value`` words."""
    return dict(word.split("=", 1) for word in line.split())


def given(batch_job: str) -> dict[str, int]:
    """The cores that a job was given, by host, in the server's order.

    OpenPBS: ``a/0*3+b/0*2``, one core without a star; TORQUE: ``a/0-2+b/0,2``.
    """
    found: Counter[str] = Counter()
    for chunk in server.attribute(batch_job, "exec_host").split("+"):
        host, _, slot = chunk.partition("/")
        found[host] += _cores(slot) if server.TORQUE else int(slot.partition("*")[2] or 1)
    return dict(found)


def _cores(slots: str) -> int:
    """How many cores ``0-2,5`` are."""
    spans = (span.partition("-") for span in slots.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in spans)


@dataclass(frozen=True)
class Case:
    """How many ranks, what is asked beside them, and how many there are on each host: in OpenPBS' order, TORQUE has its
    own.
    """

    ranks: int
    spread: tuple[int, ...]
    nodes: int | None = None
    cpus_per_rank: int = 1


CASES = {
    "one host": Case(4, (4,)),
    "two hosts": Case(8, (4, 4)),
    "one rank a host": Case(2, (1, 1), nodes=2),
    "unevenly": Case(5, (3, 2)),
    "unevenly with threads": Case(3, (2, 1), cpus_per_rank=2),
    "with threads": Case(4, (2, 2), cpus_per_rank=2),
}


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[str, str]:
    """The Job of each case, when all are over."""
    made = {}
    for name, case in CASES.items():
        words = ("mpirun", "-np", str(case.ranks), "-x", "MODE=fast", "ranks", "OMP_NUM_THREADS", "MODE", "OWN")
        one = mpi(*words, cpus=case.ranks * case.cpus_per_rank, nodes=case.nodes)
        one["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OWN", "value": "the-job-s"}]
        made[name] = apply(stack.ada, one)
    await_ends(stack.ada, *made.values())
    return made


@pytest.mark.parametrize("row", CASES)
def test_each_rank_knows_its_place_and_its_values(stack: Stack, over: dict[str, str], row: str) -> None:
    case, name = CASES[row], over[row]

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    # Open MPI may warn that a process group it sets was set already.
    said = [line for line in printed(stack.ada, name) if "plm:rsh: Warning: setpgid" not in line]
    ranks = sorted((fields(line) for line in said), key=lambda rank: int(rank["rank"]))
    nodes = [rank.pop("node") for rank in ranks]
    cores = {rank.pop("cores") for rank in ranks}
    values = {"container": "yes", "OMP_NUM_THREADS": str(case.cpus_per_rank), "MODE": "fast", "OWN": "the-job-s"}
    assert ranks == [{"rank": str(rank), "size": str(case.ranks), **values} for rank in range(case.ranks)]
    found = given(job_id(stack.ada, name))
    spread = tuple(count // case.cpus_per_rank for count in found.values())
    assert (tuple(sorted(spread, reverse=True)) if server.TORQUE else spread) == case.spread
    assert nodes == [host for host, count in zip(found, spread, strict=True) for _ in range(count)]
    assert len(cores) == 1  # bound to nothing, as nothing asks for it


def test_ranks_on_two_hosts_talk_to_each_other(stack: Stack) -> None:
    name = apply(stack.ada, mpi("mpirun", "-np", "6", "ring", cpus=6))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    found = [fields(line) for line in printed(stack.ada, name)]
    assert sorted((one["rank"], one["from"], one["sum"]) for one in found) == [
        (str(rank), str((rank - 1) % 6), "21") for rank in range(6)
    ]
    assert {one["node"] for one in found} == set(given(job_id(stack.ada, name)))


def test_launchers_in_shell_text_start_their_ranks_on_both_hosts(stack: Stack) -> None:
    """Two launches one after another: the output of the first is read by a pipe, the code of the second by the shell."""
    text = "cd /tmp && mpirun -np 6 ring | sort >out && cat out; mpirun -np 6 sh -c 'exit 3' 2>/dev/null; echo code=$?"

    name = apply(stack.ada, mpi("sh", "-c", text, cpus=6))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    found = [fields(line) for line in printed(stack.ada, name) if "plm:rsh: Warning: setpgid" not in line]
    *ranks, last = found
    assert [(one["rank"], one["from"], one["sum"]) for one in ranks] == [
        (str(rank), str((rank - 1) % 6), "21") for rank in range(6)
    ]
    assert {one["node"] for one in ranks} == set(given(job_id(stack.ada, name)))
    assert len({one["node"] for one in ranks}) == 2
    assert last == {"code": "3"}


def altered(stack: Stack, made: dict[str, Any], *selects: str) -> str:
    """A Job whose batch job gets other resources before it is started, as a site's hook may give it; its name."""
    with server.setting("scheduling", "False"):
        name = apply(stack.ada, made)
        until(lambda: waits(stack.ada, name)[0], lambda word: word == "Queued", seconds=SECONDS, what="for its wait")
        words = (word for select in selects for word in ("-l", select))
        server.ok("qalter", *words, job_id(stack.ada, name))
    return name


@pytest.mark.skipif(server.TORQUE, reason="TORQUE gives each host once")
def test_a_host_that_comes_again_in_the_node_file_has_all_its_ranks(stack: Stack) -> None:
    """Hosts A, A, B, B, A, a line a rank: three on A, the first three, and two on B."""
    first, second = [host for host, cores in server.hosts().items() if cores >= CORES][:2]
    chunks = [f"1:ncpus={ranks}:mpiprocs={ranks}:host={host}" for host, ranks in ((first, 2), (second, 2), (first, 1))]

    name = altered(stack, mpi("mpirun", "-np", "5", "ranks", cpus=5), f"select={'+'.join(chunks)}", "place=free")

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    batch_job = job_id(stack.ada, name)
    order = [chunk.partition("/")[0] for chunk in server.attribute(batch_job, "exec_host").split("+")]
    assert order == [first, second, first]
    found = sorted((int(rank["rank"]), rank["node"], rank["size"]) for rank in map(fields, printed(stack.ada, name)))
    assert found == [(rank, first if rank < 3 else second, "5") for rank in range(5)]


FEWER = "nodes=1:ppn=2" if server.TORQUE else "select=1:ncpus=2:mpiprocs=2"


def test_fewer_places_than_ranks_are_no_job(stack: Stack) -> None:
    """Without a rank, and with both figures: an Open MPI that was told so many would start none either, or too many."""
    name = altered(stack, mpi("mpirun", "-np", "4", "ranks", cpus=4), FEWER)

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 1
    assert printed(stack.ada, name) == ["batchgate: the batch system gave places for 2 ranks, and 4 are to run"]


@contextlib.contextmanager
def running(stack: Stack, *options: str, grace: int) -> Iterator[str]:
    """A Job of five ranks on two hosts that all run and wait, and write to a file of the runs; its name."""
    made = mpi("", cpus=5, terminationGracePeriodSeconds=grace)
    file = RUNS.directory / made["metadata"]["name"]
    text = f"exec ranks -w {NEVER} {' '.join(options)} >>{file}"
    made["spec"]["template"]["spec"]["containers"][0]["command"] = ["mpirun", "-np", "5", "/bin/sh", "-c", text]
    name = apply(stack.ada, made)
    try:
        until(lambda: ranks_that(name, "node"), lambda found: found == EVERY, seconds=SECONDS, what="for the ranks")
        yield name
    finally:  # the next one needs its cores
        stack.ada.run("delete", "job", name, "--ignore-not-found", "--wait=false")


def ranks_that(name: str, word: str) -> set[int]:
    """The ranks of a Job that have written a line with this word."""
    file = RUNS.directory / name
    lines = file.read_text().splitlines() if file.exists() else []
    return {int(line.split()[0].removeprefix("rank=")) for line in lines if word in line}


def processes(user: str) -> dict[int, str]:
    """The commands of a user's processes on all execution hosts, but for those of the agent, and of qsub, which stays a
    minute.
    """
    hosts, uid, found = daemons(), str(pwd.getpwnam(user).pw_uid), {}
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            status = (process / "status").read_text()
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if re.search(rf"^Uid:\t{uid}\t", status, re.MULTILINE) and words and host_of(int(process.name)) in hosts:
                found[int(process.name)] = words
    return {pid: words for pid, words in found.items() if not re.search(r"sitehelper|^sudo|^(\S*/)?qsub ", words)}


def daemons() -> dict[str, int]:
    """The daemons of the execution hosts on this machine, one for each host name that they have."""
    return {host_of(pid): pid for pid in server.pids("mom")}


def host_of(pid: int) -> str:
    """What stands for the host of a process: its host name's namespace."""
    return str(Path(f"/proc/{pid}/ns/uts").readlink())


OLD: set[Path] = set()
"""What stood in the hosts' /tmp before the first of these tests: crashed hosts clear nothing."""


def scratch() -> list[Path]:
    """What scripts and ranks have made on the hosts and not removed: below /tmp, or below the job's own directory there."""
    places = [Path(f"/proc/{pid}/root", place) for pid in daemons().values() for place in ("tmp", "var/tmp")]
    return [path for place in places for found in ("batchgate.*", "*/batchgate.*") for path in place.glob(found)]


def await_nothing_left() -> None:
    """Until no process of the user and nothing in a host's /tmp is left: ranks, their images, launchers."""
    until(lambda: server.living(ADA), lambda found: not found, seconds=SECONDS, what="for the end of the jobs")
    until(lambda: processes(ADA), lambda found: not found, what="for the end of the user's processes")
    assert [path for path in scratch() if path not in OLD] == []


def rank_of(pid: int) -> str:
    """The number of the rank that a process is, by what its launcher has set."""
    environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return next(entry.partition(b"=")[2].decode() for entry in environment if entry.startswith(b"PMIX_RANK="))


@pytest.mark.parametrize("rank", ["0", "4"])
def test_a_rank_that_is_killed_ends_the_job(stack: Stack, rank: str) -> None:
    """One beside the script, and one on the other host."""
    with running(stack, grace=30) as name:
        programs = {rank_of(pid): pid for pid, words in processes(ADA).items() if words.startswith("ranks ")}
        assert {int(number) for number in programs} == EVERY

        os.kill(programs[rank], signal.SIGKILL)

        assert end_of(stack.ada, name) == "Failed"
        assert exit_code(stack.ada, name) == 137
        await_nothing_left()


@pytest.mark.parametrize("rank", ["0", "4"])
def test_a_rank_that_fails_ends_the_job_with_its_code(stack: Stack, rank: str) -> None:
    name = apply(stack.ada, mpi("mpirun", "-np", "5", "ranks", "-w", NEVER, "-f", rank, "-s", "9", cpus=5))

    assert end_of(stack.ada, name) == "Failed"
    assert exit_code(stack.ada, name) == 9
    await_nothing_left()


def delete(stack: Stack, name: str) -> None:
    stack.ada.ok("delete", "job", name, "--wait=false")


def qdel(stack: Stack, name: str) -> None:
    """They have what the queue's ``kill_delay`` gives, 10 seconds where it says nothing."""
    server.ok("qdel", job_id(stack.ada, name))


def have_their_time(stack: Stack, end: Callable[[Stack, str], None], seconds: int) -> None:
    """A Job of ranks that say they were asked, and that they are ready so many seconds later, is ended in this way."""
    with running(stack, "-g", str(seconds), "-s", "6", grace=60) as name:
        directory = Path(server.variables(job_id(stack.ada, name))[ENV_DIR])
        images = [pid for pid, words in processes(ADA).items() if "squashfuse_ll" in words]
        assert len({host_of(pid) for pid in images}) == 2

        end(stack, name)

        until(lambda: server.living(ADA), lambda found: not found, seconds=SECONDS, what="for the end of the job")
        assert (ranks_that(name, "asked"), ranks_that(name, "ready")) == (EVERY, EVERY)
        assert json.loads((directory / "exit" / "main.0").read_text())["code"] == 6
        if end is delete:
            until(lambda: stack.ada.every("pods", f"{LABEL}={name}"), lambda pods: not pods, seconds=SECONDS)
        await_nothing_left()


@pytest.mark.skipif(server.TORQUE, reason="TORQUE's qdel kills what runs on a job's other hosts at once")
def test_ranks_that_trap_qdel_have_what_the_queue_gives(stack: Stack) -> None:
    have_their_time(stack, qdel, 4)


def test_ranks_that_trap_the_end_have_their_time_on_each_host(stack: Stack) -> None:
    have_their_time(stack, delete, 15)


def test_ranks_that_do_not_end_are_killed_after_the_grace_period(stack: Stack) -> None:
    with running(stack, "-g", "600", grace=5) as name:
        stack.ada.ok("delete", "pod", pod_of(stack.ada, name)["metadata"]["name"], "--wait=false")

        assert await_ends(stack.ada, name) == {name: "Failed"}
        await_nothing_left()
        assert (ranks_that(name, "asked"), ranks_that(name, "ready")) == (EVERY, set())
