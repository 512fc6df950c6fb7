"""examples/12: an MPI program over all of the bed's nodes, on a real Slurm, under the examples' own policy.

An admin has given the queue ``batch`` all four nodes meanwhile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bed.layout import NODES
from bed.slurmconf import QUEUES
from router import names
from router.controlplane.options import ADA
from router.demo import cluster as showing
from router.demo.examples import read_examples
from router.demo.kubectl import Kubectl
from router.demo.outcome import differences
from tests.agent.bed.conftest import Stack, founded, reached
from tests.agent.bed.site import LAYOUT, SUDO, obstacle, slurm
from tests.agent.bed.tally import await_ends
from tests.agent.bed.test_examples import ROOT, SITES, ExamplesSite, pods_of, shape

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(600)]

(RING,) = (one for one in read_examples(ROOT / "examples") if one.expected.program)


@dataclass(frozen=True)
class WideSite(ExamplesSite):
    """The examples' policy where ``batch`` has all nodes, and the image has the program."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (one,) = found[SITES]["sites"]
        one["images"] = [{"match": "*/ring:*", "path": str(LAYOUT.image)}]
        for queue in one["queues"]:
            if queue["name"] == self.queue:
                queue["nodes"] = len(NODES)
        return found


@pytest.fixture
def wide() -> Iterator[None]:
    """Slurm's queue ``batch`` with all nodes."""
    if words := obstacle():
        pytest.skip(words)
    (batch,) = (one for one in QUEUES if one.name == WideSite.queue)
    slurm("scontrol", "update", f"PartitionName={batch.name}", f"Nodes={','.join(NODES)}")
    try:
        yield
    finally:
        slurm("scontrol", "update", f"PartitionName={batch.name}", f"Nodes={','.join(batch.nodes)}")


@pytest.fixture
def stack(wide: None, control_plane_programs: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with founded(tmp_path_factory.mktemp("ring")) as cluster, reached(cluster, SUDO, kind=WideSite) as found:
        yield found


def test_ranks_on_four_nodes_pass_messages_round(stack: Stack) -> None:
    kubectl = Kubectl(str(stack.plane.programs.kubectl), stack.plane.kubeconfig(ADA.name))
    applied = showing.apply(kubectl, [RING], launcher=True)
    await_ends(stack.ada, ["ring"], seconds=240)

    (found,) = showing.outcomes(kubectl, applied, stack.ada.every("jobs"), stack.webhook.log, stack.site.results)

    assert differences(RING.expected, found, launcher=True) == []
    (pod,) = found.pods
    lines = [line for line in pod.logs["ring"].splitlines() if "weak version" not in line]
    ranks = sorted((dict(word.split("=") for word in line.split()) for line in lines), key=lambda one: int(one["rank"]))
    nodes = Counter(one.pop("node") for one in ranks)
    assert ranks == [
        {"rank": str(rank), "size": "16", "sum": "136", "from": str((rank - 1) % 16), "container": "yes"}
        for rank in range(16)
    ]
    assert nodes == dict.fromkeys(NODES, 4)
    (record,) = pods_of(stack, RING)
    assert shape(record["metadata"]["annotations"][names.KEY_JOB_ID]) == "4 16"
