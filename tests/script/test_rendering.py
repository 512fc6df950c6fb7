"""The script as a text: the same for the same input, small, and honest about what it does otherwise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from router import script
from router.script.containers import understands_no_eval
from router.site.schema import Runtime
from tests.script.builders import container, route, site, text_of, workload

SCRATCH = [{"name": "s", "mountPath": "/scratch"}]
TWO = (
    container("sh", "-c", "make all", env=[{"name": "A", "value": "b c"}], volumeMounts=SCRATCH),
    container("tail", "-f", "/scratch/log", name="follow", volumeMounts=SCRATCH),
)
VOLUME = [{"name": "s", "emptyDir": {}}]


def rendered(*containers: dict[str, Any], where: Any = None, **fields: Any) -> script.Script:
    job = workload(*containers, **fields)
    return script.render(job, route(job, where or site()))


def test_the_same_input_gives_the_same_script() -> None:
    assert rendered(*TWO, volumes=VOLUME) == rendered(*TWO, volumes=VOLUME)


# On Slurm a script of one node also measures what the job uses.
@pytest.mark.parametrize(
    ("system", "most"), [("openpbs", 18_000), ("torque", 18_000), ("slurm", 19_500), ("local", 18_000)]
)
def test_an_ordinary_script_is_small(system: str, most: int) -> None:
    assert len(rendered(*TWO, volumes=VOLUME, where=site(system)).text.encode()) < most


def test_the_job_s_name_cannot_leave_its_comment() -> None:
    job = workload(container("true"))
    named = replace(job, name="a\nrm -rf ~\r\u2028x")

    text = script.render(named, route(named, site())).text

    assert "# --- this Job: physics/a?rm -rf ~??x ---\n" in text


@pytest.mark.parametrize(
    ("containers", "fields", "where", "words"),
    [
        (
            (container("true", volumeMounts=[{"name": "s", "mountPath": "/dev/shm"}]),),
            {"volumes": [{"name": "s", "emptyDir": {"medium": "Memory"}}]},
            site(),
            "the node's own /dev/shm",
        ),
        (
            (container("mpirun", "-np", "2", "--bind-to", "core", "a"),),
            {},
            site(mpi=[{"name": "i", "launcher": "intelmpi"}]),
            "is unknown to intelmpi",
        ),
    ],
)
def test_warnings(containers: tuple[dict[str, Any], ...], fields: dict[str, Any], where: Any, words: str) -> None:
    warnings = rendered(*containers, where=where, **fields).warnings

    assert len(warnings) == 1
    assert words in warnings[0]


def test_a_project_that_torque_does_not_know_is_named() -> None:
    job = workload(container("true"))

    warnings = script.render(job, route(job, site("torque"), project="p")).warnings

    assert warnings == ("Project p is left out: TORQUE has no projects.",)


def test_an_ordinary_job_has_no_warnings() -> None:
    assert rendered(*TWO, volumes=VOLUME).warnings == ()


@pytest.mark.parametrize(
    ("runtime", "version", "expected"),
    [
        ("apptainer", None, True),
        ("apptainer", "1.0.3", False),
        ("apptainer", "1.1", True),
        ("apptainer", "1.4.5", True),
        ("singularity", "3.8.7", False),
        ("singularity", "3.10.0", True),
        ("singularity", "4.1", True),
        ("singularity", "2.6", False),
    ],
)
def test_runtimes_that_take_values_as_they_are(runtime: str, version: str | None, expected: bool) -> None:
    assert understands_no_eval(Runtime(runtime), version) is expected


def test_registries_that_speak_plain_http() -> None:
    where = site(insecureRegistries=["registry.lab:*"])

    assert "--no-https" in rendered(container("true", image="registry.lab:5000/x"), where=where).text
    assert "--no-https" not in rendered(container("true", image="other.lab:5000/x"), where=where).text
    assert "--no-https" not in rendered(container("true", image="busybox"), where=where).text


@pytest.mark.parametrize(("nodes", "ranks"), [("1", ""), ("2", "mpi=0")])
def test_on_one_node_the_image_s_own_launcher_starts_the_ranks_of_a_text(nodes: str, ranks: str) -> None:
    """They see what the text has written beside volumes, as on a cluster."""
    hints = {"batchgate.dev/ranks": "4", "batchgate.dev/nodes": nodes}
    made = workload(container("sh", "-c", "cd /opt && mpirun -np 4 ./a | tee log"), annotations=hints)
    where = site("openpbs", mpi=[{"name": "m", "launcher": "openmpi"}])

    lines = text_of(made, where).splitlines()

    assert [line.split(" ")[0] for line in lines if line.startswith("mpi=")] == ([ranks] if ranks else [])
    assert any("OMPI_MCA_hwloc_base_binding_policy=none" in line for line in lines) is not bool(ranks)
