"""GPUs of ranks: all of the node's for each, or one share for each where the site binds them so."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod

HOST = socket.gethostname()
SHOW = "echo $CUDA_VISIBLE_DEVICES$ROCR_VISIBLE_DEVICES"
OPENMPI, HYDRA, PALS, SLURM = "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"


def starter(folder: Path, ranks: tuple[str, ...]) -> Path:
    """In a launcher's place: starts the rank's file once for each of these lines of assignments, and ends as the last that failed."""
    program = folder / "starter"
    lines = "".join(f'env {words} "$@" || status=$?\n' for words in ranks)
    shift = "while [[ $1 != /bin/bash ]]; do shift; done"
    program.write_text(f"#!/bin/bash\n[[ $1 != --version ]] || exit 0\n{shift}\nstatus=0\n{lines}exit $status\n")
    program.chmod(0o755)
    return program


def where(pod: Pod, started: tuple[str, ...], **profile: Any) -> Site:
    """A site whose launcher starts these ranks, all on this machine."""
    path = str(starter(pod.work, started))
    return site("local", runtime="host", mpi=[{"name": "m", "launcher": "openmpi", "path": path, **profile}])


def run(pod: Pod, on: Site, ranks: int, gpus: int, vendor: str = "nvidia", **environment: str) -> int:
    """The exit code of a Job of so many ranks and GPUs on one node."""
    (pod.work / "nodefile").write_text(f"{HOST}\n" * ranks)
    command = ("mpirun", "-np", str(ranks), "/bin/sh", "-c", SHOW)
    job = workload(container(*command, resources={"limits": {f"{vendor}.com/gpu": str(gpus)}}))
    return pod.run(text_of(job, on), PBS_NODEFILE=str(pod.work / "nodefile"), **environment)


def by(variable: str, *values: int) -> tuple[str, ...]:
    """Ranks that are told so which of their node's they are. Open MPI's and Hydra's daemons are each task 0 of Slurm."""
    return tuple(
        f"{variable}={value}" if variable == SLURM else f"SLURM_LOCALID=0 {variable}={value}" for value in values
    )


