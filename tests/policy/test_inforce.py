from __future__ import annotations

from collections.abc import Mapping

import pytest

from router.policy import inforce
from router.policy.inforce import InForce

NOW = 1_790_000_000.0
OURS, THEIRS = "a1" * 32, "b2" * 32
HEAD = "the agent has policy a1a1a1a1a1a1 in force, the webhook's replica"


def test_a_document_is_read_as_it_was_written() -> None:
    told = InForce(NOW, OURS, "a.yaml:1:1: wrong")

    assert inforce.replicas({inforce.key_of("one"): inforce.document(told)}, NOW) == {"one": told}


def test_a_long_error_is_cut() -> None:
    told = InForce(NOW, OURS, "x" * 5000)

    assert inforce.replicas({"one.json": inforce.document(told)}, NOW)["one"].error == "x" * inforce.LONGEST_ERROR


@pytest.mark.parametrize(
    ("text", "age", "living", "removable"),
    [
        ('{"time": "%s", "digest": "d", "error": ""}', 0, True, False),
        ('{"time": "%s", "digest": "d", "error": ""}', 150, True, False),
        ('{"time": "%s", "digest": "d", "error": ""}', 151, False, False),
        ('{"time": "%s", "digest": "d", "error": ""}', 3601, False, True),
        ('{"time": "%s"}', 0, False, True),
        ('{"time": "soon", "digest": "d", "error": ""}', 0, False, True),
        ('{"time": 7, "digest": "d", "error": ""}', 0, False, True),
        ("[]", 0, False, True),
        ("{", 0, False, True),
    ],
)
def test_documents_that_count_and_those_that_are_removed(text: str, age: int, living: bool, removable: bool) -> None:
    data = {"one.json": text.replace("%s", "2026-09-21T14:13:20Z")}

    assert list(inforce.replicas(data, NOW + age)) == (["one"] if living else [])
    assert inforce.ended(data, NOW + age) == (("one.json",) if removable else ())


def test_another_key_is_nobody_s() -> None:
    assert inforce.replicas({"README": "x"}, NOW) == {}
    assert inforce.ended({"README": "x"}, NOW) == ("README",)


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ({}, ""),
        ({"one": InForce(NOW, OURS), "two": InForce(NOW, OURS, "broken")}, ""),
        (
            {"one": InForce(NOW, OURS), "two": InForce(NOW, THEIRS)},
            f"{HEAD} two has b2b2b2b2b2b2",
        ),
        (
            {"one": InForce(NOW, "", "a.yaml:1:1: wrong\n  | x"), "two": InForce(NOW, THEIRS)},
            f"{HEAD} one has none (it refuses newer files: a.yaml:1:1: wrong), and 1 more differ",
        ),
    ],
)
def test_a_difference_in_words(told: Mapping[str, InForce], sentence: str) -> None:
    assert inforce.difference(OURS, told) == sentence
