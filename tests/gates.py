"""A gate with a policy written for tests, and reviews as the API server sends them."""

from __future__ import annotations

import functools
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from router import policy
from router.gate.judging import Gate
from router.placement import signing
from router.policy.decision import NO_QUEUE_STATES
from router.workload.cluster import UNKNOWN_CLUSTER

ISSUED_AT = 1_800_000_000
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))

PLACES = """
sites:
  - name: hpc1
    system: openpbs
    host: ssh://login
    access: own-keys
    knownHosts: /etc/batchgate/known_hosts
    keys: /etc/batchgate/keys
    workDir: /scratch/{user}
    mpi: [{name: open-mpi, launcher: openmpi}]
    queues:
      - {name: small, nodes: 1, cpusPerNode: 4, memoryPerNode: 16Gi, walltimeMax: 2h}
      - {name: workq, nodes: 4, cpusPerNode: 8, memoryPerNode: 64Gi, walltimeMax: 24h}
controllers:
  - managedBy: kueue.x-k8s.io/multikueue
accounts:
  - {users: [ada], as: ada, account: phys}
  - {groups: [physics], as: shared-phys}
"""
RULES = """
rules:
  - {name: never, when: "job.memory > quantity('1Ti')", deny: nobody has that much memory}
  - {name: seen, when: job.cpus >= 2, mode: audit, hpc: [{queue: workq}]}
  - {name: strict, when: "request.namespace == 'strict' && job.cpus >= 2", hpc: [{queue: workq}], ifNotRoutable: deny}
  - {name: large, when: job.cpus >= 2 && job.pods <= 10, hpc: [{queue: small}, {queue: workq}], forbidHints: [route]}
  - {name: rest, cloud: true}
"""


@functools.cache
def checked(rules: str = RULES, places: str = PLACES) -> policy.Policy:
    """The policy of these texts."""
    return policy.load({"places.yaml": places, "rules.yaml": rules})


def gate(rules: str = RULES, **known: Any) -> Gate:
    """A gate that signs; ``known`` replaces what it knows."""
    values: dict[str, Any] = {
        "policy": checked(rules),
        "cluster": UNKNOWN_CLUSTER,
        "states": NO_QUEUE_STATES,
        "signer": signing.Signer(KEY, {}),
        "issued_at": ISSUED_AT,
    }
    return Gate(**{**values, **known})


def review_of(job: Any, *, stored: Any = None, user: str = "ada", **request: Any) -> dict[str, Any]:
    """The AdmissionReview of a Job's creation or, with ``stored``, of its update; ``request`` replaces its fields."""
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "batch", "version": "v1", "kind": "Job"},
            "resource": {"group": "batch", "version": "v1", "resource": "jobs"},
            "requestKind": {"group": "batch", "version": "v1", "kind": "Job"},
            "operation": "CREATE" if stored is None else "UPDATE",
            "namespace": "default",
            "userInfo": {"username": user, "uid": "u", "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
            "object": job,
            "oldObject": stored,
            "dryRun": False,
            "options": None,
            **request,
        },
    }


def sized(cpus: str, memory: str = "1Gi", **pod: Any) -> dict[str, Any]:
    """Fields of a Pod whose one container asks for that much."""
    resources = {"requests": {"cpu": cpus, "memory": memory}}
    container = {"name": "c", "image": "busybox:1.36", "command": ["sh", "-c", "true"], "resources": resources}
    return {"containers": [container], **pod}
