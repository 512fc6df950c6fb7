from __future__ import annotations

from typing import Any

import pytest

from router import names
from router.operating.policies import ConditionState, Holder, condition_state, holders, sentence
from router.policy.inforce import InForce, document
from router.policy.matchcondition import MatchCondition, Registered, name_of

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
        (
            (Holder("webhook", "a", OURS, "r.yaml:3:1: rule big: wrong\n  | - {"),),
            (
                "all have a1a1a1a1a1a1 in force (1 replica of the webhook); "
                "the webhook's replica a refuses newer files, which are not in force: r.yaml:3:1: rule big: wrong"
            ),
        ),
        (
            tuple(Holder("webhook", name, OURS, "wrong") for name in "ab"),
            (
                "all have a1a1a1a1a1a1 in force (2 replicas of the webhook); "
                "every replica of the webhook refuses newer files, which are not in force: wrong"
            ),
        ),
        (
            (Holder("webhook", "a", OURS, "wrong"), Holder("webhook", "b", THEIRS)),
            (
                "not the same everywhere: webhook a a1a1a1a1a1a1, webhook b b2b2b2b2b2b2; "
                "replica a of the webhook refuses newer files, which are not in force: wrong"
            ),
        ),
    ],
)
def test_one_line(found: tuple[Holder, ...], words: str) -> None:
    assert sentence(found) == words


LAB, WEB = "request.namespace == 'lab'", "request.namespace == 'web'"
REPLICA, LATE, AGENT = Holder("webhook", "a", OURS), Holder("webhook", "b", THEIRS), Holder("agent", "hpc1", THEIRS)
WANTED = MatchCondition(name_of(OURS), LAB, ("lab",))
CANNOT = "whether it is of the policy in force cannot be told: "
OTHER = (
    "it is not of the policy in force, whose condition is policy-a1a1a1a1a1a1: Jobs may be kept from the webhook. "
    "Take it out, or put in what batchgate policy conditions prints"
)
# the digest in its name, its expression, the ConfigMap's own, who has what in force; and what is told
CONDITIONS: list[tuple[str, str, MatchCondition | str, tuple[Holder, ...], bool | None, str]] = [
    (OURS, LAB, WANTED, (REPLICA, AGENT), True, "it is of the policy in force"),
    (OURS, LAB, "none is to be seen", (REPLICA,), True, "it is of the policy in force"),
    (THEIRS, LAB, WANTED, (REPLICA,), True, "it is as the policy in force wants it"),
    (OURS, LAB, WANTED, (), True, "it is as the policy in force wants it"),
    (THEIRS, WEB, WANTED, (REPLICA,), False, OTHER),
    (THEIRS, WEB, WANTED, (), False, OTHER),
    (THEIRS, WEB, "none is to be seen", (REPLICA,), None, f"{CANNOT}none is to be seen"),
    (OURS, LAB, WANTED, (REPLICA, LATE), None, f"{CANNOT}the webhook has another one than the ConfigMap"),
]


@pytest.mark.parametrize(("digest", "expression", "wanted", "found", "fits", "reason"), CONDITIONS)
def test_whether_a_match_condition_is_of_the_policy_in_force(
    digest: str,
    expression: str,
    wanted: MatchCondition | str,
    found: tuple[Holder, ...],
    fits: bool | None,
    reason: str,
) -> None:
    one = Registered("jobs.batchgate.dev", name_of(digest), expression)

    assert condition_state(one, wanted, found) == ConditionState(one.name, fits, reason)
