"""Run the app under gunicorn, on one TLS port, or two, that are bound before gunicorn starts.

Shell. One arbiter process, which starts its worker again should that die, and one worker, which loads all that
answers reviews itself: threads do not survive a fork. More capacity is more replicas, as a worker's metrics are its
own.
"""

from __future__ import annotations

import gc
import logging
import os
import resource
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from flask import Flask
from gunicorn.app.base import BaseApplication

from router.errors import ConfigError
from router.startup.logs import LOGGER
from router.startup.settings import GRACE_SECONDS, KEEPALIVE_SECONDS, Address, WebhookSettings
from router.startup.sources import FileSource
from router.webhook.app import create_app
from router.webhook.log import GunicornLog
from router.webhook.service import Service
from router.webhook.tls import ServerTls
from router.webhook.worker import GateWorker

CONNECTIONS: Final = 1000
"""Connections that are held at once: every API server keeps some open, and each may have hundreds of requests."""

HEARTBEAT_SECONDS = 30
"""After which the arbiter ends a worker that gives no sign of life, as a call into C lets none of its threads run
(``router.webhook.budget``). Not less: on a busy machine a worker takes seconds to begin."""
_OTHER_FILES: Final = 64
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - no file stays there: gunicorn unlinks it at once


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """What gunicorn runs.

    :param options: gunicorn's settings
    :param load_service: called in the worker
    """

    def __init__(self, options: Mapping[str, Any], load_service: Callable[[], Service]) -> None:
        self._options = options
        self._load_service = load_service
        self._service: Service | None = None
        super().__init__()

    def load_config(self) -> None:
        """Give gunicorn its settings: these, and nothing from files or GUNICORN_CMD_ARGS."""
        for name, value in self._options.items():
            self.cfg.set(name, value)

    def load(self) -> Flask:
        """Make the app, in the worker."""
        self._service = self._load_service()
        return create_app(self._service)

    def drain(self) -> None:
        """Say in ``/readyz`` that the end has come."""
        if self._service is not None:
            self._service.draining = True


def bind(address: Address, option: str = "--listen") -> socket.socket:
    """Listen there.

    :param option: where the address was given, for the error
    :raises ConfigError: the port is in use, or the address is none of this machine
    """
    try:
        if not address.host and socket.has_dualstack_ipv6():
            return socket.create_server(("::", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        both = address.host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((address.host, address.port), family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        # Python adds its own words to strerror; errors of name resolution have no number of the system's.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ConfigError(f"cannot listen on {address}: {str(reason).lower()}; choose another {option}") from None


@dataclass(frozen=True, slots=True)
class Listeners:
    """Where reviews come in, and where metrics are asked for; None: there as well."""

    reviews: socket.socket
    metrics: socket.socket | None = None

    @property
    def metrics_port(self) -> int | None:
        """The port on which there is nothing but metrics and probes."""
        return None if self.metrics is None else int(self.metrics.getsockname()[1])

    def detach(self) -> list[str]:
        """Hand them over, as gunicorn writes them."""
        return [f"fd://{one.detach()}" for one in (self.reviews, self.metrics) if one is not None]


def bind_all(settings: WebhookSettings) -> Listeners:
    """Listen wherever the settings say. ConfigError where one cannot be had."""
    reviews = bind(settings.listen)
    return Listeners(
        reviews, None if settings.metrics_listen is None else bind(settings.metrics_listen, "--metrics-listen")
    )


def options(settings: WebhookSettings, listeners: Listeners, current: Callable[[], ServerTls]) -> dict[str, Any]:
    """Gunicorn's settings. The listeners are gunicorn's from here on.

    :param current: the certificate in force, asked for at every handshake
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return {
        "bind": listeners.detach(),
        "workers": 1,
        "worker_class": GateWorker,
        "threads": settings.threads,
        "worker_connections": max(settings.threads + 1, min(CONNECTIONS, files - _OTHER_FILES)),
        "keepalive": KEEPALIVE_SECONDS,
        "timeout": HEARTBEAT_SECONDS,
        "graceful_timeout": GRACE_SECONDS,
        # TLS is on where these are set; what is used is the context below.
        "certfile": str(settings.certificate),
        "keyfile": str(settings.key),
        "ssl_context": lambda _config, _factory: current().context,
        "logger_class": GunicornLog,
        "proc_name": "batchgate webhook",
        "post_worker_init": _freeze,
        # No proxy stands before us: no header may rename the path or the client.
        "forwarded_allow_ips": "",
        # Gunicorn's remote control would be a socket file in the home directory, open to the same user.
        "control_socket_disable": True,
        # The arbiter reads the worker's heartbeat from a file without a name; on a disk it can stall.
        "worker_tmp_dir": str(_MEMORY_DIRECTORY) if os.access(_MEMORY_DIRECTORY, os.W_OK) else None,
    }


def run(
    settings: WebhookSettings,
    listeners: Listeners,
    load_service: Callable[[], Service],
    certificate: FileSource[ServerTls],
) -> None:
    """Serve on what ``bind`` returned until SIGTERM; ends the process with exit code 0."""
    fields = {"address": _address(listeners.reviews)}
    if listeners.metrics is not None:
        fields["metrics"] = _address(listeners.metrics)
    logging.getLogger(LOGGER).info("listening", extra={"fields": fields})
    Application(options(settings, listeners, lambda: certificate.value), load_service).run()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return str(Address(host, port))


def _freeze(_worker: object) -> None:
    # What is there now stays: the collector need not walk it again at every full collection.
    gc.collect()
    gc.freeze()
