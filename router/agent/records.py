"""Keeps the agent's record of each Pod, by several keys.

Shell (locks), only in memory: after a restart the records are made anew from the cluster and the site. A record's facts
are a frozen value that is replaced whole under the record's lock, so readers need no lock.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from router.agent.approval import named_user
from router.pod.layout import PodDirectory
from router.pod.view import PodView, departed
from router.reconcile import outcomes
from router.reconcile.model import Facts

_USAGE_WANTED: Final = 180.0
"""Seconds for which a question about what jobs use holds: collectors ask every 15 to 60 s."""
_OWN_WRITES: Final = 60.0
"""Seconds for which a newer version of a Pod is kept against an older one: from our own write against a late watch, and
from the watch against a late answer. Longer than either lags. Limited, as versions go back when a cluster is restored
from a backup."""
MOST_ENDED: Final = 10_000
"""Most Pods of one HPC user that are remembered as over; for older ones the site is asked once more."""


class Record:
    """One Pod: its facts, the actions under way for it, how many of its steps failed in a row.

    ``name`` outlives the Pod, as it is part of the batch job's name. ``busy`` are the kinds of actions that run in the
    background now.
    """

    __slots__ = (
        "_facts",
        "_lock",
        "_shown",
        "_written",
        "busy",
        "directory",
        "failures",
        "fenced",
        "missing",
        "name",
        "namespace",
        "over",
        "owed",
        "seen",
        "traced",
    )

    def __init__(self, facts: Facts, directory: PodDirectory) -> None:
        self._lock = threading.Lock()
        self._facts = facts
        self._written = self._shown = -math.inf
        self.directory = directory
        self.namespace = facts.pod.namespace
        self.name = facts.pod.name
        self.busy: set[str] = set()
        self.failures: dict[str, int] = {}
        self.fenced = False
        """Whether the directories of older Pods with its Job and index were looked at."""
        self.over = False
        """Whether, by the last plan, nothing of the Pod can still run on the site."""
        self.missing: float | None = None
        """Since when the API server stopped showing the Pod, in seconds since 1970. This alone leaves its job alone."""
        self.owed = False
        """Whether bringing its results has failed and will be tried again."""
        self.seen: set[str] = set()
        """Names of its spool notes that were read."""
        self.traced = facts.pod.status.terminal
        """Whether its spans were told, by this agent or by the one before: it may have, if the Pod had ended."""

    @property
    def facts(self) -> Facts:
        """The present facts."""
        return self._facts

    @property
    def uid(self) -> str:
        """The Pod's uid."""
        return self.directory.pod_uid

    @property
    def key(self) -> str:
        """``namespace/name``, also of a Pod that is gone; its uid if the name was never known."""
        return f"{self.namespace}/{self.name}" if self.name else self.uid

    def change(self, function: Callable[[Facts], Facts]) -> Facts:
        """Replace the facts by the function's result for them."""
        with self._lock:
            self._facts = function(self._facts)
            return self._facts

    def wrote(self, pod: PodView, function: Callable[[Facts, PodView], Facts]) -> None:
        """Take the Pod of an API server's answer into the facts.

        If a watch has meanwhile shown a later version, that one stays: it may be a deletion, which is shown only once.
        """
        with self._lock:
            known, now = self._facts.pod, time.monotonic()
            late = self._is_older(pod, known) and now - self._shown < _OWN_WRITES
            self._facts = function(self._facts, known if late else pod)
            self._written = self._written if late else now

    def saw(self, pod: PodView) -> bool:
        """Take the Pod that the API server shows into the facts; returns whether it is new."""
        with self._lock:
            self.missing, self.name, self.namespace = None, pod.name, pod.namespace
            known = self._facts.pod
            if known == pod or (self._is_older(pod, known) and time.monotonic() - self._written < _OWN_WRITES):
                return False
            self._facts = outcomes.with_pod(self._facts, pod)
            self._shown = time.monotonic()
            return True

    def depart(self) -> None:
        """Note that the Pod is surely gone, so that its rest on the site is brought to an end."""
        with self._lock:
            pod, jobs = self._facts.pod, self._facts.jobs
            gone = departed(
                uid=self.uid,
                job_uid=self.directory.job_uid,
                index=self.directory.index,
                job_id=pod.job_id or (jobs[0].job_id if jobs else ""),
            )
            self._facts = outcomes.with_pod(self._facts, gone)
            self.missing = None

    @staticmethod
    def _is_older(pod: PodView, known: PodView) -> bool:
        one, other = pod.resource_version, known.resource_version
        return one.isdigit() and other.isdigit() and int(one) < int(other)


