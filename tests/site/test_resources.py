"""What becomes of extended resources and huge pages on a queue."""

from __future__ import annotations

from typing import Any

import pytest

from router.hpc.requests import Allocation, Chunk
from router.script.rendering import request_of
from router.site import resources
from router.site.schema import Site
from router.site.systems import SYSTEMS
from router.workload.model import Workload
from tests.script.builders import container, route, site, workload

NAME = "example.com/fpga"
FIELD = "spec.template.spec.containers[0].resources.limits[example.com/fpga]"


def asks(**limits: object) -> Workload:
    return workload(container("true", resources={"limits": limits}))


def allocated(nodes: int) -> Allocation:
    return Allocation((Chunk(nodes, 1, 1, 1, None, 0),), nodes, 1, 3600, 3000, 30)


def given(job: Workload, where: Site, nodes: int = 1) -> dict[str, str] | str:
    found = resources.asking(job, where, where.queues[0], allocated(nodes))
    return found if isinstance(found, str) else dict(found.directives)


CHUNK = {"match": NAME, "directive": "chunk.fpgas"}
GRES = {"match": NAME, "directive": "gres", "value": "fpga:{amount}"}
LICENCE = {"match": "licences.example.com/*", "directive": "licenses", "value": "solver:{amount}"}


@pytest.mark.parametrize(
    ("system", "maps", "limits", "nodes", "expected"),
    [
        ("openpbs", [CHUNK], {NAME: 2}, 1, {"chunk.fpgas": "2"}),
        ("openpbs", [CHUNK], {NAME: 4}, 2, {"chunk.fpgas": "2"}),
        ("openpbs", [CHUNK], {NAME: 3}, 2, f"asks for 3 of {NAME} on 2 nodes, which must share it evenly"),
        ("openpbs", [{**CHUNK, "factor": 4}], {NAME: 2}, 1, {"chunk.fpgas": "8"}),
        ("openpbs", [{"match": "hugepages-2Mi", "directive": "chunk.hp", "per": "2Mi"}], {"hugepages-2Mi": "5Mi", "cpu": 1, "memory": "1Gi"}, 1, {"chunk.hp": "3"}),
        ("openpbs", [{"match": "hugepages-*", "ignore": True}], {"hugepages-2Mi": "5Mi"}, 1, {}),
        ("openpbs", [{"match": "*", "ignore": True}], {"nvidia.com/gpu": 1}, 1, {}),
        ("slurm", [GRES], {NAME: 4}, 2, {"gres": "fpga:2"}),
        ("slurm", [LICENCE], {"licences.example.com/solver": 4}, 2, {"licenses": "solver:4"}),
        ("slurm", [GRES, {**GRES, "match": "example.com/tpu", "value": "tpu:v1:{amount}"}], {NAME: 1, "example.com/tpu": 2}, 1, {"gres": "fpga:1,tpu:v1:2"}),
        ("openpbs", [{**CHUNK, "match": "*"}], {NAME: 1, "example.com/tpu": 2}, 1, f"asks for example.com/tpu and {NAME}, both by the directive chunk.fpgas"),
    ],
)  # fmt: skip
def test_directives(
    system: str, maps: list[dict[str, Any]], limits: dict[str, Any], nodes: int, expected: dict[str, str] | str
) -> None:
    assert given(asks(**limits), site(system, resources=maps), nodes) == expected


def test_the_queue_is_asked_before_its_site() -> None:
    where = site(resources=[CHUNK], queue={"resources": [{"match": "example.com/*", "directive": "chunk.cards"}]})

    assert given(asks(**{NAME: 1}), where) == {"chunk.cards": "1"}


@pytest.mark.parametrize(
    ("maps", "limits", "expected"),
    [
        ([CHUNK], {NAME: 1}, []),
        ([CHUNK], {"nvidia.com/gpu": 1}, []),
        ([{"match": NAME, "cloud": "the cards are in the cloud alone"}], {NAME: 1}, [f"{FIELD}: asks for {NAME}: the cards are in the cloud alone"]),
        ([], {NAME: 1}, [f"{FIELD}: asks for an extended resource ({NAME}), which no entry in resources of site hpc1 or its queue workq matches"]),
        ([CHUNK], {"nvidia.com/mig-1g.5gb": 1}, ["spec.template.spec.containers[0].resources.limits[nvidia.com/mig-1g.5gb]: asks for an extended resource (nvidia.com/mig-1g.5gb), which no entry in resources of site hpc1 or its queue workq matches"]),
    ],
)  # fmt: skip
def test_what_stays(maps: list[dict[str, Any]], limits: dict[str, Any], expected: list[str]) -> None:
    where = site(resources=maps)

    assert [str(one) for one in resources.unmapped(asks(**limits), where, where.queues[0])] == expected


def test_what_means_nothing_is_told() -> None:
    where = site(resources=[{"match": "*", "ignore": True}])
    found = resources.asking(asks(**{NAME: 1}), where, where.queues[0], allocated(1))

    assert isinstance(found, Allocation)
    assert found.warnings == (f"{FIELD}: has no effect on site hpc1 (resources, ignore)",)


def lines(job: Workload, where: Site, **fields: Any) -> list[str]:
    chosen = route(job, where, **fields)
    return list(SYSTEMS[where.system].directives(request_of(chosen, exclusive=False)))


def test_a_mig_slice_is_a_gpu_of_a_type() -> None:
    maps = [{"match": "nvidia.com/mig-1g.5gb", "directive": "gpu-type", "value": "1g.5gb"}, GRES]
    where = site("slurm", resources=maps, gpuResources={"nvidia.com/mig-1g.5gb": "nvidia"})
    job = workload(
        container("true", resources={"limits": {"nvidia.com/mig-1g.5gb": 2, NAME: 1}}),
        gpu_resources=where.gpu_resources,
    )

    assert "--gres=gpu:1g.5gb:2,fpga:1" in lines(job, where)


def test_licences_of_the_queue_and_the_job_are_asked_for_together() -> None:
    where = site("slurm", resources=[LICENCE], queue={"directives": {"licenses": "lustre:1"}})

    assert "--licenses=lustre:1,solver:2" in lines(asks(**{"licences.example.com/solver": 2}), where)


def test_a_resource_of_a_chunk_is_in_the_select() -> None:
    assert lines(asks(**{NAME: 2}), site(resources=[CHUNK]))[1] == "-l select=1:ncpus=1:mpiprocs=1:ompthreads=1:fpgas=2"
