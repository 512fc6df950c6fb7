"""What real batch systems do to scripts, each avoided by what the script is."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import SHELL, Pod
from tests.script.test_values import fields, written

HOST = site("local", runtime="host")
MARKS = {"openpbs": "#PBS ", "torque": "#PBS ", "slurm": "#SBATCH ", "local": "#PBS "}


def nasty_job() -> Any:
    env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]
    mounts = [{"name": "data", "mountPath": "/data", "subPath": "a b/#PBS -l x"}]
    main = container("sh", *[written(value) for value in NASTY], env=env, workingDir="/a b", volumeMounts=mounts)
    return workload(main, volumes=[{"name": "data", "emptyDir": {}}])


@pytest.mark.parametrize("system", MARKS)
def test_directives_come_first_and_are_all_that_look_like_directives(system: str) -> None:
    lines = text_of(nasty_job(), site(system, directives={} if system == "slurm" else {"software": "x"})).split("\n")

    mark = MARKS[system]
    count = sum(line.startswith(mark) for line in lines)
    assert lines[0] == "#!/bin/bash"  # no BOM: it would be the first command
    assert count >= 3
    assert all(line.startswith(mark) for line in lines[1 : 1 + count])
    # Blanks before the mark count too; a comment behind a directive is an error.
    assert sum(bool(re.match(r"\s*#(PBS|SBATCH)", line)) for line in lines) == count
    assert not [line for line in lines[1 : 1 + count] if " #" in line or ", " in line or "$" in line]


@pytest.mark.parametrize("system", MARKS)
def test_no_carriage_return_which_qsub_refuses(system: str) -> None:
    assert "\r" not in text_of(nasty_job(), site(system))


@pytest.mark.parametrize("system", MARKS)
def test_the_walltime_is_never_zero_and_a_size_has_its_unit(system: str) -> None:
    job = workload(
        container("true", resources={"requests": {"memory": "1"}}),
        annotations={"batchgate.dev/walltime": "1"},
        terminationGracePeriodSeconds=0,
    )

    text = text_of(job, site(system, margin=1, memoryFloor=0))

    assert re.search(r"(walltime|time)=00:(00:02|01:00)\n", text)
    assert re.search(r"mem=1(kb|M)\b", text)


def test_a_script_that_bash_reads_from_stdin_is_not_swallowed(pod: Pod) -> None:
    """TORQUE feeds scripts through stdin, and a command that reads stdin would take the rest of it."""
    text = text_of(workload(container("/bin/sh", "-c", "cat; echo main"), initContainers=[container("cat", name="init")]),
                   site("local", runtime="host", pre=["cat"], post=["cat"]))  # fmt: skip

    run = subprocess.run(
        [SHELL], input=text.encode(), env={"PATH": os.environ["PATH"], "BATCHGATE_DIR": str(pod.path)}, check=False
    )

    assert run.returncode == 0
    assert pod.log() == "main\n"
    assert pod.log("init") == ""


def test_the_last_command_does_not_decide_the_exit_status(pod: Pod) -> None:
    text = text_of(workload(container("/bin/sh", "-c", "exit 3")), site("local", runtime="host", post=["true"]))

    assert pod.run(text) == 3


def test_success_needs_a_mark_that_only_a_script_that_ran_leaves(pod: Pod) -> None:
    pod.run(text_of(workload(container("true")), HOST))

    assert pod.notes()[-1] == pod.notes()[-1] | {"event": "ended", "code": 0, "reason": ""}
    assert pod.code() == 0


def test_cwd_is_not_the_home_and_the_umask_not_the_batch_system_s(pod: Pod) -> None:
    pod.run(
        text_of(
            workload(
                container("/bin/sh", "-c", "pwd; umask; touch $DIR/made", env=[{"name": "DIR", "value": str(pod.work)}])
            ),
            HOST,
        )
    )

    assert pod.log() == "/\n0022\n"
    assert (pod.work / "made").stat().st_mode & 0o777 == 0o644
    for name in ("log/main.0", "exit/main.0", "claim", "alive"):
        assert (pod.path / name).stat().st_mode & 0o077 == 0, name


def test_threads_are_the_container_s_cores_whatever_the_batch_system_says(pod: Pod) -> None:
    main = container("/bin/sh", "-c", "echo $OMP_NUM_THREADS", resources={"requests": {"cpu": "3"}})
    own = container(
        "/bin/sh", "-c", "echo $OMP_NUM_THREADS", name="own", env=[{"name": "OMP_NUM_THREADS", "value": "7"}]
    )

    pod.run(text_of(workload(main, own), HOST), OMP_NUM_THREADS="64", NCPUS="64")

    assert (pod.log(), pod.log("own")) == ("3\n", "7\n")


def test_a_directory_with_blanks_and_commas(tmp_path: Path) -> None:
    pod = Pod(tmp_path / "a b, $(c) 'd'").make()

    assert pod.run(text_of(workload(container("echo", "hi")), HOST)) == 0
    assert pod.log() == "hi\n"


def test_a_tmpdir_that_is_not_there(pod: Pod) -> None:
    assert pod.run(text_of(workload(container("true")), HOST), TMPDIR="/no/such/tmp") == 0


def test_slurm_s_export_none_does_not_reach_srun() -> None:
    lines = text_of(workload(container("true")), site("slurm")).splitlines()

    first = next(line for line in lines if line and not line.startswith("#"))
    assert first == "export SLURM_EXPORT_ENV=ALL SRUN_CPUS_PER_TASK=1"


# --- host lists -----------------------------------------------------------------------------------------------------


def launcher(folder: Path) -> Path:
    """A launcher that keeps its argv and the host list."""
    program = folder / "launcher"
    program.write_text(
        f'#!/bin/bash\nprintf "%s\\0" "$@" >{folder}/argv\n'
        f'while [[ $1 ]]; do case $1 in --hostfile|-f|-machinefile) cp "$2" {folder}/hosts;; esac; shift; done\n'
    )
    program.chmod(0o755)
    return program


def mpi_site(folder: Path, kind: str, system: str = "openpbs", **profile: Any) -> Site:
    return site(
        system,
        runtimePath="/bin/true",
        images=[{"match": "*", "path": "/image"}],
        mpi=[{"name": "mpi", "launcher": kind, "path": str(launcher(folder)), **profile}],
        queue={"cpusPerNode": 4},
    )


def run_ranks(
    pod: Pod, kind: str, nodefile: list[str], system: str = "openpbs", ranks: int = 6, **fields: Any
) -> list[bytes]:
    (pod.work / "nodefile").write_text("".join(f"{host}\n" for host in nodefile))
    cpu = fields.pop("cpu", None)
    resources: dict[str, Any] = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    main = container("mpirun", "-np", str(ranks), "./solver", **resources)
    status = pod.run(
        text_of(workload(main), mpi_site(pod.work, kind, system, **fields)), PBS_NODEFILE=str(pod.work / "nodefile")
    )
    assert status == 0, pod.log()
    return fields_of(pod)


def fields_of(pod: Pod) -> list[bytes]:
    return fields(pod.work / "argv")


HOSTS = {"openmpi": "{} slots={}\n", "hydra": "{}:{}\n", "intelmpi": "{}:{}\n"}


@pytest.mark.parametrize("kind", HOSTS)
@pytest.mark.parametrize(
    ("nodefile", "slots"),
    [
        # In order, once a chunk: to mpirun alone such a host would have as many slots as it has cores.
        (["n1", "n2", "n3", "n4", "n5", "n6"], [("n1", 1), ("n2", 1), ("n3", 1), ("n4", 1), ("n5", 1), ("n6", 1)]),
        # TORQUE may write them backwards: rank 0 belongs to the first line.
        (["n2", "n2", "n2", "n1", "n1", "n1"], [("n2", 3), ("n1", 3)]),
        # A host that comes again is one host.
        (["n1", "n1", "n2", "n2", "n1", "n3"], [("n1", 3), ("n2", 2), ("n3", 1)]),
    ],
)
def test_slots_are_summed_per_host_in_order_of_first_appearance(
    pod: Pod, kind: str, nodefile: list[str], slots: list[tuple[str, int]]
) -> None:
    run_ranks(pod, kind, nodefile)

    assert (pod.work / "hosts").read_text() == "".join(HOSTS[kind].format(*slot) for slot in slots)


def test_torque_s_node_file_has_a_line_for_each_core(pod: Pod) -> None:
    argv = run_ranks(pod, "openmpi", ["n2"] * 4 + ["n1"] * 4, "torque", ranks=4, cpu="8")

    assert (pod.work / "hosts").read_text() == "n2 slots=2\nn1 slots=2\n"
    assert argv[:2] == [b"-np", b"4"]


@pytest.mark.parametrize(
    ("kind", "start"),
    [
        ("openmpi", "-np 6 --hostfile {}/hosts --bind-to none --mca x y -x PATH -x BATCHGATE_WORDS_0_0"),
        ("hydra", "-n 6 -f {}/hosts --mca x y"),
        ("intelmpi", "-n 6 -machinefile {}/hosts --mca x y"),
    ],
)
def test_the_launcher_s_words(pod: Pod, kind: str, start: str) -> None:
    argv = [word.decode() for word in run_ranks(pod, kind, ["n1"] * 6, options=["--mca", "x", "y"])]

    scratch = next(word for word in argv if word.endswith("/hosts")).removesuffix("/hosts")
    assert argv == [*start.format(scratch).split(), "/bin/bash", f"{pod.path}/rank"]


# --- the code of the rank that failed ---------------------------------------------------------------------------------

KILLS_THE_OTHERS = """#!/bin/bash
for rank in 0 1 2; do PMI_RANK=$rank "${@: -2}" & done
for rank in 0 1 2; do
	wait -n
	code=$?
	((code <= worst)) || worst=$code
	((code == 0)) || kill $(jobs -p)
