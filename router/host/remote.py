"""A host where a site helper does what the agent asks: another machine, or another user of this one.

Shell. One helper process serves all threads; it is started with the first request and again, with growing pauses,
after it was lost. What only looks is asked once more then; what changes something never: whether it was done is not
known, and the caller decides.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath
from typing import Final

from router import layout, podfiles
from router.host import MOST_READ, Ended, HostUnavailable, Status, sentences
from router.host.beneath import below
from router.host.eventloop import EventLoop
from router.host.framing import Message
from router.host.link import Link, Opener
from router.host.sitehelper import FILE_MODE

_BLOCK: Final = 4 << 20
"""Bytes that one request reads at most."""
_LOOKS: Final = frozenset({"names", "status", "read", "clock"})
_ENDING: Final = 5.0
"""Seconds that ``close`` waits for a site helper to end."""
_VALUE: Final = -1
"""Instead of an errno: the request itself was wrong."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds: to connect and to start the site helper; for one file operation; the longest pause between tries."""

    connect: float = 30.0
    file: float = 60.0
    pause: float = 60.0


class RemoteHost:
    """See ``router.host.Host``.

    :param root: the site's directory of this cluster and user; made on the first use
    :param opener: the way to that user's site helper
    """

    def __init__(self, root: PurePath | str, opener: Opener, loop: EventLoop, patience: Patience | None = None) -> None:
        self._root = PurePosixPath(root)
        self._opener = opener
        self._loop = loop
        self._patience = patience or Patience()
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._failure: HostUnavailable | None = None
        self._failures = 0
        self._not_before = 0.0

    def check(self) -> None:
        """See ``Host``."""
        self._linked()

    def close(self) -> None:
        """End the site helper; the next request starts another."""
        with self._lock:
            link, self._link = self._link, None
        if link is not None:
            link.drop(HostUnavailable(f"{self._opener.place}: the agent has closed the connection"))
            link.gone.wait(_ENDING)

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:
        """See ``Host``."""
        asked = {"do": "run", "argv": list(argv)}
        try:
            message = self._linked().ask(asked, stdin, seconds)
        except OSError as error:
            return Ended(None, b"", str(error).encode(errors="surrogateescape"))
        if "error" in message.head:
            return Ended(None, b"", f"{self._opener.place}: {argv[0]} {message.head['error']}".encode())
        returncode, length = message.head["value"]
        return Ended(returncode, message.body[:length], message.body[length:])

    def names(self, path: PurePath | str) -> list[str]:
        """See ``Host``."""
        body = self._ask("names", path).body
        return [os.fsdecode(name) for name in body.split(b"\0")] if body else []

    def status(self, path: PurePath | str) -> Status | None:
        """See ``Host``."""
        value = self._ask("status", self._named(path)).head["value"]
        return None if value is None else Status(*value)

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
            block = self._ask("read", named, offset=offset, limit=wanted).body
            blocks.append(block)
            offset, limit = offset + len(block), limit - len(block)
            if limit <= 0 or len(block) < wanted:
                return b"".join(blocks)

    def put(self, path: PurePath | str, content: bytes) -> None:
        """See ``Host``."""
        self._ask("put", self._named(path), content)

    def make_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("make_directory", path)

    def write_pod(self, directory: PurePath | str, staged: podfiles.Staged) -> bool:
        """See ``Host``."""
        below = [path for path in staged.files if path.endswith("/")]
        files = {path: content for path, content in staged.files.items() if not path.endswith("/")}
        message = self._ask(
            "write_pod",
            self._named(directory),
            b"".join(files.values()),
            directories=[*podfiles.SUBDIRECTORIES, *below],
            files=[(path, len(content), staged.modes.get(path, FILE_MODE)) for path, content in files.items()],
        )
        return bool(message.head["value"])

    def link_claim(self, directory: PurePath | str, token: str) -> bool:
        """See ``Host``."""
        message = self._ask("link_claim", PurePosixPath(directory) / layout.CLAIM, token=token)
        return bool(message.head["value"])

    def remove(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), what="file")

    def remove_directory(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), what="directory")

    def remove_tree(self, path: PurePath | str) -> None:
        """See ``Host``."""
        self._ask("remove", self._named(path), what="tree")

    def clock(self) -> float:
        """See ``Host``."""
        return float(self._ask("clock", self._root).head["value"])

    def _named(self, path: PurePath | str) -> PurePath | str:
        if not below(self._root, path):
            raise ValueError(f"{str(path)!r} is the directory itself")
        return path

    def _ask(self, operation: str, path: PurePath | str, content: bytes = b"", **fields: object) -> Message:
        below(self._root, path)
        asked = {"do": operation, "path": os.fsencode(path).decode("utf-8", "surrogateescape"), **fields}
        begun = time.monotonic()
        link = self._linked()
        try:
            message = link.ask(asked, content, self._patience.file)
        except HostUnavailable:
            cut = link.lost is not None and time.monotonic() - begun < self._patience.file
            if operation not in _LOOKS or not cut:
                raise
            message = self._linked().ask(asked, content, self._patience.file)
        return self._judged(message, path)

    def _judged(self, message: Message, path: PurePath | str) -> Message:
        if "error" not in message.head:
            return message
        number, words = int(message.head["errno"]), str(message.head["error"])
        if number == _VALUE:
            raise ValueError(words)
        if number == errno.ETIMEDOUT:
            raise HostUnavailable(f"{self._opener.place}: {path}: the request {words}; it is tried again")
        if number == 0:
            raise OSError(f"{path}: {words}")
        raise OSError(number, sentences.of_errno(number, words), str(path))

    def _linked(self) -> Link:
        """The site helper that there is, or a new one. HostUnavailable."""
        with self._lock:
            if self._link is not None and self._link.lost is None:
                return self._link
            if self._failure is not None and time.monotonic() < self._not_before:
                raise self._failure.again()
            self._link = link = Link(self._loop, self._opener.place)
            try:
                link.begin(self._opener, str(self._root), self._patience.connect)
            except HostUnavailable as error:
                self._fail(link.drop(error))
                raise
            self._failure, self._failures = None, 0
            return link

    def _fail(self, error: HostUnavailable) -> None:
        self._failures += 1
        pause = min(2.0 ** (self._failures - 1), self._patience.pause)
        self._failure, self._not_before = error, time.monotonic() + pause * random.uniform(0.5, 1)  # noqa: S311
