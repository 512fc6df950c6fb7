"""A container's log by the API server, as ``kubectl logs`` reads it.

Shell (the API, a thread). Only a bounded part is held.
"""

from __future__ import annotations

import codecs
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError

from router.errors import ApiError
from router.kube.client import Api
from router.page.models.loglines import last, latest, shortened

MOST_LINES: Final = 500
"""Lines before the present that are shown."""
_FEWER_LINES: Final = (20, 1)
"""Asked for in turn where more lines are too much to read."""
MOST_TEXT: Final = 256 * 1024
"""Characters of them that are shown."""
MOST_READ: Final = 16 * 1024 * 1024
"""Bytes that are read of one answer."""
_READ_SECONDS: Final = 10.0
_NO_CONTAINER: Final = "is not valid for pod"
"""The API server's words, in an answer that has no other mark."""
_PART: Final = 65536
_PARTS: Final = 64
"""Parts that wait for a slow browser; the log is then read no further."""
_QUIET_SECONDS: Final = 2.0
_SILENT_SECONDS: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Log:
    """The log of one container."""

    namespace: str
    pod: str
    container: str

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return f"/api/v1/namespaces/{quote(self.namespace, safe='')}/pods/{quote(self.pod, safe='')}/log"

    @property
    def command(self) -> str:
        """The command that follows it. Other names than the API's are escaped."""
        return f"kubectl logs -f -n {quote(self.namespace)} {quote(self.pod)} -c {quote(self.container)}"


@dataclass(frozen=True, slots=True)
class Recent:
    """The last lines of a log.

    :param asked: how many were asked for
    :param cut: what of them is left out, as a sentence; empty if all are there
    :param problem: why there are none; ``missing`` if the Pod or its container does not exist
    """

    lines: tuple[str, ...] = ()
    asked: int = MOST_LINES
    cut: str = ""
    problem: str = ""
    missing: bool = False


def recent(api: Api, log: Log) -> Recent:
    """The last lines; fewer where they are too much to read. An answer is held only as far as it is shown.

    The API's ``limitBytes`` would cut the end of the last lines, which is what people look for.
    """
    try:
        for asked in (MOST_LINES, *_FEWER_LINES):
            found = _read(api, log, asked)
            if found.whole:
                break
    except ApiError as error:
        return Recent(problem=error.message, missing=error.status == 404 or _NO_CONTAINER in error.message)
    except HTTPError as error:
        return Recent(problem=f"the log was cut: {' '.join(str(error).split())}")
    lines = found.text.removesuffix("\n").split("\n") if found.text else []
    return Recent(tuple(lines), asked, _left_out(found, asked))


@dataclass(frozen=True, slots=True)
class _End:
    """What was read of the last lines. ``whole``: up to the log's end; ``cut``: earlier ones are left out."""

    text: str
    whole: bool
    cut: bool


def _left_out(found: _End, asked: int) -> str:
    much = f"over {MOST_READ >> 20} MiB"
    if not found.whole:
        return f"Its end is missing: it is {much}, or comes too slowly."
    if found.cut:
        return f"Of these, the earlier ones are left out: {MOST_TEXT >> 10} KiB are shown."
    return f"More of them are {much}, or come too slowly." if asked < MOST_LINES else ""


def _read(api: Api, log: Log, lines: int) -> _End:
    """The end of this many last lines, as far as it comes within the bounds."""
    answer = api.text(log.path, seconds=_READ_SECONDS, container=log.container, tailLines=lines)
    text, whole, cut, until = "", False, False, time.monotonic() + _READ_SECONDS

    def parts() -> Iterator[str]:
        nonlocal whole
        decode, read = _decoder(), 0
        while read <= MOST_READ and time.monotonic() < until:
            part = answer.read1(_PART)
            if not part:
                whole = True
                return
            read += len(part)
            yield decode(part)

    with contextlib.closing(answer):
        for piece in shortened(parts()):
            longer = latest(text + piece)
            text = last(longer, MOST_TEXT)
            cut = cut or len(text) < len(longer)
    return _End(text, whole, cut)


def _decoder() -> Callable[[bytes], str]:
    """Decodes parts, which may end within a letter."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode


class Follower:
    """Follows a log in a thread of its own, so that a browser that has left a silent log is noticed.

    Used in a ``with`` block; its end closes the connection.
    """

    def __init__(self, api: Api, log: Log) -> None:
        self._api = api
        self._log = log
        self._parts: queue.Queue[tuple[str, str]] = queue.Queue(_PARTS)
        self._answer: urllib3.BaseHTTPResponse | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._answer is not None:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                self._answer.shutdown()  # wakes the reader; fails if all was read

    def parts(self) -> Iterator[tuple[str, str]]:
        """Parts of the log (``log``), an empty one after each two seconds of silence, a problem (``trouble``)."""
        while True:
            try:
                kind, text = self._parts.get(timeout=_QUIET_SECONDS)
            except queue.Empty:
                yield "", ""
                continue
            if kind == "end":
                return
            yield kind, text

    def _read(self) -> None:
        try:
            # Waiting for the beginning of an answer cannot be ended, so this finds out whether one comes.
            self._api.text(self._log.path, seconds=_READ_SECONDS, container=self._log.container, tailLines=0).close()
            options = {"container": self._log.container, "tailLines": MOST_LINES, "follow": "true"}
            answer = self._answer = self._api.text(self._log.path, seconds=_SILENT_SECONDS, **options)
            with contextlib.closing(answer):
                for piece in shortened(self._answered(answer)):
                    self._put("log", piece)
        except ApiError as error:
            self._put("trouble", error.message)
        except (HTTPError, OSError, ValueError, AttributeError) as error:  # the last if shut down by another thread
            if not self._ended.is_set():
                self._put("trouble", f"the log was cut: {' '.join(str(error).split())}")
        self._put("end", "")

    def _answered(self, answer: urllib3.BaseHTTPResponse) -> Iterator[str]:
        decode = _decoder()
        while not self._ended.is_set() and (part := answer.read1(_PART)):
            yield decode(part)

    def _put(self, kind: str, text: str) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(queue.Full):
                self._parts.put((kind, text), timeout=1)
                return
