"""GPUs: the batch system's list goes to the containers, and too few of them is said at once."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod
from tests.script.test_values import fields, recorder, variables

HOST = site("local", runtime="host")
SHOW = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES$ROCR_VISIBLE_DEVICES")


def gpus(count: int, *command: str, vendor: str = "nvidia", **fields: Any) -> dict[str, Any]:
    return container(*command, resources={"limits": {f"{vendor}.com/gpu": str(count)}}, **fields)


@pytest.mark.parametrize(
    ("variable", "vendor", "listed"),
    [
        ("CUDA_VISIBLE_DEVICES", "nvidia", "2,3"),
        ("CUDA_VISIBLE_DEVICES", "nvidia", "GPU-8932f937-d72c,GPU-1,"),
        ("CUDA_VISIBLE_DEVICES", "nvidia", "MIG-GPU-1/1/0,MIG-GPU-1/2/0"),
        ("ROCR_VISIBLE_DEVICES", "amd", "0,1"),
    ],
)
def test_the_list_is_passed_on(pod: Pod, variable: str, vendor: str, listed: str) -> None:
    assert pod.run(text_of(workload(gpus(2, *SHOW, vendor=vendor)), HOST), **{variable: listed}) == 0
    assert pod.log() == listed.rstrip(",") + "\n"


def test_containers_that_run_together_get_devices_of_their_own(pod: Pod) -> None:
    job = workload(
        gpus(1, *SHOW),
        gpus(2, *SHOW, name="two"),
        container(*SHOW, name="none"),
        initContainers=[gpus(1, *SHOW, name="init")],
    )

    assert pod.run(text_of(job, HOST), CUDA_VISIBLE_DEVICES="4,5,6") == 0
    assert (pod.log("init"), pod.log(), pod.log("two"), pod.log("none")) == ("4\n", "4\n", "5,6\n", "\n")


def test_the_job_s_own_variable_cannot_reach_another_s_devices(pod: Pod) -> None:
    main = gpus(1, *SHOW, env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1,2,3"}])

    assert pod.run(text_of(workload(main), HOST), CUDA_VISIBLE_DEVICES="2") == 0
    assert pod.log() == "2\n"


def test_torque_s_gpu_file(pod: Pod) -> None:
    host = socket.gethostname()
    (pod.work / "gpufile").write_text(f"{host}-gpu1\n{host}-gpu3\nother-gpu0\n{host}0-gpu2\n")
    where = site("torque", runtimePath=str(recorder(pod.work)))

    assert pod.run(text_of(workload(gpus(2, "p")), where), PBS_GPUFILE=str(pod.work / "gpufile")) == 0
    assert variables(pod.work / "env")[b"APPTAINERENV_CUDA_VISIBLE_DEVICES"] == b"1,3"


@pytest.mark.parametrize(
    "variables",
    [
        {"CUDA_VISIBLE_DEVICES": "0"},
        {"CUDA_VISIBLE_DEVICES": "NoDevFiles"},
        {"SLURM_GPUS_ON_NODE": "1"},
        {"SLURM_GPUS_ON_NODE": "2"},  # granted, and no device is there
        {},
    ],
)
def test_fewer_than_asked_ends_the_job_at_once_with_that_sentence(pod: Pod, variables: dict[str, str]) -> None:
    text = text_of(workload(gpus(2, "/bin/sh", "-c", "echo ran")), HOST).replace(
        "/dev/nvidia[0-9]*", "/no/such/device*"
    )

    assert pod.run(text, **variables) == 1
    assert "this Pod asks for 2 GPUs on each node, and " in pod.log()
    assert "ran\n" not in pod.log()
    assert pod.code() == 1


def test_without_a_list_the_device_files_count(pod: Pod) -> None:
    for number in range(2):
        (pod.work / f"nvidia{number}").touch()
    text = text_of(workload(gpus(2, *SHOW)), HOST).replace("/dev/nvidia", f"{pod.work}/nvidia")

    assert pod.run(text) == 0
    assert pod.log() == "\n"


def test_of_device_files_only_as_many_as_slurm_granted_count(pod: Pod) -> None:
    for number in range(4):
        (pod.work / f"nvidia{number}").touch()
    text = text_of(workload(gpus(2, *SHOW)), HOST).replace("/dev/nvidia", f"{pod.work}/nvidia")

    assert pod.run(text, SLURM_GPUS_ON_NODE="1") == 1
    assert "this Pod asks for 2 GPUs on each node, and 1 are visible" in pod.log()


@pytest.mark.parametrize(("vendor", "option"), [("nvidia", b"--nv"), ("amd", b"--rocm")])
def test_the_runtime_s_option(pod: Pod, vendor: str, option: bytes) -> None:
    where = site(runtimePath=str(recorder(pod.work)))

    pod.run(text_of(workload(gpus(1, "p", vendor=vendor)), where), CUDA_VISIBLE_DEVICES="0", ROCR_VISIBLE_DEVICES="0")

    assert option in fields(pod.work / "argv")


def test_a_container_that_asks_for_none_has_none(pod: Pod) -> None:
    where = site(runtimePath=str(recorder(pod.work)))

    pod.run(text_of(workload(container("p")), where), CUDA_VISIBLE_DEVICES="0")

    assert not {b"--nv", b"--rocm"} & set(fields(pod.work / "argv"))
    assert b"APPTAINERENV_CUDA_VISIBLE_DEVICES" not in variables(pod.work / "env")


def exclusive(system: str) -> Site:
    return site(system, gpus="exclusive")


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("openpbs", "#PBS -l place=pack:excl"),
        ("torque", "#PBS -l naccesspolicy=singlejob"),
        ("slurm", "#SBATCH --exclusive"),
    ],
)
def test_a_site_that_hides_no_devices_gives_whole_nodes(system: str, line: str) -> None:
    assert line in text_of(workload(gpus(1, "p")), exclusive(system)).splitlines()
    assert line not in text_of(workload(container("p")), exclusive(system)).splitlines()
