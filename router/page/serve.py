"""Serves the page with gunicorn: one process with threads, on a socket that is bound before.

Shell (processes, sockets). Threads that read the cluster are started in the worker, as they do not survive a fork.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication

from router.errors import ConfigError
from router.page.worker import PageWorker

_PAGES: Final = 48
"""Threads that answer pages; each stream holds one more. One viewer's pages take a quarter of them at most."""
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - no file stays there: gunicorn unlinks it at once


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The application that gunicorn runs. ``make_app`` is called in the worker.

    :param streams: at most so many at once
    :param tls: certificate and key, PEM
    """

    def __init__(
        self,
        listener: socket.socket,
        make_app: Callable[[], Flask],
        streams: int,
        tls: tuple[Path, Path] | None = None,
    ) -> None:
        self._streams = streams
        self._listener = listener
        self._tls = tls
        self._make_app = make_app
        super().__init__()

    def load_config(self) -> None:
        """Give gunicorn only these settings; files and GUNICORN_CMD_ARGS are ignored."""
        threads = self._streams + _PAGES
        settings: dict[str, Any] = {
            "bind": f"fd://{self._listener.detach()}",
            "workers": 1,
            "worker_class": PageWorker,
            "threads": threads,
            "worker_connections": 4 * threads,
            "loglevel": "warning",
            "proc_name": "batchgate page",
            "post_worker_init": _end_at_once,
            "forwarded_allow_ips": "",
            "control_socket_disable": True,
            "worker_tmp_dir": str(_MEMORY_DIRECTORY) if os.access(_MEMORY_DIRECTORY, os.W_OK) else None,
        }
        if self._tls is not None:
            settings |= {"certfile": str(self._tls[0]), "keyfile": str(self._tls[1])}
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Make the app, in the worker."""
        logging.getLogger("batchgate").setLevel(logging.ERROR)  # the page itself says what does not answer
        return self._make_app()


def _end_at_once(_worker: object) -> None:
    """End the worker at a signal. Gunicorn would wait for streams, which have no end; with them nothing is lost."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(one, lambda *_: os._exit(0))


def bind_loopback(port: int) -> socket.socket:
    """Listen on the loopback interface. Raises ConfigError if the port is in use."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ConfigError(f"cannot listen on 127.0.0.1:{port}: {reason}; choose another --port") from None
