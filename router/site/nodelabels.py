"""Answers what a Job demands of its node for one queue: by the labels of the queue's nodes, and the keys that mean nothing.

Pure. Each node of a queue has, for a label, one of the values that the policy states; a glob stands for all values that
it matches, which the site takes as equal. A demand is met if it is met whichever of these values a node has. Where it is
met for some of them only, directives that choose such nodes can meet it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from router import names
from router.site import globs
from router.site.schema import NodeValue, Queue, Site
from router.values import unchanging
from router.workload.model import Obstacle, Workload
from router.workload.nodedemand import NodeOperator, NodeRequirement
from router.workload.nodelabels import whole_number

ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
HOSTNAME: Final = "kubernetes.io/hostname"
_BETA: Final = {"beta.kubernetes.io/arch": ARCH, "beta.kubernetes.io/os": OS}
"""Old names, which the node life-cycle controller keeps equal on every node."""
_KIND, _VIRTUAL = names.NODE_KIND.split("=")
FIXED: Final = frozenset({OS, _KIND})
"""Labels of every virtual node that no policy changes or ignores, beside those under Batchgate's own prefix."""
USUAL_ARCH: Final = "amd64"
_MOST_SHOWN: Final = 5
_MOST_UNMET: Final = 1000
_LONGEST_SHOWN: Final = 63

Labels = Mapping[str, tuple[NodeValue, ...]]


@unchanging
class NodeChoice:
    """How a queue meets a Job's demands.

    :param directives: those that choose the nodes, as pairs
    :param met: demands that the labels meet, each as a clause
    :param ignored: demands that have no effect, each as ``key=value`` or a clause like it
    """

    directives: tuple[tuple[str, str], ...] = ()
    met: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


ANY_NODE: Final = NodeChoice()


def fixed_key(key: str) -> bool:
    """Whether virtual nodes always have, or always lack, this label, whatever a policy says."""
    return _BETA.get(key, key) in FIXED or key.startswith(names.PREFIX)


def architecture(queue: Queue) -> str:
    """The architecture that a queue's virtual node shows: the first that the policy states, else amd64."""
    stated = queue.node_labels.get(ARCH, ())
    return next((one.value for one in stated if one.value and globs.is_literal(one.value)), USUAL_ARCH)


def choose(workload: Workload, site: Site, queue: Queue) -> tuple[NodeChoice, tuple[Obstacle, ...]]:
    """How the queue meets what the Job demands of nodes, and its unmet demands: none, or those of every alternative.

    The selector is judged once, however many terms there are, and not all of very many unmet demands are told.
    """
    demand = workload.node_demand
    if not demand:
        return ANY_NODE, ()
    place = _Place(site, queue, _labels(site, queue))
    selected = _judged(place, demand.selector, {})
    unmet = list(selected.unmet)
    for term in demand.terms or ((),):
        found = _judged(place, term, selected.chosen)
        if not selected.unmet and not found.unmet:
            met, ignored = selected.met + found.met, selected.ignored + found.ignored
            return NodeChoice(_directives(found.chosen), tuple(met), tuple(ignored)), ()
        unmet += found.unmet
        if len(unmet) > _MOST_UNMET:
            break
    return ANY_NODE, tuple(unmet)


@unchanging
class _Place:
    site: Site
    queue: Queue
    labels: Labels

    def key(self, key: str) -> str:
        """The name under which the labels have a key."""
        return key if key in self.labels else _BETA.get(key, key)

    def ignores(self, one: NodeRequirement) -> bool:
        """Whether a demand means nothing here. What the queue states always means something."""
        if one.of_field or fixed_key(one.key) or one.key in self.queue.node_labels or self.key(one.key) == ARCH:
            return False
        return globs.matches(self.site.ignore_node_labels, one.key)


def _labels(site: Site, queue: Queue) -> Labels:
    own = {
        OS: "linux",
        ARCH: USUAL_ARCH,
        HOSTNAME: names.node_label(names.node_name(site.name, queue.name)),
        _KIND: _VIRTUAL,
        names.KEY_SITE: site.name,
        names.KEY_QUEUE: queue.name,
    }
    return {**{key: (NodeValue(value=value),) for key, value in own.items()}, **queue.node_labels}


