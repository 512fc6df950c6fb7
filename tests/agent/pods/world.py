"""Reconciler over a cluster of dicts, with its tools in hand."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from router.agent.batch.reachability import Reachability
from router.agent.metrics import Metrics
from router.agent.pods.actions import Tools
from router.agent.pods.fencing import Fence
from router.agent.pods.reconciler import Deciding, Reconciler
from router.agent.pods.workqueue import Workqueue
from router.agent.records import Record, Records
from router.agent.submission.full_queues import FullQueues
from router.agent.submission.submitting import WrongUser
from router.background.backoff import BackOff
from router.host.local import LocalHost
from router.pod.layout import PodDirectory
from router.pod.view import view
from router.reconcile import outcomes
from router.reconcile.model import Terms


def raw(uid: str) -> dict[str, Any]:
    """A Pod as the API server has it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": f"job-{uid}", "controller": True}
    metadata = {"namespace": "ns", "name": uid, "uid": uid, "resourceVersion": "1", "ownerReferences": [owner]}
    spec = {"containers": [{"name": "main", "image": "busybox"}], "restartPolicy": "Never"}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


class World:
    """Reconciler over a cluster of dicts. A Pod named ``bad`` cannot even be looked at; all others are nobody's account."""

    def __init__(self, root: Path) -> None:
        self.pods = {uid: raw(uid) for uid in ("bad", "good", "other")}
        self.leads = True
        self.refusal = ""
        self.refused_profiles: dict[str, str] = {}
        self.trouble: OSError | None = None
        self.bringing: OSError | None = None
        """Why results cannot be brought."""
        self.brought: list[float] = []
        self.go = threading.Event()
        self.moments: Iterator[bool] = iter(())
        """Whether it leads, at the next few times that this is asked."""
        self.asked: list[str] = []
        self.prepared: list[str] = []
        self.told: list[tuple[str, str]] = []
        self.records = Records(lambda view: PodDirectory(str(root), view.job_uid, view.index, view.uid))
        self.queue = Workqueue()
        self.job_ids: list[str] = []
        self.finished: list[str] = []
        nothing = SimpleNamespace(ask=self.job_ids.extend, hurry=lambda: None, check=lambda: None)
        tools = SimpleNamespace(
            api=self,
            host=LocalHost(root),
            submitter=self,
            collector=self,
            observer=nothing,
            full=FullQueues(BackOff(first=5, longest=60)),
            metrics=Metrics(),
            tell_span=None,
            recorder=SimpleNamespace(tell=lambda about, kind, reason, words: self.told.append((about.name, reason))),
        )
        fence = SimpleNamespace(look=self._look, older=lambda record: (), disruptions=lambda record: 0)
        reach = Reachability(lambda words: None, BackOff(first=1, longest=1))
        deciding = Deciding(
            lambda pod: Terms(),
            reach,
            cast("Fence", fence),
            self._leading,
            lambda record: self.finished.append(record.uid),
            lambda profile: self.refusal or self.refused_profiles.get(profile, ""),
            lambda queue: None,
        )
        self.reconciler = Reconciler(self.queue, self.records, cast("Tools", tools), deciding, submitters=2)
        self.metrics = tools.metrics

    def _leading(self) -> bool:
        return next(self.moments, self.leads)

    def _look(self, record: Record) -> tuple[str, ...]:
        self.asked.append(record.uid)
        if record.uid == "bad":
            raise ZeroDivisionError("a bug that nobody foresaw")
        if record.uid.startswith("held"):
            self.go.wait(60)
        if record.uid == "other" and self.trouble is not None:
            raise self.trouble
        return ()

    def prepare(self, pod: Any, *, fresh: bool) -> None:
        self.prepared.append(pod.name)
        if pod.name.startswith("slow"):
            self.go.wait(600)
        raise WrongUser(f"the account of {pod.name} is somebody else's")

    def collect(self, record: Record) -> None:
        self.brought.append(time.monotonic())
        if self.bringing is not None:
            raise self.bringing

    def patch(self, path: str, body: dict[str, Any], kind: str = "") -> dict[str, Any]:
        uid = path.split("/")[6]
        pod: dict[str, Any] = json.loads(json.dumps(self.pods[uid]))
        pod["status"] |= body.get("status", {})
        pod["metadata"]["resourceVersion"] = str(int(pod["metadata"]["resourceVersion"]) + 1)
        self.pods[uid] = pod
        return pod

    def hold(self, uid: str) -> str:
        """One more Pod: whoever plans for it is held up, as by a file server that hangs, until ``go``."""
        self.pods[uid] = raw(uid)
        return uid

    def end(self, seconds: float) -> bool:
        """End the reconciler; returns whether the work under way was finished within ``seconds``."""
        self.reconciler.stop()
        return self.reconciler.await_end(time.monotonic() + seconds)

    def add(self, uid: str) -> Record:
        record = self.records.add(outcomes.first(view(self.pods[uid])))
        self.queue.wake(uid)
        return record
