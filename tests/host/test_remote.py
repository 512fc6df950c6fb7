"""A site helper that is killed, stopped, replaced, or that something stands before; what is asked again and what never."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.host import HostUnavailable, answers, sentences, sitehelper
from router.host.eventloop import EventLoop
from router.host.remote import Patience, RemoteHost
from tests.host import contract, helpers
from tests.host.sshd import children
from tests.webhook.servers import until

HASTY = Patience(connect=60, file=5)
PATIENT = Patience(connect=60, file=60)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    started = EventLoop()
    yield started
    started.stop()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def helper(tmp_path: Path) -> Path:
    return helpers.installed(tmp_path, programs=[contract.SHELL])


@pytest.fixture
def host(root: Path, helper: Path, loop: EventLoop) -> Iterator[RemoteHost]:
    one = RemoteHost(root, helpers.piped(helper), loop, PATIENT)
    yield one
    one.close()


@pytest.fixture
def hasty(root: Path, helper: Path, loop: EventLoop) -> Iterator[RemoteHost]:
    """One that soon gives up."""
    one = RemoteHost(root, helpers.piped(helper), loop, HASTY)
    yield one
    one.close()


def _helper_of(host: RemoteHost, helper: Path) -> int:
    """The process of the site helper that a host uses now."""
    host.check()
    found = [pid for pid in children(os.getpid()) if str(helper).encode() in _words(pid)]
    return max(found)


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has just ended
        return b""


def _await_end(pid: int) -> None:
    """Until a process has ended."""
    deadline = time.monotonic() + 60
    while pid in children(os.getpid()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_killed_site_helper_is_started_again(host: RemoteHost, helper: Path, root: Path) -> None:
    host.put(root / "a", b"kept")
    first = _helper_of(host, helper)

    os.kill(first, signal.SIGKILL)

    assert host.read(root / "a") == b"kept"
    assert _helper_of(host, helper) != first


def test_a_command_that_was_cut_off_is_not_sent_again(host: RemoteHost, helper: Path, tmp_path: Path) -> None:
    pid = _helper_of(host, helper)
    runs = tmp_path / "runs"

    done = host.run([contract.SHELL, "-c", f"echo run >> {runs}; kill -KILL {pid}; sleep 1"], 60)

    assert done.returncode is None
    assert b"the site helper was cut off" in done.stderr
    host.check()
    assert runs.read_text() == "run\n"


def test_a_change_that_was_cut_off_is_not_made_again(
    host: RemoteHost, helper: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = _helper_of(host, helper)
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(10, os.kill, (pid, signal.SIGKILL)).start()  # when it was asked for long, also on a busy machine

    with pytest.raises(HostUnavailable, match="the site helper was cut off") as caught:
        host.put(root / "a", b"x")

    assert not caught.value.lasting
    assert host.names(root) == []


def test_a_look_that_was_cut_off_is_taken_again(host: RemoteHost, helper: Path, root: Path) -> None:
    host.put(root / "a", b"x")
    pid = _helper_of(host, helper)
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(3, os.kill, (pid, signal.SIGKILL)).start()

    assert host.names(root) == ["a"]


def test_a_stopped_site_helper_is_given_up_and_does_nothing_late(hasty: RemoteHost, helper: Path, root: Path) -> None:
    pid = _helper_of(hasty, helper)
    os.kill(pid, signal.SIGSTOP)

    with pytest.raises(HostUnavailable, match="no answer within 5 seconds; the connection is made anew"):
        hasty.put(root / "a", b"x")
    assert hasty.names(root) == [], "by another one"

    deadline = time.monotonic() + 60
    while pid in children(os.getpid()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert hasty.names(root) == []


def test_a_file_system_that_hangs_is_no_reason_for_another_site_helper(
    hasty: RemoteHost, helper: Path, root: Path
) -> None:
    """What hangs for one request is another's business: the site helper itself answers, and serves on."""
    mark = '"""The names in a directory, separated by NUL."""'
    assert mark in helper.read_text()
    helper.write_text(helper.read_text().replace(mark, "time.sleep(100)"))
    first = _helper_of(hasty, helper)

    with pytest.raises(HostUnavailable, match="the file system gave no answer within 5 seconds"):
        hasty.names(root)

    hasty.put(root / "a", b"x")
    assert _helper_of(hasty, helper) == first


