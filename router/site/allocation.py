"""Lays out a Workload on a queue: chunks, cores per rank, memory, walltime.

Pure. The result depends on the Workload, the queue's nodes and the rule's defaults, by the rules of docs/judging.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from router import names
from router.hpc.requests import Allocation, Chunk
from router.notation import quantity
from router.site import leastmemory, sharing, walltime
from router.site.misfit import MisfitError
from router.site.schema import Defaults, MpiProfile, Queue, Site
from router.values import unchanging
from router.workload.model import Figure, Workload

T = TypeVar("T")
_PLACED: Final = ("ranks", "ranks_per_node", "nodes")


@unchanging
class _Ask:
    """What a Pod needs on any nodes: whole cores, bytes of memory, GPUs (``bound`` to ranks or not), ranks.

    ``nodes`` are exactly as many as asked for; without, there are ``least`` or more. ``requested`` is the request for
    memory, if ``memory`` is a larger limit.
    """

    ranks: int
    cores_per_rank: int
    memory: int | None
    gpus: int
    per_node: int | None
    nodes: int | None
    bound: bool = False
    least: int = 1
    requested: int | None = None


def allocate(  # noqa: PLR0913 - a queue is chosen with all of these known
    workload: Workload,
    site: Site,
    queue: Queue,
    *,
    profile: MpiProfile | None,
    defaults: Defaults,
    max_nodes: int | None,
    max_walltime: int | None,
) -> Allocation | str:
    """How one Pod of the Workload runs on a queue, or why it cannot, with both figures of each.

    The reasons are clauses that follow "it". Between them stands "; it ".

    :param profile: the MPI profile that matches the Pod's image; it can make a Job without a launcher an MPI workload
    :param defaults: the rule's figures, used where the Job does not ask for any
    :param max_nodes: the rule's own limit on nodes, below the queue's
    :param max_walltime: the same for the walltime, in seconds
    """
    notes: list[tuple[str, str]] = []
    warnings: list[str] = []
    misfits: list[MisfitError] = []
    spans = _spans(workload, profile, warnings)
    _tried(misfits, lambda: _check_gpus(workload, site, queue))
    without = replace(workload, gpus=None) if misfits else workload
    if spans:
        most = min(queue.nodes, max_nodes or queue.nodes)
        found = _tried(misfits, lambda: _ranks(without, queue, profile, defaults, most, (notes, warnings)))
    else:
        found = _one_chunk(_ask_of_one(without, defaults, notes), queue, workload, misfits)
    time = _tried(misfits, lambda: walltime.ask(workload, site, queue, defaults, max_walltime))
    if misfits or found is None or time is None:
        return "; it ".join(f"{misfit.args[0]}{workload.asked_in(*misfit.args[1:])}" for misfit in misfits)
    ask, chunks = found
    least = leastmemory.least(site, queue)
    warnings += leastmemory.raised([chunk.memory for chunk in chunks], least, site)
    if any(one.memory and one.memory < least for one in chunks):
        chunks = tuple([replace(one, memory=one.memory and max(one.memory, least)) for one in chunks])
    notes.append(("walltime", time.note))
    return Allocation(
        chunks=chunks,
        ranks=ask.ranks,
        cores_per_rank=ask.cores_per_rank,
        walltime=time.walltime,
        deadline=time.deadline,
        grace=workload.grace,
        notes=tuple(notes),
        warnings=tuple(warnings),
    )


def _tried(misfits: list[MisfitError], make: Callable[[], T]) -> T | None:
    try:
        return make()
    except MisfitError as misfit:
        misfits.append(misfit)
        return None


def is_mpi(workload: Workload, profile: MpiProfile | None) -> bool:
    """Whether the site's launcher starts the Pod's ranks: by launcher, by hint, or because the profile implies it.

    Without a profile, a launcher inside a container runs there, on one node, as nothing asks for more.
    """
    if workload.mpi:
        return profile is not None or workload.mpi_hinted or workload.container(workload.mpi).launcher is not None
    return profile is not None and profile.implies_mpi and len(workload.main_containers) == 1


def _spans(workload: Workload, profile: MpiProfile | None, warnings: list[str]) -> bool:
    """Whether there are ranks, which may span nodes; where only a profile is missing, a warning says so."""
    spans = is_mpi(workload, profile)
    if workload.mpi and not spans:
        container = workload.container(workload.mpi)
        warnings.append(
            f"{container.path}: the site has no MPI profile for {container.image}, so its launcher starts ranks in the "
            "container alone, on one node"
        )
    return spans


def _nodes_origin(workload: Workload) -> str:
    if workload.nodes is not None:
        return f"{workload.nodes.origin}{', or more to hold the ranks' if workload.nodes_at_least else ''}"
    if workload.ranks_per_node is not None:
        return f"as many as {workload.ranks_per_node.origin} makes"
    return "the fewest whose cores and memory hold the ranks, and that share the GPUs evenly"


def _check_gpus(workload: Workload, site: Site, queue: Queue) -> None:
    if not workload.gpus or not workload.gpus.value:
        return
    if site.gpus == "refuse":
        raise MisfitError(f"asks for {_of(workload.gpus.value, 'GPU')}, and site {site.name} takes no GPU Jobs")
    if queue.gpu_vendor is not None and workload.gpu_vendor is not None and workload.gpu_vendor != queue.gpu_vendor:
        raise MisfitError(f"asks for GPUs of {workload.gpu_vendor}, and the queue has those of {queue.gpu_vendor}")


def _cpu(workload: Workload, defaults: Defaults) -> Figure | None:
    """Millicores asked for, by the Job or else by the rule."""
    if workload.cpu is not None or defaults.cpus is None:
        return workload.cpu
    return Figure(defaults.cpus * 1000, "the rule's default")


def _memory(workload: Workload, defaults: Defaults) -> Figure | None:
    figure = workload.memory
    if figure is None and defaults.memory is not None:
        figure = Figure(defaults.memory, "the rule's default")
    # A request of 0 means that the Job needs nothing. To a batch system 0 is a limit, so the queue decides instead.
    return figure if figure is not None and figure.value else None


def _ask_of_one(workload: Workload, defaults: Defaults, notes: list[tuple[str, str]]) -> _Ask:
    """One process on one node: CPUs rounded up to whole cores, at least one."""
    cpu = _cpu(workload, defaults)
    cores = max(1, -(-cpu.value // 1000)) if cpu else 1
    notes.append(("cores", f"{cpu.origin}, in whole cores{cpu.aside}" if cpu else "nothing was asked for"))
    memory = _note_memory(_memory(workload, defaults), notes)
    gpus = workload.gpus.value if workload.gpus else 0
    return _Ask(1, cores, memory, gpus, None, 1, requested=_requested(workload))


def _requested(workload: Workload) -> int | None:
    request = workload.requests.memory
    return request.value if request is not None and request != workload.memory else None


def _or_request(ask: _Ask, queue: Queue) -> str:
    """What a smaller request would change where the limit is too large for a node; empty where it is none."""
    if ask.requested is None:
        return ""
    fits = -(-ask.requested // ask.ranks) <= (queue.memory_per_node or 0)
    instead = ", for which the rule's key figures: {memory: requests} would ask" if fits else ""
    return f" (the request is {quantity.show_bytes(ask.requested)}{instead})"


def _note_memory(memory: Figure | None, notes: list[tuple[str, str]]) -> int | None:
    notes.append(("memory", f"{memory.origin}{memory.aside}" if memory else "nothing was asked for; the queue decides"))
    return memory.value if memory else None


def _one_chunk(
    ask: _Ask, queue: Queue, workload: Workload, misfits: list[MisfitError]
) -> tuple[_Ask, tuple[Chunk, ...]]:
    """The one node of a Pod without ranks; all that the queue's nodes lack for it is added to ``misfits``."""
    cores = ask.cores_per_rank
    if cores > queue.cpus_per_node:
        aside = workload.cpu.aside if workload.cpu else ""
        clause = (
            f"asks for {cores} CPUs{aside}, and a node has {queue.cpus_per_node}; only MPI programs span nodes: the hint "
            f"{names.HINT_RANKS}, impliesMpi of the MPI profile or mpi: true of the rule says that it is one"
        )
        misfits.append(MisfitError(clause))
    if ask.memory is not None and queue.memory_per_node is not None and ask.memory > queue.memory_per_node:
        asked, has = quantity.show_bytes(ask.memory), quantity.show_bytes(queue.memory_per_node)
        misfits.append(MisfitError(f"asks for {asked} of memory{_or_request(ask, queue)}; a node has {has}"))
    if ask.gpus > queue.gpus_per_node:
        clause = f"asks for {_of(ask.gpus, 'GPU')}; a node has {queue.gpus_per_node}"
        misfits.append(MisfitError(clause, "gpus"))
    return ask, (Chunk(1, 1, cores, cores, ask.memory, ask.gpus),)


