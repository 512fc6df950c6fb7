"""Gives the kubelet API the agent's Pods, from memory.

Shell only in ``pods``, which asks the API server. ``router.kubelet.source.LogSource`` is the interface.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from router import names
from router.agent.files.entering import Entrance
from router.agent.files.usage import NotedUsage
from router.agent.records import Record, Records, SiteRecords
from router.host import Host
from router.hpc import JobReport
from router.kube.client import Api
from router.kubelet.figures import ContainerUsage, NodeUsage, PodUsage, Usage
from router.kubelet.runs import LoggedContainer, LoggedPod, RunState
from router.pod.life import Life
from router.pod.status import ContainerStatus, Running, Terminated, Waiting
from router.reconcile.following import followed

STALE_SECONDS: Final = 600.0
"""A job whose figures stay the same for so long is idle, where the batch system does not tell when it measured."""
LEAST_SECONDS: Final = 0.001
"""In place of no CPU time, which is less than a second: metrics-server leaves out a container with 0."""
_CLOCK: Final = re.compile(r"([0-9]{1,9}):([0-9]{2}):([0-9]{2})")
_STATES: Final = {Running: RunState.RUNNING, Terminated: RunState.TERMINATED, Waiting: RunState.WAITING}


class Logged:
    """See ``router.kubelet.source.LogSource``.

    :param host_of: takes a Pod's uid; returns the host with the Pod's files
    :param entrance: the way into running containers
    """

    def __init__(
        self,
        api: Api,
        host_of: Callable[[str], Host],
        records: Records | SiteRecords,
        site: str,
        entrance: Entrance,
    ) -> None:
        self._api = api
        self.enter, self.allow = entrance.enter, entrance.allow
        self._host_of = host_of
        self._records = records
        self._site = site
        self._began = time.time()
        self._measured: dict[str, PodUsage] = {}
        self._noted = NotedUsage(host_of)

    def pod(self, namespace: str, name: str) -> LoggedPod | None:
        """A Pod of this site, also if it was just deleted; else None."""
        record = self._records.named(namespace, name)
        return None if record is None or not record.facts.pod.name else logged(record)

    def files(self, pod: LoggedPod) -> Host:
        """The host with the Pod's logs, which reads them as the Pod's HPC user."""
        return self._host_of(pod.uid)

    def pods(self, node: str) -> Sequence[Mapping[str, Any]]:
        """The Pods of a Node in full, from the API server; for an empty ``node`` all routed ones. Raises ApiError.

        The Pods of a Node include unrouted ones, like those of DaemonSets: a kubelet shows all Pods bound to its Node.
        """
        query: dict[str, Any] = {"labelSelector": f"{names.KEY_SITE}={self._site}"}
        if node:
            query = {"fieldSelector": f"spec.nodeName={node}"}
        return [pod for page, _ in self._api.pages("/api/v1/pods", **query) for pod in page]

    def usage(self, node: str) -> NodeUsage:
        """The resources that running jobs use: by the batch system's reports, else by what their scripts note.

        The batch system is asked about running jobs again while somebody asks here.
        """
        self._records.usage_asked = time.monotonic()
        every = {one.uid: one for one in self._records.all()}
        running = [one for one in every.values() if one.facts.pod.node == node or not node]
        found = [usage for one in running if (usage := usage_of(one)) is not None]
        pods = tuple(measured(self._measured.get(one.uid), one) for one in found)
        kept = {uid: one for uid, one in self._measured.items() if uid in every}
        self._measured = kept | {one.uid: one for one in pods}
        noted = self._noted.of([every[one.uid] for one in pods if one.usage is None], every)
        return NodeUsage(
            node, self._began, tuple(with_usage(one, noted[one.uid]) if one.uid in noted else one for one in pods)
        )


def logged(record: Record) -> LoggedPod:
    """The values of a Pod that the log server needs."""
    facts = record.facts
    pod, status = facts.pod, facts.pod.status
    found = {one.name: one for one in (*status.init_containers, *status.containers)}
    return LoggedPod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        node=pod.node,
        directory=record.directory,
        containers=tuple(_container(one.name, found.get(one.name), facts.life) for one in pod.containers),
    )


def _container(name: str, status: ContainerStatus | None, life: Life) -> LoggedContainer:
    """A container with the state of its status, so that kubectl sees both alike, and the run that its files show."""
    run = life.run(name)
    number = run.restart if run else None
    size = run.exit.log if run is not None and run.exit is not None else 0
    if status is None:
        return LoggedContainer(name, RunState.WAITING, number, names.REASON_CREATING, size)
    if number is None and (isinstance(status.state, Running | Terminated) or status.restarts):
        number = status.restarts  # at the Pod's end its notes were removed
    reason = status.state.reason if isinstance(status.state, Waiting) else ""
    return LoggedContainer(name, _STATES[type(status.state)], number, reason, size)


def usage_of(record: Record) -> PodUsage | None:
    """The resources that a running Pod's job uses; None unless the Pod runs."""
    pod = record.facts.pod
    started = pod.status.started
    if started is None or pod.status.terminal or not pod.name:
        return None
    job = followed(record.facts)
    usage = _usage(job.report, job.heard or time.time()) if job is not None and job.report is not None else None
    containers = tuple(
        ContainerUsage(one.name, one.state.started) for one in pod.status.containers if isinstance(one.state, Running)
    )
    found = PodUsage(pod.namespace, pod.name, pod.uid, started, alone=len(pod.containers) == 1, containers=containers)
    return found if usage is None else with_usage(found, usage)


