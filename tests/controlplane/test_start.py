"""The control plane itself, really started."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from router.controlplane import credentials
from router.controlplane.options import APISERVER, ETCD, SCHEDULER, Options
from router.controlplane.plane import CommandFailed, ControlPlane
from router.controlplane.programs import Programs
from router.controlplane.start import control_plane
from router.errors import ConfigError

SECONDS = 60


def await_true(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, f"not within {SECONDS} s: {what}"
        time.sleep(0.02)


def processes_below(directory: Path) -> list[int]:
    """Every process whose command line names something in the directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{directory}/".encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_a_job_is_run_by_the_ordinary_controllers(plane: ControlPlane, namespace: str) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hello", "namespace": namespace},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1.36"}]}}
        },
    }
    plane.apply(job, user="ada")

    def pods() -> list[dict[str, object]]:
        found: list[dict[str, object]] = plane.get("pods", "-n", namespace, user="ada")["items"]
        return found

    await_true(lambda: len(pods()) == 1, "the Job controller makes its Pod")
    # Who made it is what the guards rest on.
    managers = plane.get("pods", "-n", namespace, "--show-managed-fields")["items"][0]["metadata"]["managedFields"]
    assert managers[0]["manager"] == "kube-controller-manager"


@pytest.mark.parametrize(
    ("user", "groups"),
    [
        ("admin", ["system:masters", "system:authenticated"]),
        ("ada", ["physics", "researchers", "system:authenticated"]),
        ("ben", ["chemistry", "researchers", "system:authenticated"]),
        ("eve", ["guests", "system:authenticated"]),
    ],
)
def test_users_are_who_they_say_in_their_groups(plane: ControlPlane, user: str, groups: list[str]) -> None:
    told = json.loads(plane.kubectl("auth", "whoami", "-o", "json", user=user).stdout)["status"]["userInfo"]

    assert (told["username"], told["groups"]) == (user, groups)


@pytest.mark.parametrize(
    ("user", "words", "may"),
    [
        ("ada", ["create", "jobs.batch", "-n", "physics"], True),
        ("ada", ["create", "jobs.batch", "-n", "chemistry"], False),
        ("ada", ["get", "pods", "--subresource=log", "-n", "physics"], True),
        ("ada", ["create", "pods", "--subresource=binding", "-n", "physics"], False),
        ("ada", ["update", "pods", "--subresource=status", "-n", "physics"], False),
        ("ada", ["get", "nodes"], False),
        ("ben", ["create", "jobs.batch", "-n", "default"], True),
        ("eve", ["get", "pods", "-n", "default"], False),
    ],
)
def test_users_may_no_more_than_edit(plane: ControlPlane, user: str, words: list[str], may: bool) -> None:
    answer = plane.run_kubectl("auth", "can-i", *words, user=user).stdout.strip()

    assert answer == ("yes" if may else "no")


def test_nodes_authenticate_as_nodes_and_are_kept_to_their_own(plane: ControlPlane) -> None:
    identity = credentials.node("somebody")
    plane.certificate(identity)
    other = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "somebody-else"}}

    with pytest.raises(CommandFailed, match="is not allowed to modify node"):
        plane.apply(other, user=identity.name)


