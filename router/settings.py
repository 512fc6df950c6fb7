"""What the webhook can be told, with the reason for each default.

Pure: values and how their texts are read. Knows no environment, file or socket; ``router.webhook.command`` reads the
options and the ``BATCHGATE_…`` variables.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from router.errors import ConfigError
from router.names import SYSTEM_NAMESPACE

BODY_LIMIT: Final = 7 * 1024 * 1024
"""Bytes of a review that are read at most. The API server takes objects of up to 3 MiB; a review of an UPDATE carries
two, and the rest (user, groups, names) has a MiB more than it will ever need."""

THREADS: Final = 8
"""Reviews that are worked on at once. One worker process holds one core; more threads only wait for each other."""

KEEPALIVE_SECONDS: Final = 120
"""How long an idle connection stays open. Above the 90 seconds for which the API server keeps its side: were we to
close first, its next review could meet the closing connection, and a POST is not sent again."""

EXCHANGE_SECONDS: Final = 10
"""How long a client may take from its first byte to the end of our answer. The API server waits 10 seconds for a
webhook unless told otherwise, so that whoever takes longer has given up, or never meant to finish."""

GRACE_SECONDS: Final = 15
"""How long reviews in flight may take to finish after SIGTERM: more than any exchange may take, and with a preStop
pause still within Kubernetes' 30 seconds."""

WATCH_SECONDS: Final = 2.0
"""How often files are looked at for a change. A stat a file; the kubelet itself takes up to a minute to bring one."""

QUEUES_MAX_AGE: Final = 600
"""Seconds after which the queue state counts as unknown. What writes it does so every minute or so; ten missed in a
row are no hiccup, and rules that act on waits and free nodes would act on what is long over."""

NAMESPACE: Final = SYSTEM_NAMESPACE
"""Where Batchgate's own objects are, as ``manifests/`` have it."""

_LISTEN = re.compile(r"^(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})$")


class LogFormat(StrEnum):
    """How a log line looks."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. An empty host is every address of the machine; port 0 a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """All that ``batchgate webhook`` can be told.

    :param in_cluster: watch the cluster whose Pod we are, by its service account
    :param kubeconfig: watch the cluster of this file
    :param namespace: where agents publish the state of the queues; with one of the two only
    """

    listen: Address
    host_names: tuple[str, ...]
    certificate: Path
    key: Path
    policy: Path
    signing_key: Path | None = None
    queues: Path | None = None
    queues_max_age: int = QUEUES_MAX_AGE
    cluster: Path | None = None
    kubeconfig: Path | None = None
    in_cluster: bool = False
    namespace: str = NAMESPACE
    threads: int = THREADS
    body_limit: int = BODY_LIMIT
    log_format: LogFormat = LogFormat.JSON


def parse_address(text: str) -> Address:
    """Read ``HOST:PORT``, ``[IPv6]:PORT`` or ``:PORT``.

    :raises ConfigError: anything else
    """
    match = _LISTEN.fullmatch(text)
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(f"{text!r} is no address to listen on; write 0.0.0.0:8443, [::]:8443 or :8443")
    if match["six"] is None:
        return Address(match["host"], int(match["port"]))
    try:
        return Address(str(ipaddress.IPv6Address(match["six"])), int(match["port"]))
    except ValueError:
        raise ConfigError(f"{text!r}: {match['six']!r} is no IPv6 address; write [::]:8443") from None
