"""What ``batchgate agent`` can be told, with the reason for each default.

Pure: values. ``router.cli.agent`` reads the options and the ``BATCHGATE_…`` variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.settings import Address, LogFormat

NAMESPACE: Final = "batchgate-system"

LEASE_SECONDS: Final = 15
"""How long a leader that is gone is waited for: what Kubernetes' own controllers take."""

CYCLE_SECONDS: Final = 30
"""Between two questions to the batch system. The spool of state notes is read every second and costs it nothing."""

QUICK_SECONDS: Final = 5
"""The same for a minute after any change of ours, when something is likely to happen."""

COMMAND_SECONDS: Final = 60
"""For one command of the batch system. A busy server takes long; one that takes longer has lost us."""

HANDS: Final = 8
"""Pods that are worked on at once. Most of the time goes into waiting for the batch system's commands."""

KEEP_SECONDS: Final = 7 * 86400
"""How long a Pod's directory stays after its Pod has gone."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All that ``batchgate agent`` can be told.

    :param listen: where the kubelet API is served
    :param metrics: where /livez, /readyz and /metrics are served, plain HTTP
    :param address: the IP under which the API server reaches ``listen``; the Nodes publish it
    :param namespace: of the election's Lease
    :param cluster: eight hex digits that stand for the cluster in job names; None: from ``kube-system``'s uid
    :param local_state: the directory of the embedded queue, for sites of system ``local``
    :param serving_certificate: certificate and key of the kubelet API; None: asked of the cluster, unless self-signed
    """

    site: str
    policy: Path
    public_key: Path
    listen: Address
    metrics: Address
    address: str
    kubeconfig: str | None = None
    namespace: str = NAMESPACE
    identity: str = ""
    cluster: str | None = None
    lease_seconds: int = LEASE_SECONDS
    cycle_seconds: int = CYCLE_SECONDS
    quick_seconds: int = QUICK_SECONDS
    command_seconds: int = COMMAND_SECONDS
    hands: int = HANDS
    keep_seconds: int = KEEP_SECONDS
    results: Path | None = None
    local_state: Path | None = None
    self_signed: bool = False
    log_format: LogFormat = LogFormat.JSON
