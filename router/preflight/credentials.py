"""Tells whether the agent has the rights that a site's ``secrets: stage`` and ``tokens: stage`` need.

Pure. Never more than a warning: Jobs that need no such thing run all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from router.preflight import Line, Mark
from router.site.rights import Right

_CLUSTER_WIDE = "rights"


def lines(found: Iterable[Right], user: str) -> Iterator[Line]:
    """A line for each right.

    :param user: the account whose rights these are
    """
    for one in found:
        name = f"{_CLUSTER_WIDE}/{one.namespace}"
        expected = f"the agent may {one.right} there"
        if one.allowed:
            yield Line(name, "", Mark.OK, f"{user} may {one.right}", expected)
        else:
            seen = f"{user} may not {one.right}, unless a Role names single ones"
            yield Line(name, "", Mark.WARNING, seen, expected, one.change)


def unknown(why: str) -> Line:
    """The line if nothing could be asked."""
    return Line(_CLUSTER_WIDE, "", Mark.WARNING, why, "the rights that secrets: stage and tokens: stage need")


def nowhere() -> Line:
    """The line if no namespace is known."""
    seen = "accounts name no namespace, and no Pod was sent to the site so far"
    return Line(_CLUSTER_WIDE, "", Mark.OK, seen, "rights where Jobs come from")
