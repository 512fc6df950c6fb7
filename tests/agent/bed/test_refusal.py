"""A site whose check goes wrong on real Slurm: its agent submits nothing, for anybody, until a check finds it mended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from router import names
from tests.agent.bed.conftest import NODE, Cluster, Stack, reached
from tests.agent.bed.jobs import SECONDS, apply, end_of, job, pod_of, printed
from tests.agent.bed.site import BEN, OWN_KEYS, SITE, as_user
from tests.agent.bed.test_observer import batch_id, runs
from tests.agent.whole.waiting import until

pytestmark = [pytest.mark.bed, pytest.mark.slurm, pytest.mark.apptainer, pytest.mark.timeout(1200)]
_ROOT = Path(__file__).parent.parent.parent.parent


def check(stack: Stack) -> tuple[int, set[tuple[str, str]]]:
    """``batchgate site check`` as the agent's user: the exit code, and user and name of the lines that are ``must``."""
    site = stack.site
    options = ("--policy", site.policy, "--kubeconfig", site.home / "kubeconfig", "-o", "json")
    done = subprocess.run(
        [*as_user(site.user), sys.executable, "-m", "router", "site", "check", SITE, *map(str, options)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(site.home), "PYTHONPATH": str(_ROOT)},
    )
    assert done.stdout, done.stderr
    lines: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    return done.returncode, {(line["user"], line["name"]) for line in lines if line["verdict"] == "must"}


def refusal(stack: Stack) -> tuple[str, str]:
    """Status and message of the Node's condition."""
    node = stack.admin.get("node", NODE) or {}
    conditions = node.get("status", {}).get("conditions", ())
    found = [one for one in conditions if one["type"] == names.CONDITION_SITE_REFUSED]
    return (found[0]["status"], found[0]["message"]) if found else ("", "")


def test_a_key_that_is_away_refuses_the_site_until_it_is_back(cluster: Cluster) -> None:
    with reached(cluster, OWN_KEYS) as stack:
        until(lambda: refusal(stack), lambda seen: seen == ("False", "no check of the site is known"), seconds=SECONDS)
        first = apply(stack.ada, job("echo runs; sleep 30; echo over"))
        runs(stack.ada, first, "runs")
        key = stack.site.home / "keys" / BEN

        key.rename(key.with_name("away"))
        assert check(stack) == (1, {(BEN, "reach")})
        _, words = until(lambda: refusal(stack), lambda seen: seen[0] == "True", seconds=SECONDS)
        assert f"reach ({BEN})" in words
        assert "docs/hosts.md" in words
        second = apply(stack.ada, job("echo also"))
        waits = until(
            lambda: pod_of(stack.ada, second)["status"],
            lambda status: status.get("reason") == names.REASON_SITE_REFUSED,
            seconds=SECONDS,
        )
        assert (waits["phase"], "(reach)" in waits["message"]) == ("Pending", True)
        assert end_of(stack.ada, first) == "Complete"  # what runs is followed, and its logs are there
        assert printed(stack.ada, first) == ["runs", "over"]
        assert names.KEY_JOB_ID not in pod_of(stack.ada, second)["metadata"].get("annotations", {})
        key.with_name("away").rename(key)

        assert check(stack) == (0, set())
        until(lambda: refusal(stack)[0], lambda status: status == "False", seconds=SECONDS)
        assert end_of(stack.ada, second) == "Complete"
        assert printed(stack.ada, second) == ["also"]
        assert batch_id(stack.ada, second)
