"""Keeps records of the site's Pods by list and watch, and ends deleted Pods on its Nodes that were never routed there.

Shell: from each Pod of the watch only a projection is kept.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from router import names
from router.agent.nodes.daemonsets import is_of_daemon_set
from router.agent.records import Record, Records, SiteRecords
from router.errors import Conflict, NotFound
from router.kube.client import Api, Json
from router.kube.watching import Watch
from router.pod.view import PodView, view
from router.reconcile import outcomes

log: Final = logging.getLogger("batchgate.agent")

_PODS: Final = "/api/v1/pods"


class Pods:
    """Keeps the records in step with the Pods that carry the site's label and are bound to its Nodes.

    Pods of a queue that has left the policy are kept too, as their jobs may still run.

    :param admit: the records that a Pod belongs to: those of its HPC user
    :param wake: called with the uid of each Pod that is new or has changed
    """

    def __init__(
        self,
        api: Api,
        site: str,
        records: SiteRecords,
        *,
        admit: Callable[[Json, PodView], Records],
        wake: Callable[[str], None],
    ) -> None:
        self._site = site
        self._records = records
        self._admit = admit
        self._wake = wake
        selector = {"labelSelector": f"{names.KEY_SITE}={site}"}
        self.watch = Watch(api, _PODS, self._on_list, self._on_change, selector)

    def _on_list(self, pods: Iterator[Json]) -> None:
        before = self._records.all()
        shown = {found.uid for pod in pods if (found := self.take(pod)) is not None}
        for record in before:
            if record.uid not in shown:
                self._missed(record)

    def _on_change(self, kind: str, pod: Json) -> None:
        if kind != "DELETED":
            self.take(pod)
        elif (record := self._records.get(pod["metadata"]["uid"])) is not None:
            self._missed(record)

    def take(self, pod: Json) -> PodView | None:
        """Keep the projection of a Pod and return it; None if the Pod belongs elsewhere."""
        found = view(pod)
        if not self._is_ours(found):
            return None
        record = self._holding(pod, found).add(outcomes.first(found))
        if record.facts.pod is found or record.saw(found):
            self._wake(found.uid)
        return found

    def _holding(self, pod: Json, found: PodView) -> Records:
        """The records of the Pod's user. A record found before on the site among another user's jobs is dropped."""
        holding = self._records.holding(found.uid)
        known = holding.get(found.uid) if holding is not None else None
        if holding is not None and known is not None and known.facts.pod.name:
            return holding
        right = self._admit(pod, found)
        if holding is not None and known is not None and holding is not right:
            holding.drop(known)
        return right

    def _is_ours(self, pod: PodView) -> bool:
        return bool(pod.queue) and pod.site == self._site and pod.node == names.node_name(self._site, pod.queue)

    def _missed(self, record: Record) -> None:
        """Mark a Pod as missing. Its jobs are left alone until that is confirmed."""
        if record.over:
            self._records.drop(record)
        elif record.missing is None and record.facts.pod.name:
            record.missing = time.time()
            log.info("missing", extra={"fields": {"pod": record.key, "uid": record.uid}})


def uids_of(api: Api, job_uid: str) -> set[str]:
    """The uids of a Job's Pods, read from the API server itself. Raises ApiError."""
    query: dict[str, Any] = {"labelSelector": f"{names.CONTROLLER_UID}={job_uid}"}
    return {pod["metadata"]["uid"] for page, _ in api.pages(_PODS, **query) for pod in page}


def let_go(api: Api, site: str, queues: Iterable[str]) -> int:
    """End Pods on a site's Nodes that were never routed there and are being deleted; returns how many. Raises ApiError.

    A Pod that names its Node in ``nodeName`` bypasses the scheduler. Without the site's labels it never becomes a batch
    job, but the API server waits for an answer from the Node before it deletes the Pod. For Pods of DaemonSets,
    ``router.agent.nodes.daemonsets`` answers.
    """
    ended = 0
    for queue in queues:
        node = names.node_name(site, queue)
        # Together these select all Pods that ``Pods`` ignores.
        for labels in (f"{names.KEY_SITE}!={site}", f"{names.KEY_SITE}={site},{names.KEY_QUEUE}!={queue}"):
            query: dict[str, Any] = {"fieldSelector": f"spec.nodeName={node}", "labelSelector": labels}
            for page, _ in api.pages(_PODS, **query):
                ended += sum([_ended(api, pod) for pod in page])
    return ended


def _ended(api: Api, pod: Json) -> bool:
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp") is None or is_of_daemon_set(pod):
        return False
    try:
        api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace=0, uid=metadata["uid"])
    except (NotFound, Conflict):  # the Pod went by itself, or another one has its name
        return False
    key = f"{metadata['namespace']}/{metadata['name']}"
    log.info("let go", extra={"fields": {"pod": key, "uid": metadata["uid"], "node": pod["spec"].get("nodeName")}})
    return True
