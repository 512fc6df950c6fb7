"""Which releases of Batchgate run in a cluster, and which of them are too far apart.

Pure. A replica of the webhook publishes its release beside its policy; an agent has it on its Nodes as the version of the
container runtime, ``batchgate://0.1.0``. A release is a minor version: 0.1.0 and 0.2.3 are one apart.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from router.policy import inforce

Json = Mapping[str, Any]

MOST_APART: Final = 1
"""Releases by which two programs may differ."""
_SCHEME: Final = "batchgate://"
_NUMBERS: Final = re.compile(r"(\d+)\.(\d+)\b")
_UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Running:
    """One program and its release, or ``unknown``. ``program``: ``client``, ``webhook`` or ``agent``.

    ``name``: the replica's or the site's; of the client empty.
    """

    program: str
    name: str
    release: str

    def __str__(self) -> str:
        return f"{f'{self.program} {self.name}'.strip()} {self.release}"


def running(state: Mapping[str, str], nodes: Iterable[tuple[str, Json]], now: float) -> tuple[Running, ...]:
    """Every living replica of the webhook, then the agent of each site: the one that leads, or led last.

    :param state: the documents that replicas publish, by key
    :param nodes: the virtual nodes, each with its site
    :param now: seconds since 1970
    """
    living = inforce.replicas(state, now)
    replicas = [Running("webhook", name, one.release or _UNKNOWN) for name, one in living.items()]
    told = {(site, _of_node(node)) for site, node in nodes}
    return (*replicas, *(Running("agent", site, release) for site, release in sorted(told)))


def _of_node(node: Json) -> str:
    info = (node.get("status") or {}).get("nodeInfo") or {}
    runtime = str(info.get("containerRuntimeVersion") or "")
    return runtime.removeprefix(_SCHEME) if runtime.startswith(_SCHEME) else _UNKNOWN


def apart(one: str, other: str) -> int | None:
    """How many releases lie between two versions. None if either is unknown, or another major version."""
    first, second = _NUMBERS.match(one), _NUMBERS.match(other)
    if first is None or second is None or first[1] != second[1]:
        return 0 if one == other else None
    return abs(int(first[2]) - int(second[2]))


def too_far(found: Iterable[Running]) -> tuple[str, ...]:
    """A sentence for each two releases that must not run together, named by one program of each."""
    named = {(one.program, one.release): one for one in reversed(list(found))}
    return tuple(_pairs(named[key] for key in sorted(named, reverse=True)))


def _pairs(found: Iterable[Running]) -> Iterator[str]:
    for one, other in itertools.combinations(found, 2):
        if _UNKNOWN in {one.release, other.release} or one.program == other.program == "agent":
            continue  # agents of two sites have nothing to do with each other
        distance = apart(one.release, other.release)
        if distance is None or distance > MOST_APART:
            yield f"{one} and {other} are more than one release apart; upgrade the older one (docs/releases.md)"


def sentence(found: Iterable[Running]) -> str:
    """One line about all of them."""
    found = tuple(found)
    if not found:
        return "nobody says which release runs"
    releases = {one.release for one in found}
    if len(releases) == 1:
        return f"all are {releases.pop()}"
    return f"not the same everywhere: {', '.join(map(str, found))}"
