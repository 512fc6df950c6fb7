"""Site helpers on a login node, over ssh.

Shell. One connection carries the sessions of all users that log in alike; where sshd allows no more of them
(MaxSessions), a further connection is made. Nobody is trusted on first use: a host's key stands in the known_hosts file
that the policy names, or nothing is sent. Keys and certificates are read again for each connection, so that short-lived
ones may be replaced at any time. What ``~/.ssh`` holds counts for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncssh

from router.host import logins
from router.host.link import Channel, Listener
from router.host.logins import Login
from router.host.sentences import HelperPlace

_CONNECT: Final = 15.0
_LOG_IN: Final = 15.0
_KEEP_ALIVE: Final = 15.0
"""Seconds between questions whether a silent host is still there; after three without an answer it is given up."""


class _Client(asyncssh.SSHClient):
    """Remembers the host key that no line of known_hosts has, for the sentence that refuses it."""

    def __init__(self) -> None:
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """Never: what is trusted stands in the file."""
        self.refused = key
        return False


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection, and how many sessions it has. ``full``: it is to get no more."""

    connection: asyncssh.SSHClientConnection
    sessions: int = 0
    full: bool = False
    closed: bool = field(default=False)

    def usable(self) -> bool:
        return not self.full and not self.closed and not self.connection.is_closed()

    def left(self) -> None:
        """A session has ended. The last one ends the connection: a new one is quick to make, and reads its keys anew."""
        self.sessions -= 1
        if not self.sessions:
            self.closed = True
            self.connection.close()


class Connections:
    """The connections of one login; of the event loop's thread alone."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._connecting = asyncio.Lock()
        self._known: list[_Connection] = []

    async def session(self, command: str, listener: Listener, place: HelperPlace) -> Channel:
        """Run a command there. HostUnavailable."""
        while True:
            found = await self._free()
            try:
                return await _session(found, command, listener)
            except asyncssh.ChannelOpenError as error:
                if found.closed:
                    raise logins.no_session(self.login, place, error.reason) from None
                found.full = True  # its other sessions live: they are as many as sshd allows
            except (asyncssh.Error, OSError) as error:
                raise logins.unreachable(self.login, error) from None

    async def close(self) -> None:
        """End all connections."""
        for one in self._known:
            one.closed = True
            one.connection.close()
            await one.connection.wait_closed()

    async def _free(self) -> _Connection:
        async with self._connecting:
            self._known = [one for one in self._known if not one.closed and not one.connection.is_closed()]
            for one in self._known:
                if one.usable():
                    one.sessions += 1
                    return one
            made = _Connection(await _connect(self.login), sessions=1)
            self._known.append(made)
            return made


async def _session(found: _Connection, command: str, listener: Listener) -> _Conversation:
    """A session on a connection where room was taken for it. Whatever goes wrong gives that back."""
    try:
        _, conversation = await found.connection.create_session(
            lambda: _Conversation(listener, found), command, encoding=None
        )
    except asyncio.CancelledError:
        found.full = True
        found.left()
        raise
    except (asyncssh.Error, OSError):
        found.left()
        raise
    assert isinstance(conversation, _Conversation)  # noqa: S101 - what the factory made
    return conversation


async def _connect(login: Login) -> asyncssh.SSHClientConnection:
    clients: list[_Client] = []

    def client() -> _Client:
        clients.append(_Client())
        return clients[-1]

    try:
        async with _keys(login) as keys:
            connection, _ = await asyncssh.create_connection(
                client,
                login.address.host,
                login.address.port,
                username=login.user,
                known_hosts=login.known_hosts,
                client_keys=keys or None,  # an empty list would mean those of ~/.ssh
                agent_path=None,
                preferred_auth="publickey",
                config=None,
                gss_host=None,
                connect_timeout=_CONNECT,
                login_timeout=_LOG_IN,
                keepalive_interval=_KEEP_ALIVE,
                keepalive_count_max=3,
            )
    except asyncssh.HostKeyNotVerifiable as error:
        shown = next((one.refused for one in clients if one.refused is not None), None)
        raise logins.wrong_host_key(login, shown, str(error)) from None
    except (asyncssh.Error, asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError, ValueError) as error:
        raise logins.unreachable(login, error) from None
    return connection


@contextlib.asynccontextmanager
async def _keys(login: Login) -> AsyncIterator[Sequence[str | asyncssh.SSHKeyPair]]:
    """What to log in with: the file of a key, or all that the ssh agent has, which signs as long as this lasts.

    The library asks an agent by itself only beside keys from files.
    """
    credentials = logins.credentials(login)
    if not credentials.agent:
        yield [credentials.key]
        return
    agent = asyncssh.SSHAgentClient(credentials.agent)
    try:
        try:
            await agent.connect()
            keys = await agent.get_keys()
        except (OSError, ValueError) as error:
            raise logins.no_agent(login, credentials.agent, error) from None
        yield keys
    finally:
        agent.close()


class _Conversation(asyncssh.SSHClientSession[bytes]):
    """One session; also its Channel."""

    def __init__(self, listener: Listener, carrier: _Connection) -> None:
        self._listener = listener
        self._carrier = carrier
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._code: int | None = None

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        """Called by the loop."""
        self._channel = chan

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        """Called by the loop."""
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            self._listener.complained(data)
        else:
            self._listener.received(data)

    def exit_status_received(self, status: int) -> None:
        """Called by the loop."""
        self._code = status

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop: the session is over, or its connection."""
        if exc is not None:
            self._listener.complained(f"{exc}\n".encode())
        self._channel = None
        self._listener.ended(self._code)
        self._carrier.left()

    def write(self, data: bytes) -> None:
        """See ``router.host.link.Channel``."""
        if self._channel is not None:
            with contextlib.suppress(BrokenPipeError):
                self._channel.write(data)

    def close(self, *, doubtful: bool) -> None:
        """See ``router.host.link.Channel``."""
        if doubtful:
            self._carrier.full = True
        if self._channel is not None:
            self._channel.abort()


class SshOpener:
    """See ``router.host.link.Opener``.

    :param argv: the site helper's command on the login node
    """

    def __init__(self, connections: Connections, argv: Sequence[str], place: HelperPlace) -> None:
        self.place = place
        self._connections = connections
        self._command = shlex.join(argv)

    async def open(self, listener: Listener) -> Channel:
        """See ``router.host.link.Opener``."""
        return await self._connections.session(self._command, listener, self.place)
