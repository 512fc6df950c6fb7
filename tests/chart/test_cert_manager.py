"""The chart beside cert-manager: what Helm applies, what the CA injector fills in, which certificates are issued anew.

Helm 4 and cert-manager's programs apply on the server's side, each as a manager of fields of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from router import names
from router.certs import ensuring, issuing
from router.controlplane.plane import ControlPlane
from tests.chart.rendering import NEEDED, objects

Json = dict[str, Any]
MODE = NEEDED | {"certificates": {"mode": "cert-manager"}}
SWITCHING = MODE | {"registration": {"switching": True}}
CA = base64.b64encode(b"-----BEGIN CERTIFICATE-----\n").decode()
KIND = "mutatingwebhookconfigurations"
SERVICE = f"{names.SERVICE}.{names.SYSTEM_NAMESPACE}.svc"
CREATED = (SERVICE,)
"""The name that the pages say to give to `certs create`."""


def registrations(values: Json) -> list[Json]:
    return [one for one in objects(values, ["registration"]) if one["kind"] == "MutatingWebhookConfiguration"]


def applied(plane: ControlPlane, manager: str, found: list[Json], *words: str) -> None:
    """Apply as this manager, on the server's side."""
    text = yaml.safe_dump_all(found)
    plane.kubectl("apply", "--server-side", f"--field-manager={manager}", *words, "-f", "-", stdin=text)


def injected(plane: ControlPlane) -> None:
    """As the CA injector does it: names and caBundle of each webhook, by force."""
    for one in plane.get(KIND)["items"]:
        client = {"clientConfig": {"caBundle": CA}}
        webhooks = [{"name": webhook["name"], **client} for webhook in one["webhooks"]]
        body = {key: one[key] for key in ("apiVersion", "kind")} | {"metadata": {"name": one["metadata"]["name"]}}
        applied(plane, "cert-manager-cainjector", [body | {"webhooks": webhooks}], "--force-conflicts")


def upgraded(plane: ControlPlane, before: Json, after: Json) -> None:
    """What Helm does to the registrations in an upgrade."""
    applied(plane, "helm", registrations(after))
    kept = {one["metadata"]["name"] for one in registrations(after)}
    for name in {one["metadata"]["name"] for one in registrations(before)} - kept:
        plane.kubectl("delete", KIND, name)


@pytest.fixture
def registered(plane: ControlPlane) -> Iterator[ControlPlane]:
    """With the registration, and the CA in it."""
    applied(plane, "helm", registrations(MODE))
    injected(plane)
    yield plane
    plane.kubectl("delete", KIND, "--all")


def test_the_switch_between_opt_in_and_opt_out_begins_and_ends(registered: ControlPlane) -> None:
    """An entry whose caBundle is another manager's cannot be taken out of a list, so it is in an object of its own."""
    upgraded(registered, MODE, SWITCHING)
    injected(registered)
    found = {
        one["metadata"]["name"]: [each["name"] for each in one["webhooks"]] for one in registered.get(KIND)["items"]
    }
    upgraded(registered, SWITCHING, MODE)
    (left,) = registered.get(KIND)["items"]

    assert found == {"batchgate": ["jobs.batchgate.dev"], "batchgate-switching": ["switching.jobs.batchgate.dev"]}
    assert [(one["name"], one["clientConfig"]["caBundle"]) for one in left["webhooks"]] == [("jobs.batchgate.dev", CA)]


def test_both_parts_of_the_switch_are_those_of_the_other_modes() -> None:
    existing = SWITCHING | {"certificates": {"mode": "existing", "existing": {"caBundle": CA}}}
    (whole,) = registrations(existing)
    for one in whole["webhooks"]:
        del one["clientConfig"]["caBundle"]
    parts = registrations(SWITCHING)

    assert [one for part in parts for one in part["webhooks"]] == whole["webhooks"]
    assert {part["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] for part in parts} == {
        f"{names.SYSTEM_NAMESPACE}/batchgate-webhook"
    }


def named(certificate: x509.Certificate) -> set[str]:
    """What cert-manager compares with a Certificate before it has issued one: common and alternative names together."""
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return {*alternative.get_values_for_type(x509.DNSName), *(str(one.value) for one in common)}


@pytest.mark.parametrize("hosts", [CREATED, ensuring.host_names(names.SERVICE, names.SYSTEM_NAMESPACE)])
def test_a_certificate_that_others_made_is_issued_anew(hosts: tuple[str, ...]) -> None:
    """cert-manager keeps a Secret whose certificate has the demanded names, and its injector then takes no CA from it."""
    now = datetime.now(UTC)
    made = issuing.make_server_certificate(issuing.make_ca(now), hosts, now)
    (asked,) = (
        one["spec"] for one in objects(MODE, ["cert-manager"]) if one["metadata"]["name"] == "batchgate-webhook"
    )

    assert SERVICE in asked["dnsNames"]
    assert named(x509.load_pem_x509_certificate(made.public)) != {*asked["dnsNames"]}


def test_an_issuer_may_be_of_another_project() -> None:
    issuer = {"name": "ours", "kind": "AWSPCAIssuer", "group": "awspca.cert-manager.io"}
    values = {"certificates": {"mode": "cert-manager", "certManager": {"issuerRef": issuer}}}
    (found,) = objects(NEEDED | values, ["cert-manager"])

    assert found["spec"]["issuerRef"] == issuer
