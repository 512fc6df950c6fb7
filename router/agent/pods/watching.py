"""The Pods of the site, listed and watched, as records; and those on its Nodes that are none of its own.

Shell: what the watch brings is projected, and dropped.
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

    Also those of a queue that has left the policy: their jobs may still run.

    :param admit: the records among which a Pod belongs: those of its HPC user
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
        """Keep what is needed of a Pod; None where it is not one of ours."""
        found = view(pod)
        if not self._is_ours(found):
            return None
        record = self._holding(pod, found).add(outcomes.first(found))
        if record.facts.pod is found or record.saw(found):
            self._wake(found.uid)
        return found

    def _holding(self, pod: Json, found: PodView) -> Records:
        """The records of its user. What was found of it on the site before, among another's jobs, was not its own."""
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
        """A Pod is there no more. What may still run of it is not touched before that is sure."""
        if record.over:
            self._records.drop(record)
        elif record.missing is None and record.facts.pod.name:
            record.missing = time.time()
            log.info("missing", extra={"fields": {"pod": record.key, "uid": record.uid}})


def uids_of(api: Api, job_uid: str) -> set[str]:
    """The uids of a Job's Pods as the API server has them now, past all caches. ApiError."""
    query: dict[str, Any] = {"labelSelector": f"{names.CONTROLLER_UID}={job_uid}"}
    return {pod["metadata"]["uid"] for page, _ in api.pages(_PODS, **query) for pod in page}


def let_go(api: Api, site: str, queues: Iterable[str]) -> int:
    """End the Pods on a site's Nodes that nobody routed there and that are being deleted; how many. ApiError.

    Whoever names a Node in ``nodeName`` passes the scheduler, and without the site's labels no batch job is ever made of
    such a Pod: nothing runs, but the API server waits for somebody at the Node to say so. Pods of DaemonSets are answered
    for in ``router.agent.nodes.daemonsets``.
    """
    ended = 0
    for queue in queues:
        node = names.node_name(site, queue)
        # Together: whatever ``Pods`` does not take as its own.
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
    except (NotFound, Conflict):  # it went by itself, or another one has its name
        return False
    key = f"{metadata['namespace']}/{metadata['name']}"
    log.info("let go", extra={"fields": {"pod": key, "uid": metadata["uid"], "node": pod["spec"].get("nodeName")}})
    return True
