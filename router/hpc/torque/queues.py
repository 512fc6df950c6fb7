"""Parses TORQUE's queues and nodes (qstat -Q -f and pbsnodes -x) into the state of queues.

Pure. A queue has the nodes with all properties that its ``resources_default.neednodes`` names; without it, all nodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from router.errors import OutputError
from router.hpc import QueueReport, figures
from router.hpc.torque.records import elements

_HEAD: Final = "Queue: "
_COUNTED: Final = re.compile(r"(\w+):(\d{1,9})")
_BROKEN: Final = frozenset({"down", "offline", "unknown", "reserve", "deleted", "network-failed"})
_LIMITS: Final = (("max_queuable", "max_user_queuable"), ("max_running", "max_user_run"))


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    properties: frozenset[str]
    works: bool
    cores: int
    taken: int
    memory: int | None
    gpus: int


def queue_states(queues: str, nodes: str) -> dict[str, QueueReport]:
    """Queues by name, of ``qstat -Q -f`` and ``pbsnodes -x``. Raises OutputError."""
    known = [_node(one) for one in elements(nodes, "Node", ("pbsnodes", "-x"))]
    try:
        return {name: _queue(name, found, known) for name, found in _queues(queues)}
    except ValueError as error:
        raise OutputError(("qstat", "-Q"), 0, str(error)) from error


def _queues(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Name and attributes of each queue. A long value continues on lines that begin with a tab, even within a word."""
    if text and not text.endswith("\n\n"):  # qstat prints an empty line after each queue
        raise OutputError(("qstat", "-Q"), 0, "the answer ends within a queue")
    name, found = "", dict[str, str]()
    for line in text.replace("\n\t", "").splitlines():
        attribute, equals, value = line.strip().partition(" = ")
        if line.startswith(_HEAD):
            if name:
                yield name, found
            name, found = line.removeprefix(_HEAD).strip(), {}
        elif line.strip() and (not name or not line.startswith("    ") or not attribute):
            raise OutputError(("qstat", "-Q"), 0, f"not an attribute of a queue: {line[:200]!r}")
        elif equals:
            found[attribute] = value
    if name:
        yield name, found


def _node(node: ET.Element) -> _Node:
    name, states = node.findtext("name") or "", (node.findtext("state") or "").split(",")
    status = dict(one.partition("=")[::2] for one in (node.findtext("status") or "").split(","))
    try:
        cores, gpus = figures.count(node.findtext("np") or ""), figures.count(node.findtext("gpus") or "")
        memory = figures.size(status.get("physmem", ""))
    except ValueError as error:
        raise OutputError(("pbsnodes", "-x"), 0, f"node {name[:100]}: {error}") from error
    if not name or cores is None:
        raise OutputError(("pbsnodes", "-x"), 0, f"not a node: {name[:100]!r}")
    properties = frozenset((node.findtext("properties") or "").split(","))
    works = not _BROKEN.intersection(states)
    return _Node(name, properties, works, cores, _taken(node.findtext("jobs") or ""), memory, gpus or 0)


def _taken(jobs: str) -> int:
    """The number of cores in ``0-1/7.vm,3/8.vm`` (6.x) or ``0/7.vm, 1/7.vm``."""
    taken = 0
    for first, last in re.findall(r"(?:^|,)\s*(\d{1,5})(?:-(\d{1,5}))?(?=[,/]|$)", jobs):
        taken += int(last) - int(first) + 1 if last else 1
    return taken


def _queue(name: str, found: Mapping[str, str], nodes: Iterable[_Node]) -> QueueReport:
    counts = {word: int(number) for word, number in _COUNTED.findall(found.get("state_count", ""))}
    enabled, started = found.get("enabled") == "True", found.get("started") == "True"
    wanted = frozenset(found.get("resources_default.neednodes", "").split(":")) - {""}
    own = [node for node in nodes if wanted <= node.properties]
    working = [node for node in own if node.works]
    queued_max, running_max = (figures.least(figures.count(found.get(key, "")) for key in keys) for keys in _LIMITS)
    routes = found.get("route_destinations", "") if found.get("queue_type") == "Route" else ""
    return QueueReport(
        name=name,
        enabled=enabled,
        started=started,
        reason=", ".join(f"{key} = False" for key, is_so in (("enabled", enabled), ("started", started)) if not is_so),
        destinations=tuple(one.strip() for one in routes.split(",") if one.strip()),
        walltime_max=figures.seconds(found.get("resources_max.walltime", "")),
        walltime_default=figures.seconds(found.get("resources_default.walltime", "")),
        nodes_max=figures.count(found.get("resources_max.nodect", "")),
        queued_max=queued_max,
        running_max=running_max,
        nodes=None if routes else len(working),
        free_nodes=None if routes else sum(not node.taken for node in working),
        cores_per_node=None if routes else figures.most(node.cores for node in own),
        memory_per_node=None if routes else figures.most(node.memory for node in own),
        gpus_per_node=None if routes else figures.most(node.gpus for node in own),
        free_cores=None if routes else sum(max(node.cores - node.taken, 0) for node in working),
        queued=counts.get("Queued", 0),
        running=counts.get("Running", 0) + counts.get("Exiting", 0),
        broken=() if routes else tuple(node.name for node in own if not node.works),
    )
