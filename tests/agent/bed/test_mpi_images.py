"""MPI Jobs whose image comes from a registry: pulled once, by the host or by the job, and then run by every rank."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bed.image import unpack
from tests.agent.bed.conftest import Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, printed
from tests.agent.bed.site import LAYOUT, SUDO
from tests.agent.bed.tally import await_ends
from tests.agent.bed.test_images import IMAGES, ImageSite
from tests.registry import Image, Layer, Registry, serving

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.mpi, pytest.mark.timeout(1200)]

CONFIG = {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "MODE=the image's $1"], "WorkingDir": "/srv"}
RANKS = 6
ITS_OWN = {".singularity.d", ".exec", ".run", ".shell", ".test", "environment", "singularity"}
"""What the runtime has added to the bed's image."""


@dataclass(frozen=True)
class PulledSite(ImageSite):
    """All images come from the registry, by the host, and mpirun starts them."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        site = found["sites.yaml"]["sites"][0]
        site["mpi"] = [{"name": "open-mpi", "launcher": "openmpi", "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}}]
        return found


class PulledByJobs(PulledSite):
    """The same, where the job pulls."""

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        found["sites.yaml"]["sites"][0] |= {"pull": "job", "secrets": "cloud"}
        return found


@dataclass(frozen=True)
class Served:
    """The registry, and the layers of the image that each way pulls."""

    registry: Registry
    layers: dict[str, tuple[str, ...]]


def tree(root: Path) -> Layer:
    """The files and links below a directory."""
    paths = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return {
        str(path.relative_to(root)): str(path.readlink()) if path.is_symlink() else path.read_bytes() for path in paths
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A registry with the programs of the bed's image, in an image that was not made by the runtime."""
    shutil.rmtree(IMAGES, ignore_errors=True)  # the same images, by their digest, may be there of an earlier run
    place = tmp_path_factory.mktemp("registry")
    unpack(LAYOUT.image, place / "root")
    layer = {path: content for path, content in tree(place / "root").items() if path.split("/")[0] not in ITS_OWN}
    with serving(place) as found:
        layers = {}
        for by in ("host", "job"):
            (pushed,) = found.push(f"cfd/ranks:{by}", Image([layer, {"srv/by": by.encode()}], CONFIG))
            layers[by] = pushed.layers
        yield Served(found, layers)


@pytest.mark.parametrize(("by", "kind"), [("host", PulledSite), ("job", PulledByJobs)])
def test_every_rank_runs_the_image_that_was_pulled_once(
    cluster: Cluster, served: Served, by: str, kind: type[PulledSite]
) -> None:
    made = job("")
    container = made["spec"]["template"]["spec"]["containers"][0]
    container["image"] = served.registry.named(f"cfd/ranks:{by}")
    container["command"] = ["mpirun", "-np", str(RANKS), "sh", "-c", "cat by; echo; exec ranks MODE"]
    container["resources"] = {"requests": {"cpu": str(RANKS), "memory": f"{RANKS * 200}Mi"}}
    served.registry.forget()

    with reached(cluster, SUDO, kind=kind) as found:
        stack: Stack = found
        name = apply(stack.ada, made)
        await_ends(stack.ada, [name], seconds=SECONDS)

        assert end_of(stack.ada, name) == "Complete", stack.ada.ok("logs", f"job/{name}")
        lines = printed(stack.ada, name)
    assert lines.count(by) == RANKS
    told = [line for line in lines if line.startswith("rank=")]
    assert sorted(line.partition(" ")[0] for line in told) == [f"rank={rank}" for rank in range(RANKS)]
    assert all(f" size={RANKS} " in line and " MODE=the image's $1" in line for line in told), told
    assert len({line.partition(" node=")[2].partition(" ")[0] for line in told}) == 2
    fetched = Counter(served.registry.fetched())
    assert {layer: fetched[layer] for layer in served.layers[by]} == dict.fromkeys(served.layers[by], 1)
