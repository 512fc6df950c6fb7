"""The examples as a user applies them, on a real Slurm: where each goes and how it ends is what its expected.yaml says.

Their own policy decides; of its site only what the bed has otherwise is changed: the batch system, the way to it, sizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from bed import programs
from bed.accounts import PROJECT
from bed.slurmconf import MEMORY, QUEUES
from bed.standing import variant
from router import names
from router.controlplane.options import ADA
from router.demo import cluster as showing
from router.demo import outcome
from router.demo.examples import Example, read_examples
from router.demo.kubectl import Kubectl
from router.demo.outcome import Outcome, differences
from tests.agent.bed import site
from tests.agent.bed.conftest import NAMESPACE, Stack, founded, reached
from tests.agent.bed.jobs import SECONDS
from tests.agent.bed.site import LAYOUT, SUDO, BedSite, slurm
from tests.agent.bed.tally import await_ends
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parent.parent.parent.parent
EXAMPLES = {one.name: one for one in read_examples(ROOT / "examples") if not one.expected.program}
"""``test_ring`` has the other one, which takes more nodes than the bed's queue of that name has."""
POLICY = ROOT / "examples" / "policies"
SITES, ACCOUNTS = "10-sites.yaml", "20-accounts.yaml"
GPU = re.compile("this Job may use GPU [01]")
MPI = frozenset({"03-mpi-over-two-nodes", "13-mpi-in-a-script"})
MPI4PY = programs.path_of(LAYOUT, programs.OPENMPI)
IMAGES = {"busybox:*": LAYOUT.image, "registry.example.org/mpi4py:*": MPI4PY}
PRINTED: dict[str, dict[str, list[str | re.Pattern[str]]]] = {
    "02-large-goes-to-hpc": {"sum": ["the sum of 1 to 1000 is 500500"]},
    "03-mpi-over-two-nodes": {"ranks": ["pi is 3.141592654: 8 ranks on 2 nodes"]},
    "04-gpu": {"train": [GPU]},
    "05-init-container-and-sidecar": {"prepare": ["prepared"], "watch": ["bye", "watching"], "work": ["worked"]},
    "06-indexed": {"part": [f"part {index} of 4" for index in range(4)]},
    "10-asks-for-nothing": {"work": ["the rule sized this Job"]},
    "11-fails": {"work": ["cannot open input.dat"]},
    "13-mpi-in-a-script": {"steps": ["step 2: 2 ranks sum up to 3", "step 8: 8 ranks sum up to 36"]},
}
"""What each container of a Job prints in all of its Pods, sorted; as the manifest and the README have it."""
SHAPE = {
    "02-large-goes-to-hpc": "1 4",
    "03-mpi-over-two-nodes": "2 8",
    "04-gpu": "1 2",
    "05-init-container-and-sidecar": "1 3",
    "06-indexed": "1 2",
    "10-asks-for-nothing": "1 2",
    "11-fails": "1 2",
    "13-mpi-in-a-script": "2 8",
}
"""Nodes and cores of each batch job: a sidecar counts beside the containers, an init container that has ended does not."""


@dataclass(frozen=True)
class ExamplesSite(BedSite):
    """The examples' policy, with its site made to fit the bed."""

    name: ClassVar[str] = "demo"
    queue: ClassVar[str] = "batch"

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = {path.name: yaml.safe_load(path.read_text()) for path in sorted(POLICY.glob("*.yaml"))}
        (example,) = found[SITES]["sites"]
        found[SITES] = {"sites": [self._fitted(example)]}
        (controller, person, namespace) = found[ACCOUNTS]["accounts"]
        found[ACCOUNTS] = {
            "accounts": [controller, {**person, "as": site.ADA, "account": PROJECT}, {**namespace, "as": site.BEN}],
        }
        return found

    def _fitted(self, example: dict[str, Any]) -> dict[str, Any]:
        (profile,) = example["mpi"]
        return {
            **example,
            "system": "slurm",
            **self.host(),
            "workDir": str(LAYOUT.shared / "work" / "{user}"),
            "resultsDir": str(self.results),
            "images": [{**image, "path": str(IMAGES[image["match"]])} for image in example["images"]],
            # As the bed's page says: its nodes meet on the loopback interface.
            "mpi": [{**profile, "env": {"OMPI_MCA_btl_tcp_if_include": "lo"}}],
            "fsDelay": 5,
            "queues": [{**queue, **_size(queue["name"])} for queue in example["queues"]],
        }


def _size(queue: str) -> dict[str, Any]:
    """Nodes and memory of the bed's queue of that name; cores and GPUs of a node are those of the example."""
    (found,) = [one for one in QUEUES if one.name == queue]
    return {"nodes": len(found.nodes), "memoryPerNode": f"{min(MEMORY[node] for node in found.nodes)}Mi"}


