"""Pull secrets: which credentials are for an image, as a kubelet chooses them."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from router.host import imagepull
from router.pod.pullsecrets import credentials
from router.site.images import is_insecure
from tests.script.builders import site

ADA = ("ada", "a:b c")
BEN = ("ben", "pw")


def encoded(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.b64encode(text.encode()).decode()


def auth(pair: tuple[str, str]) -> dict[str, str]:
    return {"auth": encoded(":".join(pair))}


def secret(auths: Any, *, old: bool = False) -> dict[str, Any]:
    if old:
        return {"type": "kubernetes.io/dockercfg", "data": {".dockercfg": encoded(auths)}}
    return typed("kubernetes.io/dockerconfigjson", {"auths": auths})


def typed(kind: str, content: Any) -> dict[str, Any]:
    return {"type": kind, "data": {".dockerconfigjson": encoded(content)}}


@pytest.mark.parametrize(
    ("image", "key", "expected"),
    [
        ("perl", "https://index.docker.io/v1/", True),
        ("team/perl:1", "docker.io", True),
        ("docker.io/team/perl:1", "registry-1.docker.io", True),
        ("ghcr.io/x/y:1", "docker.io", False),
        ("ghcr.io/x/y@sha256:00", "ghcr.io", True),
        ("ghcr.io/x/y:1", "https://ghcr.io", True),
        ("ghcr.io/x/y:1", "ghcr.io/x", True),
        ("ghcr.io/x/y:1", "ghcr.io/z", False),
        ("a.example.org/x:1", "*.example.org", True),
        ("a.b.example.org/x:1", "*.example.org", False),
        ("reg:5000/x:1", "reg:5000", True),
        ("reg:5000/x:1", "reg:5001", False),
        ("reg:5000/x:1", "reg", False),
        ("localhost/x", "localhost", True),
        ("a.example.org/x:1", "?.[e]xample.o*", True),
        ("a.example.org/x:1", "A.example.org", False),
        ("ghcr.io/" + "x" * 505, "ghcr.io/" + "x" * 504, True),
        ("ghcr.io/" + "x" * 506, "ghcr.io/" + "x" * 505, False),
    ],
)
def test_which_registry_an_entry_is_for(image: str, key: str, *, expected: bool) -> None:
    assert credentials([secret({key: auth(ADA)})], image) == ((ADA,) if expected else ())


@pytest.mark.parametrize(
    ("image", "host"),
    [
        ("perl", "docker.io"),
        ("perl:5.34", "docker.io"),
        ("team/perl", "docker.io"),
        ("localhost/x", "localhost"),
        ("Localhost/x", "Localhost"),
        ("EVIL/x", "EVIL"),
        ("eViL/a/b:1", "eViL"),
        ("EVIL/x@sha256:" + 64 * "0", "EVIL"),
        ("a.b/x", "a.b"),
        ("a:1/x", "a:1"),
        ("docker.io/x", "docker.io"),
    ],
)
def test_all_ask_and_give_passwords_to_the_same_host(image: str, host: str) -> None:
    hosts = ["docker.io", "localhost", "Localhost", "EVIL", "eViL", "a.b", "a:1"]
    passwords = secret({one: auth(("ada", one)) for one in hosts})

    assert imagepull.name_of(image).host == host
    assert credentials([passwords], image) == (("ada", host),)
    assert is_insecure(site(insecureRegistries=[host]), image) == (image.partition("/")[0] == host)


def test_all_that_fit_are_tried_the_most_exact_first_and_each_once() -> None:
    first = secret({"ghcr.io": auth(ADA), "ghcr.io/x": auth(BEN), "other": auth(("no", "no"))})
    second = secret({"ghcr.io": {"username": "eve", "password": "p"}, "*.io": auth(ADA)}, old=True)

    assert credentials([first, second], "ghcr.io/x/y") == (BEN, ADA, ("eve", "p"))


def test_the_most_exact_comes_first_whichever_secret_it_is_in() -> None:
    image, path = "ghcr.io/lab/x:1", secret({"ghcr.io/lab": auth(BEN)})

    assert credentials([secret({"ghcr.io": auth(ADA)}), path], image) == (BEN, ADA)
    assert credentials([secret({"https://ghcr.io": auth(ADA)}), path], image) == (BEN, ADA)
    assert credentials([secret({"ghcr.io": auth(ADA)}), secret({"ghcr.io": auth(BEN)})], image) == (ADA, BEN)


def test_of_a_secret_the_first_entries_count() -> None:
    entries = {f"r{number}.io": auth(("ada", str(number))) for number in range(201)}

    assert credentials([secret(entries)], "r199.io/x") == (("ada", "199"),)
    assert credentials([secret(entries)], "r200.io/x") == ()


def test_no_key_makes_the_agent_work() -> None:
    long = {"[ab]*" * 40_000 + str(number): auth(ADA) for number in range(2)}
    many = {"[ab]*" * 100 + str(number): auth(ADA) for number in range(200)}

    began = time.process_time()
    assert credentials([secret(long), secret(many)], "localhost/x") == ()
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"type": "kubernetes.io/dockerconfigjson", "data": None},
        {"type": "kubernetes.io/dockerconfigjson", "data": {"token": encoded("x")}},
        {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "%%%"}},
        typed("kubernetes.io/dockerconfigjson", "[]"),
        typed("kubernetes.io/dockerconfigjson", "[" * 100_000),
        typed("Opaque", {"auths": {"ghcr.io": auth(ADA)}}),
        typed("kubernetes.io/dockercfg", {"auths": {"ghcr.io": auth(ADA)}}),
        {"data": secret({"ghcr.io": auth(ADA)})["data"]},
        secret([]),
        secret({"ghcr.io": "text"}),
        secret({"ghcr.io": {"auth": "%"}}),
        secret({"ghcr.io": {"auth": "ü"}}),
        secret({"ghcr.io": {"auth": encoded("no colon")}}),
        secret({"ghcr.io": {"username": "", "password": "x"}}),
    ],
)
def test_what_holds_no_credentials(wrong: dict[str, Any]) -> None:
    assert credentials([wrong], "ghcr.io/x/y") == ()
