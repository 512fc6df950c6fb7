"""The join file, good and bad."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from router.cli.output import as_yaml
from router.errors import ConfigError, InputError
from router.joining import joinfile
from router.joining.joinfile import Join
from tests.jwt import token

CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = """\
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
-----END PUBLIC KEY-----
"""
TOKEN = token("batchgate-system", "batchgate-agent-hpc")
JOIN = Join("hpc", "batchgate-system", "https://api.example.org:6443", "", CA, KEY, TOKEN)
GOOD = joinfile.write(JOIN)


@pytest.mark.parametrize(
    "join",
    [
        JOIN,
        Join("hpc", "batchgate-system", "https://192.0.2.1", "kubernetes", "", KEY, TOKEN),
    ],
)
def test_what_is_written_is_read(join: Join) -> None:
    assert joinfile.parse(yaml.safe_dump(joinfile.write(join)), "hpc.join") == join


AGAIN = "make another one with `batchgate site add`"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"kind": "Join"}, "kind: is batchgate.dev/v1 Join, not batchgate.dev/v1 SiteJoin"),
        ({"site": None}, "has no site"),
        ({"token": ""}, "token: is no text, or empty"),
        ({"namespace": 7}, "namespace: is no text, or empty"),
        ({"password": "x"}, "password: is unknown; the keys are apiVersion, kind, site, namespace, server"),
        ({"server": "http://x"}, "server: 'http://x' is no https:// URL"),
        ({"server": "x"}, "server: 'x' is no https:// URL"),
        ({"ca": "x"}, "ca: is no certificate in PEM form"),
        ({"publicKeys": "x"}, "publicKeys: holds no public key in PEM"),
        ({"token": "x"}, "token: the token is no JSON web token (three parts with dots between them)"),
        (
            {"token": token("batchgate-system", "batchgate-agent")},
            (
                "token: is of system:serviceaccount:batchgate-system:batchgate-agent, not of "
                "batchgate-agent-hpc in batchgate-system"
            ),
        ),
        (
            {"token": token("default", "batchgate-agent-hpc")},
            "token: is of system:serviceaccount:default:batchgate-agent-hpc, not of",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(changes: dict[str, Any], expected: str) -> None:
    text = as_yaml([{key: value for key, value in (GOOD | changes).items() if value is not None}])
    key = expected.partition(":")[0]
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"{key}:")]
    place = f"hpc.join:{lines[0]}" if lines else "hpc.join"

    with pytest.raises(InputError) as caught:
        joinfile.parse(text, "hpc.join")
    found = str(caught.value)
    assert (found[: len(place) + 2 + len(expected)], found.endswith(AGAIN)) == (f"{place}: {expected}", True)


@pytest.mark.parametrize("text", ["", "[]", "a", f"{yaml.safe_dump(GOOD)}---\n{yaml.safe_dump(GOOD)}"])
def test_what_is_no_join_file(text: str) -> None:
    with pytest.raises(InputError) as caught:
        joinfile.parse(text, "hpc.join")
    assert str(caught.value) == f"hpc.join: is no join file, which is one mapping; {AGAIN}"


def test_no_error_shows_the_token() -> None:
    text = yaml.safe_dump(GOOD).replace("token: ", "token: {")

    with pytest.raises(InputError) as caught:
        joinfile.parse(text, "hpc.join")
    assert TOKEN not in str(caught.value)


def test_another_site_and_a_late_arrival() -> None:
    joinfile.demand_site(JOIN, "hpc", "hpc.join")
    joinfile.demand_in_time(JOIN, "hpc.join", 4599)
    with pytest.raises(ConfigError) as other:
        joinfile.demand_site(JOIN, "htc", "hpc.join")
    with pytest.raises(ConfigError) as late:
        joinfile.demand_in_time(JOIN, "hpc.join", 4600)

    assert str(other.value) == "hpc.join: is for site 'hpc', not 'htc'; name the site that it is for"
    assert str(late.value) == (
        "hpc.join: its credential ended 1970-01-01 01:16:40 UTC (here it is 1970-01-01 01:16:40 UTC); run `batchgate site "
        "add hpc` again and bring its file here"
    )
