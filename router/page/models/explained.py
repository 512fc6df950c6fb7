"""What ``explain`` says of a Job that is in the cluster, by the policy of now.

Pure. The Job is judged again as if it came now: rules and queues may have changed since it was decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from router.errors import InputError, JobError
from router.gate.judging import Gate, Judgement, judge
from router.operating import story
from router.operating.overview import TOO_OLD
from router.page.models.filled import NOT_FILLED, Filled
from router.placement import signing
from router.policy import Policy
from router.policy.decision import Considered, Decision, QueueState, QueueStates, Requester, Route
from router.policy.fit import fit
from router.policy.sizes import counted_by
from router.policy.states import age_problem, queue_states
from router.replay.cases import GROUPS, USER, Case
from router.replay.outcomes import missing_facts

Json = dict[str, Any]
_WORDS: Final = {True: "holds", False: "does not hold", None: "cannot be evaluated"}
_LATER: Final = "it would do too; the one that was taken comes before it in the rule"
_SHAPES: Final = {True: "✔", False: "–", None: "?"}
_NOBODY: Final = Requester("", (), "")


@dataclass(frozen=True, slots=True)
class RuleLine:
    """One rule that was looked at. ``decides``: whether it is the one that decided."""

    name: str
    shape: str
    word: str
    why: str
    outcome: str
    audit: bool
    decides: bool


@dataclass(frozen=True, slots=True)
class QueueLine:
    """One queue that the deciding rule could take. ``why``: why it was not taken, empty for the one that was."""

    place: str
    taken: bool
    why: str


@dataclass(frozen=True, slots=True)
class Explained:
    """The judgement of now. ``problem``: why there is none; the other fields are empty then.

    ``asker``: for whom it was made, if the Job does not say who made it; else empty. ``queue``: ``site/queue``, or empty.
    ``differs``: what is decided otherwise now than for the Job as it came, a clause each. ``unknown``: the facts, as rules
    name them, that a rule or account reads and that are unknown here, and what the cluster adds to Pods unseen.
    """

    problem: str = ""
    asker: str = ""
    target: str = ""
    queue: str = ""
    rule: str = ""
    reason: str = ""
    differs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    rules: tuple[RuleLine, ...] = ()
    not_looked_at: tuple[str, ...] = ()
    queues: tuple[QueueLine, ...] = ()
    in_the_way: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    script: str = ""


def explained(
    job: Json,
    policy: Policy,
    states: QueueStates,
    now: float,
    reader: Requester = _NOBODY,
    filled: Filled = NOT_FILLED,
) -> Explained:
    """Judge a Job of the cluster again for the user who made it.

    :param reader: who looks, with the labels of the Job's namespace as far as they are known; the Job is judged for them
        if it lacks its maker, as Jobs that were not judged do
    :param filled: what the cluster adds to the Job's Pods
    """
    maker = story.decision(job).requester
    requester, unknown = _asking(job, maker, reader)
    gate = Gate(policy, filled.cluster, states, None, int(now))
    try:
        found = judge(job, requester=requester, gate=gate, explain=True)
    except JobError as error:
        return Explained(problem=f"the Job is refused by now: {error}")
    if found.decision is None or found.workload is None:
        return Explained(problem="it is left to the controller that spec.managedBy names, and is not judged")
    known = requester.at(int(now))
    case = Case(job["metadata"]["name"], known, found.workload, states, "", unknown)
    lacking = tuple(dict.fromkeys((*missing_facts(policy, case, found.workload, found.decision), *filled.unknown)))
    queues = tuple(_queues(found, known, policy, states))
    return replace(_told(job, found, queues), asker="" if maker else reader.user, unknown=lacking)


def _asking(job: Json, maker: str, reader: Requester) -> tuple[Requester, frozenset[str]]:
    """For whom a Job is judged, and what is unknown of them.

    That is its maker, with the groups of its record. Who looks stands in for a maker that is unknown, with their own groups.
    """
    user, groups = maker or reader.user, signing.groups_in(story.notes_of(job)) if maker else None
    unknown: frozenset[str] = frozenset() if user else frozenset({USER, GROUPS})
    if groups is None and user == reader.user:
        groups = reader.groups
    elif groups is None:
        unknown = frozenset({GROUPS})
    return Requester(user, groups or (), job["metadata"]["namespace"], reader.namespace_labels), unknown


def states_now(documents: Mapping[str, str], now: float) -> QueueStates:
    """The state of all queues by the agents' documents; those that are unreadable or too old are left out."""
    found: dict[tuple[str, str], QueueState] = {}
    for key, text in documents.items():
        try:
            read = queue_states(text, key)
        except InputError:
            continue  # the first screen tells it
        if not age_problem(read, now=now, most=TOO_OLD):
            found |= read.states
    return QueueStates(found)


def _told(job: Json, found: Judgement, queues: tuple[QueueLine, ...]) -> Explained:
    decision = found.decision
    assert decision is not None  # noqa: S101 - the caller has looked
    return Explained(
        target=decision.target,
        queue=decision.place,
        rule=decision.rule,
        reason=decision.reason,
        differs=tuple(_differs(story.decision(job), decision)),
        rules=tuple(_rule(one, decision.rule) for one in decision.considered),
        not_looked_at=decision.not_looked_at,
        queues=queues,
        in_the_way=decision.in_the_way,
        differences=found.differences,
        script=found.script.own.rstrip("\n") if found.script else "",
    )


def _differs(own: story.Decision, now: Decision) -> Iterator[str]:
    """What the decision of now has otherwise than the Job's own: of a Job on HPC in both also its queue and account."""
    pairs = [("target", own.target, now.target), ("rule", own.rule, now.rule)]
    if (route := now.route) is not None and own.site:
        who = route.identity
        pairs += [
            ("queue", f"{own.site}/{own.queue}", route.place),
            ("HPC user", own.user, who.user),
            ("account", own.account, who.account or ""),
            ("project", own.project, who.project or ""),
        ]
    yield from (f"{title} {new or 'none'}, was {old or 'none'}" for title, old, new in pairs if old != new)


def _rule(one: Considered, decides: str) -> RuleLine:
    held = one.held
    return RuleLine(
        one.rule, _SHAPES[held], _WORDS[held], one.why, one.outcome, one.audit, not one.audit and one.rule == decides
    )


def _queues(found: Judgement, requester: Requester, policy: Policy, states: QueueStates) -> Iterator[QueueLine]:
    """The queues of the deciding rule in its order, each with why it was not taken."""
    decision, workload = found.decision, found.workload
    rule = next((one for one in policy.rules if decision is not None and one.name == decision.rule), None)
    if decision is None or workload is None or rule is None:
        return
    sized = counted_by(workload, rule.rule.figures)
    chosen = decision.route
    for one in rule.candidates:
        place = (one.site.name, one.queue.name)
        if chosen is not None and place == (chosen.site.name, chosen.queue.name):
            yield QueueLine("/".join(place), taken=True, why="")
            continue
        tried = fit(policy, rule.rule, one, sized, requester, states.states.get(place))
        yield QueueLine("/".join(place), taken=False, why=_LATER if isinstance(tried, Route) else str(tried))
