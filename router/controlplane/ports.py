"""Finds free ports.

Shell: binds and closes sockets.
"""

from __future__ import annotations

import random
import socket
from typing import Final

_RANGE: Final = range(10_000, 32_768)
"""Below the ports that Linux gives to outgoing connections, which could take a port while its component restarts."""


def free(count: int, address: str) -> list[int]:
    """``count`` different ports. They are free now, but another process may take one before it is used."""
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            candidate = socket.socket()
            try:
                candidate.bind((address, random.choice(_RANGE)))  # noqa: S311 - no secret
            except OSError:
                candidate.close()
                continue
            held.append(candidate)
        return [one.getsockname()[1] for one in held]
    finally:
        for one in held:
            one.close()
