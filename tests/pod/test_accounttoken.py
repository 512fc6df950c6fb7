"""The automatic mount of a token: what Kubernetes adds to a Pod is known again, and made under a fixed name."""

from __future__ import annotations

from typing import Any

import pytest

from router.pod import accounttoken
from router.pod.accounttoken import MOUNTED_AT, Wanted

SOURCES = [
    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
    {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
]
ADDED = {"name": "kube-api-access-x7k2p", "projected": {"defaultMode": 420, "sources": SOURCES}}
MOUNT = {"name": "kube-api-access-x7k2p", "mountPath": MOUNTED_AT, "readOnly": True}
DATA: dict[str, Any] = {"name": "data", "emptyDir": {}}


def pod(*volumes: dict[str, Any], mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"volumes": list(volumes), "containers": [{"name": "c", "volumeMounts": mounts}]}}


def test_what_kubernetes_adds_is_taken_out_and_nothing_else() -> None:
    own = {"name": "data", "mountPath": "/data"}
    given = pod(DATA, ADDED, mounts=[own, MOUNT])

    assert accounttoken.is_mounted(given)
    assert accounttoken.without(given) == pod(DATA, mounts=[own])
    elsewhere = pod(DATA, ADDED, mounts=[{**MOUNT, "mountPath": "/etc"}])
    assert accounttoken.without(elsewhere) == pod(DATA, mounts=[{**MOUNT, "mountPath": "/etc"}])


@pytest.mark.parametrize(
    "volume",
    [
        DATA,
        {"name": "kube-api-access-x7k2p", "hostPath": {"path": "/etc"}},
        {"name": "kube-api-access-x7k2p-more", "projected": {}},
    ],
)
def test_another_volume_is_not_taken_for_it(volume: dict[str, Any]) -> None:
    given = pod(volume, mounts=[])

    assert not accounttoken.is_mounted(given)
    assert accounttoken.without(given) == given


def test_the_tokens_of_mounted_volumes() -> None:
    vault = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault", "path": "t"}}]}}
    unused = {**vault, "name": "unused"}
    given = accounttoken.with_automatic(pod(vault, unused, mounts=[{"name": "v", "mountPath": "/v"}]))

    assert accounttoken.wanted(given) == (Wanted("v/t", "vault", 3600), Wanted(".serviceaccount/token", "", 3607))
