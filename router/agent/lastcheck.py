"""The last check of a site, where the agents find it: ``batchgate site check`` writes it, whoever leads obeys it.

Shell. It is kept in a ConfigMap of the agents' own namespace: a leader and its standby see the same wherever they run,
and nobody can write there whom the cluster's admins do not let. What cannot be read changes nothing.
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
"""Between two looks: how long a site that was mended still is refused at most."""
_TRIES: Final = 5
_FORBIDDEN: Final = 403
_FIRST_SECONDS: Final = 1.0
"""Between two looks until one has come out: nothing is submitted before."""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """Where the checks of a site are kept: in the ConfigMap of that namespace."""

    api: Api
    namespace: str
    site: str

    @property
    def place(self) -> str:
        """The ConfigMap, in words."""
        return f"ConfigMap {self.namespace}/{names.CHECKS_CONFIG_MAP}"

    @property
    def _key(self) -> str:
        return f"{self.site}.json"

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{names.CHECKS_CONFIG_MAP}"

    def look(self) -> None:
        """See whether there is such a ConfigMap that may be read. ApiError, NotFound."""
        self.api.get(self._path)

    def read(self) -> Kept:
        """What is kept; nothing of a site that was never checked. ApiError; InputError where it is not understood."""
        found = self.api.find(self._path) or {}
        try:
            return kept_of((found.get("data") or {}).get(self._key, ""))
        except InputError as error:
            raise InputError(f"{self.place}, {self._key}: {error}") from error

    def keep(self, lines: Iterable[Line], users: Sequence[str], time: str, *, whole: bool) -> Kept:
        """Add a check (see ``record.after``); what is known then. ApiError, NotFound where there is no such ConfigMap."""
        lines = tuple(lines)
        for tried in range(1, _TRIES + 1):
            found = self.api.get(self._path)
            try:
                before = kept_of((found.get("data") or {}).get(self._key, ""))
            except InputError:
                before = Kept()  # it tells agents nothing either
            now = after(before, lines, users, time, whole=whole)
            version = found["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "data": {self._key: document(now)}}
            try:
                self.api.patch(self._path, body)
            except Conflict:  # somebody else's check ended at the same time
                if tried == _TRIES:
                    raise
            else:
                return now
        raise AssertionError("unreachable")


class LastCheck:
    """What an agent knows of it; ``start`` it while leading, ``stop`` it in the end.

    :param changed: called whenever it has become other than it was, and with what is known first
    """

    def __init__(self, record: CheckRecord, changed: Callable[[Kept], None], every: float = SECONDS) -> None:
        self.known = threading.Event()
        """Set once it was read: before that nobody knows whether anything may be submitted."""
        self._record = record
        self._changed = changed
        self._every = every
        self._kept = Kept()
        self._problem = ""
        self._loop = Loop("last check", self._turn)

    def refusal(self, profile: str = "") -> str:
        """Why no Job of an MPI profile, or without one, may be submitted, in words for users; empty where it may."""
        return brief(self._kept, self._record.site, profile)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def start(self) -> None:
        """Begin to look, at once."""
        self._loop.start()

    def stop(self) -> None:
        """Look no more."""
        self._loop.stop()

    def look(self) -> None:
        """One look. ApiError where the API server does not answer.

        Then, and where there is something that is no record, or that this agent may not read, what was known holds.
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
