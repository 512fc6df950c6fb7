"""manifests/ on a real API server: what a user would apply is taken as it is, and asks for the least."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from router import names
from router.controlplane import installing
from router.controlplane.installing import MANIFESTS
from router.controlplane.plane import CommandFailed, ControlPlane

Json = dict[str, Any]
SYSTEM = f"--namespace={names.SYSTEM_NAMESPACE}"


def built(plane: ControlPlane, folder: Path) -> list[Json]:
    """What kustomize makes of a folder."""
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    return [one for one in objects if one["kind"] == kind]


def overlay(plane: ControlPlane, directory: Path, folder: str) -> Path:
    """The overlay that the README describes: the folder, with the Service and a CA."""
    directory.mkdir()
    ca = base64.b64encode(plane.ca_file.read_bytes()).decode()
    service = {"name": "batchgate", "namespace": names.SYSTEM_NAMESPACE}

    def patch(kind: str, path: str) -> dict[str, Any]:
        client = {"service": {**service, "path": path}, "caBundle": ca}
        change = [{"op": "add", "path": "/webhooks/0/clientConfig", "value": client}]
        return {"target": {"kind": kind}, "patch": yaml.safe_dump(change)}

    relative = Path(*[".."] * len(directory.resolve().parts[1:])) / (MANIFESTS / folder).relative_to("/")
    kustomization = {
        "resources": [str(relative)],
        "patches": [
            patch("MutatingWebhookConfiguration", "/mutate"),
            patch("ValidatingWebhookConfiguration", "/policy"),
        ],
    }
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    return directory


@pytest.mark.parametrize("folder", ["base", "webhook"])
def test_a_folder_is_taken_and_taken_again_without_a_change(plane: ControlPlane, folder: str) -> None:
    plane.kubectl("apply", "-k", str(MANIFESTS / folder))

    assert plane.run_kubectl("diff", "-k", str(MANIFESTS / folder)).stdout == ""
    plane.kubectl("apply", "-k", str(MANIFESTS / folder))
    if folder == "webhook":
        plane.kubectl("delete", "-k", str(MANIFESTS / folder))


def test_the_webhooks_pods_are_allowed_where_they_run(plane: ControlPlane) -> None:
    """The namespace enforces the restricted Pod security standard."""
    (deployment,) = of_kind(built(plane, MANIFESTS / "webhook"), "Deployment")
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "probe", **template["metadata"]},
        "spec": template["spec"],
    }

    plane.kubectl("create", SYSTEM, "--dry-run=server", "-f", "-", stdin=json.dumps(pod))

    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(CommandFailed, match="violates PodSecurity"):
        plane.kubectl("create", SYSTEM, "--dry-run=server", "-f", "-", stdin=json.dumps(pod))


def test_the_webhooks_arguments_are_options_that_it_has(plane: ControlPlane) -> None:
    from router.webhook.command import webhook  # noqa: PLC0415 - the rest of this module needs no web server

    (deployment,) = of_kind(built(plane, MANIFESTS / "webhook"), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    options = {name for parameter in webhook.params for name in parameter.opts}

    assert command == webhook.name
    assert {argument.partition("=")[0] for argument in arguments} <= options
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    paths = {argument.partition("=")[2] for argument in arguments if argument.partition("=")[2].startswith("/")}
    assert {f"/{path.split('/')[1]}" for path in paths} == mounted


def test_the_registration_is_refused_until_it_has_a_ca(plane: ControlPlane, tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="illegal base64 data"):
        plane.kubectl("apply", "-k", str(MANIFESTS / "registration"), "--dry-run=server")

    for folder in ("registration", "opt-out"):
        plane.kubectl("apply", "-k", str(overlay(plane, tmp_path / folder, folder)), "--dry-run=server")


@pytest.mark.parametrize(
    ("folder", "operator", "value"),
    [("registration", "In", names.GATE_ENABLED), ("opt-out", "NotIn", names.GATE_DISABLED)],
)
def test_the_clusters_own_namespaces_are_left_alone(
    plane: ControlPlane, folder: str, operator: str, value: str
) -> None:
    """Whatever labels they have: a cluster whose own Jobs wait for the webhook might not be able to start it."""
    (registration,) = of_kind(built(plane, MANIFESTS / folder), "MutatingWebhookConfiguration")
    (webhook,) = registration["webhooks"]

    assert webhook["namespaceSelector"] == {
        "matchExpressions": [
            {"key": names.LABEL_GATE, "operator": operator, "values": [value]},
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": ["kube-system", "kube-public", "kube-node-lease", names.SYSTEM_NAMESPACE],
            },
        ]
    }


def test_jobs_are_guarded_exactly_where_the_webhook_is_not_asked(plane: ControlPlane) -> None:
    """The guard's bindings match what the registration's selector does not."""
    turned = {"NotIn": "In", "In": "NotIn"}
    for folder, guards in (("registration", "guards"), ("opt-out", "opt-out")):
        (registration,) = of_kind(built(plane, MANIFESTS / folder), "MutatingWebhookConfiguration")
        asked = registration["webhooks"][0]["namespaceSelector"]["matchExpressions"]
        bindings = of_kind(built(plane, MANIFESTS / guards), "ValidatingAdmissionPolicyBinding")
        guarded = [
            one["spec"]["matchResources"]["namespaceSelector"]["matchExpressions"]
            for one in bindings
            if one["spec"]["policyName"] == "jobs.batchgate.dev"
        ]

        # Not (a and b) is (not a) or (not b): a binding for each.
        expected = [[{**one, "operator": turned[one["operator"]]}] for one in asked]
        assert sorted(guarded, key=str) == sorted(expected, key=str)


def test_the_network_policy_is_refused_until_it_has_addresses_and_is_of_the_webhooks_ports(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """The overlay is the one of docs/operating.md."""
    with pytest.raises(CommandFailed, match=r"invalid CIDR|must be a valid CIDR|Invalid value"):
        plane.kubectl("apply", "-k", str(MANIFESTS / "network"), "--dry-run=server")

    page = (MANIFESTS.parent / "docs" / "operating.md").read_text()
    written = page.partition("# site/network/kustomization.yaml\n")[2].partition("```")[0]
    (tmp_path / "manifests").symlink_to(MANIFESTS)
    site = tmp_path / "site" / "network"
    site.mkdir(parents=True)
    (site / "kustomization.yaml").write_text(written)
    plane.kubectl("apply", "-k", str(site), "--dry-run=server")

    (policy,) = built(plane, site)
    (deployment,) = of_kind(built(plane, MANIFESTS / "webhook"), "Deployment")
    template = deployment["spec"]["template"]
    ports = {port["name"]: port["containerPort"] for port in template["spec"]["containers"][0]["ports"]}
    asked, scraped = policy["spec"]["ingress"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    assert [one["ipBlock"]["cidr"] for one in asked["from"]] == ["192.0.2.10/32", "192.0.2.11/32"]
    assert [ports[one["port"]] for one in (*asked["ports"], *scraped["ports"])] == [8443, 9443]


MAY = {
    names.AGENT_ACCOUNT: [
        "get nodes",
        "create nodes",
        "patch nodes --subresource=status",
        "list pods --all-namespaces",
        "patch pods --subresource=status -n default",
        "delete pods -n default",
        "create pods --subresource=binding -n default",
        "get jobs.batch -n default",
        "get configmaps -n default",
        "create events -n default",
        "update leases.coordination.k8s.io -n kube-node-lease",
        f"update leases.coordination.k8s.io {SYSTEM}",
        "create tokenreviews.authentication.k8s.io",
        "create subjectaccessreviews.authorization.k8s.io",
        "create certificatesigningrequests.certificates.k8s.io",
        "get configmaps/extension-apiserver-authentication -n kube-system",
        "get namespaces/kube-system",
        f"patch configmaps/{names.QUEUES_CONFIG_MAP} {SYSTEM}",
        f"patch configmaps/{names.CHECKS_CONFIG_MAP} {SYSTEM}",
        f"patch configmaps/{names.PUBLIC_CONFIG_MAP} {SYSTEM}",
    ],
    names.WEBHOOK_ACCOUNT: [
        "watch namespaces",
        "watch limitranges --all-namespaces",
        "watch resourcequotas --all-namespaces",
        "watch runtimeclasses.node.k8s.io",
        f"watch configmaps/{names.QUEUES_CONFIG_MAP} {SYSTEM}",
    ],
}
MAY_NOT = {
    names.AGENT_ACCOUNT: [
        "get secrets -n default",
        f"get secrets {SYSTEM}",
        "create pods -n default",
        "patch pods -n default",
        "list jobs.batch --all-namespaces",
        "delete nodes",
        "create jobs.batch -n default",
        "patch jobs.batch -n default",
        "list configmaps -n default",
        "update configmaps -n kube-system",
        f"patch configmaps {SYSTEM}",
        "create serviceaccounts --subresource=token -n default",
        "create pods --subresource=exec -n default",
        "approve certificatesigningrequests.certificates.k8s.io",
        "update certificatesigningrequests.certificates.k8s.io --subresource=approval",
        "list namespaces",
        "update leases.coordination.k8s.io -n kube-system",
        "impersonate users",
    ],
    names.WEBHOOK_ACCOUNT: [
        "get secrets -n default",
        f"get configmaps {SYSTEM}",
        f"patch configmaps/{names.QUEUES_CONFIG_MAP} {SYSTEM}",
        f"patch configmaps/{names.CHECKS_CONFIG_MAP} {SYSTEM}",
        f"patch configmaps/{names.PUBLIC_CONFIG_MAP} {SYSTEM}",
        "watch nodes",
        "list pods --all-namespaces",
        "create pods -n default",
        "patch nodes",
        "patch namespaces",
        "patch resourcequotas -n default",
        "get jobs.batch -n default",
    ],
}


@pytest.mark.parametrize("account", MAY)
def test_accounts_may_what_they_need_and_no_more(plane: ControlPlane, account: str) -> None:
    user = f"system:serviceaccount:{names.SYSTEM_NAMESPACE}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{names.SYSTEM_NAMESPACE}", "system:authenticated"]
    reviews = {words: (words in MAY[account]) for words in (*MAY[account], *MAY_NOT[account])}

    answers = {words: _allowed(plane, user, groups, words) for words in reviews}

    assert answers == reviews


def _allowed(plane: ControlPlane, user: str, groups: list[str], words: str) -> bool:
    who = [f"--as={user}", *(f"--as-group={group}" for group in groups)]
    return plane.run_kubectl("auth", "can-i", *words.split(), *who).stdout.strip() == "yes"


def test_what_the_plane_is_given_is_what_the_manifests_say(plane: ControlPlane) -> None:
    """The registration that tests and the demo use differs from a user's in the address and the CA only."""
    directory = plane.directory / "registration-probe"
    made = installing.overlay(directory, "https://127.0.0.1:1", plane.ca_file)
    ours, theirs = built(plane, made), built(plane, MANIFESTS / "registration")

    clients = [one["webhooks"][0].pop("clientConfig") for one in ours]
    for one in theirs:
        del one["webhooks"][0]["clientConfig"]
    assert ours == theirs
    assert {one["url"] for one in clients} == {"https://127.0.0.1:1/mutate", "https://127.0.0.1:1/policy"}
