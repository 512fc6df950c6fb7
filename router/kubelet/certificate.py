"""The serving certificate from the cluster: requests it, polls for it, keeps and renews it.

Shell: the API server and, if configured, a directory that outlives the process. Each step returns at once: an admin
approves requests, which may take days.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from router.certs import checking, files
from router.certs.issuing import Pair
from router.errors import ConfigError, Conflict
from router.kube.client import Api
from router.kubelet import csr

log: Final = logging.getLogger("batchgate.kubelet")

CERTIFICATE: Final = "kubelet.crt"
KEY: Final = "kubelet.key"
ASKED_KEY: Final = "kubelet.asked.key"
"""The key of a pending request, so that a restart does not make a second request."""

AGAIN: Final = timedelta(minutes=15)
"""Time until the next request after one was denied or failed."""

REMINDER: Final = timedelta(minutes=10)
"""Time between two log lines about a request that waits for approval."""


class ServingCertificate:
    """The certificate of one server.

    :param node: one of our Nodes, for the signer's rule; see ``csr``
    :param addresses: the addresses to which the API server connects
    :param directory: where certificate and keys are kept; None: each restart makes a new request
    """

    def __init__(self, api: Api, node: str, addresses: Sequence[str], directory: Path | None = None) -> None:
        self._api = api
        self._node = node
        self._addresses = tuple(addresses)
        self._directory = directory
        self._renewal: datetime | None = None
        self._key: bytes | None = None
        self._again: datetime | None = None
        self._told: datetime | None = None
        self.waiting = ""
        """The name of the request that waits for approval; empty if there is none."""

    def load(self, now: datetime) -> Pair | None:
        """The certificate that an earlier run of this server left, if it is still valid."""
        if self._directory is None:
            return None
        if (self._directory / ASKED_KEY).exists():
            self._key = csr.key_of(files.read(self._directory / ASKED_KEY, "a key"))
        if not (self._directory / CERTIFICATE).exists():
            return None
        try:
            pair = Pair(
                files.read(self._directory / CERTIFICATE, "the certificate of the kubelet API"),
                files.read(self._directory / KEY, "the key of the kubelet API's certificate"),
            )
            self._check(pair, now)
        except ConfigError as error:
            log.warning("another certificate of the kubelet API is asked for: %s", error)
            return None
        return pair

    def step(self, now: datetime) -> Pair | None:
        """Do the next step; returns a certificate if one was just issued.

        :raises ApiError: the request to the API server failed; the next step tries again
        :raises ConfigError: the directory cannot be written
        """
        if self._key is None:
            if (self._renewal is not None and now < self._renewal) or (self._again is not None and now < self._again):
                return None
            key = csr.new_key()
            self._keep({ASKED_KEY: key})
            self._key = key
        request = csr.request(self._key, self._node, self._addresses)
        name = request["metadata"]["name"]
        answer = self._api.find(f"{csr.PATH}/{name}", seconds=10)
        if answer is None:
            try:
                answer = self._api.create(csr.PATH, request, seconds=10)
            except Conflict:  # an earlier create succeeded, but its answer was lost
                return None
        return self._judge(name, self._key, csr.outcome(answer), now)

    def _judge(
        self, name: str, key: bytes, outcome: csr.Issued | csr.Waiting | csr.Turned, now: datetime
    ) -> Pair | None:
        if isinstance(outcome, csr.Waiting):
            self.waiting = "" if outcome.approved else name
            self._remind(now)
            return None
        self.waiting = ""
        try:
            pair = self._usable(key, outcome, now)
        except ConfigError as error:
            log.warning("the request %s for the kubelet API's certificate is no use, another follows: %s", name, error)
            self._again = now + AGAIN
            self._forget()
            return None
        self._keep({CERTIFICATE: pair.public, KEY: pair.private})
        self._forget()
        return pair

    def _remind(self, now: datetime) -> None:
        if self.waiting and (self._told is None or now - self._told >= REMINDER):
            self._told = now
            words = "the kubelet API's certificate waits for approval: kubectl certificate approve %s"
            log.warning(words, self.waiting)

    def _usable(self, key: bytes, outcome: csr.Issued | csr.Turned, now: datetime) -> Pair:
        if isinstance(outcome, csr.Turned):
            raise ConfigError(outcome.words)
        pair = Pair(outcome.certificate, key)
        self._check(pair, now)
        return pair

    def _check(self, pair: Pair, now: datetime) -> None:
        certificate = checking.certificates_of(pair.public, "the certificate")[0]
        key = checking.private_key_of(pair.private, "the key")
        checking.check_server(certificate, key, self._addresses, now, "the certificate")
        self._renewal = csr.renewal(certificate.not_valid_before_utc, certificate.not_valid_after_utc)

    def _keep(self, data: dict[str, bytes]) -> None:
        if self._directory is not None:
            files.write_all(self._directory, data)

    def _forget(self) -> None:
        self._key = self._told = None
        if self._directory is not None:
            with contextlib.suppress(OSError):  # with the key that is left, the request is only looked at again
                (self._directory / ASKED_KEY).unlink()
