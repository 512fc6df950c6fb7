"""A command whose stdin and stdout are one end of a socket, for bytes without an end; on this machine.

Shell (processes, sockets). Whoever holds the other end reads and writes as it likes: the command is held back with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from typing import IO, Final

from router.host import HostUnavailable

_ENDING: Final = 5.0
"""Seconds in which a command may end after its stdin was closed, before it is killed."""
_COMPLAINT: Final = 4096


class LocalPiped:
    """See ``router.host.Piped``. Raises HostUnavailable if the command cannot be started."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.end, theirs = socket.socketpair()
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._stderr.fileno(),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            self.end.close()
            self._stderr.close()
            raise HostUnavailable(f"{argv[0]}: {error.strerror}") from None
        finally:
            theirs.close()

    def complaint(self) -> str:
        """See ``router.host.Piped``."""
        with contextlib.suppress(OSError, ValueError):
            file = self._stderr.fileno()  # the command has the same offset, so it is not moved
            return os.pread(file, _COMPLAINT, max(0, os.fstat(file).st_size - _COMPLAINT)).decode(errors="replace")
        return ""

    def close(self) -> None:
        """See ``router.host.Piped``."""
        self.end.close()
        for number in (None, signal.SIGTERM, signal.SIGKILL):
            if number is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    self._process.send_signal(number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDING)
                break
        self._stderr.close()
