"""What is run as an observer: commands that only look, over ssh, through sudo, as this very process' user."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from router.host import Ended
from router.host.eventloop import EventLoop
from router.host.link import Opener
from router.host.looking import COMMANDS, Looker, looks
from router.host.sentences import HelperPlace
from router.host.ssh import Connections, SshOpener
from router.host.sudo import LocalOpener, sudo_argv
from tests.host import helpers, sshd

PLACE = HelperPlace("watch", "this machine", COMMANDS)


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    made = EventLoop()
    yield made
    made.stop()


def program(directory: Path, text: str, name: str = "squeue") -> Path:
    """A program of the batch system's that does this."""
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def here(directory: Path) -> tuple[str, ...]:
    """Words before a command that is to be found there."""
    return ("env", "-i", f"PATH={directory}:/usr/bin:/bin")


def local(loop: EventLoop) -> Looker:
    return Looker(PLACE, loop, lambda argv: LocalOpener(argv, PLACE))


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["squeue", "-h"], ("squeue", "-h")),
        (["env", "-i", "PATH=/bin", "A=b", "qstat", "-u", "x=y"], ("qstat", "-u", "x=y")),
        (["env", "-i", "scontrol", "show", "job", "7"], ("scontrol", "show", "job", "7")),
        (["sacct"], ("sacct",)),
    ],
)
def test_words_that_only_look(argv: Sequence[str], words: tuple[str, ...]) -> None:
    assert looks(argv) == words


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["env", "-i"],
        ["env", "-i", "A=b"],
        ["scancel", "7"],
        ["sbatch", "x"],
        ["qdel", "7"],
        ["qsig", "7"],
        ["env", "-i", "A=b", "scontrol", "cancel", "7"],
        ["scontrol", "-o", "show", "job"],
        ["scontrol"],
        ["sinfo"],
        ["qselect"],
        ["/tmp/squeue"],
        ["env", "squeue"],
        ["sh", "-c", "squeue"],
    ],
)
def test_nothing_else_is_run(argv: Sequence[str], loop: EventLoop) -> None:
    with pytest.raises(ValueError, match="an observer only looks"):
        local(loop).run(argv, 60)


def test_what_a_command_prints_and_how_it_ends(tmp_path: Path, loop: EventLoop) -> None:
    program(tmp_path, 'printf "%s\\n" "$*"; echo no >&2; exit 3')

    assert local(loop).run([*here(tmp_path), "squeue", "-u", "a b"], 60) == Ended(3, b"-u a b\n", b"no")


def test_a_command_that_gives_no_answer_is_ended(tmp_path: Path, loop: EventLoop) -> None:
    program(tmp_path, f"echo $$ >{tmp_path}/pid; exec sleep 600")

    done = local(loop).run([*here(tmp_path), "squeue"], 4)

    assert (done.returncode, done.stdout) == (None, b"")
    assert "gave no answer within 4 seconds" in done.stderr.decode()
    if not (tmp_path / "pid").exists():
        return  # a busy machine: it was ended before it had begun
    process = Path("/proc", (tmp_path / "pid").read_text().strip())
    deadline = time.monotonic() + 60
    while process.exists():  # until the loop, which ends with this test, has waited for it
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_not_there(loop: EventLoop) -> None:
    looker = Looker(PLACE, loop, lambda argv: LocalOpener(["/nowhere/squeue"], PLACE))

    done = looker.run(["squeue"], 60)

    assert done.returncode is None
    assert "/nowhere/squeue" in done.stderr.decode() or "there is no" in done.stderr.decode()


def test_sudos_words_become_a_sentence(tmp_path: Path, loop: EventLoop) -> None:
    program(tmp_path, "echo 'sudo: a password is required' >&2; exit 1")

    done = local(loop).run([*here(tmp_path), "squeue"], 60)

    assert done.returncode == 1
    assert done.stderr.decode() == (
        "watch on this machine: sudo asks for a password; give the agent's account a NOPASSWD rule for "
        f"{COMMANDS} (docs/hosts.md)"
    )


def test_what_sudo_warns_of_is_no_word_of_the_batch_system(tmp_path: Path, loop: EventLoop) -> None:
    program(tmp_path, "echo 'sudo: unable to resolve host login' >&2; echo 'squeue: a word' >&2")

    assert local(loop).run([*here(tmp_path), "squeue"], 60) == Ended(0, b"", b"squeue: a word")


def test_through_sudo_it_is_the_observer(loop: EventLoop) -> None:
    user = helpers.sudo_user()
    with helpers.open_directory() as directory:
        path = program(directory, "id -un")

        def opener(argv: Sequence[str]) -> Opener:
            return LocalOpener((*sudo_argv(user, str(path)), *argv[1:]), PLACE)

        assert Looker(PLACE, loop, opener).run(["squeue"], 60) == Ended(0, f"{user}\n".encode(), b"")


def test_a_login_that_is_held_to_a_forced_command(tmp_path: Path, loop: EventLoop) -> None:
    """It reads the words of the very command; each is a session of its own."""
    forced = program(tmp_path, 'printf "%s" "$SSH_ORIGINAL_COMMAND"; exit 4', "look")
    with sshd.started(tmp_path / "sshd", {"ForceCommand": str(forced)}) as server:
        connections = Connections(server.login())
        looker = Looker(PLACE, loop, lambda argv: SshOpener(connections, looks(argv), PLACE))
        argv = ["env", "-i", "PATH=/x", "squeue", "-O", "JobID:\x1e"]

        done = [looker.run(argv, 60) for _ in range(2)]

        assert [(one.returncode, shlex.split(one.stdout.decode())) for one in done] == [
            (4, ["squeue", "-O", "JobID:\x1e"])
        ] * 2


def test_a_login_node_that_is_away(tmp_path: Path, loop: EventLoop) -> None:
    with sshd.started(tmp_path / "sshd") as server:
        login = server.login()
    looker = Looker(PLACE, loop, lambda argv: SshOpener(Connections(login), argv, PLACE))

    done = looker.run(["squeue"], 60)

    assert done.returncode is None
    assert "nothing listens on port" in done.stderr.decode()
