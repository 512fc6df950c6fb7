"""GPU Jobs on the bed's ``gpu`` queue: what a container can open is what Slurm gave to its job, and nobody else's.

The devices have NVIDIA's numbers and nothing behind them. To open one that is granted fails with ENXIO, as no driver is
there; any other with EPERM, as Slurm's cgroup says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bed.layout import GPU_NODES, GPUS
from bed.standing import variant
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, job_id, pod_of, printed
from tests.agent.bed.site import LAYOUT, SUDO, TALLY, BedSite, slurm
from tests.agent.bed.tally import await_ends
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]

MAPPED = "example.org/v100"
GRANTED, REFUSED = "No such device or address", "Operation not permitted"
LOOK = (
    "r() { (: <$1) 2>&1 | sed 's/.*: //'; }\n"
    "echo rank=${PMIX_RANK-} node=`hostname` cuda=$CUDA_VISIBLE_DEVICES rocr=$ROCR_VISIBLE_DEVICES"
    " own=$OWN 0=`r /dev/nvidia0`, 1=`r /dev/nvidia1`,\n"
)


@dataclass(frozen=True)
class GpuSite(BedSite):
    """The bed with its GPUs. The image's name says which launcher, and whose GPUs are; a Job with one is sent to node3."""

    queue = "gpu"

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (site,) = found["sites.yaml"]["sites"]
        (queue,) = site["queues"]
        site["queues"] = [{**queue, "name": self.queue, "nodes": len(GPU_NODES), "gpusPerNode": GPUS}]
        site["gpuResources"] = {MAPPED: "nvidia"}
        srun = {
            "launcher": "srun",
            "options": ["--mpi=pmix"],
            "env": {"PMIX_MCA_gds": "hash", "OMPI_MCA_btl_tcp_if_include": "lo"},
        }
        openmpi = {"launcher": "openmpi", "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}}
        site["mpi"] = [
            {"name": f"{name}-{gpus}", "images": [f"{name}-{gpus}/*"], "gpus": gpus, **launcher}
            for name, launcher in (("srun", srun), ("mpirun", openmpi))
            for gpus in ("node", "rank")
        ]
        site["mpi"].append({**srun, "name": "unsaid", "images": ["unsaid-*"], "options": ["--gpus-per-task=1"]})
        hpc = [{"queue": self.queue}]
        found["rules.yaml"]["rules"] = [
            {"name": "one", "when": "job.gpus == 1 && !job.mpi", "hpc": hpc, "directives": {"nodelist": GPU_NODES[0]}},
            {"name": "more", "when": "job.gpus > 1", "hpc": hpc},
            {"name": "none", "when": "job.cpus >= 2", "hpc": hpc},
            {"name": "rest", "cloud": True},
        ]
        return found


@pytest.fixture(scope="module")
def stack(cluster: Cluster) -> Iterator[Stack]:
    found = variant(LAYOUT)
    if not (found.gpus and found.cgroups):
        pytest.skip("this bed has no GPUs, or nothing that keeps jobs from other jobs' devices")
    with reached(cluster, SUDO, kind=GpuSite) as stack:
        yield stack


def gpus(count: int, text: str = LOOK, name: str = "nvidia.com/gpu") -> dict[str, Any]:
    """A Job with so many GPUs, asked for as everybody does: by limits alone."""
    made = job(text)
    template = made["spec"]["template"]["spec"]
    container = template["containers"][0]
    container["resources"] = {"requests": {"cpu": "1" if count else "2", "memory": "64Mi"}}
    if count:
        container["resources"]["limits"] = {name: str(count)}
    container["env"] = [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2,3"}, {"name": "OWN", "value": "the-job-s"}]
    container["volumeMounts"] = [{"name": "tally", "mountPath": str(TALLY)}]
    template["volumes"] = [{"name": "tally", "hostPath": {"path": str(TALLY)}}]
    return made


@dataclass(frozen=True)
class Seen:
    """What one process has printed of itself. ``node`` is its host name: the Pod's, or the node's for ranks on several.

    ``opened`` are the numbers of the devices that it may open.
    """

    rank: str
    node: str
    cuda: str
    rocr: str
    opened: tuple[int, ...]


def seen(line: str) -> Seen:
    found = re.fullmatch(r"rank=(.*) node=(\S+) cuda=(\S*) rocr=(\S*) own=the-job-s 0=(.*), 1=(.*),", line)
    assert found, line
    assert set(found.groups()[4:]) <= {GRANTED, REFUSED}, line
    opened = tuple(number for number in range(GPUS) if found[5 + number] == GRANTED)
    return Seen(found[1], found[2], found[3], found[4], opened)


def look(stack: Stack, name: str) -> list[Seen]:
    """What the processes of a Job have seen. The runtime says beside it that there is no driver to bring along."""
    return [seen(line) for line in printed(stack.ada, name) if line.startswith("rank=")]


def numbers(batch_job: str) -> dict[str, tuple[int, ...]]:
    """The devices that Slurm gave to a job that runs, by the names of its nodes."""
    text = slurm("scontrol", "show", "job", "--details", batch_job)
    found = {}
    for nodes, listed in re.findall(
        r"^\s*Nodes=(\S+) .*GRES=(?:\S*,)?gpu:(?:\w+:)?\d+\(IDX:([\d,-]+)\)", text, re.MULTILINE
    ):
        given: list[int] = []
        for part in listed.split(","):
            first, _, last = part.partition("-")
            given += range(int(first), int(last or first) + 1)
        found.update(dict.fromkeys(slurm("scontrol", "show", "hostnames", nodes).split(), tuple(given)))
    return found


def test_two_jobs_on_one_node_have_a_device_each(stack: Stack) -> None:
    made = [gpus(1) for _ in range(2)]
    names = [one["metadata"]["name"] for one in made]
    for one, name in zip(made, names, strict=True):
        (container,) = one["spec"]["template"]["spec"]["containers"]
        container["command"][2] += f": >{TALLY}/{name}; while [ ! -e {TALLY}/{name}.go ]; do sleep 0.2; done\n"
        apply(stack.ada, one)
    until(
        lambda: [name for name in names if (TALLY / name).exists()],
        lambda found: found == names,
        seconds=SECONDS,
        what="for both to run at once",
    )
    given = [numbers(job_id(stack.ada, name)) for name in names]
    for name in names:
        (TALLY / f"{name}.go").touch()

    assert [end_of(stack.ada, name) for name in names] == ["Complete", "Complete"]
    (first,), (second,) = (look(stack, name) for name in names)
    node = GPU_NODES[0]
    assert sorted(one[node] for one in given) == [(0,), (1,)]
    # Slurm numbers what a job can open from 0, whichever it is.
    pods = [pod_of(stack.ada, name)["metadata"]["name"] for name in names]
    assert [first, second] == [Seen("", pod, "0", "", one[node]) for pod, one in zip(pods, given, strict=True)]


ONE = {
    "one of a node's two, sent to a node with both free": (1, "nvidia.com/gpu", ("0", "")),
    "both": (2, "nvidia.com/gpu", ("0,1", "")),
    "by a name that the policy maps": (2, MAPPED, ("0,1", "")),
}


@pytest.mark.parametrize("row", ONE)
def test_a_container_can_open_what_was_granted(stack: Stack, row: str) -> None:
    count, name, (cuda, rocr) = ONE[row]

    job_name = apply(stack.ada, gpus(count, name=name))

    assert end_of(stack.ada, job_name) == "Complete", stack.ada.ok("logs", f"job/{job_name}")
    (one,) = look(stack, job_name)
    assert (one.cuda, one.rocr, len(one.opened)) == (cuda, rocr, count)


def test_amd_s_list_has_its_own_name(stack: Stack) -> None:
    name = apply(stack.ada, gpus(2, name="amd.com/gpu"))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    # What the Job sets of the other vendor is its own.
    (one,) = look(stack, name)
    assert (one.cuda, one.rocr, one.opened) == ("0,1,2,3", "0,1", (0, 1))


def test_a_job_without_gpus_can_open_none(stack: Stack) -> None:
    name = apply(stack.ada, gpus(0))

    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    (one,) = look(stack, name)
    assert one.opened == ()


def ranks(launcher: str, binding: str, count: int, devices: int) -> dict[str, Any]:
    """A Job of so many ranks and GPUs in all, on both nodes."""
    made = gpus(devices)
    made["metadata"]["annotations"]["batchgate.dev/nodes"] = str(len(GPU_NODES))
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["image"] = f"{launcher}-{binding}/programs:1"
    container["resources"]["requests"] = {"cpu": str(count), "memory": f"{count * 160}Mi"}
    container["command"] = ["mpirun", "-np", str(count), "/bin/sh", "-c", LOOK]
    return made


# ranks, GPUs in all -> for each rank of a node the list and what it can open
RANKS: dict[tuple[str, str, int, int], tuple[tuple[str, tuple[int, ...]], ...]] = {
    ("mpirun", "node", 4, 4): (("0,1", (0, 1)),) * 2,
    ("srun", "node", 4, 4): (("0,1", (0, 1)),) * 2,
    # Open MPI's daemon has what the job has on its node; only the list differs.
    ("mpirun", "rank", 4, 4): (("0", (0, 1)), ("1", (0, 1))),
    # Slurm binds, and numbers what a rank can open from 0.
    ("srun", "rank", 4, 4): (("0", (0,)), ("0", (1,))),
    ("srun", "rank", 2, 4): (("0,1", (0, 1)),),
    ("srun", "rank", 8, 4): (("0", (0, 1)),) * 2 + (("1", (0, 1)),) * 2,
    ("mpirun", "rank", 8, 4): (("0", (0, 1)),) * 2 + (("1", (0, 1)),) * 2,
    ("mpirun", "rank", 3, 2): (),  # on each node one GPU, whichever
}


@pytest.fixture(scope="module")
def over(stack: Stack) -> dict[tuple[str, str, int, int], str]:
    """The Job of each row, when all are over."""
    made = {row: apply(stack.ada, ranks(*row)) for row in RANKS}
    await_ends(stack.ada, list(made.values()), seconds=3 * SECONDS)
    return made


@pytest.mark.mpi
@pytest.mark.parametrize("row", RANKS, ids=lambda row: "-".join(map(str, row)))
def test_ranks_have_all_of_their_node_s_or_a_share(
    stack: Stack, over: dict[tuple[str, str, int, int], str], row: tuple[str, str, int, int]
) -> None:
    name = over[row]
    assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
    found = look(stack, name)

    assert sorted(int(one.rank) for one in found) == list(range(row[2]))
    by_node = {node: tuple(sorted((one.cuda, one.opened) for one in found if one.node == node)) for node in GPU_NODES}
    if RANKS[row]:
        assert by_node == dict.fromkeys(GPU_NODES, RANKS[row])
    else:
        assert {(cuda, len(opened)) for lines in by_node.values() for cuda, opened in lines} == {("0", 1)}


@pytest.mark.mpi
def test_a_profile_that_does_not_say_what_its_launcher_binds_is_told(stack: Stack) -> None:
    name = apply(stack.ada, ranks("unsaid", "rank", 4, 4))

    assert end_of(stack.ada, name) == "Failed"
    found = [line for line in printed(stack.ada, name) if line.startswith("batchgate: this Pod ")]
    assert re.fullmatch(
        r"batchgate: this Pod asks for 2 GPUs on each node, and 1 are visible on node[34]; where the launcher binds "
        r"GPUs to ranks, the MPI profile of the site says so with gpus: rank",
        found[0],
    )


def test_more_than_a_node_has_is_said_at_apply_with_the_queue_s_figures(stack: Stack) -> None:
    made = gpus(GPUS + 1)
    name = made["metadata"]["name"]

    said = stack.ada.apply(made).err

    kept = stack.ada.get("job", name)
    stack.ada.ok("delete", "job", name, "--wait=false")
    assert kept is not None
    assert kept["metadata"]["labels"]["batchgate.dev/target"] == "cloud"
    field = "spec.template.spec.containers[0].resources.limits[nvidia.com/gpu]"
    sentence = f"asks for 3 GPUs; a node has 2 (asked for: {field}"
    assert sentence in kept["metadata"]["annotations"]["batchgate.dev/reason"]
    assert sentence in said
