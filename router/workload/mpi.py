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
from router.workload.launcher import NotLifted, find_launcher, mention
from router.workload.model import Container, ContainerKind, Figure, Launcher

_HOW: Final = (
    'to use several nodes, make it the whole command, such as ["mpirun", "-np", "8", "./program"], with workingDir in '
    "place of cd, env in place of export, and an init container for what comes before"
)


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
    found = {container.name: _find(container, findings) for container in main}
    for container in containers:
        if container.kind is not ContainerKind.MAIN and (program := mention(_words(container))):
            findings.warnings.append(f"{container.path}: {program} in an init container stays on the first node")
    lifted = {name: launcher for name, launcher in found.items() if isinstance(launcher, Launcher)}
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
        containers = [replace(c, launcher=launcher) if c is main[0] else c for c in containers]
    return tuple(containers), _ask(main[0].name, launcher, hints, findings)


def _words(container: Container) -> tuple[str, ...]:
    return (*(container.command or ()), *(container.args or ()))


def _field(container: Container) -> str:
    """The path of the field that contains the launcher."""
    return f"{container.path}.{'command' if mention(container.command or ()) else 'args'}"


def _find(container: Container, findings: Findings) -> Launcher | NotLifted | None:
    found = find_launcher(container, _field(container))
    if isinstance(found, NotLifted):
        findings.warnings.append(
            f"{_field(container)}: {found.program} {found.why}, so the container stays one process on one node; {_HOW}"
        )
    return found


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


def _judge_hinted(container: Container, found: Launcher | NotLifted | None, hints: Hints, findings: Findings) -> None:
    hint = hints.ranks or hints.ranks_per_node or hints.nodes
    if isinstance(found, NotLifted):
        findings.block(
            _field(container), f"{found.program} {found.why}; with the hint {hint.origin if hint else ''} it would start "
            f"once per rank; {_HOW}"
        )  # fmt: skip
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
