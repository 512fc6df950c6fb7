from __future__ import annotations

from typing import Any

import pytest

from router import names
from router.operating.policies import Holder, holders, sentence
from router.policy.inforce import InForce, document

NOW = 1_790_000_000.0
OURS, THEIRS = "a1" * 32, "b2" * 32


def _node(digest: str | None) -> dict[str, Any]:
    return {"metadata": {"annotations": {names.NODE_POLICY: digest} if digest else None}}


def test_replicas_then_sites_each_once() -> None:
    state = {"two.json": document(InForce(NOW, THEIRS, "wrong")), "old.json": document(InForce(NOW - 900, OURS))}
    nodes = [("hpc2", _node(OURS)), ("hpc1", _node(THEIRS)), ("hpc1", _node(THEIRS)), ("hpc3", _node(None))]

    assert holders(state, nodes, NOW) == (
        Holder("webhook", "two", THEIRS, "wrong"),
        Holder("agent", "hpc1", THEIRS),
        Holder("agent", "hpc2", OURS),
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ((), "nobody says which policy is in force"),
        (
            (Holder("webhook", "a", OURS), Holder("webhook", "b", OURS), Holder("agent", "hpc1", OURS)),
            "all have a1a1a1a1a1a1 in force (2 replicas of the webhook, 1 site)",
        ),
        (
            (Holder("webhook", "a", OURS), Holder("agent", "hpc1", THEIRS)),
            "not the same everywhere: webhook a a1a1a1a1a1a1, agent hpc1 b2b2b2b2b2b2",
        ),
    ],
)
def test_one_line(found: tuple[Holder, ...], words: str) -> None:
    assert sentence(found) == words