def test_threads_do_not_wait_for_each_other(host: RemoteHost, root: Path) -> None:
    slow = threading.Thread(
        target=host.run, args=([contract.SHELL, "-c", f"until [ -e {root}/go ]; do sleep 0.1; done"], 100)
    )
    slow.start()

    for number in range(50):
        host.put(root / str(number), b"%d" % number)
    assert slow.is_alive()
    host.put(root / "go", b"")
    slow.join(60)

    assert not slow.is_alive()
    assert {host.read(root / str(number)) for number in range(50)} == {b"%d" % number for number in range(50)}


def test_many_threads_get_their_own_answers(host: RemoteHost, root: Path) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            host.put(root / str(number), b"%d" % number)
            if host.read(root / str(number)) != b"%d" % number:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)

    assert wrong == []
    assert sorted(host.names(root), key=int) == [str(number) for number in range(12)]


def _failing(tmp_path: Path, loop: EventLoop, script: str) -> RemoteHost:
    program = tmp_path / "sitehelper"
    program.write_text(script)
    program.chmod(0o755)
    return RemoteHost(tmp_path / "site", helpers.piped(program), loop, HASTY)


@pytest.mark.parametrize(
    ("script", "words", "lasting"),
    [
        ("#!/bin/sh\necho sudo: a password is required >&2; exit 1\n", "sudo asks for a password; give", True),
        (
            "#!/bin/sh\necho 'batchgate is not in the sudoers file.' >&2; exit 1\n",
            "sudo permits the agent's account",
            True,
        ),
        ("#!/bin/sh\necho bash: line 1: /x: No such file >&2; exit 127\n", "there is no site helper at", True),
        ("#!/bin/sh\nexit 126\n", "may not be executed; make it root's", True),
        ("#!/no/such/python\n", "there is no site helper at", True),
        ("#!/bin/sh\nexec head -c 100000 /dev/zero\n", "does not answer as a site helper", True),
        ("#!/bin/sh\necho out of memory >&2; exit 9\n", r"the site helper ended \(exit 9\): out of memory", False),
        ("#!/bin/sh\nkill -9 $$\n", "the site helper was cut off", False),
    ],
    ids=["password", "sudoers", "missing", "mode", "python", "chatter", "else", "killed"],
)
def test_each_failure_is_one_sentence(script: str, words: str, lasting: bool, tmp_path: Path, loop: EventLoop) -> None:
    host = _failing(tmp_path, loop, script)

    with pytest.raises(HostUnavailable, match=words) as caught:
        host.check()

    assert caught.value.lasting is lasting
    assert "\n" not in str(caught.value)
    assert host.run(["qstat"], 60).stderr.decode() == str(caught.value), "the next one is told at once, for a while"
    host.close()


def test_a_site_helper_that_is_not_there(tmp_path: Path, loop: EventLoop) -> None:
    host = RemoteHost(tmp_path / "site", helpers.piped(tmp_path / "none"), loop, HASTY)

    with pytest.raises(HostUnavailable, match=f"there is no site helper at {tmp_path}/none; install it there"):
        host.names(tmp_path / "site")


@pytest.mark.parametrize("mode", [None, 0o750])
def test_whoever_only_looks_makes_nothing(tmp_path: Path, helper: Path, loop: EventLoop, mode: int | None) -> None:
    root = tmp_path / "above" / "site"
    if mode is not None:
        root.mkdir(parents=True)
        root.chmod(mode)
    before = {path: path.stat().st_mode for path in tmp_path.rglob("*")}
    host = RemoteHost(root, helpers.piped(helper), loop, PATIENT, make=False)

    found = host.status(root / "pods"), host.names(root / "pods"), host.names(root)

    assert (found, {path: path.stat().st_mode for path in tmp_path.rglob("*")}) == ((None, [], []), before)
    host.close()


OWN = "VERSION, OLDEST = 1, 1"
TOO_NEW = "serves agents of version {} and later, and this agent has version {}; upgrade the agent"
TOO_OLD = "has version {}, this agent needs {}; install the one of this agent"


