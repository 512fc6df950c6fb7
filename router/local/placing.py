"""Places jobs on nodes: first come, first served, per queue.

Pure. A queue's nodes belong to it alone. The comment of a job that can never run says so; later jobs pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from router.local.records import Job, Queue, Share
from router.local.resources import Chunk

NEVER: Final = "Can Never Run: "


@dataclass(slots=True)
class _Node:
    number: int
    ncpus: int
    memory: int
    gpus: list[int]
    used: bool = False


def place(job: Job, queue: Queue, running: Iterable[Job]) -> list[Share] | None:
    """The shares of a job beside the running jobs; None without enough room."""
    return _fit(job, queue, _nodes(queue, running))


def has_room(job: Job, queue: Queue, running: Iterable[Job]) -> bool:
    """Whether a suspended job's own shares are free again, as it must go on where its processes are."""
    nodes = _nodes(queue, running)
    alone = "excl" in job.place
    for share in job.shares:
        if share.node >= len(nodes):
            continue
        node = nodes[share.node]
        node.ncpus, node.memory = node.ncpus - share.ncpus, node.memory - share.memory
        if node.ncpus < 0 or node.memory < 0 or (alone and node.used) or not set(share.gpus) <= set(node.gpus):
            return False
        node.gpus = [gpu for gpu in node.gpus if gpu not in share.gpus]
    return True


def never(job: Job, queue: Queue) -> str:
    """Why a job does not fit even on an empty queue, in OpenPBS' words; empty if it fits."""
    if _fit(job, queue, _nodes(queue, ())) is not None:
        return ""
    have = {
        "ncpus": queue.nodes * queue.cpus_per_node,
        "mem": queue.nodes * queue.memory,
        "ngpus": queue.nodes * queue.gpus,
    }
    asked = {
        "ncpus": sum(chunk.count * chunk.ncpus for chunk in job.chunks),
        "mem": sum(chunk.count * chunk.memory for chunk in job.chunks) if queue.memory else 0,
        "ngpus": sum(chunk.count * chunk.gpus for chunk in job.chunks),
    }
    for name, figure in asked.items():
        if figure > have[name]:
            return f"{NEVER}Insufficient amount of resource: {name} (R: {figure} A: {have[name]} T: {have[name]})"
    return f"{NEVER}Not enough total nodes available"


def free_nodes(queue: Queue, running: Iterable[Job]) -> int:
    """The number of a queue's nodes without a running job."""
    return sum(not node.used for node in _nodes(queue, running))


def _nodes(queue: Queue, running: Iterable[Job]) -> list[_Node]:
    nodes = [
        _Node(number, queue.cpus_per_node, queue.memory or 1 << 62, _gpus_of(queue, number))
        for number in range(queue.nodes)
    ]
    for job in running:
        for share in job.shares:
            if share.node >= len(nodes):
                continue  # the queue became smaller while the job ran
            node = nodes[share.node]
            node.used = True
            node.ncpus = 0 if "excl" in job.place else node.ncpus - share.ncpus
            node.memory -= share.memory
            node.gpus = [gpu for gpu in node.gpus if gpu not in share.gpus]
    return nodes


def _gpus_of(queue: Queue, number: int) -> list[int]:
    """GPU numbers of a node. All nodes are this one machine, so no two nodes of a queue share a number."""
    return list(range(number * queue.gpus, (number + 1) * queue.gpus))


def _chunks(job: Job) -> Iterator[Chunk]:
    for chunk in job.chunks:
        for _ in range(chunk.count):
            yield chunk


def _fit(job: Job, queue: Queue, nodes: list[_Node]) -> list[Share] | None:
    if sum(chunk.count for chunk in job.chunks) > queue.nodes * max(queue.cpus_per_node, 1) * 64:
        return None  # can never fit; avoids a walk through a million chunks
    for candidates in [[node] for node in nodes] if job.place.startswith("pack") else [nodes]:
        shares = _spread(job, candidates)
        if shares is not None:
            return shares
    return None


def _spread(job: Job, nodes: list[_Node]) -> list[Share] | None:
    scatter, alone = "scatter" in job.place, "excl" in job.place
    free = [_Node(node.number, node.ncpus, node.memory, list(node.gpus), node.used) for node in nodes]
    shares: list[Share] = []
    for chunk in _chunks(job):
        taken = {share.node for share in shares} if scatter else set()
        for node in free:
            if node.number in taken or (alone and node.used) or not _holds(node, chunk):
                continue
            gpus = node.gpus[: chunk.gpus]
            node.ncpus, node.memory, node.gpus = (
                node.ncpus - chunk.ncpus,
                node.memory - chunk.memory,
                node.gpus[chunk.gpus :],
            )
            shares.append(Share(node.number, chunk.ncpus, chunk.mpiprocs, chunk.memory, gpus))
            break
        else:
            return None
    return shares


def _holds(node: _Node, chunk: Chunk) -> bool:
    return node.ncpus >= chunk.ncpus and node.memory >= chunk.memory and len(node.gpus) >= chunk.gpus
