"""Follows one Job for a page: says when it is to be made anew, which changes of other Jobs are no reason for.

Shell (the API, time).
"""

from __future__ import annotations

import time
from typing import Final

from router.page.jobobjects import Found
from router.page.models.parts import mark
from router.page.reader import Reader

_LEAST: Final = 1.0
"""Seconds between two looks at the view."""


class Following:
    """One Job for a page that follows it."""

    def __init__(self, reader: Reader, namespace: str, name: str) -> None:
        self._reader = reader
        self._place = (namespace, name)
        self._seen = (-1, 0)

    def objects(self, *, asked_for: bool) -> Found:
        """The Job's objects of now, or of a moment ago. Raises ApiError without an answer."""
        now = mark(self._reader.sight(), *self._place)
        return self._reader.looks.find(*self._place, now, asked_for=asked_for)

    def await_news(self, version: int, seconds: float) -> int:
        """Wait at most so long until the Job is to be read again; like ``Reader.await_news``."""
        end = time.monotonic() + seconds
        while True:
            before, version = version, self._reader.await_news(version, min(_LEAST, seconds))
            if version < 0 or time.monotonic() >= end or self._is_due(version):
                return version
            if version != before:  # others have changed, and may do so many times a second
                time.sleep(_LEAST)

    def _is_due(self, version: int) -> bool:
        if version != self._seen[0]:
            self._seen = (version, mark(self._reader.sight(), *self._place))
        return self._reader.looks.is_due(*self._place, self._seen[1])
