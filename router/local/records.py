"""The embedded queue's values: its configuration, its jobs, and how both are written as JSON.

Pure. Memory is in bytes, times are in seconds (points in time since 1970). An invalid file raises a ConfigError that
names the problem.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router.errors import ConfigError
from router.local.resources import Chunk, size

QUEUED, HELD, RUNNING, SUSPENDED, EXITING, FINISHED = "Q", "H", "R", "S", "E", "F"
ACTIVE: Final = frozenset({RUNNING, SUSPENDED, EXITING})
"""States of a job that has processes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The most jobs that may be queued or running, of all users and of one user, and the most cores of one user's jobs.

    ``None`` is unlimited. OpenPBS has these limits on a queue and on the server (max_queued, max_queued_res.ncpus).
    """

    jobs: int | None = None
    user_jobs: int | None = None
    user_ncpus: int | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue and its own nodes, each with ``cpus_per_node`` slots, as declared, independent of the machine.

    ``host_per_node``: PBS_NODEFILE names each node instead of this machine.
    """

    name: str
    nodes: int
    cpus_per_node: int
    memory: int = 0
    gpus: int = 0
    walltime_max: int | None = None
    walltime_default: int | None = None
    site: str = "local"
    enabled: bool = True
    started: bool = True
    host_per_node: bool = False
    limits: Limits = Limits()


@dataclass(frozen=True, slots=True)
class Config:
    """A state directory's configuration. ``memory`` 0 is no limit; ``path`` is the jobs' PATH.

    ``kill_delay``: time between TERM and KILL. ``idle``: time without a running job or a request after which the daemon
    ends. ``history``: time for which finished jobs are kept. ``enforce_memory``: a job with more in memory than it
    asked for is killed. ``operators``: users who see and change the jobs of all users.
    """

    queues: tuple[Queue, ...]
    server: str = "local"
    kill_delay: float = 10
    idle: float = 300
    history: float = 14 * 24 * 3600
    path: str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    enforce_memory: bool = True
    operators: tuple[str, ...] = ()
    limits: Limits = Limits()

    def queue(self, name: str) -> Queue | None:
        """The queue of that name, or the first for an empty name; None for an unknown name."""
        for queue in self.queues:
            if name in {"", queue.name}:
                return queue
        return None


_QUEUE_KEYS: Final = {
    "name": "name",
    "nodes": "nodes",
    "cpusPerNode": "cpus_per_node",
    "memory": "memory",
    "gpus": "gpus",
    "walltimeMax": "walltime_max",
    "walltimeDefault": "walltime_default",
    "site": "site",
    "enabled": "enabled",
    "started": "started",
    "hostPerNode": "host_per_node",
}
_LIMIT_KEYS: Final = {"maxQueued": "jobs", "maxQueuedPerUser": "user_jobs", "maxQueuedCpusPerUser": "user_ncpus"}
_CONFIG_KEYS: Final = {
    "server": "server",
    "killDelay": "kill_delay",
    "idleSeconds": "idle",
    "historySeconds": "history",
    "path": "path",
    "enforceMemory": "enforce_memory",
    "operators": "operators",
}
_TEXT_KEYS: Final = frozenset({"name", "site", "server", "path"})
_SWITCHES: Final = frozenset({"enabled", "started", "hostPerNode", "enforceMemory"})
_PARTS_OF_SECONDS: Final = frozenset({"killDelay", "idleSeconds", "historySeconds"})


def config_of(document: object) -> Config:
    """A configuration from ``config.json``'s contents. Raises ConfigError with the problem."""
    if not isinstance(document, dict) or not isinstance(document.get("queues"), list) or not document["queues"]:
        raise ConfigError('no queues: write {"queues": [{"name": "workq", "nodes": 1, "cpusPerNode": 4}]}')
    queues = tuple(_queue(entry, f"queues[{index}]") for index, entry in enumerate(document["queues"]))
    names = [queue.name for queue in queues]
    if len(set(names)) < len(names):
        raise ConfigError(f"queues: a name occurs twice: {', '.join(names)}")
    rest = {key: value for key, value in document.items() if key != "queues"}
    return Config(queues, **_checked(rest, _CONFIG_KEYS, ""))


def _queue(entry: object, where: str) -> Queue:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: is not a mapping")
    values = dict(entry)
    if isinstance(values.get("memory"), str):
        try:
            values["memory"] = size(values["memory"])
        except ValueError as error:
            raise ConfigError(f"{where}.memory: {error}; write bytes, or 8gb") from error
    values = {key: value for key, value in values.items() if value is not None}
    for key in ("name", "nodes", "cpusPerNode"):
        if key not in values:
            raise ConfigError(f"{where}.{key}: is missing")
    return Queue(**_checked(values, _QUEUE_KEYS, f"{where}."))


