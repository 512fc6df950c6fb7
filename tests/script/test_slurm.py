"""Scripts under a real Slurm: the bed's four nodes, one of its users, over ssh (``make bed``)."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bed.commands import BedError
from bed.layout import USERS
from bed.standing import layout, variant
from router.demo import sandbox
from router.site.schema import Site
from tests.script.builders import IMAGE, container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod, wait_for
from tests.script.test_values import written

USER = USERS[0]
LAYOUT = layout()
SSH = ("ssh", "-F", str(LAYOUT.state / "ssh" / "ssh_config"), "-o", "ConnectTimeout=5", USER)
SPREAD = {"batchgate.dev/ranks-per-node": "2", "batchgate.dev/walltime": "5m"}
MPI_ENV = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_btl_tcp_if_include": "lo"}
"""Ranks of one node may not copy from each other's memory, and nodes meet on the loopback interface (docs/bed.md)."""


def _missing() -> str:
    if os.getuid() != 0:
        return "needs root to hand files to the bed's user"
    try:
        variant(LAYOUT)
        up = subprocess.run([*SSH, "timeout 10 sinfo -h"], capture_output=True, check=False, timeout=20)
    except BedError as error:
        return str(error)
    except subprocess.TimeoutExpired:
        return "the bed's login node does not answer (make bed)"
    return "" if up.returncode == 0 else f"the bed's Slurm does not answer (make bed): {up.stderr.decode()}"


