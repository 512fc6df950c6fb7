"""Ends a process by signals, whatever its main thread does just then.

Shell (signals, a thread).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Collection, Sequence


def call_at(numbers: Collection[signal.Signals], then: Callable[[], object]) -> Sequence[int]:
    """Have ``then`` called once a signal comes, in a thread of its own. Only the main thread may call this.

    A handler must not raise, as Python drops what is raised while an object is being freed. It must not set a
    ``threading.Event`` either: that waits for ever where the main thread has just taken the event's lock.

    :return: the signals that came, which grows; the main thread always sees all of them
    """
    came: list[int] = []
    read, write = os.pipe()
    os.set_blocking(write, False)

    def wait() -> None:
        os.read(read, 1)
        then()

    signal.set_wakeup_fd(write, warn_on_full_buffer=False)  # first, or a signal would wake nobody
    for number in numbers:
        signal.signal(number, lambda which, _: came.append(which))
    threading.Thread(target=wait, name="signals", daemon=True).start()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return came


def hold(numbers: Collection[signal.Signals]) -> None:
    """Let signals wait for the program that takes this one's place, until it calls ``call_at``.

    In this program only the calling thread is spared: what other threads get is among the signals that came.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
