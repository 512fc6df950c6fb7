"""Holds a Pod back while batch jobs of older Pods in its place may still run: the part that needs files and the API.

Shell around ``router.reconcile.fence``. Gone Pods leave their directories, which lie beside those of the Pods that have
replaced them.
"""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from typing import Final

from router.agent.records import Record, Records
from router.host import Host
from router.kube.client import Api
from router.pod import layout
from router.pod.layout import NO_INDEX
from router.pod.view import departed
from router.reconcile.fence import excused, in_the_way, rival

_JOB_SECONDS: Final = 30.0
"""How long a Job's parallelism is used before it is read again."""


class Fence:
    """The fence over the Pods of one site.

    :param root: this cluster's directory on the site
    """

    def __init__(self, api: Api, host: Host, records: Records, root: str) -> None:
        self._api = api
        self._host = host
        self._records = records
        self._pods = PurePosixPath(root, layout.PODS)
        self._parallelism: dict[str, tuple[float, int]] = {}

    def look(self, record: Record) -> tuple[str, ...]:
        """Add records for directories beside a Pod's that belong to no known Pod; returns their uids. Raises OSError.

        These Pods count as missing from now on. Pods that are remembered as over are left out.
        """
        directory = record.directory
        listed = self._host.names(self._pods / directory.job_uid / directory.index)
        there = [uid for uid in listed if not uid.startswith(".") and not self._records.has_ended(uid)]
        unknown = tuple(uid for uid in there if self._records.get(uid) is None)
        for uid in there:
            left = departed(uid=uid, job_uid=directory.job_uid, index=directory.index)
            self._records.found(left, time.time())
        return unknown

    def older(self, record: Record) -> tuple[str, ...]:
        """The reasons why a Pod must wait for older Pods, in words. Raises ApiError."""
        pod = record.facts.pod
        if not pod.name or record.facts.jobs:
            return ()
        siblings = self._records.siblings(record)
        rivals = [found for one in siblings if (found := rival(one.facts, over=one.over)) is not None]
        words = in_the_way(pod, rivals, parallelism=1)
        if not words or pod.index != NO_INDEX:
            return words
        return in_the_way(pod, rivals, parallelism=self._parallelism_of(record))

    def disruptions(self, record: Record) -> int:
        """How many Pods of the same Job and index were already lost through disruptions that count as no failure."""
        return excused([one.facts.pod for one in self._records.siblings(record)])

    def _parallelism_of(self, record: Record) -> int:
        pod, now = record.facts.pod, time.monotonic()
        known = self._parallelism.get(pod.job_uid)
        if known is None or now - known[0] > _JOB_SECONDS:
            job = self._api.find(f"/apis/batch/v1/namespaces/{pod.namespace}/jobs/{pod.job}")
            found = ((job or {}).get("spec") or {}).get("parallelism")
            known = (now, found if isinstance(found, int) else 1)
            self._parallelism = {uid: one for uid, one in self._parallelism.items() if now - one[0] <= _JOB_SECONDS}
            self._parallelism[pod.job_uid] = known
        return known[1]
