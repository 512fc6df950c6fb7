"""The site of these tests: an embedded queue of their own, its policy, and eyes that no fault of it blinds."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from router.local.records import ACTIVE, FINISHED, Job, job_of
from tests.agent.whole.jobs import BUSY, Runs

SITE = "whole"
BOXED = "boxed"
"""A second site with a queue of its own: real containers, to which Secrets are brought. Few tests start its agent."""
WIDE, NARROW = "wide", "narrow"
"""Two queues: one with room for eight small jobs at once, one with a single place."""
WATCHED = "watched"
"""Jobs whose names begin so meet an audit rule, which changes nothing."""
POOL = "cloud.google.com/gke-nodepool"
"""A key of node labels that means nothing on the site."""
ROUTE_NARROW = "narrow"
"""Jobs with this label ``queue`` go to the narrow queue."""
USER, STRANGER, SHARED = "ada", "ben", "research"
"""Who has an account on the site, who has none, and a namespace that has one for all who may edit it."""


_SEES = {"BATCHGATE_LOCAL_FAULTS": "ignore"}


@dataclass(frozen=True)
class Site:
    """Where things lie. ``root`` has a short path: it holds a unix socket."""

    root: Path

    @property
    def queue(self) -> Path:
        """$BATCHGATE_LOCAL."""
        return self.root / "queue"

    @property
    def work(self) -> Path:
        """The site's work directory."""
        return self.root / "site"

    @property
    def results(self) -> Path:
        return self.root / "results"

    @property
    def policy(self) -> Path:
        return self.root / "policy"

    @property
    def image(self) -> Path:
        """The directory that is every image of the second site."""
        return self.root / "image"

    @property
    def faults(self) -> Path:
        """What ``tests.agent.whole.unreliable`` is to do with the next submissions."""
        return self.root / "faults"

    @property
    def runs(self) -> Runs:
        return Runs(self.root / "runs")

    def make(self) -> None:
        """The directories, the policy, and the queues."""
        for directory in (self.work, self.results, self.policy, self.faults, self.runs.directory):
            directory.mkdir(parents=True, exist_ok=True)
        for name, document in _policy(self.work).items():
            (self.policy / name).write_text(yaml.safe_dump(document, sort_keys=False))
        self._define()

    def environment(self) -> dict[str, str]:
        """For programs that are to meet the queue as it is at the moment, faults and all."""
        return {"PATH": os.environ["PATH"], "BATCHGATE_LOCAL": str(self.queue), "TMPDIR": str(self.root)}

    def local(self, *words: str, stdin: str = "") -> str:
        """What one command of the embedded queue prints; it must succeed, whatever faults there are for others."""
        done = subprocess.run(
            [sys.executable, "-m", "router.local", *words], env=self.environment() | _SEES, input=stdin, capture_output=True,
            text=True, timeout=60, check=False, cwd=self.root,
        )  # fmt: skip
        assert done.returncode == 0, f"{words}: {done}"
        return done.stdout

    def jobs(self) -> list[Job]:
        """Every job that the queue's files know, also while its commands are switched to answer otherwise.

        The files are only read: a directory without a record is that of a submission that is under way.
        """
        found = []
        for path in (self.queue / "jobs").glob("*/job.json"):
            with contextlib.suppress(FileNotFoundError):  # of a job that is forgotten meanwhile
                found.append(job_of(json.loads(path.read_bytes())))
        return sorted(found, key=lambda job: job.seq)

    def boxed(self) -> Site:
        """The second site, as far as its queue and its files are concerned."""
        return Site(self.root / "x")

    def of(self, name: str) -> list[Job]:
        """The batch jobs of a Kubernetes Job's Pods."""
        return [job for job in self.jobs() if job.name.startswith(f"{name}-")]

    def living(self, name: str = "") -> list[Job]:
        """Those that are queued, held or running; of all Jobs, or of one."""
        return [job for job in (self.of(name) if name else self.jobs()) if job.state != FINISHED]

    def active(self, name: str) -> list[Job]:
        """Those that hold slots."""
        return [job for job in self.of(name) if job.state in ACTIVE]

    @contextlib.contextmanager
    def faulty(self, *words: str) -> Iterator[None]:
        """Switches of ``batchgate local faults`` for a while: ``unreachable=on``."""
        self.local("faults", *words)
        try:
            yield
        finally:
            self.local("faults", "none")

    @contextlib.contextmanager
    def limited(self, queue: str, jobs: int) -> Iterator[None]:
        """No more than so many jobs in a queue, for a while."""
        self._define(queue, {"maxQueued": jobs})
        try:
            yield
        finally:
            self._define()

    @contextlib.contextmanager
    def short(self, queue: str, seconds: int) -> Iterator[None]:
        """No jobs that ask for more time than this in a queue, for a while: others are refused for good."""
        self._define(queue, {"walltimeMax": seconds})
        try:
            yield
        finally:
            self._define()

    def make_boxed(self) -> None:
        """The second site's directory and queue."""
        for directory in (self.work, self.faults):
            directory.mkdir(parents=True, exist_ok=True)
        queue = {"name": BOXED, "site": BOXED, "nodes": 1, "cpusPerNode": 4, "memory": "2gb", "walltimeMax": 3600}
        self.local("queues", "--define", "-", stdin=json.dumps({"queues": [queue], "killDelay": 1, "idleSeconds": 600}))

    def _define(self, limited: str = "", limits: dict[str, Any] | None = None) -> None:
        queues = [{**one, **(limits or {} if one["name"] == limited else {})} for one in _QUEUES]
        self.local("queues", "--define", "-", stdin=json.dumps({"queues": queues, "killDelay": 1, "idleSeconds": 600}))

    def stop(self) -> None:
        self.local("stop", "--delete")