class Records:
    """The records of one HPC user's Pods, by uid, by ``namespace/name``, and by Job and index.

    :param directory: the directory with a Pod's files
    :param user: the HPC user; empty for Pods without a proven user
    :param site: the records of all users, which include these
    """

    def __init__(
        self, directory: Callable[[PodView], PodDirectory], *, user: str = "", site: SiteRecords | None = None
    ) -> None:
        self.user = user
        self._directory = directory
        self._site = site
        self._lock = threading.Lock()
        self._by_uid: dict[str, Record] = {}
        self._by_key: dict[str, str] = {}
        self._by_place: dict[tuple[str, str], set[str]] = {}
        self._ended: dict[str, None] = {}
        self.usage_asked = -math.inf

    @property
    def wants_usage(self) -> bool:
        """Whether somebody has lately asked what running jobs use."""
        asked = self.usage_asked if self._site is None else self._site.usage_asked
        return time.monotonic() - asked < _USAGE_WANTED

    def get(self, uid: str) -> Record | None:
        """The record of a Pod; None for an unknown one."""
        return self._by_uid.get(uid)

    def named(self, namespace: str, name: str) -> Record | None:
        """The record of the Pod that has this name now, or had it last."""
        uid = self._by_key.get(f"{namespace}/{name}")
        return None if uid is None else self._by_uid.get(uid)

    def all(self) -> list[Record]:
        """All present records."""
        with self._lock:
            return list(self._by_uid.values())

    def by_user(self) -> dict[str, list[Record]]:
        """All present records, by the HPC user."""
        return {self.user: self.all()}

    def any(self) -> bool:
        """Whether there is any record."""
        return bool(self._by_uid)

    def has_ended(self, uid: str) -> bool:
        """Whether this Pod's record was dropped because the Pod was over, as far as is remembered."""
        return uid in self._ended

    def siblings(self, record: Record) -> list[Record]:
        """The other records with the same Job and index."""
        with self._lock:
            alike = self._by_place.get(_place(record.directory), ())
            return [self._by_uid[uid] for uid in alike if uid != record.uid]

    def add(self, facts: Facts) -> Record:
        """The record of a Pod, made with these facts if it is new."""
        pod = facts.pod
        with self._lock:
            record = self._by_uid.get(pod.uid)
            if record is None:
                record = Record(facts, self._directory(pod))
                self._by_uid[pod.uid] = record
                self._by_place.setdefault(_place(record.directory), set()).add(pod.uid)
            if pod.name:
                self._by_key[pod.key] = pod.uid
            return record

    def found(self, left: PodView, now: float) -> Record | None:
        """The record of a Pod of which a job or directory was found among this user's; None if it is another user's.

        A Pod without a proven user that names this user becomes this user's. An unknown Pod gets a record and counts as
        missing from now on. A known Pod that names no Job, as it was released from its Job before this agent began, is
        from now on followed in the directory in which it was found.

        :param left: the Pod as the job or directory shows it: ``router.pod.view.departed``
        :param now: seconds since 1970
        """
        if (record := self.get(left.uid)) is not None:
            return self._placed(record, left)
        holding = self._site.holding(left.uid) if self._site is not None else None
        if holding is None:
            record = self.add(outcomes.first(left))
            record.missing = now
            return record
        other = holding.get(left.uid)
        if other is None or holding.user or named_user(other.facts.pod.account) != self.user:
            return None
        return self._placed(self.take_over(other, holding), left)

    def take_over(self, record: Record, holding: Records) -> Record:
        """Move a Pod from other records to these; returns its new record, whose facts are found anew."""
        holding.drop(record)
        return self.add(outcomes.first(record.facts.pod))

    def _placed(self, record: Record, left: PodView) -> Record:
        """The record, with the directory that was found if that of the Pod itself is unknown."""
        with self._lock:
            if left.job_uid and not record.directory.job_uid:
                self._leave_place(record)
                record.directory = replace(record.directory, job_uid=left.job_uid, index=left.index)
                self._by_place.setdefault(_place(record.directory), set()).add(record.uid)
                record.change(outcomes.located)
        return record

    def _leave_place(self, record: Record) -> None:
        place = _place(record.directory)
        alike = self._by_place.get(place, set())
        alike.discard(record.uid)
        if not alike:
            self._by_place.pop(place, None)

    def drop(self, record: Record) -> None:
        """Drop a Pod's record: its state is final in the cluster and on the site."""
        with self._lock:
            self._by_uid.pop(record.uid, None)
            self._leave_place(record)
            if self._by_key.get(record.key) == record.uid:
                del self._by_key[record.key]
            if record.over:
                self._ended[record.uid] = None
                if len(self._ended) > MOST_ENDED:
                    del self._ended[next(iter(self._ended))]


class SiteRecords:
    """The records of all users of a site. Each user's are kept apart, so that siblings always have the same user."""

    def __init__(self) -> None:
        self._parts: tuple[Records, ...] = ()
        self.usage_asked = -math.inf
        """When somebody last asked what running jobs use, by the monotonic clock."""

    def join(self, records: Records) -> None:
        """Include a user's records from now on."""
        self._parts = (*self._parts, records)

    def holding(self, uid: str) -> Records | None:
        """The user's records that include a Pod; None for an unknown Pod."""
        return next((part for part in self._parts if part.get(uid) is not None), None)

    def get(self, uid: str) -> Record | None:
        """The record of a Pod; None for an unknown one."""
        return next((found for part in self._parts if (found := part.get(uid)) is not None), None)

    def named(self, namespace: str, name: str) -> Record | None:
        """The record of the Pod that has this name now, or had it last."""
        found = [one for part in self._parts if (one := part.named(namespace, name)) is not None]
        return max(found, key=lambda one: one.facts.pod.created, default=None)

    def all(self) -> list[Record]:
        """All present records."""
        return [record for part in self._parts for record in part.all()]

    def by_user(self) -> dict[str, list[Record]]:
        """All present records, by the HPC user; records without a proven user have the empty name."""
        found: dict[str, list[Record]] = {}
        for part in self._parts:
            found.setdefault(part.user, []).extend(part.all())
        return found

    def unclaimed(self) -> list[Record]:
        """The records of Pods without a proven user."""
        return [record for part in self._parts if not part.user for record in part.all()]

    def siblings(self, record: Record) -> list[Record]:
        """The other records with the same user, Job and index."""
        return next((part.siblings(record) for part in self._parts if part.get(record.uid) is record), [])

    def drop(self, record: Record) -> None:
        """Drop a Pod's record: its state is final in the cluster and on the site."""
        for part in self._parts:
            if part.get(record.uid) is record:
                part.drop(record)


def _place(directory: PodDirectory) -> tuple[str, str]:
    return directory.job_uid, directory.index
