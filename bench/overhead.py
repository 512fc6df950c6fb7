"""What the script adds to a program: to one that does nothing, and to one that computes for a minute.

Without a container runtime, so that the figures are the script's own. The minute is measured as two pairs, program and
scripted program beside each other on a core each, then with the cores exchanged: what else the machine does, and how
its cores differ, then weighs on both alike.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from bench.report import Row, write
from router import gate, layout, podfiles, policy
from router.demo.site import Machine, write_policy
from router.policy.decision import QueueStates, Requester
from router.policy.schema import Runtime
from router.policyfiles import read_directory
from router.workload import workload_of
from router.workload.cluster import Cluster

RUNS = 10
NOTHING = ("true",)
ROUNDS = 1_700_000_000
"""About a minute on the machine that this was written on; the figure is a ratio."""
MINUTE = (sys.executable, "-S", "-c", f"for _ in range({ROUNDS}): pass")


def script_of(command: Sequence[str], work: Path) -> tuple[str, ...]:
    """Words that run the script of a Job with this command, in a new Pod's directory."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container(command)]}}},
    }
    opened = gate.Gate(_policy(work), Cluster(), QueueStates(), None, 0)
    judged = gate.judge(job, requester=Requester("ada", (), "default"), gate=opened)
    assert judged.script is not None, judged.decision
    directory = layout.PodDirectory(str(work / "site"), "job", layout.NO_INDEX, uuid.uuid4().hex)
    pod = judged.routed["spec"]["template"]
    staged = podfiles.stage(pod, workload_of(job, namespace="default")).add(layout.SCRIPT, judged.script.text.encode())
    podfiles.write(directory.path, staged)
    return ("/bin/bash", str(directory.script), str(directory.path))


def container(command: Sequence[str]) -> dict[str, object]:
    return {
        "name": "main",
        "image": "busybox:1.36",
        "command": list(command),
        "resources": {"requests": {"cpu": "2"}},
    }


def _policy(work: Path) -> policy.Policy:
    directory = work / "policy"
    if not directory.exists():
        write_policy(Path("examples"), directory, Machine(Runtime.HOST, None, ""), work)
    return policy.load(read_directory(directory))


def seconds(argv: Sequence[str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, check=True, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def beside_each_other(bare: Sequence[str], scripted: Sequence[str], cores: Sequence[int]) -> tuple[float, float]:
    """Wall times of two programs that run at the same time, each on its own core."""
    start = time.perf_counter()
    running = {
        subprocess.Popen(["taskset", "-c", str(core), *argv], stderr=subprocess.DEVNULL): name
        for name, argv, core in (("bare", bare, cores[0]), ("scripted", scripted, cores[1]))
    }
    took: dict[str, float] = {}
    while len(took) < len(running):
        for process, name in running.items():
            if name not in took and process.poll() is not None:
                assert process.returncode == 0, name
                took[name] = time.perf_counter() - start
        time.sleep(0.005)
    return took["bare"], took["scripted"]


def main() -> None:
    """Print both, with the promises of the design."""
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        (work / "site" / layout.SPOOL).mkdir(parents=True)
        bare = statistics.median(seconds(NOTHING) for _ in range(RUNS))
        scripted = statistics.median(seconds(script_of(NOTHING, work)) for _ in range(RUNS))
        cores = sorted(os.sched_getaffinity(0))[:2]
        assert len(cores) == 2, "needs two cores"
        pairs = [beside_each_other(MINUTE, script_of(MINUTE, work), order) for order in (cores, cores[::-1])]
    alone = sum(pair[0] for pair in pairs)
    both = sum(pair[1] for pair in pairs)
    fixed = scripted - bare
    rows = [
        Row("a program that does nothing: script less program", fixed, "s", 0.3),
        Row("a program that computes: by itself", alone / 2, "s"),
        Row("the same under the script, less the fixed part: added", (both - alone - 2 * fixed) / alone * 100, "%", 1),
    ]
    sys.exit(not write("overhead", rows))


if __name__ == "__main__":
    main()
