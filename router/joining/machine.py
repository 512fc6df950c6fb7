"""Puts accounts, directories, files and units on this machine, as root, and takes them off again.

Shell: files, ``useradd``, ``visudo``, ``systemctl``. What is there already as wanted stays untouched. Each function
says in a word what it did: ``made``, ``corrected``, ``unchanged``, ``removed``.
"""

from __future__ import annotations

import contextlib
import grp
import http.client
import json
import os
import pwd
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from router.errors import ConfigError
from router.joining.layout import ACCOUNT
from router.joining.planning import Directory, File

_COMMENT: Final = "Batchgate agent"
_SECONDS: Final = 120.0
_NOT_STARTED: Final = 126
_ASK_SECONDS: Final = 2.0
_MOST_ANSWER: Final = 1 << 20
_SYSTEMD: Final = Path("/run/systemd/system")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
USERADD: Final = ("useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent")


def has_systemd() -> bool:
    """Whether systemd runs this machine."""
    return _SYSTEMD.is_dir()


def command_for(account: str) -> tuple[str, ...]:
    """The command that makes the agent's account."""
    shell = next((one for one in ("/usr/sbin/nologin", "/sbin/nologin") if Path(one).exists()), "/bin/false")
    return (*USERADD, "--shell", shell, "--comment", _COMMENT, account)


def has_account(account: str) -> bool:
    """Whether the account is there."""
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(account))
    return False


def group_of(account: str) -> str:
    """The name of an account's own group. Raises ConfigError if there is no such account."""
    try:
        return grp.getgrgid(pwd.getpwnam(account).pw_gid).gr_name
    except KeyError:
        raise ConfigError(f"there is no account {account!r}, or it has no group; `getent passwd {account}`") from None


