"""Derives the match condition of a policy: which Jobs the API server must send to the webhook, as far as it can tell.

Pure. A Job for which the condition is false stays in the cloud by a rule that says so, without a warning and without
an audit rule that holds for it. Where it is registered, the chart adds that a Job with a key of ours, or with the name
of a virtual node, is sent in any case.

The user in rules is always the one who sends the request (``gate.review``). The owner of a routed Job, by whom its
updates are judged, only counts for Jobs that carry our keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from router.policy.formulas import Formula, any_of, depth, every, simplified, size, text_of
from router.policy.matchcondition import EVERY_JOB, MatchCondition, name_of
from router.policy.model import CheckedRule, Policy
from router.policy.outcomes import Outcomes, outcomes
from router.policy.syntaxtree import tree_of

_KNOWN: Final = frozenset(
    {("request", "namespace"), ("request", "user"), ("request", "groups"), ("job", "name"), ("job", "labels")}
)
MOST_LITERALS: Final = 300
"""Comparisons in an expression: those of all rules together."""
DEEPEST: Final = 60
"""Groups within each other in an expression, two for a rule that keeps Jobs in the cloud before others that do not."""
_TOO_LARGE: Final = "the rules together make too many comparisons for one expression"


def match_condition(policy: Policy) -> MatchCondition:
    """The match condition of a policy.

    The first rule that holds decides. So a Job is sent if a rule that does more than keep it in the cloud may hold for
    it, and no earlier rule surely keeps it there. It is also sent if a rule's condition may fail for it, which is worth
    a warning.
    """
    seen = list(_reached(policy.rules))
    sent: Formula = False
    for rule, found, _ in reversed(seen):
        sent = any_of(found.fails, every(found.false, sent)) if _stays(rule) else any_of(found.true_or_fails, sent)
        if size(sent) > MOST_LITERALS or depth(sent) > DEEPEST:
            return MatchCondition(
                name_of(policy.digest), EVERY_JOB, tuple(one.name for one, _, _ in seen), (_TOO_LARGE,)
            )
    sent = simplified(sent)
    concerned = [(rule, _sends(rule, found, before)) for rule, found, before in seen]
    return MatchCondition(
        name=name_of(policy.digest),
        expression=text_of(sent),
        rules=tuple(rule.name for rule, formula in concerned if formula is not False),
        reasons=tuple(_reasons(concerned)) if sent is True else (),
    )


def _stays(rule: CheckedRule) -> bool:
    """Whether a rule does no more than keep Jobs in the cloud."""
    return rule.rule.cloud is True and rule.rule.mode == "enforce"


def _reached(rules: tuple[CheckedRule, ...]) -> Iterator[tuple[CheckedRule, Outcomes, Formula]]:
    """Each rule with its outcomes, and for which Jobs the search may come as far as this rule."""
    before: Formula = True
    for rule in rules:
        found = outcomes(tree_of(rule.condition.source))
        yield rule, found, before
        if _stays(rule):
            before = every(before, found.false)


def _sends(rule: CheckedRule, found: Outcomes, before: Formula) -> Formula:
    """For which Jobs a rule is the reason to send them."""
    return simplified(every(before, found.fails if _stays(rule) else found.true_or_fails))


def _reasons(concerned: list[tuple[CheckedRule, Formula]]) -> Iterator[str]:
    """Why every Job must be sent: the rules that may hold for any, or else all that concern some."""
    alone = [rule for rule, formula in concerned if formula is True]
    for rule in alone:
        may = "the condition may fail for any Job" if _stays(rule) else "it may hold for any Job"
        yield f"rule {rule.name}: {may}: {_why(rule)}"
    if not alone:
        together = ", ".join(rule.name for rule, formula in concerned if formula is not False)
        yield f"rules {together}: for any Job one of them may hold"


def _why(rule: CheckedRule) -> str:
    condition = rule.condition
    if not condition.reads and not condition.whole:
        return f"its condition is {condition.source}"
    reads = [
        f"queues['{read.queue}']" if read.root == "queues" else f"{read.root}.{read.field}" for read in condition.reads
    ]
    only = ", ".join(dict.fromkeys((*reads, *sorted(condition.whole))))
    if all((read.root, read.field) in _KNOWN for read in condition.reads) and not condition.whole:
        return f"its condition reads {only} in a way that the API server cannot be asked about"
    return f"its condition reads {only}; the API server knows only namespace, user, groups, name and labels"
