"""Tells which rules of a policy its tests have shown, and which branches of each rule.

Pure. Reads the decisions of tests; runs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from router.policy import conditions
from router.policy.decision import Considered
from router.policy.model import CheckedRule, Policy
from router.policy.selftests import TestResult

Outcome = Literal["held", "notHeld", "queue", "notRoutable", "notEvaluated"]
State = Literal["decided", "recorded", "lookedAt", "never"]


@dataclass(frozen=True, slots=True)
class Branch:
    """One thing that a rule can do with a Job: hold, fail to hold, choose a queue, ….

    :param queue: of the outcome ``queue``, as ``site/queue``; else empty
    :param tests: the names of the tests that took it
    :param counted: whether it is part of the percentage. What only some rules can come to, such as a condition that
        fails, is told without being demanded
    """

    outcome: Outcome
    queue: str
    tests: tuple[str, ...]
    counted: bool

    def __str__(self) -> str:
        return f"queue {self.queue}" if self.queue else _WORDS[self.outcome]


_WORDS = {
    "held": "holds",
    "notHeld": "does not hold",
    "notRoutable": "holds for a Job that cannot go to HPC",
    "notEvaluated": "cannot be evaluated",
}


@dataclass(frozen=True, slots=True)
class RuleCoverage:
    """What the tests have shown of one rule. ``place`` is ``file:line``.

    ``state``: it decided a test; as an audit rule it recorded one; it was only looked at; or it was never looked at.
    """

    rule: str
    place: str
    audit: bool
    state: State
    branches: tuple[Branch, ...]

    @property
    def counted(self) -> tuple[Branch, ...]:
        """The branches that are part of the percentage."""
        return tuple(one for one in self.branches if one.counted)

    @property
    def missing(self) -> tuple[Branch, ...]:
        """The counted branches that no test took."""
        return tuple(one for one in self.counted if not one.tests)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the tests have shown of all rules, in their order."""

    rules: tuple[RuleCoverage, ...]

    @property
    def counted(self) -> int:
        """The number of branches that are part of the percentage."""
        return sum(len(rule.counted) for rule in self.rules)

    @property
    def taken(self) -> int:
        """How many of them a test took."""
        return self.counted - sum(len(rule.missing) for rule in self.rules)

    @property
    def share(self) -> Fraction:
        """The taken ones in percent, exactly; 100 without rules."""
        return Fraction(100 * self.taken, self.counted) if self.counted else Fraction(100)


def coverage(policy: Policy, results: Sequence[TestResult]) -> Coverage:
    """What the tests have shown, also those that failed."""
    seen = [(one.name, rule) for one in results if one.decision is not None for rule in one.decision.considered]
    return Coverage(
        tuple(_rule(rule, [(name, one) for name, one in seen if one.rule == rule.name]) for rule in policy.rules)
    )


def _rule(checked: CheckedRule, seen: Sequence[tuple[str, Considered]]) -> RuleCoverage:
    audit = checked.rule.mode == "audit"
    state: State = "lookedAt" if seen else "never"
    if any(one.held is not False for _, one in seen):
        state = "recorded" if audit else "decided"
    return RuleCoverage(checked.name, checked.place, audit, state, tuple(_branches(checked, seen)))


def _branches(checked: CheckedRule, seen: Sequence[tuple[str, Considered]]) -> Iterator[Branch]:
    held = [(name, one) for name, one in seen if one.held]
    yield Branch("held", "", _names(held), counted=True)
    if not conditions.always(checked.condition.source):
        yield Branch("notHeld", "", _names((name, one) for name, one in seen if one.held is False), counted=True)
    for queue in dict.fromkeys(f"{one.site.name}/{one.queue.name}" for one in checked.candidates):
        yield Branch("queue", queue, _names((name, one) for name, one in held if one.queue == queue), counted=True)
    if checked.candidates:
        yield Branch("notRoutable", "", _names((name, one) for name, one in held if not one.queue), counted=False)
    yield Branch("notEvaluated", "", _names((name, one) for name, one in seen if one.held is None), counted=False)


def _names(found: Iterable[tuple[str, Considered]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in found))
