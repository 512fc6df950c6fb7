"""Logins to a login node: who logs in with which key, and one sentence for each failure.

Shell (files): it checks the files of keys and certificates, but never reads a private key.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncssh

from router.host import HostUnavailable
from router.host.sentences import PAGE, HelperPlace
from router.site.addresses import Address

_AGENT: Final = "SSH_AUTH_SOCK"


@dataclass(frozen=True, slots=True)
class Login:
    """``key`` is the private key's file, empty for an ssh agent; a certificate is beside it, ``<key>-cert.pub``."""

    address: Address
    user: str
    known_hosts: str
    key: str = ""

    def __str__(self) -> str:
        return f"{self.user}@{self.address.known_as}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """A private key's file, or the socket of an ssh agent."""

    key: str = ""
    agent: str = ""


def credentials(login: Login) -> Credentials:
    """The key or agent for a login now. Raises HostUnavailable if it, or known_hosts, is unusable."""
    if not os.access(login.known_hosts, os.R_OK):
        text = f"cannot read {login.known_hosts}; write the host's key there, as `ssh-keyscan` prints it, once checked"
        raise HostUnavailable(f"{login}: {text}", lasting=True)
    if not login.key:
        agent = os.environ.get(_AGENT, "")
        if not agent:
            text = f"the policy names no keys and there is no ssh agent ({_AGENT} is not set); do one of the two"
            raise HostUnavailable(f"{login}: {text}", lasting=True)
        return Credentials(agent=agent)
    try:
        found = Path(login.key).stat()
    except OSError as error:
        text = f"{login.key}: {error.strerror}; put the private key there, or see keys in the policy"
        raise HostUnavailable(f"{login}: {text}", lasting=True) from None
    # As OpenSSH judges it: who may read another user's file is that user's to say. In a Pod a Secret's files are root's,
    # and readable by the Pod's group. A key that everybody may read is none, whoever's it is.
    others = 0o077 if found.st_uid == os.geteuid() else 0o007
    if not stat.S_ISREG(found.st_mode) or found.st_mode & others:
        text = f"{login.key} is not a file that its owner alone may read; chmod 600 it"
        raise HostUnavailable(f"{login}: {text}", lasting=True)
    return Credentials(key=login.key)


def wrong_host_key(login: Login, shown: asyncssh.SSHKey | None, words: str) -> HostUnavailable:
    """The error for a host key that known_hosts lacks for this host."""
    name = login.address.known_as
    if shown is None:
        text = f"its host key is not trusted ({words}); see the lines for {name} in {login.known_hosts}"
        return HostUnavailable(f"{login}: {text}", lasting=True)
    line = f"{name} {shown.export_public_key().decode().strip()}"
    known = asyncssh.match_known_hosts(login.known_hosts, login.address.host, "", _port(login.address))[0]
    what = f"shows another host key than {login.known_hosts} has" if known else f"is not in {login.known_hosts}"
    instead = "in place of its old line " if known else ""
    text = (
        f"{what}: {shown.get_fingerprint()}; ask the site whether that is its key, and only then write {instead}there"
    )
    return HostUnavailable(f"{login}: {name} {text}: {line}", lasting=True)


def _port(address: Address) -> int | None:
    return None if address.known_as == address.host else address.port


def no_session(login: Login, place: HelperPlace, words: str) -> HostUnavailable:
    """The error for a login that succeeded but gets no session."""
    text = (
        f"sshd starts no site helper for {place.user}: {words}; see MaxSessions in sshd_config and the account's shell"
    )
    return HostUnavailable(f"{login}: {text} ({PAGE})")


def no_agent(login: Login, place: str, error: Exception) -> HostUnavailable:
    """The error for an ssh agent that does not answer."""
    words = (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__
    text = f"the ssh agent at {place} ({_AGENT}) does not answer: {words}; start it, or name keys in the policy"
    return HostUnavailable(f"{login}: {text}")


def unreachable(login: Login, error: Exception) -> HostUnavailable:
    """The error for a failed connection or login."""
    text, lasting = _because(login, error)
    return HostUnavailable(f"{login}: {text}", lasting=lasting)


_CLOSED: Final = "the connection was closed ({words}); it is tried again, see MaxStartups and sshd's log if that lasts"
_KINDS: Final[tuple[tuple[type[Exception], bool, str], ...]] = (
    (
        asyncssh.KeyExchangeFailed,
        True,
        "no common way to connect ({words}); known_hosts may lack a key of a kind that the host has",
    ),
    (asyncssh.KeyEncryptionError, True, "{key} has a passphrase; use a key without one, or an ssh agent"),
    (asyncssh.KeyImportError, True, "{key} is no private key that can be read, or its certificate is none: {words}"),
    (ConnectionRefusedError, False, "nothing listens on port {port}; start sshd there, or see host in the policy"),
    (
        socket.gaierror,
        False,
        "no machine of that name is found ({words}); see host in the policy, and the name service",
    ),
    (
        TimeoutError,
        False,
        "port {port} gives no answer; see whether the host is up and a firewall lets the agent through",
    ),
    (asyncssh.Error, False, _CLOSED),
)
_NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})


def _because(login: Login, error: Exception) -> tuple[str, bool]:
    """A sentence for the error, and whether it lasts until a person changes something."""
    words = str(error).strip() or type(error).__name__
    if isinstance(error, asyncssh.PermissionDenied):
        return _refused(login), True
    if isinstance(error, asyncssh.KeyImportError) and "assphrase" in words:
        error = asyncssh.KeyEncryptionError(words)
    for kind, lasting, text in _KINDS:
        if isinstance(error, kind):
            return text.format(key=login.key, port=login.address.port, words=words), lasting
    if isinstance(error, OSError) and error.errno in _NO_ROUTE:
        return f"there is no route to the host ({words}); see the agent's network", False
    if isinstance(error, OSError):
        return _CLOSED.format(words=words), False
    return f"{login.known_hosts} or the key cannot be read: {words}", True


def _refused(login: Login) -> str:
    if not login.key:
        return "the host refuses every key of the ssh agent; add the right one to it, or name keys in the policy"
    if Path(f"{login.key}-cert.pub").exists():
        return (
            f"the host refuses {login.key} and its certificate; renew the certificate, and see its principals and times"
        )
    return f"the host refuses {login.key}; write its public key into that account's authorized_keys"
