"""Reads what one launch asks for, and adds up what several do.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from router.values import unchanging
from router.workload.launcherline import Reading, host_options, read_figures
from router.workload.model import Figure, Known, Launch
from router.workload.shellsource import ShellWord
from router.workload.wrappers import base

_MARKS: Final = (b"$", b"`")
_MOST_HOSTS: Final = 20
"""Most options for hosts that are kept of a place that is followed often."""


@unchanging
class Asked:
    """What launches ask for together: the largest figure of each kind.

    :param ranks_per_node: only where all launches that give ranks agree
    :param nodes_at_least: whether ``nodes`` may be more, as one launch asks for them and others do not
    """

    ranks: Figure | None
    ranks_per_node: Figure | None
    nodes: Figure | None
    cores_per_rank: Figure | None
    nodes_at_least: bool


def launch_of(words: Sequence[ShellWord]) -> Launch | None:
    """The launch of a launcher's words; None for ``mpirun --version``.

    :param words: with the launcher
    """
    program = words[0].text or ""
    name = base(program)
    field, line, column = words[0].source.place(words[0].start)
    origin = f"in {field}" if words[0].node is None else f"in {field}, line {line}"
    texts = tuple([word.text for word in words[1:]])
    parts = _programs(name, texts)
    readings = [read_figures(name, part, origin) for part in parts]
    first = readings[0][0]
    used = words[: 1 + len(parts[0]) - len(first.program)] if len(parts) == 1 else words
    unknown = next((why for _, why in readings if why), "")
    if any(word.many for word in used) or (words[len(used) :] and words[len(used)].many and not unknown):
        unknown = unknown or "has words that are known only when it runs"
    elif not all(reading.program or reading.reads_file for reading, _ in readings):
        return None
    ranks = _together([reading for reading, _ in readings])
    return Launch(
        program=program,
        field=field,
        line=line,
        column=column,
        words=texts,
        known=_known(used, ranks, unknown),
        ranks=ranks,
        ranks_per_node=first.ranks_per_node,
        nodes=first.nodes,
        cores_per_rank=first.cores_per_rank,
        unknown=unknown,
        oversubscribes=any(reading.oversubscribes for reading, _ in readings),
        hosts=tuple([option for part in parts for option in host_options(name, part)][:_MOST_HOSTS]),
    )


def _known(words: Sequence[ShellWord], ranks: Figure | None, unknown: str) -> Known:
    if unknown:
        return Known.UNKNOWN
    if ranks is None:
        return Known.NOT_GIVEN
    texts = [word.source.text if word.node is None else word.node.text or b"" for word in words]
    return Known.VALUES if any(mark in text for text in texts for mark in _MARKS) else Known.WRITTEN


def _programs(name: str, words: tuple[str | None, ...]) -> list[tuple[str | None, ...]]:
    """The words of each program of ``mpirun -np 2 ./a : -np 2 ./b``."""
    parts: list[list[str | None]] = [[]]
    for word in words:
        if word == ":" and not name.startswith("srun"):
            parts.append([])
        else:
            parts[-1].append(word)
    return [tuple(part) for part in parts]


def _together(readings: Sequence[Reading]) -> Figure | None:
    """The ranks of all programs of one launcher; None unless each says a number."""
    figures = [reading.ranks for reading in readings]
    known = [figure for figure in figures if figure is not None]
    if len(known) < len(figures):
        return None
    if len(known) == 1:
        return known[0]
    return Figure(sum(figure.value for figure in known), " + ".join(figure.origin for figure in known))


def larger(one: Launch, other: Launch) -> Launch:
    """The same place, followed twice: with the larger figure of each kind, known only if both are."""
    unknown = one.unknown or other.unknown
    known = Known.UNKNOWN if unknown else one.known if one.known is not Known.NOT_GIVEN else other.known
    if not unknown and Known.NOT_GIVEN in (one.known, other.known) and one.known is not other.known:
        unknown, known = "asks for ranks only in some of its rounds", Known.UNKNOWN
    return replace(
        other if (other.ranks and (one.ranks is None or other.ranks.value > one.ranks.value)) else one,
        known=known,
        ranks=_most(one.ranks, other.ranks),
        ranks_per_node=_most(one.ranks_per_node, other.ranks_per_node),
        nodes=_most(one.nodes, other.nodes),
        cores_per_rank=_most(one.cores_per_rank, other.cores_per_rank),
        unknown=unknown,
        oversubscribes=one.oversubscribes and other.oversubscribes,
        hosts=tuple(dict.fromkeys([*one.hosts, *other.hosts]))[:_MOST_HOSTS],
    )


def _most(*figures: Figure | None) -> Figure | None:
    return max([figure for figure in figures if figure is not None], key=lambda figure: figure.value, default=None)


def show_ranks(number: int) -> str:
    """Such as ``1 rank`` and ``2 ranks``."""
    return f"{number} rank" if number == 1 else f"{number} ranks"


def largest(launches: Sequence[Launch], cpu: Figure | None) -> tuple[Launch, Figure]:
    """The launch that asks for the most ranks, with their number.

    One without a number that is known gets a rank for each core, over its threads.

    :param launches: at least one
    :param cpu: asked for, in millicores
    """
    asked = [(launch, _ranks(_within(launch, cpu), cpu)) for launch in launches]
    return max(asked, key=lambda one: one[1].value)


def _within(launch: Launch, cpu: Figure | None) -> Launch:
    """A launch whose ranks may share cores, with no more of them than share the CPUs asked for; others as they are."""
    if not launch.oversubscribes:
        return launch
    most = max(1, (cpu.value if cpu else 0) // 1000 // (launch.cores_per_rank.value if launch.cores_per_rank else 1))
    return replace(launch, ranks=_at_most(launch.ranks, most), ranks_per_node=_at_most(launch.ranks_per_node, most))


def _at_most(figure: Figure | None, most: int) -> Figure | None:
    if figure is None or figure.value <= most:
        return figure
    return Figure(most, f"the CPUs asked for, as {figure.origin}, may share cores (oversubscribe)")


def _ranks(launch: Launch, cpu: Figure | None) -> Figure:
    if launch.ranks:
        return launch.ranks
    if per_node := launch.ranks_per_node:
        return Figure(per_node.value * (launch.nodes.value if launch.nodes else 1), per_node.origin)
    threads = launch.cores_per_rank.value if launch.cores_per_rank else 1
    least = launch.nodes.value if launch.nodes else 1
    return Figure(
        max(least, (cpu.value if cpu else 0) // 1000 // threads),
        f"one for each share of the CPUs asked for, as {launch.name} in {launch.field}, line {launch.line}, "
        f"{launch.unknown or 'gives no number'}",
    )


def asked_by(launches: Sequence[Launch], cpu: Figure | None) -> Asked:
    """What launches ask for together, so that there is room for each of them.

    :param launches: at least one
    :param cpu: asked for, in millicores
    """
    launches = [_within(one, cpu) for one in launches]
    launch, most = largest(launches, cpu)
    per_node = _agreed(launches)
    nodes = _most(*[one.nodes or (None if per_node else _own_nodes(one)) for one in launches])
    numbers = any(one.ranks or one.ranks_per_node for one in launches)
    makes_ranks = launch.ranks_per_node is not None and per_node is not None  # with as many nodes as a hint says
    return Asked(
        ranks=launch.ranks or (most if numbers and not makes_ranks else None),
        ranks_per_node=per_node,
        nodes=nodes,
        cores_per_rank=_cores(launches, cpu, most.value),
        nodes_at_least=nodes is not None and any(not one.nodes or one.nodes.value < nodes.value for one in launches),
    )


def _agreed(launches: Sequence[Launch]) -> Figure | None:
    """The ranks per node, where all launches that give ranks have the same; else None."""
    giving = [one for one in launches if one.ranks or one.ranks_per_node]
    said = [one.ranks_per_node for one in giving if one.ranks_per_node]
    return said[0] if said and len(set(map(_density, giving))) == 1 else None


def _density(launch: Launch) -> int | None:
    """The ranks of a launch on one node; None if it leaves them open."""
    if launch.ranks_per_node:
        return launch.ranks_per_node.value
    return -(-launch.ranks.value // launch.nodes.value) if launch.ranks and launch.nodes else None


def _own_nodes(launch: Launch) -> Figure | None:
    """The nodes that ranks and ranks per node make."""
    ranks, per_node = launch.ranks, launch.ranks_per_node
    if ranks is None or per_node is None:
        return None
    return Figure(-(-ranks.value // per_node.value), f"{ranks.origin} over {per_node.origin}")


def _cores(launches: Sequence[Launch], cpu: Figure | None, ranks: int) -> Figure | None:
    """The cores per rank that give each launch its cores, if all share those of so many ranks.

    It is None if the CPUs asked for are enough, or if all launches leave it open.
    """
    needs = [(_ranks(one, cpu).value, one.cores_per_rank) for one in launches]
    known = [(own, cores) for own, cores in needs if cores is not None]
    if not known:
        return None
    own, cores = max(known, key=lambda need: need[0] * need[1].value)
    each = -(-own * cores.value // ranks)
    if len(known) < len(needs) and each <= max(1, (cpu.value if cpu else 0) // 1000 // ranks):
        return None
    return cores if each == cores.value else Figure(each, f"{cores.origin}, for {own} ranks, over {ranks}")
