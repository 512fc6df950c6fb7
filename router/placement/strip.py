"""Removes all of Batchgate's values from a Job, even if a user wrote them there.

Pure. Values under reserved keys are not trusted. The annotation ``replaced`` is used only to restore values that the
user might have written.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Final

from router import names
from router.placement.change import FAILED, OUTLASTED, unlimited
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
    Draft,
    Job,
    closed,
    mapping,
    opened,
    put,
    sequence,
)
from router.placement.failures import without_ours
from router.placement.replaced import Replaced, read_replaced
from router.values import unchanging

_DOMAIN: Final = names.PREFIX[:-1]
_RESERVED: Final = names.RESERVED_LABELS | names.RESERVED_ANNOTATIONS
_MOST_NAMED: Final = 10  # finding the nearest hint takes long, and users read only a few warnings
_LONGEST_KEY: Final = 317  # prefix, slash and name, as Kubernetes takes them
_LONGEST_NAME: Final = 63
_REPLACED: Final = (POD_LABELS, POD_ANNOTATIONS, NODE_SELECTOR, TOLERATIONS, NODE_NAME)


@unchanging
class Taken:
    """A value under Batchgate's prefix that a Job carried: the path of its mapping or list, its key, its value."""

    path: str
    key: str
    value: object


@unchanging
class Stripped:
    """A Job without Batchgate's values.

    :param taken: the values that it had under reserved keys (``foreign_keys`` says which of them need a warning)
    :param warnings: about unknown keys, and about entries of ``replaced`` that were ignored
    :param root: put before the Job's field paths (``spec.jobTemplate.`` in a CronJob)
    """

    job: Job
    taken: tuple[Taken, ...] = ()
    warnings: tuple[str, ...] = ()
    root: str = ""


def strip(job: Job, *, root: str = "", stored: Job | None = None) -> Stripped:
    """Remove everything under Batchgate's prefix except hints, and restore the user's values from ``replaced``.

    A field is restored only if it still has Batchgate's value; if the user has changed it since, it stays.

    :param root: put before field paths (``spec.jobTemplate.`` for a CronJob's Job)
    :param stored: at an update, the Job in the cluster: its ``replaced`` is used instead of the new Job's
    :raises JobError: if a field that Batchgate would write has the wrong type
    """
    draft = opened(job, root)
    found = list(_ours(draft, root))
    replaced, wrong = read_replaced(_annotation(job if stored is None else stored))
    if found or replaced.was or replaced.added:
        _take_out(draft, found)
        _put_back(draft, replaced)
        job = closed(draft)
        _restore_empty(draft, replaced)
    warnings = [f"{names.KEY_REPLACED}: {clause}; it was ignored." for clause in wrong]
    warnings += _unknown_keys([one for one in found if not _is_reserved(one)])
    reserved = tuple(one for one in found if _is_reserved(one))
    return Stripped(_without_empties(job), reserved, tuple(warnings), root)


def _annotation(job: Job) -> object:
    return mapping(mapping(job, "metadata", "metadata"), "annotations", "metadata.annotations").get(names.KEY_REPLACED)


def _ours(draft: Draft, root: str) -> Iterator[Taken]:
    for metadata, where in ((draft.metadata, "metadata"), (draft.pod_metadata, POD_METADATA)):
        for kind in ("labels", "annotations"):
            path = f"{where}.{kind}"
            for key, value in mapping(metadata, kind, root + path).items():
                if _DOMAIN in key and names.is_ours(key) and (kind == "labels" or key not in names.HINTS):
                    yield Taken(path, key, value)
    pod = draft.pod
    for key, value in mapping(pod, "nodeSelector", root + NODE_SELECTOR).items():
        if _DOMAIN in key and names.is_ours(key):
            yield Taken(NODE_SELECTOR, key, value)
    for one in sequence(pod, "tolerations", root + TOLERATIONS):
        if _is_our_toleration(one):
            yield Taken(TOLERATIONS, one["key"], one)
    if isinstance(node := pod.get("nodeName"), str) and node.endswith(names.NODE_SUFFIX):
        yield Taken(NODE_NAME, "nodeName", node)


def _is_our_toleration(one: object) -> bool:
    key = one.get("key") if isinstance(one, dict) else None
    return isinstance(key, str) and _DOMAIN in key and names.is_ours(key)


def _is_reserved(one: Taken) -> bool:
    return one.key in _RESERVED or one.path in {NODE_NAME, NODE_SELECTOR, TOLERATIONS}


