"""Keeps the last check of a site for the agents: ``batchgate site check`` writes it, the leading agent obeys it.

Shell. The record is in a ConfigMap of the agents' own namespace. So a leader and its standby see the same record
anywhere, and only users whom the cluster's admins allow can write it. If it cannot be read, the last known one counts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from router import names
from router.background.loop import Loop
from router.errors import ApiError, Conflict, InputError
from router.kube.client import Api
from router.preflight import Line
from router.preflight.record import Kept, after, brief, document, kept_of

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 10.0
"""Time between two looks, and so the longest time for which a mended site is still refused."""
_TRIES: Final = 5
_FORBIDDEN: Final = 403
_FIRST_SECONDS: Final = 1.0
"""Time between two looks until one succeeds, as submissions wait for that."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """The record of a site's checks, in the ConfigMap of a namespace."""

    api: Api
    namespace: str
    site: str

    @property
    def place(self) -> str:
        """The ConfigMap's name in messages."""
        return f"ConfigMap {self.namespace}/{names.CHECKS_CONFIG_MAP}"

    @property
    def _key(self) -> str:
        return names.site_key(self.site)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{names.CHECKS_CONFIG_MAP}"

    def look(self) -> None:
        """Check that the ConfigMap exists and may be read. Raises ApiError, NotFound."""
        self.api.get(self._path)

    def read(self) -> Kept:
        """The record; empty for a site that was never checked. Raises ApiError, and InputError if it is invalid."""
        found = self.api.find(self._path) or {}
        try:
            return kept_of((found.get("data") or {}).get(self._key, ""))
        except InputError as error:
            raise InputError(f"{self.place}, {self._key}: {error}") from error

    def keep(self, lines: Iterable[Line], users: Sequence[str], time: str, *, whole: bool) -> Kept:
        """Add a check (see ``record.after``); returns the new record. Raises ApiError; NotFound without a ConfigMap."""
        lines = tuple(lines)
        for tried in range(1, _TRIES + 1):
            found = self.api.get(self._path)
            try:
                before = kept_of((found.get("data") or {}).get(self._key, ""))
            except InputError:
                before = Kept()  # agents ignore an invalid record too
            now = after(before, lines, users, time, whole=whole)
            version = found["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "data": {self._key: document(now)}}
            try:
                self.api.patch(self._path, body)
            except Conflict:  # another check ended at the same time
                if tried == _TRIES:
                    raise
            else:
                return now
        raise AssertionError("unreachable")


class LastCheck:
    """An agent's copy of the last check; ``start`` it while leading, ``stop`` it in the end.

    :param changed: called with the first record and with each changed one
    """

    def __init__(self, record: CheckRecord, changed: Callable[[Kept], None], every: float = SECONDS) -> None:
        self.known = threading.Event()
        """Set once the record was read: before that it is unknown whether jobs may be submitted."""
        self._record = record
        self._changed = changed
        self._every = every
        self._kept = Kept()
        self._problem = ""
        self._loop = Loop("last check", self._turn)

    def refusal(self, profile: str = "") -> str:
        """Why Jobs of an MPI profile (empty: Jobs without one) are refused, in words for users; empty if allowed."""
        return brief(self._kept, self._record.site, profile)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Start the thread, which looks at once."""
        self._loop.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._loop.stop()

    def look(self) -> None:
        """Read the record once. Raises ApiError if the API server does not answer.

        In that case, and if the record is invalid or forbidden to this agent, the last known record still counts.
        """
        problem = ""
        try:
            found = self._record.read()
        except InputError as error:
            problem, found = str(error), self._kept
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            problem, found = str(error), self._kept
        self._tell(problem)
        if found != self._kept or not self.known.is_set():
            self._kept = found
            self.known.set()
            self._changed(found)

    def _turn(self) -> float:
        try:
            self.look()
        except ApiError as error:
            self._tell(str(error))
            return self._every if self.known.is_set() else min(self._every, _FIRST_SECONDS)
        return self._every

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            log.warning("the last check of the site cannot be read", extra={"fields": {"error": problem}})
        self._problem = problem
