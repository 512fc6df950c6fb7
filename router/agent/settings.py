"""What ``batchgate agent`` can be told, with the reason for each default.

Pure: values. ``router.cli.agent`` reads the options and the ``BATCHGATE_…`` variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.startup.settings import Address, LogFormat

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
"""Submissions that are made at once. Most of their time goes into waiting for the submit command."""

NODE_LEASE_SECONDS: Final = 40
"""Of a Node's Lease: a kubelet's default."""

ORPHAN_SECONDS: Final = 900
"""How long a job is without a Pod before it is cancelled: an API server that comes back has shown its Pods by then."""

IDLE_SECONDS: Final = 600
"""After which a user for whom there is nothing to do has no connection any more: Jobs often come one after the other."""

LOST_SECONDS: Final = 600
"""Between two answers "unknown id" that prove a job to be lost."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All that ``batchgate agent`` can be told.

    :param listen: where the kubelet API is served
    :param metrics: where /livez, /readyz and /metrics are served, plain HTTP
    :param address: the IP under which the API server reaches ``listen``; the Nodes publish it
    :param namespace: of the election's Lease
    :param cluster: eight hex digits that stand for the cluster in job names; None: from ``kube-system``'s uid
    :param local_state: the directory of the embedded queue, for sites of system ``local``
    :param local_commands: words before the embedded queue's commands; empty: this very program
    :param self_signed: the kubelet API has a certificate of its own making; else one is asked of the cluster
    :param certificates: where an issued certificate is kept, so that a restart need not wait for another
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
    node_lease_seconds: int = NODE_LEASE_SECONDS
    command_seconds: int = COMMAND_SECONDS
    orphan_seconds: int = ORPHAN_SECONDS
    idle_seconds: int = IDLE_SECONDS
    lost_seconds: int = LOST_SECONDS
    hands: int = HANDS
    local_state: Path | None = None
    local_commands: str = ""
    self_signed: bool = False
    certificates: Path | None = None
    log_format: LogFormat = LogFormat.JSON
