"""The examples' policy made to fit this machine: its runtime, its image, its MPI launcher, a work directory.

Shell: reads the examples' policy, looks for programs, writes the policy directory that the webhook is given.
"""

from __future__ import annotations

import getpass
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from router.errors import ConfigError
from router.policy.schema import LauncherKind, Queue, Runtime

SITES: Final = "10-sites.yaml"
ACCOUNTS: Final = "20-accounts.yaml"
WORK_DIR, RESULTS, IMAGE = "site", "results", "image"
"""What the site has below a demo's directory."""
IDLE_SECONDS: Final = 60
"""After which the queue's process ends by itself, should the demo be killed."""
_VERSIONS: Final = {
    "Open MPI": LauncherKind.OPENMPI,
    "OpenRTE": LauncherKind.OPENMPI,
    "Intel(R) MPI": LauncherKind.INTELMPI,
    "HYDRA": LauncherKind.HYDRA,
}
_ROOT_MAY_RUN: Final = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@dataclass(frozen=True, slots=True)
class Machine:
    """What this machine has. ``launcher`` is None where there is no MPI launcher that Batchgate knows."""

    runtime: Runtime
    launcher: LauncherKind | None
    launcher_path: str


def look() -> Machine:
    """Find Apptainer or Singularity, and an MPI launcher."""
    runtime = next((name for name in (Runtime.APPTAINER, Runtime.SINGULARITY) if shutil.which(name)), Runtime.HOST)
    path = shutil.which("mpirun") or ""
    return Machine(runtime, _launcher_kind(path) if path else None, path)


def _launcher_kind(path: str) -> LauncherKind | None:
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=30)
    said = run.stdout + run.stderr
    return next((kind for words, kind in _VERSIONS.items() if words in said), None)


def write_policy(examples: Path, directory: Path, machine: Machine, work: Path) -> None:
    """Write the policy of the examples, with the site as this machine can run it, to ``directory``.

    Pods' files, results and the image lie below ``work``.
    """
    source = examples / "policies"
    if not (source / SITES).is_file():
        raise ConfigError(
            f"{source / SITES} is missing: run the demo in a checkout, or name its examples: --examples DIR"
        )
    shutil.copytree(source, directory)
    policy = yaml.safe_load((source / SITES).read_text())
    policy["sites"] = [_fitted(site, machine, work) for site in policy["sites"]]
    (directory / SITES).write_text(yaml.safe_dump(policy, sort_keys=False))
    accounts = yaml.safe_load((source / ACCOUNTS).read_text())
    # The embedded queue runs jobs as whoever runs the demo, and as nobody else.
    accounts["accounts"] = [{**account, "as": getpass.getuser()} for account in accounts["accounts"]]
    (directory / ACCOUNTS).write_text(yaml.safe_dump(accounts, sort_keys=False))


def queue_definitions(policy: Path) -> str:
    """What ``batchgate local queues --define`` takes, for the queues of that policy's site."""
    (site,) = yaml.safe_load((policy / SITES).read_text())["sites"]
    queues = [_definition(Queue.model_validate(queue), site["name"]) for queue in site["queues"]]
    return json.dumps({"queues": queues, "idleSeconds": IDLE_SECONDS})


def site_name(policy: Path) -> str:
    """The name of that policy's one site."""
    (site,) = yaml.safe_load((policy / SITES).read_text())["sites"]
    name: str = site["name"]
    return name


def _definition(queue: Queue, site: str) -> dict[str, Any]:
    """Times in seconds, memory in PBS' kb, which are 1024 bytes."""
    defined = {
        "name": queue.name,
        "site": site,
        "nodes": queue.nodes,
        "cpusPerNode": queue.cpus_per_node,
        "memory": f"{queue.memory_per_node // 1024}kb" if queue.memory_per_node else None,
        "gpus": queue.gpus_per_node,
        "walltimeDefault": queue.walltime_default,
        "walltimeMax": queue.walltime_max,
    }
    return {key: value for key, value in defined.items() if value is not None}


def _fitted(site: dict[str, Any], machine: Machine, work: Path) -> dict[str, Any]:
    places = {"workDir": str(work / WORK_DIR), "resultsDir": str(work / RESULTS)}
    fitted = {**site, **places, "runtime": str(machine.runtime)}
    if machine.runtime is Runtime.HOST:
        del fitted["images"]
    else:
        fitted["images"] = [{"match": "busybox:*", "path": str(work / IMAGE)}]
    if machine.launcher is not None:
        profile = {"name": "this-machine", "launcher": str(machine.launcher), "path": machine.launcher_path}
        # Open MPI refuses root unless told; an ordinary user's demo does not need to say so.
        fitted["mpi"] = [{**profile, "env": _ROOT_MAY_RUN} if os.geteuid() == 0 else profile]
    return fitted
