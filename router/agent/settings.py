"""The settings of ``batchgate agent``, with the reason for each default.

Pure: values. ``router.cli.agent`` reads the options and the ``BATCHGATE_…`` variables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from router.startup.settings import Address, LogFormat

NAMESPACE: Final = "batchgate-system"

LEASE_SECONDS: Final = 15
"""How long a standby waits for a leader that is gone: the time of Kubernetes' own controllers."""

CYCLE_SECONDS: Final = 30
"""Time between two questions to the batch system. The spool of state notes is read every second, without load on it."""

QUICK_SECONDS: Final = 5
"""Time between two questions for a minute after a change by the agent, when more is likely to happen."""

COMMAND_SECONDS: Final = 60
"""Time limit of one command of the batch system: a busy server may be slow, but a slower answer is taken as lost."""

HANDS: Final = 8
"""Most submissions at the same time: each mostly waits for its submit command."""

NODE_LEASE_SECONDS: Final = 40
"""Duration of a Node's Lease: a kubelet's default."""

ORPHAN_SECONDS: Final = 900
"""How long a job may be without a Pod before it is cancelled: by then a restarted API server has shown its Pods."""

IDLE_SECONDS: Final = 600
"""Idle time after which a user's connection is ended: Jobs often come one after the other."""

LOST_SECONDS: Final = 600
"""Time between two answers "unknown id" that prove a job to be lost."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """All settings of ``batchgate agent``.

    :param listen: where the kubelet API is served
    :param metrics: where /livez, /readyz and /metrics are served, plain HTTP
    :param address: the IP under which the API server reaches ``listen``; the Nodes publish it
    :param policy: the directory of the policy files
    :param policy_configmap: the ConfigMap in ``namespace`` that holds the policy, instead; empty: ``policy``
    :param namespace: the namespace of the election's Lease, and of ConfigMaps
    :param cluster: eight hex digits that stand for the cluster in job names; None: from ``kube-system``'s uid
    :param local_state: the directory of the embedded queue, for sites of system ``local``
    :param local_commands: words before the embedded queue's commands; empty: this program
    :param self_signed: whether the kubelet API uses a self-signed certificate; else the cluster is asked for one
    :param renew_token: the life, in seconds, to ask for when the token of the kubeconfig's ``tokenFile`` is renewed; 0:
        this agent does not renew it
    :param certificates: the directory for an issued certificate, so that a restart need not wait for another
    """

    site: str
    policy: Path
    public_key: Path
    listen: Address
    metrics: Address
    address: str
    kubeconfig: str | None = None
    renew_token: int = 0
    policy_configmap: str = ""
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
