"""From cert-manager to `certs ensure` and back, on a real API server, with objects as cert-manager writes them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from router import names
from router.certs import ensuring, issuing, objects
from router.certs.ensuring import Target
from router.certs.issuing import Pair
from router.certs.rotation import Rules
from router.kube.client import connect
from tests.certs.conftest import SYSTEM, Installed, webhook
from tests.certs.test_ensure import HOSTS, SOON, dry_run, job
from tests.chart import rendering
from tests.webhook.servers import until

Json = dict[str, Any]
MARKS = {
    "cert-manager.io/alt-names": HOSTS[0],
    "cert-manager.io/certificate-name": "batchgate-webhook",
    "cert-manager.io/common-name": "",
    "cert-manager.io/ip-sans": "",
    "cert-manager.io/issuer-group": "",
    "cert-manager.io/issuer-kind": "Issuer",
    "cert-manager.io/issuer-name": "batchgate-webhook-ca",
    "cert-manager.io/uri-sans": "",
}
FAO = "controller.cert-manager.io/fao"
ISSUING = (
    "apply",
    "--server-side",
    "--force-conflicts",
    "--field-manager=cert-manager-certificates-issuing",
    "-f",
    "-",
)
REGISTRATIONS = ("mutatingwebhookconfiguration", "validatingwebhookconfiguration")


def issued(installed: Installed) -> Pair:
    """The Secret as cert-manager's controller applies it, and the CA as its injector does; returns the CA."""
    now = datetime.now(UTC)
    authority = issuing.make_ca(now, 3650)
    server = issuing.make_server_certificate(authority, HOSTS[:1], now, 90)
    data = {"tls.crt": server.public, "tls.key": server.private, "ca.crt": authority.public}
    body = objects.secret(names.WEBHOOK_TLS, SYSTEM, data, "kubernetes.io/tls")
    body["metadata"] |= {"annotations": MARKS, "labels": {FAO: "true"}}
    installed.plane.kubectl(*ISSUING, stdin=json.dumps(body))
    for kind in REGISTRATIONS:
        found = installed.plane.get(kind, names.REGISTRATION)
        found["webhooks"] = objects.with_bundle(found["webhooks"], authority.public)
        installed.plane.kubectl("replace", "-f", "-", stdin=json.dumps(found))
    return authority


def registered(installed: Installed) -> None:
    """The registrations of the chart's mode cert-manager."""
    values = rendering.NEEDED | {"certificates": {"mode": "cert-manager"}}
    for one in rendering.objects(values, ["registration"]):
        installed.plane.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump(one))


@pytest.fixture
def kept(installed: Installed) -> Iterator[Installed]:
    """A cluster whose certificate cert-manager keeps; the signing key is made, as by hand."""
    registered(installed)
    issued(installed)
    code, said = installed.certs("ensure", "--cert-manager=leave")
    assert (code, "made a key" in said, "made a CA" in said) == (0, True, False), said
    yield installed
    installed.forget()


def foreign(installed: Installed) -> list[str]:
    """The objects that have marks of cert-manager."""
    found = [installed.plane.get("secret", names.WEBHOOK_TLS, "-n", SYSTEM)]
    found += [installed.plane.get(kind, names.REGISTRATION) for kind in REGISTRATIONS]
    return [
        one["kind"]
        for one in found
        if any(
            "cert-manager.io/" in key for part in ("labels", "annotations") for key in one["metadata"].get(part) or ()
        )
    ]


def trusted(installed: Installed) -> set[bytes]:
    """The CAs that API servers trust, each in PEM."""
    (one,) = installed.webhooks()
    client: Json = one["clientConfig"]  # type: ignore[assignment]
    bundle = x509.load_pem_x509_certificates(base64.b64decode(client["caBundle"]))
    return {found.public_bytes(Encoding.PEM) for found in bundle}


