"""Objects out of texts of any length: what ``kubectl get`` prints, in pieces of any size, and what is no such text."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from router.errors import InputError
from router.notation import documents, lists
from tests.policy.given import UNHURRIED


def given_in_pieces(text: str, size: int) -> Callable[[int], str]:
    """Reads a text on, in pieces of one size."""
    pieces = iter([text[at : at + size] for at in range(0, len(text), size)])
    return lambda _: next(pieces, "")


def found(text: str, size: int = 1 << 20) -> list[tuple[Any, int]]:
    return list(lists.objects(given_in_pieces(text, size), "f"))


A, B = {"kind": "Job", "a": [1, "x", None]}, {"kind": "Namespace"}
KUBECTL = {"apiVersion": "v1", "items": [A, B], "kind": "List", "metadata": {"resourceVersion": ""}}
TEXTS = [
    ("", []),
    (" \n", []),
    ("# nothing\n---\n", []),
    (json.dumps(A), [(A, 1)]),
    ("{}", [({}, 1)]),
    (json.dumps(KUBECTL), [(A, 1), (B, 1)]),
    (json.dumps(KUBECTL, indent=4), [(A, 4), (B, 12)]),
    (json.dumps(A) + "\n" + json.dumps(B), [(A, 1), (B, 2)]),
    (json.dumps(A) + "\n---\n" + json.dumps(KUBECTL) + "\n---\n", [(A, 1), (A, 3), (B, 3)]),
    ('{"items": [], "kind": "List"}', []),
    ('{"kind": "JobList", "apiVersion": "batch/v1", "items": [{"a": 1}]}', [({"apiVersion": "batch/v1", "kind": "Job", "a": 1}, 1)]),
    ('{"kind": "JobList", "items": [{"a": 1}]}', [({"a": 1}, 1)]),
    ('{"kind": "JobList", "apiVersion": "batch/v1", "items": [{"kind": "X"}, 5]}', [({"kind": "X"}, 1), (5, 1)]),
    ('{"kind": 5, "apiVersion": "batch/v1", "items": [{"a": 1}]}', [({"a": 1}, 1)]),
    ('{"items": {"a": 1}}', [({"items": {"a": 1}}, 1)]),
    ('{"a": 2.0, "b": 1e3, "c": 0.5, "d": -1, "e": 9223372036854775808}', [({"a": 2, "b": 1000, "c": 0.5, "d": -1, "e": 2.0**63}, 1)]),
    (yaml.safe_dump(KUBECTL), [(A, 3), (B, 8)]),
    ("\n---\n" + yaml.safe_dump_all([A, KUBECTL, None, B]), [(A, 3), (A, 11), (B, 16), (B, 22)]),
    ("{kind: List, items: [{a: 1}, {a: yes}]}", [({"a": 1}, 1), ({"a": True}, 1)]),
    ("- a\n- b\n", [(["a", "b"], 1)]),
    ("x: &x {a: 1}\n<<: *x\n", [({"x": {"a": 1}, "a": 1}, 1)]),
    ("x: &x [{a: 1}, {a: 2}]\nitems: *x\n", [({"a": 1}, 1), ({"a": 2}, 1)]),
    ("kind: List\nitems: &x [{a: 1}]\n", [({"a": 1}, 1)]),
    ("--- &x\nitems: [{a: 1}]\n", [({"a": 1}, 1)]),
    ("items:\n- &x {a: 1}\n- *x\n- {<<: *x, b: 2}\n", [({"a": 1}, 2), ({"a": 1}, 3), ({"a": 1, "b": 2}, 4)]),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_a_list_stands_for_its_items(text: str, expected: list[tuple[Any, int]], size: int) -> None:
    assert found(text, size) == expected


WRONG = [
    ('{"a": 1,}', 'f:1: is not JSON: expected "'),
    ('{"a" 1}', "f:1: is not JSON: expected :"),
    ('{"a": 1} x', "f:1: is not JSON: expected {"),
    ('{"items": [{"a": 1}\n{"b": 2}]}', "f:2: is not JSON: expected , or ]"),
    ('{"items": [\n{"a": nul}]}', "f:2: is not JSON: expecting value"),
    ('{"items": [\n{"a": 1', "f:2: is not JSON: expecting ',' delimiter"),
    ('{"a": "', "f:1: is not JSON: unterminated string starting at"),
    ('{"a": {"b": 1, "b": 2}}', "f:1: is not JSON: duplicate key"),
    ('{"a": 1, "a": 2}', "f:1: is not JSON: key 'a' occurs twice"),
    ('{"a": NaN}', "f:1: is not JSON: NaN is not allowed"),
    ('{"items": [{"a": ' + "[" * 300 + "]" * 300 + "}]}", "f:1: is not JSON: nested more than 200 levels deep"),
    ('{"items": [{"a": ' + "[" * 5000 + "]" * 5000 + "}]}", "f:1: is not JSON: nested"),
    ("a: [\n", "f:2:1: is not YAML: did not find expected node content"),
    ("items:\n- {a: 1, a: 2}\n", "f:2:10: key 'a' occurs twice, first in line 2; remove one of the two"),
    ("items:\n- a: 1\nitems: []\n", "f:3:1: key 'items' occurs twice, first in line 1; remove one of the two"),
    ("a: \x00", "f: is not YAML: "),
]  # fmt: skip


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(("text", "told"), WRONG)
def test_what_is_no_such_text_is_named(text: str, told: str, size: int) -> None:
    with pytest.raises(InputError) as error:
        found(text, size)

    assert str(error.value).startswith(told)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip
OBJECTS = st.lists(
    st.dictionaries(st.sampled_from(["kind", "metadata", "spec", "items "]), VALUES, max_size=3), max_size=5
)


@UNHURRIED
@given(OBJECTS, st.sampled_from([None, 1, 4]), st.integers(1, 200), st.booleans())
def test_json_in_any_pieces_is_what_it_was(items: list[Any], indent: int | None, size: int, ascii_only: bool) -> None:
    text = json.dumps({"apiVersion": "v1", "items": items, "kind": "List"}, indent=indent, ensure_ascii=ascii_only)

    assert [value for value, _ in found(text, size)] == items


@UNHURRIED
@given(OBJECTS, st.integers(1, 200))
def test_yaml_in_any_pieces_is_what_the_whole_would_be(items: list[Any], size: int) -> None:
    text = yaml.safe_dump({"items": items, "kind": "List"}, allow_unicode=True)
    try:
        (whole,) = documents.parse(text, "f")
    except InputError:
        with pytest.raises(InputError, match="f"):
            found(text, size)
        return

    assert [value for value, _ in found(text, size)] == whole.value["items"]


def test_an_object_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "LARGEST", 2 << 20)

    with pytest.raises(InputError, match="f:1: is not JSON: a value is larger than 2 MiB"):
        found('{"items": [{"a": "' + "x" * (8 << 20) + '"}]}')


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_one_object_at_a_time_is_in_memory(form: str) -> None:
    """A List of 32 MiB; whole, as Python's objects, it would take more than that."""
    one = {"kind": "Job", "metadata": {"name": "x" * 1000, "labels": {f"l{number}": "v" for number in range(40)}}}
    piece = json.dumps(one) + ",\n" if form == "json" else "- " + json.dumps(one) + "\n"
    head, foot = ('{"items": [', '{}], "kind": "List"}') if form == "json" else ("items:\n", "kind: List\n")
    count = (32 << 20) // len(piece) if form == "json" else 1000

    def pieces() -> Iterator[str]:
        yield head
        yield from itertools.repeat(piece * 100, count // 100)
        yield foot

    rest = pieces()
    tracemalloc.start()
    seen = sum(1 for _ in lists.objects(lambda _: next(rest, ""), "f"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert seen == count // 100 * 100 + (form == "json")
    assert peak < 8 << 20