def run(argv: Sequence[str], *, stdin: str = "") -> str:
    """Run one command, as root; returns what it printed. Raises ConfigError with its words."""
    try:
        done = subprocess.run(
            list(argv),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise ConfigError(f"there is no command {argv[0]}; install its package") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{' '.join(argv)}: took more than {_SECONDS:.0f} s") from None
    if done.returncode:
        words = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise ConfigError(f"{' '.join(argv)}: {words}")
    return done.stdout


def succeeds(argv: Sequence[str], account: str) -> subprocess.CompletedProcess[str]:
    """Run a command as this account, with nothing of the caller's environment; any exit code is accepted.

    It is 126, as in shells, if the account may not even start the command.
    """
    options = _as(pwd.getpwnam(account))
    try:
        return subprocess.run(list(argv), capture_output=True, text=True, timeout=_SECONDS, check=False, **options)
    except OSError as error:
        return subprocess.CompletedProcess(list(argv), _NOT_STARTED, "", error.strerror or str(error))


def attached(argv: Sequence[str], account: str) -> int:
    """Run a command as this account, with the caller's output; returns its exit code."""
    return subprocess.run(list(argv), check=False, **_as(pwd.getpwnam(account))).returncode


def _as(known: pwd.struct_passwd) -> dict[str, Any]:
    groups = os.getgrouplist(known.pw_name, known.pw_gid)
    environment = {
        "PATH": _PATH,
        "LC_ALL": "C.UTF-8",
        "HOME": known.pw_dir,
        "USER": known.pw_name,
        "LOGNAME": known.pw_name,
    }
    return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": groups, "cwd": "/", "env": environment}


def is_active(unit: str) -> bool:
    """Whether a unit runs."""
    return subprocess.run(["systemctl", "is-active", "--quiet", unit], check=False).returncode == 0


def has_changed(unit: str) -> bool:
    """Whether systemd runs a unit by a file that is another one by now."""
    return run(["systemctl", "show", "--property=NeedDaemonReload", "--value", unit]).strip() == "yes"


def ask(host: str, port: int, path: str) -> tuple[int, dict[str, Any]]:
    """The status and the JSON object that a program of this machine answers by plain HTTP; 0 and {} without an answer."""
    connection = http.client.HTTPConnection(host, port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        found = json.loads(answer.read(_MOST_ANSWER))
    except (OSError, ValueError, http.client.HTTPException):
        return 0, {}
    finally:
        connection.close()
    return answer.status, found if isinstance(found, dict) else {}


def closed_folder(path: str, account: str) -> str:
    """The first folder above a path that the account may not enter; empty if it may enter all."""
    folders = [str(one) for one in reversed(Path(path).parents)]
    return next((one for one in folders if succeeds(["test", "-x", one], account).returncode), "")


def put_directory(wanted: Directory) -> str:
    """Make a directory, or correct its owner and mode."""
    path = Path(wanted.path)
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ConfigError(f"{path} is no directory; move it away")
    made = not path.exists()
    path.mkdir(parents=True, exist_ok=True)
    corrected = _owned(path, wanted)
    return "made" if made else _told(corrected=corrected)


def put_file(wanted: File) -> str:
    """Write a file whole, or correct its owner and mode. Raises ConfigError, also if ``visudo`` refuses its text."""
    path = Path(wanted.path)
    found = read(path)
    if found == wanted.text:
        return _told(corrected=_owned(path, wanted))
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600; sudo ignores the dot
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as stream:
            # By the descriptor: in a directory of the agent's, the name could be another file's by now.
            os.fchown(descriptor, pwd.getpwnam(wanted.owner).pw_uid, grp.getgrnam(wanted.group).gr_gid)
            os.fchmod(descriptor, wanted.mode)
            stream.write(wanted.text)
            stream.flush()
            os.fsync(descriptor)
        if wanted.checked:
            run(["visudo", "-c", "-f", name])
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return "made" if found is None else "corrected"


def read(path: Path) -> str | None:
    """The text of a file; None if it is missing. Raises ConfigError if it is no plain file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); move it away") from None
    with os.fdopen(descriptor, errors="replace") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path} is no plain file; move it away")
        return stream.read()


def _owned(path: Path, wanted: Directory | File) -> bool:
    """Set owner and mode; returns whether they were different. Raises ConfigError if it is something else by now."""
    owner, group = pwd.getpwnam(wanted.owner).pw_uid, grp.getgrnam(wanted.group).gr_gid
    kind = os.O_DIRECTORY if isinstance(wanted, Directory) else 0
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | kind)
    except OSError as error:
        raise ConfigError(f"{path} cannot be opened ({error.strerror}); move it away") from None
    # By the descriptor, as in ``put_file``.
    try:
        status = os.fstat(descriptor)
        if not kind and not stat.S_ISREG(status.st_mode):
            raise ConfigError(f"{path} is no plain file; move it away")
        if (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (owner, group, wanted.mode):
            return False
        os.fchown(descriptor, owner, group)
        os.fchmod(descriptor, wanted.mode)
        return True
    finally:
        os.close(descriptor)


def _told(*, corrected: bool) -> str:
    return "corrected" if corrected else "unchanged"


def foreign_writers(path: str) -> str:
    """The first of a file and the folders above it that others than root may write; empty if there is none."""
    for one in (Path(path), *Path(path).parents):
        if not one.exists():
            continue
        status = one.stat()
        sticky = one.is_dir() and status.st_mode & stat.S_ISVTX
        if status.st_uid != 0 or (status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky):
            return str(one)
    return ""


def address_towards(host: str, port: int) -> str:
    """The IP address of this machine from which it reaches a host. Raises ConfigError if none is known."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(place)  # sends nothing
            return str(probe.getsockname()[0])
    except OSError as error:
        words = error.strerror or str(error)
        raise ConfigError(f"the way to {host} is not known ({words}); name this machine's IP with --address") from None


def remove_file(path: str) -> bool:
    """Remove a file; returns whether it was there."""
    try:
        Path(path).unlink()
    except FileNotFoundError:
        return False
    return True


def remove_tree(path: str) -> bool:
    """Remove a directory with all that is in it; returns whether it was there."""
    found = Path(path)
    if not found.is_dir() or found.is_symlink():
        return False
    shutil.rmtree(found)
    return True


def remove_empty(path: str) -> None:
    """Remove a directory if nothing is in it."""
    with contextlib.suppress(OSError):
        Path(path).rmdir()


def remove_account(account: str = ACCOUNT) -> str:
    """Remove the agent's account if ``command_for`` made it; says what became of it, empty without one.

    While processes of it run, such as the embedded queue's, it stays.
    """
    try:
        known = pwd.getpwnam(account)
    except KeyError:
        return ""
    if known.pw_gecos != _COMMENT:
        return "stays, as it was there before"
    try:
        run(["userdel", account])
    except ConfigError as error:
        return f"stays: {error}"
    return "removed"
