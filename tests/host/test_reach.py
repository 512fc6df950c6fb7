from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from router.errors import ConfigError
from router.host import remote
from router.host.eventloop import EventLoop
from router.host.link import Link
from router.host.local import LocalHost
from router.host.reach import UserHosts
from router.host.remote import RemoteHost
from router.site.schema import Site
from tests.host import helpers, sshd


def _site(**given: object) -> Site:
    queues = [{"name": "q", "nodes": 1, "cpusPerNode": 1}]
    return Site.model_validate({"name": "s", "system": "slurm", "workDir": "/w", "queues": queues, **given})


@pytest.fixture
def reaches() -> Iterator[list[UserHosts]]:
    made: list[UserHosts] = []
    yield made
    for one in made:
        one.close()


def test_the_agents_own_user_works_here(tmp_path: Path, reaches: list[UserHosts]) -> None:
    reaches.append(UserHosts(_site(), "ada"))

    assert isinstance(reaches[0].host_of("ada", tmp_path), LocalHost)
    assert reaches[0].host_of("ada", tmp_path) is reaches[0].host_of("ada", str(tmp_path))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "access: own runs everything as ada, so nothing can be done as ben"),
        ({"host": "ssh://svc@login", "knownHosts": "/k"}, "runs everything as svc, so nothing can be done as ben"),
    ],
)
def test_nobody_is_served_as_somebody_else(given: dict[str, object], words: str, reaches: list[UserHosts]) -> None:
    reaches.append(UserHosts(_site(**given), "ada"))

    with pytest.raises(ConfigError, match=words):
        reaches[0].host_of("ben", "/w/s")


@pytest.mark.parametrize("user", ["", "-u", "a b", "../x", "a/b", "Ada", "a\n"])
def test_a_name_that_is_none_becomes_no_file_and_no_word(user: str, reaches: list[UserHosts]) -> None:
    site = _site(host="ssh://login", access="own-keys", keys="/keys", knownHosts="/k")
    reaches.append(UserHosts(site, "ada"))

    with pytest.raises(ConfigError, match="is no name of a user"):
        reaches[0].host_of(user, "/w/s")


def test_through_sudo_each_user_writes_as_that_user(reaches: list[UserHosts]) -> None:
    user = helpers.sudo_user()
    with helpers.open_directory() as directory:
        helper = helpers.installed(directory, python="/usr/bin/python3")
        (directory / "theirs").mkdir(mode=0o777)
        (directory / "theirs").chmod(0o777)
        reaches.append(UserHosts(_site(access="sudo", helper=str(helper)), "root"))
        for name in (user, "root"):
            host = reaches[0].host_of(name, directory / "theirs" / name)
            host.put(directory / "theirs" / name / "a", b"x")

            assert isinstance(host, RemoteHost)
            assert (directory / "theirs" / name / "a").owner() == name
        reaches[0].close()


SLURM = ("env", "-i", "PATH=/bin", "SLURM_TIME_FORMAT=%s")


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ({"access": "own-keys", "host": "ssh://login", "keys": "/keys", "knownHosts": "/k"}, ()),
        ({"access": "sudo"}, (*SLURM, "sudo", "-n", "-u", "watch", "--")),
        (
            {"access": "sudo", "host": "ssh://svc@login", "knownHosts": "/k"},
            (*SLURM, "sudo", "-n", "-u", "watch", "--"),
        ),
        ({"access": "sudo", "observer": "agent"}, SLURM),
        ({"access": "sudo", "host": "ssh://watch@login", "knownHosts": "/k"}, SLURM),
    ],
)
def test_the_words_that_make_a_command_the_observers(
    given: dict[str, object], before: tuple[str, ...], reaches: list[UserHosts]
) -> None:
    reaches.append(UserHosts(_site(**{"observer": "watch", **given}), "agent"))

    assert reaches[0]._looking((*SLURM, "squeue", "-u", "ada")) == (*before, "squeue", "-u", "ada")
    with pytest.raises(ValueError, match="only looks"):
        reaches[0]._looking((*SLURM, "scancel", "7"))


def test_without_an_observer_there_is_none(reaches: list[UserHosts]) -> None:
    reaches.append(UserHosts(_site(access="sudo"), "agent"))

    assert reaches[0].observer() is None


def test_the_observer_logs_in_with_a_key_of_its_own(tmp_path: Path, reaches: list[UserHosts]) -> None:
    (tmp_path / "known").touch()
    given = {"access": "own-keys", "keys": str(tmp_path), "knownHosts": str(tmp_path / "known")}
    reaches.append(UserHosts(_site(host="ssh://127.0.0.1:1", observer="watch", **given), "agent"))
    observer = reaches[0].observer()
    assert observer is not None

    done = observer.run(["squeue"], 60)

    assert done.returncode is None
    assert f"{tmp_path}/watch: No such file" in done.stderr.decode()


def test_with_own_keys_each_user_logs_in(tmp_path: Path, reaches: list[UserHosts]) -> None:
    with sshd.started(tmp_path / "sshd") as server:
        (tmp_path / "keys").mkdir()
        server.key.rename(tmp_path / "keys" / server.user)
        given = {"access": "own-keys", "keys": str(tmp_path / "keys"), "knownHosts": str(server.known_hosts)}
        helper = helpers.installed(tmp_path)
        reaches.append(UserHosts(_site(host=f"ssh://127.0.0.1:{server.port}", helper=str(helper), **given), "agent"))

        host = reaches[0].host_of(server.user, tmp_path / "site")
        host.put(tmp_path / "site" / "a", b"x")

        assert (tmp_path / "site" / "a").owner() == server.user
        other = reaches[0].host_of("somebody", tmp_path / "site").run(["squeue"], 60)
        assert f"{tmp_path}/keys/somebody: No such file" in other.stderr.decode()
        reaches[0].close()


def test_with_one_key_the_account_that_host_names_logs_in(tmp_path: Path, reaches: list[UserHosts]) -> None:
    with sshd.started(tmp_path / "sshd") as server:
        given = {"keys": str(server.key), "knownHosts": str(server.known_hosts)}
        address = f"ssh://{server.user}@127.0.0.1:{server.port}"
        reaches.append(UserHosts(_site(host=address, helper=str(helpers.installed(tmp_path)), **given), "agent"))

        host = reaches[0].host_of(server.user, tmp_path / "site")

        host.check()
        assert (tmp_path / "site").is_dir()
        reaches[0].close()


def test_the_ends_of_many_are_awaited_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that hands over keeps the lead until then."""
    monkeypatch.setattr(remote, "_ENDING", 0.2)
    loop = EventLoop()
    hung = [Link(loop, Mock()) for _ in range(100)]
    before = time.monotonic()

    remote.await_gone([*hung, None])

    assert time.monotonic() - before < 10  # 20 s, if one after the other
