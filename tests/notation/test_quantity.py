"""Quantities: the grammar of the API server, exact, and the same values as the official client reads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity

from router.notation.quantity import millis, show_bytes, show_cpu, units

LARGEST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1", 1),
        (2, 2),
        (0.5, 1),
        ("100m", 1),
        ("1001m", 2),
        ("1n", 1),
        ("-0", 0),
        ("+5", 5),
        (".5", 1),
        ("5.", 5),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1M", 10**6),
        ("1Mi", 2**20),
        ("1.5Gi", 3 * 2**29),
        ("2T", 2 * 10**12),
        ("1Pi", 2**50),
        ("7Ei", 7 * 2**60),
        ("9E", 9 * 10**18),
        ("1e3", 1000),
        ("1E3", 1000),
        ("12e-1", 2),
        ("1e18", 10**18),
        (1e6, 10**6),
        (str(LARGEST), LARGEST),
        ("1.0000000000000000000000000000000000000000001", 2),  # rounded up, however small the rest
    ],
)
def test_whole_units_are_rounded_up(text: object, expected: int):
    assert units(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("1", 1000), ("100m", 100), ("0.1", 100), ("1u", 1), ("1500u", 2), ("2k", 2_000_000)]
)
def test_thousandths_are_rounded_up(text: object, expected: int):
    assert millis(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            " ",
            "1x",
            "1 Gi",
            "Gi",
            "m",
            "1KI",
            "1ki",
            "1mi",
            "1g",
            "1gb",
            "1GiB",
            "0x10",
            "1_000",
            "1,5",
            "--1",
            "+",
        ),
        *(
            "NaN",
            "nan",
            "Infinity",
            "inf",
            "1e",
            "1e1.5",
            "1e3m",
            "1Gim",
            "٣",
            ".",
            "1.5.2",
            "None",
            "True",
            True,
            None,
        ),
        *("-1", "-1m", "-1e3", "1e400", "1e-400", "1e19", "9223372036854775808", "8Ei", "1" * 65, float("nan")),
        *(float("inf"), 10**4000),
    ],
    ids=repr,
)
def test_anything_else_is_refused(text: object):
    with pytest.raises(ValueError, match=r"."):
        units(text)
    with pytest.raises(ValueError, match=r"."):
        millis(text)


numbers = st.from_regex(r"\A[0-9]{1,9}(\.[0-9]{0,6})?\Z")
suffixes = st.sampled_from(["", "m", "u", "n", "k", "M", "G", "Ki", "Mi", "Gi", "e3", "E-3", "e0"])


@given(numbers, suffixes)
def test_the_official_client_reads_the_same(number: str, suffix: str):
    assert units(number + suffix) == math.ceil(parse_quantity(number + suffix))


@given(st.integers(0, LARGEST))
def test_shown_bytes_are_exact(value: int):
    shown = show_bytes(value)

    assert (int(shown.split()[0]) if " byte" in shown else units(shown)) == value


@given(st.integers(0, 10**9))
def test_shown_cpus_are_exact(value: int):
    assert millis(show_cpu(value)) == value


SHOWN = [
    (0, "0"), (1, "1 byte"), (512, "512 bytes"), (1000, "1k"), (1024, "1Ki"), (1536 * 2**20, "1536Mi"), (3 * 10**9, "3G"),
    (8 * 10**9, "8G"), (8 * 2**30, "8Gi"), (1234567, "1234567 bytes"), (1024000, "1024k"), (10**21, "1000E"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "shown"), SHOWN)
def test_bytes_are_shown_in_the_shorter_spelling(value: int, shown: str):
    assert show_bytes(value) == shown
