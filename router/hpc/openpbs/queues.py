"""Parses OpenPBS' queues and vnodes (qstat -Qf and pbsnodes, in JSON) into the state of queues.

Pure. A queue with ``hasnodes`` has the vnodes that name it. Any other queue has the vnodes without a queue that match
the host-level strings of its ``default_chunk`` (``Qlist`` by custom). Vnodes of one host count as one node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from router.errors import OutputError
from router.hpc import QueueReport, figures

_COUNTED: Final = re.compile(r"(\w+):(\d+)")
_LIMIT: Final = re.compile(r"\[?([a-z]):([^=\[\]]+)=(\d{1,12})\]?")
_ONE_USERS: Final = {("u", "PBS_GENERIC"), ("o", "PBS_ALL")}
_WORKING: Final = frozenset({"free", "job-busy", "job-exclusive", "busy", "resv-exclusive", "sleep"})
_NUMBERS: Final = frozenset({"ncpus", "mem", "ngpus", "vmem", "mpiprocs", "walltime", "ompthreads", "nodect"})


@dataclass(slots=True)
class _Host:
    """One host of pbsnodes: the sum of its vnodes."""

    name: str
    queues: set[str] = field(default_factory=set)
    strings: dict[str, set[str]] = field(default_factory=dict)
    works: bool = True
    idle: bool = True
    cores: int = 0
    free: int = 0
    memory: int = 0
    gpus: int = 0


def queue_states(queues: str, nodes: str) -> dict[str, QueueReport]:
    """Queues by name, of ``qstat -Qf -F json`` and ``pbsnodes -av -F json``. Raises OutputError."""
    hosts = _hosts(_answer(nodes, "nodes", ("pbsnodes",)))
    try:
        return {
            name: _queue(name, attributes, hosts) for name, attributes in _answer(queues, "Queue", ("qstat",)).items()
        }
    except ValueError as error:
        raise OutputError(("qstat", "-Qf"), 0, str(error)) from error


def _answer(text: str, key: str, argv: Sequence[str]) -> dict[str, dict[str, Any]]:
    try:
        answer = json.loads(text, object_pairs_hook=_joined)
    except (ValueError, RecursionError) as error:
        raise OutputError(argv, 0, f"not JSON: {error}: {text[:200]!r}") from error
    found = answer.get(key, {}) if isinstance(answer, dict) else None
    if not isinstance(found, dict) or not isinstance(answer.get("pbs_server"), str):
        raise OutputError(argv, 0, f"not an answer of {argv[0]}: {text[:200]!r}")
    for name, attributes in found.items():
        if not isinstance(attributes, dict):
            raise OutputError(argv, 0, f"not a {key.lower()}: {name[:200]!r}")
    return found


def _joined(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Some versions write several limits of one kind as a repeated key: these are joined by commas."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        before = found.get(name)
        found[name] = f"{before},{value}" if isinstance(before, str) and isinstance(value, str) else value
    return found


def _hosts(nodes: Mapping[str, Mapping[str, Any]]) -> list[_Host]:
    hosts: dict[str, _Host] = {}
    for name, node in nodes.items():
        has = _group(node, "resources_available")
        known_as = has.get("host", name)
        host = hosts.setdefault(known_as, _Host(known_as))
        words = set(str(node.get("state", "")).replace(" ", "").split(","))
        taken = _group(node, "resources_assigned")
        try:
            cores, busy = figures.count(has.get("ncpus", "")) or 0, figures.count(taken.get("ncpus", "")) or 0
            host.memory += figures.size(has.get("mem", "")) or 0
            host.gpus += figures.count(has.get("ngpus", "")) or 0
        except ValueError as error:
            raise OutputError(("pbsnodes",), 0, f"node {name}: {error}") from error
        host.cores += cores
        host.works = host.works and words <= _WORKING
        host.idle = host.idle and words == {"free"} and not node.get("jobs") and not busy
        host.free += max(cores - busy, 0) if words == {"free"} else 0
        host.queues.update([str(node["queue"])] if node.get("queue") else [])
        for key, value in has.items():
            host.strings.setdefault(key, set()).update(value.split(","))
    return list(hosts.values())


def _group(attributes: Mapping[str, Any], name: str) -> dict[str, str]:
    found = attributes.get(name)
    if not isinstance(found, dict):
        return {}
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in found.items()}


def _queue(name: str, found: Mapping[str, Any], hosts: Iterable[_Host]) -> QueueReport:
    counts = {word: int(number) for word, number in _COUNTED.findall(str(found.get("state_count", "")))}
    highest, defaults = _group(found, "resources_max"), _group(found, "resources_default")
    enabled, started = found.get("enabled") == "True", found.get("started") == "True"
    routes = str(found.get("route_destinations", "")) if found.get("queue_type") == "Route" else ""
    state = QueueReport(
        name=name,
        enabled=enabled,
        started=started,
        reason=", ".join(f"{key} = False" for key, is_so in (("enabled", enabled), ("started", started)) if not is_so),
        destinations=tuple(one.strip() for one in routes.split(",") if one.strip()),
        walltime_max=figures.seconds(highest.get("walltime", "")),
        walltime_default=figures.seconds(defaults.get("walltime", "")),
        nodes_max=figures.count(highest.get("nodect", "")),
        queued_max=_limit(found, "max_queued", "max_queuable"),
        running_max=_limit(found, "max_run", "max_user_run", "max_running"),
        queued=counts.get("Queued", 0),
        running=counts.get("Running", 0) + counts.get("Exiting", 0) + counts.get("Begun", 0),
    )
    return state if state.destinations else _with_hosts(state, [host for host in hosts if _serves(host, name, found)])


def _serves(host: _Host, queue: str, found: Mapping[str, Any]) -> bool:
    if found.get("hasnodes") == "True" or host.queues:
        return queue in host.queues
    wanted = {key: value for key, value in _group(found, "default_chunk").items() if key not in _NUMBERS}
    return all(set(value.split(",")) & host.strings.get(key, set()) for key, value in wanted.items())


def _with_hosts(state: QueueReport, hosts: Sequence[_Host]) -> QueueReport:
    """The queue with the figures of its nodes."""
    working = [host for host in hosts if host.works]
    return replace(
        state,
        nodes=len(working),
        free_nodes=sum(host.idle for host in working),
        cores_per_node=figures.most(host.cores for host in hosts),
        memory_per_node=figures.most(host.memory or None for host in hosts),
        gpus_per_node=figures.most(host.gpus for host in hosts),
        free_cores=sum(host.free for host in working),
        broken=tuple(host.name for host in hosts if not host.works),
    )


def _limit(found: Mapping[str, Any], name: str, *simple: str) -> int | None:
    """The limit that stops one user first: that of any user, that of all users together, or an old plain number."""
    limits: list[int | None] = [
        int(number) for kind, who, number in _LIMIT.findall(str(found.get(name, ""))) if (kind, who) in _ONE_USERS
    ]
    limits += [figures.count(str(found.get(key, ""))) for key in simple]
    return figures.least(limits)
