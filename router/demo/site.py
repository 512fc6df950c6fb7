"""Adapts the examples' site to this machine: runtime, image, MPI, work directory, and the queue behind it.

Shell: reads the examples' policy, looks for programs, writes the webhook's policy directory.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import yaml

from router.demo import sandbox
from router.errors import ConfigError
from router.local.records import Config
from router.site.schema import LauncherKind, Queue, Runtime
from router.startup.account import caller

SITES: Final = "10-sites.yaml"
ACCOUNTS: Final = "20-accounts.yaml"
WORK_DIR, RESULTS, IMAGE = "site", "results", "image"
"""The site's directories below a demo's directory."""
IDLE_SECONDS: Final = 60
"""Idle time after which the queue's process ends by itself, in case the demo is killed."""
_STARTER: Final = "start-on-host"
_STARTS: Final = """\
#!/bin/sh
# HOST COMMAND...: what rsh and pbs_tmrsh do elsewhere. All hosts of the embedded queue are this machine.
host=$1
shift
grep -qxF -e "$host" "$PBS_NODEFILE" || { echo "$host is no host of this job" >&2; exit 1; }
exec /bin/sh -c "$*"
"""


@dataclass(frozen=True, slots=True)
class Mpi:
    """MPI from the development dependencies: MPICH's launcher, and the package mpi4py."""

    launcher: Path
    mpi4py: Path


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine's means for the demo. ``mpi`` is None if this Python's environment lacks MPICH or mpi4py."""

    runtime: Runtime
    mpi: Mpi | None


def look() -> Machine:
    """Find Apptainer or Singularity, and MPI."""
    runtime = next((name for name in (Runtime.APPTAINER, Runtime.SINGULARITY) if shutil.which(name)), Runtime.HOST)
    launcher, package = Path(sys.prefix) / "bin" / "mpiexec.hydra", find_spec("mpi4py")
    if package is None or package.origin is None or not launcher.exists():
        return Machine(runtime, mpi=None)
    return Machine(runtime, Mpi(launcher, Path(package.origin).parent))


def prepare(examples: Path, directory: Path, machine: Machine, work: Path) -> None:
    """Write the examples' policy to ``directory``, with the site adapted to this machine; make the files that it names.

    Pods' files, results and the image are below ``work``.
    """
    (work / WORK_DIR).mkdir(parents=True)
    if machine.runtime is not Runtime.HOST:
        sandbox.build(work / IMAGE)
        if machine.mpi is not None:
            sandbox.add_mpi(work / IMAGE, machine.mpi.mpi4py)
    if machine.mpi is not None:
        starter = work / _STARTER
        starter.write_text(_STARTS)
        starter.chmod(0o755)
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
    # The embedded queue runs all jobs as the demo's user. An entry without `as` (a controller's) runs no jobs.
    accounts["accounts"] = [one | {"as": caller()} if "as" in one else one for one in accounts["accounts"]]
    (directory / ACCOUNTS).write_text(yaml.safe_dump(accounts, sort_keys=False))


def queue_definitions(policy: Path) -> str:
    """The input of ``batchgate local queues --define``, for the queues of that policy's site."""
    (site,) = yaml.safe_load((policy / SITES).read_text())["sites"]
    queues = [_definition(Queue.model_validate(queue), site["name"]) for queue in site["queues"]]
    # For commands without a container, `python3` is this Python, which has mpi4py.
    path = f"{Path(sys.prefix) / 'bin'}:{Config(()).path}"
    return json.dumps({"queues": queues, "idleSeconds": IDLE_SECONDS, "path": path})


def site_name(policy: Path) -> str:
    """The name of that policy's one site."""
    (site,) = yaml.safe_load((policy / SITES).read_text())["sites"]
    name: str = site["name"]
    return name


def _definition(queue: Queue, site: str) -> dict[str, Any]:
    """A queue's declaration: times in seconds, memory in PBS' kb (1024 bytes)."""
    defined = {
        "name": queue.name,
        "site": site,
        "nodes": queue.nodes,
        "cpusPerNode": queue.cpus_per_node,
        "memory": f"{queue.memory_per_node // 1024}kb" if queue.memory_per_node else None,
        "gpus": queue.gpus_per_node,
        "walltimeDefault": queue.walltime_default,
        "walltimeMax": queue.walltime_max,
        "hostPerNode": True,
    }
    return {key: value for key, value in defined.items() if value is not None}


def _fitted(site: dict[str, Any], machine: Machine, work: Path) -> dict[str, Any]:
    places = {"workDir": str(work / WORK_DIR), "resultsDir": str(work / RESULTS)}
    fitted = {**site, **places, "runtime": str(machine.runtime)}
    if machine.runtime is Runtime.HOST:
        del fitted["images"]
    else:
        fitted["images"] = [{**image, "path": str(work / IMAGE)} for image in site["images"]]
    if machine.mpi is not None:
        fitted["mpi"] = [_profile(machine.mpi.launcher, work)]
    return fitted


def _profile(launcher: Path, work: Path) -> dict[str, Any]:
    return {
        "name": "mpich",
        "launcher": str(LauncherKind.HYDRA),
        "path": str(launcher),
        "options": ["-localhost", "127.0.0.1"],  # the machine's own name may not resolve
        "env": {"HYDRA_LAUNCHER": "rsh", "HYDRA_LAUNCHER_EXEC": str(work / _STARTER)},
    }
