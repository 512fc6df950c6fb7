"""Reads what the cluster has of one Job, within bounds of memory and of time, for all pages of a viewer that show it.

Shell (the API). Lists are read page by page, and of each Pod and Event only what is shown is kept. Pages that follow a
Job read it again as it changes, and ever more rarely while it rests.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final
from urllib.parse import quote

from router import names
from router.cli.cluster import Cluster
from router.errors import ApiError
from router.page.models.filled import Filled, Open, left_open
from router.page.models.looking import JobObjects
from router.page.models.parts import Events, Pods
from router.workload.cluster import Cluster as Facts
from router.workload.cluster import LimitDefaults
from router.workload.clusterfile import defaults_of, overhead_of

Found = tuple[JobObjects | None, str]
_PODS_A_PAGE: Final = 50
"""Pods of a list that are in memory together: each may carry a script."""
_EVENTS_A_PAGE: Final = 250
_SOONEST: Final = 1.0
_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 30.0
"""Seconds between two readings of a Job of which the view shows no change: the pause doubles from the first one on."""
_REST: Final = 4
"""So many times as long as a reading took, the viewer's pages read nothing again."""
_RARELY: Final = 20
"""So many times as long as a reading took is the least pause without a change."""
_FAILED: Final = 1.0
"""As so many seconds a reading that failed counts at most: a time-out tells nothing of a Job's size."""
_KEPT: Final = 24
_UNASKED_SECONDS: Final = 60.0
"""So long what no page asks for is kept, and as much longer as the least pause without a change: meanwhile a page rests."""


def read_job(cluster: Cluster, namespace: str, name: str) -> Found:
    """The objects of a Job; None and the reason if it is missing or forbidden. Raises ApiError without an answer."""
    asked = Cluster(cluster.api, namespace, True, cluster.system, page=_PODS_A_PAGE)  # noqa: FBT003 - it is named
    below = f"namespaces/{quote(namespace, safe='')}"
    job = asked.one(f"Job {namespace}/{name}", f"/apis/batch/v1/{below}/jobs/{quote(name, safe='')}")
    if job is None:
        why = asked.missed[-1] if asked.missed else f"there is no Job {namespace}/{name}; it may have been deleted"
        return None, why
    job["metadata"].pop("managedFields", None)
    uid, pods = job["metadata"]["uid"], Pods()
    asked.every("the Job's Pods", f"/api/v1/{below}/pods", pods.take, labelSelector=f"{names.CONTROLLER_UID}={uid}")
    chosen = pods.chosen
    events = Events(job, (one["metadata"]["uid"] for one in chosen))
    asked.page = _EVENTS_A_PAGE
    # A former Pod's uid is unknown, so those of all Pods are looked through, and those of other Jobs thrown away.
    for selector in (f"involvedObject.uid={uid}", "involvedObject.kind=Pod"):
        if asked.every("Events", f"/api/v1/{below}/events", events.take, fieldSelector=selector) is None:
            break
    missed, filled = tuple(asked.missed), _filled(cluster, namespace, left_open(job))
    return JobObjects(job, chosen, events.chosen, missed, pods.phases, filled), ""


def _filled(cluster: Cluster, namespace: str, needs: Open) -> Filled:
    """What the cluster fills in of that. Raises ApiError without an answer."""
    asked = Cluster(cluster.api, namespace, True, cluster.system)  # noqa: FBT003 - as above
    limits: dict[str, tuple[LimitDefaults, ...]] = {}
    overheads, unknown = {}, []
    if needs.amounts:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/limitranges"
        found = asked.every("LimitRanges", path, partial(defaults_of, place=path))
        if found is None:
            unknown.append("LimitRanges of the namespace")
        else:
            limits[namespace] = tuple(one for each in found for one in each)
    if needs.runtime_class:
        path = f"/apis/node.k8s.io/v1/runtimeclasses/{quote(needs.runtime_class, safe='')}"
        one = asked.one("its RuntimeClass", path)
        if one is None:
            unknown.append(f"RuntimeClass {needs.runtime_class}")
        else:
            overheads[needs.runtime_class] = overhead_of(one, path)
    return Filled(Facts(limits=limits, overheads=overheads), tuple(unknown))


