"""Counts, by namespace, the Jobs for which each audit rule holds, while Jobs are judged one after the other.

Pure, with a state: ``AuditTally`` is filled, then ``namespaces`` makes values of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Final

from router.gate.judging import Gate, decided
from router.policy.model import CheckedRule, Policy
from router.replay.cases import Case
from router.replay.outcomes import unknown_on_the_way, unknown_to_deciding, unknown_to_rule
from router.values import unchanging
from router.workload.cluster import UNKNOWN_CLUSTER

MOST_NAMED: Final = 10
"""Jobs that are named for one rule and namespace, the newest ones."""


@unchanging
class Subject:
    """A Job or CronJob. ``uid``: empty if unknown; ``created``: seconds since 1970, 0 if unknown."""

    kind: str
    name: str
    uid: str = ""
    created: int = 0


@unchanging
class Finding:
    """What is known of one audit rule and one Job.

    :param held: whether the rule's condition holds; None if evaluating it failed
    :param target: where the Job would go by a rule that held, or whose condition cannot be evaluated; else empty
    :param unknown: facts that are unknown and on which this rests, as rules name them
    """

    rule: str
    held: bool | None
    target: str
    unknown: tuple[str, ...] = ()


@unchanging
class Judged:
    """One Job and its findings. An audit rule without one surely does not hold, or is behind the rule that decides."""

    namespace: str
    subject: Subject
    findings: tuple[Finding, ...]


@unchanging
class RuleAudit:
    """One audit rule and the Jobs of one namespace.

    :param targets: how many Jobs for which it holds would go where
    :param denied: how many Jobs it would deny whatever the facts are that are unknown
    :param failed: for how many Jobs its condition cannot be evaluated
    :param uncertain: how many findings rest on facts that are unknown
    :param unknown: these facts, as rules name them, in the order of the alphabet
    :param newest: the newest Jobs for which it holds
    :param newest_failed: the newest of those for which it cannot be evaluated
    """

    rule: CheckedRule
    targets: tuple[tuple[str, int], ...] = ()
    denied: int = 0
    failed: int = 0
    uncertain: int = 0
    unknown: tuple[str, ...] = ()
    newest: tuple[Subject, ...] = ()
    newest_failed: tuple[Subject, ...] = ()

    @property
    def held(self) -> int:
        """For how many Jobs the rule holds."""
        return sum(count for _, count in self.targets)


@unchanging
class NamespaceAudit:
    """The audit rules of a policy, in its order, and the Jobs of one namespace. ``newest``: when the last was created."""

    namespace: str
    jobs: int
    newest: int
    rules: tuple[RuleAudit, ...]


@lru_cache(maxsize=16)
def audit_rules(policy: Policy) -> tuple[CheckedRule, ...]:
    """The rules with ``mode: audit``, in their order."""
    return tuple(one for one in policy.rules if one.rule.mode == "audit")


def judged(policy: Policy, case: Case, subject: Subject) -> Judged:
    """What the audit rules of a policy find about a Job."""
    workload, namespace = case.workload, case.requester.namespace
    if workload.managed_by in policy.controllers:
        return Judged(namespace, subject, ())
    moment = int(case.requester.time or 0)
    decision = decided(workload, case.requester, Gate(policy, UNKNOWN_CLUSTER, case.states, None, moment))
    held = {one.rule: one for one in decision.audited}
    end = _positions(policy).get(decision.rule, len(policy.rules))
    findings = []
    for checked in audit_rules(policy):
        found = held.get(checked.name)
        unknown: list[str] = []
        if _positions(policy)[checked.name] > end:
            # It would be looked at if facts that the rules in force have read were others.
            unknown += unknown_to_deciding(policy, case, decision.rule)
        else:
            unknown += unknown_to_rule(policy, case, checked.name)
        if found is not None:
            unknown += unknown_to_deciding(policy, case, checked.name)
            unknown += unknown_on_the_way(policy, case, workload) if checked.rule.hpc is not None else ()
        if found is not None or unknown:
            verdict = (False, "") if found is None else (found.held, found.target or "")
            # Findings of all Jobs are kept together, and facts have few names.
            findings.append(Finding(checked.name, *verdict, tuple(dict.fromkeys(map(intern, unknown)))))
    return Judged(namespace, subject, tuple(findings))


@lru_cache(maxsize=16)
def _positions(policy: Policy) -> dict[str, int]:
    return {one.name: position for position, one in enumerate(policy.rules)}


@dataclass(slots=True)
class _Counts:
    targets: Counter[str] = field(default_factory=Counter)
    denied: int = 0
    failed: int = 0
    uncertain: int = 0
    unknown: set[str] = field(default_factory=set)
    newest: list[Subject] = field(default_factory=list)
    newest_failed: list[Subject] = field(default_factory=list)


@dataclass(slots=True)
class _Namespace:
    jobs: int = 0
    newest: int = 0
    rules: dict[str, _Counts] = field(default_factory=dict)


class AuditTally:
    """Jobs by namespace and audit rule, however many Jobs there are."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._namespaces: dict[str, _Namespace] = {}

    def add(self, one: Judged) -> None:
        """Count a Job."""
        here = self._namespaces.setdefault(one.namespace, _Namespace())
        here.jobs += 1
        here.newest = max(here.newest, one.subject.created)
        for finding in one.findings:
            _count(here.rules.setdefault(finding.rule, _Counts()), finding, one.subject)

    def namespaces(self) -> tuple[NamespaceAudit, ...]:
        """Each namespace with Jobs, in the order of the alphabet."""
        return tuple(
            NamespaceAudit(
                name,
                found.jobs,
                found.newest,
                tuple(_audit(rule, found.rules.get(rule.name, _Counts())) for rule in audit_rules(self._policy)),
            )
            for name, found in sorted(self._namespaces.items())
        )


def _count(counts: _Counts, finding: Finding, subject: Subject) -> None:
    if finding.held:
        counts.targets[finding.target] += 1
        counts.denied += finding.target == "deny" and not finding.unknown
        counts.newest = _newest((*counts.newest, subject))
    elif finding.held is None:
        counts.failed += 1
        counts.newest_failed = _newest((*counts.newest_failed, subject))
    if finding.unknown:
        counts.uncertain += 1
        counts.unknown.update(finding.unknown)


def _newest(subjects: Iterable[Subject]) -> list[Subject]:
    named = (one for one in subjects if one.name)  # a log has Jobs without one, whose names were still to be made
    return sorted(named, key=lambda one: (-one.created, one.kind, one.name))[:MOST_NAMED]


def _audit(rule: CheckedRule, counts: _Counts) -> RuleAudit:
    return RuleAudit(
        rule,
        tuple(sorted(counts.targets.items())),
        counts.denied,
        counts.failed,
        counts.uncertain,
        tuple(sorted(counts.unknown)),
        tuple(counts.newest),
        tuple(counts.newest_failed),
    )
