"""Defines the variables of rules: their names, types and meaning, and their values for one Job.

Pure. There is one table for ``job.*``, ``request.*`` and ``queues['q'].*``. It defines the types that conditions are
checked against, the messages that they read, the page for admins (a test compares it) and the words of ``explain``. A
figure that the Job does not ask for is unset: it reads 0, and ``has()`` is false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from router.notation import durations, quantity
from router.policy.decision import QueueState, Requester
from router.site.schema import Queue
from router.workload.model import ContainerKind, Figure, Workload

PACKAGE: Final = "batchgate"
Kind = Literal["int", "bytes", "seconds", "bool", "maybe", "text", "texts", "labels", "time"]
"""``maybe`` is a bool that may be unset. ``bytes`` and ``seconds`` are int, shown to people with their units. ``time`` is
seconds since 1970, and a timestamp in CEL."""


@dataclass(frozen=True, slots=True)
class Variable:
    """One field.

    :param read: takes the Workload, Requester or QueueNow of the message and returns the value; None for unset
    :param unset: says when the field has no value, if this differs from the value 0; else empty
    """

    name: str
    kind: Kind
    meaning: str
    read: Callable[[Any], Any]
    unset: str = ""


@dataclass(frozen=True, slots=True)
class QueueNow:
    """A queue as declared, its current state, and the time zone of its site."""

    queue: Queue
    state: QueueState | None
    time_zone: str


def pods_at_once(workload: Workload) -> int:
    """How many Pods of the Job run at the same time, if all can: parallelism, or completions if that is less."""
    if workload.completions is None:
        return workload.parallelism.value
    return min(workload.parallelism.value, workload.completions.value)


def _value(figure: Figure | None) -> int | None:
    return None if figure is None else figure.value


def _total(figure: Figure | None, workload: Workload) -> int | None:
    return None if figure is None else figure.value * pods_at_once(workload)


def _cores(millis: int | None) -> int | None:
    return None if millis is None else -(-millis // 1000)


def _names(workload: Workload, kinds: tuple[ContainerKind, ...]) -> list[str]:
    return [container.name for container in workload.containers if container.kind in kinds]


_BEFORE: Final = (ContainerKind.INIT, ContainerKind.SIDECAR)

_NO_CPUS: Final = "the Job asks for no CPUs"
_NO_MEMORY: Final = "the Job asks for no memory"
_NO_RANKS: Final = "the Job does not say how many ranks"
_NO_STATE: Final = "nothing is known of the queue"
_NO_LIMIT: Final = "the policy declares no such limit"

JOB: Final = (
    Variable(
        "name",
        "text",
        "Name of the Job; where the API server generates it, what the name begins with.",
        lambda w: w.name,
    ),
    Variable("labels", "labels", "Labels of the Job.", lambda w: w.labels),
    Variable(
        "cpus",
        "int",
        "Cores of one Pod, rounded up: its requests, or as the rule's `figures` says.",
        lambda w: _cores(_value(w.cpu)),
        _NO_CPUS,
    ),
    Variable(
        "totalCpus", "int", "Cores of all Pods at once, rounded up.", lambda w: _cores(_total(w.cpu, w)), _NO_CPUS
    ),
    Variable(
        "memory",
        "bytes",
        "Memory of one Pod, bytes: its limits, or as the rule's `figures` says.",
        lambda w: _value(w.memory),
        _NO_MEMORY,
    ),
    Variable("totalMemory", "bytes", "Memory of all Pods at once, bytes.", lambda w: _total(w.memory, w), _NO_MEMORY),
    Variable("ephemeralStorage", "bytes", "Local disk of one Pod, bytes.", lambda w: _value(w.ephemeral_storage)),
    Variable("gpus", "int", "GPUs of one Pod.", lambda w: _value(w.gpus)),
    Variable("totalGpus", "int", "GPUs of all Pods at once.", lambda w: _total(w.gpus, w)),
    Variable("gpuVendor", "text", "nvidia or amd; empty without GPUs.", lambda w: w.gpu_vendor or ""),
    Variable(
        "walltime",
        "seconds",
        "Walltime asked for, by hint or deadline, seconds.",
        lambda w: _value(w.walltime_asked),
        "the Job asks for no walltime",
    ),
    Variable("mpi", "bool", "Whether it is an MPI Job: by launcher, hint or (see sites) image.", lambda w: bool(w.mpi)),
    Variable("ranks", "int", "MPI ranks asked for, by hint or launcher.", lambda w: _value(w.ranks), _NO_RANKS),
    Variable("ranksPerNode", "int", "MPI ranks on one node asked for.", lambda w: _value(w.ranks_per_node), _NO_RANKS),
    Variable("nodes", "int", "Nodes asked for by hint.", lambda w: _value(w.nodes), "no hint asks for nodes"),
    Variable("parallelism", "int", "Pods that may run at the same time.", lambda w: w.parallelism.value),
    Variable(
        "completions",
        "int",
        "Pods that must succeed; unset for work queues.",
        lambda w: _value(w.completions),
        "the Job is a work queue",
    ),
    Variable("pods", "int", "Pods at once: parallelism, or completions if that is less.", pods_at_once),
    Variable("indexed", "bool", "Whether completionMode is Indexed.", lambda w: w.indexed),
    Variable("suspended", "bool", "Whether the Job is suspended.", lambda w: w.suspended),
    Variable("restartPolicy", "text", "Never or OnFailure.", lambda w: w.restart_policy),
    Variable("images", "texts", "Images of all containers, as written.", lambda w: [c.image for c in w.containers]),
    Variable("containers", "texts", "Names of the containers.", lambda w: _names(w, (ContainerKind.MAIN,))),
    Variable("initContainers", "texts", "Names of init containers and sidecars.", lambda w: _names(w, _BEFORE)),
    Variable(
        "volumes", "texts", "Kinds of the volumes: emptyDir, hostPath, …", lambda w: sorted({v.kind for v in w.volumes})
    ),
    Variable("serviceAccount", "text", "Service account of the Pods.", lambda w: w.account.name),
    Variable("route", "text", "The hint route: cloud, hpc or empty.", lambda w: w.route),
    Variable("kueueQueue", "text", "Kueue's LocalQueue; empty without one.", lambda w: w.kueue_queue),
)

REQUEST: Final = (
    Variable("user", "text", "Who asks, as the API server knows them.", lambda r: r.user),
    Variable("groups", "texts", "The groups of who asks.", lambda r: r.groups),
    Variable("namespace", "text", "Namespace of the Job.", lambda r: r.namespace),
    Variable(
        "namespaceLabels",
        "labels",
        "Labels of the namespace; empty if unknown.",
        lambda r: r.namespace_labels or {},
    ),
    Variable("time", "time", "When the Job was created; the webhook's clock, to a second.", lambda r: r.time),
)


def _now(field: str) -> Callable[[QueueNow], Any]:
    return lambda now: None if now.state is None else getattr(now.state, field)


LIVE: Final = (
    Variable("up", "maybe", "Whether the queue takes and starts jobs.", _now("up"), _NO_STATE),
    Variable("freeNodes", "int", "Nodes that are idle now.", _now("free_nodes"), _NO_STATE),
    Variable("queuedJobs", "int", "Jobs that wait.", _now("queued_jobs"), _NO_STATE),
    Variable("runningJobs", "int", "Jobs that run.", _now("running_jobs"), _NO_STATE),
    Variable(
        "waitSeconds",
        "seconds",
        "How long the longest-waiting job has waited for its turn, seconds; 0 if none waits. On Slurm this counts all users' jobs, elsewhere only those of this cluster.",
        _now("wait_seconds"),
        _NO_STATE,
    ),
)
"""The fields that tell the current state of a queue."""
QUEUE: Final = (
    *LIVE,
    Variable("nodes", "int", "Nodes that one job may use, as declared.", lambda n: n.queue.nodes),
    Variable("cpusPerNode", "int", "Cores of a node, as declared.", lambda n: n.queue.cpus_per_node),
    Variable(
        "memoryPerNode", "bytes", "Memory of a node, as declared, bytes.", lambda n: n.queue.memory_per_node, _NO_LIMIT
    ),
    Variable("gpusPerNode", "int", "GPUs of a node, as declared.", lambda n: n.queue.gpus_per_node),
    Variable(
        "walltimeMax", "seconds", "Longest walltime, as declared, seconds.", lambda n: n.queue.walltime_max, _NO_LIMIT
    ),
    Variable("timeZone", "text", "Time zone of its site, as declared; else UTC.", lambda n: n.time_zone),
)

MESSAGES: Final[Mapping[str, tuple[Variable, ...]]] = {"Job": JOB, "Request": REQUEST, "Queue": QUEUE}
ROOTS: Final[Mapping[str, tuple[Variable, ...]]] = {"job": JOB, "request": REQUEST, "queues": QUEUE}

_FIELD = descriptor_pb2.FieldDescriptorProto
_WIRE: Final = {
    "int": _FIELD.TYPE_INT64,
    "bytes": _FIELD.TYPE_INT64,
    "seconds": _FIELD.TYPE_INT64,
    "bool": _FIELD.TYPE_BOOL,
    "maybe": _FIELD.TYPE_BOOL,
    "text": _FIELD.TYPE_STRING,
    "texts": _FIELD.TYPE_STRING,
}
_OPTIONAL: Final = frozenset({"int", "bytes", "seconds", "maybe"})
_INT64_MAX: Final = 2**63 - 1


@lru_cache(maxsize=1)
def pool() -> Any:
    """The protobuf types of all messages, in a separate pool."""
    file = descriptor_pb2.FileDescriptorProto(
        name="batchgate.proto", package=PACKAGE, syntax="proto3", dependency=[timestamp_pb2.DESCRIPTOR.name]
    )
    for name, variables in MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, variable in enumerate(variables, start=1):
            _add_field(message, number, variable)
    made = descriptor_pool.DescriptorPool()
    made.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    made.Add(file)
    return made


def _add_field(message: Any, number: int, variable: Variable) -> None:
    if variable.kind == "labels":
        entry_name = variable.name[0].upper() + variable.name[1:] + "Entry"
        entry = message.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        for position, key in enumerate(("key", "value"), start=1):
            entry.field.add(name=key, number=position, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
        kind = f".{PACKAGE}.{message.name}.{entry_name}"
        label = _FIELD.LABEL_REPEATED
        message.field.add(name=variable.name, number=number, type=_FIELD.TYPE_MESSAGE, label=label, type_name=kind)
        return
    if variable.kind == "time":
        kind, label = f".{timestamp_pb2.Timestamp.DESCRIPTOR.full_name}", _FIELD.LABEL_OPTIONAL
        message.field.add(name=variable.name, number=number, type=_FIELD.TYPE_MESSAGE, label=label, type_name=kind)
        return
    label = _FIELD.LABEL_REPEATED if variable.kind == "texts" else _FIELD.LABEL_OPTIONAL
    field = message.field.add(name=variable.name, number=number, type=_WIRE[variable.kind], label=label)
    if variable.kind in _OPTIONAL:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{variable.name}")


@lru_cache(maxsize=8)
def _class(name: str) -> Any:
    return message_factory.GetMessageClass(pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


def job_message(workload: Workload, fields: tuple[Variable, ...] = JOB) -> Any:
    """The message ``job``, with values only for ``fields``."""
    return _message("Job", fields, workload)


def request_message(requester: Requester, fields: tuple[Variable, ...] = REQUEST) -> Any:
    """The message ``request``, with values only for ``fields``."""
    return _message("Request", fields, requester)


def queue_message(now: QueueNow) -> Any:
    """The message for one value of ``queues``."""
    return _message("Queue", QUEUE, now)


def _message(name: str, variables: tuple[Variable, ...], about: object) -> Any:
    fields = {}
    for variable in variables:
        value = variable.read(about)
        if value is not None and value != "":
            fields[variable.name] = _wire(variable, value)
    return filled(name, fields)


def filled(name: str, fields: Mapping[str, Any]) -> Any:
    """A message with the given values; all other fields are unset."""
    try:
        return _class(name)(**fields)
    except UnicodeEncodeError:
        return _class(name)(**{field: _whole_characters(value) for field, value in fields.items()})


def _wire(variable: Variable, value: Any) -> Any:
    """A value in the form that its field takes."""
    if variable.kind == "time":
        return {"seconds": int(value)}
    # A Pod may ask for 2^63-1 bytes; the sum over all Pods of a Job may then be more than CEL can hold.
    return min(value, _INT64_MAX) if isinstance(value, int) else value


def _whole_characters(value: Any) -> Any:
    """The value with a question mark for each lone surrogate, which JSON can spell but UTF-8 cannot."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_whole_characters(key): _whole_characters(item) for key, item in value.items()}
    return [_whole_characters(item) for item in value] if isinstance(value, list | tuple) else value


def show(variable: Variable, value: object) -> str:
    """A value for people: with its unit, ``unset`` for None."""
    if value is None:
        return "unset"
    if variable.kind == "bytes" and isinstance(value, int):
        return f"{value} ({quantity.show_bytes(value)})" if value >= 1024 else str(value)
    if variable.kind == "seconds" and isinstance(value, int):
        return f"{value} ({durations.show(value)})"
    if variable.kind == "time" and isinstance(value, int | float):
        return durations.show_moment(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {item}" for key, item in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return str(list(value))
    return repr(value) if isinstance(value, str) else str(value)
