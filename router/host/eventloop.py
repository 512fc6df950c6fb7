"""One event loop in a thread of its own, for the connections and site helpers of a site's users.

Shell (a thread). The agent's threads give it work and wait, each for a limited time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple

from router.host import HostUnavailable

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
_ENDING: Final = 5.0
"""Seconds that ``stop`` waits for the loop's thread."""

_TURNS: Final = 10
"""Turns of the loop after its end, in which aborted sockets close."""


class EventLoop:
    """An event loop that starts with the first request; thread-safe. Its own thread must not call ``run``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """The coroutine's value; raises what it raises. After ``seconds`` it is cancelled: TimeoutError."""
        with self._lock:
            if self._stopped:
                work.close()
                raise HostUnavailable("the agent ends")
            future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError from None
        except concurrent.futures.CancelledError:
            raise TimeoutError from None

    def call(self, function: Callable[[*Ts], object], *arguments: *Ts) -> None:
        """Call a function in the loop's thread, soon. Has no effect after ``stop``."""
        with self._lock:
            if self._loop is not None and not self._stopped:
                self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """End the loop, its remaining tasks, and its thread."""
        with self._lock:
            self._stopped = True
            if self._loop is not None and self._thread is not None and self._thread.is_alive():
                self._loop.call_soon_threadsafe(self._loop.stop)
            thread = self._thread
        if thread is not None:
            thread.join(_ENDING)

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=_serve, args=(self._loop,), name="hosts", daemon=True)
            self._thread.start()
        return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_ENDING / 2))
        for _ in range(_TURNS):
            loop.run_until_complete(asyncio.sleep(0))
    finally:
        loop.close()
