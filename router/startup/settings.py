"""The webhook's settings, with the reason for each default.

Pure: values and how their texts are read. ``router.webhook.command`` reads the options and the ``BATCHGATE_…``
variables.
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
"""The most bytes of a review. The API server takes objects of up to 3 MiB; a review of an UPDATE carries two, and the
last MiB is ample for the rest (user, groups, names)."""

REVIEW_BUDGET: Final = 1.0
"""Seconds of CPU time that one review may take. Most take two milliseconds, the largest allowed some tenths of a
second. The API server waits ten seconds, in which several reviews in a row must be possible."""

POLICY_BUDGET: Final = 5.0
"""Seconds of CPU time that the check of a policy may take as it is written to the cluster: a thousand rules take a
third of a second. The API server waits ten seconds."""

THREADS: Final = 8
"""Reviews in progress at once. The one worker process uses one core; more threads would only wait for each other."""

KEEPALIVE_SECONDS: Final = 120
"""How long an idle connection stays open: longer than the 90 seconds for which the API server keeps its side. If the
webhook closed first, the next review could meet the closing connection, and a POST is not sent again."""

EXCHANGE_SECONDS: Final = 10
"""How long a client may take from its first byte to the end of the answer. The API server waits 10 seconds for a
webhook by default, so a slower client has given up or is no API server."""

GRACE_SECONDS: Final = 15
"""How long reviews in flight may take to finish after SIGTERM: longer than ``EXCHANGE_SECONDS``, and with a preStop
pause still within Kubernetes' 30 seconds."""

WATCH_SECONDS: Final = 2.0
"""Seconds between looks at files, one stat per file; the kubelet itself takes up to a minute to update one."""

QUEUES_MAX_AGE: Final = 600
"""Seconds after which the queue state counts as unknown. It is normally written about every minute. After ten missed
writes, rules on waits and free nodes would act on outdated figures."""

DECISION_LOG_SIZE: Final = 256 * 1024 * 1024
"""Bytes of all files of the decision log: a line takes about 2.5 KB, so they hold some 100,000 decisions."""

DECISION_LOG_FILES: Final = 4
"""The file of the decision log that is written and those before it: ``FILE``, ``FILE.1`` to ``FILE.3``."""

LEAST_DECISION_LOG: Final = 4 * 1024 * 1024
"""Bytes of the smallest decision log: each of its four files holds some of the longest lines."""

NAMESPACE: Final = SYSTEM_NAMESPACE
"""The namespace of Batchgate's own objects, as in ``manifests/``."""

_ANY_PORT: Final = 0
_LISTEN = re.compile(r"^(?:\[(?P<six>[^\[\]]*)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})$")


class LogFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on. An empty host is every address of the machine; port 0 is a free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """All settings of ``batchgate webhook``.

    :param client_ca: only clients with a certificate of this CA get reviews answered
    :param client_names: only certificates with one of these common names are accepted; empty: any name
    :param metrics_listen: where ``/metrics`` is served, instead of on ``listen``
    :param in_cluster: watch the cluster in which this Pod runs, by its service account
    :param kubeconfig: watch the cluster of this file
    :param claims: watch claims and volumes too
    :param decision_log: a file to which each decision is written with what it rests on
    :param decision_log_size: bytes of this file and those before it
    :param follow_traces: continue the trace of the API server, which then decides on sampling
    :param namespace: where agents publish the state of the queues; only with ``in_cluster`` or ``kubeconfig``
    :raises ConfigError: ``metrics_listen`` has the port of ``listen``, even if their hosts differ
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
    claims: bool = False
    namespace: str = NAMESPACE
    threads: int = THREADS
    body_limit: int = BODY_LIMIT
    review_budget: float = REVIEW_BUDGET
    log_format: LogFormat = LogFormat.JSON
    decision_log: Path | None = None
    decision_log_size: int = DECISION_LOG_SIZE
    follow_traces: bool = False

    def __post_init__(self) -> None:
        metrics = self.metrics_listen
        if metrics is not None and metrics.port != _ANY_PORT and metrics.port == self.listen.port:
            raise ConfigError(
                f"reviews on {self.listen} and metrics on {metrics} have one port, which alone tells them apart; "
                "give --metrics-listen another port"
            )


def log_files(path: Path) -> tuple[Path, ...]:
    """The files of a decision log, the newest first."""
    return path, *(path.with_name(f"{path.name}.{number}") for number in range(1, DECISION_LOG_FILES))


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
