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

REVIEW_BUDGET: Final = 1.0
"""Seconds of CPU time that one review may take. Most take two milliseconds, the largest that are taken some tenths of a
second; the API server waits ten seconds, in which several of them must be possible one after the other."""

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

_ANY_PORT: Final = 0
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

    :param client_ca: who has no client certificate of it is answered no review; ``client_names``: nor whose common name
        is none of these, where some are given
    :param metrics_listen: where ``/metrics`` is served, in place of ``listen``
    :param in_cluster: watch the cluster whose Pod we are, by its service account
    :param kubeconfig: watch the cluster of this file
    :param namespace: where agents publish the state of the queues; with one of the two only
    :raises ConfigError: ``metrics_listen`` has the port of ``listen``, also where their hosts differ
    """

    listen: Address
    host_names: tuple[str, ...]
    certificate: Path
    key: Path
    policy: Path
    signing_key: Path | None = None
    client_ca: Path | None = None
    client_names: tuple[str, ...] = ()
    metrics_listen: Address | None = None
    queues: Path | None = None
    queues_max_age: int = QUEUES_MAX_AGE
    cluster: Path | None = None
    kubeconfig: Path | None = None
    in_cluster: bool = False
    namespace: str = NAMESPACE
    threads: int = THREADS
    body_limit: int = BODY_LIMIT
    review_budget: float = REVIEW_BUDGET
    log_format: LogFormat = LogFormat.JSON

    def __post_init__(self) -> None:
        metrics = self.metrics_listen
        if metrics is not None and metrics.port != _ANY_PORT and metrics.port == self.listen.port:
            raise ConfigError(
                f"reviews on {self.listen} and metrics on {metrics} have one port, which alone tells them apart; "
                "give --metrics-listen another port"
            )


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
