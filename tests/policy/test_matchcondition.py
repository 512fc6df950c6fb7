"""Whether a registered match condition is of a policy."""

from __future__ import annotations

from typing import Any

import pytest

from router.policy.matchcondition import MatchCondition, Registered, misfits, name_of, registered

LAB = "request.namespace == 'lab'"
WANTED = MatchCondition(name_of("a1" * 32), LAB, ("lab",))
NO_JOB, EVERY_JOB = (MatchCondition(WANTED.name, text, ()) for text in ("false", "true"))
ADDED = "|| (object.spec.template.spec.?nodeName.orValue('').endsWith('.batchgate'))"


def _registration(*conditions: tuple[str, str]) -> dict[str, Any]:
    listed = [{"name": name, "expression": expression} for name, expression in conditions]
    return {"webhooks": [{"name": "jobs.batchgate.dev", "matchConditions": listed}, {"name": "other"}]}


# what is registered under the name of a policy; the policy's own; whether they agree
AGREEING = [
    (LAB, WANTED, True),
    (f"({LAB}) {ADDED}", WANTED, True),
    (f"({LAB} || request.namespace == 'web') {ADDED}", WANTED, False),
    (f"(request.namespace == 'web') {ADDED}", WANTED, False),
    (f"(false) {ADDED}", NO_JOB, True),
    (f"({LAB}) {ADDED}", NO_JOB, False),
    (f"({LAB}) {ADDED}", EVERY_JOB, False),
]


@pytest.mark.parametrize(("expression", "wanted", "agree"), AGREEING)
def test_whose_condition_is_registered(expression: str, wanted: MatchCondition, agree: bool) -> None:
    registration = _registration(("new-or-changed", "true"), ("policy-of-before", expression))
    found = Registered("jobs.batchgate.dev", "policy-of-before", expression)

    assert registered(registration) == (found,)
    assert misfits(registration, wanted) == (() if agree else (found,))


@pytest.mark.parametrize("registration", [None, {}, {"webhooks": None}, _registration(("large", "false"))])
def test_no_condition_of_a_policy(registration: dict[str, Any] | None) -> None:
    assert registered(registration) == ()
