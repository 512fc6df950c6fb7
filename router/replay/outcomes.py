"""What a policy would decide about a Job that really was, and which facts that decision lacks.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from router.gate.judging import Gate, decided
from router.placement.signing import identity_text
from router.policy import sentences, variables
from router.policy.conditions import Read
from router.policy.decision import Decision
from router.policy.groups import reads_groups
from router.policy.identity import names_people
from router.policy.model import Policy
from router.policy.schema import Rule
from router.replay.cases import GROUPS, USER, Case
from router.replay.record import places
from router.values import unchanging
from router.workload.cluster import UNKNOWN_CLUSTER
from router.workload.model import Workload

UNTOUCHED: Final = "untouched"
"""The target of a Job that is left to the controller that it names."""

_LABELS: Final = "request.namespaceLabels"
_TIME: Final = "request.time"
_CLAIMS: Final = "claims and volumes"
_GPUS: Final = "which resources are GPUs"
_LIVE: Final = frozenset(variable.name for variable in variables.LIVE)


@unchanging
class Outcome:
    """A decision, as far as two policies can differ in it.

    :param queue: ``site/queue``; empty unless the Job goes to HPC
    :param place: file and line of the rule
    :param account: user, account and project on the site
    :param resources: what would be asked of the batch system, in words
    :param ends: the rule's ``retries``, and its ``deadline`` if the Job has one, which change what follows a Pod's end
    :param audited: the audit rules that held
    :param missing: facts that a rule or account reads and that are unknown, as rules name them
    :param perhaps: the queue of a Job that a rule wants on HPC and that lacks an account only as its maker is unknown
    """

    target: str
    rule: str
    place: str
    reason: str
    queue: str = ""
    account: str = ""
    resources: str = ""
    audited: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    perhaps: str = ""
    ends: str = ""


def outcome(policy: Policy, case: Case, workload: Workload) -> Outcome:
    """What the policy decides about the Job, with the queues as they were then."""
    if workload.managed_by in policy.controllers:
        return Outcome(UNTOUCHED, "", "", f"controllers of the policy list {workload.managed_by}")
    moment = int(case.requester.time or 0)
    decision = decided(workload, case.requester, Gate(policy, UNKNOWN_CLUSTER, case.states, None, moment))
    perhaps = _perhaps(policy, case, workload, decision)
    missing = tuple(dict.fromkeys(missing_facts(policy, case, workload, decision)))
    route = decision.route
    where = decision.place
    who = identity_text(route.identity.user, route.identity.account, route.identity.project) if route else ""
    asked = sentences.laid_out(route.allocation, workload) if route else ""
    audited = tuple(one.rule for one in decision.audited)
    place = places(policy).get(decision.rule, "")
    ends = _ends(route.rule, workload) if route else ""
    return Outcome(
        decision.target, decision.rule, place, decision.reason, where, who, asked, audited, missing, perhaps, ends
    )


def _ends(rule: Rule, workload: Workload) -> str:
    return f"{rule.retries!r} {rule.deadline if workload.deadline else ''}"


def _perhaps(policy: Policy, case: Case, workload: Workload, decision: Decision) -> str:
    """The queue of a Job that has no account, if its maker were one whom some account is for; empty if it has none."""
    if not decision.wanted or decision.route is not None or not case.unknown & {USER, GROUPS}:
        return ""
    whoever = _for_whoever(policy, all_people=USER in case.unknown)
    gate = Gate(whoever, UNKNOWN_CLUSTER, case.states, None, int(case.requester.time or 0))
    return decided(workload, case.requester, gate).place


@lru_cache(maxsize=16)
def _for_whoever(policy: Policy, *, all_people: bool) -> Policy:
    """The policy with accounts of people, or those of groups alone, for everybody, at their sites and namespaces."""
    accounts = [
        entry.model_copy(update={"users": ("*",)})
        if not entry.controller and (entry.groups or (all_people and names_people(entry)))
        else entry
        for entry in policy.accounts
    ]
    return replace(policy, accounts=tuple(accounts))


def missing_facts(policy: Policy, case: Case, workload: Workload, decision: Decision) -> Iterator[str]:
    """The facts that a rule up to the one that decided, or an account, reads, and that are unknown; maybe repeated."""
    yield from unknown_to_rules(policy, case, decision.rule)
    if decision.wanted:
        yield from unknown_on_the_way(policy, case, workload)


def unknown_to_rules(policy: Policy, case: Case, last: str) -> Iterator[str]:
    """The facts that the rules up to the one of this name read, and that are unknown; maybe repeated."""
    yield from _unknown(policy, case, _reads(policy, last))


def unknown_to_deciding(policy: Policy, case: Case, last: str) -> Iterator[str]:
    """The same without the audit rules among them, as those decide nothing."""
    yield from _unknown(policy, case, _reads(policy, last, audits=False))


def unknown_to_rule(policy: Policy, case: Case, name: str) -> Iterator[str]:
    """The facts that the condition of the rule of this name reads, and that are unknown; maybe repeated."""
    yield from _unknown(policy, case, _own_reads(policy, name))


def _unknown(policy: Policy, case: Case, reads: Iterable[Read]) -> Iterator[str]:
    for read in reads:
        if read.root == "request" and _is_unknown(case, f"request.{read.field}"):
            yield f"request.{read.field}"
        elif read.root == "queues" and _is_unknown_queue(policy, case, read):
            yield f"queues['{read.queue}'].{read.field}"


def _is_unknown(case: Case, name: str) -> bool:
    requester = case.requester
    absent = {_TIME: requester.time is None, _LABELS: requester.namespace_labels is None}
    return name in case.unknown or absent.get(name, False)


def unknown_on_the_way(policy: Policy, case: Case, workload: Workload) -> Iterator[str]:
    """What accounts and volumes of sites read of a Job on its way to HPC, and that is unknown."""
    if USER in case.unknown and any(names_people(one) for one in policy.accounts):
        yield USER
    if GROUPS in case.unknown and reads_groups(policy):
        yield GROUPS
    if maps_claims(policy) and any(
        one.kind == "persistentVolumeClaim" and one.claim is None for one in workload.volumes
    ):
        yield _CLAIMS


@lru_cache(maxsize=512)
def _reads(policy: Policy, last: str, *, audits: bool = True) -> tuple[Read, ...]:
    """What is read of requests and queues by the rules up to one; by all rules if none has this name."""
    found: dict[Read, None] = {}
    for one in policy.rules:
        if audits or one.rule.mode != "audit":
            found |= dict.fromkeys(_own_reads(policy, one.name))
        if one.name == last:
            break
    return tuple(found)


@lru_cache(maxsize=512)
def _own_reads(policy: Policy, name: str) -> tuple[Read, ...]:
    """What one rule reads of requests and queues."""
    condition = next(one.condition for one in policy.rules if one.name == name)
    found = {Read(read.root, read.field, read.queue, 0): None for read in condition.reads if read.root != "job"}
    for root in condition.whole - {"job"}:
        found |= dict.fromkeys(_whole(policy, root))
    return tuple(found)


def _whole(policy: Policy, root: str) -> Iterator[Read]:
    if root == "request":
        yield from (Read(root, variable.name, "", 0) for variable in variables.REQUEST)
    else:
        yield from (Read(root, name, key, 0) for key in policy.queues if "/" in key for name in sorted(_LIVE))


def _is_unknown_queue(policy: Policy, case: Case, read: Read) -> bool:
    if read.field not in _LIVE or read.queue not in policy.queues:
        return False
    site, queue = policy.queues[read.queue]
    state = case.states.states.get((site.name, queue.name))
    variable = next(one for one in variables.LIVE if one.name == read.field)
    return variable.read(variables.QueueNow(queue, state, site.time_zone)) is None


@lru_cache(maxsize=16)
def maps_claims(policy: Policy) -> bool:
    """Whether a site maps claims by their class or driver, beside their names."""
    return any(entry.storage_class or entry.csi for site in policy.sites for entry in site.volumes)


def unknown_gpus(old: Policy, new: Policy, case: Case) -> tuple[str, ...]:
    """The fact that is missing of a Job of a log, if the policies count other resources as GPUs and it asks for such."""
    if old.gpu_resources == new.gpu_resources or case.recorded is None or not case.workload.extended:
        return ()
    return (_GPUS,)
