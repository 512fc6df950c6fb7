"""Two clusters in front of one site, with Jobs of the same names for the same users: neither touches the other's."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from router.hpc import cluster_id
from tests.agent.bed.conftest import NAMESPACE, Cluster, Stack, founded, reached
from tests.agent.bed.jobs import SECONDS, apply, job_id, pod_of, printed
from tests.agent.bed.site import ADA, BEN, LAYOUT, SITE, SUDO, slurm
from tests.agent.bed.tally import await_empty, await_ends, counted, let_go, lines, told, twice, waiting
from tests.agent.whole.jobs import LABEL
from tests.agent.whole.kubectl import Kubectl
from tests.agent.whole.waiting import stays, until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1800)]
LONGER = 35.0
"""Seconds in which an agent would cancel what it took for a job of its own without a Pod: ``--orphan-seconds`` is 20."""


@dataclass(frozen=True)
class Side:
    """One of the two clusters."""

    stack: Stack
    cluster: str

    def people(self) -> dict[str, Kubectl]:
        """Who applies Jobs, by the HPC user."""
        return {ADA: self.stack.ada, BEN: self.stack.ben}

    def pods(self, who: Kubectl, name: str) -> dict[str, dict[str, Any]]:
        """The Pods of a Job of this cluster by uid."""
        return {one["metadata"]["uid"]: one for one in who.every("pods", f"{LABEL}={name}")}

    def root(self, user: str) -> Path:
        """This cluster's directory of a user's."""
        return LAYOUT.work / user / f"{SITE}.{self.cluster}"

    def kept(self, user: str) -> set[str]:
        """The uids of the Pods that have a directory, or a note, of this cluster."""
        notes = {path.name.partition(".")[0] for path in (self.root(user) / "spool").iterdir()}
        return {path.name for path in self.root(user).glob("pods/*/*/*")} | notes


@dataclass(frozen=True)
class Two:
    """The two clusters, and where the agents of both bring results to."""

    here: Side
    there: Side
    brought: Path

    def sides(self) -> tuple[Side, Side]:
        return self.here, self.there


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    # The agents' user must be able to come to it.
    with tempfile.TemporaryDirectory(prefix="bg-", ignore_cleanup_errors=True) as root:
        Path(root).chmod(0o711)
        brought = Path(root) / "results"
        with (
            founded(tmp_path_factory.mktemp("other")) as other,
            reached(cluster, SUDO, brought=brought) as here,
            reached(other, SUDO, brought=brought) as there,
        ):
            yield Two(_side(here), _side(there), brought)


def _side(stack: Stack) -> Side:
    found = stack.admin.get("namespace", "kube-system")
    assert found is not None
    return Side(stack, cluster_id(found["metadata"]["uid"]))


def states(side: Side, name: str) -> dict[str, str]:
    """The batch jobs of a Job of this cluster that Slurm knows: id and state."""
    listed = slurm("squeue", "--noheader", "--states", "all", "--format", "%i %T %j").splitlines()
    found = [line.split(maxsplit=2) for line in listed]
    return {one: state for one, state, tag in found if tag.startswith(f"{name}-") and f".{side.cluster}." in tag}


def await_both(*names: str) -> None:
    """Until each of these Jobs has a container that runs in both clusters."""
    until(
        lambda: [name for name in names if told(name, "start") < 2],
        lambda left: not left,
        seconds=SECONDS,
        what="start",
    )


def assert_apart(two: Two, user: str, pods: Sequence[set[str]]) -> None:
    """Neither agent speaks of a Pod of the other's, nor is there anything of it in the cluster's directory.

    :param pods: the uids of each side's Pods
    """
    for side, mine, other in zip(two.sides(), pods, reversed(pods), strict=True):
        kept, text = side.kept(user), side.stack.agent.component.log.read_text()
        assert (mine <= kept, other & kept) == (True, set())
        assert [uid for uid in mine if uid not in text] == []
        assert [uid for uid in other if uid in text] == []


def test_jobs_of_the_same_names_end_each_in_its_own_cluster(two: Two) -> None:
    indexed = counted("echo $POD", completions=3, parallelism=3, completionMode="Indexed")
    made = [(ADA, counted("echo $POD")), (ADA, counted("echo $POD; tell end; exit 3")), (ADA, indexed)]
    made.append((BEN, counted("echo $POD")))
    names = [apply(side.people()[user], one) for user, one in made for side in two.sides()][::2]
    ends = dict(zip(names, ("Complete", "Failed", "Complete", "Complete"), strict=True))

    for side in two.sides():
        assert await_ends(side.stack.ada, list(ends)) == ends
    assert {name: (told(name, "start"), told(name, "end")) for name in ends} == {
        name: (6, 6) if name == indexed["metadata"]["name"] else (2, 2) for name in ends
    }
    assert twice(list(ends)) == {}
    batch_jobs: list[str] = []
    for user, one in made:
        name = one["metadata"]["name"]
        pods = [side.pods(side.people()[user], name) for side in two.sides()]
        assert {line.pod for line in lines(name)} == {uid for found in pods for uid in found}
        assert_apart(two, user, [set(found) for found in pods])
        told_of = manifests(pods)
        assert until(lambda: brought(two, name), lambda found: len(found) >= len(told_of), what=name) == told_of  # noqa: B023
        batch_jobs += [
            one["metadata"]["annotations"]["batchgate.dev/job-id"] for found in pods for one in found.values()
        ]
        if one is not indexed:
            logs = [printed(side.people()[user], name) for side in two.sides()]
            assert logs == [list(found) for found in pods]
    assert len(set(batch_jobs)) == len(batch_jobs) == 12
    await_empty(*ends)


def brought(two: Two, name: str) -> dict[str, dict[str, Any]]:
    """What the manifests of a Job's results say, by directory."""
    found = (two.brought / NAMESPACE / name).glob("*/manifest.json")
    keys = ("job", "jobUid", "podUid", "batchJob", "complete")
    read = {path.parent.name: json.loads(path.read_text()) for path in found}
    return {place: {key: one[key] for key in keys} for place, one in read.items()}


