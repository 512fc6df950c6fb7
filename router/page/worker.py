"""The gunicorn worker of the page: a client that sends or reads too slowly holds no thread for long.

Shell. The webhook's worker already bounds idle connections and requests that never arrive. A page may take as long as the
cluster takes to answer, and a stream lasts an hour. So here only the two ends of an exchange are bounded: the time until
the request is there, and the time in which the client reads a part of the answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from router.webhook.worker import Connection, GateWorker


class PageWorker(GateWorker):
    """The webhook's worker with other bounds of time."""

    sending_seconds: float = 30.0
    """How long a client may take to read one part of an answer."""

    def is_late(self, connection: Connection, started: float, now: float) -> bool:
        """Whether the client has taken too long to send its request, or to read a part of the answer."""
        if connection.sending is not None:
            return now - connection.sending > self.sending_seconds
        return self.is_arriving(connection) and now - started > self.exchange_seconds

    def answer(
        self, connection: Connection, app: Callable[..., Any], environ: dict[str, Any], start_response: Any
    ) -> Any:
        """Call the app; note when each part of its answer is given to the client."""
        return _Sent(app(environ, start_response), connection)

    def is_outdated(self, conn: Connection) -> bool:  # noqa: ARG002 - as the webhook's worker has it
        """Never: the page's certificate is read at its start."""
        return False

    def drain(self) -> None:
        """Nothing: the page ends at once."""


class _Sent:
    """The parts of an answer. Between two of them, the one before is being sent; after the last, what ends it."""

    def __init__(self, parts: Iterable[bytes], connection: Connection) -> None:
        self._parts = parts
        self._connection = connection

    def __iter__(self) -> Iterator[bytes]:
        for one in self._parts:
            self._connection.sending = time.monotonic()
            yield one
            self._connection.sending = None
        self._connection.sending = time.monotonic()  # of the end: the head alone (HEAD, 304), or the last chunk

    def close(self) -> None:
        """Close the app's answer, as WSGI asks."""
        self._connection.sending = None
        if (close := getattr(self._parts, "close", None)) is not None:
            close()
