"""Errors about a host: one sentence each, which says what to do.

Pure. Failures of sshd, sudo and login shells are recognized by the text that they print, their only output.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final

from router.host import HostUnavailable
from router.host.sitehelper import OLDEST, VERSION

PAGE: Final = "docs/hosts.md"
_ERRNOS: Final = {
    errno.ENOSPC: "no space is left on that file system; free some, or choose another workDir",
    errno.EDQUOT: "the user's quota is used up; remove files, ask the site for more, or choose another workDir",
    errno.EROFS: "that file system is mounted read-only; choose a workDir where the user may write",
    errno.EACCES: "the user may not do that there; see the owner and the mode of the directories above",
    errno.ESTALE: "the file server does not know that directory any more; ask the site to look at its mounts",
    errno.EIO: "the file system has an error; ask the site to look at it",
}


@dataclass(frozen=True, slots=True)
class HelperPlace:
    """Where a site helper runs: a user on a host, the file, and whether sudo starts it."""

    user: str
    host: str
    helper: str
    sudo: bool = False

    def __str__(self) -> str:
        return f"{self.user} on {self.host}"


def of_errno(number: int, words: str) -> str:
    """A clearer text for an errno, or else the file system's own."""
    return _ERRNOS.get(number, words)


# Text of sudo, a shell or the site helper, and its meaning. The first entry that matches a line counts.
_COMPLAINTS: Final = (
    ("password is required", "sudo asks for a password; give the agent's account a NOPASSWD rule for {helper}"),
    ("terminal is required", "sudo asks for a password; give the agent's account a NOPASSWD rule for {helper}"),
    ("you must have a tty", "sudo wants a terminal; write !requiretty for {helper} into sudoers"),
    ("not in the sudoers file", "sudo permits the agent's account nothing; give it a rule for {helper}"),
    ("may not run sudo", "sudo permits the agent's account nothing; give it a rule for {helper}"),
    ("is not allowed to ", "sudo does not permit {helper} as {user}; give the agent's account a rule for both"),
    ("unknown user", "there is no user {user}; see the accounts of the policy"),
    ("account validation failure", "the account {user} is locked or has expired; ask the site"),
    ("currently not available", "{user} has no login shell (nologin); give the account one, or use access: sudo"),
    ("does not serve uid", "the site helper refuses: {words}"),
    ("bad interpreter", "the first line of {helper} names a Python that is not there; name one, 3.6 or later"),
    ("unable to execute", "{helper} cannot be run: {words}; see its first line and its mode"),
    ("sudo: command not found", "there is no sudo; install it, or use another access"),
)
_NOT_FOUND: Final = 127
_NOT_RUN: Final = 126


def ended(place: HelperPlace, code: int | None, complaint: str) -> HostUnavailable:
    """The error for a site helper that has ended.

    :param code: its exit code; None if unknown (a signal, a lost connection)
    :param complaint: what the site helper, sudo or the shell wrote to stderr
    """
    lines = _lines(complaint)
    if known := known_complaint(place, complaint):
        return HostUnavailable(known, lasting=True)
    if code == _NOT_FOUND or any("command not found" in line for line in lines):
        text = f"there is no site helper at {place.helper}; install it there, or see helper in the policy ({PAGE})"
        return HostUnavailable(f"{place}: {text}", lasting=True)
    if code == _NOT_RUN:
        text = (
            f"{place.helper} may not be executed; make it root's with mode 0755, not on a noexec file system ({PAGE})"
        )
        return HostUnavailable(f"{place}: {text}", lasting=True)
    how = "was cut off" if code is None else f"ended (exit {code})"
    said = f": {lines[-1]}" if lines else "; it is started again with the next request"
    return HostUnavailable(f"{place}: the site helper {how}{said}")


def known_complaint(place: HelperPlace, complaint: str) -> str:
    """A sentence for a known error text of sudo, a shell or the site helper; empty for an unknown one."""
    for words, meaning in _COMPLAINTS:
        for line in _lines(complaint):
            if words in line:
                text = meaning.format(helper=place.helper, user=place.user, words=line)
                return f"{place}: {text} ({PAGE})"
    return ""


def _lines(complaint: str) -> list[str]:
    return [line.strip() for line in complaint.splitlines() if line.strip()]


# Text of ssh on the way to a node, and of what takes a program into a job there. The first entry that matches counts.
_ON_THE_WAY: Final = (
    (
        "Host key verification failed",
        "ssh has no host key of the node, or another; the site lists it in ssh_known_hosts",
    ),
    ("Permission denied (", "the node refuses its user's login over ssh; ssh to it must work without a password"),
    ("Could not resolve hostname", "ssh does not know the node's name"),
    ("connect to host", "the node does not answer ssh"),
    ("No such file or directory", "the node lacks a program, or the site's workDir"),
    ("tm_attach:", "the node's MoM does not take the command into the job"),
    ("pbs_track:", "the node's MoM does not take the command into the job"),
)
_CHATTER: Final = frozenset({"Success!"})
"""What TORQUE's pbs_track prints where all is well."""


def on_the_way(complaint: str) -> str:
    """What the launcher of a command in a running job has said, with its meaning if it is known; empty for nothing."""
    lines = [line for line in _lines(complaint) if line not in _CHATTER]
    for words, meaning in _ON_THE_WAY:
        for line in lines:
            if words in line:
                return f"{meaning}: {line[:300]}"
    return lines[-1][:300] if lines else ""


def no_helper(place: HelperPlace, words: str) -> HostUnavailable:
    """The error for a program that answers but is no site helper."""
    text = f"{place.helper} does not answer as a site helper: {words}; see what the login shell of that user prints"
    return HostUnavailable(f"{place}: {text}", lasting=True)


def other_version(place: HelperPlace, found: str, served: int | None) -> HostUnavailable:
    """The error for a site helper that has no version of the protocol in common with this agent.

    :param served: the oldest version whose agents it serves
    """
    if served is not None and served > VERSION:
        text = f"serves agents of version {served} and later, and this agent has version {VERSION}; upgrade the agent"
    else:
        needed = str(VERSION) if OLDEST == VERSION else f"{OLDEST} or {VERSION}"
        text = f"has version {found}, this agent needs {needed}; install the one of this agent"
    text = f"the site helper {place.helper} {text}"
    return HostUnavailable(f"{place}: {text} ({PAGE})", lasting=True)


def no_root(place: HelperPlace, number: int, words: str) -> HostUnavailable:
    """The error for a site's directory that cannot be used or made."""
    path, colon, rest = words.partition(": ")
    text = f"{path}: {of_errno(number, rest)}" if colon and number in _ERRNOS else words
    return HostUnavailable(f"{place}: the site's work directory cannot be used: {text}", lasting=True)


def no_entering(place: HelperPlace, program: str, words: str) -> HostUnavailable:
    """The error for a command within a running job that the site helper does not start."""
    why = f"is older than kubectl exec, or {words}; install the one of this agent"
    return HostUnavailable(f"{place}: {place.helper} does not start {program}: it {why} ({PAGE})", lasting=True)


def silent(place: HelperPlace, seconds: float, *, alive: bool) -> HostUnavailable:
    """The error for a request without an answer in time."""
    if alive:
        text = f"the file system gave no answer within {seconds:g} seconds; ask the site to look at it if that lasts"
    else:
        text = f"no answer within {seconds:g} seconds; the connection is made anew with the next request"
    return HostUnavailable(f"{place}: {text}")
