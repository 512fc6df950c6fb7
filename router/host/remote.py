"""A host that a site helper serves: another machine, or another user of this one.

Shell (threads, a clock, chance). One helper process serves all threads. The first request starts it; after a loss it is
started again, with growing pauses. A read-only request is then repeated once. A request that changes something is never
repeated, as it may have been done; the caller decides.
"""

from __future__ import annotations

import errno
import math
import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath, PurePosixPath
from typing import Final, TypeVar, cast

from router.background.backoff import BackOff
from router.host import MOST_READ, Ended, HostUnavailable, Piped, Status, answers, sentences
from router.host.answers import Failure
from router.host.beneath import below
from router.host.carrying import RemotePiped, Way
from router.host.eventloop import EventLoop
from router.host.framing import FramingError, Message
from router.host.link import Link
from router.host.sitehelper import FILE_MODE
from router.pod import files as podfiles
from router.pod import layout

_BLOCK: Final = 4 << 20
"""Bytes that one ``read`` request returns at most."""
_FIRST_PAUSE: Final = 1.0
_LOOKS: Final = frozenset({"names", "status", "read", "clock"})
_ENDING: Final = 5.0
"""Seconds that ``close`` waits for a site helper to end."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: to connect and start the site helper; for one file operation; the longest pause between tries."""

    connect: float = 30.0
    file: float = 60.0
    pause: float = 60.0