SHARED = {
    "one each, by Open MPI's number": (by(OPENMPI, 0, 1), 2, "4,5", ["4", "5"]),
    "by Hydra's and Intel MPI's": (by(HYDRA, 1, 0), 2, "4,5", ["5", "4"]),
    "by that of PALS": (by(PALS, 0, 1), 2, "4,5", ["4", "5"]),
    "two each": (by(OPENMPI, 0, 1), 4, "0,1,2,3", ["0,1", "2,3"]),
    "two ranks to a GPU": (by(OPENMPI, 0, 1, 2, 3), 2, "GPU-a,MIG-GPU-1/2/0", ["GPU-a", "GPU-a", *["MIG-GPU-1/2/0"] * 2]),
    "all to one GPU": (by(OPENMPI, 0, 1, 2), 1, "7", ["7", "7", "7"]),
    "all of them to one rank": (by(OPENMPI, 0), 2, "4,5", ["4,5"]),
    "more than were asked for": (by(OPENMPI, 0, 1), 2, "4,5,6,7", ["4", "5"]),
    "each its own from the launcher": (
        ("CUDA_VISIBLE_DEVICES=0", "CUDA_VISIBLE_DEVICES=0"), 2, "0,1", ["0", "0"],
    ),
    "each its own from the launcher, by names": (
        ("CUDA_VISIBLE_DEVICES=GPU-a,GPU-b", "CUDA_VISIBLE_DEVICES=GPU-c,GPU-d"), 4, "0,1,2,3", ["GPU-a,GPU-b", "GPU-c,GPU-d"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", SHARED)
def test_each_rank_has_its_share(pod: Pod, row: str) -> None:
    started, gpus, listed, expected = SHARED[row]

    assert run(pod, where(pod, started, gpus="rank"), len(started), gpus, CUDA_VISIBLE_DEVICES=listed) == 0, pod.log()
    assert pod.log().split() == expected


def test_srun_s_number_counts_under_srun_alone(pod: Pod) -> None:
    path = str(starter(pod.work, by(SLURM, 1, 0)))
    on = site(
        "slurm",
        runtimePath=str(host_runtime(pod.work)),
        images=[{"match": "*", "path": "/image"}],
        mpi=[{"name": "m", "launcher": "srun", "path": path, "gpus": "rank"}],
    )

    assert run(pod, on, 2, 2, CUDA_VISIBLE_DEVICES="4,5") == 0, pod.log()
    assert pod.log().split() == ["5", "4"]


def host_runtime(folder: Path) -> Path:
    """A runtime without containers: the last words of its command line, with the variable that it is given.

    Asked which MPI its image has, it says that the program uses none.
    """
    program = folder / "runtime"
    program.write_text(
        '#!/bin/bash\n[[ " $* " != *" look "* ]] || exec echo program binary\n'
        'export CUDA_VISIBLE_DEVICES=$APPTAINERENV_CUDA_VISIBLE_DEVICES\nexec /bin/sh -c "${!#}"\n'
    )
    program.chmod(0o755)
    return program


def test_without_a_list_the_shares_are_numbers(pod: Pod) -> None:
    for number in range(2):
        (pod.work / f"nvidia{number}").touch()
    on = where(pod, by(OPENMPI, 0, 1), gpus="rank")
    (pod.work / "nodefile").write_text(f"{HOST}\n" * 2)
    job = workload(
        container("mpirun", "-np", "2", "/bin/sh", "-c", SHOW, resources={"limits": {"nvidia.com/gpu": "2"}})
    )
    text = text_of(job, on).replace("/dev/nvidia", f"{pod.work}/nvidia")

    assert pod.run(text, PBS_NODEFILE=str(pod.work / "nodefile")) == 0, pod.log()
    assert pod.log().split() == ["0", "1"]


def test_amd_s_variable(pod: Pod) -> None:
    on = where(pod, by(OPENMPI, 0, 1), gpus="rank")

    assert run(pod, on, 2, 2, "amd", ROCR_VISIBLE_DEVICES="0,1") == 0, pod.log()
    assert pod.log().split() == ["0", "1"]


HINT = "; where the launcher binds GPUs to ranks, the MPI profile of the site says so with gpus: rank"
MAPPING = "; the mapping of ranks to nodes must be the batch system's"
FAILED = {
    "fewer than a node's, though not bound": (
        "node",
        by(OPENMPI, 0)[0] + " CUDA_VISIBLE_DEVICES=0",
        f"this Pod asks for 2 GPUs on each node, and 1 are visible on {HOST}{HINT}",
    ),
    "none": (
        "rank",
        by(OPENMPI, 0)[0] + " CUDA_VISIBLE_DEVICES=0,1,2",
        f"each rank is to have 2 of the 4 GPUs of its node, and 3 are visible on {HOST}",
    ),
    "one rank too many": (
        "rank",
        by(OPENMPI, 2)[0],
        f"each rank is to have 2 of the 4 GPUs of its node, and this is number 3 of the ranks on {HOST}{MAPPING}",
    ),
    "no number": (
        "rank",
        "",
        f"each rank is to have 2 of the 4 GPUs of its node, and the launcher does not number the ranks on {HOST}",
    ),
}


@pytest.mark.parametrize("row", FAILED)
def test_what_cannot_be_shared_is_said_at_once(pod: Pod, row: str) -> None:
    binding, words, sentence = FAILED[row]
    gpus = 2 if binding == "node" else 4

    assert run(pod, where(pod, (words,), gpus=binding), 2, gpus, CUDA_VISIBLE_DEVICES="0,1,2,3"[: 2 * gpus - 1]) == 1
    assert pod.log() == f"batchgate: {sentence}\n"


def test_each_rank_has_all_of_its_node_s_by_default(pod: Pod) -> None:
    assert run(pod, where(pod, by(OPENMPI, 0, 1)), 2, 2, CUDA_VISIBLE_DEVICES="GPU-a,GPU-b") == 0, pod.log()
    assert pod.log().split() == ["GPU-a,GPU-b"] * 2


ELSEWHERE = {
    "another node's own list wins": (
        ("CUDA_VISIBLE_DEVICES=2,3",), {"CUDA_VISIBLE_DEVICES": "0,1"}, "", ["2,3"],
    ),
    "the first node's is not handed on by the launcher": (("X=",), {"CUDA_VISIBLE_DEVICES": "0,1"}, "", ["0,1"]),
    "TORQUE's file, which other nodes have not": (
        ("PBS_GPUFILE=/no/such/file",), {}, f"{HOST}-gpu1\n{HOST}-gpu3\nother-gpu0\nother-gpu2\n", ["1,3"],
    ),
    "a host name that came from another node": (
        ("PBS_GPUFILE=/no/such/file HOSTNAME=other",), {}, f"{HOST}-gpu1\n{HOST}-gpu3\nother-gpu0\nother-gpu2\n", ["1,3"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", ELSEWHERE)
def test_the_list_is_the_node_s_own(pod: Pod, row: str) -> None:
    started, environment, file, expected = ELSEWHERE[row]
    (pod.work / "gpufile").write_text(file)

    assert run(pod, where(pod, started), 1, 2, **environment, PBS_GPUFILE=str(pod.work / "gpufile")) == 0, pod.log()
    assert pod.log().split() == expected


def test_the_launcher_has_no_list_to_hand_on(pod: Pod) -> None:
    on = where(pod, ())
    (pod.work / "starter").write_text("#!/bin/bash\necho ${CUDA_VISIBLE_DEVICES-none} $GPU_OTHER\n")

    assert run(pod, on, 1, 2, CUDA_VISIBLE_DEVICES="0,1", GPU_OTHER="kept") == 0
    assert pod.log() == "none kept\n"
