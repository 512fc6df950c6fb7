"""Equal nodes with slots, and what of them is free.

Pure, with a state. A slot is a core, or the same share of a node's memory or GPUs. The parts of one job are on
different nodes, as a script asks for them (``--nodes``, ``place=scatter``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from router.values import unchanging

Placement = tuple[tuple[int, int], ...]
"""Nodes and the slots taken on each."""


@unchanging
class Needs:
    """What a job needs: ``parts`` are numbers of nodes with the slots on each, the largest share first.

    :param slots: of all its nodes
    """

    parts: tuple[tuple[int, int], ...]
    nodes: int
    slots: int


def needs(shares: Mapping[int, int]) -> Needs:
    """Of a job that takes so many slots (the keys) on so many nodes each."""
    parts = tuple([(shares[slots], slots) for slots in sorted(shares, reverse=True)])
    return Needs(parts, sum(shares.values()), sum([count * slots for count, slots in parts]))


class Nodes:
    """Nodes of one size. Placing takes the fullest nodes that suffice, and of these always the same."""

    def __init__(self, count: int, slots: int) -> None:
        self.count, self.slots = count, slots
        self.free = [slots] * count
        self.total = count * slots
        self._at: list[dict[int, None]] = [{} for _ in range(slots)] + [dict.fromkeys(range(count))]

    @property
    def idle(self) -> int:
        """How many nodes are all free."""
        return len(self._at[self.slots])

    def holds(self, needs: Needs) -> bool:
        """Whether the job would fit if nothing else ran."""
        return needs.nodes <= self.count and needs.parts[0][1] <= self.slots

    def fits(self, needs: Needs) -> bool:
        """Whether the job fits now."""
        wanted = 0
        for count, each in needs.parts:
            wanted += count
            if sum(map(len, self._at[each:])) < wanted:
                return False
        return True

    def place(self, needs: Needs) -> Placement:
        """Take what the job needs, which must fit."""
        taken: list[tuple[int, int]] = []
        used: set[int] = set()
        for count, each in needs.parts:
            left = count
            for free in range(each, self.slots + 1):
                chosen = [node for node in self._at[free] if node not in used][:left]
                taken += [(node, each) for node in chosen]
                used.update(chosen)
                left -= len(chosen)
                if not left:
                    break
        return self.take(taken)

    def take(self, taken: Iterable[tuple[int, int]]) -> Placement:
        """Take these slots of these nodes."""
        found = tuple(taken)
        for node, each in found:
            self._move(node, -each)
        return found

    def give_back(self, placement: Placement) -> None:
        """Free what was taken."""
        for node, each in placement:
            self._move(node, each)

    def _move(self, node: int, change: int) -> None:
        before = self.free[node]
        del self._at[before][node]
        self.free[node] = before + change
        self._at[before + change][node] = None
        self.total += change


def chosen(free: Sequence[int], needs: Needs) -> Placement | None:
    """The fullest nodes with enough free slots; None if they are too few."""
    order = sorted((value, node) for node, value in enumerate(free) if value >= needs.parts[-1][1])
    found: list[tuple[int, int]] = []
    used: set[int] = set()
    for count, each in needs.parts:
        some = [node for value, node in order if value >= each and node not in used][:count]
        if len(some) < count:
            return None
        found += [(node, each) for node in some]
        used.update(some)
    return tuple(found)
