"""Private images: a password, tokens, TLS; and that a password is nowhere where somebody else could read it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from router.certs import issuing
from tests import registry, tokens
from tests.host import puller
from tests.host.puller import Puller
from tests.registry import PASSWORD, USER, Image, Registry

pytestmark = pytest.mark.skipif(shutil.which("apptainer") is None, reason="not installed: apptainer")

_RIGHT = {"username": USER, "password": PASSWORD}
_WRONG = {"username": USER, "password": "battery staple"}
_NOBODY = "to anybody without credentials (401); look at the Pod's pull secret and at the image's name"
_THESE = "to these credentials (401); look at the Pod's pull secret and at the image's name"


@pytest.fixture(scope="module", params=["password", "token"])
def private(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    place = tmp_path_factory.mktemp("private")
    if request.param == "password":
        with registry.serving(place, private=True) as running:
            yield running
    else:
        with tokens.issuing_tokens(place) as server, registry.serving(place, token=server) as running:
            yield running


@pytest.fixture
def ours() -> Iterator[Puller]:
    with puller.installed() as one:
        yield one


def _pushed(served: Registry, name: str) -> str:
    served.push(name, Image([registry.shell(), {"data/a": os.urandom(99)}, {"data/b": b"2"}]))
    return served.named(name)


@pytest.mark.parametrize(
    ("auths", "refused"),
    [([], _NOBODY), ([_WRONG], _THESE), ([_WRONG, _RIGHT], None), ([_RIGHT], None)],
    ids=["none", "wrong", "wrong and right", "right"],
)
def test_credentials_are_tried_in_turn(
    auths: list[dict[str, str]], refused: str | None, private: Registry, ours: Puller
) -> None:
    name = _pushed(private, "team/tool:1")

    answer = ours.ask(name, auths=auths, when="job")

    words = f"{private.address} refuses {name} {refused}" if refused else ""
    expected = ("failed", "ErrImagePull", words) if refused else ("ready", "", "")
    assert (answer["state"], answer["reason"], answer["message"]) == expected


def test_a_password_is_seen_by_nobody(private: Registry, ours: Puller) -> None:
    name = _pushed(private, "team/seen:1")
    seen = ours.directory / "seen"
    program = ours.directory / "runtime"
    program.write_text(
        "#!/bin/sh\n"
        f'{{ echo "$*"; tr "\\0" " " </proc/$PPID/cmdline; nice; grep Cpus_allowed_list /proc/self/status; }} >{seen}\n'
        f"find {ours.directory} -type f -exec cat {{}} + >>{seen}\n"
        'exec apptainer "$@"\n'
    )
    program.chmod(0o755)

    answer = ours.settle(name, auths=[_WRONG, _RIGHT], runtime=str(program))

    assert answer["state"] == "ready", answer
    kept = seen.read_text(errors="replace")
    assert "pull --disable-cache --no-https" in kept
    assert kept.splitlines()[1].endswith("10"), "it gives way to others"
    for path in ours.directory.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    assert PASSWORD not in str(answer)
    assert list(ours.scratch.iterdir()) == []


def test_a_certificate_must_be_trusted(tmp_path: Path, ours: Puller) -> None:
    now = datetime.now(UTC)
    authority = issuing.make_ca(now)
    pair = issuing.make_server_certificate(authority, ("127.0.0.1",), now, 2)
    for name, content in (("cert.pem", pair.public), ("key.pem", pair.private)):
        (tmp_path / name).write_bytes(content)
    ca = ours.program.parent / "ca.pem"
    ca.write_bytes(authority.public)
    with registry.serving(tmp_path, tls=(tmp_path / "cert.pem", tmp_path / "key.pem")) as served:
        name = _pushed(served, "team/tls:1")

        distrusted = ours.ask(name, insecure=False)
        with puller.installed(FURTHER_ENVIRONMENT={"SSL_CERT_FILE": str(ca)}) as trusting:
            trusted = trusting.settle(name, insecure=False)

    assert (distrusted["state"], distrusted["reason"]) == ("failed", "RegistryUnavailable")
    assert f"the certificate of {served.address} is not trusted on " in distrusted["message"]
    assert distrusted["message"].endswith("; install the CA that signed it there")
    assert trusted["state"] == "ready", trusted
