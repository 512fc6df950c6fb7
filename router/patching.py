"""From a Job and its routed copy to a JSON Patch (RFC 6902).

Pure. Only what Batchgate may change is compared (the rest is shared, and the same): the operations are jsonpatch's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jsonpatch

Operation = dict[str, Any]

_LEAF: Final = None
_TREE: Final[Mapping[str, Any]] = {
    "metadata": {"labels": _LEAF, "annotations": _LEAF},
    "spec": {
        "podReplacementPolicy": _LEAF,
        "activeDeadlineSeconds": _LEAF,
        "podFailurePolicy": _LEAF,
        "template": {
            "metadata": {"labels": _LEAF, "annotations": _LEAF},
            "spec": {
                "nodeName": _LEAF,
                "nodeSelector": _LEAF,
                "tolerations": _LEAF,
                "activeDeadlineSeconds": _LEAF,
                "automountServiceAccountToken": _LEAF,
            },
        },
    },
}


class _Differences(jsonpatch.DiffBuilder):
    """What jsonpatch finds, not yet made a patch that can be applied: checking and copying it takes as long again."""

    def operations(self) -> list[Operation]:
        """The operations, with the values of the new document itself."""
        self._compare_values((), None, self.src_doc, self.dst_doc)  # type: ignore[attr-defined]  # not in its stubs
        return list(self.execute())


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Operation]:
    """The operations that turn ``old`` into ``new``; none where nothing changed.

    ``new`` must be made of ``old`` by ``router.placement``: what lies outside the fields that it changes is not
    looked at. Moves are not looked for: they save nothing here, and cost a copy of everything as text. The
    operations share their values with ``new``: they are to be written out, not changed.
    """
    if old is new:
        return []
    before, after = _parts(old, new, _TREE)
    return _Differences(before, after, optimization=False).operations()


def _parts(old: Mapping[str, Any], new: Mapping[str, Any], tree: Mapping[str, Any]) -> tuple[Operation, Operation]:
    """Both documents without what is the same or never changed."""
    before: Operation = {}
    after: Operation = {}
    for name, below in tree.items():
        mine, theirs = old.get(name), new.get(name)
        if mine is theirs and (mine is not None or (name in old) == (name in new)):
            continue
        if below is not _LEAF and mine and theirs and isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            before[name], after[name] = _parts(mine, theirs, below)
            continue
        if name in old:
            before[name] = mine
        if name in new:
            after[name] = theirs
    return before, after
