"""A change of the policy's ConfigMap, through kubectl and a real API server that asks the webhook."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from router import names
from router.controlplane.plane import ControlPlane
from tests.kube.wire import await_true
from tests.policymap import BAD, GOOD, OTHER, PolicyMap, policy_map
from tests.webhook.servers import Server

WORDS = (
    'admission webhook "policies.batchgate.dev" denied the request: '
    "the policy does not check, so nothing was changed (batchgate policy check DIR tells the same): "
    "a.yaml:2:18: rule rest: unknown key 'clod'; did you mean 'cloud'?"
)


@pytest.fixture
def config_map(plane: ControlPlane, webhook: Server) -> Iterator[PolicyMap]:
    """The ConfigMap, once the API server asks the webhook about it."""
    with policy_map(plane) as found:
        words = ("create", "--dry-run=server", "-f", "-")
        await_true(lambda: plane.run_kubectl(*words, stdin=found.document({"a.yaml": BAD})).returncode, "a refusal")
        yield found


def _refusal(plane: ControlPlane, *words: str, sent: str = "") -> str:
    done = plane.run_kubectl(*words, stdin=sent)
    assert done.returncode == 1, done
    return done.stderr.strip()


def test_a_broken_policy_is_refused_and_a_repaired_one_taken(plane: ControlPlane, config_map: PolicyMap) -> None:
    assert _refusal(plane, "create", "-f", "-", sent=config_map.document({"a.yaml": BAD})).endswith(WORDS)

    config_map.put({"a.yaml": GOOD})
    assert _refusal(plane, "replace", "-f", "-", sent=config_map.document({"a.yaml": BAD})).endswith(WORDS)
    patch = json.dumps({"data": {"a.yaml": BAD}})
    name = ("configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICIES_CONFIG_MAP)
    assert _refusal(plane, "patch", *name, "--type=merge", "-p", patch).endswith(WORDS)

    config_map.change({"a.yaml": OTHER})
    assert plane.get(*name)["data"] == {"a.yaml": OTHER}
    plane.kubectl("delete", *name)


def test_other_config_maps_and_changes_of_labels_are_not_asked_about(
    plane: ControlPlane, webhook: Server, config_map: PolicyMap
) -> None:
    config_map.put({"a.yaml": GOOD})
    before = len(webhook.logged("policy review"))
    name = ("configmap", "-n", names.SYSTEM_NAMESPACE, names.POLICIES_CONFIG_MAP)

    plane.kubectl("label", *name, "team=platform")
    plane.kubectl("create", "configmap", "other", "-n", names.SYSTEM_NAMESPACE, "--from-literal=a.yaml=rules")
    plane.kubectl("delete", "configmap", "other", "-n", names.SYSTEM_NAMESPACE)

    assert len(webhook.logged("policy review")) == before


def test_each_review_is_one_line_and_counted(plane: ControlPlane, webhook: Server, config_map: PolicyMap) -> None:
    before = webhook.metrics().get('batchgate_policy_reviews_total{allowed="true"}', 0)

    config_map.put({"a.yaml": GOOD})

    line = webhook.logged("policy review")[-1]
    told = {key: line[key] for key in ("operation", "namespace", "name", "dry_run", "allowed", "reason")}
    assert told == {
        "operation": "CREATE",
        "namespace": names.SYSTEM_NAMESPACE,
        "name": names.POLICIES_CONFIG_MAP,
        "dry_run": False,
        "allowed": True,
        "reason": "",
    }
    assert webhook.metrics()['batchgate_policy_reviews_total{allowed="true"}'] == before + 1
