"""Writes the texts of the probe jobs.

Pure. A text holds only values of the policy, quoted by ``router.script.quoting``. The site's own shell lines (``pre``)
have the same place as in the script of a Job.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final

from router.errors import ConfigError
from router.hpc.requests import Allocation, Chunk, Request, text_problem
from router.policy.schema import Account
from router.script.completing import FORMAT, part_text
from router.script.quoting import quote, words
from router.site import globs, leastmemory
from router.site.schema import LauncherKind, MpiProfile, Queue, Runtime, Site
from router.site.systems import SYSTEMS

BEATS: Final = 8
"""Number of names and lines that a probe writes, one per second."""
LINE_BYTES: Final = 11
"""Bytes of each line of ``grows``."""
REPORT, NAMES, GROWS, TERM, KILLED, RANK = "report", "names", "grows", "term", "beats", "rank"
"""Files of a probe's directory: its notes; changing names; a changing size; when TERM came; beats since then; ranks."""

RANK_TEXT: Final = '#!/bin/bash\ncd "$1" || exit 3\nhost=$(uname -n)\n: >"rank.$host" && echo "batchgate-rank $host"\n'
"""Uses ``uname``, as HOSTNAME may come with the environment of another host."""
_MEMORY: Final = 512 * 1024**2
_SMALL: Final = 64 * 1024**2
"""Bytes of a small Job, for a batch system on which a runtime may fail to start with so little."""
_STARTING: Final = 300
"""Seconds that an image may take to start, including the other steps without a limit of their own."""
_PROGRAMS: Final = {
    LauncherKind.OPENMPI: "mpirun",
    LauncherKind.HYDRA: "mpiexec",
    LauncherKind.INTELMPI: "mpiexec",
    LauncherKind.SRUN: "srun",
}
_ONE_A_NODE: Final[Mapping[LauncherKind, tuple[str, ...]]] = {
    LauncherKind.OPENMPI: ("-np", "2", "--map-by", "ppr:1:node", "--bind-to", "none"),
    LauncherKind.HYDRA: ("-n", "2", "-ppn", "1"),
    LauncherKind.INTELMPI: ("-n", "2", "-ppn", "1"),
    LauncherKind.SRUN: ("--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--export=ALL"),
}
_HOSTS: Final = {
    LauncherKind.OPENMPI: ("--hostfile", "%s slots=1"),
    LauncherKind.HYDRA: ("-f", "%s:1"),
    LauncherKind.INTELMPI: ("-machinefile", "%s:1"),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The site, queue and account with which a probe is submitted."""

    site: Site
    queue: Queue
    account: Account | None


def account_of(accounts: tuple[Account, ...], site: str, user: str) -> Account | None:
    """The first entry of accounts that runs Jobs as this user on this site."""
    return next((one for one in accounts if one.as_ == user and globs.matches((one.site,), site)), None)


def queue_of(site: Site, nodes: int) -> Queue | None:
    """The queue for a probe on so many nodes: the first without GPUs, else the first; None if all are smaller."""
    fitting = [queue for queue in site.queues if queue.nodes >= nodes]
    return next((queue for queue in fitting if not queue.gpus_per_node), fitting[0] if fitting else None)


def profiles_of(site: Site) -> tuple[MpiProfile, ...]:
    """The profiles by which shells are started on two nodes, one probe each; srun on Slurm without any.

    Profiles that start programs in the same way are tried once, under the name of each: see ``alike``.
    """
    if site.mpi:
        firsts = {alike(profile): profile for profile in reversed(site.mpi)}
        return tuple(profile for profile in site.mpi if firsts[alike(profile)] is profile)
    return (MpiProfile(name="srun", launcher=LauncherKind.SRUN),) if SYSTEMS[site.system].TRAITS.tells_hosts else ()


def alike(profile: MpiProfile) -> tuple[object, ...]:
    """Everything that a probe uses of a profile. Profiles with equal values are tried once."""
    return profile.launcher, profile.path, profile.modules, profile.options, tuple(profile.env.items())


def walltime_of(site: Site) -> int:
    """Seconds that a probe may take: its files must become visible before it is deleted."""
    return BEATS + 2 * site.fs_delay + _STARTING


def memory_of(site: Site) -> int:
    """Bytes of a probe on each node; on TORQUE those of the smallest Job."""
    return (leastmemory.floor(site) or _SMALL) if SYSTEMS[site.system].TRAITS.memory_floor else _MEMORY


def one_node(asked: Asked) -> str:
    """The probe on one node. Raises ConfigError for a text of the policy that a directive cannot hold."""
    site = asked.site
    contained = site.runtime is not Runtime.HOST
    head = {
        "beats": str(BEATS),
        "most": str(max(30, _walltime(asked) - 30)),
        "runtime": quote((site.runtime_path or site.runtime) if contained else ""),
        "image": quote(site.images[0].path if site.images else ""),
        "images": f"({words(one.path for one in site.images[1:]) if contained else ''})",
        "runtime_options": f"({words(site.runtime_options)})",
    }
    return _script(asked, 1, head, site.modules, "one.sh")


def two_nodes(asked: Asked, profile: MpiProfile) -> str:
    """The probe on two nodes. Raises ConfigError as ``one_node``."""
    kind = profile.launcher
    hosts = None if SYSTEMS[asked.site.system].TRAITS.tells_hosts else _HOSTS.get(kind)
    options = (*_ONE_A_NODE[kind], *((hosts[0], "hosts") if hosts else ()), *profile.options)
    head = {
        "launcher": quote(profile.path or _PROGRAMS[kind]),
        "launcher_options": f"({words(options)})",
        "host_line": quote(hosts[1] if hosts else ""),
    }
    exported = "".join(f"export {quote(f'{name}={value}')}\n" for name, value in profile.env.items())
    return _script(asked, 2, head, (*asked.site.modules, *profile.modules), "two.sh", exported)


def _script(
    asked: Asked, nodes: int, head: Mapping[str, str], modules: tuple[str, ...], probe: str, exported: str = ""
) -> str:
    site = asked.site
    system = SYSTEMS[site.system]
    directives = "".join(f"{system.MARK} {line}\n" for line in system.directives(_request(asked, nodes)))
    values = "".join(f"{name}={value}\n" for name, value in {**head, "modules": f"({words(modules)})"}.items())
    entry = "".join(f"{line}\n" for line in system.entry_lines(1))
    loading = f"{part_text(FORMAT, 'modules')}\nload_modules\n" if modules else ""
    pre = "".join(f"{line}\n" for line in site.pre)
    parts = (values, entry, exported, _own("base.sh"), _own(probe), loading, pre, "probe\n")
    return f"#!/bin/bash\n{directives}# shellcheck disable=SC2034\n{''.join(parts)}"


def _request(asked: Asked, nodes: int) -> Request:
    site, queue, account = asked.site, asked.queue, asked.account
    extra = {**site.directives, **queue.directives, **(account.directives if account else {})}
    given = (account.account, account.project) if account else (None, None)
    for text in (*given, *extra.values()):
        if text and (problem := text_problem(text)):
            raise ConfigError(f"a directive for queue {queue.name} of site {site.name}: {problem}")
    wanted = memory_of(site)
    least = min(wanted, queue.memory_per_node or wanted)
    chunk = Chunk(count=nodes, ranks=1, ncpus=1, ompthreads=1, memory=least, gpus=0)
    seconds = _walltime(asked)
    allocation = Allocation((chunk,), nodes, 1, walltime=seconds, deadline=seconds, grace=0)
    return Request(queue.name, allocation, *given, extra, exclusive=False)


def _walltime(asked: Asked) -> int:
    wanted = walltime_of(asked.site)
    return min(wanted, asked.queue.walltime_max or wanted)


def _own(name: str) -> str:
    return (resources.files("router.preflight") / "templates" / name).read_text("utf-8")
