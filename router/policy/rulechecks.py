"""Checks the rules of a policy: conditions, queues, unreachable rules, limits that no Job can meet.

Pure. Every function returns problems or warnings instead of raising.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from router.errors import Problem
from router.notation import durations, quantity
from router.policy import conditions, unset
from router.policy.checks import exactly_one
from router.policy.conditions import Condition
from router.policy.model import Candidate, CheckedRule
from router.policy.places import Spot
from router.policy.reading import Placed
from router.policy.schema import Choice, Rule
from router.site.schema import Figures, Queue, Site

Queues = Mapping[str, tuple[Site, Queue]]


def check_outcome(placed: Placed[Rule]) -> Iterator[Problem]:
    """Problems unless a rule has exactly one of hpc, cloud and deny, and only keys that go with it."""
    rule = placed.value
    yield from exactly_one(placed, {"hpc": rule.hpc, "cloud": rule.cloud, "deny": rule.deny})
    if rule.hpc is None and (rule.cloud is not None or rule.deny is not None):
        given = rule.model_fields_set
        for name in (
            "if_not_routable",
            "deadline",
            "retries",
            "forbid_hints",
            "defaults",
            "mpi",
            "kueue",
            "directives",
        ):
            if name in given:
                alias = Rule.model_fields[name].alias or name
                yield placed.spot.key_problem(f"{alias} is only for rules with hpc; remove it", alias)


def compiled(when: str, spot: Spot) -> tuple[Condition | None, list[Problem]]:
    """A rule's condition, or what is wrong with it, with a caret under each place."""
    made = conditions.compile_condition(when)
    if isinstance(made, Condition):
        return made, []
    return None, [spot.text_problem(f"when: {fault.message}", fault.offset, when, "when") for fault in made]


def unknown_queues(when: str, spot: Spot, queues: Queues) -> Iterator[Problem]:
    """Problems for ``queues['x']`` without such a queue: it would be an evaluation error for every Job."""
    for read in conditions.named_reads(when) if "queues" in when else ():
        if read.root == "queues" and read.queue not in queues:
            message = f"when: queues['{read.queue}']: {_no_such_queue(read.queue, queues)}"
            yield spot.text_problem(message, read.start, when, "when")


def _no_such_queue(name: str, queues: Queues) -> str:
    having = [key for key in queues if key.endswith(f"/{name}")]
    if having:
        return f"several sites have a queue of that name; write one of {', '.join(having)}"
    alone = {id(queue) for key, (_, queue) in queues.items() if "/" not in key}
    known = [key for key, (_, queue) in queues.items() if "/" not in key or id(queue) not in alone]
    return f"no site has that queue; there are: {', '.join(known) or 'none'}"


def candidates(placed: Placed[Rule], queues: Queues) -> tuple[list[Candidate], list[Problem]]:
    """The queues that a rule may choose, and problems with the queues that it names."""
    found: list[Candidate] = []
    problems: list[Problem] = []
    for index, choice in enumerate(placed.value.hpc or ()):
        key = choice.queue if choice.site is None else f"{choice.site}/{choice.queue}"
        if key not in queues:
            sites = {site.name for site, _ in queues.values()}
            below = ("hpc", index, "queue" if choice.site is None or choice.site in sites else "site")
            problems.append(placed.spot.problem(_unknown_choice(choice, queues), *below))
            continue
        site, queue = queues[key]
        if any(other.site is site and other.queue is queue for other in found):
            problems.append(placed.spot.problem(f"hpc: queue {key} is listed twice", "hpc", index, "queue"))
        found.append(Candidate(site, queue, choice))
    return found, problems


def _unknown_choice(choice: Choice, queues: Queues) -> str:
    if choice.site is None:
        return f"hpc: queue {choice.queue}: {_no_such_queue(choice.queue, queues)}".replace("write one of", "add site:")
    sites = dict.fromkeys(site.name for site, _ in queues.values())
    if choice.site not in sites:
        return f"hpc: there is no site {choice.site}; there are: {', '.join(sites) or 'none'}"
    having = [queue.name for site, queue in queues.values() if site.name == choice.site]
    return f"hpc: site {choice.site} has no queue {choice.queue}; it has: {', '.join(dict.fromkeys(having))}"


# --- order ------------------------------------------------------------------------------------------------------


def unreachable(rules: list[Placed[Rule]]) -> Iterator[Problem]:
    """Problems for rules that no Job reaches: an earlier rule holds for all Jobs, or has the same condition."""
    always: Placed[Rule] | None = None
    seen: dict[tuple[str, Figures], Placed[Rule]] = {}
    for placed in rules:
        read = (conditions.bare(placed.value.when), placed.value.figures)
        earlier = always or seen.get(read)
        if earlier is not None:
            why = "holds for every Job" if always is not None else "has the same condition"
            message = f"cannot be reached: rule {earlier.value.name} ({earlier.spot.line}) {why}"
            yield placed.spot.problem(message, "when")
        elif placed.value.mode == "enforce":
            seen[read] = placed
            always = placed if conditions.always(placed.value.when) else None


