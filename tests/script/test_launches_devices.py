"""GPUs where launchers are inside the container: its text sees those of the node, each rank its own."""

from __future__ import annotations

from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod
from tests.script.test_launches import IMAGE, nodefile, pytestmark  # noqa: F401 - the same image and hosts

TEXT = 'echo "text $CUDA_VISIBLE_DEVICES"; mpirun -np 2 sh -c \'echo "rank $CUDA_VISIBLE_DEVICES"\' | sort'


def run(pod: Pod, **profile: str) -> str:
    where = site(
        "openpbs",
        images=[{"match": "*", "path": str(IMAGE)}],
        mpi=[{"name": "m", "launcher": "openmpi", **profile}],
    )
    main = container("sh", "-c", TEXT, resources={"limits": {"nvidia.com/gpu": "4", "cpu": "4"}})
    job = workload(main, annotations={"batchgate.dev/ranks": "4", "batchgate.dev/nodes": "2"})
    assert pod.run(text_of(job, where), CUDA_VISIBLE_DEVICES="4,5") == 0, pod.log()
    return "".join(line for line in pod.log().splitlines(keepends=True) if "nv" not in line)


def test_each_rank_has_its_share(pod: Pod) -> None:
    assert run(pod, gpus="rank") == "text 4,5\nrank 4\nrank 5\n"


def test_all_ranks_see_all(pod: Pod) -> None:
    assert run(pod) == "text 4,5\nrank 4,5\nrank 4,5\n"
