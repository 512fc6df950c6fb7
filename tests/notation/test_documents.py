"""Expected values of scalars are what ``kubectl annotate --local -f FILE a=b -o json`` 1.32 made of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.errors import InputError
from router.notation import documents

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

SCALARS = [
    ("yes", True), ("Yes", True), ("YES", True), ("y", True), ("Y", True), ("on", True), ("True", True), ("TRUE", True),
    ("n", False), ("no", False), ("No", False), ("off", False), ("FALSE", False), ("tRue", "tRue"), ("yEs", "yEs"),
    ("~", None), ("null", None), ("Null", None), ("", None), ("nUll", "nUll"),
    ("0o17", 15), ("017", 15), ("-017", -15), ("08", 8), ("09.5", 9.5), ("00", 0), ("0x1F", 31), ("-0x1F", -31),
    ("0X1f", 31), ("0x_1F", 31), ("0b101", 5), ("-0o7", -7), ("0o8", "0o8"), ("0b2", "0b2"), ("1_000", 1000),
    ("1_", 1), ("1__0", 10), ("0_7", 7), ("_1", "_1"), ("+5", 5), ("-0", 0),
    ("1e3", 1000), ("1e2", 100), ("12e03", 12000), ("+12e+2", 1200), ("1.e3", 1000), ("1e-3", 0.001), ("1.5e3", 1500),
    ("1.", 1), (".5", 0.5), ("+.5", 0.5), ("-.5", -0.5), (".5_0", 0.5), ("1_0.5", 10.5), ("5.0", 5),
    ("0.1e", "0.1e"), ("-.e3", "-.e3"), ("1E400", "1E400"), ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808", float(2**63)), ("123456789012345678901234567890", 1.2345678901234568e29),
    ("1:30:00", "1:30:00"), ("190:20:30.15", "190:20:30.15"), ("2024-01-01", "2024-01-01"),
    ("2024-01-01T00:00:00Z", "2024-01-01T00:00:00Z"), ("!!timestamp 2024-01-01", "2024-01-01"), ("=", "="),
    ("<<", "<<"), ('"yes"', "yes"), ("'5'", "5"), ("!!str 5", "5"), ('!!int "5"', 5), ("!!float 5", 5), ("! 5", "5"),
    ("!!str yes", "yes"), ("!!bool yes", True), ("!!binary aGVsbG8=", "hello"), ("a\tb", "a\tb"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SCALARS)
def test_scalars_are_read_as_kubectl_reads_them(text: str, expected: object) -> None:
    value = documents.parse(f"v:\n  - {text}\n", "f")[0].value["v"][0]

    assert (type(expected), expected) == (type(value), value)


DOCUMENTS = [
    ("{1: a, yes: b, 1.5: c, 0x10: d, 017: e}", [{"1": "a", "true": "b", "1.5": "c", "16": "d", "15": "e"}]),
    ("a: &a {b: 2}\nc: {b: 1, <<: *a}", [{"a": {"b": 2}, "c": {"b": 2}}]),  # Go's order: what comes later wins
    ("a: &a {b: 2}\nc: {<<: *a, b: 1}", [{"a": {"b": 2}, "c": {"b": 1}}]),
    ("v: {<<: [{b: 1}, {b: 3, c: 4}]}", [{"v": {"b": 1, "c": 4}}]),
    ('v: {"<<": 1}', [{"v": {"<<": 1}}]),
    ("a: &x hello\nb: *x\n*x : c", [{"a": "hello", "b": "hello", "hello": "c"}]),
    ("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n...\n", [{"a": 1}, {"b": 2}]),
    ("", []),
    ('{"a": "\\ud83d\\ude00", "b": [1, 2.5, null]}', [{"a": "😀", "b": [1, 2.5, None]}]),  # JSON's pairs of surrogates
    ('{\n\t"a": 1\n}', [{"a": 1}]),
    ("a: |\n  x\n   y\nb: >-\n  x\n  y\n", [{"a": "x\n y\n", "b": "x y"}]),
    ("a: 1\r\nb: 2\r\n", [{"a": 1, "b": 2}]),
    ("- {? a : b}", [[{"a": "b"}]]),
    ("a:\nb: {}\nc: []", [{"a": None, "b": {}, "c": []}]),
]


@pytest.mark.parametrize(("text", "expected"), DOCUMENTS)
def test_documents(text: str, expected: list[object]) -> None:
    assert expected == [document.value for document in documents.parse(text, "f")]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

REFUSED = [
    ("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n", "f:5:3: key 'c' occurs twice, first in line 3; remove one of the two"),
    ("{yes: 1, 'true': 2}", "f:1:10: key 'true' occurs twice, first in line 1; remove one of the two"),
    ("a: &x [*x]", "f:1:8: *x contains itself"),
    ("a: &x {b: {c: *x}}", "f:1:15: *x contains itself"),
    ("a: *b", "f:1:4: *b is not an anchor of this document"),
    ("a: &x 1\n---\nb: *x", "f:3:4: *x is not an anchor of this document"),
    ("a: .nan", "f:1:4: .nan is not a number that JSON can carry; put it in quotes if it is text"),
    ("a: -.inf", "f:1:4: -.inf is not a number that JSON can carry; put it in quotes if it is text"),
    ("? [a]\n: b", "f:1:3: is not a key: keys are text"),
    ("{~: 1}", "f:1:2: is not a key: keys are text; put it in quotes"),
    (
        "when: !has(job.cpus)",
        "f:1:7: begins with !, as YAML's tags do; if it is a condition, put the whole condition in quotes",
    ),
    (
        "when: !job.mpi",
        "f:1:7: begins with !, as YAML's tags do; if it is a condition, put the whole condition in quotes",
    ),
    ("a: 1\nwhen: 'x' in y\n", "f:2:11: is not YAML: did not find expected key; put the whole condition in quotes"),
    (
        "- {name: r, when: 'a' in b, x: 1}",
        "f:1:23: is not YAML: did not find expected ',' or '}'; put the whole condition in quotes",
    ),
    (
        "when: a ? b : c",
        "f:1:13: is not YAML: mapping values are not allowed in this context; put the whole condition in quotes",
    ),
    (
        "when: !has(q['x'].up)",
        "f:1:13: is not YAML: did not find expected whitespace or line break; put the whole condition in quotes",
    ),
    (
        "- name: a: b",
        "f:1:10: is not YAML: mapping values are not allowed in this context; if this is one value, put all of it in quotes",
    ),
    (
        "a: `x`",
        "f:1:4: is not YAML: found character that cannot start any token; if this is one value, put all of it in quotes",
    ),
    ('a: 1\nb: "x\nc: 1\n', "f:2:4: is not YAML: the quote that opens here is never closed"),
    ('a: 1\nb: "x\nc: "y"\n', "f:2:4: is not YAML: the quote that opens here is closed only in line 3"),
    ("a: !foo 1", "f:1:4: has the tag !foo, which JSON cannot carry; remove it"),
    ("a: !foo {}", "f:1:4: has the tag !foo, which JSON cannot carry; remove it"),
    ("a: !!set {b, c}", "f:1:4: has the tag tag:yaml.org,2002:set, which JSON cannot carry; remove it"),
    ("a: !!int yes", "f:1:4: 'yes' is not of type int, although its tag says so"),
    ("a: !!binary //", "f:1:4: is not base64 text, although its tag says so"),
    ("a: {<<: 5}", "f:1:5: << takes a mapping or a list of mappings"),
    ("[" * 300 + "]" * 300, "f:1:201: is nested more than 200 levels deep"),
    ("a:\n\tb: 1", "f:2:1: is not YAML: found character that cannot start any token"),
    ("a: 1\n b: 2", "f:2:3: is not YAML: mapping values are not allowed in this context"),
    ("a: \x01", "f:1: holds a character that YAML does not allow (U+0001)"),
    (BOMB, "f:5:29: aliases stand for more than 100000 values; write them out"),
    ('{"a": "\\ud800"}', "f:1:10: is not YAML: found invalid Unicode character escape code"),
    ('{"a": "\\ud83d\\ude00", "a": 1}', "f:1:10: is not YAML: found invalid Unicode character escape code"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused_is_one_error_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        documents.parse(text, "f")

    assert message == str(caught.value)


def test_aliases_may_not_nest_deeper_than_text_may() -> None:
    text = f"a: &a {'[' * 150}{']' * 150}\nb: {'[' * 100}*a{']' * 100}\n"

    with pytest.raises(InputError, match="makes values nest more than 200 levels deep"):
        documents.parse(text, "f")


POSITIONS = "# head\nsites:\n  - name: a\n    queues:\n      - {name: q, nodes: 2}\n---\nrules: []\n"


@pytest.mark.parametrize(
    ("path", "value_at", "key_at"),
    [
        ((), (2, 1), (2, 1)),
        (("sites",), (3, 3), (2, 1)),
        (("sites", 0), (3, 5), (3, 5)),
        (("sites", 0, "name"), (3, 11), (3, 5)),
        (("sites", 0, "queues", 0, "nodes"), (5, 26), (5, 19)),
        (("sites", 0, "queues", 0, "missing"), (5, 9), (5, 9)),
        (("sites", 7, "x"), (3, 3), (3, 3)),
    ],
)
def test_positions_count_from_one(
    path: tuple[str | int, ...], value_at: tuple[int, int], key_at: tuple[int, int]
) -> None:
    first, second = documents.parse(POSITIONS, "f")

    assert (value_at, key_at) == (first.position(path), first.key_position(path))
    assert second.position(("rules",)) == (7, 8)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@UNHURRIED
@given(JSON)
def test_json_is_read_as_json(value: object) -> None:
    """Only what escapes: DEL and others that libyaml does not print are escaped by JSON's ASCII form."""
    read = [document.value for document in documents.parse(json.dumps(value), "f")]

    assert ([] if value is None else [value]) == read


def _error(text: str) -> str:
    """The message, or what every message starts with where there is none."""
    try:
        documents.parse(text, "some-file")
    except InputError as error:
        return str(error)
    return "some-file:"


@UNHURRIED
@given(st.text(alphabet="ab:-{}[]&*!|>'\"%@`,?# \n\t<~0\\", max_size=60) | st.text(max_size=40))
def test_rubbish_is_read_or_refused_with_its_file(text: str) -> None:
    assert _error(text).startswith("some-file:")
