"""``batchgate explain -o json``: the whole document of a Job, and what the others are."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from click.testing import CliRunner

from router.cli import commands
from router.cli.explaindocument import Explanation
from router.cli.output import as_document
from tests.policy.given import ACCOUNTS, SITES, job

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "judging.md").read_text()
RULES = """\
rules:
  - {name: wide, when: job.pods > 1, mode: audit, deny: too wide}
  - {name: large, when: job.cpus > 4, hpc: [{queue: big}]}
  - {name: rest, cloud: true}
"""
WHERE = "spec.template.spec.containers[0].resources"


@pytest.fixture
def policy(tmp_path: Path) -> str:
    (tmp_path / "policy").mkdir()
    for name, text in {"10.yaml": SITES + ACCOUNTS, "30.yaml": RULES}.items():
        (tmp_path / "policy" / name).write_text(text)
    return str(tmp_path / "policy")


def explained(policy: str, *jobs: object, arguments: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code, the list of Jobs, and standard error."""
    given = "\n---\n".join(map(json.dumps, jobs))
    line = ["explain", "-f", "-", "--policy", policy, "--user", "ada", "-o", "json", *arguments]
    result = CliRunner().invoke(commands, line, input=given)
    found = json.loads(result.stdout)
    assert list(found) == ["policy", "jobs"]
    assert len(found["policy"]) == 64
    return result.exit_code, found["jobs"], result.stderr


def amount(value: int, origin: str) -> dict[str, object]:
    return {"value": value, "origin": origin, "beside": ""}


def rule(name: str, line: int, why: str, *, held: bool, **more: object) -> dict[str, object]:
    none = {"audit": False, "target": None, "queue": "", "outcome": ""}
    return {"name": name, "place": f"30.yaml:{line}", "held": held, "why": why, **none, **more}


def test_a_job_that_goes(policy: str) -> None:
    large = job({"cpu": "6", "memory": "2Gi"}, activeDeadlineSeconds=600, parallelism=2)

    code, (found,), error = explained(policy, large)

    script, fields, differences, warnings = (found.pop(key) for key in ("script", "fields", "differences", "warnings"))
    notes = found["route"].pop("notes")
    reason = "rule large sends it to queue big of site pbs, as ada: each of 2 Pods: 1 node, 6 cores, 2Gi for 15m30s"
    assert (code, error) == (0, "")
    assert found == {
        "name": "j", "kind": "Job", "file": "standard input", "line": 1, "outcome": "judged", "error": "",
        "asker": {"user": "ada", "groups": [], "namespace": "default", "why": ""},
        "asks": {
            "millicores": amount(6000, f"{WHERE}.requests.cpu"),
            "memoryBytes": amount(2 * 1024**3, f"{WHERE}.requests.memory"),
            "gpus": None,
            "resources": [],
            "parallelism": amount(2, "spec.parallelism"),
            "completions": None,
            "walltimeSeconds": amount(600, "spec.activeDeadlineSeconds"),
            "mpiContainer": "", "ranks": None, "ranksPerNode": None, "nodes": None,
        },
        "rules": [
            rule("wide", 2, "job.pods > 1, with job.pods = 2", held=True, audit=True, target="deny", outcome="deny: too wide"),
            rule("large", 3, "job.cpus > 4, with job.cpus = 6", held=True, target="hpc", queue="pbs/big", outcome=f"hpc: {reason}"),
        ],
        "notLookedAt": ["rest"],
        "decision": {"target": "hpc", "rule": "large", "reason": reason, "inTheWay": [], "refusedHints": []},
        "launchers": [],
        "route": {
            "site": "pbs", "queue": "big", "user": "ada", "account": None, "project": None,
            "chunks": [{"count": 1, "cores": 6, "ranks": 1, "memoryBytes": 2 * 1024**3, "gpus": 0}],
            "deadlineSeconds": 600, "walltimeSeconds": 930, "graceSeconds": 30, "mpiProfile": "",
            "volumes": [], "credentials": [],
            "nodeLabels": {"met": [], "ignored": [], "directives": []},
        },
        "profiles": [],
    }  # fmt: skip
    assert script.startswith("#!/bin/bash")
    assert {one["about"] for one in notes} == {"cores", "memory", "walltime"}
    assert [one for one in fields if set(one) != {"path", "outcome", "says"}] == []
    assert all(isinstance(one, str) for one in [*differences, *warnings])


def test_a_job_that_stays_names_what_is_in_the_way(policy: str) -> None:
    large = job({"cpu": "60"})

    code, (found,), _ = explained(policy, large, arguments=("--no-script",))

    assert (code, found["decision"]["target"], found["route"], found["script"]) == (0, "cloud", None, None)
    assert found["decision"]["inTheWay"] == [found["decision"]["reason"].partition("cannot go there: ")[2]]


def test_every_job_of_a_file_is_in_the_list(policy: str) -> None:
    broken = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "broken"}, "spec": {}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {"jobTemplate": {"spec": job()["spec"]}}}  # fmt: skip

    code, found, error = explained(policy, job({"cpu": "1"}), broken, pod, cron)

    empty = as_document(Explanation("broken", "Job", "", 0, "invalid", ""))
    assert isinstance(empty, dict)
    told = {one["name"]: one for one in found}
    assert (code, [one["name"] for one in found]) == (1, ["j", "broken", "c"])
    assert (told["j"]["outcome"], told["c"]["kind"], told["broken"]["outcome"]) == ("judged", "CronJob", "invalid")
    assert told["broken"]["error"].startswith("spec.template")
    assert error == f"Error: standard input:3: broken: {told['broken']['error']}\n"
    assert {key: value for key, value in told["broken"].items() if key in list(empty)[7:]} == dict(
        list(empty.items())[7:]
    )
    assert told["c"]["asker"] == {
        "user": "system:serviceaccount:kube-system:cronjob-controller",
        "groups": told["c"]["asker"]["groups"],
        "namespace": "default",
        "why": (
            "its Jobs are created by the CronJob controller, so this is decided for "
            "system:serviceaccount:kube-system:cronjob-controller, not for ada (kubectl create job --from: for the user who runs it)"
        ),
    }


def test_a_job_that_is_left_alone(policy: str) -> None:
    (Path(policy) / "20.yaml").write_text("controllers: [{managedBy: kueue.x-k8s.io/multikueue}]\n")
    alone = job({"cpu": "6"}, managedBy="kueue.x-k8s.io/multikueue")

    code, (found,), _ = explained(policy, alone)

    assert (code, found["outcome"], found["decision"], found["asks"]) == (0, "untouched", None, None)


def test_nothing_is_an_empty_list(policy: str) -> None:
    code, found, error = explained(policy, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}})

    assert (code, found, error) == (0, [], "Warning: no Job or CronJob of batch/v1 was found.\n")


def _keys(kind: Any) -> Iterator[str]:
    """The keys of a dataclass in the document, with those of what it holds."""
    for name, hint in get_type_hints(kind).items():
        first, *rest = name.split("_")
        yield first + "".join(part.capitalize() for part in rest)
        for inner in (hint, *get_args(hint)):
            if dataclasses.is_dataclass(inner):
                yield from _keys(inner)


def test_the_page_names_every_key() -> None:
    table = PAGE.partition("### As a document")[2].partition("\n#")[0]

    named = set(re.findall(r"`(\w+)(?:\[\])?`", table))

    assert set(_keys(Explanation)) - named == set()
