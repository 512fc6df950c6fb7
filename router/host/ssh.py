"""Starts site helpers on a login node, over ssh.

Shell (the network). One connection carries the sessions of all users with the same login; when sshd's limit of sessions
(MaxSessions) is reached, a further connection is made. The host's key must be in the known_hosts file that the policy
names; there is no trust on first use. Keys and certificates are read again for each connection, so that short-lived
ones may be replaced at any time. ``~/.ssh`` is ignored.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncssh

from router.host import HostUnavailable, logins
from router.host.carrying import Carrier
from router.host.link import Channel, Listener
from router.host.logins import Login
from router.host.sentences import HelperPlace

_CONNECT: Final = 15.0
_LOG_IN: Final = 15.0
_KEEP_ALIVE: Final = 15.0
"""Seconds between keep-alive requests to a silent host; after three without an answer the connection is closed."""


class _Client(asyncssh.SSHClient):
    """Remembers a host key that known_hosts lacks, for the error message."""

    def __init__(self) -> None:
        self.refused: asyncssh.SSHKey | None = None

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:  # noqa: ARG002
        """False: only keys in known_hosts are trusted."""
        self.refused = key
        return False


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection, and how many sessions it has. ``full``: it gets no further sessions."""

    connection: asyncssh.SSHClientConnection
    sessions: int = 0
    full: bool = False
    closed: bool = field(default=False)

    def usable(self) -> bool:
        return not self.full and not self.closed and not self.connection.is_closed()

    def left(self) -> None:
        """Count an ended session. The last one closes the connection: a new one is quick, and reads the keys again."""
        self.sessions -= 1
        if not self.sessions:
            self.closed = True
            self.connection.close()


class Connections:
    """The connections of one login; used only in the event loop's thread."""

    def __init__(self, login: Login) -> None:
        self.login = login
        self._connecting = asyncio.Lock()
        self._known: list[_Connection] = []

    async def session(self, command: str, listener: Listener, place: HelperPlace) -> Channel:
        """Run a command on the login node. Raises HostUnavailable."""
        while True:
            found = await self._free()
            try:
                return await _session(found, command, listener)
            except asyncssh.ChannelOpenError as error:
                if found.closed:
                    raise logins.no_session(self.login, place, error.reason) from None
                found.full = True  # it has other sessions, as many as sshd allows
            except (asyncssh.Error, OSError) as error:
                raise logins.unreachable(self.login, error) from None

    async def carrier(self, command: str, place: HelperPlace) -> Carrier:
        """The same, with streams that hold their sender back. Raises HostUnavailable."""
        while True:
            found = await self._free()
            try:
                return _carrier(found, await found.connection.create_process(command, encoding=None))
            except asyncssh.ChannelOpenError as error:
                found.left()
                if found.closed:
                    raise logins.no_session(self.login, place, error.reason) from None
                found.full = True
            except (asyncssh.Error, OSError) as error:
                found.left()
                raise logins.unreachable(self.login, error) from None
            except asyncio.CancelledError:
                found.full = True
                found.left()
                raise

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
    """A session on a connection that has counted it already. Any failure undoes the count."""
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
    except HostUnavailable:  # which is an OSError: a missing key, for one, is no closed connection
        raise
    except (asyncssh.Error, asyncssh.KeyImportError, asyncssh.KeyEncryptionError, OSError, ValueError) as error:
        raise logins.unreachable(login, error) from None
    return connection


@contextlib.asynccontextmanager
async def _keys(login: Login) -> AsyncIterator[Sequence[str | asyncssh.SSHKeyPair]]:
    """The keys for the login: a key file, or all keys of the ssh agent, which stays connected within the context.

    asyncssh itself asks an agent only in addition to key files.
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
    """One session, and the Channel to it."""

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
        """Called by the loop: the session or its connection has ended."""
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


def _carrier(found: _Connection, process: asyncssh.SSHClientProcess[bytes]) -> Carrier:
    async def close() -> None:
        process.channel.abort()
        await process.wait_closed()
        found.left()

    return Carrier(process.stdout, process.stdin, process.stderr, close)


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

    async def carrier(self) -> Carrier:
        """See ``router.host.link.Opener``."""
        return await self._connections.carrier(self._command, self.place)
