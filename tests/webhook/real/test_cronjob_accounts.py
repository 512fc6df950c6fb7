"""The worked example of accounts for controllers in docs/policies.md, with the real CronJob controller."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane.options import RESEARCHERS
from router.controlplane.plane import ControlPlane
from tests.kube.wire import await_true
from tests.webhook.real.conftest import POLICY
from tests.webhook.real.gated import gated, target, template_annotations
from tests.webhook.servers import Server

Json = dict[str, Any]
PAGE = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
EXAMPLE = PAGE.partition("**A worked example.**")[2].partition("## Controllers")[0]
ACCOUNTS, MANIFEST = re.findall(r"```yaml\n(.*?)```", EXAMPLE, re.DOTALL)
(RULE,) = re.findall(r"the rule `(.*?)`", EXAMPLE)
SHOWN = re.findall(r"```console\n(.*?)```", EXAMPLE, re.DOTALL)[0]


def test_the_policy_of_these_tests_has_what_the_page_has() -> None:
    ours = yaml.safe_load(POLICY)

    assert [one for one in yaml.safe_load(ACCOUNTS)["accounts"] if one not in ours["accounts"]] == []
    assert yaml.safe_load(RULE) in ours["rules"]


@pytest.mark.timeout(900)
def test_what_the_page_shows_is_what_becomes_of_the_run(plane: ControlPlane, webhook: Server, tmp_path: Path) -> None:
    sent = yaml.safe_load(MANIFEST)
    (tmp_path / "nightly.yaml").write_text(MANIFEST)
    policies = webhook.log_file.parent / "policies"
    command = re.findall(r"`batchgate (route .*?)`", EXAMPLE)[0]
    words = command.replace("--policy policies", f"--policy {policies}").split()
    told = subprocess.run(
        [sys.executable, "-m", "router", *words], cwd=tmp_path, env={"PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert told.stderr + told.stdout == SHOWN

    plane.make_namespaces({"ada-nightly": (RESEARCHERS,)})
    try:
        jobs = gated(plane, "ada-nightly", webhook.log_file.parent / "signing.pub")
        jobs.done("create", "-f", "-", sent=sent)

        def made() -> list[Json]:
            listed: list[Json] = json.loads(jobs.done("get", "jobs", "-o", "json").stdout)["items"]
            return listed

        await_true(made, "the CronJob to fire, which it does each minute", 180)
        stored = made()[0]
    finally:
        plane.kubectl("delete", "namespace", "ada-nightly", "--wait=false")

    notes = stored["metadata"]["annotations"]
    assert (target(stored), notes[names.KEY_RULE]) == ("hpc", "nightly")
    assert SHOWN.rstrip().endswith(notes[names.KEY_REASON])
    assert json.loads(template_annotations(stored)[names.KEY_ACCOUNT]) == {"account": "physics", "user": "ada"}
    # The name and the labels that the rule has read.
    assert re.fullmatch(r"nightly-\d{8}", stored["metadata"]["name"])
    assert stored["metadata"]["labels"]["app"] == "reduce"


def test_labels_of_the_template_are_the_jobs(plane: ControlPlane, webhook: Server, jobs: Any) -> None:
    """The rule reads labels that the file's Job does not have; the command says what the webhook does."""
    sent = {**yaml.safe_load(MANIFEST)["spec"]["jobTemplate"], "apiVersion": "batch/v1", "kind": "Job"}
    sent["metadata"] = {"name": "nightly-by-hand", "namespace": jobs.namespace}
    words = ["route", "-f", "-", "-o", "json", "--user", "ada", "--policy", str(webhook.log_file.parent / "policies")]
    told = subprocess.run(
        [sys.executable, "-m", "router", *words], input=json.dumps(sent), capture_output=True, text=True, check=True
    )

    stored = jobs.create(sent)

    decided = {key: stored["metadata"]["annotations"][key] for key in (names.KEY_RULE, names.KEY_REASON)}
    assert decided[names.KEY_RULE] == "nightly"
    assert (
        json.loads(told.stdout)["metadata"]["annotations"] | decided
        == json.loads(told.stdout)["metadata"]["annotations"]
    )
