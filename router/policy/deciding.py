"""Decides on one Job: finds the first rule that holds, and what follows from it.

Pure. As every review runs this, one activation serves all conditions and holds only the queues that conditions name. It
does not raise for a Workload that sizing made. A condition that cannot be evaluated also gives an answer: deny or
cloud.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from router import names
from router.policy import conditions, sentences, variables
from router.policy.conditions import Verdict
from router.policy.decision import NO_QUEUE_STATES, Considered, Decision, QueueState, QueueStates, Requester, Route
from router.policy.fit import Misfit, fit
from router.policy.misfits import InTheWay, joined
from router.policy.model import CheckedRule, Policy
from router.policy.sizes import counted_by
from router.policy.variables import QueueNow, Variable
from router.values import unchanging
from router.workload.model import Obstacle, Workload


@unchanging
class _Case:
    """The input of a decision by the rules that count by the same figures.

    :param workload: with the figures that these rules count by
    :param explain: whether to record every rule
    :param messages: the Job and the request as conditions read them
    :param values: for evaluating a condition
    """

    policy: Policy
    workload: Workload
    requester: Requester
    states: QueueStates
    explain: bool
    messages: tuple[Any, Any]
    values: Any


def decide(
    policy: Policy,
    workload: Workload,
    requester: Requester,
    states: QueueStates = NO_QUEUE_STATES,
    *,
    explain: bool = False,
) -> Decision:
    """The decision, with its reason.

    :param explain: whether to add, for each rule, the values that it read or that it was not looked at
    """
    case = _case(policy, workload, requester, states, explain=explain)
    considered: list[Considered] = []
    audited: list[Considered] = []
    for position, rule in enumerate(policy.rules):
        case = _counted_by(case, rule)
        verdict = conditions.evaluate(rule.condition, case.values)
        if verdict is False and not explain:
            continue
        audit = rule.rule.mode == "audit"
        decision = None if verdict is False else _outcome(case, position, verdict)
        if explain or (audit and decision is not None):
            considered.append(_considered(case, rule, verdict, decision))
        if decision is None:
            continue
        if not audit:
            return _told(case, decision, audited, considered)
        audited.append(considered[-1])
    # `load` demands that the last rule holds for everything; a policy made otherwise keeps the Job in the cloud.
    return _told(case, Decision("cloud", "", "no rule holds for it"), audited, considered)


def first_to_hold(
    policy: Policy, workload: Workload, requester: Requester, states: QueueStates = NO_QUEUE_STATES
) -> str | None:
    """The name of the rule that holds and decides, without what follows from it; empty if no rule holds.

    None if evaluating the condition of the rule that decides fails.
    """
    case = _case(policy, workload, requester, states, explain=False)
    for rule in policy.rules:
        if rule.rule.mode == "audit":
            continue
        case = _counted_by(case, rule)
        verdict = conditions.evaluate(rule.condition, case.values)
        if verdict is not False:
            return rule.name if verdict is True else None
    return ""


def _case(policy: Policy, workload: Workload, requester: Requester, states: QueueStates, *, explain: bool) -> _Case:
    job = variables.job_message(workload, _fields(policy, "job"))
    request = variables.request_message(requester, _fields(policy, "request"))
    values = conditions.activation(job, request, _queue_messages(policy, states))
    return _Case(policy, workload, requester, states, explain, (job, request), values)


def _counted_by(case: _Case, checked: CheckedRule) -> _Case:
    """The case as a rule sees it, which may count by other figures than the rule before it."""
    workload = counted_by(case.workload, checked.rule.figures)
    if workload is case.workload:
        return case
    return _case(case.policy, workload, case.requester, case.states, explain=case.explain)


def _told(case: _Case, decision: Decision, audited: list[Considered], considered: list[Considered]) -> Decision:
    if not audited and not case.explain:
        return decision
    told = replace(decision, audited=tuple(audited))
    if not case.explain:
        return told
    behind = case.policy.rules[len(considered) :]
    return replace(told, considered=tuple(considered), not_looked_at=tuple(rule.name for rule in behind))


# --- what conditions read ---------------------------------------------------------------------------------------


@lru_cache(maxsize=16)
def _fields(policy: Policy, root: str) -> tuple[Variable, ...]:
    """The fields of ``job`` or ``request`` that conditions read: filling all fields would cost more than deciding."""
    if any(root in rule.condition.whole for rule in policy.rules):
        return variables.ROOTS[root]
    named = {name for rule in policy.rules for name in rule.condition.fields(root)}
    return tuple(variable for variable in variables.ROOTS[root] if variable.name in named)


@lru_cache(maxsize=16)
def _queues(policy: Policy, states: QueueStates) -> Mapping[str, QueueNow]:
    return {
        key: QueueNow(queue, states.states.get((site.name, queue.name)), site.time_zone)
        for key, (site, queue) in policy.queues.items()
    }


@lru_cache(maxsize=16)
def _queue_messages(policy: Policy, states: QueueStates) -> Mapping[str, Any]:
    """The queues that conditions may read: each queue makes the activation more expensive."""
    named: set[str] = set().union(*(rule.condition.queues for rule in policy.rules))
    if any("queues" in rule.condition.whole for rule in policy.rules):
        named = set(policy.queues)
    return {key: variables.queue_message(now) for key, now in _queues(policy, states).items() if key in named}


def _considered(case: _Case, rule: CheckedRule, verdict: Verdict, decision: Decision | None) -> Considered:
    queues = _queues(case.policy, case.states)
    values = sentences.read_values(rule.condition, case.workload, case.requester, queues)
    return Considered(
        rule=rule.name,
        held=verdict if isinstance(verdict, bool) else None,
        why=sentences.why(rule.condition, verdict, values),
        outcome="" if decision is None else f"{decision.target}: {decision.reason}",
        audit=rule.rule.mode == "audit",
        target=None if decision is None else decision.target,
        queue="" if decision is None else decision.place,
    )


# --- what comes of a rule that holds ----------------------------------------------------------------------------


def _outcome(case: _Case, position: int, verdict: Verdict) -> Decision:
    """The decision by the rule at that position.

    The reason also names the queue figures that this rule and failed rules above it saw, unless it already has them.
    """
    *above, checked = case.policy.rules[: position + 1]
    decision = _judged(case, checked, verdict)
    if checked.rule.deny is not None or not _looks_at_queues(case.policy):
        return decision
    looked = [*(rule.condition for rule in above if _failed_by_queues(case, rule)), checked.condition]
    figures = sentences.queue_figures(looked, _queues(case.policy, case.states))
    if told := ", ".join(one for one in figures if one not in decision.reason):
        return replace(decision, reason=f"{decision.reason}; the rules saw {told}")
    return decision


@lru_cache(maxsize=16)
def _looks_at_queues(policy: Policy) -> bool:
    return any(rule.condition.queues for rule in policy.rules)


def _failed_by_queues(case: _Case, checked: CheckedRule) -> bool:
    """Whether the state of queues kept a rule from holding: it would hold if all queues were idle, or all busy."""
    if not checked.condition.queues or checked.rule.mode == "audit":
        return False
    seen = _counted_by(case, checked)
    tried = [_queue_messages(case.policy, states) for states in _extremes(case.policy)]
    return any(
        conditions.evaluate(checked.condition, conditions.activation(*seen.messages, queues)) is True
        for queues in tried
    )


_MANY: Final = 10**9


@lru_cache(maxsize=16)
def _extremes(policy: Policy) -> tuple[QueueStates, QueueStates]:
    """Two states: all queues idle; all queues busy and closed."""
    idle, busy = {}, {}
    for site, queue in policy.queues.values():
        key = (site.name, queue.name)
        idle[key] = QueueState(*key, up=True, free_nodes=_MANY, queued_jobs=0, running_jobs=0, wait_seconds=0)
        busy[key] = QueueState(*key, up=False, free_nodes=0, queued_jobs=_MANY, running_jobs=_MANY, wait_seconds=_MANY)
    return QueueStates(idle), QueueStates(busy)


def _judged(case: _Case, checked: CheckedRule, verdict: Verdict) -> Decision:
    rule = checked.rule
    if isinstance(verdict, str):
        return _undecided(checked, verdict)
    if rule.deny is not None:
        return Decision("deny", rule.name, rule.deny)
    if rule.hpc is None:
        return Decision("cloud", rule.name, sentences.stays(rule.name, case.workload, _grounds(case, checked, verdict)))
    return _hpc(case, checked)


def _grounds(case: _Case, checked: CheckedRule, verdict: Verdict) -> str:
    """Why a rule held, with the values that its condition read; empty for a condition that reads none."""
    condition = checked.condition
    if not condition.reads and not condition.whole:
        return ""
    queues = _queues(case.policy, case.states)
    return sentences.why(condition, verdict, sentences.read_values(condition, case.workload, case.requester, queues))


def _undecided(checked: CheckedRule, error: str) -> Decision:
    """The decision by a rule whose condition cannot be evaluated: deny if the rule denies, else cloud.

    The rules below are skipped, as they were written for Jobs that this rule lets pass.
    """
    rule = checked.rule
    message = f"the condition of rule {rule.name} cannot be evaluated for this Job: {error}"
    if rule.deny is not None:
        return Decision("deny", rule.name, f"{message}; the rule denies, so it is denied")
    wanted = rule.hpc is not None  # then the reason is a warning already
    return Decision("cloud", rule.name, message, wanted=wanted, warnings=() if wanted else (message,))


def _hpc(case: _Case, checked: CheckedRule) -> Decision:
    rule, workload = checked.rule, case.workload
    refused = tuple(sorted(hint for hint in map(_short, workload.hints) if hint in rule.forbid_hints))
    if workload.route == names.TARGET_CLOUD and "route" not in refused:
        reason = f"its hint {names.HINT_ROUTE}: cloud keeps it in the cloud; rule {rule.name} would have sent it"
        return Decision("cloud", rule.name, reason, refused_hints=refused)
    obstacles = workload.obstacles + _rule_obstacles(checked, workload, refused)
    route, passed_over = _first_that_fits(case, checked)
    if route is None:
        return _not_routable(checked, joined(obstacles, passed_over), refused)
    if obstacles:
        return _not_routable(checked, InTheWay(obstacles, tuple(map(str, obstacles)), len(obstacles)), refused)
    before = "; ".join([f"{where}: {misfit}" for where, misfit in passed_over.items()])
    reason = sentences.sent(route, workload, case.states, before)
    return Decision("hpc", rule.name, reason, route=route, wanted=True, refused_hints=refused)


def _short(hint: str) -> str:
    return hint.removeprefix(names.PREFIX)


def _rule_obstacles(checked: CheckedRule, workload: Workload, refused: tuple[str, ...]) -> tuple[Obstacle, ...]:
    """Obstacles by this rule alone. A forbidden hint cannot just be ignored, as the Job was sized by it."""
    obstacles = [
        Obstacle(f"metadata.annotations[{names.PREFIX}{hint}]", f"rule {checked.name} forbids this hint; remove it")
        for hint in refused
        if hint != "route"
    ]
    if workload.kueue_queue and not checked.rule.kueue:
        where = f"metadata.labels[{names.KUEUE_QUEUE_NAME}]"
        reason = f"it waits in Kueue's queue {workload.kueue_queue}, and rule {checked.name} lacks kueue: true"
        obstacles.append(Obstacle(where, reason))
    return tuple(obstacles)


def _first_that_fits(case: _Case, checked: CheckedRule) -> tuple[Route | None, dict[str, Misfit]]:
    """The first queue of the rule's list that is up and fits, if any, and why the queues before it do not."""
    misfits: dict[str, Misfit] = {}
    for candidate in checked.candidates:
        place = (candidate.site.name, candidate.queue.name)
        if case.states.only not in (None, place):
            continue
        state = case.states.states.get(place)
        tried = fit(case.policy, checked.rule, candidate, case.workload, case.requester, state)
        if isinstance(tried, Route):
            return tried, misfits
        misfits[f"queue {candidate.queue.name} of site {candidate.site.name}"] = tried
    return None, misfits


def _not_routable(checked: CheckedRule, found: InTheWay, refused: tuple[str, ...]) -> Decision:
    """The decision on a Job that cannot go to HPC, with all that is in the way: its fields, then the rule's queues."""
    rule = checked.rule
    reason = sentences.in_the_way(found.told)
    verb = "allows it only on" if rule.if_not_routable == "deny" else "would send it to"
    return Decision(
        rule.if_not_routable,
        rule.name,
        f"rule {rule.name} {verb} HPC, but it cannot go there: {reason}",
        wanted=True,
        obstacles=found.obstacles,
        in_the_way=found.told,
        least=found.least,
        refused_hints=refused,
    )
