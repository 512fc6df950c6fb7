"""The Jobs that are played: of a trace, or those that ``router.replay`` reads.

Pure. Chance is a number in: what is drawn follows from the seed and the Job alone, so two policies are compared with the
same times, and each repetition gives the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from router import names
from router.errors import InputError, JobError
from router.gate.judging import Gate, sized
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.policy.model import Policy
from router.replay.cases import EARLIER, UNDATED, Case, Skipped
from router.simulate.swf import LAST_MOMENT, Record
from router.values import unchanging
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.model import Workload

MOST_PODS: Final = 100_000
"""Of one Job."""

UNIFORM: Final = None
"""Running times that are drawn evenly between nothing and the walltime."""

_CANCELLED, _PARTS = 5, frozenset({2, 3, 4})
_NO_WALLTIME: Final = "ask for no walltime; --assume-walltime gives them one"
_IMAGE: Final = "trace"
_BYTES: Final = 8
_SPACE: Final = 256.0**_BYTES


@unchanging
class Job:
    """A Job that is played.

    :param arrival: seconds since 1970, or since the trace's beginning if that is unknown
    :param runtime: of each Pod, seconds; None to draw it
    :param walltime: what is drawn from: the walltime that it asks for, else the one assumed; seconds
    :param twin: how many Jobs of the same name and time come before it
    """

    case: Case
    arrival: float
    runtime: float | None
    walltime: float
    twin: int = 0


@unchanging
class Assumed:
    """What is taken for what Jobs leave out.

    :param walltime: seconds, for Jobs that ask for none; None to leave those out
    :param fraction: of the walltime that each Pod runs; ``UNIFORM`` to draw it
    """

    walltime: int | None = None
    fraction: float | None = UNIFORM


@unchanging
class Owner:
    """Whose Jobs those of a trace are; None for ``userN``, in the group ``groupN``, by the trace's numbers."""

    user: str | None = None
    groups: tuple[str, ...] = ()
    namespace: str = "default"


# --- Jobs of a log or of manifests ------------------------------------------------------------------------------


def of_case(case: Case, assumed: Assumed) -> Job | Skipped:
    """The Job of a log, a manifest or a cluster."""
    workload, arrival = case.workload, case.requester.time
    pods = pods_of(workload)
    walltime = workload.walltime_asked.value if workload.walltime_asked else assumed.walltime
    if arrival is None:
        why = UNDATED
    elif workload.suspended or not pods:
        why = "suspended, or without Pods"
    elif pods > MOST_PODS:
        why = f"have more than {MOST_PODS:,} Pods"
    elif walltime is None:
        why = _NO_WALLTIME
    else:
        return Job(case, arrival, None, walltime)
    return Skipped(why, f"{case.name} ({case.place})")


def pods_of(workload: Workload) -> int:
    """How many Pods a Job has in all: its completions, or as a work queue its parallelism."""
    return (workload.completions or workload.parallelism).value if workload.parallelism.value else 0


# --- Jobs of a trace --------------------------------------------------------------------------------------------


def of_trace(
    records: Iterable[Record], policy: Policy, owner: Owner, assumed: Assumed, since: float = 0.0
) -> Iterator[Job | Skipped]:
    """The jobs of a trace as Jobs: one Pod with a core for each processor, an MPI rank each if there are several.

    :param since: earlier ones are skipped
    """
    shapes: dict[tuple[int | None, float, int | None], Workload] = {}
    for record in records:
        why = EARLIER if record.submitted < since else _left_out(record, assumed)
        yield Skipped(why, record.place) if why else _of_record(record, policy, owner, assumed, shapes)


def _left_out(record: Record, assumed: Assumed) -> str:
    if record.status in _PARTS:
        return "parts of jobs that were stopped and went on"
    if record.status == _CANCELLED and not record.runtime:
        return "cancelled before they ran"
    if record.processors is None:
        return "name no processors"
    if record.walltime is None and assumed.walltime is None:
        return _NO_WALLTIME
    return ""


def _of_record(
    record: Record,
    policy: Policy,
    owner: Owner,
    assumed: Assumed,
    shapes: dict[tuple[int | None, float, int | None], Workload],
) -> Job | Skipped:
    """A Job. Those of one shape are sized once."""
    walltime = record.walltime if record.walltime is not None else assumed.walltime
    assert walltime is not None  # noqa: S101 - ``_left_out`` has asked
    user = owner.user or f"user{record.user if record.user is not None else ''}"
    groups = owner.groups or (() if record.group is None else (f"group{record.group}",))
    requester = Requester(user, groups, owner.namespace, None, record.submitted)
    shape = (record.processors, walltime, record.memory)
    if shape not in shapes:
        job = _manifest(record, max(1, round(walltime)), owner.namespace)
        try:
            shapes[shape] = sized(job, requester, Gate(policy, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 0))
        except JobError as error:
            return Skipped("invalid", f"{record.place}: {error}")
    workload = replace(shapes[shape], name=f"{record.number}")
    case = Case(f"{owner.namespace}/{record.number}", requester, workload, NO_QUEUE_STATES, record.place)
    return Job(case, record.submitted, record.runtime, walltime)


def _manifest(record: Record, walltime: int, namespace: str) -> dict[str, Any]:
    hints = {names.HINT_WALLTIME: f"{walltime}"}
    if record.processors and record.processors > 1:
        hints[names.HINT_RANKS] = f"{record.processors}"
    asked = {"cpu": f"{record.processors}"}
    if record.memory:
        asked["memory"] = f"{record.memory * (record.processors or 1)}Ki"
    container = {"name": "main", "image": _IMAGE, "command": ["run"], "resources": {"requests": asked}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{record.number}", "namespace": namespace, "annotations": hints},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


# --- both -------------------------------------------------------------------------------------------------------


def in_order(jobs: Iterable[Job], faster: float = 1.0) -> tuple[Job, ...]:
    """The Jobs by their arrival, each of which comes as many times as fast after the first one.

    Raises InputError if that puts one after the last moment that rules can read.
    """
    kept = sorted(jobs, key=lambda job: job.arrival)
    first = kept[0].arrival if kept else 0.0
    if kept and first + (kept[-1].arrival - first) / faster >= LAST_MOMENT:
        raise InputError(
            f"a Job comes after 9999-12-30 if Jobs come {faster:g} times as fast, and no rule can read such a time"
        )
    twins: Counter[tuple[str, float]] = Counter()
    found = []
    for job in kept:
        key = job.case.name, job.arrival
        found.append(replace(job, arrival=first + (job.arrival - first) / faster, twin=twins[key]))
        twins[key] += 1
    return tuple(found)


def runtime(job: Job, pod: int, assumed: Assumed, seed: int) -> float:
    """How long a Pod runs if nothing ends it, seconds.

    Drawn evenly up to the walltime, as measured by A. W. Mu'alem and D. G. Feitelson, IEEE TPDS 12(6), 2001: apart from
    peaks at both ends, users' estimates are as often far off as near.
    """
    if job.runtime is not None:
        return job.runtime
    if assumed.fraction is not UNIFORM:
        return assumed.fraction * job.walltime
    return drawn(seed, job.case.name, job.case.requester.time, job.twin, pod) * job.walltime


def drawn(seed: int, *what: object) -> float:
    """A number in (0, 1]: evenly spread, and always the same for the same words."""
    text = "\0".join([str(seed), *map(str, what)])
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:_BYTES], "big")
    return (number + 1) / _SPACE