@unchanging
class _Judged:
    """Some demands: the values of labels that directives may choose then, and how each demand is answered."""

    chosen: dict[str, list[NodeValue]]
    met: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unmet: list[Obstacle] = field(default_factory=list)


def _judged(place: _Place, demands: Sequence[NodeRequirement], chosen: Mapping[str, list[NodeValue]]) -> _Judged:
    """The answers to all of these demands at once, where others have left only some values to choose from."""
    found = _Judged(dict(chosen))
    for one in demands:
        key = place.key(one.key)
        if place.ignores(one):
            found.ignored.append(shown(one))
            continue
        stated = found.chosen.get(key, place.labels.get(key, ()))
        fitting = [value for value in stated if _meets(value.value, one)]
        if _is_met(place, one, stated, fitting):
            found.met.append(shown(one))
            if _chooses(stated):
                found.chosen[key] = fitting
        else:
            left = found.chosen.get(key)
            found.unmet.append(
                Obstacle(one.path, _reason(place, one) if left is None else _reason_left(place, one, left))
            )
    return found


def _is_met(place: _Place, one: NodeRequirement, stated: Sequence[NodeValue], fitting: Sequence[NodeValue]) -> bool:
    if one.of_field:
        return (names.node_name(place.site.name, place.queue.name) in one.values) is (one.operator == NodeOperator.IN)
    if not stated:
        lacking = one.operator in (NodeOperator.NOT_IN, NodeOperator.DOES_NOT_EXIST)
        return lacking and not one.key.startswith(names.PREFIX)  # other labels of ours change with the queue's figures
    return bool(fitting) if _chooses(stated) else len(fitting) == len(stated)


def _chooses(stated: Sequence[NodeValue]) -> bool:
    """Whether directives choose among the values of a label. There may then be nodes with none of them."""
    return bool(stated) and stated[0].directives is not None


def _meets(stated: str, one: NodeRequirement) -> bool:
    """Whether a node with this value, or with any value that a glob matches, meets a demand on the label."""
    match one.operator:
        case NodeOperator.IN:
            return globs.matches_any(stated, one.values)
        case NodeOperator.NOT_IN:
            return not globs.matches_any(stated, one.values)
        case NodeOperator.EXISTS:
            return True
        case NodeOperator.GT | NodeOperator.LT:
            have, bound = whole_number(stated), whole_number(one.values[0])
            if have is None or bound is None:
                return False
            return have > bound if one.operator == NodeOperator.GT else have < bound
    return False


def _directives(chosen: Mapping[str, Sequence[NodeValue]]) -> tuple[tuple[str, str], ...]:
    """The directives of the first fitting value of each label. ``router.policy.fit`` looks for contradictions."""
    return tuple(pair for values in chosen.values() for pair in (values[0].directives or {}).items())


def contradictions(choice: NodeChoice, others: Iterable[Mapping[str, str]]) -> list[str]:
    """A clause for a directive of the choice that the others, or the choice itself, contradict; none or one."""
    known: dict[str, str] = {}
    for key, value in (*[pair for given in others for pair in given.items()], *choice.directives):
        if key in dict(choice.directives) and known.setdefault(key, value) != value:
            return [f"its nodes would be chosen by the directive {key}, which is {known[key]} and {value} (nodeLabels)"]
    return []


# --- words ------------------------------------------------------------------------------------------------------


def shown(one: NodeRequirement) -> str:
    """A demand in short: ``zone=a``, ``zone in a, b``, ``zone other than a``, ``label zone``, ``cores > 8``."""
    key, values = one.key[: 4 * _LONGEST_SHOWN], _listed(one.values)
    if one.of_field:
        return f"the node {values}" if one.operator == NodeOperator.IN else f"a node other than {values}"
    match one.operator:
        case NodeOperator.IN:
            return f"{key}={values}" if len(one.values) == 1 else f"{key} in {values}"
        case NodeOperator.NOT_IN:
            return f"{key} other than {values}"
        case NodeOperator.EXISTS:
            return f"the label {key}"
        case NodeOperator.GT | NodeOperator.LT:
            return f"{key} {'>' if one.operator == NodeOperator.GT else '<'} {values}"
    return f"nodes without {key}"


