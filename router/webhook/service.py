"""The parts of a running webhook that answer reviews, and its health.

Independent of HTTP, gunicorn and files: ``router.webhook.loading`` (or a test) gives it its parts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from router.gate.evidence import Evidence, Refusal
from router.policy.model import CheckedRule
from router.startup.settings import BODY_LIMIT, POLICY_BUDGET
from router.startup.sources import Source
from router.webhook.budget import Budget
from router.webhook.clients import Clients
from router.webhook.metrics import Metrics

LARGE_AT_ONCE: Final = 3
"""Large reviews at once, each in a thread: one is processed, the others wait."""
POLICIES_AT_ONCE: Final = 2
"""Reviews of the policy at once, each in a thread: one is processed, the other waits."""


class SentAnswer(Protocol):
    """The result of ``router.gate.review.review``: the AdmissionReview, the log line's fields, a decision's basis."""

    @property
    def response(self) -> Mapping[str, Any]:
        """The AdmissionReview to send."""

    @property
    def record(self) -> Mapping[str, Any]:
        """The fields to log and to count."""

    @property
    def evidence(self) -> Evidence | None:
        """What the decision rests on; None without a decision."""

    @property
    def refusal(self) -> Refusal | None:
        """What a denial without a decision rests on; else None."""


class BegunSpan(Protocol):
    """The span of a review that is under way."""

    traceparent: str
    """Its place for the Job's annotation; empty if it is not sampled."""

    def end(self, attributes: Mapping[str, str | int | bool], error: str = "") -> None:
        """End it."""


class PolicyInForce(Protocol):
    """The part of the policy store that is shown."""

    @property
    def generation(self) -> int:
        """How many policies were loaded; 0 while none is in force."""

    @property
    def digest(self) -> str:
        """SHA-256 of its files' names and texts, in hexadecimal; empty while none is in force."""

    @property
    def loaded_at(self) -> datetime | None:
        """When the policy in force was loaded."""

    @property
    def rules(self) -> Sequence[CheckedRule]:
        """Its rules."""


@dataclass
class Service:
    """The parts of a running webhook.

    ``review`` judges one AdmissionReview within its ``budget``, or raises ReviewError; it also takes the place of the
    review's span, empty without one. ``trace`` begins such a span, from the ``traceparent`` of the request and the time
    of its arrival; None: without traces. Reviews of the policy have a
    budget of their own. ``over_budget`` makes the answer to a review that took more, from the review, its slowest step
    and field, and the seconds. ``certificate_expiry``, ``ca_expiry`` and ``queue_states`` (number of known ones, time of
    writing) are called at every scrape. ``keep`` takes each answer for the decision log, with the bytes of its review,
    without waiting for the disk, and ``close`` writes what is left. ``synced`` says whether the watched cluster was listed once. Only ``clients`` may send
    reviews; None allows every client. ``metrics_port`` is the separate port of metrics; None: the same as for reviews.
    ``draining`` is set at SIGTERM and stays set.

    A thread holds ``turn`` while it works on a small review. Python runs one thread at a time, and switching between
    reviews, at each signature and log line, costs more than doing them in sequence. A large review instead holds
    ``large_turn``, in parallel to the small ones, and one of ``large_places``. There are fewer of these than threads,
    so that some threads are left for small reviews. A slow review exchanges its turn for such a place.

    Reviews of the policy have places of their own, ``policy_places`` and ``policy_turn``, as each may take seconds: so who
    may write the ConfigMap leaves the places of large Jobs free.
    """

    review: Callable[[object, str], SentAnswer]
    over_budget: Callable[[object, str, str, float], SentAnswer]
    budget: Budget
    policy: PolicyInForce
    metrics: Metrics
    log: logging.Logger
    sources: Sequence[Source] = ()
    certificate_expiry: Callable[[], datetime | None] = lambda: None
    ca_expiry: Callable[[], datetime | None] = lambda: None
    certificate_sha256: Callable[[], str] = lambda: ""
    queue_states: Callable[[], tuple[int, float]] = lambda: (0, 0.0)
    body_limit: int = BODY_LIMIT
    clients: Clients | None = None
    metrics_port: int | None = None
    watching: Callable[[], bool] = lambda: True
    synced: Callable[[], bool] = lambda: True
    keep: Callable[[SentAnswer, int], None] = lambda _answer, _size: None
    close: Callable[[], None] = lambda: None
    trace: Callable[[str, float], BegunSpan] | None = None
    draining: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)
    large_turn: threading.Lock = field(default_factory=threading.Lock)
    large_places: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(LARGE_AT_ONCE))
    policy_turn: threading.Lock = field(default_factory=threading.Lock)
    policy_places: threading.BoundedSemaphore = field(
        default_factory=lambda: threading.BoundedSemaphore(POLICIES_AT_ONCE)
    )

    policy_budget: Budget = field(init=False)

    def __post_init__(self) -> None:
        self.policy_budget = Budget(self.log, POLICY_BUDGET)
        self.metrics.show(self.sources, self.policy)

    @property
    def alive(self) -> bool:
        """False where files, the cluster or reviews are no longer watched, which only a restart repairs."""
        return self.budget.alive and self.policy_budget.alive and self.watching()

    @property
    def ready(self) -> bool:
        """Whether the webhook accepts reviews."""
        return self.policy.generation > 0 and self.synced() and not self.draining

    def status(self) -> dict[str, Any]:
        """The content of ``/readyz`` and ``/statusz``; errors name only files and lines, not their content."""
        expiry, ca_expiry = self.certificate_expiry(), self.ca_expiry()
        return {
            "ready": self.ready,
            "draining": self.draining,
            "synced": self.synced(),
            "policy": {
                "generation": self.policy.generation,
                "digest": self.policy.digest or None,
                "loadedAt": self.policy.loaded_at.isoformat() if self.policy.loaded_at else None,
            },
            "certificate": {
                "notAfter": expiry.isoformat() if expiry else None,
                "caNotAfter": ca_expiry.isoformat() if ca_expiry else None,
                "sha256": self.certificate_sha256() or None,
            },
            "errors": {source.name: source.error for source in self.sources if source.error},
        }

    def exposition(self) -> bytes:
        """The metrics in Prometheus' text format, with current values."""
        metrics, loaded, expiry = self.metrics, self.policy.loaded_at, self.certificate_expiry()
        ca_expiry = self.ca_expiry()
        metrics.policy_generation.set(self.policy.generation)
        metrics.policy_loaded.set(loaded.timestamp() if loaded else 0)
        metrics.certificate_expiry.set(expiry.timestamp() if expiry else 0)
        metrics.ca_expiry.set(ca_expiry.timestamp() if ca_expiry else 0)
        known, written = self.queue_states()
        metrics.queue_states.set(known)
        metrics.queue_states_written.set(written)
        for rule in self.policy.rules:
            metrics.expect(rule.name, rule.targets)
        return metrics.text()
