"""One pulls, however many ask: claims, who is dead, and file systems that know neither locks nor links."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bed import commands
from bed.layout import Layout
from bed.login import CACHE_SECONDS, mount_options
from router.host import imagepull
from router.host.eventloop import EventLoop
from router.host.remote import RemoteHost
from tests import registry
from tests.host import helpers, puller
from tests.host.puller import Puller
from tests.registry import Image, Pushed, Registry

_REAL = pytest.mark.skipif(shutil.which("apptainer") is None, reason="not installed: apptainer")
_LARGE = 1 << 25
"""Bytes of a layer that takes a while."""


def test_the_second_does_not_get_it(tmp_path: Path) -> None:
    claim = str(tmp_path / "a.claim")

    taken = [imagepull.take(claim, token) for token in ("one", "two")]

    assert taken == [True, False]
    assert (imagepull.holder(claim), list(tmp_path.iterdir())) == ("one", [tmp_path / "a.claim"])


@pytest.mark.parametrize(
    ("said", "age", "lives"),
    [
        ("{}", 0, True),
        ("", 0, True),
        ("{}", 100, True),
        ("{}", 121, False),
        ('{"place": "elsewhere", "pid": 1, "begun": "7"}', 60, True),
        ('{"place": "HERE", "pid": PID, "begun": "BEGUN"}', 60, True),
        ('{"place": "HERE", "pid": PID, "begun": "BEGUN"}', 121, False),
        ('{"place": "HERE", "pid": PID, "begun": "7"}', 0, False),
        ('{"place": "HERE", "pid": 4194305, "begun": "7"}', 0, False),
        (None, 0, False),
    ],
)
def test_who_lives(said: str | None, age: int, lives: bool, tmp_path: Path) -> None:
    claim, now = tmp_path / "a.claim", time.time()
    if said is not None:
        pid = os.getpid()
        words = said.replace("HERE", imagepull.place()).replace("PID", str(pid)).replace("BEGUN", imagepull.begun(pid))
        claim.write_text(f"one\n{words}\n")
        os.utime(claim, (now - age, now - age))

    assert imagepull.lives(str(tmp_path), str(claim)) is lives


def _take_over(asked: tuple[str, str, str]) -> bool:
    claim, token, cache = asked
    return imagepull.take_over(claim, "dead", token, cache)


def test_the_claim_of_the_dead_becomes_one_other_s(tmp_path: Path) -> None:
    claim = tmp_path / "a.claim"
    tokens = [f"token{number}" for number in range(24)]
    # Not copies of this process: its threads' locks, its handlers of signals and its pipes would be theirs too.
    apart = multiprocessing.get_context("forkserver")
    apart.set_forkserver_preload([__name__])
    with apart.Pool(8) as pool:
        for _ in range(10):
            claim.write_text("dead\n")
            won = pool.map(_take_over, [(str(claim), token, str(tmp_path)) for token in tokens], chunksize=1)

            assert [token for token, mine in zip(tokens, won, strict=True) if mine] == [imagepull.holder(str(claim))]
            assert list(tmp_path.iterdir()) == [claim]


def test_signs_of_life_end_with_the_claim(tmp_path: Path) -> None:
    claim = tmp_path / "a.claim"
    claim.write_text("one\n")
    os.utime(claim, (0, 0))

    assert imagepull.signs(str(claim), "one")
    assert time.time() - claim.stat().st_mtime < 60
    assert not imagepull.signs(str(claim), "two")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with registry.serving(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture
def ours() -> Iterator[Puller]:
    # Fifty that ask at once share the processor: half a minute for an answer is too short on a busy machine.
    with puller.installed(**{"ANSWER_SECONDS, ALARM_SECONDS": (100, 5), "REGISTRY_SECONDS": 60}) as one:
        yield one


def _fetched_once(served: Registry, pushed: Pushed) -> bool:
    fetched = served.fetched()
    return [fetched.count(layer) for layer in pushed.layers] == [1] * len(pushed.layers)


def _pushed(served: Registry, name: str, size: int = 1) -> Pushed:
    (pushed,) = served.push(name, Image([registry.shell(), {"data/a": os.urandom(size)}, {"data/b": b"2"}]))
    served.forget()
    return pushed


@_REAL
def test_fifty_ask_at_once_and_one_pulls(served: Registry, ours: Puller) -> None:
    pushed = _pushed(served, "team/fifty:1")
    name = served.named("team/fifty:1")

    answers = [puller.answer_of(one) for one in [ours.begin(name) for _ in range(50)]]
    last = ours.settle(name)

    assert {answer["state"] for answer in answers} <= {"pulling", "ready"}
    assert {answer["digest"] for answer in [*answers, last]} == {pushed.digest}
    assert _fetched_once(served, pushed)
    assert not [path for path in ours.left() if "refs" not in path and not path.endswith((".sif", ".json"))]


@_REAL
def test_who_was_killed_is_followed_at_once_and_leaves_nothing(served: Registry, ours: Puller) -> None:
    pushed = _pushed(served, "team/killed:1", _LARGE)
    name = served.named("team/killed:1")
    claim = ours.cache / f"{pushed.digest.partition(':')[2]}.claim"
    assert ours.ask(name)["state"] == "pulling"
    served.process.send_signal(signal.SIGSTOP)
    try:
        dead = _worker(claim)
        children = _children(dead)
        os.kill(dead, signal.SIGKILL)
        _until(lambda: not any(Path(f"/proc/{pid}/cwd").exists() for pid in [dead, *children]))
    finally:
        served.process.send_signal(signal.SIGCONT)

    again = ours.ask(name)
    ready = ours.settle(name)

    assert (again["state"], ready["state"], ready["digest"]) == ("pulling", "ready", pushed.digest)
    assert [path for path in ours.left() if not path.endswith((".sif", ".json")) and "refs" not in path] == []
    assert list(ours.scratch.iterdir()) == []


def _worker(claim: Path) -> int:
    """The process that pulls, when its runtime runs."""
    _until(lambda: claim.exists() and bool(_children(json.loads(claim.read_text().splitlines()[1])["pid"])))
    return int(json.loads(claim.read_text().splitlines()[1])["pid"])


def _children(pid: int) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _until(true: object, seconds: float = 60) -> None:
    assert callable(true)
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@_REAL
def test_the_pull_of_another_host_is_waited_for_and_taken_over_when_it_is_dead(served: Registry, ours: Puller) -> None:
    pushed = _pushed(served, "team/elsewhere:1")
    name = served.named("team/elsewhere:1")
    ours.ask(name, when="job")
    claim = ours.cache / f"{pushed.digest.partition(':')[2]}.claim"
    claim.write_text('theirs\n{"place": "elsewhere", "pid": 1, "begun": "7"}\n')
    shutil.chown(claim, ours.user)

    waits = ours.ask(name)
    held = claim.read_text().splitlines()[0]
    os.utime(claim, (time.time() - 121, time.time() - 121))
    ready = ours.settle(name)

    assert (waits["state"], held) == ("pulling", "theirs")
    assert ready["state"] == "ready"
    assert _fetched_once(served, pushed)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        return connection.recv(4) == b"SSH-"
    return False


@contextlib.contextmanager
def _over_sshd(ours: Puller, further: str) -> Iterator[Puller]:
    """The same puller with a cache on a file system that the bed's sshd serves, mounted by the user."""
    layout = Layout()
    key = Path(f"/home/{ours.user}/.ssh/bed")
    # A bed that was ended has left its keys behind.
    if os.geteuid() or not key.exists() or not _answers(layout.ssh_port):
        pytest.skip("the bed is not up")
    far, near = ours.directory / "far", ours.directory / f"near{os.urandom(4).hex()}"
    for path in (far, near):
        path.mkdir(0o700, exist_ok=True)
        shutil.chown(path, ours.user)
    options = f"{mount_options(layout, key)},{further}".replace(f"={CACHE_SECONDS}", "=5").rstrip(",")
    commands.run(["runuser", "-u", ours.user, "--", "sshfs", "-o", options, f"{ours.user}@127.0.0.1:{far}", near])
    try:
        yield replace(ours, directory=near)
    finally:
        commands.run(["umount", "--lazy", near])