MISSING = _missing()
pytestmark = [pytest.mark.slurm, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


def login(command: str) -> str:
    run = subprocess.run([*SSH, command], capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return run.stdout


class Bed(Pod):
    """A Pod's directory of the bed's user, with jobs submitted as the agent does."""

    def submit(self, text: str) -> str:
        path = self.path / "script"
        path.write_text(text)
        own(self.work)
        words = ["sbatch", "--parsable", "--no-requeue", "--export=NONE", "--job-name=pod.cluster.uid", "--chdir=/"]
        line = shlex.join([*words, f"--output={self.path}/output", str(path), str(self.path)])
        return login(line).strip().partition(";")[0]

    def ended(self, job: str) -> str:
        """The job's ExitCode as Slurm says it, when it is over."""
        return str(wait_for(lambda: _exit_code(job), f"for the end of job {job}: {self.log()}"))

    def said(self) -> str:
        path = self.path / "output"
        return path.read_text() if path.exists() else ""


def _exit_code(job: str) -> str:
    shown = login(f"scontrol show job {job}")
    if re.search(r"JobState=(PENDING|CONFIGURING|RUNNING|COMPLETING)", shown):
        return ""
    found = re.search(r"ExitCode=(\S+)", shown)
    return found[1] if found else ""


def own(path: Path) -> None:
    user = pwd.getpwnam(USER)
    for folder, _, files in os.walk(path):
        for name in [folder, *[os.path.join(folder, file) for file in files]]:  # noqa: PTH118
            os.chown(name, user.pw_uid, user.pw_gid, follow_symlinks=False)


@pytest.fixture
def bed() -> Iterator[Bed]:
    work = LAYOUT.work / USER / f"batchgate-test-{uuid.uuid4()}"
    bed = Bed(work)
    bed.make()
    yield bed
    login(f"scancel --user={USER} --name=pod.cluster.uid")
    wait_for(lambda: not login(f"squeue -h --user={USER} --name=pod.cluster.uid").strip())
    shutil.rmtree(work)


def where(launcher: str = "openmpi", **fields: Any) -> Site:
    options = ["--mpi=pmix"] if launcher == "srun" else []
    # The shared-memory store of Debian's PMIx fails now and then under srun, in containers or not.
    env = {"PMIX_MCA_gds": "hash"} if launcher == "srun" else {}
    return site(
        "slurm",
        images=[{"match": "mpi:*", "path": str(LAYOUT.image)}, *fields.pop("images", [])],
        mpi=[{"name": "mpi", "launcher": launcher, "options": options, "env": MPI_ENV | env}],
        queue={"name": "batch", "nodes": 2, "cpusPerNode": 4},
        **fields,
    )


def ranks(*words: str, **fields: Any) -> dict[str, Any]:
    return container("mpirun", "-np", "4", *words, image="mpi:1", resources={"requests": {"cpu": "4"}}, **fields)


def rank_lines(log: str) -> list[str]:
    """What ``ring`` has printed, by rank."""
    return sorted(line for line in log.splitlines() if line.startswith("rank="))


def test_a_container_with_its_values_and_exit_code(bed: Bed) -> None:
    image = bed.work / "image"
    sandbox.build(image)
    env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]
    main = container(
        "/bin/sh", "-c", 'printf "%s\\0" "$$@" "$N4"; exit 5', "sh", *[written(value) for value in NASTY], env=env
    )

    job = bed.submit(text_of(workload(main), where(images=[{"match": IMAGE, "path": str(image)}])))

    assert bed.ended(job) == "5:0", bed.said()
    assert (bed.path / "log" / "main.0").read_bytes().split(b"\0")[:-1] == [
        value.encode() for value in [*NASTY, NASTY[4]]
    ]
    assert bed.code() == 5
    assert (bed.path / "claim").read_text().startswith(f"{job}.")


@pytest.mark.parametrize("launcher", ["openmpi", "srun"])
def test_ranks_on_two_nodes_talk(bed: Bed, launcher: str) -> None:
    job = bed.submit(text_of(workload(ranks("ring"), annotations=SPREAD), where(launcher)))

    assert bed.ended(job) == "0:0", bed.log() + bed.said()
    nodes = ["node1", "node1", "node2", "node2"]
    assert rank_lines(bed.log()) == [
        f"rank={rank} size=4 node={node} sum=10 from={(rank - 1) % 4} container=yes" for rank, node in enumerate(nodes)
    ]


@pytest.mark.parametrize("launcher", ["openmpi", "srun"])
def test_a_signal_to_the_script_gives_all_ranks_their_grace_period(bed: Bed, launcher: str) -> None:
    line = "trap 'echo asked; sleep 4; cat /etc/passwd >/dev/null && echo ready; exit 6' TERM; echo up; while :; do sleep 0.1; done"
    job = bed.submit(text_of(workload(ranks("sh", "-c", line), annotations=SPREAD), where(launcher)))
    wait_for(lambda: bed.log().count("up") == 4, f"for four ranks: {bed.log()}")

    login(f"scancel -b -s TERM {job}")

    assert bed.ended(job) == "6:0", bed.log() + bed.said()
    assert (bed.log().count("asked"), bed.log().count("ready")) == (4, 4)


def test_a_second_job_for_the_pod_runs_nothing(bed: Bed) -> None:
    image = bed.work / "image"
    sandbox.build(image)
    text = text_of(
        workload(container("/bin/sh", "-c", "sleep 1; echo ran")), where(images=[{"match": IMAGE, "path": str(image)}])
    )

    jobs = [bed.submit(text), bed.submit(text)]

    assert sorted(bed.ended(job) for job in jobs) == ["0:0", "75:0"]
    assert bed.log() == "ran\n"


def test_directives_are_what_slurm_grants(bed: Bed) -> None:
    image = bed.work / "image"
    sandbox.build(image)
    main = container("/bin/sh", "-c", "sleep 20", resources={"requests": {"cpu": "3", "memory": "100Mi"}})
    text = text_of(
        workload(main, annotations={"batchgate.dev/walltime": "5m"}),
        where(images=[{"match": IMAGE, "path": str(image)}]),
    )

    shown = login(f"scontrol show job {bed.submit(text)}")

    granted = dict(word.split("=", 1) for word in shown.split() if "=" in word)
    assert granted["Partition"] == "batch"
    assert granted["NumNodes"].split("-")[0] == "1"
    assert granted["CPUs/Task"] == "3"
    assert granted["MinMemoryNode"] == "100M"
    assert granted["TimeLimit"] == "00:07:00"  # 5 min, 30 s of grace, 60 s of margin, in whole minutes
    assert granted["Requeue"] == "0"
