"""Reads the annotation ``replaced``: the user's own values that Batchgate changed in a routed Job.

Pure. Any user may write the annotation. So a field is restored only if Batchgate changes it and Kubernetes accepts the
value there; all other entries are reported and ignored.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from router import names
from router.placement.change import is_pod_deadline, is_users_own_outlasting
from router.placement.draft import (
    FAILURE_POLICY,
    JOB_DEADLINE,
    NODE_NAME,
    NODE_SELECTOR,
    POD_ANNOTATIONS,
    POD_DEADLINE,
    POD_LABELS,
    POD_METADATA,
    REPLACEMENT,
    TOKEN,
    TOLERATIONS,
)

_MOST_NAMED: Final = 10
_TOLERATION_FIELDS: Final = {"key": str, "operator": str, "value": str, "effect": str, "tolerationSeconds": int}


@dataclass(frozen=True, slots=True)
class Replaced:
    """The user's own values by field path, and the fields that were absent."""

    was: Mapping[str, Any] = field(default_factory=dict)
    added: frozenset[str] = frozenset()

    def __contains__(self, path: object) -> bool:
        """Whether Batchgate changed the field."""
        return path in self.was or path in self.added


NOTHING: Final = Replaced()


def read_replaced(text: object) -> tuple[Replaced, tuple[str, ...]]:
    """The content of the annotation, and one clause for each entry that is not accepted."""
    if text is None:
        return NOTHING, ()
    document = _parsed(text)
    if not isinstance(document, dict):
        return NOTHING, ("it is not JSON as Batchgate writes it",)
    was, added = document.get("was", {}), document.get("added", [])
    if not isinstance(was, dict) or not isinstance(added, list) or document.keys() - {"was", "added"}:
        return NOTHING, ("it is not JSON as Batchgate writes it",)
    good_was = {path: value for path, value in was.items() if path in _VALID and _VALID[path](value)}
    good_added = frozenset(path for path in added if isinstance(path, str) and path in _ADDED and path not in good_was)
    return Replaced(good_was, good_added), tuple(_wrong(was, good_was, added))


def _wrong(was: Mapping[str, Any], good: Mapping[str, Any], added: list[Any]) -> Iterator[str]:
    """One clause for each of the first entries that are not accepted, and the number of the rest."""
    paths = sorted(was.keys() - good.keys())
    strange = [path for path in added if path not in _ADDED]
    yield from (f"{path[:80]} cannot have been {_short(was[path])}" for path in paths[:_MOST_NAMED])
    left = max(0, _MOST_NAMED - len(paths))
    yield from (f"{_short(path)} is not a field that Batchgate adds" for path in strange[:left])
    if (more := len(paths) + len(strange) - _MOST_NAMED) > 0:
        yield f"{more} more entries are not from Batchgate"


def _parsed(text: object) -> object:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):  # numbers with thousands of digits, endlessly nested lists
        return None


def _short(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 40 else shown[:39] + "…"


def _is_no_mapping(value: object) -> bool:
    return value is None or value == {}


def _is_node_name(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.endswith(names.NODE_SUFFIX))


def _are_tolerations(value: object) -> bool:
    if value is None or value == []:
        return True
    return isinstance(value, dict) and all(
        index.isascii() and index.isdecimal() and len(index) <= 4 and _is_toleration(one)
        for index, one in value.items()
    )


def _is_toleration(value: object) -> bool:
    return is_users_own_outlasting(value) and all(
        entry is None or type(entry) is _TOLERATION_FIELDS.get(name)
        for name, entry in value.items()  # type: ignore[attr-defined]  # a mapping, as just seen
    )


_VALID: Final[Mapping[str, Callable[[object], bool]]] = {
    JOB_DEADLINE: is_pod_deadline,
    POD_DEADLINE: lambda value: value is None,
    REPLACEMENT: lambda value: value in ("TerminatingOrFailed", "", None),
    FAILURE_POLICY: lambda value: value is None,
    TOKEN: lambda value: value is None or value is True,
    TOLERATIONS: _are_tolerations,
    POD_METADATA: _is_no_mapping,
    POD_LABELS: _is_no_mapping,
    POD_ANNOTATIONS: _is_no_mapping,
    NODE_SELECTOR: _is_no_mapping,
    NODE_NAME: _is_node_name,
}
_ADDED: Final = (POD_DEADLINE, REPLACEMENT, FAILURE_POLICY, TOKEN, TOLERATIONS)
