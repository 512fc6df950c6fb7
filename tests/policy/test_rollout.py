from __future__ import annotations

from typing import Any

import pytest

from router.errors import PolicyError
from router.policy import rollout
from router.policy.configmap import MOST_BYTES, demand_fits


@pytest.mark.parametrize(
    ("before", "texts", "expected"),
    [
        (None, {"a.yaml": "x\n"}, "--- /dev/null\n+++ b/a.yaml\n@@ -0,0 +1 @@\n+x\n"),
        ({"data": {"a.yaml": "x\n"}}, {"a.yaml": "x\n"}, ""),
        (
            {"data": {"a.yaml": "x\ny\n", "b.yaml": "z\n"}},
            {"a.yaml": "x\nw\n"},
            (
                "--- a/a.yaml\n+++ b/a.yaml\n@@ -1,2 +1,2 @@\n x\n-y\n+w\n"
                "--- a/b.yaml\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n"
            ),
        ),
        ({"data": {"a.yaml": "x\r\n"}}, {"a.yaml": "x\n"}, "a.yaml: only the ends of lines change\n"),
        ({"data": {"a.yaml": "x"}, "binaryData": {"p": "/w=="}}, {"a.yaml": "x"}, "p: bytes that are no text go\n"),
    ],
)
def test_the_difference(before: dict[str, Any] | None, texts: dict[str, str], expected: str) -> None:
    assert rollout.difference(before, texts) == expected


def test_a_new_one_is_kept_by_a_helm_release_that_once_brought_its_own() -> None:
    """Helm deletes what the last good revision had and the next one lacks, by its name alone."""
    made = rollout.config_map("s", "n", None, {"a.yaml": "x"})

    metadata = {"name": "n", "namespace": "s", "annotations": {"helm.sh/resource-policy": "keep"}}
    assert made == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a.yaml": "x"}}


def test_one_that_is_there_keeps_what_is_not_ours() -> None:
    metadata = {"name": "n", "namespace": "s", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{}]}

    made = rollout.config_map("s", "n", {"metadata": metadata, "binaryData": {"p": "/w=="}}, {"a.yaml": "x"})

    kept = {"name": "n", "namespace": "s", "resourceVersion": "7", "labels": {"a": "b"}}
    assert made == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": kept, "data": {"a.yaml": "x"}}


@pytest.mark.parametrize(
    ("metadata", "program"),
    [
        ({}, ""),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, "Flux"),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "x"}}, "Argo CD"),
        ({"annotations": {"meta.helm.sh/release-name": "batchgate"}}, "Helm"),
    ],
)
def test_who_would_undo_a_change(metadata: dict[str, Any], program: str) -> None:
    assert rollout.keeper({"metadata": metadata}) == program


def test_who_wrote_last() -> None:
    fields = [
        {"manager": "kubectl", "time": "2026-01-01T00:00:00Z"},
        {"manager": "flux", "time": "2026-02-01T00:00:00Z"},
    ]

    assert rollout.last_writer({"metadata": {"managedFields": fields}}) == "flux at 2026-02-01T00:00:00Z"
    assert rollout.last_writer(None) == ""


def test_what_a_config_map_cannot_hold() -> None:
    demand_fits({"a.yaml": "x" * MOST_BYTES})

    with pytest.raises(PolicyError) as raised:
        demand_fits({"a b.yaml": "x", "c.yaml": "ä" * (MOST_BYTES // 2)})

    assert str(raised.value).splitlines() == [
        "a b.yaml: a key of a ConfigMap has letters, digits, '-', '_' and '.' only; rename the file",
        "the files: 1048577 bytes together, but a ConfigMap holds 1048576; take out what no rule needs",
    ]
