"""Directories that follow Secrets and ConfigMaps, as a kubelet has them follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def following(sync: Callable[[], object], seconds: float) -> Iterator[None]:
    """Take over what changed, as often as this, in a thread of its own."""
    ended = threading.Event()

    def follow() -> None:
        while not ended.wait(seconds):
            sync()

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
