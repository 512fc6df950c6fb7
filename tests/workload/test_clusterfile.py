"""LimitRanges, RuntimeClasses and Namespaces as kubectl prints them."""

from __future__ import annotations

import pytest

from router.errors import InputError
from router.workload.claims import Claim
from router.workload.cluster import Cluster, LimitDefaults
from router.workload.clusterfile import read_cluster

PRINTED = """
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: LimitRange
  metadata: {name: sizes, namespace: physics}
  spec:
    limits:
    - type: Container
      default: {cpu: "2", memory: 4Gi}
      defaultRequest: {cpu: 500m}
    - type: Pod
      max: {cpu: "8"}
- apiVersion: node.k8s.io/v1
  kind: RuntimeClass
  metadata: {name: kata}
  handler: kata
  overhead: {podFixed: {cpu: 250m, memory: 120Mi}}
- apiVersion: v1
  kind: Namespace
  metadata: {name: physics, labels: {team: physics}}
"""


def test_what_kubectl_prints() -> None:
    assert Cluster(
        namespaces={"physics": {"team": "physics"}},
        limits={"physics": (LimitDefaults("LimitRange sizes", {"cpu": "500m"}, {"cpu": "2", "memory": "4Gi"}),)},
        overheads={"kata": {"cpu": "250m", "memory": "120Mi"}},
    ) == read_cluster(PRINTED, "cluster.yaml")


CLAIMS = """
kind: PersistentVolumeClaim
metadata: {name: data, namespace: physics, uid: u}
spec: {storageClassName: nfs, volumeName: pv}
status: {phase: Bound}
---
kind: PersistentVolume
metadata: {name: pv}
spec: {nfs: {server: filer, path: /x}, claimRef: {namespace: physics, name: data, uid: u}}
"""


def test_claims_and_volumes() -> None:
    found = read_cluster(CLAIMS, "cluster.yaml").claims

    assert found is not None
    assert found.find("physics", "data") == Claim(True, "nfs", "pv", "nfs", {"server": "filer", "path": "/x"})


def test_nothing_is_nothing() -> None:
    assert Cluster() == read_cluster("", "cluster.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1\n", "cluster.yaml:1: is not a Kubernetes object"),
        ("kind: Pod\nmetadata: {name: x}\n", "cluster.yaml:1: kind 'Pod' is not used here"),
        ("kind: Namespace\n", "cluster.yaml:1: metadata.name is missing"),
        ("kind: List\nitems: 3\n", "cluster.yaml:1: items is not a list"),
        ("kind: List\nitems:\n- x\n", "cluster.yaml:3: items[0] is not a Kubernetes object"),
        ("kind: LimitRange\nmetadata: {name: x}\nspec: {limits: 1}\n", "cluster.yaml:1: spec.limits is not a list"),
        ("kind: LimitRange\nmetadata: {name: x}\nspec: {limits: [1]}\n", "cluster.yaml:1: an entry of spec.limits"),
        (
            "kind: LimitRange\nmetadata: {name: x}\nspec: {limits: [{type: Container, defaultRequest: {cpu: 2x}}]}\n",
            "cluster.yaml:1: defaultRequest.cpu: '2x' is not a quantity such as 500m",
        ),
        (
            "kind: RuntimeClass\nmetadata: {name: x}\noverhead: {podFixed: {memory: '-1'}}\n",
            "cluster.yaml:1: podFixed.memory: '-1' is negative",
        ),
        ("kind: Namespace\nmetadata: {name: x, labels: [1]}\n", "cluster.yaml:1: labels is not a mapping"),
    ],
)
def test_what_is_something_else_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster(text, "cluster.yaml")

    assert str(caught.value).startswith(message)
