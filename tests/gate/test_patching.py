"""Patches: what they turn a Job into, how their paths are written, and that they are few."""

from __future__ import annotations

from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.gate import patching

SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "é", "x" * 100, "\ud800"])
KEYS = st.sampled_from(["a/b", "m~n", "~1", "batchgate.dev/x", "x", ""])
VALUES = st.recursive(
    SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3), max_leaves=8
)
STRINGS = VALUES | st.dictionaries(KEYS, st.sampled_from(["", "1", "2"]), max_size=3)
METADATA = st.none() | st.fixed_dictionaries({}, optional={"labels": STRINGS, "annotations": STRINGS})


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """Documents that differ only in what the gate may change."""
    pod = draw(
        st.fixed_dictionaries(
            {"containers": st.just([{"name": "c"}])},
            optional={
                "nodeName": VALUES,
                "nodeSelector": STRINGS,
                "tolerations": VALUES,
                "activeDeadlineSeconds": VALUES,
                "automountServiceAccountToken": VALUES,
            },
        )
    )
    template = draw(st.fixed_dictionaries({"spec": st.just(pod)}, optional={"metadata": METADATA}))
    spec = draw(
        st.fixed_dictionaries(
            {"template": st.just(template)},
            optional={"podReplacementPolicy": VALUES, "activeDeadlineSeconds": VALUES, "podFailurePolicy": VALUES},
        )
    )
    return draw(st.fixed_dictionaries({"spec": st.just(spec)}, optional={"metadata": METADATA}))


def as_json(value: Any) -> Any:
    """A form in which 1 and True, equal to Python, differ."""
    return (
        repr(value)
        if not isinstance(value, dict | list)
        else (
            {key: as_json(one) for key, one in value.items()}
            if isinstance(value, dict)
            else [as_json(one) for one in value]
        )
    )


@given(documents(), documents())
def test_the_patch_turns_the_one_into_the_other(old: Any, new: Any) -> None:
    operations = patching.diff(old, new)

    assert as_json(jsonpatch.apply_patch(old, operations)) == as_json(new)
    assert {operation["op"] for operation in operations} <= {"add", "remove", "replace"}


@given(documents())
def test_equal_documents_have_no_patch(document: Any) -> None:
    assert patching.diff(document, document) == []


def test_paths_are_escaped_and_mappings_that_are_missing_are_added_whole() -> None:
    old = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": {"containers": []}}}}
    new = {
        "metadata": {"labels": {"a": "b", "batchgate.dev/x~y": "1"}, "annotations": {"batchgate.dev/rule": "r"}},
        "spec": {"template": {"metadata": {"labels": {"c": "d"}}, "spec": {"containers": [], "nodeName": "n"}}},
    }

    assert sorted(patching.diff(old, new), key=lambda one: str(one["path"])) == [
        {"op": "add", "path": "/metadata/annotations", "value": {"batchgate.dev/rule": "r"}},
        {"op": "add", "path": "/metadata/labels/batchgate.dev~1x~0y", "value": "1"},
        {"op": "add", "path": "/spec/template/metadata", "value": {"labels": {"c": "d"}}},
        {"op": "add", "path": "/spec/template/spec/nodeName", "value": "n"},
    ]


@pytest.mark.parametrize("part", ["containers", "restartPolicy"])
def test_fields_that_the_gate_never_changes_are_not_compared(part: str) -> None:
    old = {"spec": {"template": {"spec": {part: "x"}}}}
    new = {"spec": {"template": {"spec": {part: "y"}}}}

    assert patching.diff(old, new) == []
