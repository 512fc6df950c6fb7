"""The hosts of one site's users: reached as the agent's own user, over ssh, or through sudo.

Shell (a lock). The policy's ``access`` says which way; a user that it cannot reach is refused by name.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Sequence
from pathlib import PurePath, PurePosixPath
from typing import Final

from router.errors import ConfigError
from router.host import Host, Runner, looking
from router.host.carrying import Way
from router.host.eventloop import EventLoop
from router.host.local import LocalHost
from router.host.logins import Login
from router.host.looking import Looker
from router.host.remote import Patience, RemoteHost, await_gone
from router.host.sentences import HelperPlace
from router.host.ssh import Connections, SshOpener
from router.host.sudo import LocalOpener, sudo_argv
from router.site.addresses import LOCAL, Address, address_of
from router.site.schema import EACH_USER, Access, Site

_ENDING: Final = 5.0
_USER: Final = re.compile(r"[a-z_][a-z0-9_.-]{0,31}\$?")
"""The form of an account's ``as``, which becomes a file's name and a word of a command."""


class UserHosts:
    """The hosts of one site's users; thread-safe.

    :param own: the name of the agent's own user
    :param make: False for read-only use: users' directories stay as they are
    """

    def __init__(self, site: Site, own: str, patience: Patience | None = None, *, make: bool = True) -> None:
        self._site = site
        self._own = own
        self._patience = patience
        self._make = make
        self._address = None if site.host == LOCAL else _address(site)
        self._loop = EventLoop()
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, PurePosixPath], Host] = {}
        self._logins: dict[Login, Connections] = {}

    def host_of(self, user: str, root: PurePath | str) -> Host:
        """The host as that user, for files below that directory; it connects with its first request.

        Raises ConfigError if the site's access cannot reach that user.
        """
        key = user, PurePosixPath(root)
        with self._lock:
            if key not in self._hosts:
                self._demand(user)
                self._hosts[key] = self._made(user, key[1])
            return self._hosts[key]

    def observer(self) -> Runner | None:
        """Runs read-only commands as the site's observer, connecting when needed; None if each user's jobs are asked.

        The observer is reached as the users are: with its own key, or through sudo. sudo is left out if the account
        that would call it is the observer itself.
        """
        site, address = self._site, self._address
        if site.observer == EACH_USER:
            return None
        if address is None:
            place = HelperPlace(site.observer, "this machine", looking.COMMANDS)
            return Looker(place, self._loop, lambda argv: LocalOpener(self._looking(argv), place))
        place = HelperPlace(site.observer, address.known_as, looking.COMMANDS)
        with self._lock:
            connections = self._connections(self._login(site.observer, address))
        return Looker(place, self._loop, lambda argv: SshOpener(connections, self._looking(argv), place))

    def _looking(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The words that start a command as the observer. Without sudo they are the bare command, without ``env``: the
        observer's login may be limited to these commands.
        """
        observer, words = self._site.observer, looking.looks(argv)
        if self._site.access is not Access.SUDO:
            return words
        if observer == (self._own if self._address is None else self._address.user):
            return tuple(argv)
        return (*argv[: len(argv) - len(words)], *sudo_argv(observer, words[0]), *words[1:])

    def close(self) -> None:
        """End the site helpers, the connections and the loop's thread."""
        with self._lock:
            hosts, logins = list(self._hosts.values()), list(self._logins.values())
        await_gone([host.cut() for host in hosts if isinstance(host, RemoteHost)])
        for connections in logins:
            with contextlib.suppress(OSError):
                self._loop.run(connections.close(), _ENDING)
        self._loop.stop()

    def _demand(self, user: str) -> None:
        site = self._site
        if _USER.fullmatch(user) is None:
            raise ConfigError(f"site {site.name}: {user!r} is no name of a user; see `as` in accounts")
        only = (self._address.user if self._address is not None else self._own) if site.access is Access.OWN else user
        if user != only:
            raise ConfigError(
                f"site {site.name}: access: own runs everything as {only}, so nothing can be done as {user}; "
                f"write access: own-keys or sudo, or `as: {only}` in accounts"
            )

    def _made(self, user: str, root: PurePosixPath) -> Host:
        if self._address is None and self._site.access is Access.OWN:
            return LocalHost(root)
        return RemoteHost(root, self._opener(user), self._loop, self._patience, make=self._make)

    def _opener(self, user: str) -> Way:
        site, sudo = self._site, self._site.access is Access.SUDO
        place = HelperPlace(
            user, "this machine" if self._address is None else self._address.known_as, site.helper, sudo
        )
        argv = sudo_argv(user, site.helper) if sudo else (site.helper,)
        if self._address is None:
            return LocalOpener(argv, place)
        return SshOpener(self._connections(self._login(user, self._address)), argv, place)

    def _login(self, user: str, address: Address) -> Login:
        site = self._site
        own_keys = site.access is Access.OWN_KEYS
        key = f"{site.keys}/{user}" if own_keys else site.keys or ""
        return Login(address, user if own_keys else address.user, site.known_hosts or "", key)

    def _connections(self, login: Login) -> Connections:
        if login not in self._logins:
            self._logins[login] = Connections(login)
        return self._logins[login]


def _address(site: Site) -> Address:
    address = address_of(site.host)
    if address is None:
        raise ConfigError(f"site {site.name}: host {site.host} is not understood")
    return address
