"""Ranks for real: Open MPI's mpirun on this machine, with commands in place of containers and with an image."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from bed.standing import layout
from router.script.completing import FORMAT, part_text
from router.site.schema import Site
from tests.script.builders import container, site, text_of, workload
from tests.script.nasty import NASTY
from tests.script.running import Pod, wait_for
from tests.script.test_values import written

MPIRUN = shutil.which("mpirun")
IMAGE = layout().image
pytestmark = [pytest.mark.mpi, pytest.mark.skipif(MPIRUN is None, reason="no mpirun on this machine")]
# mpirun refuses root; only tests ever run it so.
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.getuid() == 0 else {}
HOST = socket.gethostname()


@pytest.fixture(autouse=True)
def nodefile(pod: Pod) -> None:
    pod.environment.update(AS_ROOT, PBS_NODEFILE=str(pod.work / "nodefile"))
    (pod.work / "nodefile").write_text(f"{HOST}\n" * 4)


def where(runtime: str = "host", **profile: Any) -> Site:
    return site(
        "local" if runtime == "host" else "openpbs",
        runtime=runtime,
        images=[{"match": "mpi:*", "path": str(IMAGE)}],
        mpi=[{"name": "open-mpi", "launcher": "openmpi", **profile}],
        queue={"cpusPerNode": 8, "nodes": 2},
    )


def ranks(*words: str, **fields: Any) -> dict[str, Any]:
    return container("mpirun", "-np", "4", *words, image="mpi:1", **fields)


def test_one_program_for_each_rank_with_its_values(pod: Pod) -> None:
    env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]
    line = 'printf "%s\\0" "$$@" >$DIR/argv.$OMPI_COMM_WORLD_RANK; env -0 >$DIR/env.$OMPI_COMM_WORLD_RANK'
    env.append({"name": "DIR", "value": str(pod.work)})
    text = text_of(workload(ranks("sh", "-c", line, "sh", *[written(value) for value in NASTY], env=env)), where())

    assert pod.run(text) == 0, pod.log()

    for rank in range(4):
        assert (pod.work / f"argv.{rank}").read_bytes().split(b"\0")[:-1] == [value.encode() for value in NASTY]
        found = dict(entry.split(b"=", 1) for entry in (pod.work / f"env.{rank}").read_bytes().split(b"\0")[:-1])
        assert found[b"OMPI_COMM_WORLD_SIZE"] == b"4"
        assert found[b"OMP_NUM_THREADS"] == b"1"
        assert [found[f"N{number}".encode()] for number in range(len(NASTY))] == [value.encode() for value in NASTY]


def test_what_the_user_s_launcher_sets_reaches_the_ranks(pod: Pod) -> None:
    text = text_of(workload(ranks("-x", "A=of launcher", "-x", "B", "sh", "-c", 'echo "$A $B"', env=[{"name": "A", "value": "own"}, {"name": "B", "value": "kept"}])), where())  # fmt: skip

    assert pod.run(text) == 0, pod.log()
    assert pod.log() == "of launcher kept\n" * 4


def test_the_profile_s_variables_are_there_and_the_job_s_own_win(pod: Pod) -> None:
    text = text_of(
        workload(
            ranks(
                "sh",
                "-c",
                'echo "$UCX_A $UCX_B $OMPI_MCA_btl_vader_single_copy_mechanism"',
                env=[{"name": "UCX_B", "value": "job"}],
            )
        ),
        where(env={"UCX_A": "profile a", "UCX_B": "profile"}),
    )

    assert pod.run(text) == 0, pod.log()
    assert pod.log() == "profile a job none\n" * 4


def test_the_exit_code_of_a_rank_is_the_container_s(pod: Pod) -> None:
    line = "[ $OMPI_COMM_WORLD_RANK != 2 ] || exit 9; sleep 30"

    assert pod.run(text_of(workload(ranks("sh", "-c", line)), where())) == 9
    assert pod.code() == 9


LIMITED = container("timeout", "15", "mpirun", "-np", "4", "sh", "-c", "echo up; sleep 90; echo late", image="mpi:1")


def test_a_timeout_before_the_launcher_ends_it_with_timeout_s_code(pod: Pod) -> None:
    began = time.monotonic()

    assert pod.run(text_of(workload(LIMITED), where())) == 124

    assert (pod.code(), pod.log().count("up"), pod.log().count("late")) == (124, 4, 0)
    assert 15 <= time.monotonic() - began < 55


def test_a_program_that_ends_with_success_at_a_timeout_has_timeout_s_code_too(pod: Pod) -> None:
    line = "trap 'exit 0' TERM; echo up; while :; do sleep 0.1; done"
    limited = container("timeout", "2", "mpirun", "-np", "4", "sh", "-c", line, image="mpi:1")

    assert pod.run(text_of(workload(limited), where())) == 124


@pytest.mark.parametrize("code", [0, 9])
def test_a_program_that_ends_before_a_timeout_has_its_own_code(pod: Pod, code: int) -> None:
    limited = container("timeout", "1h", "mpirun", "-np", "4", "sh", "-c", f"exit {code}", image="mpi:1")

    assert pod.run(text_of(workload(limited), where())) == code


TRAPS = "trap 'echo asked; sleep 3; echo ready; exit 6' TERM; echo up; while :; do sleep 0.1; done"


def test_a_signal_gives_each_rank_the_grace_period(pod: Pod) -> None:
    job = pod.start(text_of(workload(ranks("sh", "-c", TRAPS)), where()))
    wait_for(lambda: pod.log().count("up") == 4, "for four ranks")

    job.terminate()

    assert job.wait(40) == 6
    assert (pod.log().count("asked"), pod.log().count("ready")) == (4, 4)


def test_on_torque_s_several_nodes_the_word_in_a_file_gives_each_rank_the_grace_period(pod: Pod) -> None:
    """A signal would kill what runs on the others."""
    made = text_of(workload(ranks("sh", "-c", TRAPS)), where())
    job = pod.start(made.replace('\nmain "$@"\n', f'{part_text(FORMAT, "endfile")}\nmain "$@"\n'))
    wait_for(lambda: pod.log().count("up") == 4, "for four ranks")
    assert (pod.path / "end").read_text() == ""

    (pod.path / "half").write_text("end\n")
    (pod.path / "half").rename(pod.path / "end")

    assert job.wait(40) == 6
    assert (pod.log().count("asked"), pod.log().count("ready")) == (4, 4)


def test_after_the_grace_period_all_ranks_are_killed(pod: Pod) -> None:
    line = "trap '' TERM; echo up $$$$; while :; do sleep 0.1; done"
    job = pod.start(text_of(workload(ranks("sh", "-c", line), terminationGracePeriodSeconds=1), where()))
    wait_for(lambda: pod.log().count("up") == 4, "for four ranks")
    pids = [int(word) for word in pod.log().split() if word.isdigit()]

    job.terminate()

    assert job.wait(40) == 137
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "for the end of the ranks")


def test_a_killed_job_takes_its_ranks_along(pod: Pod) -> None:
    job = pod.start(text_of(workload(ranks("sh", "-c", "echo up $$$$; exec sleep 300")), where()))
    wait_for(lambda: pod.log().count("up") == 4, "for four ranks")
    pids = [int(word) for word in pod.log().split() if word.isdigit()]

    os.killpg(job.pid, 9)

    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "for the end of the ranks")


def test_ranks_make_no_directory_that_a_kill_at_their_start_would_leave(pod: Pod) -> None:
    # A function in the environment: mpirun puts its own directory before all others of PATH.
    pod.environment["BASH_FUNC_mktemp%%"] = f'() {{ echo made >>{pod.work}/made; command mktemp "$@"; }}'

    assert pod.run(text_of(workload(ranks("true")), where())) == 0, pod.log()

    assert (pod.work / "made").read_text() == "made\n", "beside that of the script"


def test_too_few_places_are_said_before_ranks_start(pod: Pod) -> None:
    (pod.work / "nodefile").write_text(f"{HOST}\n")

    assert pod.run(text_of(workload(ranks("echo", "ran")), where())) == 1
    assert pod.log() == "batchgate: the batch system gave places for 1 ranks, and 4 are to run\n"


def test_a_node_that_cannot_be_reached_is_one_sentence_in_a_time_that_is_set(pod: Pod) -> None:
    agent = pod.work / "never"
    agent.write_text("#!/bin/sh\nexec sleep 300\n")  # as ssh to a machine that is off
    agent.chmod(0o755)
    (pod.work / "nodefile").write_text(f"{HOST}\n{HOST}\nelsewhere\nelsewhere\n")
    text = text_of(workload(ranks("echo", "ran")), where(env={"OMPI_MCA_plm_rsh_agent": str(agent), "PRTE_MCA_plm_ssh_agent": str(agent)}))  # fmt: skip

    assert pod.run(text.replace("60 + ranks / 10", "3 + ranks / 10")) == 1
    assert pod.code() == 1
    assert f"batchgate: mpirun has started no rank in 3 s: a node cannot be reached, or starts nothing. They are: {HOST} slots=2 elsewhere slots=2\n" in pod.log()  # fmt: skip


def test_a_launcher_that_is_not_there_is_one_clear_sentence(pod: Pod) -> None:
    assert pod.run(text_of(workload(ranks("echo", "ran")), where(path="/no/such/mpirun"))) == 127
    assert pod.log().startswith("batchgate: there is no /no/such/mpirun on ")


def test_another_container_gets_none_of_the_launcher_s_variables(pod: Pod) -> None:
    text = text_of(workload(ranks("true"), initContainers=[container("env", name="init")]), where())

    assert pod.run(text) == 0
    assert not [line for line in pod.log("init").splitlines() if line.startswith(("OMPI_", "PMIX_"))]


@pytest.mark.apptainer
@pytest.mark.skipif(not IMAGE.exists(), reason="no image with an MPI program (make bed)")
class TestInImage:
    def test_ranks_talk(self, pod: Pod) -> None:
        assert pod.run(text_of(workload(ranks("ring")), where("apptainer"))) == 0, pod.log()
        assert sorted(line for line in pod.log().splitlines() if line.startswith("rank=")) == [
            f"rank={rank} size=4 node={HOST} sum=10 from={(rank - 1) % 4} container=yes" for rank in range(4)
        ]

    def test_values_arrive_byte_for_byte(self, pod: Pod) -> None:
        env = [{"name": f"N{number}", "value": written(value)} for number, value in enumerate(NASTY)]
        mounts = [{"name": "out", "mountPath": "/out"}]
        line = 'printf "%s\\0" "$$@" >/out/argv.$OMPI_COMM_WORLD_RANK; env -0 >/out/env.$OMPI_COMM_WORLD_RANK'
        main = ranks("sh", "-c", line, "sh", *[written(value) for value in NASTY], env=env, volumeMounts=mounts)
        text = text_of(workload(main, volumes=[{"name": "out", "emptyDir": {}}]), where("apptainer"))

        assert pod.run(text) == 0, pod.log()

        out = pod.path / "volumes" / "out"
        for rank in range(4):
            assert (out / f"argv.{rank}").read_bytes().split(b"\0")[:-1] == [value.encode() for value in NASTY]
            found = dict(entry.split(b"=", 1) for entry in (out / f"env.{rank}").read_bytes().split(b"\0")[:-1])
            assert [found[f"N{number}".encode()] for number in range(len(NASTY))] == [value.encode() for value in NASTY]

    def test_a_signal_gives_each_rank_the_grace_period(self, pod: Pod) -> None:
        line = "trap 'echo asked; sleep 3; cat /etc/passwd >/dev/null && echo ready; exit 6' TERM; echo up; while :; do sleep 0.1; done"
        job = pod.start(text_of(workload(ranks("sh", "-c", line)), where("apptainer")))
        wait_for(lambda: pod.log().count("up") == 4, "for four ranks")

        job.terminate()

        assert job.wait(40) == 6
        assert (pod.log().count("asked"), pod.log().count("ready")) == (4, 4)

    def test_shared_memory_is_the_node_s_own_though_an_empty_dir_is_mounted_there(self, pod: Pod) -> None:
        main = ranks(
            "ring",
            volumeMounts=[{"name": "shm", "mountPath": "/dev/shm"}, {"name": "t", "mountPath": "/tmp"}],
        )
        volumes = [{"name": "shm", "emptyDir": {"medium": "Memory"}}, {"name": "t", "emptyDir": {}}]

        assert pod.run(text_of(workload(main, volumes=volumes), where("apptainer"))) == 0, pod.log()
        assert pod.log().count("size=4 node=") == 4
