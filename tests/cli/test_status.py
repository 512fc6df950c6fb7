"""``batchgate status`` on a real API server: what needs somebody, and the exit codes for monitors.

Each test has a system namespace of its own, so that what other tests leave in the usual one does not count.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from router import names
from router.cli import commands
from router.controlplane.options import EVE
from router.controlplane.plane import ControlPlane
from router.operating import creations
from router.preflight import Line, Mark
from router.preflight.record import Kept, after, document
from tests.kube.wire import await_true

BROKEN = "rules: [{name: rest, clod: true}]\n"
CARET = """\
  policy ConfigMap SYSTEM/batchgate-policies: all.yaml:1:22: rule rest: unknown key 'clod'; did you mean 'cloud'?
      | rules: [{name: rest, clod: true}]
      |                      ^
"""
CHECKED = "2026-03-01T12:00:00Z"


def status(plane: ControlPlane, system: str, *words: str, user: str = "admin") -> Result:
    place = ["--kubeconfig", str(plane.kubeconfig(user)), "--system-namespace", system, "-n", system]
    return CliRunner().invoke(commands, ["status", "nowhere", *place, *words])


def config_map(plane: ControlPlane, system: str, name: str, key: str, text: str) -> None:
    metadata = {"name": name, "namespace": system}
    plane.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {key: text}})


@pytest.fixture
def system(plane: ControlPlane, namespace: str) -> str:
    """With the record of a check of a site named ``nowhere``, so that ``status nowhere`` shows it alone."""
    must = Line("shell", "ada", Mark.MUST, "no shell", "bash", "give ada a shell")
    kept = after(Kept(), [must], ["ada"], CHECKED, whole=True)
    config_map(plane, namespace, names.CHECKS_CONFIG_MAP, "nowhere.json", document(kept))
    config_map(plane, namespace, names.QUEUES_CONFIG_MAP, "nowhere.json", "")
    return namespace


def test_a_broken_policy_and_a_failed_check_are_told(plane: ControlPlane, system: str) -> None:
    config_map(plane, system, names.POLICIES_CONFIG_MAP, "all.yaml", BROKEN)

    shown, coded = status(plane, system), status(plane, system, "--exit-code")
    found = json.loads(status(plane, system, "-o", "json").stdout)

    assert (shown.exit_code, coded.exit_code) == (0, 1), shown.output
    assert CARET.replace("SYSTEM", system) in shown.stdout
    assert f"nowhere  {CHECKED}  problems" in shown.stdout
    said = "batchgate site check, 2026-03-01T12:00:00Z, found problems: shell (ada): no shell; give ada a shell."
    assert f"  site check nowhere: {said}" in shown.stdout
    assert {one["about"] for one in found["troubles"]} >= {"policy", "site check", "webhook"}
    assert found["checks"][0]["time"] == CHECKED
    assert found["policyFiles"]["problems"][0].startswith("all.yaml:1:22: rule rest: unknown key 'clod'")


def test_who_may_not_see_all_cannot_say_that_all_is_well(plane: ControlPlane, namespace: str) -> None:
    """A user with edit in one namespace sees its ConfigMaps, and no Node. What that user sees is wrong counts."""
    config_map(plane, namespace, names.QUEUES_CONFIG_MAP, "nowhere.json", "")
    config_map(plane, namespace, names.POLICIES_CONFIG_MAP, "all.yaml", "rules: [{name: rest, cloud: true}]\n")

    done = status(plane, namespace, "--exit-code", user="ada")

    assert "Warning: the Nodes of queues could not be looked at" in done.stderr
    assert done.exit_code == 1, done.output
    assert "All is well." not in done.stdout


def routed(namespace: str) -> dict[str, Any]:
    """A Job as the webhook has sent it to a queue, in what ``status`` reads of it."""
    labels = {names.KEY_TARGET: names.TARGET_HPC, names.KEY_SITE: "nowhere", names.KEY_QUEUE: "batch"}
    container = {"name": "main", "image": "busybox"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "poor", "namespace": namespace, "labels": labels},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_a_job_whose_pods_a_quota_refuses_needs_somebody(
    plane: ControlPlane, system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(creations, "PATIENCE", -1)
    quota = {"name": "none-left", "namespace": system}
    plane.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota, "spec": {"hard": {"pods": "0"}}})
    await_true(lambda: plane.get("quota", "none-left", "-n", system).get("status"), "the quota is in force")
    plane.apply(routed(system))
    await_true(lambda: _document(plane, system)["stuck"], "the Job is told")

    found, shown = _document(plane, system), status(plane, system, "--exit-code")

    ((stuck, says),) = [
        (one, two["says"]) for one in found["stuck"] for two in found["troubles"] if two["name"] == f"{system}/poor"
    ]
    since = plane.get("job", "poor", "-n", system)["status"]["startTime"]
    known = {"kind": "Job", "namespace": system, "name": "poor", "job": "poor", "site": "nowhere", "queue": "batch"}
    assert stuck == known | {"reason": "FailedCreate", "since": since, "message": stuck["message"]}
    assert "exceeded quota: none-left" in stuck["message"]
    assert says == f"FailedCreate since {since}: {stuck['message']}"
    assert f"  Job {system}/poor: {says}" in shown.stdout
    assert shown.exit_code == 1


def test_who_may_not_list_events_is_told_so(plane: ControlPlane, system: str) -> None:
    rule = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "sees", "namespace": system}}
    bound = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": EVE.name}
    to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "sees"}
    plane.apply(
        role | {"kind": "Role", "rules": [rule]}, role | {"kind": "RoleBinding", "roleRef": to, "subjects": [bound]}
    )
    plane.apply(routed(system))

    await_true(lambda: _document(plane, system, EVE.name)["jobs"], "the right is known")

    missed = [one for one in _document(plane, system, EVE.name)["notLookedAt"] if 'resource "events"' in one]
    assert [one.partition(":")[0] for one in missed] == [f"events of namespace {system} could not be looked at"]


def _document(plane: ControlPlane, system: str, user: str = "admin") -> Any:
    return json.loads(status(plane, system, "-o", "json", user=user).stdout)