@_REAL
@pytest.mark.parametrize("further", ["", "disable_hardlink"], ids=["link count always 1", "no links"])
def test_a_slow_file_system_without_locks(further: str, served: Registry, ours: Puller) -> None:
    tag = "team/slow:" + (further or "links")
    pushed = _pushed(served, tag)
    name = served.named(tag)
    with _over_sshd(ours, further) as slow:
        answers = [puller.answer_of(one) for one in [slow.begin(name) for _ in range(8)]]
        ready = slow.settle(name)

    assert {answer["state"] for answer in answers} <= {"pulling", "ready"}
    assert (ready["state"], ready["digest"]) == ("ready", pushed.digest)
    assert _fetched_once(served, pushed)


@_REAL
@pytest.mark.parametrize("further", ["", "disable_hardlink"], ids=["link count always 1", "no links"])
def test_two_hosts_share_a_cache_of_which_both_believe_old_news(further: str, served: Registry, ours: Puller) -> None:
    tag = "team/hosts:" + (further or "links")
    pushed = _pushed(served, tag)
    name = served.named(tag)
    with _over_sshd(ours, further) as one, _over_sshd(ours, further) as other:
        for each in (one, other):
            assert each.ask(name, when="job")["state"] == "ready"  # so that both have looked at what is not there
        answers = [puller.answer_of(asked) for asked in [each.begin(name) for _ in range(3) for each in (one, other)]]
        ready = [each.settle(name) for each in (one, other)]

    assert {answer["state"] for answer in answers} <= {"pulling", "ready"}
    assert [answer["state"] for answer in ready] == ["ready", "ready"]
    assert _fetched_once(served, pushed)


