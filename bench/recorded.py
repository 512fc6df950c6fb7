"""Measures ``batchgate policy diff`` of 50,000 recorded Jobs and ``policy simulate`` of 10,000, as whole processes.

The Jobs are those of a decision log, of a JSON List and of a YAML List, as ``kubectl get jobs -A -o json`` prints them:
with status and the annotation of ``kubectl apply``. Times are of the process alone, so a busy machine changes them little.
Beside each stands what it takes to parse the same file and do nothing more.
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bench import lublin
from bench.efficiency import NODES, RULES, SITE
from bench.report import Row, write
from router import names, policy
from router.gate import review as admission
from router.gate.judging import Gate
from router.policy.decision import QueueState, QueueStates
from router.replay import record
from router.workload.cluster import UNKNOWN_CLUSTER
from tests.gates import review_of
from tests.policies import LARGE_GO_TO_HPC

JUDGED, PLAYED = 50_000, 10_000
SHAPES = 2_000
"""Different Jobs; the others are like one of these, under another name. So it is with real ones."""
NEW = LARGE_GO_TO_HPC.replace("job.cpus >= 2", "\"job.cpus >= 4 || queues['batch'].freeNodes > 2\"")
MARCH = 1_772_323_200
MINUTE = 60.0
MEMORY = 256.0
"""MiB that a workstation can spare."""
_NUMBER = "n0000000"
_BATCHGATE = str(Path(sys.executable).parent / "batchgate")


def job(shape: int) -> dict[str, Any]:
    """One Job as it was created."""
    resources = {"requests": {"cpu": str(1 + shape % 8), "memory": f"{1 + shape % 13}Gi"}, "limits": {"memory": "16Gi"}}
    container = {
        "name": "main",
        "image": f"registry.example.org/lab/solver:{shape % 97}",
        "command": ["/opt/solver/bin/solve", "--mesh", f"/data/mesh-{shape}.h5", "--steps", "20000"],
        "env": [{"name": name, "value": f"{name.lower()}-{shape}"} for name in ("MODE", "SEED", "OUTPUT", "LEVEL")],
        "resources": resources,
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    }
    pod = {"restartPolicy": "Never", "containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"solve-{_NUMBER}", "namespace": f"lab-{shape % 20}", "labels": {"app": "solver"}},
        "spec": {
            "activeDeadlineSeconds": 3600 + shape,
            "backoffLimit": 2,
            "parallelism": 1 + shape % 3,
            "template": {"metadata": {"labels": {"app": "solver"}}, "spec": pod},
        },
    }


def listed(shape: int) -> dict[str, Any]:
    """The same as the API server lists it."""
    found = job(shape)
    found["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps(job(shape)) + "\n",
        names.KEY_RULE: "large",
    }
    found["metadata"] |= {"uid": f"705ab4f5-6393-11e8-b7cc-{shape:012}", "creationTimestamp": "2026-03-01T12:00:00Z"}
    found["spec"]["template"]["metadata"]["annotations"] = {names.KEY_REQUESTER: "ada"}
    done = {
        "type": "Complete",
        "status": "True",
        "reason": "CompletionsReached",
        "lastProbeTime": "2026-03-01T13:00:00Z",
    }
    found["status"] = {"conditions": [done], "startTime": "2026-03-01T12:00:01Z", "succeeded": 1, "ready": 0}
    return found


def line(shape: int) -> str:
    """The same in the decision log."""
    states = QueueStates({("demo", "batch"): QueueState("demo", "batch", up=True, free_nodes=shape % 5)})
    gate = Gate(_policy(), UNKNOWN_CLUSTER, states, None, MARCH + shape * 300)
    answer = admission.review(review_of(job(shape), namespace=f"lab-{shape % 20}"), gate)
    assert answer.evidence is not None
    return record.line(answer.record, answer.evidence) + "\n"


@functools.cache
def _policy() -> policy.Policy:
    return policy.load({"all.yaml": LARGE_GO_TO_HPC})


def indented(text: str, by: int, first: str) -> str:
    """The lines of a text, further to the right; ``first`` begins the first one."""
    return first + text.replace("\n", "\n" + " " * by)


def many(count: int, made: Callable[[int], str]) -> Iterator[str]:
    """So many texts, each with a number of its own."""
    shapes = [made(shape) for shape in range(min(count, SHAPES))]
    return (shapes[number % len(shapes)].replace(_NUMBER, f"n{number:07}") for number in range(count))


def write_inputs(directory: Path, count: int) -> None:
    """The two policies, and the Jobs in each form."""
    for name, text in (("old", LARGE_GO_TO_HPC), ("new", NEW)):
        (directory / name).mkdir()
        (directory / name / "all.yaml").write_text(text)
    with (directory / "log").open("w") as file:
        file.writelines(many(count, line))
    with (directory / "json").open("w") as file:
        file.write('{\n    "apiVersion": "v1",\n    "items": [')
        texts = many(count, lambda shape: indented(json.dumps(listed(shape), indent=4), 8, "\n        "))
        file.writelines(("," * bool(number)) + text for number, text in enumerate(texts))
        file.write('\n    ],\n    "kind": "List",\n    "metadata": {"resourceVersion": ""}\n}\n')
    with (directory / "yaml").open("w") as file:
        file.write("apiVersion: v1\nitems:\n")
        file.writelines(many(count, lambda shape: indented(yaml.safe_dump(listed(shape)).rstrip("\n"), 2, "- ") + "\n"))
        file.write('kind: List\nmetadata:\n  resourceVersion: ""\n')


def write_trace(directory: Path, count: int) -> None:
    """A trace of jobs by a published model, and a policy that looks at the queue."""
    (directory / "waits").mkdir()
    (directory / "waits" / "all.yaml").write_text(SITE + RULES["by size and wait"])
    rows = [
        f"{number} {one.arrival:.0f} -1 {one.runtime:.0f} -1 -1 -1 {one.processors} {one.walltime:.0f} -1 1 7 3 -1 1 -1 -1 -1\n"
        for number, one in enumerate(lublin.workload(count, 0.9, 1), start=1)
    ]
    (directory / "trace.swf").write_text(f"; MaxNodes: {NODES}\n; UnixStartTime: {MARCH}\n{''.join(rows)}")


_MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.stdout.decode()]))
"""
"""Runs a program and prints what it has cost. A small process does so, as a program's peak begins with its parent's size."""


