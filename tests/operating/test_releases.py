"""Which releases run, and which of them are too far apart."""

from __future__ import annotations

from typing import Any

import pytest

from router.operating.releases import Running, apart, running, sentence, too_far
from router.policy.inforce import InForce, document

NOW = 1_790_000_000.0
CLIENT = Running("client", "", "0.2.0")


def _node(runtime: str | None) -> dict[str, Any]:
    return {"status": {"nodeInfo": {"containerRuntimeVersion": runtime}} if runtime else {}}


def test_replicas_then_sites_each_release_once() -> None:
    state = {
        "new.json": document(InForce(NOW, "a1", release="0.2.0")),
        "silent.json": '{"time": "2026-09-21T14:13:20Z", "digest": "a1", "error": ""}',
        "ended.json": document(InForce(NOW - 900, "a1", release="0.1.0")),
    }
    nodes = [
        ("hpc2", _node("batchgate://0.2.0")),
        ("hpc1", _node("batchgate://0.1.0")),
        ("hpc1", _node("batchgate://0.1.0")),
        ("hpc3", _node(None)),
    ]

    assert running(state, nodes, NOW) == (
        Running("webhook", "new", "0.2.0"),
        Running("webhook", "silent", "unknown"),
        Running("agent", "hpc1", "0.1.0"),
        Running("agent", "hpc2", "0.2.0"),
        Running("agent", "hpc3", "unknown"),
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0.1.0", "0.1.9", 0),
        ("0.1.0", "0.2.0", 1),
        ("0.3.1", "0.1.0", 2),
        ("0.2.0rc1", "0.2.0", 0),
        ("1.0.0", "0.9.0", None),
        ("unknown", "0.1.0", None),
        ("", "", 0),
    ],
)
def test_releases_lie_apart_by_their_minor_versions(one: str, other: str, expected: int | None) -> None:
    assert apart(one, other) == expected


@pytest.mark.parametrize(
    ("found", "pairs"),
    [
        ([], []),
        ([CLIENT, Running("webhook", "a", "0.1.0"), Running("webhook", "b", "0.2.0"), Running("agent", "x", "0.2.1")], []),
        (
            [CLIENT, Running("webhook", "a", "0.4.0"), Running("webhook", "b", "0.4.0")],
            ["webhook a 0.4.0 and client 0.2.0"],
        ),
        (
            [Running("webhook", "a", "0.3.0"), Running("webhook", "b", "0.1.0"), Running("agent", "x", "0.1.0")],
            ["webhook a 0.3.0 and webhook b 0.1.0", "webhook a 0.3.0 and agent x 0.1.0"],
        ),
        ([CLIENT, Running("webhook", "a", "1.0.0")], ["webhook a 1.0.0 and client 0.2.0"]),
        ([CLIENT, Running("agent", "x", "unknown"), Running("agent", "y", "0.2.0")], []),
        ([Running("agent", "x", "0.1.0"), Running("agent", "y", "0.5.0")], []),
    ],
)  # fmt: skip
def test_each_two_that_must_not_run_together_are_named_once(found: list[Running], pairs: list[str]) -> None:
    words = " are more than one release apart; upgrade the older one (docs/releases.md)"

    assert too_far(found) == tuple(f"{pair}{words}" for pair in pairs)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ([], "nobody says which release runs"),
        ([Running("webhook", "a", "0.1.0"), Running("agent", "x", "0.1.0")], "all are 0.1.0"),
        (
            [Running("webhook", "a", "0.1.0"), Running("agent", "x", "0.2.0")],
            "not the same everywhere: webhook a 0.1.0, agent x 0.2.0",
        ),
    ],
)
def test_one_line(found: list[Running], words: str) -> None:
    assert sentence(found) == words