def catch_all(rules: list[Placed[Rule]]) -> Iterator[Problem]:
    """A problem if the last rule does not hold for every Job: each Job must be decided on purpose."""
    last = rules[-1]
    if last.value.mode == "audit":
        yield last.spot.problem(
            "is the last rule and in mode audit, so it decides nothing; add a last rule with cloud: true", "mode"
        )
    elif not conditions.may_be_always(last.value.when):
        message = "is the last rule and does not hold for every Job; add one after it, e.g. {name: rest, cloud: true}"
        yield last.spot.problem(message, "when")


# --- limits that no Job can meet --------------------------------------------------------------------------------

_CEILING_OF: Final = ("cpus", "memory", "gpus", "ranks", "ranksPerNode", "nodes", "walltime")
_COMPARISON: Final = re.compile(r"(>=|<=|==|>|<)")
_TURNED: Final = {">": "<", "<": ">", ">=": "<=", "<=": ">=", "==": "=="}
_PIECE: Final = re.compile(rf"{conditions.STRING}|//[^\n]*|&&|\|\||[()\[\]{{}}?]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Bound:
    """A term of a condition, at ``offset``, that demands ``low`` <= ``job.<figure>`` <= ``high`` (None: open)."""

    figure: str
    low: int | None
    high: int | None
    offset: int
    text: str


def terms(source: str) -> list[tuple[int, str]]:
    """The terms of a top-level ``&&``, with their offsets; empty for conditions of another form."""
    depth, start = 0, 0
    found: list[tuple[int, str]] = []
    for match in _PIECE.finditer(source):
        piece = match[0]
        if piece in {"(", "[", "{"}:
            depth += 1
        elif piece in {")", "]", "}"}:
            depth -= 1
        elif depth == 0 and piece in {"||", "?"}:
            return []
        elif depth == 0 and piece == "&&":
            found.append((start, source[start : match.start()]))
            start = match.end()
    return [*found, (start, source[start:])]


def bounds(source: str) -> list[Bound]:
    """The limits that the terms of a condition set on single figures of a Job."""
    found = []
    for offset, term in terms(source):
        sides = _COMPARISON.split(term)
        if len(sides) != 3:
            continue
        left, operator, right = (side.strip() for side in sides)
        if right.startswith("job."):
            left, operator, right = right, _TURNED[operator], left
        name = left.removeprefix("job.")
        value = conditions.constant(right) if left.startswith("job.") and name.isalnum() else None
        if value is not None:
            low = {">": value + 1, ">=": value, "==": value}.get(operator)
            high = {"<": value - 1, "<=": value, "==": value}.get(operator)
            blank = len(term) - len(term.lstrip())
            found.append(Bound(name, low, high, offset + blank, " ".join(term.split())))
    return found


def impossible(placed: Placed[Rule], found: list[Candidate]) -> Iterator[Problem]:
    """Problems for demands that contradict each other, or that no queue of the rule can meet."""
    rule = placed.value
    demanded = bounds(rule.when)
    for bound in demanded:
        other = next((b for b in demanded if b.figure == bound.figure and _contradict(bound, b)), None)
        if other is not None:
            message = f"when: no Job meets both '{bound.text}' and '{other.text}'"
            yield placed.spot.text_problem(message, bound.offset, rule.when, "when")
    if not found:
        return
    for bound in demanded:
        most = _most(found, bound.figure)
        if most is not None and bound.low is not None and bound.low > most:
            limit = f"job.{bound.figure} can be at most {_shown(bound.figure, most)} there"
            message = f"when: no Job that meets '{bound.text}' fits any queue of this rule: {limit}"
            yield placed.spot.text_problem(message, bound.offset, rule.when, "when")
    for key in ("cpus", "memory", "walltime"):
        value, most = getattr(rule.defaults, key), _most(found, key)
        if value is not None and most is not None and value > most:
            message = f"defaults: {key} is beyond what any queue of this rule has: {_shown(key, most)}"
            yield placed.spot.problem(message, "defaults", key)


def _contradict(lower: Bound, upper: Bound) -> bool:
    return lower.low is not None and upper.high is not None and lower.low > upper.high


def _most(found: list[Candidate], figure: str) -> int | None:
    """The largest value of a figure of one Pod that fits a queue of the rule; None if it is unlimited."""
    if figure not in _CEILING_OF:
        return None
    ceilings = [_ceiling(candidate, figure) for candidate in found]
    known = [ceiling for ceiling in ceilings if ceiling is not None]
    return max(known) if len(known) == len(ceilings) else None


def _ceiling(candidate: Candidate, figure: str) -> int | None:
    queue, choice = candidate.queue, candidate.choice
    nodes = min(queue.nodes, choice.max_nodes or queue.nodes)
    walltimes = [limit for limit in (queue.walltime_max, choice.max_walltime) if limit is not None]
    return {
        "cpus": nodes * queue.cpus_per_node,
        "memory": None if queue.memory_per_node is None else nodes * queue.memory_per_node,
        "gpus": nodes * queue.gpus_per_node,
        "ranks": nodes * queue.cpus_per_node,
        "ranksPerNode": queue.cpus_per_node,
        "nodes": nodes,
        "walltime": min(walltimes) if walltimes else None,
    }[figure]


def _shown(figure: str, value: int) -> str:
    if figure == "memory":
        return quantity.show_bytes(value)
    return durations.show(value) if figure == "walltime" else str(value)


# --- warnings ---------------------------------------------------------------------------------------------------

_INDEXED: Final = re.compile(r"((?:job\.labels|request\.namespaceLabels)\s*\[\s*(" + conditions.STRING + r")\s*\])")
_DOTTED: Final = re.compile(r"((?:job\.labels|request\.namespaceLabels)\s*\.\s*(\w+))\b(?!\s*\()")


def _labels(source: str) -> Iterator[tuple[str, str, str]]:
    """The labels that a condition reads: the expression as written, the key, and the map that it is in."""
    for expression, literal in dict.fromkeys(_INDEXED.findall(source)):
        yield expression, conditions.text_of(literal), expression.partition("[")[0].strip()
    for expression, key in dict.fromkeys(_DOTTED.findall(source)):
        if not re.search(rf"has\s*\(\s*{re.escape(expression)}\s*\)", source):
            yield expression, key, expression.rpartition(".")[0].strip()


def alike(rules: list[Placed[Rule]]) -> Iterator[str]:
    """Warnings about names that differ only in case: people would confuse them in metrics and tests."""
    first: dict[str, Placed[Rule]] = {}
    for placed in rules:
        other = first.setdefault(placed.value.name.lower(), placed)
        if other.value.name != placed.value.name:
            yield f"{placed.spot.line}: {placed.spot.where}: its name differs from rule {other.value.name} ({other.spot.line}) only in case"


_AMOUNTS: Final = {"cpus": {"cpus", "totalCpus"}, "memory": {"memory", "totalMemory"}}


def denied_by_less(rules: Sequence[CheckedRule]) -> Iterator[str]:
    """Warnings about rules that deny by the requests, where a later rule asks the batch system for the limits."""
    for index, first in enumerate(rules):
        if first.rule.deny is None or first.rule.mode == "audit":
            continue
        for amount, fields in _AMOUNTS.items():
            later = [
                one for one in rules[index + 1 :] if one.candidates and getattr(one.rule.figures, amount) == "limits"
            ]
            if later and getattr(first.rule.figures, amount) == "requests" and fields & first.condition.fields("job"):
                name, other = first.name, later[0]
                yield (
                    f"{first.place}: rule {name}: it denies by the requests for {amount}, and rule {other.name} ({other.place}) asks "
                    f"the batch system for the limits, which may be more; write figures: {{{amount}: limits}} into rule {name}"
                )


def doubts(placed: Placed[Rule], condition: Condition, found: list[Candidate], queues: Queues) -> Iterator[str]:
    """Warnings about things that are allowed but probably not intended."""
    rule, head = placed.value, f"{placed.spot.line}: {placed.spot.where}"
    for expression, key, owner in _labels(condition.source):
        if not re.search(rf"(['\"]){re.escape(key)}\1\s*in\s*{re.escape(owner)}", condition.source):
            yield (
                f"{head}: if the label is missing, {expression} cannot be evaluated, and the Job stays in the cloud "
                f"(or is denied, by a rule that denies); write '{key}' in {owner} && … before it"
            )
    for doubt in unset.doubts(condition.source, queues):
        yield str(placed.spot.text_problem(f"when: {doubt.message}", doubt.offset, rule.when, "when"))
    for pattern in conditions.made_patterns(condition.source):
        yield (
            f"{head}: the pattern {pattern} of matches() is known only when a Job comes; if it is not a regular "
            "expression the condition cannot be evaluated, and the Job stays in the cloud (or is denied)"
        )
    for candidate in found:
        queue, choice = candidate.queue, candidate.choice
        if choice.max_nodes is not None and choice.max_nodes > queue.nodes:
            yield f"{head}: maxNodes {choice.max_nodes} has no effect: queue {queue.name} has nodes: {queue.nodes}"
        if (
            choice.max_walltime is not None
            and queue.walltime_max is not None
            and choice.max_walltime > queue.walltime_max
        ):
            limit = durations.show(queue.walltime_max)
            yield f"{head}: maxWalltime has no effect: queue {queue.name} has walltimeMax {limit}"
    if rule.mode == "audit" and rule.cloud:
        yield f"{head}: an audit rule with cloud: true records only that the Job would have stayed"
