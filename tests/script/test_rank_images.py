"""What the agent knows of an image, for ranks: Open MPI's mpirun and Apptainer, with the bed's image."""

from __future__ import annotations

import shutil

import pytest

from tests.script.builders import text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod
from tests.script.test_images import FILTERED, NEVER, stage
from tests.script.test_mpirun import IMAGE, MPIRUN, nodefile, ranks, where

__all__ = ["nodefile"]
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.apptainer,
    pytest.mark.skipif(MPIRUN is None or shutil.which("apptainer") is None, reason="no mpirun or no apptainer"),
    pytest.mark.skipif(not IMAGE.exists(), reason="the bed's image is not there"),
]


def test_ranks_have_the_image_s_variables_below_their_launcher_s(pod: Pod) -> None:
    values = {f"I{number}": value for number, value in enumerate(NASTY)}
    stage(pod, "image", f"path={IMAGE}", "workdir=/usr/bin")
    stage(pod, "image-env", *(f"{name}={value}" for name, value in values.items()), "OMPI_COMM_WORLD_SIZE=9", "HOME=/i")
    mounts = [{"name": "out", "mountPath": "/out"}]
    main = ranks("sh", "-c", "env -0 >/out/$OMPI_COMM_WORLD_RANK", volumeMounts=mounts)

    status = pod.run(text_of(workload(main, volumes=[{"name": "out", "emptyDir": {}}]), where("apptainer")))

    assert status == 0, pod.log()
    for rank in range(4):
        entries = (pod.path / "volumes" / "out" / str(rank)).read_bytes().split(b"\0")[:-1]
        found = dict(entry.split(b"=", 1) for entry in entries)
        expected = {**values, "OMPI_COMM_WORLD_SIZE": "4", "HOME": "/i", "PWD": "/usr/bin"}
        assert {name: found.get(name.encode()) for name in expected} == {
            name: value.encode() for name, value in expected.items()
        }


@FILTERED
@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (("nosuch",), 127, NEVER),
        (("/etc/passwd",), 126, NEVER),
        (("sh", "-c", "echo 'FATAL:   permission denied' >&2; exit 255"), 255, None),
    ],
)
def test_ranks_that_cannot_be_started(pod: Pod, words: tuple[str, ...], code: int, reason: str | None) -> None:
    assert pod.run(text_of(workload(ranks(*words)), where("apptainer"))) == code

    found = pod.exit()
    assert found is not None
    assert (found["code"], found.get("reason")) == (code, reason)
