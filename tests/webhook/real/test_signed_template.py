"""What the webhook signs of a Pod template is what the API server stores, whatever it puts in and drops on the way.

Every Job of the examples, of this file and, where it is there, of the corpus is asked for as a dry run, of the API
server of today and of an older one.
"""

from __future__ import annotations

import http.client
import json
import ssl
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.controlplane.options import ADA, RESEARCHERS
from router.controlplane.plane import ControlPlane
from router.notation import documents
from router.placement import signing
from router.pod import template as podtemplate
from tests.since import since
from tests.test_corpus import ROOT
from tests.test_corpus import jobs as corpus
from tests.webhook.real.conftest import POLICY, asked
from tests.webhook.real.gated import container, gated, job, template_annotations
from tests.webhook.servers import Server

NAMESPACE = "corpus"
FROM_MAP = {"configMap": {"name": "files", "items": [{"key": "a", "path": "b", "mode": 256}], "optional": True}}
FROM_POD = {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}
TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600, "audience": "api"}}
WRITTEN = {
    "init containers": job(
        pod={"initContainers": [container(name="first", args=["a"]), container(name="beside", restartPolicy="Always")]}
    ),
    "environments": job(
        pod={
            "containers": [
                container(
                    env=[
                        {"name": "A", "value": ""},
                        {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                        {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                        {"name": "D", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "d", "optional": False}}},
                    ],
                    envFrom=[{"configMapRef": {"name": "m"}}, {"prefix": "S_", "secretRef": {"name": "s"}}],
                    workingDir="/work",
                )
            ]
        }
    ),
    "mounts and volumes": job(
        pod={
            "containers": [
                container(
                    volumeMounts=[
                        {"name": "files", "mountPath": "/files", "subPath": "a", "readOnly": True},
                        {"name": "all", "mountPath": "/all", "recursiveReadOnly": "Disabled"},
                        {"name": "work", "mountPath": "/work", "mountPropagation": "None"},
                    ],
                    securityContext={"readOnlyRootFilesystem": True},
                )
            ],
            "volumes": [
                {"name": "files", **FROM_MAP},
                {"name": "all", "projected": {"sources": [FROM_MAP, FROM_POD, TOKEN]}},
                {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
            ],
        }
    ),
    "messages": job(
        pod={
            "containers": [
                container(terminationMessagePath="/tmp/last", terminationMessagePolicy="FallbackToLogsOnError"),
                container(name="other", terminationMessagePolicy="File"),
            ]
        }
    ),
    "the Pod's own": job(
        pod={
            "restartPolicy": "OnFailure",
            "activeDeadlineSeconds": 600,
            "terminationGracePeriodSeconds": 5,
            "serviceAccountName": "default",
            "imagePullSecrets": [{"name": "registry"}],
            "containers": [
                container(image="mapped:1", imagePullPolicy="Never"),
                container(name="latest", image="mapped:latest"),
            ],
        }
    ),
}
"""Between them they have every field that is signed."""
SENT_EXAMPLES = {"02-large-goes-to-hpc", "05-init-container-and-sidecar", "06-indexed"}


@pytest.fixture(scope="module")
def older_asks(older: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The older API server asks a webhook; the webhook's public key."""
    directory = tmp_path_factory.mktemp("older-asks")
    with asked(older, directory, POLICY):
        yield directory / "signing.pub"


def connected(plane: ControlPlane) -> http.client.HTTPSConnection:
    context = ssl.create_default_context(cafile=str(plane.ca_file))
    context.load_cert_chain(plane.place.pki("admin.crt"), plane.place.pki("admin.key"))
    return http.client.HTTPSConnection("127.0.0.1", plane.place.ports.apiserver, timeout=60, context=context)


def stored(connection: http.client.HTTPSConnection, job: dict[str, Any]) -> dict[str, Any] | None:
    """The Job as it would be stored for ada; None where it is refused, which is nothing that this test is about."""
    metadata = {key: value for key, value in (job.get("metadata") or {}).items() if key in ("labels", "annotations")}
    sent = {**job, "metadata": {**metadata, "generateName": "corpus-"}}
    headers = {"Content-Type": "application/json", "Impersonate-User": ADA.name}
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs?dryRun=All"
    connection.request("POST", path, json.dumps(sent, default=str), headers | {"Impersonate-Group": RESEARCHERS})
    response = connection.getresponse()
    answer: dict[str, Any] = json.loads(response.read())
    return answer if response.status < 300 else None


def asked_for() -> Iterator[tuple[str, dict[str, Any]]]:
    yield from WRITTEN.items()
    for file in sorted((ROOT / "examples").glob("*/job.yaml")):
        yield from ((file.parent.name, one.value) for one in documents.parse(file.read_text(), str(file)))
    yield from ((name, sent) for name, sent, _ in corpus())


def compared(plane: ControlPlane, public_key: Path) -> dict[str, set[str]]:
    """The names of Jobs by what became of them: ``sent`` as signed, ``other`` than signed, ``kept`` or ``refused``."""
    plane.make_namespaces({NAMESPACE: (RESEARCHERS,)})
    gated(plane, NAMESPACE, public_key)
    keys, found = signing.load_public(public_key.read_bytes()), defaultdict[str, set[str]](set)
    connection = connected(plane)
    for name, sent in asked_for():
        answer = stored(connection, sent)
        if answer is None or names.KEY_SIGNATURE not in template_annotations(answer):
            found["refused" if answer is None else "kept"].add(name)
            continue
        claims = signing.read(template_annotations(answer)[names.KEY_SIGNATURE], keys)
        same = claims.template_sha256 == podtemplate.digest(answer["spec"]["template"]["spec"])
        found["sent" if same else "other"].add(name)
    connection.close()
    plane.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    return found


@pytest.mark.timeout(600)
@pytest.mark.usefixtures("webhook")
def test_what_is_signed_is_what_is_stored(plane: ControlPlane, webhook: Server) -> None:
    found = compared(plane, webhook.log_file.parent / "signing.pub")

    assert found["other"] == set()
    assert found["sent"] >= {*WRITTEN, *SENT_EXAMPLES}


@pytest.mark.timeout(600)
def test_what_is_signed_is_what_an_older_api_server_stores(older: ControlPlane, older_asks: Path) -> None:
    found = compared(older, older_asks)

    assert found["other"] == set()
    assert found["sent"] >= {*WRITTEN, *SENT_EXAMPLES}


def test_the_jobs_of_this_file_have_every_field_that_is_signed() -> None:
    specs = [one["spec"]["template"]["spec"] for one in WRITTEN.values()]
    containers = [one for spec in specs for group in podtemplate.GROUPS for one in spec.get(group) or ()]

    assert {*podtemplate.POD_FIELDS, *podtemplate.GROUPS, "volumes"} <= {field for one in specs for field in one}
    assert {*podtemplate.CONTAINER_FIELDS} <= {field for one in containers for field in one}


@since(34, "resources of a whole Pod, which it drops")
def test_a_field_that_an_older_api_server_drops_after_us_stops_no_job(older: ControlPlane, older_asks: Path) -> None:
    """Whatever keeps no Job in the cloud, and is dropped there, is not of what is signed."""
    older.make_namespaces({"dropped": (RESEARCHERS,)})
    jobs = gated(older, "dropped", older_asks)
    amounts = {"requests": {"cpu": "4", "memory": "1Gi"}}

    sent = jobs.create(job(pod={"hostUsers": False, "resources": amounts, "containers": [container(cpu=None)]}))

    spec = sent["spec"]["template"]["spec"]
    assert {"hostUsers", "resources"} & spec.keys() == set()
    claims = signing.read(template_annotations(sent)[names.KEY_SIGNATURE], signing.load_public(older_asks.read_bytes()))
    assert claims.template_sha256 == podtemplate.digest(spec)