def _checked(values: Mapping[str, Any], keys: Mapping[str, str], where: str) -> dict[str, Any]:
    """Values by attribute, those of ``Limits`` together."""
    limits: dict[str, int] = {}
    found: dict[str, Any] = {"limits": limits}
    for key, value in values.items():
        if key not in keys and key not in _LIMIT_KEYS:
            raise ConfigError(f"{where}{key}: is unknown; there are {', '.join((*keys, *_LIMIT_KEYS))}")
        if not _is_good(key, value):
            raise ConfigError(f"{where}{key}: cannot be {value!r}")
        if key in _LIMIT_KEYS:
            limits[_LIMIT_KEYS[key]] = value
        else:
            found[keys[key]] = tuple(value) if isinstance(value, list) else value
    return {**found, "limits": Limits(**limits)}


def _is_good(key: str, value: object) -> bool:
    if key == "operators":
        return isinstance(value, list) and all(isinstance(name, str) and name for name in value)
    if key in _TEXT_KEYS:
        plain = key == "path" or not re.search(r"[\s/]", str(value))
        return isinstance(value, str) and bool(value) and plain
    if key in _SWITCHES:
        return isinstance(value, bool)
    kinds = int | float if key in _PARTS_OF_SECONDS else int
    return isinstance(value, kinds) and not isinstance(value, bool) and value >= 0


def document_of(config: Config) -> dict[str, Any]:
    """A configuration as a document for ``config.json``."""
    document = _written(config, _CONFIG_KEYS)
    document["queues"] = [_written(queue, _QUEUE_KEYS) for queue in config.queues]
    return document


def _written(entry: Config | Queue, keys: Mapping[str, str]) -> dict[str, Any]:
    own = {key: getattr(entry, attribute) for key, attribute in keys.items()}
    limits = {key: getattr(entry.limits, attribute) for key, attribute in _LIMIT_KEYS.items()}
    return {key: value for key, value in (own | limits).items() if value is not None}


@dataclass(slots=True)
class Share:
    """A running job's share of one node of its queue: node and GPUs by number, memory in bytes."""

    node: int
    ncpus: int
    mpiprocs: int
    memory: int
    gpus: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """One job. Only the daemon changes it, and writes it to its file after each change.

    ``stopped``: since when it is suspended; ``away``: how many seconds earlier suspensions took; ``measured``: when
    ``used`` was, 0 for never. Times are in seconds since 1970.
    """

    seq: int
    server: str
    name: str
    owner: str
    host: str
    queue: str
    state: str
    substate: int
    chunks: list[Chunk]
    place: str
    walltime: int | None
    listed: dict[str, str]
    options: dict[str, str]
    attributes: dict[str, str]
    variables: dict[str, str]
    origin: dict[str, str]
    arguments: str
    output: str
    error: str
    created: float
    modified: float
    held: bool = False
    comment: str = ""
    shares: list[Share] = field(default_factory=list)
    started: float | None = None
    ended: float | None = None
    exit_status: int | None = None
    stageout: int | None = None
    used: dict[str, str] = field(default_factory=dict)
    measured: float = 0.0
    stopped: float | None = None
    away: float = 0.0
    run_count: int = 0
    session: int | None = None
    shepherd: list[int] = field(default_factory=list)
    signals: list[int] = field(default_factory=list)
    deleted_by: str = ""
    forced: bool = False
    purge: bool = False
    kill_at: float | None = None
    token: str = ""

    @property
    def job_id(self) -> str:
        """``<seq>.<server>``."""
        return f"{self.seq}.{self.server}"

    @property
    def ncpus(self) -> int:
        """Cores of the whole job."""
        return sum(chunk.count * chunk.ncpus for chunk in self.chunks)


def job_of(document: Mapping[str, Any]) -> Job:
    """A job from its file's contents. Raises ConfigError for an invalid record."""
    try:
        chunks = [Chunk(**chunk) for chunk in document["chunks"]]
        shares = [Share(**share) for share in document["shares"]]
        return Job(**{**document, "chunks": chunks, "shares": shares})
    except (TypeError, KeyError) as error:
        raise ConfigError(f"not the record of a job: {error}") from error


def record_of(job: Job) -> dict[str, Any]:
    """A job as a document for its file."""
    return dataclasses.asdict(job)
