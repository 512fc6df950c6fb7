"""A batch system that nobody has is added by a package and a line of the registry; the rest takes it as it is."""

from __future__ import annotations

import ast
import json
import os
import pwd
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from router import policy
from router.agent.batch.commands import BatchCommands
from router.agent.batch.jobs import BatchJobs
from router.agent.metrics import Metrics
from router.errors import PolicyError
from router.gate.judging import judge
from router.host.local import LocalHost
from router.hpc import JobReport, JobState, Submission, Verdict, job_name, local
from router.policy.decision import Requester
from router.preflight import Line, Mark, jobs
from router.script.completing import complete
from router.site.systems import SYSTEMS
from tests.gates import gate
from tests.hpc import workshop
from tests.local.queue import EmbeddedQueue, until
from tests.placement.given import job_of

POLICY = """
sites:
  - name: shed
    system: workshop
    workDir: /tmp/shed
    runtime: host
    directives: {bench: "7"}
    queues: [{name: workq, nodes: 2, cpusPerNode: 4}]
accounts: [{users: [ada], as: ada}]
rules: [{name: all, hpc: [{queue: workq}]}]
"""
UID = "0b1c2d3e-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "workshop", workshop)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EmbeddedQueue]:
    found = EmbeddedQueue(tmp_path / "queue", tmp_path / "work")
    found.work.mkdir()
    found.define({"name": "workq", "nodes": 2, "cpusPerNode": 4, "memory": "8gb"})
    yield found
    found.run("stop", "--delete")


def own_part() -> str:
    """The own part of a Job that the policy routes to the workshop."""
    asked = {"batchgate.dev/walltime": "1h30m"}
    job = job_of(
        annotations=asked,
        pod={"containers": [{"name": "c", "image": "busybox", "command": ["sh", "-c", "echo planed"]}]},
    )
    decided = judge(job, requester=Requester("ada", (), "default"), gate=gate(policy=policy.load({"p": POLICY})))
    assert decided.decision is not None
    assert decided.decision.route is not None, decided.decision
    assert decided.decision.route.allocation.walltime == 2 * 3600  # and the margin, in whole hours
    assert decided.script is not None
    return decided.script.own


def test_a_job_is_routed_and_has_its_directives() -> None:
    assert own_part().splitlines()[:6] == [
        "#!/bin/bash",
        "#PBS -q workq",
        "#PBS -l select=1:ncpus=1",
        "#PBS -l walltime=02:00:00",
        "#PBS -l software=7",
        "# shellcheck disable=SC2016,SC2034,SC2086,SC2317,SC2329",
    ]


def test_a_job_is_submitted_and_followed_to_its_end(queue: EmbeddedQueue) -> None:
    commands = local.commands_of(str(queue.directory), (sys.executable, "-m", "router.local"))
    user = pwd.getpwuid(os.getuid()).pw_name
    batch = BatchCommands(LocalHost(queue.work), workshop, commands, user, 60, Metrics())
    pod = queue.work / "pods" / "job" / "noindex" / UID
    pod.mkdir(parents=True)
    for name in ("argv", "env", "log", "exit"):
        (pod / name).mkdir()
    (pod / "script").write_text(complete(own_part()))
    name = job_name("plane", "0123abcd", UID, workshop.NAME_LIMIT)

    job_id = batch.submit(Submission(name, str(pod / "script"), str(pod), str(pod / "output"))).job_id

    def over() -> JobReport | None:
        return next(
            (one for one in BatchJobs(batch).details([job_id]).values() if one.state is JobState.FINISHED), None
        )

    report = until(over, seconds=90)
    assert report is not None
    assert (report.verdict, report.exit_status, report.name) == (Verdict.ENDED, 0, name)
    assert (pod / "log" / "c.0").read_text() == "planed\n"
    assert json.loads((pod / "exit" / "c.0").read_text())["code"] == 0


def test_its_directives_are_checked_by_itself() -> None:
    with pytest.raises(PolicyError) as raised:
        policy.load({"p": POLICY.replace('"7"', "oak")})

    assert "bench: 'oak' is no number" in str(raised.value)


def test_a_name_that_no_line_has_is_told_with_those_that_are_there() -> None:
    with pytest.raises(PolicyError) as raised:
        policy.load({"p": POLICY.replace("workshop", "smithy")})

    assert "is 'smithy'; it must be 'openpbs', 'slurm', 'torque', 'local' or 'workshop'" in str(raised.value)


def test_what_a_site_check_advises_is_its_own() -> None:
    found = jobs.history_line("ada", "workshop", kept=False, known=False)

    assert isinstance(found, Line)
    assert found.mark is not Mark.OK
    assert found.change.startswith("turn the ledger's page")


def test_batch_systems_are_compared_in_their_rooms_alone() -> None:
    """Elsewhere their figures are asked for (``Traits``), so that a new one needs no change there."""
    root = Path(__file__).parents[2] / "router"
    named = set(SYSTEMS) - {"workshop"}
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in sorted(root.rglob("*.py"))
        if "hpc" not in path.relative_to(root).parts
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Compare)
        and any(isinstance(part, ast.Attribute | ast.Name) and _word(part) == "system" for part in _parts(node))
        and any(isinstance(part, ast.Constant) and part.value in named for part in _parts(node))
    ]

    assert found == []


def _parts(node: ast.Compare) -> list[ast.expr]:
    return [
        part
        for side in (node.left, *node.comparators)
        for part in (side, *ast.iter_child_nodes(side))
        if isinstance(part, ast.expr)
    ]


def _word(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id
