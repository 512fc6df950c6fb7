"""Runs whole stacks for benchmarks: a real control plane, the webhook, the agent (default times), the embedded queue.

The control plane's controllers may, unless asked otherwise, send more requests a second than in a default cluster (20), so that Batchgate's own
time is measured; the output says so. All Jobs go to one queue, which has more places than there are Jobs.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.report import Row
from router.agent import sites
from router.controlplane import building
from router.controlplane.options import ADA, Options
from router.controlplane.start import control_plane
from router.demo.stack import Places, Stack, stack
from router.errors import ConfigError
from router.hpc import Commands
from router.kube.client import Api, connect
from router.local.records import Job, job_of
from router.startup.policyfiles import PolicyStore

SITE, QUEUE, NAMESPACE = "bench", "batch", "default"
LABEL = "bench"
"""The label of every Pod, with the name of its Job."""
JOBS = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CLIENTS = 8
_NODES, _CORES = 128, 64
_IDLE_SECONDS = 3600
_STOP_SECONDS = 1800
"""Time limit of one command: ending a thousand jobs, whose scripts look through all processes, takes a while."""
_PAUSE = 0.1
_PYTHON_RUNS = 9


@dataclass(frozen=True)
class Whole:
    """The objects of a benchmark.

    :param root: the directory for containers' files
    :param api: acts as a user who may edit the namespace
    :param queue: the embedded queue's directory
    """

    root: Path
    stack: Stack
    api: Api
    queue: Path

    @property
    def commands(self) -> Commands:
        """The agent's commands, for this queue."""
        return self.commands_of(self.queue)

    def commands_of(self, directory: Path) -> Commands:
        """The same commands as the agent's, for an embedded queue in any directory."""
        site = sites.site_of(PolicyStore(self.root / "policy").load(), SITE)
        return sites.commands_of(site, directory, "")

    def create(self, names: Sequence[str], words: str) -> None:
        """Create Jobs of these names from several threads at once, all with the same words for the shell."""
        create(self.api, [job(name, words) for name in names])

    def batch_jobs(self) -> list[Job]:
        """The queue's records of all jobs."""
        return records(self.queue)

    def submitted(self) -> int:
        """How many jobs were ever submitted to the queue; reads only names, so it may be called often."""
        return sum(1 for _ in (self.queue / "jobs").iterdir())

    def metric(self, name: str, **labels: str) -> float:
        """A present metric of the agent; 0 if it is missing or the agent is silent."""
        argv = list(self.stack.agent.argv)
        return scraped(argv[argv.index("--metrics") + 1], name, **labels)

    def log(self, after: int) -> list[dict[str, Any]]:
        """The whole lines of the agent's log after the first ``after`` bytes."""
        with self.stack.agent.log.open("rb") as file:
            file.seek(after)
            return [json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")]


def create(api: Api, jobs: Sequence[dict[str, Any]]) -> None:
    """Create Jobs from several threads at once."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        list(clients.map(lambda one: api.create(JOBS, one), jobs))


def records(queue: Path) -> list[Job]:
    """The jobs in an embedded queue's directory, read while its process runs; unfinished records are skipped."""
    found = []
    for entry in (queue / "jobs").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(job_of(json.loads((entry / "job.json").read_bytes())))
    return found


def scraped(address: str, name: str, **labels: str) -> float:
    """The sum of an agent's samples with this name and these labels; 0 if they are missing or the agent is silent."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return 0.0
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())


@contextmanager
def whole(*, started: bool = True, raised_limits: bool = True) -> Iterator[Whole]:
    """Start everything, and end it with the block. If that fails, the program ends with the reason.

    :param started: whether the queue starts its jobs
    :param raised_limits: see ``Options``
    """
    try:
        with _whole(started=started, raised_limits=raised_limits) as found:
            yield found
    except ConfigError as error:
        raise SystemExit(f"Error: {error}") from error


@contextmanager
def _whole(*, started: bool, raised_limits: bool) -> Iterator[Whole]:
    building.ensure(lambda words: print(words, file=sys.stderr))
    # A socket's path may have about 100 characters, so the directory's path is short.
    with tempfile.TemporaryDirectory(prefix="bg-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        for directory in ("site", "files", "policy"):
            (root / directory).mkdir()
        for file, document in policy(root).items():
            (root / "policy" / file).write_text(yaml.safe_dump(document, sort_keys=False))
        if raised_limits:
            print("the control plane's controllers and scheduler have raised client limits (500 requests a second)")
        places = Places(root, root / "queue", root / "policy")
        with (
            control_plane(root / "plane", Options(raised_limits=raised_limits)) as plane,
            stack(plane, places) as running,
        ):
            found = Whole(root, running, connect(str(plane.kubeconfig(ADA.name))), places.queue)
            define(running.commands, started=started)
            try:
                yield found
            finally:
                running.agent.end()
                run(running.commands.argv("stop", "--delete"))


def define(commands: Commands, *, started: bool) -> None:
    """Declare the queue of an embedded queue's directory."""
    queue = {"name": QUEUE, "site": SITE, "nodes": _NODES, "cpusPerNode": _CORES, "started": started}
    document = {"queues": [queue], "killDelay": 1, "idleSeconds": _IDLE_SECONDS}
    run(commands.argv("queues", "--define", "-"), json.dumps(document))


def demand(obstacle: str) -> None:
    """End the program, with a sentence and exit code 0, if something is missing. Else let SIGTERM leave all in order."""
    if obstacle:
        print(f"skipped: {obstacle}")
        sys.exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run(argv: Sequence[str], stdin: str = "") -> str:
    """Run a command that must succeed; returns its output."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=_STOP_SECONDS)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def policy(root: Path) -> dict[str, Any]:
    """Policy files by name: all Jobs go to one queue of one site. Results are brought, as at an ordinary site."""
    queue = {
        "name": QUEUE, "nodes": _NODES, "cpusPerNode": _CORES, "walltimeDefault": "1h", "walltimeMax": "24h",
    }  # fmt: skip
    places = {"workDir": str(root / "site"), "resultsDir": str(root / "results")}
    site = {"name": SITE, "system": "local", **places, "runtime": "host", "queues": [queue]}
    accounts = [
        {"users": ["system:kube-controller-manager"], "controller": True},
        {"users": [ADA.name], "site": SITE, "as": getpass.getuser()},
    ]
    return {
        "10-sites.yaml": {"sites": [site]},
        "20-accounts.yaml": {"accounts": accounts},
        "30-rules.yaml": {"rules": [{"name": "all", "hpc": [{"queue": QUEUE}]}]},
    }


def job(name: str, words: str, cpus: int = 1) -> dict[str, Any]:
    """A Job with one container, in which a shell runs these words."""
    container = {
        "name": "main",
        "image": "busybox:1.36",
        "command": ["/bin/sh", "-c", words],
        "resources": {"requests": {"cpu": str(cpus)}},
    }
    template = {
        "metadata": {"labels": {LABEL: name}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [container]},
    }
    metadata = {"name": name, "namespace": NAMESPACE}
    spec = {"backoffLimit": 0, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def until(holds: Callable[[], bool], what: str, seconds: float, pause: float = _PAUSE) -> None:
    """Wait until ``holds`` returns True; ends the program after ``seconds``."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not after {seconds:.0f} s")
        time.sleep(pause)


def size(usual: int) -> int:
    """The number of Jobs, from ``--size``."""
    found: int = sized(usual).parse_args().size
    return found


def sized(usual: int) -> argparse.ArgumentParser:
    """A command line with ``--size``."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=usual, help=f"Jobs; the promises are about {usual}.")
    return parser


def machine(when: str) -> list[Row]:
    """The present load of the machine, as figures of a busy one mean little."""
    took = []
    for _ in range(_PYTHON_RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        took.append(time.perf_counter() - start)
    load = os.getloadavg()[0]
    cores = len(os.sched_getaffinity(0))
    return [
        Row(f"{when}: python -c pass", statistics.median(took), "s"),
        Row(f"{when}: processes that want one of {cores} cores (1 min)", load, ""),
    ]
