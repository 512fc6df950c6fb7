"""`certs ensure` on a real API server, as its own service account."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509

from router import names
from router.certs import activation, checking, ensuring
from router.certs.ensuring import Target
from router.certs.rotation import Bounds, Lives, Rules
from router.errors import ApiError
from router.kube.client import Api, connect
from router.placement import signing
from tests.agent.whole.long import LONG
from tests.certs.conftest import SYSTEM, Installed, webhook
from tests.volumes import following
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
        "ValidatingWebhookConfiguration batchgate: caBundle set to the CA",
        "ValidatingWebhookConfiguration batchgate: its fields are left to whoever applies it",
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


def test_the_signing_key_is_replaced_on_demand_alone(installed: Installed) -> None:
    assert installed.certs("ensure")[0] == 0
    code, said = installed.certs("ensure", "--replace-signing-key")

    assert code == 0, said
    assert "made the next key" in said
    assert "until every agent trusts the next key" in said
    assert installed.certs("ensure")[1].count("made the next key") == 0


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


def test_two_at_once_make_one_set(installed: Installed) -> None:
    with contextlib.ExitStack() as ended:
        runs = [ended.enter_context(installed.start("ensure")) for _ in range(3)]
        said = [run.communicate(timeout=120)[0] for run in runs]

    assert [run.returncode for run in runs] == [0, 0, 0], said
    made = [line for text in said for line in text.splitlines() if ": made " in line]
    assert sorted(made) == [
        "Secret batchgate-signing-key: made a key",
        "Secret batchgate-webhook-ca: made a CA",
        "Secret batchgate-webhook-tls: made a server certificate",
    ]
    assert whole(installed)


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5, 6])
def test_one_that_was_killed_is_finished_by_the_next(installed: Installed, writes: int) -> None:
    with installed.start("ensure") as run:
        assert run.stdout is not None
        for _ in range(writes):
            run.stdout.readline()

    code, said = installed.certs("ensure")

    assert code == 0, said
    assert whole(installed)


def whole(installed: Installed) -> bool:
    """Whether certificate, CA and keys belong together."""
    authority, tls = installed.secret(names.WEBHOOK_CA), installed.secret(names.WEBHOOK_TLS)
    x509.load_pem_x509_certificate(tls["tls.crt"]).verify_directly_issued_by(
        x509.load_pem_x509_certificate(authority["ca.crt"])
    )
    signer = signing.load_signer(installed.secret(names.WEBHOOK_SIGNING)["signing.key"])
    public = signing.load_public(installed.config_map(names.PUBLIC_KEYS_CONFIG_MAP)["signing.pub"].encode())
    return public.keys() == signer.believed.keys() and tls["ca.crt"] == authority["ca.crt"]


SHORT = Lives(timedelta(seconds=54), timedelta(seconds=27), timedelta(seconds=40))
SOON = Bounds(timedelta(seconds=3), timedelta(seconds=9), timedelta(seconds=9))


def test_no_request_fails_while_all_is_replaced_again_and_again(installed: Installed, tmp_path: Path) -> None:
    """Lives of seconds; Secrets reach the webhook within a second, and the webhook looks every two.

    Rotation has a thread of its own: on a busy machine ten Jobs take longer than a certificate has left when its time has come.
    The test ends once CA and signing key were replaced twice, after a minute and a half; `make kill-test` goes on for four.
    """
    target = Target(Rules(SYSTEM, HOSTS, SOON, SHORT))
    api, did = connect(str(installed.rotation)), list[str]()
    ensuring.ensure(api, target, did.append)
    with webhook(installed, tmp_path) as (_, mounted), mounted.following(0.5):
        activation.activate(installed.api, target, "batchgate", 60, did.append)
        with following(lambda: ensuring.ensure(api, target, did.append), 0.5):
            until(lambda: routed(installed))
            admin, answers = connect(str(installed.plane.kubeconfig())), list[str]()
            path, end = "/apis/batch/v1/namespaces/gated/jobs", time.monotonic() + 240
            while time.monotonic() < end and (LONG or not replaced(did)):
                answers.append(dry_run(admin, path, json.loads(job(f"probe-{len(answers)}"))))

    assert set(answers) == {"hpc"}
    assert len(answers) > 100
    assert replaced(did), did


def replaced(did: list[str]) -> bool:
    """Whether CA and signing key were both replaced twice."""
    return all(sum(words in one for one in did) >= 2 for words in ("old CA is no longer trusted", "signs with key"))


def dry_run(admin: Api, path: str, made: dict[str, object]) -> str:
    """Where a Job would go, or the error. By an Api whose query the path cannot carry, so the Job itself is deleted."""
    try:
        done = admin.create(path, made)
    except ApiError as error:
        return str(error)
    admin.delete(f"{path}/{done['metadata']['name']}", grace=0, propagation="Background")
    return str(done["metadata"]["labels"].get(names.KEY_TARGET))


def test_the_watch_renews_what_is_missing_until_it_is_ended(installed: Installed) -> None:
    assert installed.certs("ensure")[0] == 0
    installed.plane.kubectl("delete", "configmap", names.PUBLIC_KEYS_CONFIG_MAP, "-n", SYSTEM)

    with rotating(installed):
        until(
            lambda: installed.plane.run_kubectl("get", "configmap", names.PUBLIC_KEYS_CONFIG_MAP, "-n", SYSTEM).stdout
        )
        until(lambda: whole(installed))


@pytest.mark.parametrize("option", ["--activate", "--replace-signing-key", "--switch-to=opt-in"])
def test_the_watch_only_keeps(installed: Installed, option: str) -> None:
    code, said = installed.certs("ensure", "--watch", option)

    words = f"--watch only keeps what is there: run it without {option.partition('=')[0]}"
    assert (code, words in said) == (2, True)


@contextlib.contextmanager
def rotating(installed: Installed) -> Iterator[None]:
    """`certs ensure --watch` as the account of its Deployment."""
    with installed.start("ensure", "--watch", kubeconfig=installed.rotation) as process:
        yield
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_a_configmap_that_names_another_place_is_not_registered(installed: Installed) -> None:
    assert installed.certs("ensure")[0] == 0
    text = installed.config_map(names.REGISTRATION_CONFIG_MAP)["webhooks.yaml"].replace(
        "namespace: batch", "namespace: x"
    )
    change = ("configmap", names.REGISTRATION_CONFIG_MAP, "-n", SYSTEM, "--type=merge", "-p")
    installed.plane.kubectl("patch", *change, json.dumps({"data": {"webhooks.yaml": text}}))

    code, said = installed.certs("ensure", "--activate", "--wait", "2s")

    assert (code, "as no other may be asked about Jobs" in said, installed.webhooks()) == (2, True, [])
