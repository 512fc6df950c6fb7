"""Slurm's partitions as Nodes and as figures that rules read, and directives of all who may give some."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from bed.layout import OPERATOR
from bed.standing import variant
from router import names
from tests.agent.bed.conftest import Stack, founded, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, job_id
from tests.agent.bed.site import BEN, LAYOUT, SUDO, BedSite, as_user, slurm
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
QUEUES = ("batch", "debug", "gpu")
OF_RULE = {"contiguous": ""}
RULES = [
    {"name": "idle", "when": "queues['batch'].freeNodes > 0", "hpc": [{"queue": "batch"}], "directives": OF_RULE},
    {"name": "long", "when": "queues['batch'].waitSeconds >= 60", "cloud": True},
    {"name": "busy", "when": "job.cpus >= 2", "hpc": [{"queue": "batch"}]},
    {"name": "rest", "cloud": True},
]
GIVEN = {"Nice": "10", "ExcNodeList": "node2", "Comment": "of ada", "Contiguous": "1"}
"""What Slurm shows of the directives of site, queue, account and rule."""
SHOWN = {
    "batch": {"nodes": "2", "cpus": "4", "memory": "4000Mi", "walltime": "1d", "cpu": "8", "all": "8000Mi"},
    "debug": {"nodes": "1", "cpus": "4", "memory": "4000Mi", "walltime": "30m", "cpu": "4", "all": "4000Mi"},
    "gpu": {"nodes": "2", "cpus": "4", "memory": "8000Mi", "walltime": "12h", "cpu": "8", "all": "16000Mi", "gpu": "4"},
}
"""What the bed's page says of these queues: a node's, and that of all nodes which one job may have."""


@dataclass(frozen=True)
class QueuesSite(BedSite):
    """Three of the bed's queues, of which the policy declares much less than they have."""

    queue: ClassVar[str] = "batch"

    def documents(self) -> dict[str, Any]:
        """The files of the policy by their names."""
        found = super().documents()
        (site,) = found["sites.yaml"]["sites"]
        little = {"nodes": 1, "cpusPerNode": 3, "memoryPerNode": "1Gi", "walltimeMax": "20m", "walltimeDefault": "10m"}
        site["queues"] = [{"name": name, **little} for name in QUEUES]
        site["queues"][0]["directives"] = {"exclude": "node2"}
        site["directives"] = {"nice": "10"}
        person = found["accounts.yaml"]["accounts"][0]
        person["directives"] = {"comment": "of ada"}
        found["rules.yaml"] = {"rules": RULES}
        return found


