"""What answers reviews while the webhook runs, and whether it may be asked.

Knows no HTTP, no gunicorn, no file: it is given its parts (by ``router.webhook.loading`` in production, by tests
otherwise) and says how they are.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from router.startup.settings import BODY_LIMIT
from router.startup.sources import Source
from router.webhook.budget import Budget
from router.webhook.clients import Clients
from router.webhook.metrics import Metrics

LARGE_AT_ONCE: Final = 3
"""Large reviews that one thread each may hold: one is worked on, the others wait for it."""


class SentAnswer(Protocol):
    """What ``router.gate.review.review`` returns: the whole AdmissionReview, and the fields of the log line."""

    @property
    def response(self) -> Mapping[str, Any]:
        """The AdmissionReview to send."""

    @property
    def record(self) -> Mapping[str, Any]:
        """What to log and to count."""


class PolicyInForce(Protocol):
    """What is shown of the policy."""

    @property
    def generation(self) -> int:
        """How many policies were loaded; 0 while none is in force."""

    @property
    def digest(self) -> str:
        """SHA-256 of its files' names and texts, in hexadecimal; empty while none is in force."""

    @property
    def loaded_at(self) -> datetime | None:
        """When the one in force was loaded."""


@dataclass
class Service:
    """The parts of a running webhook.

    ``review`` judges one AdmissionReview (ReviewError where it is none), within its ``budget``; ``over_budget`` is the
    answer to one that took more: the review, the step and the field that took longest, the seconds.
    ``certificate_expiry`` and ``queue_states`` (how many are known, and when they were written) are asked for at every
    scrape. ``synced`` says whether the cluster, where it is watched, was seen once. ``clients`` may ask for reviews;
    None: whoever connects. ``metrics_port`` is where metrics are served alone; None: where all else is. ``draining`` is
    set at SIGTERM and never taken back.

    Whoever works on a review has its ``turn``: Python lets one thread work at a time, and handing over in the midst of
    reviews, at each signature and log line, costs more than one after the other. A large review has ``large_turn``
    instead, beside them, and one of the ``large_places``, which are fewer than the threads: more would leave none to
    the others. One that takes long gives its turn up for such a place.
    """

    review: Callable[[object], SentAnswer]
    over_budget: Callable[[object, str, str, float], SentAnswer]
    budget: Budget
    policy: PolicyInForce
    metrics: Metrics
    log: logging.Logger
    sources: Sequence[Source] = ()
    certificate_expiry: Callable[[], datetime | None] = lambda: None
    queue_states: Callable[[], tuple[int, float]] = lambda: (0, 0.0)
    body_limit: int = BODY_LIMIT
    clients: Clients | None = None
    metrics_port: int | None = None
    watching: Callable[[], bool] = lambda: True
    synced: Callable[[], bool] = lambda: True
    draining: bool = False
    turn: threading.Lock = field(default_factory=threading.Lock)
    large_turn: threading.Lock = field(default_factory=threading.Lock)
    large_places: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(LARGE_AT_ONCE))

    def __post_init__(self) -> None:
        self.metrics.show(self.sources)

    @property
    def alive(self) -> bool:
        """False where files, the cluster or reviews are no longer watched, which only a restart repairs."""
        return self.budget.alive and self.watching()

    @property
    def ready(self) -> bool:
        """Whether reviews may be sent here."""
        return self.policy.generation > 0 and self.synced() and not self.draining

    def status(self) -> dict[str, Any]:
        """What ``/readyz`` and ``/statusz`` show; errors name the file, never what is in it but by line."""
        expiry = self.certificate_expiry()
        return {
            "ready": self.ready,
            "draining": self.draining,
            "synced": self.synced(),
            "policy": {
                "generation": self.policy.generation,
                "digest": self.policy.digest or None,
                "loadedAt": self.policy.loaded_at.isoformat() if self.policy.loaded_at else None,
            },
            "certificate": {"notAfter": expiry.isoformat() if expiry else None},
            "errors": {source.name: source.error for source in self.sources if source.error},
        }

    def exposition(self) -> bytes:
        """The metrics, with what is known only now."""
        metrics, loaded, expiry = self.metrics, self.policy.loaded_at, self.certificate_expiry()
        metrics.policy_generation.set(self.policy.generation)
        metrics.policy_loaded.set(loaded.timestamp() if loaded else 0)
        metrics.certificate_expiry.set(expiry.timestamp() if expiry else 0)
        known, written = self.queue_states()
        metrics.queue_states.set(known)
        metrics.queue_states_written.set(written)
        return metrics.text()
