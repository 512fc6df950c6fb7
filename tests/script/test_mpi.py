"""Each launcher's spelling of ranks, hosts, mapping and binding."""

from __future__ import annotations

import re
from typing import Any

import pytest

from router import script
from router.script.mpi import Start, start_of
from tests.script.builders import container, route, site, text_of, workload
from tests.script.running import Pod


def start(*command: str, launcher: str = "openmpi", system: str = "openpbs", **profile: Any) -> Start:
    where = site(system, mpi=[{"name": "m", "launcher": launcher, **profile}], queue={"cpusPerNode": 4})
    job = workload(container(*(command or ("mpirun", "-np", "8", "./a")), resources={"requests": {"cpu": "16"}}))
    chosen = route(job, where)
    assert chosen.profile is not None
    return start_of(job.containers[0], chosen, chosen.profile)


@pytest.mark.parametrize(
    ("launcher", "system", "program", "options", "host_line", "signal"),
    [
        ("openmpi", "openpbs", "mpirun", '-np 8 --hostfile "$scratch/hosts" --bind-to none', "%s slots=%d", "USR1"),
        ("openmpi", "slurm", "mpirun", "-np 8 --bind-to none", "", "USR1"),
        ("hydra", "torque", "mpiexec", '-n 8 -f "$scratch/hosts"', "%s:%d", ""),
        ("hydra", "slurm", "mpiexec", "-n 8", "", ""),
        ("intelmpi", "openpbs", "mpiexec", '-n 8 -machinefile "$scratch/hosts"', "%s:%d", ""),
        ("srun", "slurm", "srun", "--nodes=4 --ntasks=8 --cpus-per-task=2 --export=ALL --kill-on-bad-exit=1", "", ""),
    ],
)
def test_a_start(launcher: str, system: str, program: str, options: str, host_line: str, signal: str) -> None:
    found = start(launcher=launcher, system=system)

    assert (found.program, found.options, found.host_line, found.signal) == (program, options, host_line, signal)
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("gpus", "profile", "expected"),
    [
        (8, {"gpus": "rank"}, " --gpus-per-task=1"),
        (16, {"gpus": "rank"}, " --gpus-per-task=2"),
        (4, {"gpus": "rank"}, ""),  # two ranks to a GPU
        (8, {}, ""),
        (0, {"gpus": "rank"}, ""),
        (8, {"gpus": "rank", "options": ["--gpu-bind=closest"]}, ""),
        (8, {"gpus": "rank", "launcher": "openmpi"}, ""),
    ],
)
def test_srun_binds_gpus_to_ranks(gpus: int, profile: dict[str, Any], expected: str) -> None:
    where = site("slurm", mpi=[{"name": "m", "launcher": "srun", **profile}], queue={"cpusPerNode": 4})
    resources = {"requests": {"cpu": "16"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    job = workload(container("mpirun", "-np", "8", "./a", resources=resources))
    chosen = route(job, where)
    assert chosen.profile is not None

    options = start_of(job.containers[0], chosen, chosen.profile).options
    assert ("--gpus-per-task" in options, expected in options) == (bool(expected), True)


def test_torque_counts_cores_per_line() -> None:
    assert start(system="torque").cores_per_line == 2
    assert start(system="openpbs").cores_per_line == 1


@pytest.mark.parametrize(
    ("launcher", "expected"),
    [
        (
            "openmpi",
            ("OMPI_MCA_btl_vader_single_copy_mechanism=none", "UCX_POSIX_USE_PROC_LINK=n", "UCX_TLS=^cma", "A=b c"),
        ),
        ("hydra", ("MPIR_CVAR_CH4_CMA_ENABLE=0", "UCX_POSIX_USE_PROC_LINK=n", "UCX_TLS=^cma", "A=b c")),
        ("intelmpi", ("MPIR_CVAR_CH4_CMA_ENABLE=0", "UCX_POSIX_USE_PROC_LINK=n", "UCX_TLS=^cma", "A=b c")),
    ],
)
def test_the_environment_of_launcher_and_profile(launcher: str, expected: tuple[str, ...]) -> None:
    assert start(launcher=launcher, env={"A": "b c"}).environment == expected


def test_under_srun_the_ranks_are_ready_for_whatever_mpi_the_image_has() -> None:
    assert start(launcher="srun", system="slurm").environment == (
        "OMPI_MCA_btl_vader_single_copy_mechanism=none",
        "MPIR_CVAR_CH4_CMA_ENABLE=0",
        "UCX_POSIX_USE_PROC_LINK=n",
        "UCX_TLS=^cma",
    )


@pytest.mark.parametrize(
    ("ranks", "nodes", "system", "expected"),
    [
        (8, 4, "slurm", ""),
        (10, 4, "slurm", "3(x2),2(x2)"),
        (10, 3, "slurm", "4,3(x2)"),
        (7, 2, "slurm", "4,3"),
        (10, 4, "openpbs", ""),
    ],
)
def test_slurm_is_told_where_ranks_do_not_divide_evenly(ranks: int, nodes: int, system: str, expected: str) -> None:
    where = site(system, mpi=[{"name": "m", "launcher": "openmpi"}], queue={"cpusPerNode": 4})
    job = workload(container("mpirun", "-np", str(ranks), "./a"), annotations={"batchgate.dev/nodes": str(nodes)})
    chosen = route(job, where)
    assert chosen.profile is not None

    assert start_of(job.containers[0], chosen, chosen.profile).tasks_per_node == expected
    lines = script.render(job, chosen).text.splitlines()
    assert lines.count(f"\texport SLURM_TASKS_PER_NODE='{expected}'") == bool(expected)


def test_a_profile_may_set_a_default_otherwise() -> None:
    name = "OMPI_MCA_btl_vader_single_copy_mechanism"

    expected = (f"{name}=cma", "UCX_POSIX_USE_PROC_LINK=n", "UCX_TLS=sysv")
    assert start(env={name: "cma", "UCX_TLS": "sysv"}).environment == expected


@pytest.mark.parametrize(
    ("launcher", "command", "options"),
    [
        (
            "openmpi",
            ("mpirun", "-np", "8", "--map-by", "ppr:2:node", "--bind-to", "core", "./a"),
            "--map-by ppr:2:node --bind-to core",
        ),
        ("hydra", ("mpiexec", "-n", "8", "-bind-to", "core", "./a"), "-bind-to core"),
        (
            "srun",
            ("srun", "-n", "8", "-m", "cyclic", "--cpu-bind=cores", "./a"),
            "--distribution=cyclic --cpu-bind=cores",
        ),
    ],
)
def test_the_user_s_placement(launcher: str, command: tuple[str, ...], options: str) -> None:
    system = "slurm" if launcher == "srun" else "openpbs"
    assert start(*command, launcher=launcher, system=system).options.endswith(options)


def test_a_placement_that_means_nothing_to_the_site_s_launcher_is_named() -> None:
    found = start("mpirun", "-np", "8", "--bind-to", "core", "./a", launcher="intelmpi")

    assert "core" not in found.options
    assert len(found.warnings) == 1
    assert "'core' is unknown to intelmpi" in found.warnings[0]


def test_a_placement_is_no_way_to_add_options() -> None:
    found = start("mpirun", "-np", "8", "--bind-to", "core --mca x $(y)", "./a")

    assert "$(y)" not in found.options
    assert "--bind-to none" in found.options


@pytest.mark.parametrize("options", [("--bind-to", "numa"), ("--map-by", "slot:PE=2"), ("--cpu-set", "0-3")])
def test_a_profile_s_own_binding_stands_alone(options: tuple[str, ...]) -> None:
    assert start(options=options).options.endswith(" ".join(options))


def test_a_profile_s_options_and_path_are_quoted() -> None:
    found = start(options=["--mca", "a b"], path="/opt/my mpi/bin/mpirun")

    assert found.options.endswith("--mca 'a b'")
    assert found.path == "'/opt/my mpi/bin/mpirun'"


@pytest.mark.parametrize(
    ("command", "env", "bound"),
    [
        (("sh", "-c", "cd /w && mpirun -np 2 ./a"), [], ["0", "none", "none"]),
        (("sh", "-c", "mpiexec ./a | tee x"), [{"name": "I_MPI_PIN", "value": "1"}], ["1", "none", "none"]),
        (("./a",), [], []),
    ],
)
def test_a_launcher_that_stays_in_its_container_binds_to_no_cores(
    command: tuple[str, ...], env: list[dict[str, str]], bound: list[str]
) -> None:
    text = text_of(workload(container(*command, env=env)), site("openpbs"))

    names = r"(?:I_MPI_PIN|OMPI_MCA_hwloc_base_binding_policy|PRTE_MCA_hwloc_default_binding_policy)=(\w+)"
    assert sorted(re.findall(names, text)) == bound


def test_the_launcher_s_directory_has_its_place_in_the_pod_s_tmp_before_a_runtime_would_make_it(pod: Pod) -> None:
    session = pod.work / "session" / "pid.1"
    session.mkdir(parents=True)
    runtime, launcher = pod.work / "runtime", pod.work / "launcher"
    runtime.write_text(
        "#!/bin/bash\nfor word; do\n"
        '\t[[ $word != *:/tmp ]] || [[ -d ${word%:/tmp}${PMIX_SERVER_TMPDIR#/tmp} ]] || { echo "no place"; exit 9; }\n'
        'done\necho "${PMIX_SERVER_TMPDIR:-look}"\n'
    )
    launcher.write_text(
        f'#!/bin/bash\n[[ $1 != --version ]] || exit 0\nexport PMIX_SERVER_TMPDIR={session}\nexec "${{@: -2}}"\n'
    )
    for program in (runtime, launcher):
        program.chmod(0o755)
    where = site(
        "openpbs",
        runtimePath=str(runtime),
        images=[{"match": "*", "path": "/sif/image.sif"}],
        mpi=[{"name": "m", "launcher": "openmpi", "path": str(launcher)}],
    )
    (pod.work / "nodefile").write_text("n1\n")

    code = pod.run(
        text_of(workload(container("mpirun", "-np", "1", "./a")), where), PBS_NODEFILE=f"{pod.work}/nodefile"
    )

    assert (code, pod.log()) == (0, f"{session}\n")
