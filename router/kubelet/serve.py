"""The kubelet API as one object to start and stop: server, access reviews, certificate, CA of the clients.

Shell (threads). Beside the server's thread, a second one renews the serving certificate and reads the CA of client
certificates. The cluster publishes that CA, which signs the API server's client certificate, for servers like this one.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from router.background.loop import Loop
from router.certs import checking
from router.certs.issuing import Pair
from router.errors import ApiError, ConfigError
from router.kube.client import Api
from router.kubelet import tls
from router.kubelet.answering import Answers
from router.kubelet.certificate import ServingCertificate
from router.kubelet.commanding import Commanding
from router.kubelet.indexes import Indexes
from router.kubelet.limits import SESSIONS, STREAMS, Places
from router.kubelet.reviews import Reviews
from router.kubelet.server import CONNECTIONS, Server
from router.kubelet.source import LogSource
from router.kubelet.streaming import Pace, Streams

log: Final = logging.getLogger("batchgate.kubelet")

CLIENT_CA: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"

UPKEEP_SECONDS: Final = 5.0
"""Seconds between two looks at a pending certificate request."""

CA_SECONDS: Final = 60.0
"""Seconds between two looks at the CA of clients. A CA is replaced over days, while both are valid."""

FILE_THREADS: Final = 16
"""Threads that read logs. Each read is short, but a hanging file server blocks a thread."""

ASKING_THREADS: Final = 8
"""Threads that wait for the API server's access reviews."""

ENTERING_THREADS: Final = 16
"""Threads that start commands on the site, and end them."""


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The settings of the kubelet API.

    :param node: one of our Nodes, which the certificate names
    :param addresses: IP addresses that our Nodes publish
    :param self_signed: use a self-signed certificate instead of requesting one from the cluster
    :param directory: where an issued certificate is kept over restarts, or None
    """

    node: str
    addresses: tuple[str, ...]
    self_signed: bool = False
    directory: Path | None = None
    pace: Pace = field(default_factory=Pace)
    streams: int = STREAMS
    sessions: int = SESSIONS
    connections: int = CONNECTIONS
    upkeep_seconds: float = UPKEEP_SECONDS


class Kubelet:
    """The kubelet API of one site."""

    def __init__(self, api: Api, source: LogSource, indexes: Indexes, settings: KubeletSettings) -> None:
        self._api = api
        self._settings = settings
        self._files = ThreadPoolExecutor(FILE_THREADS, "kubelet-files")
        self._asking = ThreadPoolExecutor(ASKING_THREADS, "kubelet-asking")
        self._entering = ThreadPoolExecutor(ENTERING_THREADS, "kubelet-entering")
        now = datetime.now(UTC)
        self._issued = None if settings.self_signed else self._new_certificate()
        kept = self._issued.load(now) if self._issued is not None else None
        self._pair: Pair = kept or tls.self_signed(settings.addresses, now)
        self._client_ca: bytes | None = None
        self._ca_read = float("-inf")
        streams = Streams(source, indexes, self._files, settings.pace)
        places = Places(settings.sessions, "commands", "run")
        self._commanding = Commanding(source, streams, places, self._entering)
        answers = Answers(
            source=source,
            reviews=Reviews(api),
            streams=streams,
            places=Places(settings.streams),
            workers=self._asking,
            commanding=self._commanding,
        )
        self._server = Server(answers.handle, tls.context(self._pair, None), settings.connections)
        self._upkeep = Loop("kubelet-upkeep", self._look_after)

    @property
    def waiting_for(self) -> str:
        """The CertificateSigningRequest that an admin has to approve, or empty.

        Until then the server's certificate is self-signed, and an API server that verifies it refuses it.
        """
        return "" if self._issued is None else self._issued.waiting

    @property
    def alive(self) -> bool:
        """Whether its threads run."""
        return self._upkeep.alive and self._server.alive

    def start(self) -> None:
        """Start the threads; ``listen`` comes next."""
        self._server.start()
        self._keep()
        self._upkeep.start(self._settings.upkeep_seconds)

    def listen(self, host: str, port: int, node: str = "") -> int:
        """Listen for the requests of one Node (empty: of all Nodes); returns the port, a free one for 0.

        :raises ConfigError: the port or address cannot be used
        """
        return self._server.listen(host, port, node)

    def unlisten(self, node: str = "") -> None:
        """Stop listening for this Node."""
        self._server.unlisten(node)

    def end_sessions(self) -> None:
        """Cut what kubectl exec and attach have begun, and tell them."""
        self._server.call(self._commanding.end())

    def stop(self) -> None:
        """Cut all connections, end all threads."""
        self._upkeep.stop()
        self._server.stop()
        self._upkeep.await_end()
        self._files.shutdown(wait=False, cancel_futures=True)
        self._asking.shutdown(wait=False, cancel_futures=True)
        self._entering.shutdown(wait=False)

    def _new_certificate(self) -> ServingCertificate:
        settings = self._settings
        return ServingCertificate(self._api, settings.node, settings.addresses, settings.directory)

    def _look_after(self) -> float:
        self._keep()
        return self._settings.upkeep_seconds

    def _keep(self) -> None:
        """Update the CA and the certificate; a failed update is repeated the next time."""
        before = (self._pair, self._client_ca)
        for keep in (self._keep_client_ca, self._keep_certificate):
            try:
                keep()
            except (ApiError, ConfigError, OSError) as error:
                log.warning("the kubelet API's certificates could not be looked after: %s", error)
        if (self._pair, self._client_ca) != before:
            try:
                self._server.use(tls.context(self._pair, self._client_ca))
            except (ConfigError, OSError) as error:
                log.warning("the kubelet API keeps its certificates of before: %s", error)

    def _keep_client_ca(self) -> None:
        if time.monotonic() - self._ca_read < CA_SECONDS:
            return
        published = self._api.get(CLIENT_CA, seconds=10)
        text = (published.get("data") or {}).get("client-ca-file")
        if text:
            checking.certificates_of(text.encode(), f"client-ca-file of {CLIENT_CA}")
        elif self._client_ca is None:
            log.warning("the cluster publishes no CA of clients: only tokens open the kubelet API")
        self._client_ca = text.encode() if text else None
        self._ca_read = time.monotonic()

    def _keep_certificate(self) -> None:
        now = datetime.now(UTC)
        issued = None
        try:
            issued = None if self._issued is None else self._issued.step(now)
        finally:
            if issued is not None:
                self._pair = issued
            elif tls.ends_soon(self._pair, now):
                self._pair = tls.self_signed(self._settings.addresses, now)