@pytest.mark.parametrize(
    ("theirs", "ours", "problem"),
    [
        ((2, 1), (1, 1), ""),
        ((1, 1), (2, 1), ""),
        ((2, 1), (2, 1), ""),
        ((3, 2), (2, 1), ""),
        ((2, 2), (1, 1), TOO_NEW.format(2, 1)),
        ((3, 2), (1, 1), TOO_NEW.format(2, 1)),
        ((1, 1), (3, 2), TOO_OLD.format(1, "2 or 3")),
        ((0, 0), (1, 1), TOO_OLD.format(0, 1)),
    ],
)
def test_a_helper_of_the_release_before_or_after_serves_and_of_another_says_who_is_older(
    helper: Path,
    host: RemoteHost,
    monkeypatch: pytest.MonkeyPatch,
    theirs: tuple[int, int],
    ours: tuple[int, int],
    problem: str,
) -> None:
    """The installed program has other numbers, and so has this agent; all else is the real protocol."""
    text = helper.read_text()
    assert OWN in text
    helper.write_text(text.replace(OWN, f"VERSION, OLDEST = {theirs[0]}, {theirs[1]}"))
    for module in (answers, sentences):
        monkeypatch.setattr(module, "VERSION", ours[0])
        monkeypatch.setattr(module, "OLDEST", ours[1])

    if problem:
        with pytest.raises(HostUnavailable, match=problem) as caught:
            host.check()
        assert caught.value.lasting
    else:
        assert host.clock() > 0


def test_what_a_login_shell_prints_is_skipped(tmp_path: Path, helper: Path, loop: EventLoop) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\necho Welcome to the cluster\necho quota: 80 % >&2\nexec {helper}\n")
    wrapper.chmod(0o755)
    host = RemoteHost(tmp_path / "site", helpers.piped(wrapper), loop, HASTY)

    host.put(tmp_path / "site" / "a", b"x")

    assert host.read(tmp_path / "site" / "a") == b"x"
    host.close()


def test_what_failed_is_tried_again_after_a_pause(tmp_path: Path, loop: EventLoop) -> None:
    host = _failing(tmp_path, loop, "#!/bin/sh\necho >> $0.tries; exit 126\n")
    deadline = time.monotonic() + 60

    for _ in range(20):
        with pytest.raises(HostUnavailable):
            host.check()
    assert len((tmp_path / "sitehelper.tries").read_text()) <= 3
    helpers.installed(tmp_path)
    while True:
        try:
            host.check()
            break
        except HostUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    host.close()


def test_more_than_one_message_holds_is_refused_and_harms_nothing(host: RemoteHost, root: Path) -> None:
    with pytest.raises(OSError, match="more than one message to a site helper holds") as caught:
        host.put(root / "large", bytes(sitehelper.MOST_BODY + 1))

    assert caught.value.errno == errno.EFBIG
    assert host.names(root) == []


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("only root can mount a small file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_full_disk_is_told_and_leaves_nothing_half_written(small: Path, helper: Path, loop: EventLoop) -> None:
    host = RemoteHost(small / "site", helpers.piped(helper), loop, HASTY)
    host.put(small / "site" / "a", b"old")

    with pytest.raises(
        OSError, match="no space is left on that file system; free some, or choose another workDir"
    ) as caught:
        host.put(small / "site" / "a", bytes(2 << 20))

    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(small / "site" / "a"))
    assert host.read(small / "site" / "a") == b"old"
    assert host.names(small / "site") == ["a"]
    host.close()


def test_a_file_system_that_is_read_only_is_told(small: Path, helper: Path, loop: EventLoop) -> None:
    host = RemoteHost(small / "site", helpers.piped(helper), loop, HASTY)
    host.make_directory(small / "site" / "pods")
    subprocess.run(["mount", "-o", "remount,ro", small], check=True)

    with pytest.raises(OSError, match="that file system is mounted read-only") as caught:
        host.put(small / "site" / "a", b"")
    assert caught.value.errno == errno.EROFS
    other = RemoteHost(small / "other", helpers.piped(helper), loop, HASTY)
    with pytest.raises(
        HostUnavailable, match=r"work directory cannot be used: .*/other: that file system is mounted read-only"
    ):
        other.check()
    host.close()
    other.close()


def test_a_connection_that_is_not_used_is_ended_and_opened_again_on_demand(
    host: RemoteHost, helper: Path, root: Path
) -> None:
    host.put(root / "a", b"kept")
    first = _helper_of(host, helper)

    host.rest(600)
    assert _helper_of(host, helper) == first, "it was used a moment ago"
    host.rest(0)

    _await_end(first)
    host.rest(0)
    assert host.read(root / "a") == b"kept"
    assert _helper_of(host, helper) != first


