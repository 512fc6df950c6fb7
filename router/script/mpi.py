"""Writes the options of each MPI launcher (ranks, hosts, mapping, binding), and the environment of its ranks.

Pure. Spellings: ``mpirun --help`` of Open MPI 4 and 5, ``mpiexec -help`` of Hydra and Intel MPI, ``srun --help``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from router.policy.decision import Route
from router.script.quoting import quote, words
from router.site import sharing
from router.site.schema import LauncherKind, MpiProfile
from router.site.systems import SYSTEMS
from router.values import unchanging
from router.workload.model import Container, Launcher

_PLACEMENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9:=,._-]*")
_PROGRAMS: Final = {
    LauncherKind.OPENMPI: "mpirun",
    LauncherKind.HYDRA: "mpiexec",
    LauncherKind.INTELMPI: "mpiexec",
    LauncherKind.SRUN: "srun",
}
# Each rank of a node has its own user namespace, so ranks cannot read each other's memory.
_NO_READING_OPENMPI: Final = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
_NO_READING_MPICH: Final = {"MPIR_CVAR_CH4_CMA_ENABLE": "0"}
_NO_READING_UCX: Final = {"UCX_POSIX_USE_PROC_LINK": "n", "UCX_TLS": "^cma"}
_DEFAULT_ENV: Final[Mapping[LauncherKind, Mapping[str, str]]] = {
    LauncherKind.OPENMPI: {**_NO_READING_OPENMPI, **_NO_READING_UCX},  # Open MPI may use UCX as well
    LauncherKind.HYDRA: {**_NO_READING_MPICH, **_NO_READING_UCX},
    LauncherKind.INTELMPI: {**_NO_READING_MPICH, **_NO_READING_UCX},  # it starts images with MPICH as well
    LauncherKind.SRUN: {**_NO_READING_OPENMPI, **_NO_READING_MPICH, **_NO_READING_UCX},  # the image may have any MPI
}
_HOST_LINE: Final = {
    LauncherKind.OPENMPI: "%s slots=%d",
    LauncherKind.HYDRA: "%s:%d",
    LauncherKind.INTELMPI: "%s:%d",
    LauncherKind.SRUN: "",
}


@unchanging
class Spelling:
    """How a launcher spells what the user's own asks for: formats of printf, empty where it has no such option.

    :param unbound: the option without which it binds ranks to the node's first cores; empty if it does not
    :param stdin_to: the options by which rank 0 gets its standard input, and by which all ranks do, where it has them
    """

    mapping: str
    binding: str
    per_node: str
    nodes: str
    cores: str
    unbound: str
    stdin_to: tuple[str, str]


@unchanging
class Start:
    """How the launcher is started: words of bash, some of them quoted variables of the script.

    :param host_line: a printf format (host, slots) for the host list; empty if the launcher finds its hosts itself
    :param cores_per_line: how many lines of the node file make one rank
    :param signal: the signal that the launcher passes on to its ranks; empty if they watch for a file instead
    :param environment: variables of the profile, and defaults
    :param own: variables that the user's launcher set
    :param tasks_per_node: what Slurm's variable of that name must say; empty if it is already right
    :param spelling: how launches inside the container are placed; None for a lifted launcher
    """

    program: str
    path: str
    options: str
    host_line: str
    cores_per_line: int
    signal: str
    environment: tuple[str, ...]
    own: tuple[str, ...]
    warnings: tuple[str, ...]
    tasks_per_node: str = ""
    spelling: Spelling | None = None


def start_of(container: Container, route: Route, profile: MpiProfile, *, inside: bool = False) -> Start:
    """How the ranks of a container are started on a site.

    :param inside: whether its own command starts them, and says only then how many
    """
    kind, traits = profile.launcher, SYSTEMS[route.site.system].TRAITS
    launcher = container.launcher
    host_line = "" if traits.tells_hosts else _HOST_LINE[kind]
    placed, warnings = ([], ()) if inside else _placement(launcher, profile)
    count = _COUNT_INSIDE[kind] if inside else str(route.allocation.ranks)
    fixed = _OPTIONS[kind](route, count, '"$scratch/hosts"' if host_line else "")
    options = [*fixed, *placed, words(profile.options)]
    own = tuple([f"{name}={value}" for name, value in launcher.environment if value is not None]) if launcher else ()
    return Start(
        program=_PROGRAMS[kind],
        path=quote(profile.path or ""),
        options=" ".join([option for option in options if option]),
        host_line=host_line,
        cores_per_line=route.allocation.cores_per_rank if traits.cores_per_line else 1,
        signal="USR1" if kind is LauncherKind.OPENMPI else "",
        environment=tuple([f"{name}={value}" for name, value in {**_DEFAULT_ENV[kind], **profile.env}.items()]),
        own=own,
        warnings=warnings,
        tasks_per_node=_tasks_per_node(route) if traits.tells_hosts else "",
        spelling=_spelling(profile) if inside else None,
    )


def _spelling(profile: MpiProfile) -> Spelling:
    kind = profile.launcher
    mapping, binding = [text.replace("{}", "%s") for text in _SPELLING[kind]]
    unbound = "--bind-to none" if kind is LauncherKind.OPENMPI and not _binds([], profile) else ""
    return Spelling(mapping, binding, *_INSIDE[kind], unbound, _STDIN[kind])


def _tasks_per_node(route: Route) -> str:
    """Ranks on each node in Slurm's form, ``3(x2),2(x2)``; empty if all nodes have the same number.

    A request to Slurm can give only one number for all nodes, and its variable repeats this number. Launchers that read
    it would fill the first nodes.
    """
    chunks = route.allocation.chunks
    if len(chunks) == 1:
        return ""
    return ",".join([f"{chunk.ranks}(x{chunk.count})" if chunk.count > 1 else str(chunk.ranks) for chunk in chunks])


def _openmpi(_: Route, count: str, hosts: str) -> list[str]:
    return [f"-np {count}", f"--hostfile {hosts}" if hosts else ""]


def _hydra(_: Route, count: str, hosts: str) -> list[str]:
    return [f"-n {count}", f"-f {hosts}" if hosts else ""]


def _intelmpi(_: Route, count: str, hosts: str) -> list[str]:
    return [f"-n {count}", f"-machinefile {hosts}" if hosts else ""]


def _srun(route: Route, count: str, _: str) -> list[str]:
    allocation = route.allocation
    nodes = f"--nodes={allocation.nodes} " if count.isdigit() else ""  # launches inside have any number of ranks
    return [
        f"{nodes}--ntasks={count} --cpus-per-task={allocation.cores_per_rank}",
        _gpus_per_task(route),
        "--export=ALL --kill-on-bad-exit=1",
    ]


def _gpus_per_task(route: Route) -> str:
    """The option that makes Slurm bind each rank to its own GPUs. Ranks that share a GPU find it by their index."""
    gpus, profile = route.allocation.chunks[0].gpus, route.profile
    ranks = max([chunk.ranks for chunk in route.allocation.chunks])
    if profile is None or not sharing.is_bound(profile) or not gpus or gpus < ranks:
        return ""
    if any(option.startswith(("--gpu", "--tres-bind", "--ntasks-per-gpu")) for option in profile.options):
        return ""
    return f"--gpus-per-task={gpus // ranks}"


_OPTIONS: Final = {
    LauncherKind.OPENMPI: _openmpi,
    LauncherKind.HYDRA: _hydra,
    LauncherKind.INTELMPI: _intelmpi,
    LauncherKind.SRUN: _srun,
}
_FIRST: Final = '"${shares[0]:-$ranks}"'
"""The ranks of a launch inside, of its first program where there are several."""
_COUNT_INSIDE: Final = {
    LauncherKind.OPENMPI: _FIRST,
    LauncherKind.HYDRA: _FIRST,
    LauncherKind.INTELMPI: _FIRST,
    LauncherKind.SRUN: '"$ranks"',
}
_SPELLING: Final = {
    LauncherKind.OPENMPI: ("--map-by {}", "--bind-to {}"),
    LauncherKind.HYDRA: ("-map-by {}", "-bind-to {}"),
    LauncherKind.INTELMPI: ("", ""),
    LauncherKind.SRUN: ("--distribution={}", "--cpu-bind={}"),
}
_INSIDE: Final = {  # ranks per node, nodes, cores per rank
    LauncherKind.OPENMPI: ("--map-by ppr:%s:node", "", ""),
    LauncherKind.HYDRA: ("-ppn %s", "", ""),
    LauncherKind.INTELMPI: ("-ppn %s", "", ""),
    LauncherKind.SRUN: ("--ntasks-per-node=%s", "--nodes=%s", "--cpus-per-task=%s"),
}
_STDIN: Final = {
    LauncherKind.OPENMPI: ("", ""),  # its "--stdin all" loses input and hangs, in 4.1.4 and 5.0.11
    LauncherKind.HYDRA: ("", ""),  # MPICH's has no such option
    LauncherKind.INTELMPI: ("", "-s all"),
    LauncherKind.SRUN: ("--input=0", ""),
}


def _placement(launcher: Launcher | None, profile: MpiProfile) -> tuple[list[str], tuple[str, ...]]:
    """The user's mapping and binding in the launcher's spelling, and warnings about those it does not know."""
    placed, warnings = [], []
    wanted = (launcher.mapping, launcher.binding) if launcher else ("", "")
    for text, spelling in zip(wanted, _SPELLING[profile.launcher], strict=True):
        if not text:
            continue
        if spelling and _PLACEMENT.fullmatch(text) and _is_ours(launcher, profile):
            placed.append(spelling.format(text))
        elif launcher:
            warnings.append(
                f"{launcher.source}: the placement {text!r} is unknown to {profile.launcher} and is left out"
            )
    if profile.launcher is LauncherKind.OPENMPI and not _binds(placed, profile):
        # Jobs that share a node would all be bound to its first cores, unless the others' cores are hidden from them.
        placed.append("--bind-to none")
    return placed, tuple(warnings)


def _is_ours(launcher: Launcher | None, profile: MpiProfile) -> bool:
    return launcher is not None and (launcher.program.startswith("srun") == (profile.launcher is LauncherKind.SRUN))


def _binds(placed: list[str], profile: MpiProfile) -> bool:
    given = " ".join((*placed, *profile.options, *profile.env))
    return any(word in given for word in ("bind-to", "cpu-set", "rankfile", ":PE", ":pe", "binding_policy"))