def _listed(values: Sequence[str]) -> str:
    """The first values, each cut at the length that Kubernetes allows, and the number of the others."""
    named = ", ".join([value[:_LONGEST_SHOWN] or "''" for value in values[:_MOST_SHOWN]])
    return f"{named} and {len(values) - _MOST_SHOWN} more" if len(values) > _MOST_SHOWN else named


def _reason(place: _Place, one: NodeRequirement) -> str:
    """Why a demand is not met, with what the queue has, and the keys of the policy that would change it."""
    queue, asked = place.queue.name, f"asks for {shown(one)}"
    stated = place.labels.get(place.key(one.key), ())
    if one.of_field or fixed_key(one.key) or (one.key == HOSTNAME and HOSTNAME not in place.queue.node_labels):
        return f"{asked}, {_of_the_virtual_node(place, one, stated)}"
    if place.key(one.key) not in place.queue.node_labels:
        return f"{asked}, {_unstated(place, one, stated)}"
    have = _listed(_values(stated))
    if _chooses(stated):
        return f"{asked}, and nodeLabels of queue {queue} choose among {have}"
    if len(stated) > 1:
        return f"{asked}, and nodeLabels of queue {queue} have nodes of each of {have}, without directives to choose"
    return f"{asked}, and nodeLabels of queue {queue} say {have}"


def _unstated(place: _Place, one: NodeRequirement, usual: Sequence[NodeValue]) -> str:
    """What would answer a demand of which the queue's nodeLabels say nothing. What all queues lack is told but once."""
    site, queue = place.site.name, place.queue.name
    alone = len(place.site.queues) == 1 or any(place.key(one.key) in other.node_labels for other in place.site.queues)
    if not usual:
        which = f"queue {queue}" if alone else "a queue"
        return f"which nodeLabels of {which} or ignoreNodeLabels of site {site} would have to answer"
    have = _listed(_values(usual))
    if alone:
        return f"and nodes of queue {queue} have {have} unless its nodeLabels say otherwise"
    return f"and nodes of site {site} have {have} unless nodeLabels of a queue say otherwise"


def _of_the_virtual_node(place: _Place, one: NodeRequirement, stated: Sequence[NodeValue]) -> str:
    """What a demand meets that is about the virtual node itself: its name, or a label that no nodeLabels should state."""
    site, queue = place.site.name, place.queue.name
    if one.of_field:
        return f"and on queue {queue} it would be {names.node_name(site, queue)}"
    if not stated:
        return "a label that Batchgate changes as it likes; take it out"
    have = _listed(_values(stated))
    if one.key == HOSTNAME:
        return f"and on queue {queue} it would be {have}; only ignoreNodeLabels of site {site} could pass it over"
    return f"and the virtual node of queue {queue} has {have}"


def _reason_left(place: _Place, one: NodeRequirement, left: Sequence[NodeValue]) -> str:
    """Why a demand is not met where other demands on the same label have left only some values to choose from."""
    have = _listed(_values(left))
    return f"asks for {shown(one)}, and the Job's other demands on it leave {have} of queue {place.queue.name}"


def _values(stated: Sequence[NodeValue]) -> tuple[str, ...]:
    return tuple(value.value for value in stated)


def warning(choice: NodeChoice, site: Site) -> str | None:
    """One sentence for all demands without effect; None without any."""
    if not choice.ignored:
        return None
    named, more = choice.ignored[: 2 * _MOST_SHOWN], len(choice.ignored) - 2 * _MOST_SHOWN
    told = f"{'; '.join(named)}{f'; and {more} more' if more > 0 else ''}"
    return f"Node labels that mean nothing on site {site.name} (ignoreNodeLabels) have no effect there: {told}."
