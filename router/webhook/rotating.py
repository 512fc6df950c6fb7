"""Renews the webhook's certificates and keys in the cluster: the loop of ``webhook --rotate``.

Shell (threads, the API). One of all replicas does it, the holder of a Lease. Nothing depends on there being only one, as
``router.certs.ensuring`` may run twice at once; the others only save requests. Reviews never wait for it.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Callable
from typing import Final

from router import names
from router.background.loop import Loop
from router.certs import ensuring
from router.certs.ensuring import Target
from router.certs.rotation import Rules
from router.errors import ApiError, ConfigError
from router.kube.client import Api
from router.kube.election import Election

LEASE_SECONDS: Final = 30
PAUSE_SECONDS: Final = 30.0
"""Seconds between two looks. The steps of a rotation are minutes apart."""


class Rotation:
    """One replica's part; a source whose ``error`` says why certificates cannot be renewed now.

    :param host_names: names of the webhook beside those of its Service
    """

    name: str = "rotation"

    def __init__(self, api: Api, namespace: str, host_names: tuple[str, ...], log: logging.Logger) -> None:
        self.error = ""
        self.failures = 0
        self._api = api
        known = ensuring.host_names(names.SERVICE, namespace)
        self._target = Target(Rules(namespace, tuple(dict.fromkeys((*known, *host_names)))))
        self._log = log
        self._election = Election(api, namespace, names.WEBHOOK_LEASE, platform.node(), LEASE_SECONDS)
        self._loop = Loop("rotation", self._turn)

    def start(self) -> None:
        """Compete for the lead, and renew while leading."""
        self._election.start()
        self._loop.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    @property
    def synced(self) -> bool:
        """Reviews do not wait for it."""
        return True

    def check(self) -> None:
        """Nothing: it looks by itself."""

    def _turn(self) -> float:
        if not self._election.wait(PAUSE_SECONDS):
            self._note(self._election.problem)
            return 0.0
        self._note(self._problem(lambda: ensuring.ensure(self._api, self._target, self._say)))
        return PAUSE_SECONDS

    def _say(self, words: str) -> None:
        self._log.info("rotation", extra={"fields": {"did": words}})

    def _problem(self, act: Callable[[], object]) -> str:
        try:
            act()
        except (ApiError, ConfigError) as error:
            return str(error)
        return ""

    def _note(self, problem: str) -> None:
        if problem == self.error:
            return
        self.error = problem
        if problem:
            self.failures += 1
            self._log.error("certificates cannot be renewed now", extra={"fields": {"error": problem}})
