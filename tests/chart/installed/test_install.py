"""From nothing to the first judged Job, an upgrade, a rollback and the end: one life, its tests in this order."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from router import names
from router.kube.client import connect
from tests.certs.arriving import EXPECTED, Arrivals, arriving, clean, each_met_one, prepare, sent
from tests.chart.installed.conftest import PAGE, Admin
from tests.deployed.conftest import blocks
from tests.kube.wire import await_true
from tests.webhook.real.gated import container, job, target, template_annotations

Json = dict[str, Any]
SYSTEM = f"--namespace={names.SYSTEM_NAMESPACE}"
HELM, UPGRADE, AWAY = "With Helm", "Upgrade and roll back", "Take it away"
SMALL = {"containers": [container(cpu="100m")]}


def lines(head: str) -> list[str]:
    """The commands of a part of the page."""
    return [line for block in blocks(PAGE, "sh", head) for line in block.splitlines()]


def named(head: str, start: str) -> str:
    """The command of a part of the page that begins so."""
    (found,) = (line for line in lines(head) if line.startswith(start))
    return found


def created(admin: Admin, sent: Json) -> Json:
    """A Job as ada creates it and as it is stored."""
    words = ("create", "-f", "-", "-o", "json", "-n", "physics")
    done = admin.plane.run_kubectl(*words, user="ada", stdin=json.dumps(sent))
    assert done.returncode == 0, f"{done.stderr}{admin.told()}"
    found: Json = json.loads(done.stdout)
    return found


def there(admin: Admin, kind: str, *words: str) -> list[str]:
    """The names of objects of ours of a kind."""
    return [
        one["metadata"]["name"]
        for one in admin.plane.get(kind, *words)["items"]
        if "batchgate" in one["metadata"]["name"]
    ]


def registered(admin: Admin) -> list[tuple[str, bool]]:
    """Of each webhook of the registration, its failure policy and whether it has a CA."""
    found = admin.plane.get("mutatingwebhookconfiguration", names.REGISTRATION).get("webhooks", [])
    return [(one["failurePolicy"], bool(one["clientConfig"].get("caBundle"))) for one in found]


@pytest.fixture(scope="module")
def installed(admin: Admin) -> Admin:
    """As the page says, without agents at first: their Secrets need the namespace."""
    admin.values({"agents": []})
    for line in lines(HELM):
        if line.startswith(("helm install", "kubectl label")):
            admin.type(line)
    return admin


@pytest.fixture(scope="module")
def upgraded(installed: Admin) -> Admin:
    """With agents, and another failure policy."""
    for line in lines(HELM):
        if re.match(r"kubectl -n \S+ create", line):
            installed.type(line)
    installed.values({"registration": {"failurePolicy": "Ignore"}})
    installed.type(named(UPGRADE, "helm upgrade"))
    return installed


@pytest.fixture(scope="module")
def back(upgraded: Admin) -> Admin:
    """As it was before the upgrade."""
    upgraded.type(named(UPGRADE, "helm rollback"))
    return upgraded


def test_the_webhook_judges_once_the_command_returns(installed: Admin) -> None:
    status = installed.plane.get("deployment", "batchgate-webhook", SYSTEM)["status"]
    large, small = (
        created(installed, job("large", suspend=True)),
        created(installed, job("small", pod=SMALL, suspend=True)),
    )

    assert (status["readyReplicas"], status["updatedReplicas"]) == (2, 2)
    assert registered(installed) == [("Fail", True)]
    assert (target(large), target(small)) == ("hpc", "cloud")
    assert names.KEY_SIGNATURE in template_annotations(large)


def test_nothing_of_the_hooks_is_left(installed: Admin) -> None:
    kinds = ("serviceaccounts", "roles", "rolebindings", "jobs.batch")
    found = {kind: there(installed, kind, SYSTEM) for kind in kinds}
    whole = there(installed, "clusterroles")

    assert found == {
        "serviceaccounts": ["batchgate-agent", "batchgate-rotation", "batchgate-webhook"],
        "roles": ["batchgate-agent", "batchgate-rotation", "batchgate-webhook"],
        "rolebindings": ["batchgate-agent", "batchgate-rotation", "batchgate-webhook"],
        "jobs.batch": [],
    }
    assert whole == ["batchgate-agent", "batchgate-rotation", "batchgate-webhook"]


def test_the_public_key_is_where_the_page_says(installed: Admin) -> None:
    (line,) = (line for line in lines(HELM) if "get configmap batchgate-public-keys" in line)
    installed.type(line)

    assert (installed.folder / "signing.pub").read_text().startswith("-----BEGIN PUBLIC KEY-----\n")


def test_an_agent_and_its_standby_run_in_the_cluster(upgraded: Admin) -> None:
    pods = upgraded.plane.get("pods", SYSTEM, "-l", "app.kubernetes.io/name=batchgate-agent")["items"]
    ready = [[one["ready"] for one in pod["status"]["containerStatuses"]] for pod in pods]
    place = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/pods"

    def leading() -> list[bool]:
        told = [
            upgraded.plane.kubectl("get", "--raw", f"{place}/http:{pod['metadata']['name']}:8080/proxy/readyz").stdout
            for pod in pods
        ]
        return sorted(json.loads(one)["leading"] for one in told)

    assert ready == [[True], [True]]
    await_true(lambda: leading() == [False, True], "one of the two leads")
    await_true(lambda: there(upgraded, "nodes") == ["batch.demo.batchgate"], "the queue has its Node")


def test_an_upgrade_changes_the_registration_at_its_end(upgraded: Admin) -> None:
    assert registered(upgraded) == [("Ignore", True)]


def test_an_upgrade_keeps_certificates_and_keys(installed: Admin, upgraded: Admin) -> None:
    """The webhook verifies what it signed before, so a changed key would refuse this."""
    upgraded.plane.kubectl("patch", "job", "large", "-n", "physics", "-p", '{"spec":{"suspend":false}}', user="ada")
    upgraded.plane.kubectl("patch", "job", "large", "-n", "physics", "-p", '{"spec":{"suspend":true}}', user="ada")


def test_a_rollback_brings_back_what_was(back: Admin) -> None:
    assert registered(back) == [("Fail", True)]
    assert there(back, "deployments", SYSTEM) == ["batchgate-rotation", "batchgate-webhook"]
    assert target(created(back, job("again", suspend=True))) == "hpc"


def test_an_upgrade_to_opt_out_and_one_back_leave_no_gap(back: Admin) -> None:
    prepare(back.plane)
    asker = Arrivals(connect(str(back.plane.kubeconfig())))
    await_true(lambda: asker.fate("switch-out", sent("4", forged=True)) == "guarded", "the guard knows the label")
    await_true(lambda: asker.fate("switch-in", sent("4", forged=False)) == "judged", "the webhook is asked")
    for namespaces in ("opt-out", "opt-in"):
        back.values({"agents": [], "registration": {"namespaces": namespaces}})
        with arriving(back.plane) as arrivals:
            back.type(named(UPGRADE, "helm upgrade"))
            await_true(lambda: each_met_one(arrivals) == EXPECTED, "each kind is met before and after")
        assert each_met_one(arrivals) == EXPECTED
    clean(back.plane)


def test_an_uninstall_leaves_what_the_page_says(back: Admin) -> None:
    back.plane.kubectl("delete", "jobs", "--all", "-n", "physics", "--wait=false")
    # The rollback took the agent away, which would have ended them.
    back.plane.kubectl("delete", "pods", "--all", "-n", "physics", "--force", "--grace-period=0")
    back.type(named(AWAY, "helm uninstall"))

    kinds = ("mutatingwebhookconfigurations", "validatingadmissionpolicies", "clusterroles", "clusterrolebindings")
    assert {kind: there(back, kind) for kind in kinds} == {kind: [] for kind in kinds}
    namespaced = ("deployments", "pods", "services", "serviceaccounts", "roles", "configmaps")
    await_true(lambda: there(back, "pods", SYSTEM) == [], "the Pods have ended")
    left = {kind: there(back, kind, SYSTEM) for kind in namespaced}
    assert left == {kind: [] for kind in namespaced} | {"configmaps": ["batchgate-public-keys"]}
    assert there(back, "secrets", SYSTEM) == ["batchgate-signing-key", "batchgate-webhook-ca", "batchgate-webhook-tls"]

    for row in re.findall(r"^\|.*`(kubectl [^`]+)`", PAGE.read_text(), re.MULTILINE):
        back.type(row)
    assert (there(back, "nodes"), there(back, "secrets", SYSTEM), there(back, "configmaps", SYSTEM)) == ([], [], [])