def test_service_accounts_have_tokens(plane: ControlPlane, namespace: str) -> None:
    plane.service_account(namespace, "default")

    told = plane.kubectl("auth", "whoami", "-o", "json", user=f"system:serviceaccount:{namespace}:default")
    assert json.loads(told.stdout)["status"]["userInfo"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_kubelets_callers_can_be_told_by_what_the_cluster_publishes(plane: ControlPlane) -> None:
    published = plane.get("configmap", "-n", "kube-system", "extension-apiserver-authentication")["data"]

    assert published["client-ca-file"] == plane.ca_file.read_text()
    assert published["requestheader-client-ca-file"] == plane.place.pki("front-proxy-ca.crt").read_text()


def test_a_request_for_a_serving_certificate_is_signed_once_it_is_approved(plane: ControlPlane) -> None:
    identity = credentials.node("asks")
    plane.certificate(identity)
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, identity.groups[0]),
            x509.NameAttribute(NameOID.COMMON_NAME, identity.name),
        ]
    )
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    asked = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(subject)
        .add_extension(names, critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    request = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "asks"},
        "spec": {
            "request": base64.b64encode(asked).decode(),
            "signerName": "kubernetes.io/kubelet-serving",
            "usages": ["digital signature", "server auth"],
        },
    }
    plane.kubectl("create", "-f", "-", user=identity.name, stdin=json.dumps(request))
    plane.kubectl("certificate", "approve", "asks")

    def issued() -> str | None:
        certificate: str | None = plane.get("csr", "asks").get("status", {}).get("certificate")
        return certificate

    await_true(lambda: bool(issued()), "the signer kubernetes.io/kubelet-serving answers")
    certificate = x509.load_pem_x509_certificate(base64.b64decode(issued() or ""))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(plane.ca_file.read_bytes()))


@pytest.mark.timeout(900)
def test_components_come_back_with_their_data(plane: ControlPlane, namespace: str) -> None:
    plane.kubectl("create", "configmap", "kept", "--from-literal=a=b", "-n", namespace)
    server = plane.server

    plane.restart(APISERVER)
    plane.restart(ETCD)
    plane.restart(SCHEDULER, signal.SIGTERM)

    assert plane.server == server
    assert plane.get("configmap", "kept", "-n", namespace)["data"] == {"a": "b"}


@pytest.mark.timeout(900)
def test_two_at_once_do_not_disturb_each_other_and_leave_nothing(
    plane: ControlPlane, control_plane_programs: Programs, tmp_path: Path
) -> None:
    directory = tmp_path / "second"
    with control_plane(directory, Options(editors=MappingProxyType({"only-here": ()}))) as second:
        assert len(processes_below(directory)) >= 4
        second.kubectl("get", "namespace", "only-here")
        assert plane.run_kubectl("get", "namespace", "only-here").returncode == 1
        # Credentials of one open nothing in the other.
        stranger = second.run_kubectl("--server", plane.server, "--insecure-skip-tls-verify", "get", "namespaces")
        assert stranger.returncode == 1

    assert processes_below(directory) == []
    assert not directory.exists()
    await_true(lambda: plane.probe("/readyz") == 200, "the first one is well")


@pytest.mark.parametrize(
    ("component", "argument", "words"),
    [
        (ETCD, "--data-dir=/dev/null/nowhere", "/dev/null/nowhere"),
        (APISERVER, "--client-ca-file=/nowhere", "open /nowhere: no such file or directory"),
    ],
)
def test_a_failed_start_shows_the_components_own_words(
    control_plane_programs: Programs, tmp_path: Path, component: str, argument: str, words: str
) -> None:
    options = Options(arguments=MappingProxyType({component: (argument,)}))

    with (
        pytest.raises(ConfigError, match=rf"(?s)^{component} ended with exit code \d+; the end of its log:\n.*{words}"),
        control_plane(tmp_path / "plane", options),
    ):
        pass

    assert not (tmp_path / "plane").exists()
    assert processes_below(tmp_path) == []


KILLED = """
import sys, time
from pathlib import Path
from router.controlplane.start import control_plane
with control_plane(Path(sys.argv[1])) as plane:
    # A daemon that left its session and its parent must end too.
    Path(sys.argv[1], "started").touch()
    time.sleep(600)
"""


@pytest.mark.timeout(900)
def test_what_a_killed_test_leaves_ends(control_plane_programs: Programs, tmp_path: Path) -> None:
    directory = tmp_path / "plane"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(directory)])
    until = time.monotonic() + 300
    while not (directory / "started").exists():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.1)
    assert len(processes_below(directory)) >= 4

    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    await_true(lambda: processes_below(directory) == [], "every component has ended")


def test_planes_are_used_from_threads(plane: ControlPlane) -> None:
    said: list[int | None] = []
    threads = [threading.Thread(target=lambda: said.append(plane.components[ETCD].exit_code())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert said == [None] * 8
