"""A container's log by the API server, as ``kubectl logs`` reads it.

Shell (the API, a thread). Never more than a bounded part is held.
"""

from __future__ import annotations

import codecs
import contextlib
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote

import urllib3
from urllib3.exceptions import HTTPError

from router.errors import ApiError
from router.kube.client import Api

MOST_LINES: Final = 500
"""Lines before the present that are shown."""
MOST_BYTES: Final = 256 * 1024
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


def recent(api: Api, log: Log) -> tuple[str, str]:
    """The last lines, and why there are none; the first one may be cut."""
    try:
        answer = api.text(log.path, seconds=30, container=log.container, tailLines=MOST_LINES, limitBytes=MOST_BYTES)
        with contextlib.closing(answer):
            return answer.read(MOST_BYTES).decode(errors="replace"), ""
    except ApiError as error:
        return "", error.message
    except HTTPError as error:
        return "", f"the log was cut: {' '.join(str(error).split())}"


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
            options = {"container": self._log.container, "tailLines": MOST_LINES, "follow": "true"}
            answer = self._answer = self._api.text(self._log.path, seconds=_SILENT_SECONDS, **options)
            with contextlib.closing(answer):
                decode = codecs.getincrementaldecoder("utf-8")("replace").decode  # a part may end within a letter
                while not self._ended.is_set() and (part := answer.read1(_PART)):
                    self._put("log", decode(part))
        except ApiError as error:
            self._put("trouble", error.message)
        except (HTTPError, OSError, ValueError, AttributeError) as error:  # the last if shut down by another thread
            if not self._ended.is_set():
                self._put("trouble", f"the log was cut: {' '.join(str(error).split())}")
        self._put("end", "")

    def _put(self, kind: str, text: str) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(queue.Full):
                self._parts.put((kind, text), timeout=1)
                return
