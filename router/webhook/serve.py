"""Runs the app under gunicorn, on one or two TLS ports that are bound before gunicorn starts.

Shell (processes, sockets). One arbiter process restarts its worker if that dies. The one worker itself loads everything
that answers reviews, as threads do not survive a fork. For more capacity, run more replicas: each worker has its own
metrics.
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
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

CONNECTIONS: Final = 1000
"""Open connections at once: every API server keeps some open, and each may have hundreds of requests."""

HEARTBEAT_SECONDS = 30
"""Seconds after which the arbiter ends a worker without a heartbeat: a call into C can block all its threads
(``router.webhook.budget``). On a busy machine a worker takes seconds to start, so the limit cannot be much lower."""
_OTHER_FILES: Final = 64
_MEMORY_DIRECTORY: Final = Path("/dev/shm")  # noqa: S108 - no file stays there: gunicorn unlinks it at once


class Application(BaseApplication):  # type: ignore[misc]  # gunicorn has no types
    """The application that gunicorn runs.

    :param options: gunicorn's settings
    :param load_service: called in the worker
    """

    def __init__(self, options: Mapping[str, Any], load_service: Callable[[], Service]) -> None:
        self._options = options
        self._load_service = load_service
        self._service: Service | None = None
        super().__init__()

    def load_config(self) -> None:
        """Give gunicorn only these settings; files and GUNICORN_CMD_ARGS are ignored."""
        for name, value in self._options.items():
            self.cfg.set(name, value)
        self.cfg.set("worker_exit", self._closed)

    def load(self) -> WSGIApplication:
        """Make the app, in the worker."""
        self._service = self._load_service()
        return create_app(self._service)

    def _closed(self, _arbiter: object, _worker: object) -> None:
        if self._service is not None:
            self._service.close()

    def drain(self) -> None:
        """Report in ``/readyz`` that the webhook is shutting down."""
        if self._service is not None:
            self._service.draining = True


def bind(address: Address, option: str = "--listen") -> socket.socket:
    """Listen on an address.

    :param option: the option that gave the address, for the error
    :raises ConfigError: the port is in use, or the address is not this machine's
    """
    try:
        if not address.host and socket.has_dualstack_ipv6():
            return socket.create_server(("::", address.port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=2048)
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        both = address.host == "::" and socket.has_dualstack_ipv6()
        return socket.create_server((address.host, address.port), family=family, backlog=2048, dualstack_ipv6=both)
    except OSError as error:
        # Python extends strerror, so os.strerror is used; errors of name resolution have no errno.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise ConfigError(f"cannot listen on {address}: {str(reason).lower()}; choose another {option}") from None


@dataclass(frozen=True, slots=True)
class Listeners:
    """The sockets for reviews and for metrics; without the latter, metrics are served with the reviews."""

    reviews: socket.socket
    metrics: socket.socket | None = None

    @property
    def metrics_port(self) -> int | None:
        """The port that serves only metrics and probes, or None."""
        return None if self.metrics is None else int(self.metrics.getsockname()[1])

    def detach(self) -> list[str]:
        """Give up the sockets; returns them in gunicorn's notation."""
        return [f"fd://{one.detach()}" for one in (self.reviews, self.metrics) if one is not None]


def bind_all(settings: WebhookSettings) -> Listeners:
    """Listen on all addresses of the settings. Raises ConfigError."""
    reviews = bind(settings.listen)
    return Listeners(
        reviews, None if settings.metrics_listen is None else bind(settings.metrics_listen, "--metrics-listen")
    )


def options(settings: WebhookSettings, listeners: Listeners, current: Callable[[], ServerTls]) -> dict[str, Any]:
    """Gunicorn's settings. Gunicorn then owns the listeners.

    :param current: returns the certificate in force, called at every handshake
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
        # These turn TLS on; the context below is used.
        "certfile": str(settings.certificate),
        "keyfile": str(settings.key),
        "ssl_context": lambda _config, _factory: current().context,
        "logger_class": GunicornLog,
        "proc_name": "batchgate webhook",
        "post_worker_init": _freeze,
        # Clients connect directly, without a proxy, so headers must not change the path or the client.
        "forwarded_allow_ips": "",
        # Gunicorn's remote control would be a socket file in the home directory, which the user's processes could use.
        "control_socket_disable": True,
        # The arbiter reads the worker's heartbeat from an unlinked file; on a disk this can stall.
        "worker_tmp_dir": str(_MEMORY_DIRECTORY) if os.access(_MEMORY_DIRECTORY, os.W_OK) else None,
    }


def run(
    settings: WebhookSettings,
    listeners: Listeners,
    load_service: Callable[[], Service],
    certificate: FileSource[ServerTls],
) -> None:
    """Serve on these listeners until SIGTERM; ends the process with exit code 0."""
    fields = {"address": _address(listeners.reviews)}
    if listeners.metrics is not None:
        fields["metrics"] = _address(listeners.metrics)
    logging.getLogger(LOGGER).info("listening", extra={"fields": fields})
    Application(options(settings, listeners, lambda: certificate.value), load_service).run()


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return str(Address(host, port))


def _freeze(_worker: object) -> None:
    # The objects so far stay for ever, so the garbage collector need not scan them at each full collection.
    gc.collect()
    gc.freeze()