@pytest.fixture(scope="module")
def stack(control_plane_programs: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A cluster of its own: the Nodes of this site are nobody's afterwards."""
    with founded(tmp_path_factory.mktemp("examples")) as cluster, reached(cluster, SUDO, kind=ExamplesSite) as found:
        yield found


@pytest.fixture(scope="module")
def outcomes(stack: Stack) -> dict[str, Outcome]:
    """What became of each example, by its name; all of them run at once."""
    kubectl = Kubectl(str(stack.plane.programs.kubectl), stack.plane.kubeconfig(ADA.name))
    found = [one for one in EXAMPLES.values() if one.name not in MPI or MPI4PY.exists()]
    applied = showing.apply(kubectl, found, launcher=True)
    await_ends(stack.ada, [one.job["metadata"]["name"] for one in found if one.expected.state], seconds=2 * SECONDS)
    jobs = stack.ada.every("jobs")
    every = showing.outcomes(kubectl, applied, jobs, stack.webhook.log, stack.site.results)
    return {one.name: one for one in every}


@pytest.fixture(params=EXAMPLES)
def example(request: pytest.FixtureRequest) -> Example:
    found = EXAMPLES[request.param]
    if found.job["metadata"]["name"] == "gpu" and not variant(LAYOUT).gpus:
        pytest.skip("this bed has no GPUs")
    if found.name in MPI and not MPI4PY.exists():
        pytest.skip(f"{MPI4PY} is missing: python -m bed programs")
    return found


def test_each_ends_as_it_says(stack: Stack, outcomes: dict[str, Outcome], example: Example) -> None:
    found = outcomes[example.name]

    assert differences(example.expected, found, launcher=True) == []
    assert found.state == (example.expected.state or found.state)
    if example.expected.state is None:
        assert_kept_or_denied(stack, example, found)
        return
    assert printed(found) == expected_lines(example.name, printed(found))
    for pod in pods_of(stack, example):
        assert_accounted(stack, example, pod)


def assert_kept_or_denied(stack: Stack, example: Example, found: Outcome) -> None:
    """A Job that stays has the decision on itself and nothing on its Pods; one that is denied is not there."""
    job = stack.ada.get("job", example.job["metadata"]["name"])
    if found.state == outcome.DENIED:
        assert job is None
        return
    assert job is not None
    assert job["metadata"]["labels"][names.KEY_TARGET] == "cloud"
    assert job["metadata"]["annotations"][names.KEY_RULE] == example.expected.decision["rule"]
    assert job["metadata"]["annotations"][names.KEY_REASON] == found.reason
    assert names.PREFIX not in json.dumps(job["spec"])
    assert "nodeName" not in job["spec"]["template"]["spec"]
    warned = [
        words
        for words in found.warnings
        if any(field in words for field in example.expected.decision.get("fields", ()))
    ]
    assert len(warned) == ("fields" in example.expected.decision)


def printed(found: Outcome) -> dict[str, list[str]]:
    """What each container printed in all Pods, sorted. A runtime from another release warns of the machine's libraries."""
    lines: dict[str, list[str]] = {}
    for pod in found.pods:
        for container, text in pod.logs.items():
            lines.setdefault(container, []).extend(one for one in text.splitlines() if "weak version" not in one)
    return {container: sorted(some) for container, some in lines.items()}


def expected_lines(name: str, seen: dict[str, list[str]]) -> dict[str, list[str]]:
    """The lines of the table; for a pattern the line that was seen, where it fits."""
    return {
        container: [
            next((one for one in seen[container] if line.fullmatch(one)), line.pattern)
            if isinstance(line, re.Pattern)
            else line
            for line in lines
        ]
        for container, lines in PRINTED[name].items()
    }


def pods_of(stack: Stack, example: Example) -> list[dict[str, Any]]:
    """Its Pods, once the batch system's record is on all of them."""
    job = example.job["metadata"]["name"]
    return until(
        lambda: stack.ada.every("pods", f"batch.kubernetes.io/job-name={job}"),
        lambda pods: all(names.KEY_EXIT in pod["metadata"]["annotations"] for pod in pods),
        seconds=SECONDS,
        what=f"for the record of {job}",
    )


def assert_accounted(stack: Stack, example: Example, pod: dict[str, Any]) -> None:
    """A Pod's annotations, Events and results agree with each other and with Slurm's own record."""
    annotations, code = pod["metadata"]["annotations"], example.expected.exit_code
    batch_job = annotations[names.KEY_JOB_ID]
    assert annotations[names.KEY_EXIT] == str(code)
    assert re.fullmatch(r"\d\d:\d\d:\d\d", json.loads(annotations[names.KEY_RESOURCES_USED])["walltime"])
    assert shape(batch_job) == SHAPE[example.name]
    events = until(
        lambda: events_of(stack, pod), lambda found: names.REASON_RESULTS in found, what="for the Event of its results"
    )
    queue = example.expected.decision["queue"]
    assert f"Batch job {batch_job} in queue {queue} of site demo" in events[names.REASON_SUBMITTED]
    assert names.REASON_STARTED in events
    manifest = json.loads((results_of(stack, example, pod) / "manifest.json").read_text())
    assert (manifest["batchJob"], manifest["podUid"], manifest["complete"]) == (batch_job, pod["metadata"]["uid"], True)
    assert {name: one["code"] for name, one in manifest["containers"].items()} == {
        name: code if name in {one["name"] for one in pod["spec"]["containers"]} else 0
        for name in PRINTED[example.name]
    }
    logs = {f"log/{name}.0" for name in PRINTED[example.name]}
    assert logs <= {one["path"] for one in manifest["files"]}


def shape(batch_job: str) -> str:
    """Nodes and cores that a job had, as Slurm remembers."""
    text = slurm("scontrol", "show", "job", batch_job)
    return " ".join(re.findall(r"\b(?:NumNodes|NumCPUs)=(\d+)", text))


def events_of(stack: Stack, pod: dict[str, Any]) -> dict[str, str]:
    """The messages of a Pod's Events by reason."""
    words = ("get", "events", "--field-selector", f"involvedObject.uid={pod['metadata']['uid']}", "-o", "json")
    return {one["reason"]: one["message"] for one in json.loads(stack.ada.ok(*words))["items"]}


def results_of(stack: Stack, example: Example, pod: dict[str, Any]) -> Path:
    """Where a Pod's results were brought to, as docs/results.md has it."""
    job, metadata = str(example.job["metadata"]["name"]), pod["metadata"]
    return stack.site.results / NAMESPACE / job / f"{metadata['name']}.{metadata['uid'][:8]}"
