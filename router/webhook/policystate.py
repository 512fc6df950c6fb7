"""Publishes which policy this replica has in force, so that agents and ``batchgate status`` can compare it with theirs.

Shell (a thread). It writes when the policy or its error changes, and once a minute as a sign of life.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from router import __version__, names
from router.background.loop import Loop
from router.errors import ApiError, NotFound
from router.kube.client import Api
from router.policy import inforce
from router.policy.inforce import InForce

_SECONDS = 2.0
_AGAIN_SECONDS = 30.0


class PolicyPublisher:
    """Publishes one replica's policy; ``start`` it once.

    A document stays when its process ends. Another replica removes it an hour later.

    :param present: the digest of the policy in force and why newer files are not
    """

    def __init__(
        self, api: Api, namespace: str, replica: str, present: Callable[[], tuple[str, str]], log: logging.Logger
    ) -> None:
        self._api = api
        self._place = f"{namespace}/{names.POLICY_STATE_CONFIG_MAP}"
        self._path = f"/api/v1/namespaces/{namespace}/configmaps/{names.POLICY_STATE_CONFIG_MAP}"
        self._replica = replica
        self._present = present
        self._log = log
        self._written: tuple[str, str] | None = None
        self._at = 0.0
        self._problem = ""
        self._loop = Loop("policy state", self._turn)

    def start(self) -> None:
        """Start the thread, which publishes at once."""
        self._loop.start()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def look(self) -> bool:
        """Take one turn; returns whether it wrote. Raises ApiError."""
        present, now = self._present(), time.monotonic()
        if present == self._written and now - self._at < inforce.RENEWED_SECONDS:
            return False
        clock = time.time()
        found = self._api.get(self._path).get("data") or {}
        changes: dict[str, str | None] = dict.fromkeys(inforce.ended(found, clock))
        changes[inforce.key_of(self._replica)] = inforce.document(InForce(clock, *present, __version__))
        self._api.patch(self._path, {"data": changes})
        self._written, self._at = present, now
        return True

    def _turn(self) -> float:
        try:
            self.look()
        except NotFound:
            self._tell(f"there is no ConfigMap {self._place}; the chart and manifests/base make it")
        except ApiError as error:
            self._tell(str(error))
        else:
            self._tell("")
            return _SECONDS
        return _AGAIN_SECONDS

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._log.warning("the policy in force is not published", extra={"fields": {"error": problem}})
        self._problem = problem