def test_who_lost_the_claim_leaves_what_is_another_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = imagepull.Found("sha256:" + "a" * 64, {}, None)
    claim, half = tmp_path / f"{'a' * 64}.claim", tmp_path / f".{'a' * 64}.other.sif"
    runtime = tmp_path / "runtime"
    runtime.write_text(f"#!/bin/sh\necho other >{claim}; echo half >{half}; exit 1\n")
    runtime.chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(imagepull, "SCRATCH", str(scratch))
    asked = {"image": "a:1", "cache": str(tmp_path), "runtime": str(runtime), "insecure": False}

    imagepull.work(asked, "docker://a", found)

    assert (claim.read_text(), half.read_text()) == ("other\n", "half\n")
    assert {path.name for path in tmp_path.iterdir()} == {claim.name, half.name, "runtime", "scratch"}
    assert list(scratch.iterdir()) == []


@_REAL
def test_a_pull_goes_on_when_the_site_helper_s_connection_has_ended(served: Registry, ours: Puller) -> None:
    if os.geteuid() != 0:
        pytest.skip("the site helper runs it where root has installed it")
    pushed = _pushed(served, "team/alone:1", _LARGE)
    question = json.dumps(ours.question(served.named("team/alone:1"))).encode()
    loop = EventLoop()
    host = RemoteHost(ours.directory / "site", helpers.piped(helpers.installed(ours.program.parent)), loop)
    try:
        done = host.run(["env", "-i", "PATH=/usr/bin:/bin", str(ours.program)], 60, question)
    finally:
        host.close()
        loop.stop()

    assert json.loads(done.stdout)["state"] == "pulling"
    _until((ours.cache / f"{pushed.digest.partition(':')[2]}.sif").exists)
