"""Spreads ranks over nodes, and the GPUs of a node over its ranks if the site binds them.

Pure: takes and returns numbers.
"""

from __future__ import annotations

from collections.abc import Collection

from router.site.schema import MpiProfile


def is_bound(profile: MpiProfile | None) -> bool:
    """Whether each rank sees only its own share of the node's GPUs."""
    return profile is not None and profile.gpus == "rank"


def is_even(gpus: int, ranks: Collection[int]) -> bool:
    """Whether nodes with these GPUs each, and these numbers of ranks, give each rank the same share.

    Either every rank has the same number of GPUs, or every GPU the same number of ranks.
    """
    if gpus == 1:
        return True
    counts = set(ranks)
    return len(counts) == 1 and all(gpus % count == 0 or count % gpus == 0 for count in counts)


def spread(ranks: int, nodes: int, per_node: int | None) -> list[tuple[int, int]]:
    """How many nodes have how many ranks, largest first: ``per_node`` ranks each, or evenly if it is None."""
    if per_node is not None:
        full, rest = divmod(ranks, per_node)
        shares = [(full, per_node), (1 if rest else 0, rest)]
    else:
        base, extra = divmod(ranks, nodes)
        shares = [(extra, base + 1), (nodes - extra, base)]
    return [(count, ranks) for count, ranks in shares if count]


def share(gpus: int, ranks: int) -> tuple[int, int]:
    """The GPUs of one share, and the ranks that use the share."""
    return max(1, gpus // ranks), max(1, -(-ranks // gpus))
