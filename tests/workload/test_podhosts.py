"""Jobs whose Pods are the hosts of one launcher: kept in the cloud or told, with what to write."""

from __future__ import annotations

from typing import Any

import pytest

from router.workload import workload_of
from tests.workload.manifests import container, job

COMMAND = "spec.template.spec.containers[0].command"
ADVICE = "see docs/mpi.md: for several nodes write parallelism: 1 and mpirun -np RANKS without hosts"
EACH = "here each of 4 Pods is a batch job of its own"
INDEXED: dict[str, Any] = {"parallelism": 4, "completions": 4, "completionMode": "Indexed"}


def found(command: list[str], **spec: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """The obstacles, and the warnings that name this page."""
    sized = workload_of(job(container(command=command), **spec), namespace="n")
    told = [one for one in sized.warnings if "parallelism: 1" in one]
    return [(one.path, one.reason) for one in sized.obstacles], told


LEADER = """/usr/sbin/sshd
if [ "$JOB_COMPLETION_INDEX" = "0" ]; then
  for i in $(seq 0 3); do echo "solver-$i.solver slots=8" >> hosts; done
  mpirun -np 32 --hostfile hosts ./solver
else
  sleep infinity
fi
"""

KEPT = [
    (["mpirun", "-np", "16", "-H", "podA:8,podB:8", "./a"], COMMAND, "mpirun -H podA:8,podB:8 names hosts that only the cluster has"),
    (["mpirun", "-np", "16", "--hostfile", "/etc/mpi/hosts", "./a"], COMMAND, "mpirun --hostfile /etc/mpi/hosts names hosts that only the cluster has"),
    (["mpirun", "--host=a,localhost", "./a"], COMMAND, "mpirun --host a,localhost names hosts that only the cluster has"),
    (["sh", "-c", "cd /w; mpirun -np 16 -H podA:8,podB:8 ./a | tee log"], f"{COMMAND}[2]", "mpirun -H podA:8,podB:8 in line 1 names hosts that only the cluster has"),
    (["sh", "-c", "x\nmpirun -np 16 -H $HOSTS ./a"], f"{COMMAND}[2]", "mpirun -H in line 2 names hosts that only the cluster has"),
    (["bash", "-c", LEADER], f"{COMMAND}[2]", "mpirun --hostfile hosts in line 4 names hosts that only the cluster has"),
    (["bash", "-c", "mkdir -p /run/sshd; /usr/sbin/sshd -D"], f"{COMMAND}[2]", "sshd waits for a launcher in another Pod"),
    (["/usr/sbin/sshd", "-D"], f"{COMMAND}[0]", "sshd waits for a launcher in another Pod"),
    (["sh", "-c", "cd /w; mpirun $OPTS --hostfile hosts ./a"], f"{COMMAND}[2]", "mpirun --hostfile hosts in line 1 names hosts that only the cluster has"),
    (["sh", "-c", "cd /w; mpirun --unheard of -H podA,podB ./a"], f"{COMMAND}[2]", "mpirun -H podA,podB in line 1 names hosts that only the cluster has"),
    (["sh", "-c", "cd /w; mpirun -np 1 ./a : -np 2 --host podB ./b"], f"{COMMAND}[2]", "mpirun --host podB in line 1 names hosts that only the cluster has"),
    (["sh", "-c", "for h in localhost podB; do mpirun -np 2 -H $h ./a | tee x; done"], f"{COMMAND}[2]", "mpirun -H podB in line 1 names hosts that only the cluster has"),
    (["sh", "-c", "cd /w; srun -w n1,n2 -n 4 ./a"], f"{COMMAND}[2]", "srun -w n1,n2 in line 1 names hosts that only the cluster has"),
    (["bash", "-c", "# no sshd\n$(which sshd) -D; bash -c '/usr/sbin/sshd -D'"], f"{COMMAND}[2]", "sshd waits for a launcher in another Pod"),
    (["bash", "-c", 'echo "$(/usr/sbin/sshd -D)"'], f"{COMMAND}[2]", "sshd waits for a launcher in another Pod"),
    (["bash", "-c", "/usr/sbin/sshd -D; if"], f"{COMMAND}[2]", "sshd waits for a launcher in another Pod"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "field", "why"), KEPT, ids=range(len(KEPT)))
def test_pods_that_are_hosts_of_a_launcher_stay_in_the_cloud(command: list[str], field: str, why: str) -> None:
    advice = ADVICE.replace("mpirun", "srun") if why.startswith("srun") else ADVICE
    assert found(command, **INDEXED) == ([(field, f"{advice}; {EACH}, and {why}")], [])
    assert found(command, parallelism=4)[0] == found(command, **INDEXED)[0]


TOLD = [
    'if [ "$JOB_COMPLETION_INDEX" = 0 ]; then x; mpirun -np 8 ./a; else sleep inf; fi',
    "if [[ $JOB_COMPLETION_INDEX -eq 0 ]]; then mpirun -np 8 ./a | tee log; fi",
    "if [ $JOB_COMPLETION_INDEX -gt 0 ]; then sleep inf; else mpirun -np 8 ./a; fi; x",
    "[ $JOB_COMPLETION_INDEX = 0 ] && mpirun -np 8 ./a",
    "case $JOB_COMPLETION_INDEX in 0) mpirun -np 8 ./a;; *) sleep inf;; esac",
]


@pytest.mark.parametrize("text", TOLD)
def test_a_launcher_that_only_one_pod_starts_is_told(text: str) -> None:
    why = "and only the Pod with the right JOB_COMPLETION_INDEX starts mpirun"
    assert found(["sh", "-c", text], **INDEXED) == (
        [],
        [f"spec.template.spec.containers[0]: {ADVICE}; {EACH}, {why}"],
    )


FINE = [
    (["mpirun", "-np", "8", "./a"], INDEXED),
    (["sh", "-c", "cd /w; mpirun -np 8 ./a in.$JOB_COMPLETION_INDEX"], INDEXED),
    (["sh", "-c", "if [ $JOB_COMPLETION_INDEX = 0 ]; then mpirun -np 2 ./a; else mpirun -np 2 ./b; fi"], INDEXED),
    (["sh", "-c", "if [ $JOB_COMPLETION_INDEX = 0 ]; then x; fi; mpirun -np 2 ./a"], INDEXED),
    (["mpirun", "-np", "8", "-H", "localhost:8", "./a"], INDEXED),
    (["sh", "-c", "cd /w; mpirun -np 8 -H $(hostname):8 ./a"], INDEXED),
    (["sh", "-c", 'cd /w; mpirun -np 8 --host "$HOSTNAME" ./a'], INDEXED),
    (["mpirun", "-np", "8", "-H", "a:4,b:4", "./a"], {}),
    (["mpirun", "-np", "8", "-H", "a:4,b:4", "./a"], {"parallelism": 4, "completions": 1}),
    (["echo", "sshd_config"], INDEXED),
    (["sh", "-c", "cd /d; mpirun -np 4 ./a -f input"], INDEXED),
    (["sh", "-c", "cd /d; mpirun -np 4 $EXE -f input"], INDEXED),
    (["sh", "-c", "mpirun -np 4 python serve.py --host 0.0.0.0 | tee x"], INDEXED),
    (["sh", "-c", "cd /d; mpirun -np 1 ./a -H x : -np 2 ./b --hostfile y"], INDEXED),
    (["sh", "-c", "cd /d; mpirun -x -H -np 1 -- ./a"], INDEXED),
    (["sh", "-c", "cd /d; srun -H -n 4 ./a"], INDEXED),
    (["srun", "-H", "-n", "4", "./a"], INDEXED),
    (["sh", "-c", "# no sshd here\n./a"], INDEXED),
    (["sh", "-c", "echo no sshd here; command -v sshd; pgrep sshd || [ -x /usr/sbin/sshd ]; ./a"], INDEXED),
    (["echo", "no sshd here"], INDEXED),
    (["/usr/sbin/sshd", "-D"], {}),
]


@pytest.mark.parametrize(("command", "spec"), FINE, ids=range(len(FINE)))
def test_pods_that_do_not_need_each_other_are_left_alone(command: list[str], spec: dict[str, Any]) -> None:
    assert found(command, **spec) == ([], [])
