"""Defines the agent's metrics for Prometheus, on a registry of their own.

Knows only prometheus-client. Names end in their unit. Labels have few values (states, kinds of commands and actions,
outcomes), and exclude Pods and users.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from router import __version__
from router.startup.sourcemetrics import Digested, PolicyCollector, SourceCollector
from router.startup.sources import Source

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SECONDS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0)


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
        build = gauge("batchgate_build_info", "What runs here; always 1.", labelnames=("version", "python"))
        build.labels(version=__version__, python=platform.python_version()).set(1)

    def show(self, jobs: Callable[[], Mapping[str, int]], ages: Callable[[], Mapping[str, float]]) -> None:
        """From now on also show jobs by state, and the seconds since each watch gave a sign of life."""
        self.registry.register(_Live(jobs, ages))

    def show_sources(self, sources: Sequence[Source], policy: Digested) -> None:
        """From now on also show how often each source became unusable, whether it is now, and the policy in force."""
        self.registry.register(SourceCollector(sources))
        self.registry.register(PolicyCollector(policy))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Live(Collector):
    """Metrics that are computed at every scrape, so that no copy has to be updated."""

    def __init__(self, jobs: Callable[[], Mapping[str, int]], ages: Callable[[], Mapping[str, float]]) -> None:
        self._jobs = jobs
        self._ages = ages

    def collect(self) -> Iterator[Metric]:
        """Jobs by state and the watches' ages."""
        jobs = GaugeMetricFamily(
            "batchgate_agent_jobs", "Pods of this site, by the state of their job.", labels=["state"]
        )
        for state, count in sorted(self._jobs().items()):
            jobs.add_metric([state], count)
        yield jobs
        ages = GaugeMetricFamily(
            "batchgate_agent_informer_age_seconds",
            "Since a watch of the API server last gave a sign of life.",
            labels=["of"],
        )
        for name, age in sorted(self._ages().items()):
            ages.add_metric([name], age)
        yield ages


class Stopwatch:
    """Measures the seconds since its creation."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds from its creation until now."""
        return time.monotonic() - self._begun
