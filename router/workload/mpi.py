"""Decides whether a Job is an MPI workload, with which container and how many ranks.

Pure. Combines the launchers in commands with the hints in annotations; a hint beats a launcher.
``router.site.allocation`` adds what a policy's MPI profile says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from router import names
from router.values import unchanging
from router.workload.fields import Findings
from router.workload.hints import Hints
from router.workload.launcher import find_launcher
from router.workload.launchernames import mention
from router.workload.launches import find_launches, variables_mention
from router.workload.launchfigures import asked_by, show_ranks
from router.workload.model import Container, ContainerKind, Figure, Launcher, Started
from router.workload.shellbudget import ShellBudget

_HOW: Final = "see docs/mpi.md: to use several nodes give a hint, such as {}, or make {} the whole command"
"""The page comes first: the end of a long sentence is cut off where it is shown."""


@unchanging
class Mpi:
    """The name of the MPI container (empty: none) and the figures asked for it.

    :param hinted: whether hints say any
    :param nodes_at_least: whether ``nodes`` may be more
    """

    container: str = ""
    ranks: Figure | None = None
    ranks_per_node: Figure | None = None
    nodes: Figure | None = None
    cores_per_rank: Figure | None = None
    hinted: bool = False
    nodes_at_least: bool = False


def lift_launchers(
    containers: Sequence[Container], hints: Hints, budget: ShellBudget, findings: Findings
) -> tuple[tuple[Container, ...], Mpi]:
    """The containers with their launchers, and the MPI workload that they make.

    :param budget: of the Job's shell texts
    """
    if not hints.asks_for_ranks and not any(map(_named, containers)):
        return tuple(containers), Mpi()
    looked = tuple([_look(container, budget, findings, hints) for container in containers])
    main = [container for container in looked if container.kind is ContainerKind.MAIN]
    lifted = {one.name: one.launcher for one in main if one.launcher is not None}
    inner = len(main) == 1 and _is_inside(main[0], hints)
    _warn_of_one_process([] if inner else main, findings)
    asked = lifted or hints.asks_for_ranks or inner
    if len(main) > 1 and asked:
        _block_several(main, lifted, hints, findings)
    if len(main) > 1 or not asked:
        return looked, Mpi()
    launcher = main[0].launcher
    if launcher is None:
        mpi = _ask_inside(main[0], hints) if inner else _ask(main[0].name, None, hints, findings)
        return looked, replace(mpi, hinted=hints.asks_for_ranks)
    _tell(main[0], launcher, findings)
    return looked, _ask(main[0].name, launcher, hints, findings)


def _words(container: Container) -> tuple[str, ...]:
    return (*(container.command or ()), *(container.args or ()))


def _named(container: Container) -> str:
    """The launcher that a container's words name, or a variable to which they refer; else empty."""
    return mention(_words(container)) or variables_mention(container)


def _field(container: Container) -> str:
    """The path of the field that contains the launcher."""
    named = mention(container.command or ()) or not mention(container.args or ())
    return f"{container.path}.{'command' if named else 'args'}"


def _look(container: Container, budget: ShellBudget, findings: Findings, hints: Hints) -> Container:
    """The container with its launcher, or with what its command starts; unchanged if there is no reason to look."""
    named = _named(container)
    if container.kind is not ContainerKind.MAIN:
        if named:
            findings.warnings.append(f"{container.path}: {named} in an init container stays on the first node")
        return container
    if not named and not hints.asks_for_ranks:
        return container
    if hints.launcher_inside:
        return replace(container, started=find_launches(container, budget), starts_ranks=True)
    lifted = find_launcher(container, _field(container), budget)
    if isinstance(lifted, Launcher):
        return replace(container, launcher=lifted)
    started = find_launches(container, budget)
    return replace(container, started=replace(started, why="is named in a variable" if lifted is None else lifted.why))


def _is_inside(container: Container, hints: Hints) -> bool:
    """Whether it is an MPI container with its launcher inside; one that is out of sight needs a hint."""
    return container.starts_ranks or bool(container.started and (container.started.launches or hints.asks_for_ranks))


def _warn_of_one_process(containers: Sequence[Container], findings: Findings) -> None:
    """Say of launchers that stay in their containers what they become."""
    for container in containers:
        if container.started and (named := _named(container)):
            why = f"it {container.started.why}{_where(container.started)}, so it is one process on one node"
            findings.warnings.append(f"{_field(container)}: {_HOW.format(names.HINT_RANKS, named)}; {why}")


def _where(started: Started) -> str:
    """The place of the first launcher that was found, and its ranks; or why the text was not read."""
    if not started.launches:
        return f" (line {started.unread[0].line}: the text {started.unread[0].what})" if started.unread else ""
    first = started.launches[0]
    ranks = f": {show_ranks(first.ranks.value)}" if first.ranks else ""
    more = f", and {len(started.launches) - 1} more" if len(started.launches) > 1 else ""
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
        path = hint.origin if hint else main[0].path  # the launcher's hint gives no figure
        findings.block(path, f"asks for MPI ranks, and it is unclear which of {len(main)} containers runs them")


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


def _ask_inside(container: Container, hints: Hints) -> Mpi:
    """The figures of a container with its launcher inside: the largest of its launches, unless hints say others."""
    launches = container.started.launches if container.started else ()
    if not launches:
        ranks = _total(None, hints.ranks_per_node, hints.nodes, hints.ranks)
        return Mpi(container.name, ranks, hints.ranks_per_node, hints.nodes)
    asked = asked_by(launches, container.cpu)
    per_node, nodes = hints.ranks_per_node or asked.ranks_per_node, hints.nodes or asked.nodes
    ranks = _total(asked.ranks, per_node, nodes, hints.ranks)
    at_least = asked.nodes_at_least and hints.nodes is None
    return Mpi(container.name, ranks, per_node, nodes, asked.cores_per_rank, nodes_at_least=at_least)


def _total(own: Figure | None, per_node: Figure | None, nodes: Figure | None, hint: Figure | None) -> Figure | None:
    """The number of ranks: as asked for, else nodes times ranks per node."""
    if hint or own:
        return hint or own
    if per_node and nodes:
        return Figure(
            per_node.value * nodes.value, f"{nodes.origin} ({nodes.value}) x {per_node.origin} ({per_node.value})"
        )
    return None
