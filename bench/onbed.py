"""Runs benchmarks on the bed's Slurm with the control plane, webhook and agent of its tests, and default times.

All Jobs are one user's and go to one queue. The control plane's controllers may, if asked, send more requests a second than in a
default cluster (20), as in ``bench.whole``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed.layout import USERS
from bench.siteloop import Done, Wanted
from bench.whole import LABEL, PODS, demand, run, scraped
from router.controlplane import building
from router.errors import ConfigError
from router.hpc import Submission, cluster_id, job_name, slurm
from router.kube.client import Api, connect
from router.pod import layout
from tests.agent.bed import conftest
from tests.agent.bed.site import ADA, LAYOUT, LOCAL_SUDO, QUEUE, SITE, SUDO, BedSite, as_user, obstacle

ROOT = Path(__file__).parent.parent
WAYS = {LOCAL_SUDO: "on the login node", SUDO: "over ssh"}
"""The agent's ways to the users, both with sudo on the login node, and their names in a report."""
CPUS = 2
"""CPUs from which on the policy sends a Job to HPC."""
ASKING = ("list", "details", "find")
"""Kinds of commands that only ask about jobs."""
_AT_ONCE = 200
"""Most jobs of one cancel command."""
_OTHER = "0" * 8
"""The cluster of the loop's jobs, which the agent ignores."""


@dataclass(frozen=True)
class OnBed:
    """The objects of a benchmark. ``api`` acts as a user who may edit the namespace."""

    stack: conftest.Stack
    api: Api
    cluster: str

    @property
    def root(self) -> Path:
        """The directory of our Jobs on the site."""
        return self.directory(self.cluster)

    def directory(self, cluster: str, user: str = ADA) -> Path:
        """The directory for Jobs of any cluster and user; the agent ignores jobs of other clusters."""
        return Path(layout.site_directory(str(LAYOUT.work / "{user}"), user, SITE, cluster))

    def pods(self) -> dict[str, layout.PodDirectory]:
        """The Pods' directories by the names of their Jobs; each Job has one Pod."""
        found = {}
        for page, _ in self.api.pages(PODS, labelSelector=LABEL):
            for metadata in (pod["metadata"] for pod in page):
                job_uid = metadata["ownerReferences"][0]["uid"]
                directory = layout.PodDirectory(str(self.root), job_uid, layout.NO_INDEX, metadata["uid"])
                found[metadata["labels"][LABEL]] = directory
        return found

    def metric(self, name: str, **labels: str) -> float:
        """A present metric of the agent; 0 if it is missing or the agent is silent."""
        address = self.stack.agent.logged("metrics")[-1]["address"]
        return scraped(str(address), f"batchgate_agent_{name}", **labels)

    def asked(self) -> Asked:
        """The questions to the batch system so far."""
        return Asked(
            sum(self.metric("commands_total", kind=kind) for kind in ASKING), self.metric("cycle_seconds_count")
        )

    def forget(self) -> None:
        """Cancel all submitted jobs and remove their files; the agent must have ended."""
        ids = [path.read_text().strip() for path in self.root.glob(f"{layout.PODS}/*/*/*/{layout.JOB_ID}")]
        cancel(ids)
        run(["rm", "-rf", *(str(self.directory(self.cluster, user)) for user in USERS)])


@dataclass(frozen=True)
class Asked:
    """Status commands since the agent's start, and the cycles in which it looked at the batch system."""

    commands: float
    cycles: float

    def a_cycle_since(self, earlier: Asked) -> float:
        """Commands for each cycle since then."""
        return (self.commands - earlier.commands) / max(1.0, self.cycles - earlier.cycles)


@dataclass(frozen=True)
class Loops:
    """Jobs a second of the loop, and of the submit command alone."""

    whole: float
    bare: float


def demand_standing() -> None:
    """See ``demand``: the bed must be up."""
    demand(obstacle())


@contextmanager
def on_bed(
    way: str, *, raised_limits: bool = True, kind: type[BedSite] = BedSite, plain_node: bool = True, **more: Any
) -> Iterator[OnBed]:
    """Start everything, and end it with the block. If that fails, the program ends with the reason.

    :param raised_limits: see ``Options``
    :param kind: whose policy it is
    :param plain_node: see ``Surroundings``
    :param more: of the site, see ``BedSite``
    """
    try:
        building.ensure(lambda words: print(words, file=sys.stderr))
        with (
            tempfile.TemporaryDirectory(prefix="bg-bench-") as name,
            conftest.founded(Path(name), raised_limits=raised_limits, plain_node=plain_node) as cluster,
            conftest.reached(cluster, way, times={}, kind=kind, **more) as stack,
        ):
            system = connect(str(cluster.plane.kubeconfig())).get("/api/v1/namespaces/kube-system")
            person = connect(str(cluster.plane.kubeconfig("ada")))
            found = OnBed(stack, person, cluster_id(system["metadata"]["uid"]))
            try:
                yield found
            finally:
                stack.agent.kill()
                found.forget()
    except ConfigError as error:
        raise SystemExit(f"Error: {error}") from error


@contextmanager
def starting_nothing() -> Iterator[None]:
    """Let the queue accept jobs without starting them, within the block."""
    run(["scontrol", "update", f"PartitionName={QUEUE}", "State=DOWN"])
    try:
        yield
    finally:
        run(["scontrol", "update", f"PartitionName={QUEUE}", "State=UP"])


def cancel(ids: Sequence[str]) -> None:
    """End jobs; ended ones are ignored."""
    for first in range(0, len(ids), _AT_ONCE):
        subprocess.run(["scancel", *ids[first : first + _AT_ONCE]], capture_output=True, check=False)


def loops(bed: OnBed, files: Mapping[str, str], count: int) -> Loops:
    """Both rates of a loop over ``count`` jobs with these files; its jobs and files are removed."""
    root, site = bed.directory(_OTHER), bed.stack.site
    wanted = Wanted(str(site.policy), SITE, ADA, str(root), _OTHER, count, files)
    try:
        done = Done(**json.loads(as_the_agent(site, ["-m", "bench.siteloop"], wanted.text())))
        cancel(done.ids)
        last = Path(done.last)
        return Loops(count / done.seconds, bare_rate(last, last / "script", count))
    finally:
        run(["rm", "-rf", str(root)])


def bare_rate(directory: Path, script: Path, count: int) -> float:
    """Submissions a second of a shell's loop as the user; its jobs are then cancelled."""
    submission = Submission(job_name("bare", "0" * 8, "0", slurm.NAME_LIMIT), str(script), str(directory), "/dev/null")
    loop = [
        "bash",
        "-c",
        'for ((n = 0; n < $0; n++)); do "$@" || exit; done',
        str(count),
        *slurm.submit_argv(submission),
    ]
    begun = time.monotonic()
    said = run([*as_user(ADA), *loop])
    seconds = time.monotonic() - begun
    cancel(said.split())
    return count / seconds


def as_the_agent(site: BedSite, argv: Sequence[str], stdin: str) -> str:
    """Run a program of this checkout as the agent's user; returns its output."""
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(site.home), "PYTHONPATH": str(ROOT)}
    words = [f"{name}={value}" for name, value in variables.items()]
    return run(["env", "-i", *words, *as_user(site.user), sys.executable, *argv], stdin)
