"""Cancels batch jobs whose Pods are gone, after confirming that.

Shell around ``router.reconcile.strays``. A record counts as missing once the API server stops showing its Pod, or once
a job of this cluster without a Pod is found. A job is cancelled only after further proof.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from router import names
from router.agent.records import Record, Records, SiteRecords
from router.kube.client import Api, Json
from router.reconcile.strays import Stray, reaping

log: Final = logging.getLogger("batchgate.agent")

_CONFIRMED: Final = 300.0
"""Seconds for which the API server's answer that a Pod is gone counts."""


class Strays:
    """The strays of one site.

    :param patience: seconds that a job is without a Pod before it is cancelled
    :param take: called with a Pod that exists after all, as if the watch had shown it; None if it is another site's
    :param wake: called with the uid of each Pod for which there is something to do
    :param limit: called with words when too many jobs are due and a person must look, and with an empty text once that
        is over
    """

    def __init__(
        self,
        api: Api,
        records: Records | SiteRecords,
        *,
        patience: float,
        take: Callable[[Json], object],
        wake: Callable[[str], None],
        limit: Callable[[str], None],
    ) -> None:
        self._api = api
        self._records = records
        self._patience = patience
        self._take = take
        self._wake = wake
        self._limit = limit
        self._too_many = ""
        self._confirmed: dict[str, float] = {}

    def look(self) -> int:
        """Look at all missing Pods; returns for how many the jobs are now to be cancelled. Raises ApiError."""
        now = time.time()
        users = self._records.by_user()
        owners = {record.uid: user for user, records in users.items() for record in records}
        everything = [record for records in users.values() for record in records]
        missing = {record.uid: record for record in everything if record.missing is not None}
        for record in [one for one in missing.values() if one.over]:  # the Pod went while its end was being written
            self._records.drop(missing.pop(record.uid))
        self._confirmed = {uid: when for uid, when in self._confirmed.items() if now - when < _CONFIRMED}
        ours = {user: _living(records) for user, records in users.items()}
        found = reaping(self._strays(missing, owners), ours, now, patience=self._patience)
        if found.confirm:
            for uid in found.confirm:
                self._ask_for(missing[uid], now)
            missing = {uid: record for uid, record in missing.items() if record.missing is not None}
            found = reaping(self._strays(missing, owners), ours, now, patience=self._patience)
        if found.too_many != self._too_many:
            self._too_many = found.too_many
            self._limit(found.too_many)
        for uid in found.reap:
            self._end(missing[uid])
        return len(found.reap)

    def _strays(self, missing: Mapping[str, Record], owners: Mapping[str, str]) -> list[Stray]:
        return [
            Stray(uid, record.missing or 0.0, uid in self._confirmed, owners[uid], self._is_awaited(record))
            for uid, record in missing.items()
        ]

    def _is_awaited(self, record: Record) -> bool:
        """Whether a Pod waits at the fence for this one to end, which proves that this one was replaced."""
        return any(one.missing is None and one.facts.older for one in self._records.siblings(record))

    def _ask_for(self, record: Record, now: float) -> None:
        """Ask the API server itself, not the watch, for one Pod."""
        for pod in self._pods_like(record):
            if pod["metadata"]["uid"] == record.uid:
                log.warning("a missing Pod exists after all", extra={"fields": {"pod": record.key, "uid": record.uid}})
                if self._take(pod) is None:
                    self._records.drop(record)
                return
        self._confirmed[record.uid] = now

    def _pods_like(self, record: Record) -> list[dict[str, Any]]:
        """The Pod with the record's name; if its namespace is unknown, all Pods that it could be."""
        if record.namespace:
            found = self._api.find(f"/api/v1/namespaces/{record.namespace}/pods/{record.name}")
            return [] if found is None else [found]
        query: dict[str, Any] = {"labelSelector": f"{names.CONTROLLER_UID}={record.directory.job_uid}"}
        if not record.directory.job_uid:
            query = {"fieldSelector": f"metadata.name={record.name}"}
        return [pod for page, _ in self._api.pages("/api/v1/pods", **query) for pod in page]

    def _end(self, record: Record) -> None:
        jobs = [job.job_id for job in record.facts.jobs]
        log.info("reaped", extra={"fields": {"pod": record.key, "uid": record.uid, "jobs": jobs}})
        record.depart()
        self._wake(record.uid)


def _living(records: Iterable[Record]) -> int:
    return sum(not job.finished for record in records for job in record.facts.jobs)
