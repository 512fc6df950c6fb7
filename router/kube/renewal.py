"""Keeps a token file fresh: asks the API server for another token of the same account, in time.

Shell (a thread, the file, the API, the clock). ``router.kube.tokens`` decides when. The account needs one right for it:
to create tokens of itself. The file appears whole, mode 0600; a reader never sees half a token.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from router.background.loop import Loop
from router.errors import ApiError, ConfigError, InputError
from router.kube import tokens
from router.kube.client import Api
from router.kube.tokens import Claims

log: Final = logging.getLogger("batchgate.kube")


def read(file: Path) -> Claims:
    """The claims of the token in a file. Raises ConfigError without a usable one."""
    try:
        return tokens.claims(file.read_text())
    except (InputError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file}: the token cannot be read: {error.strerror}") from None


def write(file: Path, token: str) -> None:
    """Replace the token in a file, at once and whole. Raises ConfigError if it cannot be written."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)  # mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "w") as stream:
                stream.write(f"{token}\n")
                stream.flush()
                os.fsync(descriptor)
            temporary.replace(file)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ConfigError(f"{file}: the token cannot be written: {error.strerror}") from None


def ask(api: Api, held: Claims, seconds: int) -> str:
    """Another token of the same account. Raises ApiError, InputError."""
    return tokens.granted(api.create(tokens.path(held.namespace, held.account), tokens.request(seconds)))


class Renewal:
    """Renews the token in a file again and again; ``start`` it, ``stop`` it in the end.

    ``name``, ``error``, ``failures`` and ``check`` are a source's, so that metrics show it beside policy and keys.

    :param file: holds a token already
    :param seconds: the life to ask for
    :param clock: seconds since 1970
    :raises ConfigError: the file holds no usable token
    """

    name = "credential"

    def __init__(self, api: Api, file: Path, seconds: int, clock: Callable[[], float] = time.time) -> None:
        self.error = ""
        self.failures = 0
        self._api = api
        self._file = file
        self._seconds = seconds
        self._clock = clock
        self._held = read(file)
        self._loop = Loop("credential", self._turn)

    @property
    def expires(self) -> int:
        """When the token ends, in seconds since 1970."""
        return self._held.expires

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._loop.alive

    @property
    def warning(self) -> str:
        """What to say of a credential that is not renewed; empty while all is well."""
        return tokens.warning(self._held, self.error, self._clock())

    def start(self) -> None:
        """Begin; a token past half its life is renewed at once."""
        self._loop.start()

    def stop(self) -> None:
        """Renew no more."""
        self._loop.stop()

    def check(self) -> None:
        """As a source: nothing to read again."""

    def renew(self) -> None:
        """Renew the token now. Raises ApiError, ConfigError, InputError; the old one then stays."""
        token = ask(self._api, self._held, self._seconds)
        held = tokens.claims(token)
        if held.user != self._held.user:
            raise InputError(f"the API server's answer is a token of {held.user}, not {self._held.user}")
        write(self._file, token)
        self._held = held

    def _turn(self) -> float:
        now = self._clock()
        with contextlib.suppress(ConfigError):  # an admin may have brought another one
            self._held = read(self._file)
        if now < tokens.renew_at(self._held):
            self.error = ""
            return tokens.pause(self._held, now, failed=False)
        try:
            self.renew()
        except (ApiError, ConfigError, InputError) as error:
            self._fail(str(error))
        else:
            self.error = ""
            log.info("credential renewed", extra={"fields": {"until": tokens.shown(self.expires)}})
        return tokens.pause(self._held, self._clock(), failed=bool(self.error))

    def _fail(self, error: str) -> None:
        new = error != self.error
        self.failures += new
        self.error = error
        if new:
            fields = {"error": error, "until": tokens.shown(self.expires)}
            log.error("the credential is not renewed", extra={"fields": fields})
