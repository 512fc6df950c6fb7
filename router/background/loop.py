"""Runs a thread that takes one turn after another until it is stopped.

Shell (a thread). Its owner gives the turn, which returns when the next one is due.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Loop:
    """A daemon thread: ``start`` it once, ``stop`` it in the end. All methods may be called by any thread.

    An exception in a turn is never swallowed: it ends the thread, and ``alive`` becomes False.

    :param name: the thread's name
    :param turn: takes one turn; returns the seconds until the next one. None: wait until woken
    """

    def __init__(self, name: str, turn: Callable[[], float | None]) -> None:
        self._turn = turn
        self._pause: float | None = 0.0
        self._wakened = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self, pause: float = 0.0) -> None:
        """Start the thread; the first turn comes after ``pause`` seconds. Raises RuntimeError at a second start."""
        self._pause = pause
        self._thread.start()

    def wake(self) -> None:
        """Take the next turn now, or right after the present one."""
        self._wakened.set()

    def stop(self) -> None:
        """Take no further turn. The present one goes on to its end."""
        self._stopping.set()
        self._wakened.set()

    def await_end(self, seconds: float | None = None) -> None:
        """Wait, after ``stop`` and at most ``seconds``, for the thread's end; returns at once if it never started."""
        if self._thread.ident is not None:
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    @property
    def stopping(self) -> bool:
        """Whether ``stop`` was called."""
        return self._stopping.is_set()

    def _run(self) -> None:
        while True:
            self._wakened.wait(self._pause)
            self._wakened.clear()  # before the check of the end: ``stop`` sets both events, the end first
            if self._stopping.is_set():
                return
            self._pause = self._turn()
