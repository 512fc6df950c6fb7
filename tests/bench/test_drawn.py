"""Jobs that are drawn: those of the published model, and those of a study."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import drawn, lublin
from bench.drawn import Task
from router.simulate.play import CLOUD, Run


@given(st.integers(1, 1000), st.floats(0.1, 1.5), st.integers(2, 60))
@settings(max_examples=30, deadline=None)
def test_a_load_only_stretches_the_times_of_arrival(seed: int, load: float, jobs: int) -> None:
    found, other = lublin.workload(jobs, load, seed), lublin.workload(jobs, 1.0, seed)

    asked = sum(one.processors * one.runtime for one in found)
    assert found[0].arrival == 0
    assert asked / (lublin.PROCESSORS * found[-1].arrival) == pytest.approx(load)
    assert [replace(one, arrival=0) for one in found] == [replace(one, arrival=0) for one in other]
    assert all(one.arrival == pytest.approx(two.arrival / load) for one, two in zip(found, other, strict=True))
    assert all(1 <= one.processors <= lublin.PROCESSORS and one.runtime <= 162_754 for one in found)
    assert all(one.runtime <= one.walltime or one.walltime == 259_200 for one in found)


def test_sizes_are_those_of_the_published_model() -> None:
    """Its parameters are 29 % serial jobs and 67 % powers of two; of the other sizes some are powers by chance."""
    found = [one.processors for one in lublin.workload(20_000, 1.0, 1)]

    powers = [one for one in found if one > 1 and one & (one - 1) == 0]
    assert found.count(1) / len(found) == pytest.approx(0.293, abs=0.01)
    assert len(powers) / len(found) == pytest.approx(0.685, abs=0.015)
    assert statistics.median(found) == 4


@pytest.mark.parametrize(("cores", "largest"), [(16, 4), (16, 16), (128, 16)])
def test_a_study_has_jobs_that_a_node_holds(cores: int, largest: int) -> None:
    found = drawn.draw(60, 0.9, 7, 5.0, cores=cores, largest=largest)

    asked = sum(one.cores * one.seconds for one in found)
    assert [one.number for one in found] == list(range(60))
    assert max(one.cores for one in found) == largest
    assert asked / (cores * found[-1].arrival) == pytest.approx(0.9)
    assert sorted(found, key=lambda one: one.arrival) == found
    assert all(one.seconds < one.minutes * 60 for one in found)
    assert found == drawn.draw(60, 0.9, 7, 5.0, cores=cores, largest=largest)
    assert found != drawn.draw(60, 0.9, 8, 5.0, cores=cores, largest=largest)


def documents(nodes: int, cores: int) -> dict[str, Any]:
    queue = {"name": "batch", **drawn.declared(nodes, cores), "walltimeMax": "1h"}
    site = {
        "name": "hpc",
        "system": "openpbs",
        "access": "sudo",
        "helper": "/opt/batchgate/helper",
        "workDir": "/scratch/{user}",
        "images": [{"match": "*", "path": "/images/any.sif"}],
        "margin": 5,
        "volumes": [{"hostPath": "/scratch", "path": "/scratch"}],
        "queues": [queue],
    }
    accounts = [{"users": ["ada"], "site": "hpc", "as": "hpc-ada"}]
    return {
        "sites.yaml": {"sites": [site]},
        "accounts.yaml": {"accounts": accounts},
        "rules.yaml": {"rules": drawn.rules("batch")},
    }


@pytest.mark.parametrize("split", [False, True])
def test_in_the_model_cores_alone_bound_what_runs_and_a_container_ends_before_its_job(split: bool) -> None:
    """Three jobs of a core, on one node of two: the third waits until a batch job is over, half a second after its container."""
    tasks = [Task(number, 0.0, 2.0, 1, 1) for number in range(3)]
    queue = drawn.Queue(documents(1, 2), "ada", "hpc/batch", 1, "/scratch")

    found = drawn.played(tasks, queue, 0.5, split=split)

    began = (0.0, 0.0, 0.0 if split else 2.5)
    to = CLOUD if split else "hpc/batch"
    assert found == tuple(Run(number, to, 0.0, at, at + 2.0, 1, cut=False) for number, at in enumerate(began))
