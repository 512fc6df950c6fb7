"""`certs ensure` on a real API server, as its own service account."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cryptography import x509

from router import names
from router.certs import checking
from router.placement import signing
from tests.certs.conftest import SYSTEM, Installed, webhook
from tests.webhook.servers import until

HOSTS = (f"batchgate.{SYSTEM}.svc", f"batchgate.{SYSTEM}.svc.cluster.local", f"batchgate.{SYSTEM}")


def job(name: str = "probe", cpus: str = "4") -> str:
    resources = {"requests": {"cpu": cpus, "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    container = {"name": "c", "image": "docker.io/library/busybox", "command": ["true"], "resources": resources}
    return json.dumps(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "gated"},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
        }
    )


def test_all_is_made_once(installed: Installed) -> None:
    code, said = installed.certs("ensure")

    assert code == 0, said
    lines = [line for line in said.splitlines() if not line.startswith("Next, ")]
    key_id = signing.key_id(signing.load_private(installed.secret(names.WEBHOOK_SIGNING)["signing.key"]).public_key())
    assert lines == [
        "Secret batchgate-signing-key: made a key",
        f"ConfigMap batchgate-public-keys: public key {key_id} joined",
        "Secret batchgate-signing-key: noted which keys are trusted and which one signs",
        "Secret batchgate-webhook-ca: made a CA",
        "Secret batchgate-webhook-tls: made a server certificate",
        "Secret batchgate-webhook-ca: noted which CAs are trusted and which certificate is served",
    ]
    authority, tls = installed.secret(names.WEBHOOK_CA), installed.secret(names.WEBHOOK_TLS)
    certificate = x509.load_pem_x509_certificate(tls["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority["ca.crt"]))
    assert checking.host_names_of(certificate) == HOSTS
    assert tls["ca.crt"] == authority["ca.crt"]
    assert list(signing.load_public(installed.config_map(names.PUBLIC_KEYS_CONFIG_MAP)["signing.pub"].encode())) == [
        key_id
    ]

    code, said = installed.certs("ensure")

    assert code == 0
    assert [line for line in said.splitlines() if not line.startswith("Next, ")] == []
    assert installed.secret(names.WEBHOOK_TLS) == tls


def test_the_registration_becomes_active_once_the_webhook_answers(installed: Installed, tmp_path: Path) -> None:
    assert installed.certs("ensure")[0] == 0
    code, said = installed.certs("ensure", "--activate", "--wait", "2s")
    assert code == 2
    assert f"Service {SYSTEM}/batchgate does not answer after 2 s" in said
    assert installed.webhooks() == []
    installed.plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=job())

    with webhook(installed, tmp_path):
        code, said = installed.certs("ensure", "--activate", "--wait", "60s")
        assert (code, said.splitlines()[-1]) == (0, "MutatingWebhookConfiguration batchgate: 1 webhook, active now")
        done = until(lambda: routed(installed))
        assert done["metadata"]["labels"][names.KEY_TARGET] == "hpc"

        code, said = installed.certs("ensure", "--activate", "--wait", "60s")
        assert said.splitlines()[-1] == "MutatingWebhookConfiguration batchgate: 1 webhook, there already"


def routed(installed: Installed) -> dict[str, dict[str, dict[str, str]]]:
    done = installed.plane.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=job())
    made: dict[str, dict[str, dict[str, str]]] = json.loads(done.stdout)
    return made if names.KEY_TARGET in made["metadata"].get("labels", {}) else {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", ", line 1: no YAML: "),
        ("{}", ": must be a list of webhooks"),
        ("[]", ": must be a list of webhooks"),
        ("[3]", ": [0]: must be a webhook"),
        ("[{clientConfig: {}}]", ": [0].name: must be given"),
        ("[{name: a.b.c}]", ": [0].clientConfig: must name the Service"),
        ("[{name: a.b.c, clientConfig: {caBundle: x}}]", ": [0].clientConfig.caBundle: leave it out"),
    ],
)
def test_what_is_no_list_of_webhooks_is_refused(text: str, problem: str) -> None:
    from router.certs.activation import webhooks_of  # noqa: PLC0415
    from router.errors import ConfigError  # noqa: PLC0415

    with pytest.raises(ConfigError) as caught:
        webhooks_of(text, "ConfigMap x/y, webhooks.yaml")

    assert str(caught.value).startswith(f"ConfigMap x/y, webhooks.yaml{problem}")