def with_usage(pod: PodUsage, usage: Usage) -> PodUsage:
    """A Pod with its job's usage, which is also that of its container if it has no other."""
    containers = tuple(replace(one, usage=usage) for one in pod.containers) if pod.alone else pod.containers
    return replace(pod, usage=usage, containers=containers)


def measured(before: PodUsage | None, now: PodUsage) -> PodUsage:
    """The usage with the time at which its figures were first seen.

    A batch system measures every minute or two. With a new time for old figures, whoever computes cores from two answers
    would find none in between.
    """
    known, usage = before.usage if before else None, now.usage
    if known is None or usage is None or usage.at - known.at > STALE_SECONDS or replace(known, at=usage.at) != usage:
        return now
    containers = tuple(replace(one, usage=known) if one.usage is not None else one for one in now.containers)
    return replace(now, usage=known, containers=containers)


def _usage(report: JobReport, heard: float) -> Usage | None:
    """The usage in OpenPBS' ``resources_used``: ``cput`` and ``walltime`` (H:M:S), and ``mem`` (kb).

    Processes have some memory. A job of 0 kb is one whose processes are not counted, as pbs_mom without cgroups leaves out
    those of containers.
    """
    cpu, memory = _duration(report.used.get("cput", "")), report.used.get("mem", "").removesuffix("kb")
    kib = int(memory) if memory.isdigit() else 0
    if cpu is None and not kib:
        return None
    walltime = report.used.get("walltime", "")
    cpu = None if cpu is None else cpu or LEAST_SECONDS
    return Usage(_moment(report, walltime, heard), cpu, kib * 1024 or None, walltime)


def _moment(report: JobReport, walltime: str, heard: float) -> float:
    """When it was measured: the job's start and its walltime by then, or else when it was heard.

    The latter is too late by up to a cycle, which is much of the time between two measurements. The former is too early
    by the time for which a job was suspended.
    """
    ran = _duration(walltime)
    if ran is None or report.started is None:
        return heard
    moment = report.started.timestamp() + ran
    return moment if heard - STALE_SECONDS < moment <= heard else heard


def _duration(text: str) -> float | None:
    """Seconds; None for other words. Unlike the durations that people write it may be 0, and a century."""
    match = _CLOCK.fullmatch(text)
    return None if match is None else float(int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3]))
