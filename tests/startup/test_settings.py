"""Addresses as they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from router.errors import ConfigError
from router.startup.settings import Address, WebhookSettings, parse_address


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


def _settings(listen: str, metrics_listen: str) -> WebhookSettings:
    file = Path("none")
    metrics = parse_address(metrics_listen)
    return WebhookSettings(parse_address(listen), ("localhost",), file, file, file, metrics_listen=metrics)


@pytest.mark.parametrize(
    ("listen", "metrics_listen"),
    [("10.0.0.1:8443", "127.0.0.1:8443"), (":8443", ":8443"), ("[::1]:8443", "127.0.0.1:8443")],
)
def test_reviews_and_metrics_have_a_port_each(listen: str, metrics_listen: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _settings(listen, metrics_listen)
    assert str(caught.value) == (
        f"reviews on {listen} and metrics on {metrics_listen} have one port, which alone tells them apart; "
        "give --metrics-listen another port"
    )


@pytest.mark.parametrize(("listen", "metrics_listen"), [(":8443", ":9443"), ("127.0.0.1:0", "127.0.0.1:0")])
def test_other_ports_and_any_free_ones_are_taken(listen: str, metrics_listen: str) -> None:
    assert str(_settings(listen, metrics_listen).metrics_listen) == metrics_listen