@pytest.fixture(scope="module")
def stack(control_plane_programs: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A cluster of its own: the Nodes of this site are nobody's afterwards. An operator looks, where there is one."""
    with founded(tmp_path_factory.mktemp("queues")) as cluster:
        observer = OPERATOR if variant(LAYOUT).accounting else ""
        with reached(cluster, SUDO, observer, kind=QueuesSite, watching=True) as found:
            yield found


def shown(stack: Stack, queue: str) -> dict[str, str]:
    """What the Node of a queue says of it."""
    node = stack.admin.get("node", names.node_name(stack.site.name, queue)) or {}
    labels, capacity = node["metadata"]["labels"], node["status"].get("capacity", {})
    found = {
        "nodes": labels.get(names.LABEL_NODES),
        "cpus": labels.get(names.LABEL_NCPUS),
        "memory": labels.get(names.LABEL_MEMORY),
        "walltime": labels.get(names.LABEL_WALLTIME),
        "cpu": capacity.get("cpu"),
        "all": capacity.get("memory"),
        "gpu": capacity.get("nvidia.com/gpu"),
    }
    return {key: value for key, value in found.items() if value is not None}


def closed(stack: Stack, queue: str) -> tuple[str, str]:
    """Status and reason of the Node's condition that its queue is closed."""
    node = stack.admin.get("node", names.node_name(stack.site.name, queue)) or {}
    found = [one for one in node["status"]["conditions"] if one["type"] == names.CONDITION_QUEUE_CLOSED]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def decided(stack: Stack) -> tuple[str, str, str]:
    """Target, rule and reason of a Job that is judged now, and not kept."""
    words = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    metadata = json.loads(stack.ada.ok(*words, stdin=json.dumps(job("true"))))["metadata"]
    annotations = metadata["annotations"]
    return metadata["labels"][names.KEY_TARGET], annotations[names.KEY_RULE], annotations[names.KEY_REASON]


def test_nodes_show_what_slurm_has(stack: Stack) -> None:
    expected = {queue: dict(figures) for queue, figures in SHOWN.items()}
    if not variant(LAYOUT).gpus:
        del expected["gpu"]["gpu"]

    until(
        lambda: {queue: shown(stack, queue) for queue in QUEUES},
        lambda found: found == expected,
        seconds=SECONDS,
        what="for the figures of Slurm",
    )
    assert {queue: closed(stack, queue) for queue in QUEUES} == dict.fromkeys(QUEUES, ("False", "Open"))


@pytest.mark.parametrize(("state", "reason"), [("DOWN", "Stopped"), ("DRAIN", "Disabled")])
def test_a_closed_partition_is_a_condition_of_its_node(stack: Stack, state: str, reason: str) -> None:
    slurm("scontrol", "update", "PartitionName=debug", f"State={state}")
    try:
        until(lambda: closed(stack, "debug"), lambda seen: seen == ("True", reason), seconds=SECONDS)
        assert closed(stack, "batch") == ("False", "Open")
    finally:
        slurm("scontrol", "update", "PartitionName=debug", "State=UP")
    until(lambda: closed(stack, "debug"), lambda seen: seen == ("False", "Open"), seconds=SECONDS)


def test_directives_of_site_queue_account_and_rule_reach_slurm(stack: Stack) -> None:
    until(lambda: decided(stack)[:2], lambda seen: seen == ("hpc", "idle"), seconds=SECONDS, what="for free nodes")
    name = apply(stack.ada, job("true"))

    told = slurm("scontrol", "show", "job", job_id(stack.ada, name))
    assert end_of(stack.ada, name) == "Complete"

    found = {key: re.search(rf"\b{key}=(.*?) *(?: \w+=|$)", told, re.MULTILINE) for key in GIVEN}
    assert {key: match[1] if match else "" for key, match in found.items()} == GIVEN


def test_rules_read_free_nodes_and_waiting_time_and_the_decision_says_what_they_saw(stack: Stack) -> None:
    # What is known may be from when the Job of another test still had a node.
    free = "; the rules saw queues['batch'].freeNodes = 2"
    seen = until(lambda: decided(stack), lambda one: one[2].endswith(free), seconds=SECONDS, what="for both nodes")
    assert seen[:2] == ("hpc", "idle"), seen
    held = ("--nodes=2", "--exclusive", "--partition=batch", "--chdir=/", "--output=/dev/null", "--wrap=sleep 900")
    jobs = [slurm(*as_user(BEN), "sbatch", "--parsable", *held).strip() for _ in range(2)]
    try:
        busy = until(lambda: decided(stack), lambda one: one[1] == "busy", seconds=SECONDS, what="for no free node")
        assert (busy[0], "queues['batch'].freeNodes = 0" in busy[2]) == ("hpc", True), busy
        if stack.site.observer:  # nobody else sees how long another user's job has waited
            kept = until(lambda: decided(stack), lambda one: one[1] == "long", seconds=SECONDS, what="for a long wait")
            assert (kept[0], "queues['batch'].waitSeconds = 60 (1m)" in kept[2]) == ("cloud", True), kept
            assert kept[2].endswith("; the rules saw queues['batch'].freeNodes = 0")
    finally:
        slurm("scancel", *jobs)
    until(lambda: decided(stack)[1], lambda rule: rule == "idle", seconds=SECONDS, what="for free nodes again")
