"""Reads what the cluster has of one Job.

Shell (the API).
"""

from __future__ import annotations

from urllib.parse import quote

from router import names
from router.cli.cluster import Cluster
from router.page.models.looking import JobObjects


def read_job(cluster: Cluster, namespace: str, name: str) -> tuple[JobObjects | None, str]:
    """The objects of a Job; None and the reason if it is missing or forbidden. Raises ApiError without an answer."""
    asked = Cluster(cluster.api, namespace, True, cluster.system)  # noqa: FBT003 - the namespace is named
    below = f"namespaces/{quote(namespace, safe='')}"
    job = asked.one(f"Job {namespace}/{name}", f"/apis/batch/v1/{below}/jobs/{quote(name, safe='')}")
    if job is None:
        why = asked.missed[-1] if asked.missed else f"there is no Job {namespace}/{name}; it may have been deleted"
        return None, why
    selector = f"{names.CONTROLLER_UID}={job['metadata']['uid']}"
    pods = asked.every("the Job's Pods", f"/api/v1/{below}/pods", dict, labelSelector=selector) or ()
    events = asked.every("Events", f"/api/v1/{below}/events", dict) or ()
    return JobObjects(job, pods, events, tuple(asked.missed)), ""
