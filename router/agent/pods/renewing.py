"""Renews the tokens of Pods whose files are on the site, before they end.

Shell: one thread of a user. A kubelet renews at 80 % of a token's life, and after a day; so does this. After a restart
it renews all at once, as it does not know when they end. A container sees the new file at the same path.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from router.agent.files.wiping import holds_credentials, wipe
from router.agent.records import Record, Records
from router.agent.submission.submitting import Submitter, Withdrawn
from router.background.loop import Loop
from router.errors import BatchgateError
from router.host import Host
from router.pod import layout

log: Final = logging.getLogger("batchgate.agent")

SECONDS: Final = 20.0
_AGAIN: Final = 60.0


class Renewing:
    """Renews one user's tokens; ``start`` it when the Pods are known, ``stop`` it in the end.

    :param ready: whether this agent leads; asked before each renewal
    :param clock: seconds since 1970
    """

    def __init__(
        self,
        host: Host,
        records: Records,
        submitter: Submitter,
        *,
        ready: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._host = host
        self._records = records
        self._submitter = submitter
        self._ready = ready
        self._clock = clock
        self._due: dict[str, float | None] = {}
        """When to renew, by the Pod's uid; None without a token."""
        self._loop = Loop("tokens", self._turn)

    def start(self) -> None:
        """Start the thread."""
        self._loop.start(SECONDS)

    def stop(self) -> None:
        """Stop the thread, after the renewal that is under way."""
        self._loop.stop()

    def await_end(self) -> None:
        """Wait, after ``stop``, until the thread has ended; returns at once if it never started."""
        self._loop.await_end()

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    def _turn(self) -> float:
        self.look()
        return SECONDS

    def look(self) -> None:
        """Renew what is due. A Pod whose renewal fails is tried again in a minute."""
        living = {
            one.uid: one for one in self._records.all() if one.facts.staged and not one.over and one.facts.pod.name
        }
        for uid in tuple(self._submitter.renewals):
            self._due[uid] = self._submitter.renewals.pop(uid)
        self._due = {uid: due for uid, due in self._due.items() if uid in living}
        for uid, record in living.items():
            due = self._due.get(uid, 0.0)
            if due is None or due > self._clock():
                continue
            if not self._ready():
                return
            self._due[uid] = self._renewed(record)

    def _renewed(self, record: Record) -> float | None:
        """Renew the tokens of one Pod; returns when to do it again."""
        try:
            if not holds_credentials(self._host, record.directory):
                return None
            given = self._submitter.tokens(record.facts.pod)
            for path, token in given.tokens.items():
                self._host.put(record.directory.path / layout.FILES / path, token.encode())
            if record.over or not holds_credentials(self._host, record.directory):
                # Its containers ended meanwhile, and what it had was removed before this was written.
                self._host.put(record.directory.path / layout.CREDENTIALS, b"")
                wipe(self._host, record.directory)
        except Withdrawn:
            return None
        except (BatchgateError, OSError) as error:
            fields = {"pod": record.key, "uid": record.uid, "error": str(error)[:2000]}
            log.warning("tokens are not renewed", extra={"fields": fields})
            return self._clock() + _AGAIN
        if given.tokens:
            log.info("renewed tokens", extra={"fields": {"pod": record.key, "uid": record.uid}})
        return given.renewal(self._clock())
