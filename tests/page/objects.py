"""A view of a small cluster, and the page over it without a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from router import names
from router.cli.cluster import Cluster
from router.kube.client import connect
from router.page import streams
from router.page.app import create_app
from router.page.guard import Key, guard
from router.page.models.looking import FailedCreation, Sight
from router.page.models.rows import row_of
from router.page.policysource import Policies
from router.pod.view import view
from tests.operating.objects import NOW, SITE, at, job, lease, node, over, pod, queues

HOSTILE = "<script>alert('x')</script>\"onload='y'"


def judged(name: str, *, rule: str = "large", requester: str = "ada", **fields: Any) -> dict[str, Any]:
    notes = {names.KEY_RULE: rule, names.KEY_REASON: f"rule {rule} says so", names.KEY_REQUESTER: requester}
    asked = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "main", "image": "busybox", "resources": asked}
    spec = {"parallelism": 3, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    return job(name, annotations=notes, spec=spec, **fields)


def ran(name: str, of: str, *, created: str, started: str, ended: str = "", code: int = 0) -> dict[str, Any]:
    """A Pod that runs, or has run."""
    state: dict[str, Any] = {"running": {"startedAt": at(started)}}
    if ended:
        state = {"terminated": {"exitCode": code, "startedAt": at(started), "finishedAt": at(ended)}}
    phase = "Running" if not ended else ("Failed" if code else "Succeeded")
    return pod(name, of=of, created=created, phase=phase, containerStatuses=[{"name": "main", "state": state}])


def pending(name: str, of: str, reason: str, message: str, created: str = "09:00:00") -> dict[str, Any]:
    return pod(name, of=of, created=created, reason=reason, message=message)


JOBS = (
    judged("done", created="08:00:00", status=over("Complete")),
    judged("mine", created="08:30:00", requester="ben"),
    judged("runs", created="09:10:00"),
    judged("small", rule="rest", site="", created="09:20:00", status={"ready": 1}),
    judged("stuck", created="09:30:00"),
    judged("poor", rule="rest", site="", created="09:40:00"),
)
PODS = (
    ran("done-1", "done", created="08:00:00", started="08:05:00", ended="08:30:00"),
    pending("mine-1", "mine", "Queued", "Resources; expected to start about 2026-01-01T11:00:00Z", "08:30:00"),
    ran("runs-1", "runs", created="09:10:00", started="09:20:00"),
    pending("stuck-1", "stuck", "Held", "by an operator", "09:30:00"),
)
QUOTA = FailedCreation("default", "poor", "job-poor", "exceeded quota: small", int(NOW) - 100)


def sight(**fields: Any) -> Sight:
    """The reader is ben."""
    labelled = node("batch", HPCUnavailable=("False", ""), SiteRefused=("False", "checked at 09:00: no problems"))
    labelled["metadata"]["labels"] = {names.LABEL_NODES: "8", names.LABEL_WALLTIME: "24h"}
    values: dict[str, Any] = {
        "now": NOW,
        "user": "ben",
        "queues": queues({"queue": "batch", "up": True, "freeNodes": 2, "queuedJobs": 5, "runningJobs": 4}),
        "nodes": (labelled,),
        "leases": {names.lease_name(SITE): lease("agent-1", at("09:59:55"))},
        "jobs": tuple(map(row_of, JOBS)),
        "pods": tuple(map(view, PODS)),
        "failed_creations": (QUOTA,),
        "read": NOW - 3,
    }
    return Sight(**(values | fields))


@dataclass
class Fixed:
    """In place of a reader: one view that does not change, and a cluster that does not answer."""

    shown: Sight
    cluster: Cluster
    asked: list[str] = field(default_factory=list)
    room: BoundedSemaphore = field(default_factory=streams.room)

    def sight(self) -> Sight:
        return self.shown

    def await_news(self, version: int, seconds: float) -> int:
        return version


KEY = Key("s3cret", "batchgate-test", "folder")


def silent_cluster(directory: Path) -> Cluster:
    """A cluster that nobody answers for."""
    file = directory / "kubeconfig"
    file.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    return Cluster(connect(str(file)), "default", named=False, system="batchgate-system")


def app_of(directory: Path, shown: Sight) -> Flask:
    found = Fixed(shown, silent_cluster(directory))
    return create_app(lambda: found, Policies(), lambda app: guard(app, KEY))  # type: ignore[arg-type, return-value]


def client_of(directory: Path, shown: Sight) -> FlaskClient:
    """A browser that has shown the secret."""
    client = app_of(directory, shown).test_client()
    client.set_cookie(KEY.cookie, KEY.secret, domain="localhost")
    return client
