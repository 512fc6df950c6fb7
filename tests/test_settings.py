"""Addresses as they are written."""

from __future__ import annotations

import pytest

from router.errors import ConfigError
from router.settings import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address", "shown"),
    [
        ("0.0.0.0:8443", Address("0.0.0.0", 8443), "0.0.0.0:8443"),
        (":8443", Address("", 8443), ":8443"),
        ("localhost:0", Address("localhost", 0), "localhost:0"),
        ("[::1]:8443", Address("::1", 8443), "[::1]:8443"),
        ("[0:0::0]:65535", Address("::", 65535), "[::]:65535"),
    ],
)
def test_addresses_are_read_and_shown(text: str, address: Address, shown: str) -> None:
    assert (parse_address(text), str(parse_address(text))) == (address, shown)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("8443", "'8443' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("", "'' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("::1:8443", "'::1:8443' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("a:65536", "'a:65536' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("a:-1", "'a:-1' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("a:80\n", "'a:80\\n' is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443"),
        ("[x]:80", "'[x]:80': 'x' is no IPv6 address; write [::]:8443"),
        ("[]:80", "'[]:80': '' is no IPv6 address; write [::]:8443"),
    ],
)
def test_what_is_no_address_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_address(text)
    assert str(caught.value) == sentence