def namespace_labels(cluster: Cluster, namespace: str) -> Mapping[str, str] | None:
    """The labels of a namespace; None without the right to see it. Raises ApiError without an answer."""
    asked = Cluster(cluster.api, namespace, True, cluster.system)  # noqa: FBT003 - as above
    found = asked.one(f"namespace {namespace}", f"/api/v1/namespaces/{quote(namespace, safe='')}")
    return None if found is None else found["metadata"].get("labels") or {}


@dataclass(slots=True)
class _Look:
    """What was read of one Job, or why it could not be read. Times are monotonic seconds.

    :param mark: of the view before it was read
    :param cost: seconds that the reading took, as they count; ``ended``: when it was over
    :param pause: until it is read again without a change
    :param asked: when a page last asked for it
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    found: Found | ApiError | None = None
    mark: int | None = None
    cost: float = 0.0
    ended: float = 0.0
    pause: float = _FIRST_PAUSE
    asked: float = 0.0


class Looks:
    """What was read of Jobs for one viewer. All methods may be called by any thread.

    :param cluster: with the viewer's credentials
    :param turns: how many lists are read at once for the viewer
    :param clock: seconds that never go back
    """

    def __init__(
        self, cluster: Cluster, turns: threading.BoundedSemaphore, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._turns = turns
        self._known: dict[tuple[str, str], _Look] = {}
        self._rests = 0.0

    def find(self, namespace: str, name: str, now: int, *, asked_for: bool) -> Found:
        """The objects of a Job as they were read last, or read now if that is due. Raises ApiError without an answer.

        :param now: the ``mark`` of the view of this moment
        :param asked_for: whether a person has asked for the page, who wants to see the present state
        """
        look = self._look(namespace, name)
        with look.lock:
            if look.found is None or self._is_due(look, now, asked_for=asked_for):
                with self._turns:
                    self._read(look, namespace, name, now)
            if isinstance(look.found, ApiError):
                raise look.found
            assert look.found is not None  # noqa: S101 - it was read now or before
            return look.found

    def is_due(self, namespace: str, name: str, now: int) -> bool:
        """Whether a page that follows the Job would read it now."""
        return self._is_due(self._look(namespace, name), now, asked_for=False)

    def _look(self, namespace: str, name: str) -> _Look:
        now = self._clock()
        with self._lock:
            left = sorted(self._known.items(), key=lambda one: -one[1].asked)[:_KEPT]
            self._known = {key: one for key, one in left if now - one.asked < _UNASKED_SECONDS + _RARELY * one.cost}
            found = self._known.setdefault((namespace, name), _Look())
            found.asked = now
            return found

    def _is_due(self, look: _Look, mark_now: int, *, asked_for: bool) -> bool:
        now = self._clock()
        rests = look.ended + _REST * look.cost if asked_for else self._rests
        if now < max(rests, look.ended + _SOONEST):
            return False
        return asked_for or look.mark != mark_now or now > look.ended + max(look.pause, _RARELY * look.cost)

    def _read(self, look: _Look, namespace: str, name: str, mark_now: int) -> None:
        changed, look.mark = look.mark != mark_now, mark_now
        begun = self._clock()
        try:
            look.found = read_job(self._cluster, namespace, name)
        except ApiError as error:
            look.found = error
        look.ended = self._clock()
        look.cost = min(look.ended - begun, _FAILED if isinstance(look.found, ApiError) else math.inf)
        look.pause = _FIRST_PAUSE if changed else min(2 * look.pause, _LONGEST_PAUSE)
        self._rests = look.ended + _REST * look.cost
