"""The metrics of sources: how often each became unusable, and whether it is now.

Knows only prometheus-client.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from router.startup.sources import Source


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
