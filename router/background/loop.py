"""A thread of its own that takes one turn after another until it is stopped.

Shell (a thread). What a turn is, and when the next one is due, is its owner's to say.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Loop:
    """A daemon thread: ``start`` it once, ``stop`` it in the end. All methods may be called by any thread.

    An exception in a turn ends the thread, which then shows as not ``alive``; it is never swallowed.

    :param name: the thread's
    :param turn: takes one turn; returns the seconds until the next one, None: until it is woken
    """

    def __init__(self, name: str, turn: Callable[[], float | None]) -> None:
        self._turn = turn
        self._pause: float | None = 0.0
        self._wakened = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, pause: float = 0.0) -> None:
        """Begin; the first turn comes after so many seconds. RuntimeError where it was started before."""
        self._pause = pause
        self._thread.start()

    def wake(self) -> None:
        """Take the next turn now, or at once after the one that is being taken."""
        self._wakened.set()

    def stop(self) -> None:
        """Take no further turn. One that is being taken goes on to its end."""
        self._stopping.set()
        self._wakened.set()

    def await_end(self, seconds: float | None = None) -> None:
        """Wait until no turn is taken any more, after ``stop``, at most so long; at once where it never began."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        """Whether it was stopped."""
        return self._stopping.is_set()

    def _run(self) -> None:
        while True:
            self._wakened.wait(self._pause)
            self._wakened.clear()  # before the look at the end: whoever stops it sets both, the end first
            if self._stopping.is_set():
                return
            self._pause = self._turn()