done
exit "$worst"
"""
"""A launcher as srun with --kill-on-bad-exit: where a task fails the others get TERM, and the largest code is its own."""


@pytest.mark.parametrize(
    ("fails", "code"), [("exit 9", 9), ("kill -KILL $$$$", 137), ("exit 1", 1), ("exec /no/such/program", 127)]
)
def test_the_code_is_that_of_the_rank_that_failed_first(pod: Pod, fails: str, code: int) -> None:
    program = pod.work / "launcher"
    program.write_text(KILLS_THE_OTHERS)
    program.chmod(0o755)
    (pod.work / "nodefile").write_text("n1\n" * 3)
    where = site("local", runtime="host", mpi=[{"name": "m", "launcher": "hydra", "path": str(program)}])
    # The others have begun, or they could not be told from ranks that never did.
    begun = f"{pod.work}/begun"
    text = f"touch {begun}.$PMI_RANK; [ $PMI_RANK = 1 ] || exec sleep 300; while [ ! -e {begun}.0 -o ! -e {begun}.2 ]; do sleep 0.1; done; {fails}"

    status = pod.run(
        text_of(workload(container("mpiexec", "-n", "3", "sh", "-c", text)), where),
        PBS_NODEFILE=str(pod.work / "nodefile"),
    )

    assert (status, pod.code()) == (code, code), pod.log()
    assert "BASHPID" not in pod.log()  # no words of the script's own shell about how a program has ended


def test_ranks_that_all_succeed_leave_the_launcher_its_code(pod: Pod) -> None:
    program = pod.work / "launcher"
    program.write_text('#!/bin/bash\n"${@: -2}"\nexit 3\n')
    program.chmod(0o755)
    (pod.work / "nodefile").write_text("n1\n")
    where = site("local", runtime="host", mpi=[{"name": "m", "launcher": "hydra", "path": str(program)}])

    text = text_of(workload(container("mpiexec", "-n", "1", "true")), where)

    assert (pod.run(text, PBS_NODEFILE=str(pod.work / "nodefile")), pod.code()) == (3, 3)