class _Uses:
    """Counts the requests in progress, and keeps the time when the last one ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._last = -math.inf

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count -= 1
            self._last = time.monotonic()

    def is_used(self, seconds: float) -> bool:
        """Whether a request is in progress, or ended less than ``seconds`` ago."""
        with self._lock:
            return self._count > 0 or time.monotonic() - self._last < seconds


class RemoteHost:
    """See ``router.host.Host``.

    :param root: the site's directory of this cluster and user; made on the first use
    :param opener: starts that user's site helper
    :param make: False for read-only use: the directory stays as it is
    """

    def __init__(
        self,
        root: PurePath | str,
        opener: Way,
        loop: EventLoop,
        patience: Patience | None = None,
        *,
        make: bool = True,
    ) -> None:
        self._root = PurePosixPath(root)
        self._make = make
        self._opener = opener
        self._loop = loop
        self._patience = patience or Patience()
        self._back_off = BackOff(_FIRST_PAUSE, self._patience.pause)
        self._lock = threading.Lock()
        self._uses = _Uses()
        self._link: Link | None = None
        self._failure: HostUnavailable | None = None
        self._failures = 0
        self._not_before = 0.0

    def check(self) -> None:
        """See ``Host``."""
        with self._uses:
            self._linked()

    def close(self) -> None:
        """End the site helper; the next request starts a new one."""
        await_gone([self.cut()])

    def cut(self) -> Link | None:
        """Have the site helper end, also one that is being connected to, and wait for nothing."""
        link, self._link = self._link, None
        if link is not None:
            link.drop(HostUnavailable(f"{self._opener.place}: the agent has closed the connection"))
        return link

    def rest(self, seconds: float) -> None:
        """See ``Host``. It has no effect while a connection is being made or a request is in progress."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            link = self._link
            if link is None or self._uses.is_used(seconds):
                return
            self._link = None
        finally:
            self._lock.release()
        link.drop(HostUnavailable(f"{self._opener.place}: the agent has closed the connection, as nothing was asked"))

    def pipe(self, argv: Sequence[str]) -> Piped:
        """See ``Host``."""
        opener = self._opener
        return RemotePiped(self._loop, opener.place, opener.carrier, str(self._root), argv)

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        """See ``Host``."""
        asked = {"do": "run", "argv": list(argv)}
        try:
            with self._uses:
                link = self._linked()
                failure, done = self._read(link, link.ask(asked, stdin, seconds), answers.ended)
        except OSError as error:
            return Ended(None, b"", str(error).encode(errors="surrogateescape"))
        if failure is not None:
            return Ended(None, b"", f"{self._opener.place}: {argv[0]} {failure.words}".encode(errors="surrogateescape"))
        return done

    def names(self, path: PurePath | str) -> list[str]:
        """See ``Host``."""
        return [os.fsdecode(name) for name in self._ask("names", path, answers.names)]

    def status(self, path: PurePath | str) -> Status | None:
        """See ``Host``."""
        return self._ask("status", self._named(path), answers.status)

    def size(self, path: PurePath | str) -> int | None:
        """See ``Host``."""
        found = self.status(path)
        return found.size if found is not None and found.kind == "file" else None

    def modified(self, path: PurePath | str) -> float | None:
        """See ``Host``."""
        found = self.status(path)
        return None if found is None else found.modified

    def read(self, path: PurePath | str, offset: int = 0, limit: int = MOST_READ) -> bytes:
        """See ``Host``."""
        blocks, named = [], self._named(path)
        while True:
            wanted = min(limit, _BLOCK)
            block = self._ask("read", named, partial(answers.block, wanted=wanted), offset=offset, limit=wanted)
            blocks.append(block)
            offset, limit = offset + len(block), limit - len(block)
            if limit <= 0 or len(block) < wanted:
                return b"".join(blocks)

    def put(self, path: PurePath | str, content: bytes) -> None:
        """See ``Host``."""
        self._ask("put", self._named(path), answers.nothing, content)

    def make_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("make_directory", path, answers.nothing)

    def write_pod(self, directory: PurePath | str, staged: podfiles.Staged) -> bool:
        """See ``Host``."""
        for name in staged.files:
            podfiles.relative(name)
        below = [path for path in staged.files if path.endswith("/")]
        files = {path: content for path, content in staged.files.items() if not path.endswith("/")}
        return self._ask(
            "write_pod",
            self._named(directory),
            answers.flag,
            b"".join(files.values()),
            directories=[*podfiles.SUBDIRECTORIES, *below],
            files=[(path, len(content), staged.modes.get(path, FILE_MODE)) for path, content in files.items()],
        )

    def link_claim(self, directory: PurePath | str, token: str) -> bool:
        """See ``Host``."""
        return self._ask("link_claim", PurePosixPath(directory) / layout.CLAIM, answers.flag, token=token)

    def remove(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), answers.nothing, what="file")

    def remove_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), answers.nothing, what="directory")

    def remove_tree(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), answers.nothing, what="tree")

    def clock(self) -> float:
        """See ``Host``."""
        return self._ask("clock", self._root, answers.clock)

    def _named(self, path: PurePath | str) -> PurePath | str:
        if not below(self._root, path):
            raise ValueError(f"{str(path)!r} is the directory itself")
        return path

    def _ask(
        self,
        operation: str,
        path: PurePath | str,
        read: Callable[[Message], _T],
        content: bytes = b"",
        **fields: object,
    ) -> _T:
        below(self._root, path)
        asked = {"do": operation, "path": os.fsencode(path).decode("utf-8", "surrogateescape"), **fields}
        with self._uses:
            link, message = self._answered(asked, content)
        failure, value = self._read(link, message, read)
        if failure is not None:
            raise self._error(failure, path)
        return value

    def _answered(self, asked: Mapping[str, object], content: bytes) -> tuple[Link, Message]:
        """The answer, and the link that gave it. Repeats a read-only request after a cut. Raises HostUnavailable."""
        begun = time.monotonic()
        link = self._linked()
        try:
            message = link.ask(asked, content, self._patience.file)
        except HostUnavailable:
            cut = link.lost is not None and time.monotonic() - begun < self._patience.file
            if asked["do"] not in _LOOKS or not cut:
                raise
            link = self._linked()
            message = link.ask(asked, content, self._patience.file)
        return link, message

    def _read(self, link: Link, message: Message, read: Callable[[Message], _T]) -> tuple[Failure | None, _T]:
        """The answer's failure or value. Drops the link and raises HostUnavailable if the answer is malformed."""
        try:
            failure = answers.failure(message)
            return failure, cast("_T", None) if failure is not None else read(message)
        except FramingError as error:
            raise link.drop(sentences.no_helper(self._opener.place, str(error))) from None

    def _error(self, failure: Failure, path: PurePath | str) -> OSError:
        number, words = failure.number, failure.words
        if number == errno.ETIMEDOUT:
            return HostUnavailable(f"{self._opener.place}: {path}: the request {words}; it is tried again")
        if number in (0, answers.NOT_UNDERSTOOD):
            return OSError(f"{path}: {words}")
        return OSError(number, sentences.of_errno(number, words), str(path))

    def _linked(self) -> Link:
        """The link to the running site helper, or to a new one. Raises HostUnavailable."""
        with self._lock:
            link = self._link
            if link is not None and link.lost is None:
                return link
            if self._failure is not None and time.monotonic() < self._not_before:
                raise self._failure.again()
            self._link = link = Link(self._loop, self._opener.place)
            try:
                link.begin(self._opener, str(self._root), self._patience.connect, make=self._make)
            except HostUnavailable as error:
                self._fail(link.drop(error))
                raise
            self._failure, self._failures = None, 0
            return link

    def _fail(self, error: HostUnavailable) -> None:
        self._failures += 1
        pause = self._back_off.after(self._failures)
        self._failure, self._not_before = error, time.monotonic() + pause * random.uniform(0.5, 1)  # noqa: S311


def await_gone(links: Sequence[Link | None]) -> None:
    """Wait some seconds for the ends of site helpers that were cut, of all together."""
    until = time.monotonic() + _ENDING
    for link in links:
        if link is not None:
            link.gone.wait(max(0.0, until - time.monotonic()))
