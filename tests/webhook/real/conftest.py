"""The webhook in front of a real API server, registered as ``manifests/`` have it; no agent runs, and none is needed."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.certs import issuing
from router.controlplane import installing, programs
from router.controlplane.options import APISERVER, RESEARCHERS, Options
from router.controlplane.plane import ControlPlane
from router.controlplane.start import control_plane
from tests.since import OURS
from tests.webhook.real.gated import Gated, gated
from tests.webhook.servers import Server, make_pki, serving

POLICY = """
sites:
  - name: demo
    system: openpbs
    host: ssh://login
    access: own-keys
    keys: /etc/batchgate/keys
    knownHosts: /etc/batchgate/known_hosts
    workDir: /scratch/{user}
    mpi: [{name: open-mpi, launcher: openmpi}]
    queues:
      - {name: batch, nodes: 4, cpusPerNode: 8, memoryPerNode: 64Gi, walltimeDefault: 1h, walltimeMax: 24h}
  - name: big
    system: openpbs
    host: ssh://login
    access: own-keys
    keys: /etc/batchgate/keys
    knownHosts: /etc/batchgate/known_hosts
    workDir: /big/{user}
    secrets: stage
    tokens: stage
    apiServer: https://kubernetes.example.org:6443
    images: [{match: "mapped:*", path: /images/mapped.sif}]
    volumes: [{hostPath: /, path: /mirror}, {claim: "*", path: "/claims/{namespace}/{claim}"}]
    queues:
      - {name: any, nodes: 1000, cpusPerNode: 512, memoryPerNode: 16Ti, gpusPerNode: 64, walltimeMax: 1000h}
controllers:
  - managedBy: kueue.x-k8s.io/multikueue
accounts:
  - users: ["system:serviceaccount:kube-system:cronjob-controller", "system:kube-controller-manager"]
    controller: true
  - {serviceAccounts: [workflows/controller], controller: true}
  - {users: [ada], as: ada, account: physics}
  - {namespaces: [ada-nightly], as: ada, account: physics, shared: true}
  - {namespaces: [lab-nightly], as: labs, shared: true}
  - {groups: [chiefs], as: chief}
  - {namespaces: ["test-*"], shared: true, as: research}
rules:
  - {name: corpus, when: "request.namespace.startsWith('corpus')", kueue: true, hpc: [{queue: any}]}
  - {name: vast, when: "job.totalCpus > 64", deny: "64 CPUs are the most"}
  - {name: strict, when: "job.cpus >= 2 && 'strict' in job.labels", hpc: [{queue: batch}], ifNotRoutable: deny}
  - {name: nightly, when: "job.name.startsWith('nightly-') && 'app' in job.labels", hpc: [{queue: batch}]}
  - {name: large, when: job.cpus >= 2, hpc: [{queue: batch}]}
  - {name: small, cloud: true}
"""
ANCHOR = "gate-anchor"
"""A namespace that is gated throughout; tests have their own, which opt in as users' do."""
_NUMBERS = itertools.count(1)


_DROPS = 31
_OFF = "JobManagedBy=false,PodLevelResources=false,UserNamespacesSupport=false,ProcMountType=false"
DROPPING = (
    Options()
    if OURS <= _DROPS
    else Options(arguments={APISERVER: ("--emulated-version=1.34", f"--feature-gates={_OFF}")})
)
"""An API server that drops these fields after every webhook has been asked, as 1.31 does."""


@contextlib.contextmanager
def asked(plane: ControlPlane, directory: Path, policy: str) -> Iterator[Server]:
    """A running webhook, which the API server asks; it watches the cluster as its own service account."""
    pki = make_pki(directory / "certs")
    (directory / "policies").mkdir()
    (directory / "policies" / "all.yaml").write_text(policy)
    keys = issuing.make_signing_keys()
    (directory / "signing.key").write_bytes(keys.private)
    (directory / "signing.pub").write_bytes(keys.public)
    argv = ["router", "webhook", "--listen", "127.0.0.1:0", "--host-name", "localhost"]
    argv += ["--cert", str(pki.certificate), "--key", str(pki.key), "--signing-key", str(directory / "signing.key")]
    argv += ["--policy", str(directory / "policies"), "--kubeconfig", str(installing.webhook(plane))]
    argv += ["--decision-log", str(directory / "decisions.jsonl")]
    with serving(argv, pki, directory / "log") as server:
        plane.make_namespaces({ANCHOR: (RESEARCHERS,)})
        installing.register(plane, f"https://localhost:{server.port}", pki.directory / "ca.crt", [ANCHOR])
        try:
            yield server
        finally:
            installing.unregister(plane, [ANCHOR])
            # Waited for, as the next module may make it anew on the same plane.
            plane.kubectl("delete", "namespace", ANCHOR)


@pytest.fixture(scope="package")
def older(
    control_plane_programs: programs.Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A control plane that behaves as an older one; no webhook is registered."""
    with control_plane(tmp_path_factory.mktemp("older") / "plane", DROPPING) as started:
        installing.install(started)
        yield started


@pytest.fixture(scope="package")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The webhook with the policy above."""
    with asked(plane, tmp_path_factory.mktemp("webhook"), POLICY) as server:
        yield server


@pytest.fixture
def jobs(plane: ControlPlane, webhook: Server, namespace: str) -> Gated:
    """The test's own namespace, for ada, behind the webhook."""
    return gated(plane, namespace, _public(webhook))


@pytest.fixture
def free(plane: ControlPlane, webhook: Server) -> Iterator[Gated]:
    """A namespace for ada that did not opt in: there the API server does what it does without a webhook."""
    name = f"free-{next(_NUMBERS)}"
    plane.make_namespaces({name: (RESEARCHERS,)})
    yield Gated(plane, name, _public(webhook))
    plane.kubectl("delete", "namespace", name, "--wait=false")


def _public(webhook: Server) -> Path:
    return webhook.log_file.parent / "signing.pub"