_QUEUES: list[dict[str, Any]] = [
    {"name": WIDE, "site": SITE, "nodes": 4, "cpusPerNode": 4, "memory": "4gb", "walltimeMax": 3600},
    {"name": NARROW, "site": SITE, "nodes": 1, "cpusPerNode": BUSY, "memory": "1gb", "walltimeMax": 3600},
]


def _policy(work: Path) -> dict[str, Any]:
    me = {"site": "*", "as": getpass.getuser()}  # the embedded queue runs jobs as whoever started it
    queue = {"nodes": 1, "walltimeDefault": "10m", "walltimeMax": "1h"}
    site = {
        "name": SITE,
        "system": "local",
        "workDir": str(work),
        "resultsDir": str(work.parent / "results"),
        "runtime": "host",
        "exec": True,
        "margin": 5,
        "fsDelay": 2,
        "ignoreNodeLabels": [POOL],
        "ignorePrivileged": ["*"],
        "resources": [{"match": "example.com/*", "ignore": True}],
        "volumes": [{kind: "*", "path": str(work.parent)} for kind in ("claim", "csi", "image")],
        "queues": [
            {
                "name": WIDE,
                **queue,
                "nodes": 4,
                "cpusPerNode": 4,
                "memoryPerNode": "4Gi",
                "nodeLabels": {"disk": "ssd"},
            },
            {"name": NARROW, **queue, "cpusPerNode": BUSY, "memoryPerNode": "1Gi"},
        ],
    }
    boxed = {
        "name": BOXED,
        "system": "local",
        "workDir": str(work.parent / "x" / "site"),
        "runtimeOptions": ["--userns"],
        "images": [{"match": "*", "path": str(work.parent / "image")}],
        "margin": 5,
        "fsDelay": 2,
        "secrets": "stage",
        "tokens": "stage",
        "apiServer": "https://kubernetes.example.org:6443",
        "queues": [{"name": BOXED, **queue, "cpusPerNode": 4, "memoryPerNode": "2Gi"}],
    }
    controllers = ["system:serviceaccount:kube-system:cronjob-controller", "system:kube-controller-manager"]
    accounts: list[dict[str, Any]] = [
        {"users": controllers, "controller": True},
        {"users": [USER], **me},
        {"namespaces": [SHARED], "shared": True, **me},
    ]
    narrow = f"job.cpus >= {BUSY} && 'queue' in job.labels && job.labels['queue'] == '{ROUTE_NARROW}'"
    rules: list[dict[str, Any]] = [
        {"name": WATCHED, "when": f"job.name.startsWith('{WATCHED}-')", "mode": "audit", "cloud": True},
        {"name": BOXED, "when": f"'{BOXED}' in job.labels", "hpc": [{"site": BOXED, "queue": BOXED}]},
        {"name": "narrow", "when": narrow, "hpc": [{"queue": NARROW}]},
        {"name": "busy", "when": f"job.cpus >= {BUSY}", "hpc": [{"queue": WIDE}]},
        {"name": "rest", "cloud": True},
    ]
    return {
        "10-sites.yaml": {"sites": [site, boxed]},
        "20-accounts.yaml": {"accounts": accounts},
        "30-rules.yaml": {"rules": rules},
    }
