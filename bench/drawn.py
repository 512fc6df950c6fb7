"""The jobs of ``bench.study``: drawn by ``bench.lublin``, in seconds for hours, as manifests and as a model's Jobs.

Pure. Of the model's jobs those are taken that one node can hold, as a Pod is never on two, and of these the ones up to a size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from bench import lublin, whole
from router import names, policy
from router.gate.judging import Gate, sized
from router.policy.decision import NO_QUEUE_STATES, Requester
from router.replay.cases import Case
from router.simulate.capacity import pools
from router.simulate.jobs import Assumed, Job, in_order
from router.simulate.judging import Judge
from router.simulate.play import Run, World, play
from router.workload.cluster import UNKNOWN_CLUSTER

Json = dict[str, Any]
MEBIBYTES = 100
"""That each job asks for."""
MEMORY = f"{MEBIBYTES}Mi"
SPLIT = "split"
"""A label of Jobs whose small ones the policy keeps in the cloud."""
SMALL = 1
"""Cores of a small Job."""
SMALLEST = "50m"
"""What a small Job asks for: one core on HPC, as a batch job has whole ones. So the cloud, which has this machine's cores alone,
has room for many, which only sleep."""
START = 20
"""Seconds that a walltime has room for, above what the model asks for: a container starts and ends on a busy machine."""
MARGIN, GRACE = 5, 1
"""Of the site and of the Jobs: with these seconds the batch job's walltime is that of the job by hand."""
_MORE = 4
"""The model's jobs that are drawn for each one that is needed; about half of them need more than a node."""


@dataclass(frozen=True, slots=True)
class Task:
    """One job: when it comes and how long it runs, in seconds; cores; the minutes that it asks for."""

    number: int
    arrival: float
    seconds: float
    cores: int
    minutes: int


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with all that a policy says of it.

    :param documents: the policy's files
    :param user: who applies Jobs
    :param name: as ``site/queue``
    :param shared: a directory of its nodes that containers see under the same path
    """

    documents: Mapping[str, Any]
    user: str
    name: str
    nodes: int
    shared: str


def draw(count: int, load: float, seed: int, hour: float, *, cores: int, largest: int) -> list[Task]:
    """Jobs that ask for this part of the time of all cores.

    :param hour: seconds that stand for one hour of the model
    :param cores: of all nodes
    :param largest: cores of a job at most
    """
    found = [one for one in lublin.workload(count * _MORE, load, seed) if one.processors <= largest][:count]
    scale = hour / 3600
    lengths = [max(0.1, round(one.runtime * scale, 1)) for one in found]
    asked = sum(one.processors * length for one, length in zip(found, lengths, strict=True))
    stretch = asked / (cores * load) / (found[-1].arrival - found[0].arrival)
    return [
        Task(
            number,
            (one.arrival - found[0].arrival) * stretch,
            length,
            one.processors,
            math.ceil((one.walltime * scale + START) / 60),
        )
        for number, (one, length) in enumerate(zip(found, lengths, strict=True))
    ]


def words(task: Task, directory: str, number: str = "") -> str:
    """What a shell does in the job's container: note the machine's uptime, sleep, note it again.

    :param number: how the files begin; the task's own number if empty
    """
    place = f"{directory}/{number or task.number}"
    return f"cat /proc/uptime >>{place}.begun; sleep {task.seconds}; cat /proc/uptime >>{place}.ended"


def job_name(task: Task) -> str:
    """The name of the task's Job."""
    return f"task-{task.number}"


def manifest(task: Task, directory: str, shared: str, *, split: bool) -> Json:
    """The Job that a user applies.

    :param shared: a directory of the nodes that containers see under the same path
    :param split: whether small Jobs stay in the cloud
    """
    job = whole.job(job_name(task), words(task, directory), task.cores)
    job["metadata"]["annotations"] = {names.HINT_WALLTIME: f"{task.minutes * 60 - MARGIN - GRACE}"}
    job["metadata"]["labels"] = {SPLIT: "yes"} if split else {}
    spec = job["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = GRACE
    spec["volumes"] = [{"name": "shared", "hostPath": {"path": shared}}]
    container = spec["containers"][0]
    cpu = SMALLEST if task.cores == SMALL else f"{task.cores}"
    container["resources"] = {"requests": {"cpu": cpu, "memory": MEMORY}}
    container["volumeMounts"] = [{"name": "shared", "mountPath": shared}]
    return job


def rules(queue: str) -> list[Json]:
    """Of a policy by which everything goes to HPC but small Jobs with the label."""
    small = f"'{SPLIT}' in job.labels && job.cpus <= {SMALL}"
    return [
        {"name": "small", "when": small, "cloud": True},
        {"name": "rest", "when": "true", "hpc": [{"queue": queue}]},
    ]


def declared(nodes: int, cores: int) -> Json:
    """Of a queue in ``sites.yaml``: nodes whose memory bounds no job, as a core has room for what a job asks for.

    :param cores: of a node
    """
    return {"nodes": nodes, "cpusPerNode": cores, "memoryPerNode": f"{MEBIBYTES * cores}Mi"}


def played(tasks: Sequence[Task], queue: Queue, added: float, *, split: bool) -> tuple[Run, ...]:
    """The same Jobs under the same policy in the model of ``batchgate policy simulate``: what their containers do.

    In the cloud a small Job asks for less than the core that it has on HPC: all ways count that core.

    :param added: seconds for which a batch job holds its cores after its container's end
    """
    checked = policy.load({name: yaml.safe_dump(document) for name, document in queue.documents.items()})
    world = World(pools([f"{queue.name}={queue.nodes}"], [checked]), None, Assumed())
    jobs = [_job(task, checked, queue, added, split=split) for task in tasks]
    found = play(Judge(checked), in_order(jobs), world, 0)
    return tuple(replace(run, cores=tasks[run.job].cores, ended=run.ended - added) for run in found.runs)


def _job(task: Task, checked: policy.Policy, queue: Queue, added: float, *, split: bool) -> Job:
    name = job_name(task)
    requester = Requester(queue.user, (), whole.NAMESPACE, None, task.arrival)
    job = manifest(task, queue.shared, queue.shared, split=split)
    workload = sized(job, requester, Gate(checked, UNKNOWN_CLUSTER, NO_QUEUE_STATES, None, 0))
    case = Case(f"{whole.NAMESPACE}/{name}", requester, workload, NO_QUEUE_STATES, name)
    return Job(case, task.arrival, task.seconds + added, task.minutes * 60.0)
