from __future__ import annotations

import pytest

from router.site.addresses import Address, address_of


@pytest.mark.parametrize(
    ("text", "expected", "known_as"),
    [
        ("ssh://login1", Address("", "login1", 22), "login1"),
        ("ssh://hpc@login1.example.org:2222", Address("hpc", "login1.example.org", 2222), "[login1.example.org]:2222"),
        ("ssh://[fd00::1]", Address("", "fd00::1", 22), "fd00::1"),
        ("ssh://a@[fd00::1]:2222", Address("a", "fd00::1", 2222), "[fd00::1]:2222"),
    ],
)
def test_what_an_address_says(text: str, expected: Address, known_as: str) -> None:
    found = address_of(text)

    assert found == expected
    assert found is not None
    assert found.known_as == known_as


@pytest.mark.parametrize(
    "text",
    [
        "login1",
        "ssh://",
        "ssh://-oProxyCommand=x",
        "ssh://-l@x",
        "ssh://x:0",
        "ssh://x:65536",
        "ssh://x/home",
        "ssh://x\n",
    ],
)
def test_what_is_no_address(text: str) -> None:
    assert address_of(text) is None