def _ranks(
    workload: Workload,
    queue: Queue,
    profile: MpiProfile | None,
    defaults: Defaults,
    most: int,
    said: tuple[list[tuple[str, str]], list[str]],
) -> tuple[_Ask, tuple[Chunk, ...]]:
    ask = _ask_of_ranks(workload, profile, defaults, *said)
    said[0].append(("nodes", _nodes_origin(workload)))
    return ask, _spread(ask, queue, most)


def _ask_of_ranks(
    workload: Workload,
    profile: MpiProfile | None,
    defaults: Defaults,
    notes: list[tuple[str, str]],
    warnings: list[str],
) -> _Ask:
    """Ranks and the cores of each: cores per rank as asked for, else the CPU request divided by the ranks."""
    cpu = _cpu(workload, defaults)
    millis = cpu.value if cpu else 0
    own = workload.cores_per_rank
    ranks, origin = _count_ranks(workload, millis // 1000 // (own.value if own else 1))
    notes.append(("ranks", origin))
    cores_per_rank = own.value if own else max(1, millis // (1000 * ranks))
    share = (
        f"{quantity.show_cpu(millis)} CPUs over {_of(ranks, 'rank')}, rounded down" if cpu else "nothing was asked for"
    )
    notes.append(("cores per rank", own.origin if own else share))
    cores = ranks * cores_per_rank
    if cpu and millis < cores * 1000:
        warnings.append(
            f"{_of(ranks, 'rank')} of {_of(cores_per_rank, 'core')} need {_of(cores, 'core')}; "
            f"the request of {quantity.show_cpu(millis)} CPUs is raised to that"
        )
    memory = _note_memory(_memory(workload, defaults), notes)
    gpus = workload.gpus.value if workload.gpus else 0
    per_node, nodes = workload.ranks_per_node, workload.nodes
    at_least = min(ranks, nodes.value) if nodes and workload.nodes_at_least else 1
    fixed = (per_node.value if per_node else None, nodes.value if nodes and not workload.nodes_at_least else None)
    bound = sharing.is_bound(profile)
    return _Ask(
        ranks, cores_per_rank, memory, gpus, *fixed, bound=bound, least=at_least, requested=_requested(workload)
    )


def _count_ranks(workload: Workload, cores: int) -> tuple[int, str]:
    """The number of ranks and its origin: as asked for; else from ranks per node or nodes; else from the cores."""
    if workload.ranks is not None:
        return workload.ranks.value, workload.ranks.origin
    per_node, nodes = workload.ranks_per_node, workload.nodes
    if per_node is not None:
        count = nodes.value if nodes else 1
        return per_node.value * count, f"{per_node.origin}, on {_of(count, 'node')}"
    least = nodes.value if nodes else 1
    return max(least, cores), "one for each share of the CPUs asked for, as the launcher gives no number"


def _spread(ask: _Ask, queue: Queue, limit: int) -> tuple[Chunk, ...]:
    """Ranks over the fewest nodes that hold them, evenly, the remainder first."""
    _check_together(ask)
    most = _most_per_node(ask, queue)
    if ask.per_node is not None and ask.per_node > most:
        raise MisfitError(_too_dense(ask, queue, ask.per_node), "ranks_per_node")
    nodes = _count_nodes(ask, queue, limit, most)
    if nodes > limit:
        raise MisfitError(
            f"needs {_of(nodes, 'node')} for {_of(ask.ranks, 'rank')} of {_of(ask.cores_per_rank, 'core')}; it may have {limit}",
            *_PLACED,
        )
    shares = _shares(ask, nodes)
    densest = max(ranks for _, ranks in shares)
    if densest > most:
        raise MisfitError(_too_dense(ask, queue, densest), *_PLACED)
    return tuple([_chunk(ask, count, ranks, nodes) for count, ranks in shares])


def _shares(ask: _Ask, nodes: int) -> list[tuple[int, int]]:
    filled = ask.per_node is not None and nodes == -(-ask.ranks // ask.per_node)
    return sharing.spread(ask.ranks, nodes, ask.per_node if ask.nodes is None and filled else None)


def _check_together(ask: _Ask) -> None:
    """Refuse figures of hints and launcher that are valid alone but contradict each other."""
    if ask.nodes is None:
        return
    if ask.nodes > ask.ranks:
        raise MisfitError(f"asks for {_of(ask.nodes, 'node')} for {_of(ask.ranks, 'rank')}; each node needs a rank")
    if ask.per_node is not None and ask.nodes * ask.per_node < ask.ranks:
        raise MisfitError(
            f"asks for {_of(ask.ranks, 'rank')}, and {_of(ask.nodes, 'node')} with {_of(ask.per_node, 'rank')} each hold "
            f"{ask.nodes * ask.per_node}"
        )


def _most_per_node(ask: _Ask, queue: Queue) -> int:
    """The most ranks for which a node has enough cores and memory."""
    most = queue.cpus_per_node // ask.cores_per_rank
    if most == 0:
        raise MisfitError(f"needs {_of(ask.cores_per_rank, 'core')} for each rank; a node has {queue.cpus_per_node}")
    if ask.memory is not None and queue.memory_per_node is not None:
        by_memory = queue.memory_per_node * ask.ranks // ask.memory
        if by_memory == 0:
            raise MisfitError(
                f"needs {quantity.show_bytes(-(-ask.memory // ask.ranks))} of memory for each rank{_or_request(ask, queue)}; "
                f"a node has {quantity.show_bytes(queue.memory_per_node)}"
            )
        most = min(most, by_memory)
    return most


def _count_nodes(ask: _Ask, queue: Queue, limit: int, most: int) -> int:
    fewest = ask.nodes if ask.nodes is not None else max(ask.least, -(-ask.ranks // (ask.per_node or most)))
    if not ask.gpus or fewest > limit:
        return fewest
    fixed = ask.nodes is not None or ask.per_node is not None
    for nodes in range(fewest, fewest + 1 if fixed else min(limit, ask.ranks) + 1):
        if ask.gpus % nodes or ask.gpus // nodes > queue.gpus_per_node:
            continue
        if not ask.bound or sharing.is_even(ask.gpus // nodes, [ranks for _, ranks in _shares(ask, nodes)]):
            return nodes
    raise MisfitError(
        f"asks for {_of(ask.gpus, 'GPU')} on {_of(fewest, 'node')}{'' if fixed else f' to {min(limit, ask.ranks)}'}, "
        f"which must share them evenly{', as must the ranks of each' if ask.bound else ''}; a node has {queue.gpus_per_node}",
        *("gpus", *_PLACED),
    )


def _too_dense(ask: _Ask, queue: Queue, ranks: int) -> str:
    cores = ranks * ask.cores_per_rank
    if cores > queue.cpus_per_node:
        return f"puts {_of(ranks, 'rank')} of {_of(ask.cores_per_rank, 'core')} on a node, {cores} in all; a node has {queue.cpus_per_node}"
    memory = -(-(ask.memory or 0) * ranks // ask.ranks)
    return (
        f"puts {_of(ranks, 'rank')} with {quantity.show_bytes(memory)} of memory on a node{_or_request(ask, queue)}; "
        f"a node has {quantity.show_bytes(queue.memory_per_node or 0)}"
    )


def _chunk(ask: _Ask, count: int, ranks: int, nodes: int) -> Chunk:
    memory = None if ask.memory is None else -(-ask.memory * ranks // ask.ranks)
    return Chunk(count, ranks, ranks * ask.cores_per_rank, ask.cores_per_rank, memory, ask.gpus // nodes)


def _of(count: int, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"
