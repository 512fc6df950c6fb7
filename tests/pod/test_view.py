"""What the agent keeps of a Pod, and how much that is."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from router.pod.layout import NO_INDEX
from router.pod.status import ContainerStatus, PodStatus, Waiting, as_patch
from router.pod.view import PodContainer, PodView, departed, view
from router.workload.model import ContainerKind

ACCOUNT = '{"user":"ada"}'


def pod(number: int = 1, **metadata: Any) -> dict[str, Any]:
    """A routed Pod as the API server serves it. (Its text is read anew: nothing is shared by accident.)"""
    annotations = {
        "batch.kubernetes.io/job-completion-index": "3",
        "batchgate.dev/rule": "gpu",
        "batchgate.dev/script": "#!/bin/bash\nprofile=open-mpi # of the site\n" + "x" * 10_000,
        "batchgate.dev/account": ACCOUNT,
        "batchgate.dev/signature": "v1.key.claims.signature",
        "batchgate.dev/job-id": f"{number}.pbs",
    }
    found = {
        "metadata": {
            "namespace": "lab",
            "name": f"train-3-{number:05d}",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(100_000 + number),
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"batchgate.dev/site": "hpc1", "batchgate.dev/queue": "batch"},
            "annotations": annotations,
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "other", "uid": "u"},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "job-uid-1", "controller": True},
            ],
            "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:containers": {}}}}],
            **metadata,
        },
        "spec": {
            "nodeName": "batch.hpc1.batchgate",
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 45,
            "activeDeadlineSeconds": 3600,
            "initContainers": [
                {"name": "prepare", "image": "tools:1"},
                {"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"},
            ],
            "containers": [{"name": "main", "image": "app:2"}],
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }
    return dict(json.loads(json.dumps(found)))


VIEW = PodView(
    namespace="lab",
    name="train-3-00001",
    uid="00000000-0000-4000-8000-000000000001",
    resource_version="100001",
    node="batch.hpc1.batchgate",
    site="hpc1",
    queue="batch",
    owner="Job",
    job="train",
    job_uid="job-uid-1",
    index="3",
    created=1_700_000_000,
    deleted_at=None,
    grace=45,
    finalizers=True,
    restart_policy="OnFailure",
    deadline=3600,
    containers=(
        PodContainer("prepare", "tools:1", ContainerKind.INIT),
        PodContainer("proxy", "proxy:1", ContainerKind.SIDECAR),
        PodContainer("main", "app:2", ContainerKind.MAIN),
    ),
    rule="gpu",
    profile="open-mpi",
    account=ACCOUNT,
    signed=True,
    job_id="1.pbs",
    queue_now="",
    exit="",
    used="",
    status=PodStatus(),
)


def test_a_whole_view() -> None:
    assert view(pod()) == VIEW


def test_a_view_s_own_words() -> None:
    assert VIEW.key == "lab/train-3-00001"
    assert VIEW.images == {"prepare": "tools:1", "proxy": "proxy:1", "main": "app:2"}
    assert VIEW.restarts
    assert not VIEW.deleting


def test_a_deletion() -> None:
    seen = view(pod(deletionTimestamp="2023-11-14T22:13:50Z", deletionGracePeriodSeconds=5))

    assert (seen.deleting, seen.deleted_at, seen.grace) == (True, 1_700_000_030, 5)


def test_a_forced_deletion() -> None:
    seen = view(pod(deletionTimestamp="2023-11-14T22:13:50Z", deletionGracePeriodSeconds=0))

    assert (seen.deleting, seen.grace) == (True, 0)


@pytest.mark.parametrize("index", ["../../etc", "", "3 ", "-1", "3\n", "٣", "12345678901"])
def test_an_index_that_is_no_number_is_none(index: str) -> None:
    manifest = pod()
    manifest["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = index

    assert view(manifest).index == NO_INDEX


@pytest.mark.parametrize(
    ("owner", "expected"),
    [
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-1"}, ("Job", "j", "u-1")),
        ({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "../../x"}, ("Job", "", "")),
        ({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u-1"}, ("", "", "")),
        ({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u-1"}, ("DaemonSet", "", "")),
    ],
)
def test_who_controls_a_pod(owner: dict[str, Any], expected: tuple[str, str, str]) -> None:
    seen = view(pod(ownerReferences=[{**owner, "controller": True}]))

    assert (seen.owner, seen.job, seen.job_uid) == expected


def test_the_smallest_pod_that_there_can_be() -> None:
    seen = view({"metadata": {"namespace": "lab", "name": "p", "uid": "u"}})

    assert (seen.owner, seen.job_uid, seen.index, seen.grace, seen.signed) == ("", "", NO_INDEX, 30, False)


def test_what_is_left_of_a_pod_is_deleted_without_grace() -> None:
    left = departed(uid="u", job_uid="j", index="0", job_id="7.pbs")

    assert (left.deleting, left.grace, left.name, left.job_id, left.containers) == (True, 0, "", "7.pbs", ())


def test_ten_thousand_views_are_small() -> None:
    """With a status as it is written while a job waits, the most frequent one."""
    waiting = Waiting("Queued", "Not Running: Insufficient amount of resource: ncpus")
    status = PodStatus(
        reason="Queued",
        message=waiting.message,
        conditions=VIEW.status.conditions,
        init_containers=(ContainerStatus("prepare", waiting), ContainerStatus("proxy", waiting)),
        containers=(ContainerStatus("main", waiting),),
    )
    patch = as_patch(status, uid="u", images={}, annotations={})["status"]
    view({**pod(), "status": patch})
    tracemalloc.start()
    try:
        kept = [view({**pod(number), "status": json.loads(json.dumps(patch))}) for number in range(1000)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(kept) == 1000
    assert used / len(kept) < 4000, "bytes a Pod; 10,000 of them may take 60 MB with all that is known beside"
