"""Which policy each replica of the webhook and each site's agent has in force, and whether it is one and the same.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from router import names
from router.policy import inforce

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
    """One line about all of them."""
    found = tuple(found)
    if not found:
        return "nobody says which policy is in force"
    digests = {one.digest for one in found}
    if len(digests) == 1:
        return f"all have {inforce.shown(digests.pop())} in force ({_counted(found)})"
    each = ", ".join(f"{one.program} {one.name} {inforce.shown(one.digest)}" for one in found)
    return f"not the same everywhere: {each}"


def _counted(found: Iterable[Holder]) -> str:
    programs = [one.program for one in found]
    replicas, agents = programs.count("webhook"), programs.count("agent")
    words = (("replica of the webhook", "replicas of the webhook", replicas), ("site", "sites", agents))
    return ", ".join(f"{count} {one if count == 1 else more}" for one, more, count in words if count)
