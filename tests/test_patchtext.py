"""Patches as they are sent: whatever stands in them, they read back as the operations."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from router import patchtext

PLACE = "\0common\0"
TEXTS = st.text(max_size=8) | st.sampled_from([PLACE, f"a{PLACE}b", "\ud800", '"\\\n', ""])
COMMON = st.text(min_size=1, max_size=20) | st.sampled_from([PLACE, "é\n", '"quoted"\n'])


def decoded(patch: str) -> Any:
    return json.loads(base64.b64decode(patch, validate=True))


@st.composite
def patches(draw: st.DrawFn) -> tuple[list[dict[str, Any]], str, str]:
    """Operations, a text that may stand in them, and its end."""
    common = draw(COMMON)
    text = draw(TEXTS) + common
    entries = st.dictionaries(TEXTS, TEXTS | st.just(text) | st.none() | st.integers(), max_size=3)
    value = (
        entries | TEXTS | st.just(text) | st.lists(entries, max_size=2) | st.dictionaries(TEXTS, entries, max_size=2)
    )
    operation = st.fixed_dictionaries({"op": st.just("add"), "path": TEXTS, "value": value})
    return draw(st.lists(operation, max_size=4)), text, common


@given(patches())
def test_a_patch_reads_back_as_its_operations(patch: tuple[list[dict[str, Any]], str, str]) -> None:
    operations, text, common = patch

    assert operations == decoded(patchtext.encoded(operations, text, common))
    assert operations == decoded(patchtext.encoded(operations))


def test_the_common_end_is_written_once() -> None:
    common = "the same in all\n" * 100
    texts = [f"{'x' * length}\n{common}" for length in range(7)]
    patches = [patchtext.encoded([{"op": "add", "path": "/a", "value": text}], text, common) for text in texts]

    assert texts == [decoded(patch)[0]["value"] for patch in patches]
    assert patchtext._kept(common)[0] in patches[0]
    assert all(patchtext._kept(common)[0] in patch for patch in patches)
    assert patchtext._kept.cache_info().hits > len(patches)


def test_operations_are_left_as_they_were() -> None:
    operations = [{"op": "add", "path": "/a", "value": {"annotations": {"script": "head\ncommon"}}}]

    patchtext.encoded(operations, "head\ncommon", "common")

    assert operations == [{"op": "add", "path": "/a", "value": {"annotations": {"script": "head\ncommon"}}}]
