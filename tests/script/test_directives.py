"""What is asked of each batch system, and which further directives may be added."""

from __future__ import annotations

import pytest

from router.errors import ConfigError
from router.hpc.requests import Allocation, Chunk, Request, size
from router.script.rendering import request_of
from router.site.directives import directive_problems
from router.site.systems import SYSTEMS
from tests.script.builders import container, route, site, workload

GIB = 1024**3


def lines(system: str, request: Request) -> list[str]:
    return list(SYSTEMS[system].directives(request))


def allocation(*chunks: Chunk, cores_per_rank: int = 1, walltime: int = 3900, deadline: int = 3600) -> Allocation:
    ranks = sum(chunk.count * chunk.ranks for chunk in chunks)
    return Allocation(chunks, ranks, cores_per_rank, walltime, deadline, grace=30)


ONE = allocation(Chunk(1, 1, 4, 4, 8 * GIB, 0), cores_per_rank=4)
EVEN = allocation(Chunk(2, 4, 8, 2, 3 * GIB, 0), cores_per_rank=2)
UNEVEN = allocation(Chunk(1, 4, 4, 1, 2 * GIB, 0), Chunk(2, 3, 3, 1, 3 * GIB // 2, 0))
GPUS = allocation(Chunk(2, 1, 4, 4, None, 2), cores_per_rank=4)


@pytest.mark.parametrize(
    ("asked", "exclusive", "expected"),
    [
        (ONE, False, ["-q q", "-l select=1:ncpus=4:mpiprocs=1:ompthreads=4:mem=8gb", "-l walltime=01:05:00"]),
        (
            EVEN,
            False,
            ["-q q", "-l select=2:ncpus=8:mpiprocs=4:ompthreads=2:mem=3gb", "-l place=scatter", "-l walltime=01:05:00"],
        ),
        (
            UNEVEN,
            False,
            [
                "-q q",
                "-l select=1:ncpus=4:mpiprocs=4:ompthreads=1:mem=2gb+2:ncpus=3:mpiprocs=3:ompthreads=1:mem=1536mb",
                "-l place=scatter",
                "-l walltime=01:05:00",
            ],
        ),
        (
            GPUS,
            True,
            [
                "-q q",
                "-l select=2:ncpus=4:mpiprocs=1:ompthreads=4:ngpus=2",
                "-l place=scatter:excl",
                "-l walltime=01:05:00",
            ],
        ),
    ],
)
@pytest.mark.parametrize("system", ["openpbs", "local"])
def test_openpbs(system: str, asked: Allocation, exclusive: bool, expected: list[str]) -> None:
    assert lines(system, Request("q", asked, None, None, {}, exclusive)) == expected


@pytest.mark.parametrize(
    ("asked", "exclusive", "expected"),
    [
        (ONE, False, ["-q q", "-l nodes=1:ppn=4", "-l mem=8gb", "-l walltime=01:05:00"]),
        (EVEN, False, ["-q q", "-l nodes=2:ppn=8", "-l mem=6gb", "-l walltime=01:05:00"]),
        (UNEVEN, False, ["-q q", "-l nodes=1:ppn=4+2:ppn=3", "-l mem=5gb", "-l walltime=01:05:00"]),
        (GPUS, True, ["-q q", "-l nodes=2:ppn=4:gpus=2", "-l naccesspolicy=singlejob", "-l walltime=01:05:00"]),
    ],
)
def test_torque(asked: Allocation, exclusive: bool, expected: list[str]) -> None:
    assert lines("torque", Request("q", asked, None, None, {}, exclusive)) == expected


@pytest.mark.parametrize(
    ("asked", "exclusive", "expected"),
    [
        (ONE, False, "--nodes=1 --ntasks=1 --ntasks-per-node=1 --cpus-per-task=4 --mem=8192M"),
        (EVEN, False, "--nodes=2 --ntasks=8 --ntasks-per-node=4 --cpus-per-task=2 --mem-per-cpu=384M"),
        (UNEVEN, False, "--nodes=3 --ntasks=10 --ntasks-per-node=4 --cpus-per-task=1 --mem-per-cpu=512M"),
        (GPUS, True, "--nodes=2 --ntasks=2 --ntasks-per-node=1 --cpus-per-task=4 --gres=gpu:2 --exclusive"),
    ],
)
def test_slurm(asked: Allocation, exclusive: bool, expected: str) -> None:
    found = lines("slurm", Request("q", asked, None, None, {}, exclusive))

    assert found == ["--partition=q", *expected.split(), "--time=01:05:00", "--signal=B:USR1@90"]


@pytest.mark.parametrize(
    ("walltime", "deadline", "seconds"),
    [
        (3900, 3600, 90),  # grace period and a minute, after the deadline
        (3630, 3600, 30),  # no room: with the deadline
        (3640, 3600, 40),
    ],
)
def test_slurm_s_own_warning_comes_no_earlier_than_the_deadline(walltime: int, deadline: int, seconds: int) -> None:
    asked = allocation(Chunk(1, 1, 1, 1, None, 0), walltime=walltime, deadline=deadline)

    assert f"--signal=B:USR1@{seconds}" in lines("slurm", Request("q", asked, None, None, {}, exclusive=False))


@pytest.mark.parametrize(
    ("system", "account", "project", "expected"),
    [
        ("openpbs", "phys", "proj", ["-A phys", "-P proj"]),
        ("openpbs", "my account", "a b", ['-A "my account"', '-P "a b"']),
        ("torque", "phys", "proj", ["-A phys"]),  # -P would name another user to run as
        ("slurm", "phys", "proj", ["--account=phys", "--wckey=proj"]),
    ],
)
def test_account_and_project(system: str, account: str, project: str, expected: list[str]) -> None:
    plain = lines(system, Request("q", ONE, None, None, {}, exclusive=False))
    named = lines(system, Request("q", ONE, account, project, {}, exclusive=False))

    assert [line for line in named if line not in plain] == expected


@pytest.mark.parametrize(
    ("system", "extra", "expected"),
    [
        ("openpbs", {"filesystems": "home:eagle"}, ["-l filesystems=home:eagle"]),
        ("openpbs", {"group_list": "phys"}, ["-W group_list=phys"]),
        ("openpbs", {"resource.my_licence": "2"}, ["-l my_licence=2"]),
        ("openpbs", {"place": "excl"}, ["-l place=excl"]),
        ("openpbs", {"place": "scatter:excl:group=rack"}, ["-l place=scatter:excl:group=rack"]),
        ("openpbs", {"priority": "-5"}, ["-p -5"]),
        ("slurm", {"licenses": "a:1,b:2"}, ["--licenses=a:1,b:2"]),
        ("openpbs", {"chunk.model": "a100"}, ["-l select=1:ncpus=4:mpiprocs=1:ompthreads=4:mem=8gb:model=a100"]),
        ("torque", {"node.model": "fast"}, ["-l nodes=1:ppn=4:fast"]),
        ("openpbs", {"chunk.arch": "linux"}, ["-l select=1:ncpus=4:mpiprocs=1:ompthreads=4:mem=8gb:arch=linux"]),
        ("torque", {"qos": "high"}, ["-l qos=high"]),
        ("torque", {"arch": "linux"}, ["-l arch=linux"]),
        ("torque", {"reservation": "r1"}, ["-W x=FLAGS:ADVRES:r1"]),
        ("slurm", {"qos": "high"}, ["--qos=high"]),
        ("slurm", {"constraint": "a&b"}, ["--constraint=a&b"]),
        ("slurm", {"exclusive": ""}, ["--exclusive"]),
    ],
)
def test_further_directives(system: str, extra: dict[str, str], expected: list[str]) -> None:
    plain = lines(system, Request("q", ONE, None, None, {}, exclusive=False))

    assert directive_problems(system, extra) == []
    assert [
        line for line in lines(system, Request("q", ONE, None, None, extra, exclusive=False)) if line not in plain
    ] == expected


def test_the_gpu_type_of_slurm() -> None:
    assert "--gres=gpu:a100:2" in lines("slurm", Request("q", GPUS, None, None, {"gpu-type": "a100"}, exclusive=False))


@pytest.mark.parametrize(
    ("system", "key", "value", "words"),
    [
        ("openpbs", "walltime", "1:00:00", "Batchgate writes it"),
        ("openpbs", "resource.walltime", "1", "Batchgate writes it"),
        ("openpbs", "chunk.ncpus", "64", "Batchgate writes it"),
        ("openpbs", "select", "2", "Batchgate writes it"),
        ("openpbs", "qsos", "x", "allowed are"),
        ("openpbs", "-o", "/tmp/x", "allowed are"),
        ("openpbs", "node.x", "y", "allowed are"),
        ("openpbs", "group_list", "a b", "has a blank"),
        ("openpbs", "qos", "", "has no value"),
        ("openpbs", "qos", "a\n#PBS -l x=1", "control"),
        ("openpbs", "qos", 'a"b', "a quote"),
        ("openpbs", "qos", "grün", "non-ASCII"),
        ("openpbs", "project", "a/b", "a slash"),
        ("openpbs", "account", "a\nb", "control"),
        ("openpbs", "resource.foo", "1,walltime=999:00:00", "a comma, which would begin something else"),
        ("openpbs", "filesystems", "home,walltime=999:00:00", "a comma"),
        ("openpbs", "place", "scatter,walltime=999:00:00", "a comma"),
        ("openpbs", "group_list", "g,block=true", "a comma"),
        ("openpbs", "chunk.foo", "1+64:ncpus=128", "'+', which would begin something else"),
        ("openpbs", "chunk.foo", "1:ncpus=128", "':'"),
        ("openpbs", "chunk.foo", "1,walltime=999:00:00", "a comma"),
        ("openpbs", "priority", "5,", "no whole number"),
        ("openpbs", "priority", "high", "no whole number"),
        ("openpbs", "resource.Walltime", "999:00:00", "Batchgate writes it"),
        ("openpbs", "resource.max_walltime", "999:00:00", "Batchgate writes it"),
        ("openpbs", "resource.min_walltime", "1", "Batchgate writes it"),
        ("openpbs", "resource.Soft_Walltime", "1", "Batchgate writes it"),
        ("openpbs", "chunk.NCPUS", "64", "Batchgate writes it"),
        ("openpbs", "arch", "linux", "OpenPBS takes it in chunks alone; write chunk.arch"),
        ("openpbs", "host", "n1", "OpenPBS takes it in chunks alone; write chunk.host"),
        ("openpbs", "resource.Arch", "linux", "OpenPBS takes it in chunks alone; write chunk.Arch"),
        ("openpbs", "resource.naccelerators", "1", "write chunk.naccelerators"),
        ("openpbs", "partition", "p1", "OpenPBS refuses requests for it"),
        ("local", "resource.foo", "1,walltime=999:00:00", "a comma"),
        ("torque", "node.foo", "a+64:ppn=16", "'+'"),
        ("torque", "node.foo", "a:ppn=16", "':'"),
        ("torque", "node.foo", "ppn=16", "'='"),
        ("torque", "node.foo", "a#excl", "'#'"),
        ("torque", "reservation", "r,umask=000", "a comma"),
        ("torque", "reservation", "r;DEPEND:x", "';'"),
        ("torque", "qos", "high,nodes=64", "a comma"),
        ("torque", "resource.PROCS", "64", "Batchgate writes it"),
        ("slurm", "clusters", "other", "allowed are"),
        ("slurm", "cluster-constraint", "fast", "allowed are"),
        ("slurm", "gpu-type", "a100:8", "':'"),
        ("slurm", "gpu-type", "a100,license=x", "a comma"),
        ("torque", "place", "excl", "Batchgate writes it"),
        ("torque", "chunk.x", "y", "allowed are"),
        ("slurm", "partition", "x", "Batchgate writes it"),
        ("slurm", "uid", "0", "allowed are"),
        ("slurm", "export", "ALL", "allowed are"),
        ("slurm", "wrap", "x", "allowed are"),
        ("slurm", "qos", "a\x00b", "control"),
    ],
)
def test_what_may_not_be_added(system: str, key: str, value: str, words: str) -> None:
    problems = directive_problems(system, {key: value})

    assert len(problems) == 1
    assert words in problems[0]


def test_all_problems_at_once() -> None:
    assert len(directive_problems("slurm", {"uid": "0", "qos": "a\nb", "wrap": "\t"})) == 4


def test_the_later_of_two_that_name_the_same_directive_wins() -> None:
    where = site(directives={"qos": "site", "software": "s"}, queue={"directives": {"qos": "queue"}})
    chosen = route(workload(container("true")), where, directives={"qos": "rule"})

    assert request_of(chosen, exclusive=False).extra == {"qos": "rule", "software": "s"}


def test_a_text_that_no_directive_can_hold_never_gets_there() -> None:
    chosen = route(workload(container("true")), site(), account="a\n#PBS -q root")

    with pytest.raises(ConfigError, match="control"):
        request_of(chosen, exclusive=False)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "1kb"),
        (1024, "1kb"),
        (1025, "2kb"),
        (1024**2, "1mb"),
        (1536 * 1024**2, "1536mb"),
        (GIB, "1gb"),
        (2**40, "1024gb"),
    ],
)
def test_sizes_have_a_unit_and_are_rounded_up(count: int, text: str) -> None:
    assert size(count) == text
