"""Chooses the connection that a full port gives up, so that one client cannot keep the others out.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence


def surplus(addresses: Sequence[str]) -> int:
    """The index of the connection to close: the oldest one of the client that has most of them.

    :param addresses: of the connections' clients, the oldest connection first; at least one
    """
    counts = Counter(addresses)
    most = max(counts.values())
    return next(index for index, address in enumerate(addresses) if counts[address] == most)
