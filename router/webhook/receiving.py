"""Keeps one client from holding every thread with requests that it never finishes to send.

Pure but for what it remembers. A thread is held from a connection's first byte until the whole request is there. A client
has few such threads at once, and its further connections wait for their turn.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

C = TypeVar("C", bound=Hashable)


class Receiving(Generic[C]):
    """The connections from which requests are received, and those that wait for it. Safe to use from all threads.

    :param most: of one address at once
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._addresses: dict[C, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: deque[tuple[C, str]] = deque()

    def begin(self, connection: C, address: str) -> bool:
        """Whether its request may be received now; else the connection waits."""
        with self._lock:
            if self._counts[address] >= self._most:
                self._waiting.append((connection, address))
                return False
            self._start(connection, address)
            return True

    def end(self, connection: C) -> C | None:
        """Its request is there, or never will be; returns the connection that is received from now on, if one waits.

        A second call for the same request changes nothing.
        """
        with self._lock:
            address = self._addresses.pop(connection, None)
            if address is None:
                return None
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]
            for index, (waiting, its) in enumerate(self._waiting):
                if its == address:
                    del self._waiting[index]
                    self._start(waiting, address)
                    return waiting
            return None

    def waiting(self) -> list[C]:
        """Those that wait, the oldest first."""
        with self._lock:
            return [connection for connection, _ in self._waiting]

    def give_up(self, connection: C) -> bool:
        """Take one out that waits; whether it still did."""
        with self._lock:
            for index, (waiting, _) in enumerate(self._waiting):
                if waiting == connection:
                    del self._waiting[index]
                    return True
            return False

    def is_received(self, connection: C) -> bool:
        """Whether its request is being received."""
        with self._lock:
            return connection in self._addresses

    def is_in_the_way(self, connection: C, *, short: bool) -> bool:
        """Whether its request is not there yet, and others wait: of its own client, or of any if threads are short."""
        with self._lock:
            address = self._addresses.get(connection)
            return address is not None and (short or any(its == address for _, its in self._waiting))

    def _start(self, connection: C, address: str) -> None:
        self._addresses[connection] = address
        self._counts[address] += 1
