"""What the chart makes, in each mode, on a real API server; what its Pods demand; in which namespace it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane.plane import ControlPlane
from router.errors import ConfigError
from tests.chart import foreign
from tests.chart.rendering import CHART, NEEDED, ROOT, helm, objects, template
from tests.chart.test_options import AGENT, VALUES, pod_specs
from tests.since import OURS

Json = dict[str, Any]
CA = "QSBDQQ=="
OTHERS = {"cert-manager.io/v1", "monitoring.coreos.com/v1"}
"""Kinds that another project brings: this API server does not know them."""
MODES: dict[str, Json] = {
    **VALUES,
    "Ignore": NEEDED | {"registration": {"failurePolicy": "Ignore", "timeoutSeconds": 2}},
    "opt-out": NEEDED | {"registration": {"namespaces": "opt-out"}},
    "conditions of the policy": NEEDED
    | {
        "certificates": {"mode": "existing", "existing": {"caBundle": CA}},
        "registration": {"matchConditions": [{"name": "large", "expression": "object.spec.?parallelism.orValue(1) > 1"}]},
    },
    "cert-manager": NEEDED | {"certificates": {"mode": "cert-manager"}},
    "cert-manager with another issuer": NEEDED
    | {"certificates": {"mode": "cert-manager", "certManager": {"issuerRef": {"name": "ours", "kind": "ClusterIssuer"}}}},
    "existing certificates": NEEDED | {"certificates": {"mode": "existing", "existing": {"caBundle": CA}}},
    "behind switches": NEEDED
    | {
        "agents": [AGENT],
        "network": {"enabled": True, "apiServer": ["192.0.2.10/32", "2001:db8::/64"]},
        "quota": {"enabled": OURS >= 36},  # which the chart refuses before
        "pullSecrets": {"enabled": True, "namespaces": ["default"]},
        "secrets": {"enabled": True, "namespaces": ["default"]},
        "tokens": {"enabled": True, "namespaces": ["default"]},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}, "dashboards": {"enabled": True}},
        "imagePullSecrets": ["registry"],
        "webhook": {
            "tolerations": [{"key": "a", "operator": "Exists"}],
            "nodeSelector": {"a": "b"},
            "priorityClassName": "system-cluster-critical",
            "podAnnotations": {"a": "b"},
            "podLabels": {"a": "b"},
        },
    },
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_the_api_server_takes_it(plane: ControlPlane, mode: str) -> None:
    found = [one for one in objects(MODES[mode]) if one["apiVersion"] not in OTHERS]

    plane.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(found))


def test_policies_of_the_release_are_handed_over_before_it_ceases_to_bring_them(
    plane: ControlPlane, namespace: str
) -> None:
    """Helm would delete them, and no replica of the webhook would start again."""
    here = ("-n", namespace)
    marks = (f"meta.helm.sh/release-namespace={namespace}", "meta.helm.sh/release-name=batchgate")
    plane.kubectl(*here, "create", "configmap", "batchgate-policies")
    values = "existingPolicies=true,image.repository=r"
    options = ("batchgate", str(CHART), "--namespace", namespace, "--dry-run=server", "--is-upgrade", "--set", values)
    words = (
        f"Hand it over first: kubectl -n {namespace} annotate configmap batchgate-policies helm.sh/resource-policy=keep"
    )

    def refusal() -> bool:
        return words in helm("template", *options, kubeconfig=plane.kubeconfig()).stderr

    somebody_elses = refusal()
    plane.kubectl(*here, "annotate", "configmap", "batchgate-policies", *marks)
    ours = refusal()
    plane.kubectl(*here, "annotate", "configmap", "batchgate-policies", "helm.sh/resource-policy=keep")
    kept = refusal()

    assert (somebody_elses, ours, kept) == (False, True, False)


@pytest.fixture(scope="module")
def extended(plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the kinds of cert-manager and the Prometheus operator; no controller of them runs."""
    try:
        files = [f"--filename={file}" for file in foreign.definitions()]
    except ConfigError as error:
        pytest.skip(f"the definitions of others' kinds cannot be had: {error}")
    plane.kubectl("apply", "--server-side", *files)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=2m", *files)
    yield plane
    plane.kubectl("delete", "--wait=false", *files)


