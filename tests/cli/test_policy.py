"""``batchgate policy check | test | conditions``: what is printed, and the exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from router import policy
from router.cli import commands

REST = "rules: [{name: rest, cloud: true}]\n"
JOB = "{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, command: [x]}]}}}}"

TESTS = [
    ("tests: [{name: t, job: JOB, expect: {target: cloud}}]\n", 0, "pass  t\n1 passed, 0 failed\n", ""),
    (
        "tests: [{name: t, job: JOB, expect: {target: deny}}]\n",
        1,
        (
            "FAIL  t\n      all.yaml:2\n      expected deny\n      got      cloud by rule rest: rule rest keeps it in the cloud: "
            "it asks for nothing\n0 passed, 1 failed\n"
        ),
        "",
    ),
    (
        "",
        1,
        "0 passed, 0 failed\n",
        "Error: DIR has no test, so nothing was shown; write some under tests: (docs/policies.md)\n",
    ),
]


@pytest.mark.parametrize(("tests", "code", "told", "error"), TESTS)
def test_only_tests_that_passed_are_a_success(tmp_path: Path, tests: str, code: int, told: str, error: str) -> None:
    (tmp_path / "all.yaml").write_text(REST + tests.replace("JOB", JOB))

    result = CliRunner().invoke(commands, ["policy", "test", str(tmp_path)])

    assert (result.exit_code, result.stdout, result.stderr) == (code, told, error.replace("DIR", str(tmp_path)))


def test_a_kubernetes_object_in_place_of_a_policy_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("apiVersion: batchgate.dev/v1\nkind: Policy\n" + REST)

    result = CliRunner().invoke(commands, ["policy", "check", str(tmp_path)])

    assert (result.exit_code, result.stderr.partition(",")[0]) == (
        2,
        "Error: all.yaml:2:1: is a Kubernetes object of kind Policy with rules",
    )


def test_a_machine_without_time_zones_says_so(tmp_path: Path) -> None:
    rule = "rules:\n  - {name: r, when: \"request.time.getHours('Europe/Berlin') < 6\", cloud: true}\n  - {name: rest, cloud: true}\n"
    (tmp_path / "all.yaml").write_text(rule)
    argv = [sys.executable, "-m", "router", "policy", "check", str(tmp_path)]

    there = {"PATH": os.environ["PATH"]}
    done = subprocess.run(argv, env=there, capture_output=True, text=True, check=False)
    without = {**there, "TZDIR": str(tmp_path)}
    bare = subprocess.run(argv, env=without, capture_output=True, text=True, check=False)

    assert (done.returncode, bare.returncode) == (0, 2), done.stderr
    said = "when: this machine knows only UTC and offsets such as +02:00; install tzdata"
    assert bare.stderr.startswith(f"Error: all.yaml:2:44: rule r: {said}\n"), bare.stderr


SITES = "sites: [{name: s, system: openpbs, workDir: '/s/{user}', queues: [{name: q, nodes: 1, cpusPerNode: 4}]}]\n"
LONG = 'a text  with two blanks, a \\" and an ü, which is longer than a line of the output and so is folded by it'
COMMENT = """\
# From RULES of policy DIGEST.
# The API server sends a Job to the webhook only if this holds, or if the Job has a key under batchgate.dev/ or names a
# virtual node. Every other Job stays in the cloud by this policy. It runs there without the label and the reason that
# the webhook writes on a Job, and without a line in the webhook's log, metrics and audit annotations.
# Make this anew for every change of the policy; batchgate policy apply refuses a policy that it does not fit.
registration:
  matchConditions:
  - name: NAME
    expression: EXPRESSION
"""
NO_RULE = "the rules, which keep every Job in the cloud,"
READS = "its condition reads job.cpus; the API server knows only namespace, user, groups, name and labels"
# the condition of the first rule; standard output without its comment; standard error
CONDITIONS = [
    ("request.namespace == 'lab'", COMMENT.replace("RULES", "the rule r").replace("EXPRESSION", "request.namespace == 'lab'"), ""),
    ("false", COMMENT.replace("RULES", NO_RULE).replace("EXPRESSION", "'false'"), ""),
    (f"job.cpus > 2 && request.user == '{LONG}'", COMMENT.replace("RULES", "the rule r").replace("EXPRESSION", """\
>-
      request.userInfo.username == 'a text  with two blanks, a " and an ü, which is longer than a line
      of the output and so is folded by it'"""), ""),
    ("job.cpus > 2", "registration:\n  matchConditions: []\n", f"No Job can be left out: rule r: it may hold for any Job: {READS}\n"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "told", "error"), CONDITIONS)
def test_conditions_are_values_of_the_chart(tmp_path: Path, condition: str, told: str, error: str) -> None:
    rule = f'  - {{name: r, when: "{condition}", hpc: [{{queue: q}}]}}\n'
    (tmp_path / "all.yaml").write_text(f"{SITES}rules:\n{rule}  - {{name: rest, cloud: true}}\n")

    text = CliRunner().invoke(commands, ["policy", "conditions", str(tmp_path)])
    values = CliRunner().invoke(commands, ["policy", "conditions", str(tmp_path), "-o", "json"])

    made = policy.match_condition(policy.load({"all.yaml": (tmp_path / "all.yaml").read_text()}))
    assert (text.exit_code, text.stdout, text.stderr.partition("\n")[2]) == (
        0,
        told.replace("NAME", made.name).replace("DIGEST", made.name.removeprefix("policy-")),
        error,
    )
    assert yaml.safe_load(text.stdout) == json.loads(values.stdout)
    found = [(one["name"], one["expression"]) for one in json.loads(values.stdout)["registration"]["matchConditions"]]
    assert found == ([] if error else [(made.name, made.expression)])


def test_conditions_of_a_broken_policy(tmp_path: Path) -> None:
    (tmp_path / "all.yaml").write_text("rules: [{name: rest, clod: true}]\n")

    done = CliRunner().invoke(commands, ["policy", "conditions", str(tmp_path)])

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: all.yaml:1:22: rule rest: unknown key 'clod'")