def _take_out(draft: Draft, found: list[Taken]) -> None:
    keys: dict[str, set[str]] = {}
    for one in found:
        keys.setdefault(one.path, set()).add(one.key)
    for path, gone in keys.items():
        parent, name = draft.parent(path)
        if path == NODE_NAME:
            del parent[name]
        elif path == TOLERATIONS:
            put(parent, name, [one for one in parent[name] if not _is_our_toleration(one)])
        else:
            put(parent, name, {key: value for key, value in parent[name].items() if key not in gone})


def _put_back(draft: Draft, replaced: Replaced) -> None:
    spec, pod = draft.spec, draft.pod
    if spec.get("podReplacementPolicy") == FAILED:
        _value_back(draft, replaced, REPLACEMENT)
    if pod.get("automountServiceAccountToken") is False:
        _value_back(draft, replaced, TOKEN)
    if JOB_DEADLINE in replaced.was:
        moved = replaced.was[JOB_DEADLINE]
        spec.setdefault("activeDeadlineSeconds", moved)
        if pod.get("activeDeadlineSeconds") == moved:
            _value_back(draft, replaced, POD_DEADLINE)
    if FAILURE_POLICY in replaced and (policy := spec.get("podFailurePolicy")) is not None:
        left = without_ours(policy)
        if left is None:
            _value_back(draft, replaced, FAILURE_POLICY)
        else:
            spec["podFailurePolicy"] = left
    if TOLERATIONS in replaced:
        own = replaced.was.get(TOLERATIONS)
        put(pod, "tolerations", _tolerations(pod.get("tolerations") or [], own if isinstance(own, dict) else {}))
    for path in _REPLACED:
        _absent_back(draft, replaced, path)


def _value_back(draft: Draft, replaced: Replaced, path: str) -> None:
    parent, name = draft.parent(path)
    if path in replaced.was:
        parent[name] = replaced.was[path]
    elif path in replaced.added:
        del parent[name]


def _tolerations(present: list[Any], own: dict[str, Any]) -> list[Any]:
    """The user's list: without Batchgate's two tolerations, and with the user's own ones in their old places."""
    left = list(present)
    gone = set()
    for taint in OUTLASTED:
        if unlimited(taint) in left:
            left.remove(unlimited(taint))
            gone.add(taint)
    for index in sorted(own, key=int):
        if own[index]["key"] in gone:
            left.insert(int(index), own[index])
    return left


def _absent_back(draft: Draft, replaced: Replaced, path: str) -> None:
    """Restore a field that is absent after the removal of Batchgate's values, e.g. a mapping that was empty before."""
    parent, name = draft.parent(path)
    if path not in replaced.was or name in parent:
        return
    value = replaced.was[path]
    if path != TOLERATIONS or not isinstance(value, dict):  # for tolerations, a mapping holds single entries of a list
        parent[name] = value


def _restore_empty(draft: Draft, replaced: Replaced) -> None:
    if POD_METADATA in replaced.was and "metadata" not in draft.template and "template" in draft.spec:
        draft.template["metadata"] = replaced.was[POD_METADATA]


def _without_empties(job: Job) -> Job:
    """The Job without empty labels and annotations: Kubernetes drops them, and every decision writes both anyway."""
    metadata = job.get("metadata")
    if metadata and all(metadata.get(kind, job) for kind in ("labels", "annotations")):
        return job
    if not metadata:
        return {name: value for name, value in job.items() if name != "metadata"}
    full = {name: value for name, value in metadata.items() if value or name not in {"labels", "annotations"}}
    return _without_empties({**job, "metadata": full}) if not full else {**job, "metadata": full}


def _unknown_keys(found: list[Taken]) -> Iterator[str]:
    yield from map(_unknown, found[:_MOST_NAMED])
    if len(found) > _MOST_NAMED:
        yield f"{len(found) - _MOST_NAMED} more keys under {names.PREFIX} are unknown to Batchgate and were removed."


def _unknown(one: Taken) -> str:
    if one.key in names.HINTS:
        return f"{one.key} is a hint: write it among the annotations, not the {one.path.rpartition('.')[2]}; it was ignored."
    known = [hint.partition("/")[2] for hint in sorted(names.HINTS)]
    key, name = one.key[:_LONGEST_KEY], one.key.rpartition("/")[2]
    near = difflib.get_close_matches(name, known, n=1) if len(name) <= _LONGEST_NAME else []
    advice = f"did you mean {names.PREFIX}{near[0]}?" if near else f"hints are {', '.join(known)}."
    return f"{key} is unknown to Batchgate and was removed; {advice}"
