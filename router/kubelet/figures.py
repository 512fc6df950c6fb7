"""Formats the resource usage of Pods for ``/stats/summary`` and ``/metrics/resource``.

Pure. Unknown figures are left out; they are never estimated or split among containers.
The formats are the kubelet's (``k8s.io/kubelet/pkg/apis/stats/v1alpha1`` and its resource metrics).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage at one moment.

    :param at: seconds since 1970, when the batch system measured it
    :param cpu_seconds: of all cores since the start; None where unknown
    :param memory_bytes: in use; None where unknown
    :param sample: which measurement of the batch system this is, in its words; empty where it tells none
    """

    at: float
    cpu_seconds: float | None = None
    memory_bytes: int | None = None
    sample: str = ""


@dataclass(frozen=True, slots=True)
class ContainerUsage:
    """A running container. A batch system measures jobs, so only a Pod's single container has figures."""

    name: str
    started: float
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A running Pod with its batch job's usage. Times are in seconds since 1970.

    :param alone: whether it has one container, whose usage the job's is
    """

    namespace: str
    name: str
    uid: str
    started: float
    usage: Usage | None = None
    containers: tuple[ContainerUsage, ...] = ()
    alone: bool = False


@dataclass(frozen=True, slots=True)
class NodeUsage:
    """A virtual node and the Pods that run on it. What the queue's machines use nobody tells."""

    name: str
    started: float
    pods: tuple[PodUsage, ...] = ()


def summary(node: NodeUsage) -> dict[str, Any]:
    """The body of ``/stats/summary``."""
    return {
        "node": {"nodeName": node.name, "startTime": _time(node.started)},
        "pods": [_pod(pod) for pod in node.pods],
    }


def resource_metrics(node: NodeUsage) -> bytes:
    """The body of ``/metrics/resource``, in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Resources(node))
    return generate_latest(registry)


def _pod(pod: PodUsage) -> dict[str, Any]:
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": _time(pod.started),
        "containers": [
            {"name": container.name, "startTime": _time(container.started), **_stats(container.usage)}
            for container in pod.containers
        ],
        **_stats(pod.usage),
    }


def _stats(usage: Usage | None) -> dict[str, Any]:
    stats: dict[str, Any] = {}
    if usage is not None and usage.cpu_seconds is not None:
        stats["cpu"] = {"time": _time(usage.at), "usageCoreNanoSeconds": round(usage.cpu_seconds * 1e9)}
    if usage is not None and usage.memory_bytes is not None:
        stats["memory"] = {"time": _time(usage.at), "workingSetBytes": usage.memory_bytes}
    return stats


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"


@dataclass(frozen=True, slots=True)
class _Resources(Collector):
    node: NodeUsage

    def collect(self) -> Iterator[Metric]:
        """The families that a kubelet has, those without a value left out."""
        pods = self.node.pods
        yield from _families("node", [], [])
        yield from _families("pod", ["pod", "namespace"], [((pod.name, pod.namespace), pod.usage) for pod in pods])
        labels = ["container", "pod", "namespace"]
        containers = [
            ((container.name, pod.name, pod.namespace), pod, container) for pod in pods for container in pod.containers
        ]
        yield from _families("container", labels, [(names, one.usage) for names, _, one in containers])
        started = GaugeMetricFamily(
            "container_start_time_seconds", "Start time of the container since unix epoch in seconds", labels=labels
        )
        for names, pod, container in containers:
            # CPU time that is the job's counts from the job's start. With that of a container which runs again,
            # metrics-server takes all of it for that run's, and shows hundreds of cores.
            started.add_metric(names, container.started if container.usage is None else pod.started)
        yield started
        yield GaugeMetricFamily(
            "resource_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", value=0
        )


def _families(noun: str, labels: list[str], usages: Iterable[tuple[tuple[str, ...], Usage | None]]) -> Iterator[Metric]:
    cpu = CounterMetricFamily(
        f"{noun}_cpu_usage_seconds", f"Cumulative cpu time consumed by the {noun} in core-seconds", labels=labels
    )
    memory = GaugeMetricFamily(
        f"{noun}_memory_working_set_bytes", f"Current working set of the {noun} in bytes", labels=labels
    )
    for names, usage in usages:
        if usage is not None and usage.cpu_seconds is not None:
            cpu.add_metric(names, usage.cpu_seconds, timestamp=usage.at)
        if usage is not None and usage.memory_bytes is not None:
            memory.add_metric(names, usage.memory_bytes, timestamp=usage.at)
    yield cpu
    yield memory
