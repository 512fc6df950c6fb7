"""The webhook's metrics for Prometheus, in a registry of their own.

Depends only on prometheus-client. Names end in their unit. Labels have few values: targets, rules of the policy, names
of sources, HTTP codes; never a user or a Job.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.process_collector import ProcessCollector

from router import __version__
from router.startup.sourcemetrics import Digested, PolicyCollector, SourceCollector
from router.startup.sources import Source

# From a quarter of the usual time of an answer to the API server's timeout.
SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST


class Metrics:
    """Every metric, one attribute each."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.decisions = counter(
            "batchgate_decisions", "Decisions, by target and rule.", labelnames=("target", "rule", "dry_run")
        )
        self.audits = counter("batchgate_audit_matches", "Audit rules that held.", labelnames=("rule",))
        self.seconds = Histogram(
            "batchgate_review_seconds",
            "From a review's last byte to the answer's first.",
            buckets=SECONDS,
            registry=self.registry,
        )
        self.in_flight = gauge("batchgate_reviews_in_flight", "Reviews that are being worked on.")
        self.over_budget = counter(
            "batchgate_reviews_over_budget", "Reviews that took more CPU time than they may, and were denied."
        )
        self.not_logged = counter("batchgate_decisions_not_logged", "Decisions that the decision log lacks.")
        self.policy_reviews = counter("batchgate_policy_reviews", "Reviews of the policy.", labelnames=("allowed",))
        self.refused = counter(
            "batchgate_refused_requests", "Requests answered with an HTTP error.", labelnames=("code",)
        )
        self.policy_generation = gauge("batchgate_policy_generation", "Policies loaded; 0 while there is none.")
        self.policy_loaded = gauge(
            "batchgate_policy_loaded_timestamp_seconds", "When the policy in force was loaded; 0 without one."
        )
        self.certificate_expiry = gauge(
            "batchgate_certificate_expiry_timestamp_seconds", "When the certificate in force expires."
        )
        self.ca_expiry = gauge(
            "batchgate_ca_expiry_timestamp_seconds", "When the first CA in ca.crt expires; 0 without that file."
        )
        self.queue_states = gauge("batchgate_queue_states", "Queues whose state is known.")
        self.queue_states_written = gauge(
            "batchgate_queue_states_timestamp_seconds", "When the queue state file was written; 0 without one."
        )
        self._begin()
        self._show_build()

    def _begin(self) -> None:
        """Have from 0 on what alerts ask for, or a dashboard shows as none, so that the first one is an increase."""
        for code in ("413", "429", "500"):
            self.refused.labels(code)
        for allowed in ("false", "true"):
            self.policy_reviews.labels(allowed)

    def _show_build(self) -> None:
        build = Gauge(
            "batchgate_build_info",
            "What runs here; always 1.",
            labelnames=("version", "python"),
            registry=self.registry,
        )
        build.labels(version=__version__, python=platform.python_version()).set(1)

    def show(self, sources: Sequence[Source], policy: Digested) -> None:
        """Also show the state of these sources and the policy in force from now on."""
        self.registry.register(SourceCollector(sources))
        self.registry.register(PolicyCollector(policy))

    def expect(self, rule: str, targets: Sequence[str]) -> None:
        """Have what a rule may decide from 0 on, so that its first decision is an increase.

        :param targets: of its decisions; none for an audit rule, whose matches are counted
        """
        if not targets:
            self.audits.labels(rule)
        for target in targets:
            self.decisions.labels(target, rule, "false")

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)
