"""The objects that the parts of an agent are made from: before it leads, and shared by its users while it leads.

Values, and the pauses between questions to a batch system that does not answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from router.agent.batch.commands import BatchCommands
from router.agent.batch.site_observer import SiteObserver
from router.agent.lastcheck import LastCheck
from router.agent.metrics import Metrics
from router.agent.records import SiteRecords
from router.agent.settings import AgentSettings
from router.agent.submission.submitting import Keys
from router.agent.users.seats import Seat, Seats
from router.background.backoff import BackOff
from router.kube.client import Api
from router.kube.election import Election
from router.kube.events import Recorder
from router.kubelet.indexes import Indexes
from router.notation.traces import Span
from router.pod.view import PodView
from router.policy.schema import Account
from router.reconcile.model import Terms
from router.site.schema import Site
from router.workload.model import GpuVendor

LONGEST_PAUSE: Final = 60.0


@dataclass(frozen=True, slots=True)
class World:
    """The objects that exist before the agent leads.

    :param cluster: the cluster's eight digits in jobs' names
    :param nobody: the seat of Pods without a proven HPC user
    :param policy: the digest of the policy in force
    :param accounts: those of the policy in force
    :param tell_span: sends a span; None without traces
    :param observer: asks as the site's observer; None: each user asks
    """

    settings: AgentSettings
    site: Site
    cluster: str
    gpu_resources: Mapping[str, GpuVendor]
    terms: Callable[[PodView], Terms]
    api: Api
    seats: Seats
    nobody: Seat
    metrics: Metrics
    election: Election
    recorder: Recorder
    keys: Callable[[], Keys]
    policy: Callable[[], str] = str
    accounts: Callable[[], tuple[Account, ...]] = tuple
    observer: BatchCommands | None = None
    tell_span: Callable[[Span], None] | None = None


@dataclass(frozen=True, slots=True)
class Shared:
    """The objects that all users of the site share while this agent leads.

    :param listed: set once all Pods are known
    :param check: whether the last check of the site allows submissions
    :param changed: called when the batch system has become unreachable for a user, or answers again
    :param site_observer: looks at all users' jobs; None: each user asks
    """

    records: SiteRecords
    indexes: Indexes
    listed: threading.Event
    changed: Callable[[], None]
    check: LastCheck
    site_observer: SiteObserver | None = None


def back_off(settings: AgentSettings) -> BackOff:
    """The pauses before a batch system that does not answer is asked again."""
    return BackOff(settings.quick_seconds, max(LONGEST_PAUSE, settings.cycle_seconds))
