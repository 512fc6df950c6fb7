"""``batchgate policy apply`` on a real control plane."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from router import names, policy
from router.cli import commands
from router.cli.policyapply import _demand_fitting_conditions, _Target
from router.controlplane import installing
from router.controlplane.options import ADA
from router.controlplane.plane import ControlPlane
from router.errors import ConfigError
from router.kube.client import Api, connect
from router.policy.inforce import shown
from router.webhook.policystate import PolicyPublisher
from tests.policymap import BAD, GOOD, OTHER, PLACE, PolicyMap, policy_map

TEST = (
    "tests: [{name: t, job: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: "
    "{restartPolicy: Never, containers: [{name: c, image: i, command: [x]}]}}}}, expect: {target: TARGET}}]\n"
)
PASSING, FAILING = GOOD + TEST.replace("TARGET", "cloud"), GOOD + TEST.replace("TARGET", "deny")
NAME = ("configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICIES_CONFIG_MAP)


@pytest.fixture
def config_map(plane: ControlPlane) -> Iterator[PolicyMap]:
    empty = json.dumps([{"op": "add", "path": "/data", "value": {}}])
    state = ("configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICY_STATE_CONFIG_MAP)
    with policy_map(plane) as found:
        plane.kubectl("patch", *state, "--type=json", "-p", empty)
        yield found
        plane.kubectl("patch", *state, "--type=json", "-p", empty)


def _written(directory: Path, **texts: str) -> Path:
    directory.mkdir(exist_ok=True)
    for name, text in texts.items():
        (directory / f"{name}.yaml").write_text(text)
    return directory


def _apply(plane: ControlPlane, directory: Path, *words: str) -> Result:
    return CliRunner().invoke(
        commands, ["policy", "apply", str(directory), "--kubeconfig", str(plane.kubeconfig()), *words]
    )


def _digest(text: str) -> str:
    return shown(policy.load({"a.yaml": text}).digest)


NOBODY = "Nobody says which policy is in force: no webhook that watches the cluster runs, and no agent\n"


def test_a_dry_run_then_a_first_policy_then_another(plane: ControlPlane, config_map: PolicyMap, tmp_path: Path) -> None:
    directory = _written(tmp_path / "policies", a=PASSING)
    added = "".join(f"+{line}\n" for line in PASSING.splitlines())

    dry = _apply(plane, directory, "--dry-run")

    first = f"--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1,2 @@\n{added}"
    assert (dry.exit_code, dry.stdout) == (0, f"{first}{PLACE}: the cluster would take this; nothing was changed\n")
    assert plane.run_kubectl("get", *NAME).returncode == 1

    done = _apply(plane, directory, "--yes")
    assert (done.exit_code, done.stdout) == (0, f"{first}{PLACE}: has policy {_digest(PASSING)} now\n{NOBODY}")
    found = plane.get(*NAME, "--show-managed-fields")
    assert found["data"] == {"a.yaml": PASSING}
    assert [one["manager"] for one in found["metadata"]["managedFields"]] == ["batchgate"]

    same = _apply(plane, directory)
    assert (same.exit_code, same.stdout) == (
        0,
        f"{PLACE}: has these files already, policy {_digest(PASSING)}\n{NOBODY}",
    )

    _written(directory, a=OTHER)
    other = _apply(plane, directory, "--yes")
    assert (other.exit_code, plane.get(*NAME)["data"]) == (0, {"a.yaml": OTHER})
    assert other.stderr == "Warning: the policy has no tests; write some under tests: (docs/policies.md)\n"


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (BAD, 2, "a.yaml:2:18: rule rest: unknown key 'clod'; did you mean 'cloud'?"),
        (FAILING, 1, "Error: 1 of 1 tests fail; nothing was changed"),
        (OTHER, 2, "this is no terminal on which to ask: give --yes, or --dry-run to only look"),
    ],
)
def test_what_changes_nothing(
    plane: ControlPlane, config_map: PolicyMap, tmp_path: Path, text: str, code: int, words: str
) -> None:
    config_map.put({"a.yaml": GOOD})

    done = _apply(plane, _written(tmp_path / "policies", a=text))

    assert (done.exit_code, "Traceback" in done.output) == (code, False)
    assert words in done.stderr
    assert plane.get(*NAME)["data"] == {"a.yaml": GOOD}


def test_a_directory_within_is_refused(plane: ControlPlane, tmp_path: Path) -> None:
    directory = _written(tmp_path / "policies", a=GOOD)
    (directory / "more").mkdir()

    done = _apply(plane, directory, "--yes")

    words = "Error: more: is a directory, which a ConfigMap cannot hold; move its files up, or take it elsewhere\n"
    assert (done.exit_code, done.stderr) == (2, words)


def test_a_change_that_comes_between_is_shown(
    plane: ControlPlane, config_map: PolicyMap, capsys: pytest.CaptureFixture[str]
) -> None:
    config_map.put({"a.yaml": GOOD})
    target = _Target(connect(str(plane.kubeconfig())), names.SYSTEM_NAMESPACE)
    before = target.read()
    config_map.change({"a.yaml": OTHER})

    with pytest.raises(ConfigError, match=f"^{PLACE} has been changed meanwhile \\(by kubectl-replace at "):
        target.write(before, {"a.yaml": PASSING})

    assert capsys.readouterr().err.splitlines()[3:] == [f"-{GOOD.strip()}", f"+{OTHER.strip()}"]
    assert plane.get(*NAME)["data"] == {"a.yaml": OTHER}


def _replica(api: Api, name: str, told: Mapping[str, tuple[str, str]]) -> PolicyPublisher:
    return PolicyPublisher(api, names.SYSTEM_NAMESPACE, name, lambda: told[name], logging.getLogger("test"))


def test_it_waits_for_those_who_can_be_seen_whatever_the_callers_clock_says(
    plane: ControlPlane, config_map: PolicyMap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = _written(tmp_path / "policies", a=OTHER)
    full = policy.load({"a.yaml": OTHER}).digest
    api = connect(str(installing.webhook(plane)))
    told = {"one": (full, ""), "two": ("b2" * 32, "a.yaml:1:1: wrong")}
    replicas = [_replica(api, name, told) for name in told]
    for replica in replicas:
        replica.look()

    now = time.time()
    with monkeypatch.context() as wrong:
        wrong.setattr(time, "time", lambda: now + 86400)
        late = _apply(plane, directory, "--yes", "--wait", "1s")

    assert late.exit_code == 1
    assert late.stderr.splitlines()[-1] == "webhook two still has b2b2b2b2b2b2 in force: a.yaml:1:1: wrong"
    told["two"] = (full, "")
    replicas[1].look()
    done = _apply(plane, directory, "--yes", "--wait", "1s")
    assert (done.exit_code, done.stdout.splitlines()[1:]) == (
        0,
        ["webhook one has it in force", "webhook two has it in force"],
    )


SITES = "sites: [{name: s, system: openpbs, workDir: '/s/{user}', queues: [{name: q, nodes: 1, cpusPerNode: 4}]}]\n"
LAB = f"{SITES}rules:\n  - {{name: lab, when: request.namespace == 'lab', hpc: [{{queue: q}}]}}\n  - {{name: rest, cloud: true}}\n"
WEB = LAB.replace("'lab'", "'web'")


@pytest.fixture
def registration(plane: ControlPlane) -> Iterator[str]:
    """The match condition of ``LAB`` is registered, with the Jobs that the chart adds; its webhook is asked about none."""
    made = policy.match_condition(policy.load({"a.yaml": LAB}))
    conditions = [{"name": made.name, "expression": f"({made.expression}) || (false)"}]
    webhook = {
        "name": "jobs.batchgate.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": "https://localhost:1/mutate"},
        "namespaceSelector": {"matchLabels": {"nobody": "has-this"}},
        "matchConditions": conditions,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    plane.apply({**kind, "metadata": {"name": names.REGISTRATION}, "webhooks": [webhook]})
    yield made.name
    plane.kubectl("delete", "mutatingwebhookconfiguration", names.REGISTRATION)


def _conditions(plane: ControlPlane) -> tuple[list[object], str, str]:
    """What ``status`` tells of match conditions: as JSON, to people, and as a warning."""
    words = ["status", "--kubeconfig", str(plane.kubeconfig())]
    shown = json.loads(CliRunner().invoke(commands, [*words, "-o", "json"]).stdout)["matchConditions"]
    table = CliRunner().invoke(commands, words)
    lines = [[line for line in text.splitlines() if "Match condition" in line] for text in (table.stdout, table.stderr)]
    return shown, "\n".join(lines[0]), "\n".join(lines[1])


def test_a_policy_that_a_registered_condition_does_not_fit_is_refused(
    plane: ControlPlane, config_map: PolicyMap, registration: str, tmp_path: Path
) -> None:
    directory = _written(tmp_path / "policies", a=LAB)
    reason = "it is as the policy in force wants it"

    assert _apply(plane, directory, "--yes").exit_code == 0
    assert _conditions(plane) == (
        [{"name": registration, "fits": True, "reason": reason}],
        f"Match condition {registration}: {reason}",
        "",
    )

    refusal = (
        f"Error: MutatingWebhookConfiguration batchgate has a match condition of another policy ({registration}): "
        "the webhook would not be asked about Jobs that this policy may send to HPC, deny or record. Nothing was "
        "changed. Take the condition out (registration.matchConditions of the chart), apply the policy, then put "
        "in what batchgate policy conditions prints for it"
    )
    _written(directory, a=WEB)
    for words in (("--yes",), ("--dry-run",)):
        refused = _apply(plane, directory, *words)
        assert (refused.exit_code, refused.stderr.splitlines()[-1]) == (2, refusal)
    assert plane.get(*NAME)["data"] == {"a.yaml": LAB}


def test_status_warns_of_a_condition_that_is_not_of_the_policy(
    plane: ControlPlane, config_map: PolicyMap, registration: str
) -> None:
    config_map.put({"a.yaml": WEB})
    wanted = f"policy-{_digest(WEB)}"
    reason = (
        f"it is not of the policy in force, whose condition is {wanted}: Jobs may be kept from the webhook. "
        "Take it out, or put in what batchgate policy conditions prints"
    )
    assert _conditions(plane) == (
        [{"name": registration, "fits": False, "reason": reason}],
        "",
        f"Warning: Match condition {registration}: {reason}",
    )

    config_map.delete()
    reason = f"whether it is of the policy in force cannot be told: {PLACE} is not to be seen"
    assert _conditions(plane) == (
        [{"name": registration, "fits": None, "reason": reason}],
        f"Match condition {registration}: {reason}",
        "",
    )


def test_who_may_not_see_the_registration_is_told(plane: ControlPlane, capsys: pytest.CaptureFixture[str]) -> None:
    _demand_fitting_conditions(connect(str(plane.kubeconfig(ADA.name))), policy.load({"a.yaml": WEB}))

    said = capsys.readouterr().err
    assert said.startswith(
        "Warning: whether MutatingWebhookConfiguration batchgate leaves out Jobs by another policy cannot be looked at: "
    )
    assert "forbidden" in said
