"""The Job of a document, as the API server has it when the webhook is asked."""

from __future__ import annotations

from typing import Any

import pytest

from router.errors import JobError
from router.workload import job_of
from tests.workload.manifests import Manifest, job

AT = 1_764_162_000.0  # 2025-11-26 13:00 UTC
LABELS = {"app": "solve"}


def labelled(template: Manifest | None, **metadata: Any) -> Manifest:
    """A Job with labels on its Pod template, and this metadata."""
    spec = job()["spec"]
    inner = {**spec["template"], **({"metadata": {"labels": template}} if template else {})}
    return {**job(), "metadata": {"name": "a-job", **metadata}, "spec": {**spec, "template": inner}}


def cron_job(metadata: Manifest | None, template: Manifest | None = None, **of_cron_job: Any) -> Manifest:
    inner = {"spec": labelled(template)["spec"], **({"metadata": metadata} if metadata is not None else {})}
    named = {"metadata": {"name": "nightly", **of_cron_job}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", **named, "spec": {"jobTemplate": inner}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (cron_job(None), {"name": "nightly-29402700"}),
        (cron_job(None, namespace="lab"), {"name": "nightly-29402700", "namespace": "lab"}),
        (
            cron_job({"labels": {"a": "b"}, "annotations": {"c": "d"}}),
            {"name": "nightly-29402700", "labels": {"a": "b"}, "annotations": {"c": "d"}},
        ),
        # Name, namespace and owners of a template mean nothing to the controller.
        (cron_job({"name": "x", "namespace": "y", "ownerReferences": []}), {"name": "nightly-29402700"}),
        (cron_job(None, LABELS), {"name": "nightly-29402700", "labels": LABELS}),
        (cron_job({"labels": {"a": "b"}}, LABELS), {"name": "nightly-29402700", "labels": {"a": "b"}}),
        (labelled(LABELS), {"name": "a-job", "labels": LABELS}),
        (labelled(LABELS, labels={}), {"name": "a-job", "labels": LABELS}),
        (labelled(LABELS, labels={"a": "b"}), {"name": "a-job", "labels": {"a": "b"}}),
        (labelled(LABELS, uid="u"), {"name": "a-job", "uid": "u"}),  # of a cluster, where its labels were taken away
        (labelled(None), {"name": "a-job"}),
    ],
)
def test_the_metadata_of_the_job_that_is_made(document: Manifest, expected: Manifest) -> None:
    found = job_of(document, AT)

    assert found is not None
    made, root = found
    assert made["metadata"] == expected
    spec = document["spec"]["jobTemplate"]["spec"] if root else document["spec"]
    assert (made["apiVersion"], made["kind"], made["spec"]) == ("batch/v1", "Job", spec)
    assert root == ("spec.jobTemplate." if document["kind"] == "CronJob" else "")


@pytest.mark.parametrize("document", [labelled(None, namespace=5), cron_job(None, namespace=5)])
def test_a_namespace_is_a_text(document: Manifest) -> None:
    with pytest.raises(JobError, match=r"^metadata\.namespace: must be a string, and is a number$"):
        job_of(document)
