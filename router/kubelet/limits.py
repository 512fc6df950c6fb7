"""Limits concurrent log streams, in total and per namespace, so that no namespace can use them all.

Pure except for its counters. Used by one thread.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from router.errors import RequestError

STREAMS: Final = 300
"""Log streams at once. Each takes 0.3 MB, mostly for TLS, and 0.6 MB while its client does not read."""

SESSIONS: Final = 60
"""Commands in containers at once, each with a process on the site."""


class Places:
    """The places for streams; one namespace may take half of them.

    :param streams: what takes a place, in the plural, and ``verb`` what is done to it
    """

    def __init__(self, total: int = STREAMS, streams: str = "logs", verb: str = "read") -> None:
        self._total = total
        self._streams, self._verb = streams, verb
        self._each = max(1, total // 2)
        self._taken: Counter[str] = Counter()

    @contextlib.contextmanager
    def place(self, namespace: str) -> Iterator[None]:
        """Take a place for as long as the block lasts.

        :raises RequestError: 429, no place is free
        """
        what = f"{self._streams} are being {self._verb} at once"
        if self._taken.total() >= self._total:
            raise RequestError(429, f"{self._total} {what}, which is the limit; try again later")
        if self._taken[namespace] >= self._each:
            what = f'{self._streams} of namespace "{namespace}" are being {self._verb} at once'
            raise RequestError(
                429, f"{self._each} {what}, which is the limit for one; end some of them, or try again later"
            )
        self._taken[namespace] += 1
        try:
            yield
        finally:
            self._taken[namespace] -= 1
            if not self._taken[namespace]:
                del self._taken[namespace]
