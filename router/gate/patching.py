"""Makes the JSON Patch (RFC 6902) of an AdmissionReview from a Job and its routed copy.

Pure. Compares only the fields that Batchgate may change, as the two share all others. The operations are those that
jsonpatch would make.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jsonpatch

Operation = dict[str, Any]

_JSON: Final = json.JSONEncoder(separators=(",", ":"))

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
    """The differences that jsonpatch finds, before it makes an applicable patch: checks and copies double the time."""

    def operations(self) -> list[Operation]:
        """The operations, with the values of the new document itself."""
        self._compare_values((), None, self.src_doc, self.dst_doc)  # type: ignore[attr-defined]  # not in its stubs
        return list(self.execute())


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Operation]:
    """The operations that turn ``old`` into ``new``; empty if they are equal.

    ``router.placement`` must have made ``new`` from ``old``: only the fields that it changes are compared, and values
    that the two share are skipped. The operations contain no moves, which would cost a copy of everything as text. They
    share their values with ``new``, so the caller may write them out but must not change them.
    """
    operations: list[Operation] = []
    _compare(old, new, _TREE, "", operations)
    return operations


def encoded(operations: Sequence[Operation]) -> str:
    """The operations as base64 of JSON."""
    return binascii.b2a_base64(_JSON.encode(operations).encode(), newline=False).decode()


def _compare(
    old: Mapping[str, Any], new: Mapping[str, Any], tree: Mapping[str, Any], path: str, operations: list[Operation]
) -> None:
    """Add the operations for the fields of a tree: first those within its mappings, then those for its other fields."""
    before: Operation = {}
    after: Operation = {}
    for name, below in tree.items():
        mine, theirs = old.get(name), new.get(name)
        if mine is theirs and (mine is not None or (name in old) == (name in new)):
            continue
        if mine and theirs and isinstance(mine, dict) and isinstance(theirs, dict):
            if below is _LEAF:
                _write(_unshared(mine, theirs), _unshared(theirs, mine), f"{path}/{name}", operations)
            else:
                _compare(mine, theirs, below, f"{path}/{name}", operations)
            continue
        if name in old:
            before[name] = mine
        if name in new:
            after[name] = theirs
    _write(before, after, path, operations)


def _write(before: Operation, after: Operation, path: str, operations: list[Operation]) -> None:
    """Add the operations for two mappings in jsonpatch's order; jsonpatch itself compares only keys that both have."""
    if before:
        operations += [{"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in before if key not in after]
    operations += [
        {"op": "add", "path": f"{path}/{_escaped(key)}", "value": value}
        for key, value in after.items()
        if key not in before
    ]
    if before and (both := [key for key in before if key in after]):
        mine, theirs = {key: before[key] for key in both}, {key: after[key] for key in both}
        for operation in _Differences(mine, theirs, optimization=False).operations():
            operation["path"] = path + operation["path"]
            operations.append(operation)


def _unshared(mapping: Operation, other: Operation) -> Operation:
    """The entries that the two mappings do not share: to compare others, jsonpatch would write both as text."""
    return {key: value for key, value in mapping.items() if other.get(key, other) is not value}


def _escaped(key: str) -> str:
    """A key as a part of a JSON Pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
