"""``batchgate status`` on a real API server: what needs somebody, and the exit codes for monitors.

Each test has a system namespace of its own, so that what other tests leave in the usual one does not count.
"""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from router import names
from router.cli import commands
from router.controlplane.plane import ControlPlane
from router.preflight import Line, Mark
from router.preflight.record import Kept, after, document

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
    """A user with edit in one namespace sees its ConfigMaps, and no Node."""
    config_map(plane, namespace, names.QUEUES_CONFIG_MAP, "nowhere.json", "")
    config_map(plane, namespace, names.POLICIES_CONFIG_MAP, "all.yaml", "rules: [{name: rest, cloud: true}]\n")

    done = status(plane, namespace, "--exit-code", user="ada")

    assert "Warning: the Nodes of queues could not be looked at" in done.stderr
    assert done.exit_code in {1, 3}
    assert "All is well." not in done.stdout
