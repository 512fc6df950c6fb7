"""Put the running webhook together from its settings: what to watch, and what answers a review.

Shell: reads files and the clock. ``check`` runs in the arbiter, so that whatever is wrong ends the program before it
serves; ``load`` runs in the worker, after the fork, and starts the thread that watches.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from werkzeug.exceptions import ServiceUnavailable

from router import admission, policy, signing
from router.certs import files
from router.clusterfile import read_cluster
from router.errors import ConfigError
from router.gate import Gate
from router.policy.decision import NO_QUEUE_STATES, QueueStates
from router.policyfiles import PolicyStore
from router.settings import WATCH_SECONDS, WebhookSettings
from router.sources import FileSource, Source, watch
from router.webhook import tls
from router.webhook.metrics import Metrics
from router.webhook.service import Service
from router.webhook.tls import ServerTls
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster

T_co = TypeVar("T_co", covariant=True)


class Known(Source, Protocol[T_co]):
    """A value that a file or a cluster tells. ``modified``: when it was written, seconds since 1970, where that is known."""

    @property
    def value(self) -> T_co:
        """The value in force."""

    @property
    def modified(self) -> float | None:
        """When it was written."""


class Followed(Source, Protocol):
    """What is kept by watches of a cluster."""

    @property
    def watches(self) -> Sequence[Thread]:
        """Their threads."""

    @property
    def synced(self) -> bool:
        """Whether all of it was seen once."""

    def start(self) -> None:
        """Begin to watch."""


@dataclass(frozen=True)
class InForce:
    """The sources of everything that a review is judged by. None: the setting was not given.

    ``followed`` are those of them that follow a cluster.
    """

    policy: PolicyStore
    certificate: FileSource[ServerTls]
    signer: FileSource[Ed25519PrivateKey] | None
    queues: Known[QueueStates] | None
    cluster: Known[Cluster] | None
    followed: Sequence[Followed] = ()

    @property
    def synced(self) -> bool:
        """Whether all that is followed was seen once."""
        return all(followed.synced for followed in self.followed)

    @property
    def sources(self) -> Sequence[Source]:
        """Those that are there."""
        every: tuple[Source | None, ...] = (self.policy, self.certificate, self.signer, self.queues, self.cluster)
        return tuple(source for source in every if source is not None)

    def gate(self) -> Gate:
        """What is known at this moment. ServiceUnavailable where no policy is, or nothing of the cluster yet."""
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
        )


def check(settings: WebhookSettings, log: logging.Logger) -> InForce:
    """Read everything once. ConfigError or InputError where the webhook could not start with it.

    Of a cluster only the credentials are read; it is not asked yet. The queue state is another program's: it may come
    later, and is unknown until then.
    """
    store = PolicyStore(settings.policy, on_reload=_reporter(log))
    store.load()
    certificate = FileSource(
        "certificate",
        (settings.certificate, settings.key),
        lambda: tls.load(settings.certificate, settings.key, settings.host_names),
        log,
    )
    cluster: Known[Cluster] | None = _optional("cluster", settings.cluster, _read_cluster, log)
    queues: Known[QueueStates] | None = _queues(settings, log)
    followed: list[Followed] = []
    if settings.kubeconfig is not None or settings.in_cluster:
        # Imported here: without a cluster nothing of HTTP and credentials is needed.
        from router.kube.client import connect  # noqa: PLC0415
        from router.webhook.watched import WatchedCluster, WatchedQueues  # noqa: PLC0415

        api = connect(str(settings.kubeconfig) if settings.kubeconfig else None)
        cluster = known = WatchedCluster(api, log)
        followed.append(known)
        if queues is None:
            queues = states = WatchedQueues(api, settings.namespace, settings.queues_max_age, log)
            followed.append(states)
    signer = _optional("signing-key", settings.signing_key, _read_signer, log)
    return InForce(store, certificate, signer, queues, cluster, followed)


def load(in_force: InForce, settings: WebhookSettings, log: logging.Logger) -> Service:
    """The service of one worker. What changed since the arbiter read it is read again first."""
    for source in in_force.sources:
        source.check()
    for followed in in_force.followed:
        followed.start()
    queues = in_force.queues
    return Service(
        review=lambda body: admission.review(body, in_force.gate()),
        policy=in_force.policy,
        metrics=Metrics(),
        log=log,
        sources=in_force.sources,
        certificate_expiry=lambda: in_force.certificate.value.not_after,
        queue_states=lambda: (len(queues.value.states), queues.modified or 0.0) if queues else (0, 0.0),
        body_limit=settings.body_limit,
        watchers=(
            watch(in_force.sources, WATCH_SECONDS),
            *[thread for followed in in_force.followed for thread in followed.watches],
        ),
        synced=lambda: in_force.synced,
    )


def _optional(
    name: str, path: Path | None, read: Callable[[Path], Any], log: logging.Logger, unknown: Any = None
) -> FileSource[Any] | None:
    if path is None:
        return None
    return FileSource(name, (path,), lambda: read(path), log, unknown)


def _queues(settings: WebhookSettings, log: logging.Logger) -> FileSource[QueueStates] | None:
    """The queue state; too old, it is not known: what reads it must not go on with the figures of yesterday."""
    path, most = settings.queues, settings.queues_max_age
    if path is None:
        return None

    def stale(states: QueueStates, modified: float | None) -> str:
        if states is NO_QUEUE_STATES:
            return ""
        problem = policy.age_problem(states, now=time.time(), most=most, written=modified)
        return f"{path} {problem}; see to what writes it, or --queues-max-age" if problem else ""

    return FileSource("queues", (path,), lambda: _read_queues(path), log, NO_QUEUE_STATES, stale)


def _reporter(log: logging.Logger) -> Callable[[PolicyStore], None]:
    def report(store: PolicyStore) -> None:
        fields = {"source": store.name, "generation": store.generation}
        if store.error:
            log.error(
                "reload failed; the last good one stays in force", extra={"fields": fields | {"error": store.error}}
            )
        else:
            log.info("reloaded", extra={"fields": fields})

    return report


def _read_signer(path: Path) -> Ed25519PrivateKey:
    try:
        return signing.load_private(files.read(path, "the signing key"))
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