def manifests(pods: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The same from what the two clusters say of these Pods."""
    found = {}
    for one in (one for side in pods for one in side.values()):
        metadata = one["metadata"]
        found[f"{metadata['name']}.{metadata['uid'][:8]}"] = {
            "job": metadata["labels"][LABEL],
            "jobUid": metadata["ownerReferences"][0]["uid"],
            "podUid": metadata["uid"],
            "batchJob": metadata["annotations"]["batchgate.dev/job-id"],
            "complete": True,
        }
    return found


def test_a_job_that_is_deleted_in_one_cluster_goes_on_in_the_other(two: Two) -> None:
    made = waiting(counted())
    names = [apply(side.stack.ada, made) for side in two.sides()]
    (name,) = set(names)
    await_both(name)
    ids = [job_id(side.stack.ada, name) for side in two.sides()]
    pods = [set(side.pods(side.stack.ada, name)) for side in two.sides()]
    assert [states(side, name) for side in two.sides()] == [{one: "RUNNING"} for one in ids]

    two.here.stack.ada.ok("delete", "job", name, "--wait=false")

    until(lambda: states(two.here, name), lambda found: "RUNNING" not in found.values(), seconds=SECONDS, what=name)
    until(lambda: two.here.pods(two.here.stack.ada, name), lambda left: not left, seconds=SECONDS, what="for its Pod")
    stays(
        lambda: (states(two.there, name), pod_of(two.there.stack.ada, name)["status"]["phase"]),
        lambda seen: seen == ({ids[1]: "RUNNING"}, "Running"),
        seconds=LONGER,
        what="running in the other cluster",
    )
    let_go(name)
    assert await_ends(two.there.stack.ada, [name]) == {name: "Complete"}
    assert sorted(line.event for line in lines(name)) == ["end", "start", "start"]
    assert {line.pod for line in lines(name) if line.event == "end"} == pods[1]
    assert_apart(two, ADA, pods)
    await_empty(name)


def test_an_agent_that_comes_back_cancels_only_what_its_own_cluster_has_lost(two: Two) -> None:
    """One Job of it loses its Pod meanwhile; nobody but that agent may end what is left of it, however long it is away."""
    runs, strays = waiting(counted()), waiting(counted())
    for side in two.sides():
        run, stray = apply(side.stack.ada, runs), apply(side.stack.ada, strays)
    await_both(run, stray)
    ids = [{name: job_id(side.stack.ada, name) for name in (run, stray)} for side in two.sides()]
    pods = [{name: set(side.pods(side.stack.ada, name)) for name in (run, stray)} for side in two.sides()]
    running = [{job: "RUNNING"} for found in ids for job in found.values()]

    def seen() -> list[dict[str, str]]:
        return [states(side, name) for side in two.sides() for name in (run, stray)]

    two.here.stack.agent.kill()
    remove(two.here, stray)
    stays(seen, lambda found: found == running, seconds=LONGER, what="all running while that agent is away")
    two.here.stack.agent.start()
    until(
        lambda: states(two.here, stray), lambda found: "RUNNING" not in found.values(), seconds=SECONDS, what="reaped"
    )
    two.there.stack.agent.kill()
    two.there.stack.agent.start()
    stays(
        lambda: [states(two.here, run), *(states(two.there, name) for name in (run, stray))],
        lambda found: found == [running[0], *running[2:]],
        seconds=LONGER,
        what="all others running",
    )
    let_go(run, stray)

    assert await_ends(two.here.stack.ada, [run]) == {run: "Complete"}
    assert await_ends(two.there.stack.ada, [run, stray]) == {run: "Complete", stray: "Complete"}
    assert [job_id(side.stack.ada, run) for side in two.sides()] == [found[run] for found in ids]
    assert sorted(line.event for line in lines(run)) == ["end", "end", "start", "start"]
    assert sorted(line.event for line in lines(stray)) == ["end", "start", "start"]
    assert {line.pod for line in lines(stray) if line.event == "end"} == pods[1][stray]
    reaped = [[line["uid"] for line in side.stack.agent.logged("reaped")] for side in two.sides()]
    assert [set(found) for found in reaped] == [pods[0][stray], set()]
    assert_apart(two, ADA, [found[run] | found[stray] for found in pods])
    await_empty(run, stray)


def remove(side: Side, name: str) -> None:
    """Remove a Job and its Pod by force: the agent never hears of it."""
    who = side.stack.ada
    pod = pod_of(who, name)["metadata"]["name"]
    who.ok("delete", "job", name, "--cascade=orphan")
    who.ok("delete", "pod", pod, "--grace-period=0", "--force")
    until(lambda: side.pods(who, name), lambda left: not left, seconds=SECONDS, what=f"for {pod} to go")