def cost(directory: Path, *words: str) -> tuple[float, float, str]:
    """Seconds of a processor, and MiB at the most, of a program that must succeed; and what it printed."""
    argv = (sys.executable, "-c", _MEASURED, *words)
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=True)
    seconds, memory, told = json.loads(done.stdout)
    return seconds, memory, told


def parsing(directory: Path, form: str) -> float:
    """Seconds of this process to parse a file, and do nothing more."""
    begun = time.process_time()
    with (directory / form).open() as file:
        match form:
            case "log":
                assert sum(1 for text in file if json.loads(text))
            case "json":
                assert json.load(file)
            case _:
                loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
                assert sum(1 for _ in yaml.parse(file, Loader=loader))
    return time.process_time() - begun


def diff_rows(directory: Path, form: str, count: int) -> list[Row]:
    """The figures of ``policy diff`` with one of the files."""
    option = "--log" if form == "log" else "--jobs"
    words = (_BATCHGATE, "policy", "diff", "old", "new", option, form, "-o", "json")
    seconds, memory, told = cost(directory, *words)
    assert json.loads(told)["judged"] == count
    what = f"{count:,} Jobs of {'a log' if form == 'log' else form.upper()}"
    size = (directory / form).stat().st_size / 2**20
    return [
        Row(f"policy diff, {what} ({size:.0f} MiB)", seconds, "s", None if form == "yaml" else MINUTE),
        Row("the same, memory at the most", memory, "MiB", MEMORY),
        Row("parsing that file, and nothing more", parsing(directory, form), "s"),
    ]


def simulate_rows(directory: Path, count: int) -> list[Row]:
    """The figures of ``policy simulate`` with a trace and with a log."""
    capacity = ("--capacity", f"hpc/batch={NODES}", "--seeds", "1", "-o", "json")
    seconds, memory, _ = cost(directory, _BATCHGATE, "policy", "simulate", "waits", "--swf", "trace.swf", *capacity)
    with (directory / "short").open("w") as file:
        file.writelines(many(count, line))
    words = (
        "policy",
        "simulate",
        "old",
        "--log",
        "short",
        "--capacity",
        "demo/batch=400",
        "--seeds",
        "1",
        "-o",
        "json",
    )
    logged, logged_memory, _ = cost(directory, _BATCHGATE, *words)
    return [
        Row(
            f"policy simulate, {count:,} Jobs of a trace, once, by a policy that reads the queue", seconds, "s", MINUTE
        ),
        Row("the same, memory at the most", memory, "MiB", MEMORY),
        Row(f"policy simulate, {count:,} Jobs of a log, once", logged, "s", MINUTE),
        Row("the same, memory at the most", logged_memory, "MiB", MEMORY),
    ]


def main() -> None:
    """Write the inputs, run the commands, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JUDGED, help="of policy diff; a fifth of them are played")
    count = parser.parse_args().jobs
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        write_inputs(directory, count)
        write_trace(directory, count * PLAYED // JUDGED)
        rows = [row for form in ("log", "json", "yaml") for row in diff_rows(directory, form, count)]
        rows += simulate_rows(directory, count * PLAYED // JUDGED)
    sys.exit(not write("recorded", rows))


if __name__ == "__main__":
    main()