@pytest.mark.parametrize("mode", ["cert-manager", "cert-manager with another issuer", "behind switches"])
def test_the_api_server_takes_kinds_of_others(extended: ControlPlane, mode: str) -> None:
    found = [one for one in objects(MODES[mode]) if one["apiVersion"] in OTHERS]

    assert found
    extended.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(found))


@pytest.mark.parametrize("mode", VALUES)
def test_its_pods_are_allowed_in_a_restricted_namespace(plane: ControlPlane, mode: str) -> None:
    for owner, spec in pod_specs(objects(VALUES[mode])).items():
        # Accounts of hooks are there only while the hook runs.
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": owner},
            "spec": {**spec, "serviceAccountName": "default", "restartPolicy": "Never"},
        }
        where = f"--namespace={names.SYSTEM_NAMESPACE}"
        plane.kubectl("create", where, "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


@pytest.mark.parametrize("mode", MODES)
def test_it_goes_by_the_namespace_that_it_is_installed_in(mode: str) -> None:
    done = template(MODES[mode], "--namespace=elsewhere")
    found = [one for one in yaml.safe_load_all(done.stdout) if one is not None]
    places = {one["metadata"]["namespace"] for one in found if "namespace" in one["metadata"]}
    bound = {
        subject["namespace"]
        for one in found
        for subject in one.get("subjects", ())
    }  # fmt: skip

    assert names.SYSTEM_NAMESPACE not in json.dumps(found)
    assert places <= {"elsewhere", "kube-node-lease", "kube-system", "default"}
    assert bound == {"elsewhere"}


def test_a_registration_that_a_job_completes_names_no_webhook() -> None:
    by_kind = {one["kind"]: one for one in objects(NEEDED, ["registration"])}
    kept = {one["kind"]: one for one in objects(NEEDED | {"certificates": {"takeOver": True}}, ["registration"])}

    assert len(kept["MutatingWebhookConfiguration"]["webhooks"]) == 1
    assert "webhooks" not in by_kind["MutatingWebhookConfiguration"]
    (webhook,) = yaml.safe_load(by_kind["ConfigMap"]["data"]["webhooks.yaml"])
    assert webhook["clientConfig"] == {
        "service": {"name": "batchgate", "namespace": names.SYSTEM_NAMESPACE, "path": "/mutate"}
    }


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("chosen", ["opt-in", "opt-out"])
def test_the_registration_is_the_same_whoever_writes_it(policy: str, chosen: str) -> None:
    registration = {"registration": {"failurePolicy": policy, "namespaces": chosen}}
    existing = {"certificates": {"mode": "existing", "existing": {"caBundle": CA}}}
    by_kind = {one["kind"]: one for one in objects(NEEDED | registration, ["registration"])}
    (by_job,) = yaml.safe_load(by_kind["ConfigMap"]["data"]["webhooks.yaml"])
    found = {one["kind"]: one for one in objects(NEEDED | registration | existing, ["registration"])}
    (by_chart,) = found["MutatingWebhookConfiguration"]["webhooks"]

    assert by_chart["clientConfig"].pop("caBundle") == CA
    assert by_job == by_chart
    assert by_job["failurePolicy"] == policy


def test_policies_are_taken_as_they_are_written() -> None:
    files = {path.name: path.read_text() for path in (ROOT / "policies").glob("*.yaml")}
    found = objects(NEEDED | {"existingPolicies": False, "policies": files}, ["policies"])

    assert [(one["metadata"]["name"], one["data"]) for one in found] == [("batchgate-policies", files)]