def test_a_connection_on_which_something_is_asked_is_not_ended(host: RemoteHost, root: Path) -> None:
    host.make_directory(root)
    fifo = root / "go"
    os.mkfifo(fifo)
    answers: list[tuple[int | None, bytes]] = []

    def ask() -> None:
        done = host.run([contract.SHELL, "-c", f"cat {fifo}; echo over"], 60)
        answers.append((done.returncode, done.stdout))

    asking = threading.Thread(target=ask)
    asking.start()
    with fifo.open("w"):  # opened once the command reads it: so it is under way
        host.rest(0)
    asking.join(60)

    assert answers == [(0, b"over\n")]


HOSTILE = """#!{python} -I
import json, os, struct, sys, time
source, out = sys.stdin.buffer, sys.stdout.buffer
def write(data):
    out.write(data); out.flush()
def message(head, body=b""):
    raw = json.dumps(head).encode()
    write(struct.pack(">II", len(raw), len(body)) + raw + body)
def ask():
    head, body = struct.unpack(">II", source.read(8))
    return json.loads(source.read(head + body)[:head])
write({magic!r})
message({{"n": ask()["n"], "value": None, "version": {version}}})
asked = ask()
n = asked["n"]
try:
    {does}
    time.sleep(600)
except BrokenPipeError:
    os._exit(1)
"""
NAMES = "b'\\0'.join(b'%d' % number for number in range({count}))"
REPLACED = {
    "8 million names": f"message({{'n': n, 'value': None}}, {NAMES.format(count=8_000_000)[:-1]}))",
    "short names": "message({'n': n, 'value': None}, b'\\0'.join([b'a'] * 100001))",
    "announced and never ending": "write(struct.pack('>II', 8, 60 << 20) + b'{\"n\": 1}' + bytes(60 << 20))",
    "a head of lists": "write(struct.pack('>II', 4 << 20, 0) + b'[]' * (2 << 20))",
    "a status with a body": "message({'n': n, 'value': None}, bytes((8 << 20) + 1))",
    "an answer to nothing": "message({'n': n + 1, 'value': None})",
    "stderr": "[os.write(2, bytes(1 << 16)) for _ in range(1 << 20)]",
    "stdout": "message({'n': n, 'value': []}, b'..'); [os.write(1, bytes(1 << 16)) for _ in range(1 << 20)]",
}


@pytest.mark.parametrize("does", REPLACED.values(), ids=REPLACED)
def test_a_replaced_site_helper_costs_the_agent_no_memory(tmp_path: Path, loop: EventLoop, does: str) -> None:
    helper = tmp_path / "replaced"
    helper.write_text(
        HOSTILE.format(python=sys.executable, magic=sitehelper.MAGIC, version=sitehelper.VERSION, does=does)
    )
    helper.chmod(0o755)
    host = RemoteHost("/data", helpers.piped(helper), loop, PATIENT)
    host.check()
    tracemalloc.start()
    try:
        with pytest.raises(HostUnavailable, match="does not answer as a site helper") as caught:
            host.names("/data/spool")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        host.close()

    assert caught.value.lasting
    assert most < 32 << 20
    assert until(lambda: not [pid for pid in children(os.getpid()) if str(helper).encode() in _words(pid)])


def test_a_directory_with_too_many_names_is_that_directorys_trouble(host: RemoteHost, root: Path) -> None:
    host.make_directory(root / "full")
    host.make_directory(root / "good")
    for number in range(sitehelper.MOST_NAMES + 1):
        (root / "full" / str(number)).touch()

    with pytest.raises(OSError, match="holds more than 100000 names") as caught:
        host.names(root / "full")
    assert (caught.value.errno, isinstance(caught.value, HostUnavailable)) == (errno.EFBIG, False)
    (root / "full" / "0").unlink()
    assert len(host.names(root / "full")) == sitehelper.MOST_NAMES
    assert {"full", "good"} <= set(host.names(root))


def test_a_host_that_is_lost_for_a_day_is_still_one_that_cannot_be_reached(loop: EventLoop, tmp_path: Path) -> None:
    """With the longest pause of a minute that are as many tries as a float has powers of two."""
    host = RemoteHost(tmp_path / "site", helpers.piped(tmp_path / "none"), loop, HASTY)
    host._failures = 1_500

    with pytest.raises(HostUnavailable):
        host.check()
