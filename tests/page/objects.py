"""A view of a small cluster, and the page over it without a cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Flask
from flask.testing import FlaskClient

from router import names
from router.cli.cluster import Cluster
from router.errors import ApiError, NotFound
from router.kube.client import Api, Json, connect
from router.operating.creations import FailedCreation
from router.page import streams
from router.page.app import create_app
from router.page.guard import Key, guard
from router.page.jobobjects import Looks
from router.page.models.decisions import Decided
from router.page.models.logged import Entry
from router.page.models.looking import Sight
from router.page.models.rows import row_of
from router.page.policysource import Policies
from router.pod.view import view
from tests.operating.objects import NOW, SITE, at, event, job, lease, node, over, pod, queues

ASKED = {"cpu": "4", "memory": "8Gi"}
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


def _placed(namespace: str, name: str) -> dict[str, Any]:
    found = judged(name, created="09:30:00")
    found["metadata"] |= {"namespace": namespace, "uid": f"job-{namespace}/{name}"}
    return found


PAIR = (_placed("team-a", "fit"), _placed("team", "a-fit"))
"""Two Jobs whose namespace and name, with a hyphen between them, are the same text."""
QUOTA = FailedCreation("default", "poor", "job-poor", "exceeded quota: small", int(NOW) - 100)


SCRIPT = """\
#PBS -l select=1:ncpus=4:mem=8gb
#PBS -l walltime=04:00:00
container=main
run_container 'python train.py --epochs 40'
"""


def told_job() -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """A Job of four Pods that each went another way, with these and with Events: one of everything that is shown."""
    made = judged("train", created="08:30:00", status={"startTime": at("08:30:00"), "ready": 1})
    made["metadata"]["annotations"] |= {
        names.KEY_ACCOUNT: '{"user": "ada", "account": "physics"}',
        names.KEY_SCRIPT: SCRIPT,
    }
    container = {"name": "main", "image": "registry.example/train:4", "resources": {"requests": ASKED, "limits": ASKED}}
    spec = {"restartPolicy": "Never", "activeDeadlineSeconds": 4 * 3600, "containers": [container]}
    made["spec"] = {"completions": 4, "parallelism": 4, "backoffLimit": 2, "completionMode": "Indexed"}
    made["spec"]["template"] = {"spec": spec}
    pods = [
        ran("train-0", "train", created="08:30:00", started="08:42:00", ended="09:31:00"),
        ran("train-1", "train", created="08:30:00", started="08:55:00", ended="09:10:00", code=137),
        ran("train-2", "train", created="08:30:00", started="09:12:00"),
        pending("train-3", "train", "Queued", "Resources (2 jobs before it); expected to start about 2026-01-01T11:00:00Z", "08:30:00"),
    ]  # fmt: skip
    used = '{"mem": "7340032kb", "cput": "02:56:00", "walltime": "00:49:00"}'
    for number, one in enumerate(pods):
        one["metadata"]["annotations"] = {
            names.COMPLETION_INDEX: str(number),
            names.KEY_JOB_ID: f"{417 + number}.hpc",
            **({names.KEY_EXIT: "0", names.KEY_RESOURCES_USED: used} if number == 0 else {}),
        }
    events = [
        *(event(one, "Submitted", f"Batch job {417 + number}.hpc", "08:31:00") for number, one in enumerate(pods)),
        {**event(pods[1], "Killed", "memory: 8 GiB were asked for", "09:10:00"), "type": "Warning"},
        event(pods[0], "ResultsBrought", "3 files, 41 MiB, in /results/train-0", "09:32:00"),
    ]
    for number, one in enumerate(events):
        one["metadata"] = {"uid": f"event-{number}"}
        one["count"] = 1
    return [made], pods, events


def hostile_job(text: str = HOSTILE) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """A Job whose every text is hostile, each with a word of its own. Its name is one that an API server would take."""

    def bad(word: str) -> str:
        return f"{text}-{word}"

    made = judged("hostile", rule=bad("rule"), requester=bad("requester"), status=over("Failed", bad("condition"), ""))
    made["metadata"]["annotations"] |= {
        names.KEY_REASON: bad("reason"),
        names.KEY_SCRIPT: bad("script"),
        names.KEY_ACCOUNT: json.dumps({"user": bad("account"), "project": bad("account")}),
    }
    containers = made["spec"]["template"]["spec"]["containers"]
    containers[0] |= {"name": bad("container"), "image": bad("image")}
    failed = ran(bad("pod"), "hostile", created="09:00:00", started="09:05:00", ended="09:06:00", code=3)
    failed["status"] |= {"reason": bad("why")}
    failed["metadata"]["annotations"] = {
        names.KEY_JOB_ID: bad("batch"),
        names.KEY_RESOURCES_USED: json.dumps({bad("used"): bad("used"), "mem": bad("used")}),
    }
    (container,) = failed["status"]["containerStatuses"]
    container["name"] = bad("container")
    container["state"]["terminated"] |= {"reason": bad("ended"), "message": bad("ended")}
    about = event(failed, bad("event"), bad("told"), "09:07:00") | {"metadata": {"uid": "event-1"}}
    return made, [failed], [about]


def _logged(rule: str, place: str, *, age: int, count: int, audited: tuple[tuple[str, str], ...] = ()) -> list[Entry]:
    decision = Decided(int(NOW) - age, rule, place, "ada", f"rule {rule} says so", "default", f"{rule}-1")
    return [Entry(decision, counts=True, audited=audited)] * count


LOGGED = (
    *_logged("large", "demo/batch", age=7200, count=31, audited=(("cheaper", "demo/night"),)),
    *_logged("rest", "cloud", age=3600, count=118),
    *_logged("none", "deny", age=900, count=2),
)
"""Decisions of a log."""


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
    room: streams.Room = field(default_factory=streams.Room)
    refused: bool = False

    def __post_init__(self) -> None:
        self.looks = Looks(self.cluster, self.room.readings)

    def sight(self) -> Sight:
        return self.shown

    def await_news(self, version: int, seconds: float) -> int:
        return version


class Shown:
    """In place of a reader: a view that a test changes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.room = streams.Room()
        self.looks = Looks(cluster, self.room.readings)
        self.refused = False
        self._news = threading.Condition()
        self._version = 0
        self._sight = sight()

    def sight(self) -> Sight:
        return self._sight

    def show(self, shown: Sight) -> None:
        with self._news:
            self._sight = shown
            self._version += 1
            self._news.notify_all()

    def await_news(self, version: int, seconds: float) -> int:
        with self._news:
            self._news.wait_for(lambda: self._version != version, seconds)
            return self._version


