"""Which policy each replica of the webhook and each site's agent has in force, and whether it is one and the same.

And whether the registered match conditions that were made from a policy are of the one in force.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from router import names
from router.policy import inforce
from router.policy.matchcondition import MatchCondition, Registered, name_of

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Holder:
    """One program with a policy. ``program``: ``webhook`` or ``agent``; ``name``: the replica's or the site's.

    ``digest``: of its files, empty without a policy. ``error``: why newer files are not in force; of an agent it is not
    known here.
    """

    program: str
    name: str
    digest: str
    error: str = ""


def holders(state: Mapping[str, str], nodes: Iterable[tuple[str, Json]], now: float) -> tuple[Holder, ...]:
    """All programs whose policy is known: replicas first, then agents.

    :param state: the documents that replicas publish, by key
    :param nodes: the virtual nodes, each with its site; an agent writes its policy on them
    :param now: seconds since 1970
    """
    replicas = [Holder("webhook", name, one.digest, one.error) for name, one in inforce.replicas(state, now).items()]
    told = ((site, (node["metadata"].get("annotations") or {}).get(names.NODE_POLICY, "")) for site, node in nodes)
    agents = [Holder("agent", site, digest) for site, digest in sorted({one for one in told if one[1]})]
    return (*replicas, *agents)


def sentence(found: Iterable[Holder]) -> str:
    """One line about all of them: what is in force, and who refuses newer files."""
    found = tuple(found)
    if not found:
        return "nobody says which policy is in force"
    return "; ".join([_in_force(found), *_refusals(found)])


def _in_force(found: Sequence[Holder]) -> str:
    digests = {one.digest for one in found}
    if len(digests) == 1:
        return f"all have {inforce.shown(digests.pop())} in force ({_counted(found)})"
    each = ", ".join(f"{one.program} {one.name} {inforce.shown(one.digest)}" for one in found)
    return f"not the same everywhere: {each}"


def _refusals(found: Sequence[Holder]) -> Iterator[str]:
    """A clause for each error, with the replicas that it keeps from newer files."""
    refusing: dict[str, list[str]] = {}
    for one in found:
        if one.error:
            refusing.setdefault(one.error.partition("\n")[0], []).append(one.name)
    replicas = sum(one.program == "webhook" for one in found)
    for error, who in refusing.items():
        if len(who) == replicas:
            told = "every replica of the webhook refuses" if replicas > 1 else f"the webhook's replica {who[0]} refuses"
        else:
            told = f"replica{'s' * (len(who) > 1)} {', '.join(who)} of the webhook refuse{'s' * (len(who) == 1)}"
        yield f"{told} newer files, which are not in force: {error}"


def _counted(found: Iterable[Holder]) -> str:
    programs = [one.program for one in found]
    replicas, agents = programs.count("webhook"), programs.count("agent")
    words = (("replica of the webhook", "replicas of the webhook", replicas), ("site", "sites", agents))
    return ", ".join(f"{count} {one if count == 1 else more}" for one, more, count in words if count)


@dataclass(frozen=True, slots=True)
class ConditionState:
    """A registered match condition. ``fits``: whether it is of the policy in force; None if unknown."""

    name: str
    fits: bool | None
    reason: str


def condition_state(one: Registered, wanted: MatchCondition | str, found: Iterable[Holder]) -> ConditionState:
    """Whether the API server asks the webhook about all Jobs that the policy in force wants to see.

    :param wanted: of the policy in the cluster's ConfigMap; a sentence if there is none that could be read
    :param found: who has which policy in force
    """
    in_force = {name_of(holder.digest) for holder in found if holder.program == "webhook"}
    if in_force == {one.name}:
        return ConditionState(one.name, fits=True, reason="it is of the policy in force")
    if isinstance(wanted, str):
        return ConditionState(
            one.name, fits=None, reason=f"whether it is of the policy in force cannot be told: {wanted}"
        )
    if in_force - {wanted.name}:
        words = "whether it is of the policy in force cannot be told: the webhook has another one than the ConfigMap"
        return ConditionState(one.name, fits=None, reason=words)
    if one.is_of(wanted):
        return ConditionState(one.name, fits=True, reason="it is as the policy in force wants it")
    words = f"it is not of the policy in force, whose condition is {wanted.name}: Jobs may be kept from the webhook"
    return ConditionState(
        one.name, fits=False, reason=f"{words}. Take it out, or put in what batchgate policy conditions prints"
    )
