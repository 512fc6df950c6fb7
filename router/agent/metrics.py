"""Defines the agent's metrics for Prometheus, on a registry of their own.

Knows prometheus-client and the vocabulary of the program. Names end in their unit. Labels have few values (states, kinds of commands and actions,
outcomes), and exclude Pods and users.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from router import __version__, names
from router.hpc import QueueReport
from router.startup.sourcemetrics import Digested, PolicyCollector, SourceCollector
from router.startup.sources import Source

Labels = TypeVar("Labels", bound=tuple[str, ...])

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SUBMITTED: Final = "submitted"
"""The outcome of a submission that gave a job; other outcomes are reasons of Pods."""
SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


class Figures(Protocol):
    """What is computed at every scrape. Pairs are queue and state, and queue and reason."""

    def jobs(self) -> Mapping[tuple[str, str], int]:
        """The number of Pods by queue and state of their job."""

    def stuck(self) -> Mapping[tuple[str, str], int]:
        """The number of stuck Pods by queue and reason."""

    def queues(self) -> Mapping[str, QueueReport]:
        """What the batch system says of each queue."""

    def ages(self) -> Mapping[str, float]:
        """Seconds since each watch gave a sign of life."""


class Metrics:
    """Every metric, one attribute each."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=SECONDS)
        self.commands = counter(
            "batchgate_agent_commands",
            "Commands of the batch system, by kind and outcome.",
            labelnames=("kind", "outcome"),
        )
        self.command_seconds = histogram(
            "batchgate_agent_command_seconds", "How long commands of the batch system took.", labelnames=("kind",)
        )
        self.steps = counter(
            "batchgate_agent_steps", "Steps for single Pods, by action and outcome.", labelnames=("action", "outcome")
        )
        self.submissions = counter(
            "batchgate_agent_submissions",
            "Submissions of Pods: submitted, or the reason why not.",
            labelnames=("outcome",),
        )
        self.cycle_seconds = histogram("batchgate_agent_cycle_seconds", "How long it took to look at the batch system.")
        self.submission_seconds = histogram(
            "batchgate_agent_submission_seconds", "From a Pod's creation to its job being queued."
        )
        self.report_seconds = histogram(
            "batchgate_agent_report_seconds", "From the end of a Pod's last container to its terminal status."
        )
        self.orphans = counter("batchgate_agent_orphans_reaped", "Jobs without a Pod that were deleted.")
        self.leading = gauge("batchgate_agent_leading", "1 while this agent is the one that acts, 0 else.")
        self.reachable = gauge("batchgate_agent_hpc_reachable", "1 while the batch system answers, 0 else.")
        self.wrong_output = counter("batchgate_agent_output_errors", "Answers of the batch system not understood.")
        self.credential_expiry = gauge(
            "batchgate_credential_expiry_timestamp_seconds",
            "When the token that this agent renews ends; 0 where it renews none.",
        )
        self._begin()
        self._show_build()

    def _begin(self) -> None:
        """Give values to metrics of what has yet to happen."""
        for outcome in (SUBMITTED, names.REASON_REFUSED, names.REASON_NOT_VERIFIED, names.REASON_WRONG_USER):
            self.submissions.labels(outcome)  # from 0 on, so that the first one is an increase
        self.reachable.set(math.nan)  # until it is asked: before, silence is no outage

    def _show_build(self) -> None:
        labels = ("version", "python")
        build = Gauge("batchgate_build_info", "What runs here; always 1.", labelnames=labels, registry=self.registry)
        build.labels(version=__version__, python=platform.python_version()).set(1)

    def show(self, figures: Figures) -> None:
        """From now on also show these figures."""
        self.registry.register(_Live(figures))

    def show_sources(self, sources: Sequence[Source], policy: Digested) -> None:
        """From now on also show how often each source became unusable, whether it is now, and the policy in force."""
        self.registry.register(SourceCollector(sources))
        self.registry.register(PolicyCollector(policy))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Live(Collector):
    """Metrics that are computed at every scrape, so that no copy has to be updated."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Jobs by queue and state, stuck Pods, the queues, and the watches' ages."""
        figures = self._figures
        yield _family("agent_jobs", "Pods of this site, by the state of their job.", ("queue", "state"), figures.jobs())
        yield _family("agent_stuck_pods", "Pods that are stuck, by reason.", ("queue", "reason"), figures.stuck())
        yield from _queues(figures.queues())
        ages = {(name,): age for name, age in figures.ages().items()}
        yield _family(
            "agent_informer_age_seconds", "Since a watch of the API server last gave a sign of life.", ("of",), ages
        )


def _queues(found: Mapping[str, QueueReport]) -> Iterator[Metric]:
    """The queues as the batch system shows them; unknown figures are left out."""
    opened = {(name,): float(one.enabled and one.started) for name, one in found.items()}
    yield _family("agent_queue_open", "1 while the queue takes and starts jobs, 0 else.", ("queue",), opened)
    nodes = {(name,): one.free_nodes for name, one in found.items()}
    yield _family("agent_queue_free_nodes", "Nodes of the queue without a job.", ("queue",), nodes)
    queued = {(name, "queued"): one.queued for name, one in found.items()}
    running = {(name, "running"): one.running for name, one in found.items()}
    yield _family("agent_queue_jobs", "Jobs of all users of the queue.", ("queue", "state"), queued | running)
    waits = {(name,): one.waited for name, one in found.items()}
    yield _family("agent_queue_wait_seconds", "The longest wait of a job in the queue.", ("queue",), waits)


def _family(name: str, words: str, labels: Sequence[str], values: Mapping[Labels, float | None]) -> GaugeMetricFamily:
    made = GaugeMetricFamily(f"batchgate_{name}", words, labels=labels)
    for key, value in sorted(values.items()):
        if value is not None:
            made.add_metric(key, value)
    return made


class Stopwatch:
    """Measures the seconds since its creation."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds from its creation until now."""
        return time.monotonic() - self._begun
