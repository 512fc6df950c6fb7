"""The metrics of sources: how often each became unusable, whether it is now, and which policy is in force.

Knows only prometheus-client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from router.startup.sources import Source


class Digested(Protocol):
    """The part of a policy source that is shown."""

    @property
    def digest(self) -> str:
        """The digest of the policy in force; empty while there is none."""


class PolicyCollector(Collector):
    """The digest of the policy in force, as a label: it is the same in all programs that go by one policy."""

    def __init__(self, policy: Digested) -> None:
        self._policy = policy

    def collect(self) -> Iterator[Metric]:
        """One sample, or none without a policy."""
        shown = GaugeMetricFamily("batchgate_policy_in_force", "The policy's digest; always 1.", labels=["digest"])
        if self._policy.digest:
            shown.add_metric([self._policy.digest], 1)
        yield shown


class SourceCollector(Collector):
    """Reads the sources at every scrape, so that no copy has to be updated."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        """Each source's failures so far, and whether it is unusable now."""
        failures = CounterMetricFamily(
            "batchgate_reload_failures", "How often a source became unusable, or so in another way.", labels=["source"]
        )
        broken = GaugeMetricFamily(
            "batchgate_source_broken", "1 while a source is unusable, 0 else.", labels=["source"]
        )
        for source in self._sources:
            failures.add_metric([source.name], source.failures)
            broken.add_metric([source.name], 1 if source.error else 0)
        yield failures
        yield broken
