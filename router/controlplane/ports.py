"""Ports that nobody listens on.

Shell: binds and closes sockets.
"""

from __future__ import annotations

import random
import socket
from typing import Final

_RANGE: Final = range(10_000, 32_768)
"""Below the ports that Linux gives to outgoing connections: one of those could take a port while its owner is being
restarted."""


def free(count: int, address: str) -> list[int]:
    """So many ports that differ; free now, so that whoever uses them must still expect to be too late."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            candidate = socket.socket()
            try:
                candidate.bind((address, random.choice(_RANGE)))  # noqa: S311 - a free number, no secret
            except OSError:
                candidate.close()
                continue
            held.append(candidate)
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
