"""Decides whether a Job is an MPI workload, with which container and how many ranks.

Pure. Combines the launchers in commands with the hints in annotations; a hint beats a launcher.
``router.site.allocation`` adds what a policy's MPI profile says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from router.values import unchanging
from router.workload.fields import Findings
from router.workload.hints import Hints
from router.workload.launcher import find_launcher
from router.workload.launchernames import mention
from router.workload.launches import Found, find_launches
from router.workload.model import Container, ContainerKind, Figure, Launcher

_HOW: Final = "for several nodes make {} the whole command, as docs/mpi.md shows"
"""The advice comes first: the end of a long sentence is cut off where it is shown."""


@unchanging
class _Stays:
    """A container whose launcher stays in its command, or whose script is not looked into.

    :param program: the launcher's name; empty if only a script was found
    :param why: as a clause after its name
    """

    program: str
    why: str
    found: Found


@unchanging
class Mpi:
    """The name of the MPI container (empty: none) and the figures asked for it."""

    container: str = ""
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    cores_per_rank: Figure | None = None


def lift_launchers(
    containers: Sequence[Container], hints: Hints, findings: Findings
) -> tuple[tuple[Container, ...], Mpi]:
    """The containers with their launchers, and the MPI workload that they make."""
    if not hints.asks_for_ranks and not any(mention(_words(container)) for container in containers):
        return tuple(containers), Mpi()
    main = [container for container in containers if container.kind is ContainerKind.MAIN]
    found = {container.name: _find(container, hints, findings) for container in main}
    for container in containers:
        if container.kind is not ContainerKind.MAIN and (program := mention(_words(container))):
            findings.warnings.append(f"{container.path}: {program} in an init container stays on the first node")
    lifted = {name: launcher for name, launcher in found.items() if isinstance(launcher, Launcher)}
    containers = [_noted(container, found.get(container.name)) for container in containers]
    if len(main) > 1 and (lifted or hints.asks_for_ranks):
        _block_several(main, lifted, hints, findings)
        return tuple(containers), Mpi()
    if not lifted and not hints.asks_for_ranks:
        return tuple(containers), Mpi()
    launcher = lifted.get(main[0].name)
    if launcher is None:
        _judge_hinted(main[0], found[main[0].name], hints, findings)
    else:
        _tell(main[0], launcher, findings)
        containers = [replace(c, launcher=launcher) if c.name == main[0].name else c for c in containers]
    return tuple(containers), _ask(main[0].name, launcher, hints, findings)


def _noted(container: Container, found: Launcher | _Stays | None) -> Container:
    """The container with the launches that stay in its command."""
    launches = found.found.launches if isinstance(found, _Stays) else ()
    return replace(container, launches=launches) if launches else container


def _words(container: Container) -> tuple[str, ...]:
    return (*(container.command or ()), *(container.args or ()))


def _field(container: Container) -> str:
    """The path of the field that contains the launcher."""
    named = mention(container.command or ()) or not mention(container.args or ())
    return f"{container.path}.{'command' if named else 'args'}"


def _find(container: Container, hints: Hints, findings: Findings) -> Launcher | _Stays | None:
    """The container's launcher, or what stays in its command; None without either."""
    lifted = find_launcher(container, _field(container))
    if isinstance(lifted, Launcher):
        return lifted
    if lifted is None and not hints.asks_for_ranks:
        return None
    found = find_launches(container)
    if lifted is None:
        return _Stays("", "", found) if found.scripts else None
    if not (found.launches or found.scripts or found.unread or found.unnamed):
        return None  # only a comment or a string names it
    stays = _Stays(lifted.program, lifted.why, found)
    findings.warnings.append(
        f"{_field(container)}: {_HOW.format(stays.program)}; it {stays.why}{_where(found)}, "
        "so it is one process on one node"
    )
    return stays


def _where(found: Found) -> str:
    """The place of the first launcher that was found, and its ranks; or why the text was not read."""
    launches = found.launches
    if not launches:
        return f" (the text {found.unread})" if found.unread else ""
    first = launches[0]
    ranks = f": {first.ranks.value} ranks" if first.ranks else ""
    more = f", and {len(launches) - 1} more" if len(launches) > 1 else ""
    return f" (line {first.line}, column {first.column}{ranks}{more})"


def _block_several(main: Sequence[Container], lifted: dict[str, Launcher], hints: Hints, findings: Findings) -> None:
    for container in main:
        if container.name in lifted:
            findings.block(
                lifted[container.name].source,
                f"starts {lifted[container.name].program} in one of {len(main)} containers, and only a Pod with one "
                "container can be spread over nodes; leave the others out or make them sidecars",
            )
    if not lifted:
        hint = hints.ranks or hints.ranks_per_node or hints.nodes
        path = hint.origin if hint else main[0].path
        findings.block(path, f"asks for MPI ranks, and it is unclear which of {len(main)} containers runs them")


def _judge_hinted(container: Container, found: Launcher | _Stays | None, hints: Hints, findings: Findings) -> None:
    hint = hints.ranks or hints.ranks_per_node or hints.nodes
    once = f"with the hint {hint.origin if hint else ''} it would start once per rank"
    if isinstance(found, _Stays) and found.program:
        findings.block(
            _field(container), f"{_HOW.format(found.program)}; it {found.why}{_where(found.found)}, and {once}"
        )
    elif isinstance(found, _Stays):
        findings.block(
            _field(container),
            f"{_HOW.format('the launcher')}; {found.found.scripts[0]} is not looked into, and {once}",
        )
    elif not container.command:
        findings.block(
            f"{container.path}.command", "is not set, and the image's own entrypoint cannot be started once per rank"
        )


def _tell(container: Container, launcher: Launcher, findings: Findings) -> None:
    if launcher.dropped:
        findings.warnings.append(f"{launcher.source}: left to the site's own launcher: {', '.join(launcher.dropped)}")
    if not container.command:
        findings.warnings.append(
            f"{launcher.source}: {launcher.program} is started without the image's ENTRYPOINT, which would get the args"
        )


def _ask(name: str, launcher: Launcher | None, hints: Hints, findings: Findings) -> Mpi:
    if launcher is None:
        return Mpi(
            name, _total(None, hints.ranks_per_node, hints.nodes, hints.ranks), hints.ranks_per_node, hints.nodes
        )
    for hint, own in (
        (hints.ranks, launcher.ranks),
        (hints.ranks_per_node, launcher.ranks_per_node),
        (hints.nodes, launcher.nodes),
    ):
        if hint and own and hint.value != own.value:
            findings.warnings.append(
                f"{hint.origin} says {hint.value} and {own.origin} says {own.value}: the hint counts"
            )
    per_node = hints.ranks_per_node or launcher.ranks_per_node
    nodes = hints.nodes or launcher.nodes
    ranks = _total(launcher.ranks, per_node, nodes, hints.ranks)
    return Mpi(name, ranks, per_node, nodes, launcher.cores_per_rank)


def _total(own: Figure | None, per_node: Figure | None, nodes: Figure | None, hint: Figure | None) -> Figure | None:
    """The number of ranks: as asked for, else nodes times ranks per node."""
    if hint or own:
        return hint or own
    if per_node and nodes:
        return Figure(
            per_node.value * nodes.value, f"{nodes.origin} ({nodes.value}) x {per_node.origin} ({per_node.value})"
        )
    return None
