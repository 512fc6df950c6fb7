"""Ranks whose image the job pulls first: their launcher is started, and their MPI looked for, when the image is there.

Runtime and launcher are stand-ins: pulling makes a file after some time, and only with that file can anything run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.script import test_talk as talk
from tests.script.builders import container, text_of, workload
from tests.script.running import Pod, wait_for
from tests.script.test_images import stage
from tests.script.test_talk import HYDRA, OPENMPI4, SLURM, TO_MPICH, Case, bad, unknown

LIMIT = "60 + ranks / 10"
"""The seconds in which the launcher must have started a rank."""
PULL = """#!/bin/bash
if [[ $1 == pull ]]; then
	echo "$$" >>{work}/pulls
	{pull}
	while [[ $1 != *.sif ]]; do shift; done
	echo image >"$1"
	exit
fi
[[ -e {image} ]] || {{ echo "FATAL:   no image" >&2; exit 255; }}
set -- "${{@/#{slashed}/\\/sif\\/image.sif}}"
exec {work}/runtime "$@"
"""


def make(pod: Pod, tmp_path: Path, case: Case, pull: str) -> Path:
    """The stand-ins, and what the agent has staged; where the image is to be."""
    talk.make(tmp_path, case)
    (tmp_path / "nodefile").write_text("n1\n" * 2)
    image = tmp_path / "cache" / "1.sif"
    slashed = str(image).replace("/", "\\/")
    text = PULL.format(work=tmp_path, image=image, slashed=slashed, pull=pull)
    (tmp_path / "pulling").write_text(text)
    (tmp_path / "pulling").chmod(0o755)
    stage(pod, "image", f"path={image}", "source=docker://r/solver@sha256:1", f"cache={image.parent}")
    return image


def script(case: Case, tmp_path: Path, **pod: Any) -> str:
    where = talk.where(case, tmp_path)
    where = where.model_copy(update={"runtime_path": str(tmp_path / "pulling"), "pull": "job"})
    return text_of(workload(container("mpirun", "-np", "2", *case.command), **pod), where)


def log(pod: Pod, image: Path) -> str:
    return re.sub(r" on \S+ ", " on HOST ", pod.log()).replace(str(image), "/sif/image.sif")


CASES = {
    "open mpi 4 and 4": Case(OPENMPI4, "openmpi-4"),
    "hydra and mpich": Case(HYDRA, "mpich", launcher="hydra"),
    "srun pmix and open mpi": Case(SLURM, "openmpi-4", launcher="srun", options=("--mpi=pmix",)),
    "open mpi and mpich": Case(OPENMPI4, "mpich", **bad("launcher of Open MPI 4.1.4", "MPICH 4.0.2", TO_MPICH)),
    "a pair that nobody has measured": Case(
        OPENMPI4, "mpich+pmix", **unknown("launcher of Open MPI 4.1.4", "MPICH 4.3.0 with PMIx")
    ),
}
GOOD = ("open mpi 4 and 4", "hydra and mpich", "srun pmix and open mpi")


@pytest.mark.parametrize("row", CASES)
def test_a_pair_is_judged_by_the_image_that_was_pulled(pod: Pod, tmp_path: Path, row: str) -> None:
    case = CASES[row]
    image = make(pod, tmp_path, case, "sleep 1")

    code = pod.run(script(case, tmp_path), PBS_NODEFILE=str(tmp_path / "nodefile"))

    assert (log(pod, image), code, pod.code()) == (case.log, case.code, case.code), pod.output()
    assert [path.name for path in image.parent.glob("*.sif")] == ["1.sif"]
    unsure = [note for note in pod.notes() if note.get("reason") == "MPIUnknown"]
    assert len(unsure) == ("is not known" in case.log)


def test_a_pull_may_take_longer_than_a_launcher(pod: Pod, tmp_path: Path) -> None:
    image = make(pod, tmp_path, CASES["open mpi 4 and 4"], "sleep 15")
    text = script(CASES["open mpi 4 and 4"], tmp_path)
    assert LIMIT in text

    code = pod.run(text.replace(LIMIT, "12"), PBS_NODEFILE=str(tmp_path / "nodefile"))

    assert (pod.log(), code, pod.code()) == ("ran\n", 0, 0), pod.output()
    assert image.exists()


def test_an_image_that_is_there_is_not_pulled(pod: Pod, tmp_path: Path) -> None:
    case = CASES["open mpi 4 and 4"]
    image = make(pod, tmp_path, case, "exit 1")
    image.parent.mkdir()
    image.write_text("image")

    assert pod.run(script(case, tmp_path), PBS_NODEFILE=str(tmp_path / "nodefile")) == 0

    assert pod.log() == "ran\n"
    assert not (tmp_path / "pulls").exists()
    assert [note["event"] for note in pod.notes()] == ["started", "running", "exited", "ended"]


def test_why_the_image_cannot_be_pulled_is_the_reason(pod: Pod, tmp_path: Path) -> None:
    image = make(pod, tmp_path, CASES["open mpi 4 and 4"], "echo 'FATAL:   manifest unknown' >&2; exit 255")

    code = pod.run(script(CASES["open mpi 4 and 4"], tmp_path), PBS_NODEFILE=str(tmp_path / "nodefile"))

    found = pod.exit()
    assert found is not None
    words = re.sub(r" on \S+:", " on HOST:", found["message"])
    assert (code, found["code"], found["reason"]) == (125, 125, "ErrImagePull")
    assert words == "docker://r/solver@sha256:1 could not be pulled on HOST: manifest unknown"
    assert not image.with_suffix(".claim").exists()


@pytest.mark.parametrize("row", GOOD)
def test_a_term_while_pulling_ends_the_pull_and_starts_nothing(pod: Pod, tmp_path: Path, row: str) -> None:
    image = make(pod, tmp_path, CASES[row], "exec sleep 300")
    job = pod.start(
        script(CASES[row], tmp_path, terminationGracePeriodSeconds=200), PBS_NODEFILE=str(tmp_path / "nodefile")
    )
    wait_for((tmp_path / "pulls").exists, "for the pull")

    job.terminate()

    assert job.wait(100) == 143, "long before its grace period is over"
    assert (pod.code(), "ran" in pod.log()) == (143, False)
    assert not image.exists()
    assert not image.with_suffix(".claim").exists()
    wait_for(lambda: not pod.alive(), "for the end of the pull")
