"""What Hydra expects of the processes it starts: its descriptor stays theirs, and nothing outlives them with its pipes.

The launcher is a few lines that do what Hydra's proxy does on a node: one socket a rank under any number (PMI_FD), and
a process that has ended is reaped when its output, of which it has the pipe twice, is at its end.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.script.builders import container, site, text_of, workload
from tests.script.running import Pod

PROXY = f"""#!{sys.executable}
import os, socket, subprocess, sys
number = int(sys.argv[sys.argv.index("/bin/bash") - 1])
ours, theirs = socket.socketpair()
os.dup2(theirs.fileno(), number, inheritable=True)
theirs.close()
more, leaked = os.pipe()
os.dup2(leaked, 11, inheritable=True)
rank = subprocess.Popen(
    sys.argv[sys.argv.index("/bin/bash"):],
    env={{**os.environ, "PMI_FD": str(number), "PMI_RANK": "0"}}, pass_fds=[number, 11], stdout=subprocess.PIPE,
)
for one in (number, leaked, 11):
    os.close(one)
os.read(more, 1)
print(rank.stdout.read().decode(), end="")
print("asked:", ours.recv(100).decode(), end="")
sys.exit(rank.wait())
"""


@pytest.fixture
def proxy(pod: Pod) -> Path:
    pod.environment.update(PBS_NODEFILE=str(pod.work / "nodefile"))
    (pod.work / "nodefile").write_text(f"{socket.gethostname()}\n")
    path = pod.work / "mpiexec"
    path.write_text(PROXY)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("number", [5, 6, 7, 8, 9, 10, 40])
def test_a_rank_talks_over_its_launcher_s_descriptor_and_ends(pod: Pod, proxy: Path, number: int) -> None:
    profile = {"name": "hydra", "launcher": "hydra", "path": str(proxy), "options": [str(number)]}
    where = site("local", runtime="host", mpi=[profile], queue={"cpusPerNode": 8, "nodes": 2})
    words = ("mpirun", "-np", "1", "sh", "-c", 'echo "rank $PMI_RANK"; echo init >&"$PMI_FD"; exit 3')

    code = pod.run(text_of(workload(container(*words, image="mpi:1")), where))

    assert (code, pod.log()) == (3, "rank 0\nasked: init\n")
