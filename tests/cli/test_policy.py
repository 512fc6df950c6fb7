"""``batchgate policy check | test``: what is printed, and the exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

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
