"""Holds what a Pod demands of its node by selectors and affinities.

Pure data. ``nodelabels`` reads it, and ``router.site.nodelabels`` answers it for each queue.
"""

from __future__ import annotations

from enum import StrEnum

from router.values import unchanging


class NodeOperator(StrEnum):
    """How a requirement compares a node's label, as Kubernetes names it."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@unchanging
class NodeRequirement:
    """What a node selector or an expression of a node affinity demands of a node.

    :param path: of its field
    :param operator: a ``NodeOperator``
    :param of_field: whether it is about the node's name (``matchFields``), and not about a label
    """

    path: str
    key: str
    operator: str
    values: tuple[str, ...] = ()
    of_field: bool = False


@unchanging
class NodeDemand:
    """What a Pod demands of its node: all of the selector, and all of any one term (if there are terms)."""

    selector: tuple[NodeRequirement, ...] = ()
    terms: tuple[tuple[NodeRequirement, ...], ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is demanded."""
        return bool(self.selector or self.terms)
