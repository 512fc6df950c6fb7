"""What the virtual Nodes of a Job's Pods say, where the Pods themselves cannot say why they wait.

Pure. While a site is out of reach, or its agent is away, nobody writes anything to its Pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from router import names
from router.operating.overview import NOT_READY, condition, trouble
from router.operating.story import PodStory
from router.pod.status import FAILED, PENDING, SUCCEEDED

Json = Mapping[str, Any]
NOT_FOUND: Final = "NotFound"
"""Our word for a Node that is not there, as the API server answers."""
_READY: Final = "Ready"
_OLD: Final = "what is told of these Pods may be old; jobs that run go on"
_BLIND: Final = frozenset({NOT_FOUND, NOT_READY, names.CONDITION_HPC_UNAVAILABLE})
"""Where nobody knows of a Pod's batch job, even if the Pod has a reason or runs."""
_MEANS: Final = {
    NOT_FOUND: f"an agent of its site makes this Node; does one run? {_OLD}",
    NOT_READY: f"the agent of its site is away, and finds everything again when it is back; {_OLD}",
    names.CONDITION_HPC_UNAVAILABLE: f"the batch system does not answer the agent, which goes on asking; {_OLD}",
    names.CONDITION_SITE_REFUSED: "Pods are submitted when the site is mended",
    names.CONDITION_QUEUE_CLOSED: "the queue takes or starts no jobs now",
    _READY: "its agent has said nothing of these Pods yet",
}


@dataclass(frozen=True, slots=True)
class NodeStory:
    """A Node's words. ``condition``: its worst trouble, or ``Ready``; ``since`` (RFC 3339) and ``message`` are its own.

    ``means``: what follows for ``pods``, its Pods of the Job.
    """

    node: str
    condition: str
    since: str
    message: str
    means: str
    pods: tuple[str, ...]


def nodes_to_ask(pods: Iterable[PodStory]) -> dict[str, list[PodStory]]:
    """The virtual Nodes of Pods that have not ended, each with these Pods."""
    found: defaultdict[str, list[PodStory]] = defaultdict(list)
    for pod in pods:
        if pod.phase not in (SUCCEEDED, FAILED) and pod.node.endswith(names.NODE_SUFFIX):
            found[pod.node].append(pod)
    return dict(found)


def silent(pods: Iterable[PodStory]) -> list[PodStory]:
    """Those that wait without a reason."""
    return [pod for pod in pods if pod.phase == PENDING and not pod.reason]


def node_story(name: str, node: Json | None, pods: Sequence[PodStory]) -> NodeStory | None:
    """What a Node (None: it is missing) says of these Pods; None if they can say more themselves."""
    kind, since, words = _words(node)
    about = list(pods) if kind in _BLIND else silent(pods)
    return NodeStory(name, kind, since, words, _MEANS[kind], tuple(pod.name for pod in about)) if about else None


def _words(node: Json | None) -> tuple[str, str, str]:
    """Condition, since when, and its message."""
    if node is None:
        return NOT_FOUND, "", ""
    found = trouble(node)
    if found is not None:
        return found.kind, found.since, found.message
    return _READY, str(condition(node, _READY).get("lastTransitionTime") or ""), ""
