"""How many streams there may be at once: in all, and of one namespace, so that no namespace takes them all.

Pure but for what it remembers. Used by one thread.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from router.errors import RequestError

STREAMS: Final = 300
"""Streams of logs at once. One takes 0.3 MB, most of it TLS's, and 0.6 MB while its client does not read."""


class Places:
    """The places for streams; half of them at most are one namespace's."""

    def __init__(self, total: int = STREAMS) -> None:
        self._total = total
        self._each = max(1, total // 2)
        self._taken: Counter[str] = Counter()

    @contextlib.contextmanager
    def place(self, namespace: str) -> Iterator[None]:
        """Take a place for as long as the block lasts.

        :raises RequestError: 429, there is none
        """
        if self._taken.total() >= self._total:
            raise RequestError(429, f"{self._total} logs are being read at once, which is the limit; try again later")
        if self._taken[namespace] >= self._each:
            raise RequestError(
                429,
                f'{self._each} logs of namespace "{namespace}" are being read at once, which is the limit for one; '
                "end some of them, or try again later",
            )
        self._taken[namespace] += 1
        try:
            yield
        finally:
            self._taken[namespace] -= 1
            if not self._taken[namespace]:
                del self._taken[namespace]