def test_nothing_is_touched_as_long_as_cert_manager_keeps_it(kept: Installed) -> None:
    before = kept.secret(names.WEBHOOK_TLS)
    code, said = kept.certs("ensure")

    assert (code, "certs ensure --cert-manager=take-over" in said) == (2, True)
    assert kept.certs("ensure", "--cert-manager=leave")[0] == 0
    assert (kept.secret(names.WEBHOOK_TLS), len(foreign(kept))) == (before, 3)


def test_the_watch_waits_for_what_a_person_must_mend(kept: Installed) -> None:
    with kept.start("ensure", "--watch", kubeconfig=kept.rotation) as process:
        assert process.stdout is not None
        assert "which keeps it" in (line := process.stdout.readline())
        assert line.endswith("trying again\n")
        assert process.poll() is None
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_it_is_taken_over_given_back_and_taken_over_again_without_a_gap(kept: Installed, tmp_path: Path) -> None:
    """The way back has a gap, which is cert-manager's: it drops the CA while the old certificate may still be served."""
    issued(kept)
    with webhook(kept, tmp_path) as (_, mounted):
        until(lambda: judged(kept))
        with mounted.following(0.5):
            first = taken_over(kept)
            assert trusted(kept) == {first}
            assert foreign(kept) == []

        registered(kept)
        theirs = issued(kept)
        assert kept.certs("ensure")[0] == 2
        mounted.sync()
        until(lambda: trusted(kept) == {theirs.public} and judged(kept))

        with mounted.following(0.5):
            assert taken_over(kept) == first


@pytest.mark.parametrize("mode", [{"mode": "cert-manager"}, {"mode": "existing", "existing": {"caBundle": "QQ=="}}])
def test_what_it_registered_may_be_changed_by_whoever_applies_the_registration(
    installed: Installed, tmp_path: Path, mode: Json
) -> None:
    """A server-side apply, as Helm's, fails where another manager owns a field that it changes."""
    assert installed.certs("ensure")[0] == 0
    with webhook(installed, tmp_path):
        assert installed.certs("ensure", "--activate", "--wait", "60s")[0] == 0
    values = rendering.NEEDED | {"certificates": mode, "registration": {"timeoutSeconds": 3, "failurePolicy": "Ignore"}}
    found = yaml.safe_dump_all(rendering.objects(values, ["registration"]))
    before = trusted(installed)
    installed.plane.kubectl("apply", "--server-side", "--field-manager=helm", "-f", "-", stdin=found)

    (one,) = installed.webhooks()
    assert (one["timeoutSeconds"], one["failurePolicy"]) == (3, "Ignore")
    assert mode["mode"] == "existing" or trusted(installed) == before


def judged(installed: Installed) -> bool:
    """Whether the API server asks the webhook; False also while it does not trust its certificate."""
    done = installed.plane.run_kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=job())
    return done.returncode == 0 and names.KEY_TARGET in json.loads(done.stdout)["metadata"].get("labels", {})


def taken_over(installed: Installed) -> bytes:
    """Take over, as the last Job of an upgrade does, and rotate until only our CA is left; returns it."""
    code, said = installed.certs("ensure", "--activate", "--cert-manager=take-over", "--wait", "60s")
    assert (code, said.count(": taken over from cert-manager")) == (0, 3), said
    assert len(trusted(installed)) == 2
    answers, did = list[str](), list[str]()
    rotation, admin = connect(str(installed.rotation)), connect(str(installed.plane.kubeconfig()))
    end = time.monotonic() + 120
    while len(trusted(installed)) > 1 and time.monotonic() < end:
        ensuring.ensure(rotation, Target(Rules(SYSTEM, HOSTS, SOON)), did.append)
        answers.append(dry_run(admin, "/apis/batch/v1/namespaces/gated/jobs", json.loads(job(f"probe-{len(answers)}"))))
    assert set(answers) == {"hpc"}
    return installed.secret(names.WEBHOOK_CA)["ca.crt"]
