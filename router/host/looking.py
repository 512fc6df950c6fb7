"""Runs the read-only commands of a site's observer, each in an ssh session or process of its own.

Shell (an event loop), except ``looks``. The observer may see every user's jobs, and as a batch operator it could end
them too. So it runs only read-only commands, without a site helper and files. This module enforces that, and a site
may enforce it again (a forced command of sshd, a rule of sudo).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from router.host import Ended, HostUnavailable, sentences
from router.host.eventloop import EventLoop
from router.host.link import Opener
from router.host.sentences import HelperPlace

COMMANDS: Final = "squeue, sacct, scontrol show, qstat, pbsnodes"
"""The commands that an observer runs, as text."""
_LOOKING: Final = frozenset({"squeue", "sacct", "qstat", "pbsnodes"})
_SHOWING: Final = ("scontrol", "show")
_MOST: Final = 64 << 20
"""Bytes of an answer; 10,000 jobs are about 3 MB."""
_CONNECT: Final = 35.0
"""Seconds for the connection and the login, in addition to the command's own time."""


def looks(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a read-only command, without its environment. Raises ValueError for any other command."""
    words = tuple(argv)
    if words[:2] == ("env", "-i"):
        start = next((number for number, word in enumerate(words[2:], 2) if "=" not in word), len(words))
        words = words[start:]
    if words[:1] and (words[0] in _LOOKING or words[:2] == _SHOWING):
        return words
    raise ValueError(f"an observer only looks ({COMMANDS}): {' '.join(words)!r}")


class Looker:
    """A ``router.host.Runner``; thread-safe. Raises ValueError for a command that is not read-only.

    :param opener: returns the Opener that starts the command with these words
    """

    def __init__(self, place: HelperPlace, loop: EventLoop, opener: Callable[[Sequence[str]], Opener]) -> None:
        self._place = place
        self._loop = loop
        self._opener = opener

    def run(self, argv: Sequence[str], seconds: float, stdin: bytes = b"") -> Ended:  # noqa: ARG002 - none of them reads
        """See ``Runner``."""
        looks(argv)
        try:
            return self._judged(self._loop.run(self._run(argv, seconds), seconds + _CONNECT))
        except TimeoutError:
            return self._nothing(f"{self._place}: no connection within {_CONNECT:g} seconds")
        except HostUnavailable as error:
            return self._nothing(str(error))

    async def _run(self, argv: Sequence[str], seconds: float) -> Ended:
        heard = _Heard()
        channel = await self._opener(argv).open(heard)
        silent = True
        try:
            async with asyncio.timeout(seconds):
                returncode = await heard.over
            silent = False
        except TimeoutError:
            return self._nothing(f"{self._place}: {argv[0]} gave no answer within {seconds:g} seconds")
        finally:
            channel.close(doubtful=silent)
        if heard.too_much:
            return self._nothing(f"{self._place}: the answer has more than {_MOST >> 20} MiB")
        return Ended(returncode, bytes(heard.stdout), bytes(heard.stderr))

    def _judged(self, done: Ended) -> Ended:
        """The same result, with clearer text for known errors of sudo and the login shell."""
        words = done.stderr.decode(errors="replace")
        if done.returncode and (known := sentences.known_complaint(self._place, words)):
            return Ended(done.returncode, done.stdout, known.encode())
        # Drops sudo's warnings (`unable to resolve host`): later the text is read as the batch system's.
        kept = [line for line in words.splitlines() if done.returncode or not line.startswith("sudo: ")]
        return Ended(done.returncode, done.stdout, "\n".join(kept).encode())

    def _nothing(self, words: str) -> Ended:
        return Ended(None, b"", words.encode(errors="surrogateescape"))


class _Heard:
    """Collects a command's output and its end; used only in the event loop's thread."""

    def __init__(self) -> None:
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.too_much = False
        self.over: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()

    def received(self, data: bytes) -> None:
        """See ``router.host.link.Listener``."""
        self._kept(self.stdout, data)

    def complained(self, data: bytes) -> None:
        """See ``Listener``."""
        self._kept(self.stderr, data)

    def ended(self, code: int | None) -> None:
        """See ``Listener``."""
        if not self.over.done():
            self.over.set_result(code)

    def _kept(self, kept: bytearray, data: bytes) -> None:
        if len(kept) + len(data) > _MOST:
            self.too_much = True
            self.ended(None)
        else:
            kept += data
