"""Builds the running webhook from its settings: its sources, its watches and its review function.

Shell: files and the clock. ``check`` runs in the arbiter, so that an error ends the program before it serves. ``load``
runs in the worker, after the fork. Objects with a thread are constructed in the worker too: CPython marks a thread
that was constructed before a fork as ended in the child, even while it runs (``threading._after_fork``).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from werkzeug.exceptions import ServiceUnavailable

from router import names, policy
from router.certs import files
from router.errors import ConfigError
from router.gate import review as admission
from router.gate.judging import Gate
from router.kube.client import Api, connect
from router.placement import signing
from router.policy.decision import NO_QUEUE_STATES, QueueStates
from router.startup import tracing
from router.startup.policyfiles import PolicyStore
from router.startup.policysource import PolicySource
from router.startup.settings import WATCH_SECONDS, WebhookSettings
from router.startup.sources import FileSource, Source, watch
from router.webhook import reviewspan, tls
from router.webhook.budget import Budget
from router.webhook.clients import Clients
from router.webhook.decisionlog import DecisionLog, demand_writable
from router.webhook.metrics import Metrics
from router.webhook.policystate import PolicyPublisher
from router.webhook.service import Service
from router.webhook.tls import ServerTls
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster
from router.workload.clusterfile import read_cluster

if TYPE_CHECKING:
    from router.startup.exporting import Traces

T_co = TypeVar("T_co", covariant=True)


class Known(Source, Protocol[T_co]):
    """A value from a file or a cluster. ``modified``: when it was written, in seconds since 1970, if known."""

    @property
    def value(self) -> T_co:
        """The value in force."""

    @property
    def modified(self) -> float | None:
        """When it was written."""


class Followed(Source, Protocol):
    """A source that is kept by watches of a cluster."""

    @property
    def alive(self) -> bool:
        """Whether their threads run."""

    @property
    def synced(self) -> bool:
        """Whether all objects were listed once."""

    def start(self) -> None:
        """Begin to watch."""


@dataclass(frozen=True)
class InForce:
    """The sources of everything that decides about a review; ``None`` if the setting was not given.

    ``api`` is that of the cluster to watch. ``followed`` are the sources that watch it; empty in the arbiter.
    """

    policy: PolicyStore
    certificate: FileSource[ServerTls]
    signer: FileSource[signing.Signer] | None
    queues: Known[QueueStates] | None
    cluster: Known[Cluster] | None
    api: Api | None = None
    followed: Sequence[Followed] = ()

    @property
    def synced(self) -> bool:
        """Whether the watched cluster was listed once."""
        return all(followed.synced for followed in self.followed)

    @property
    def sources(self) -> Sequence[Source]:
        """All sources that are configured."""
        every: tuple[Source | None, ...] = (self.policy, self.certificate, self.signer, self.queues, self.cluster)
        return tuple(source for source in every if source is not None)

    def gate(self, traceparent: str = "") -> Gate:
        """The current values. Raises ServiceUnavailable while the policy or the cluster's objects are missing.

        :param traceparent: of the review's span
        """
        if self.policy.policy is None:
            raise ServiceUnavailable("no policy is in force; /readyz tells why")
        if not self.synced:
            raise ServiceUnavailable("nothing is known of the cluster yet; /readyz tells why")
        return Gate(
            policy=self.policy.policy,
            cluster=self.cluster.value if self.cluster else UNKNOWN_CLUSTER,
            states=self.queues.value if self.queues else NO_QUEUE_STATES,
            signer=self.signer.value if self.signer else None,
            issued_at=int(time.time()),
            traceparent=traceparent,
        )


def check(settings: WebhookSettings, log: logging.Logger) -> InForce:
    """Read everything once. Raises ConfigError or InputError if the webhook cannot start with it.

    Of a cluster only the credentials are read, without a request. The queue state is written by another program: it may
    come later, and is unknown until then.
    """
    tracing.check(os.environ)
    store = PolicyStore(settings.policy, on_reload=_reporter(log))
    store.load()
    if settings.decision_log is not None:
        demand_writable(settings.decision_log)
    certificate = FileSource(
        "certificate",
        (settings.certificate, settings.key, *([settings.client_ca] if settings.client_ca else [])),
        lambda: tls.load(settings.certificate, settings.key, settings.host_names, settings.client_ca),
        log,
    )
    return InForce(
        policy=store,
        certificate=certificate,
        signer=_optional("signing-key", settings.signing_key, _read_signer, log),
        queues=_queues(settings, log),
        cluster=_optional("cluster", settings.cluster, _read_cluster, log),
        api=_api(settings),
    )


def _api(settings: WebhookSettings) -> Api | None:
    if settings.kubeconfig is None and not settings.in_cluster:
        return None
    return connect(str(settings.kubeconfig) if settings.kubeconfig else None)


def load(checked: InForce, settings: WebhookSettings, log: logging.Logger, metrics_port: int | None) -> Service:
    """The service of one worker. Sources that changed since the arbiter read them are read again first.

    :param metrics_port: the separate port of metrics; None if everything is on one port
    """
    for source in checked.sources:
        source.check()
    in_force = _following(checked, settings, log)
    for followed in in_force.followed:
        followed.start()
    publisher = _publisher(checked, settings, log)
    if publisher is not None:
        publisher.start()
    queues = in_force.queues
    files = watch(in_force.sources, WATCH_SECONDS)
    metrics = Metrics()
    decisions = _decision_log(settings, metrics, log)
    traces = tracing.start(names.WEBHOOK, os.environ)
    return Service(
        review=lambda body, traceparent: admission.review(body, in_force.gate(traceparent)),
        over_budget=lambda body, *told: admission.over_budget(body, in_force.gate(), *told),
        budget=Budget(log, settings.review_budget),
        policy=in_force.policy,
        metrics=metrics,
        log=log,
        sources=(*in_force.sources, *decisions),
        certificate_expiry=lambda: in_force.certificate.value.not_after,
        ca_expiry=lambda: in_force.certificate.value.ca_not_after,
        certificate_sha256=lambda: in_force.certificate.value.sha256,
        queue_states=lambda: (len(queues.value.states), queues.modified or 0.0) if queues else (0, 0.0),
        body_limit=settings.body_limit,
        clients=None if settings.client_ca is None else Clients(frozenset(settings.client_names)),
        metrics_port=metrics_port,
        watching=lambda: (
            files.alive
            and all(followed.alive for followed in in_force.followed)
            and (publisher is None or publisher.alive)
            and all(one.alive for one in decisions)
        ),
        synced=lambda: in_force.synced,
        keep=decisions[0].put if decisions else lambda _answer, _size: None,
        trace=None if traces is None else partial(traces.begin, reviewspan.NAME, follow=settings.follow_traces),
        close=partial(_close, decisions, traces),
    )


def _close(decisions: tuple[DecisionLog, ...], traces: Traces | None) -> None:
    for one in decisions:
        one.close()
    if traces is not None:
        traces.close()


def _decision_log(settings: WebhookSettings, metrics: Metrics, log: logging.Logger) -> tuple[DecisionLog, ...]:
    """The decision log, started; empty without the setting."""
    if settings.decision_log is None:
        return ()
    made = DecisionLog(settings.decision_log, settings.decision_log_size, metrics, log)
    made.start()
    return (made,)


def _following(checked: InForce, settings: WebhookSettings, log: logging.Logger) -> InForce:
    """The same sources plus those that watch the cluster, if configured; not started yet."""
    if checked.api is None:
        return checked
    # Imported here, as only watches need it.
    from router.webhook.watched import WatchedCluster, WatchedQueues  # noqa: PLC0415

    cluster = WatchedCluster(checked.api, log, claims=settings.claims)
    if checked.queues is not None:
        return replace(checked, cluster=cluster, followed=(cluster,))
    queues = WatchedQueues(checked.api, settings.namespace, settings.queues_max_age, log)
    return replace(checked, cluster=cluster, queues=queues, followed=(cluster, queues))


def _publisher(checked: InForce, settings: WebhookSettings, log: logging.Logger) -> PolicyPublisher | None:
    if checked.api is None:
        return None
    store = checked.policy
    return PolicyPublisher(
        checked.api, settings.namespace, socket.gethostname(), lambda: (store.digest, store.error), log
    )


def _optional(name: str, path: Path | None, read: Callable[[Path], Any], log: logging.Logger) -> FileSource[Any] | None:
    if path is None:
        return None
    return FileSource(name, (path,), lambda: read(path), log)


def _queues(settings: WebhookSettings, log: logging.Logger) -> FileSource[QueueStates] | None:
    """The source of the queue state. An outdated state counts as unknown, so that no rule uses old figures."""
    path, most = settings.queues, settings.queues_max_age
    if path is None:
        return None

    def stale(states: QueueStates, modified: float | None) -> str:
        if states is NO_QUEUE_STATES:
            return ""
        problem = policy.age_problem(states, now=time.time(), most=most, written=modified)
        return f"{path} {problem}; see to what writes it, or --queues-max-age" if problem else ""

    return FileSource("queues", (path,), lambda: _read_queues(path), log, NO_QUEUE_STATES, stale)


def _reporter(log: logging.Logger) -> Callable[[PolicySource], None]:
    def report(store: PolicySource) -> None:
        fields = {"source": store.name, "generation": store.generation}
        if store.error:
            log.error(
                "reload failed; the last good one stays in force", extra={"fields": fields | {"error": store.error}}
            )
        else:
            log.info("reloaded", extra={"fields": fields})

    return report


def _read_signer(path: Path) -> signing.Signer:
    try:
        return signing.load_signer(files.read(path, "the signing key"))
    except ConfigError as error:
        raise ConfigError(str(error) if str(path) in str(error) else f"signing key {path}: {error}") from None


def _read_queues(path: Path) -> QueueStates:
    return policy.queue_states(_text(path, "the state of the queues"), str(path))


def _read_cluster(path: Path) -> Cluster:
    return read_cluster(_text(path, "Namespaces, LimitRanges and RuntimeClasses"), str(path))


def _text(path: Path, what: str) -> str:
    try:
        return files.read(path, what).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8: byte {error.start} is no part of it") from None