KEY = Key("s3cret", "batchgate-test", "folder")


def silent_cluster(directory: Path) -> Cluster:
    """A cluster that nobody answers for."""
    file = directory / "kubeconfig"
    file.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: u, user: {token: t}}]}"
    )
    return Cluster(connect(str(file)), "default", named=False, system="batchgate-system")


class Told(Api):
    """An API server that has these objects and lists, by path. ``refused``: paths that the caller may not read."""

    def __init__(self, objects: Mapping[str, Json], *refused: str, who: Mapping[str, Any] | None = None) -> None:
        self.objects, self.refused, self.who = objects, refused, who or {}
        self.asked: list[str] = []

    def get(self, path: str, seconds: float = 30, **query: object) -> Json:
        self.asked.append(path)
        if path in self.refused:
            raise ApiError(403, "Forbidden", f"no right to {path}", path)
        if path not in self.objects:
            raise NotFound(404, "NotFound", "not found", path)
        return self.objects[path]

    def create(self, path: str, body: Json, seconds: float = 30, **query: object) -> Json:
        return {"status": {"userInfo": self.who}}

    def pages(
        self, path: str, left: Callable[[int | None], None] = lambda _: None, /, *, limit: int = 500, **query: object
    ) -> Iterator[tuple[list[Json], str]]:
        self.asked.append(path)
        if path in self.refused:
            raise ApiError(403, "Forbidden", f"no right to {path}", path)
        yield self.objects.get(path, {}).get("items", []), ""


def app_of(directory: Path, shown: Sight, cluster: Cluster | None = None) -> Flask:
    """By default over a cluster that nobody answers for."""
    found = Fixed(shown, cluster or silent_cluster(directory))
    return create_app(lambda: found, Policies(), lambda app: guard(app, KEY))  # type: ignore[arg-type, return-value]


def client_of(directory: Path, shown: Sight, cluster: Cluster | None = None) -> FlaskClient:
    """A browser that has shown the secret."""
    client = app_of(directory, shown, cluster).test_client()
    client.set_cookie(KEY.cookie, KEY.secret, domain="localhost")
    return client
