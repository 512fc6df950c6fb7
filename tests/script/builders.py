"""Workloads, sites and routes for scripts: from manifests by the real sizing, or by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router import script
from router.hpc.requests import Allocation
from router.policy.decision import Identity, Route
from router.policy.schema import Account, Choice, Rule
from router.site import resources
from router.site.allocation import allocate
from router.site.profiles import profile_of
from router.site.schema import Site
from router.workload import workload_of
from router.workload.model import GpuVendor, Workload

IMAGE = "busybox:1.36"


def job(*containers: dict[str, Any], annotations: dict[str, str] | None = None, **pod: Any) -> dict[str, Any]:
    """A Job of these containers; further keywords are fields of the Pod."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "simulate", "namespace": "physics", "annotations": annotations or {}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": list(containers), **pod}}},
    }


def container(*command: str, name: str = "main", image: str = IMAGE, **fields: Any) -> dict[str, Any]:
    """A container that runs a command."""
    found: dict[str, Any] = {"name": name, "image": image, **fields}
    if command:
        found["command"] = list(command)
    return found


def workload(
    *containers: dict[str, Any],
    annotations: dict[str, str] | None = None,
    gpu_resources: Mapping[str, GpuVendor] = {},
    **pod: Any,
) -> Workload:
    """The Workload of a Job of these containers."""
    return workload_of(
        job(*containers, annotations=annotations, **pod), namespace="physics", gpu_resources=gpu_resources
    )


def site(system: str = "openpbs", *, queue: dict[str, Any] | None = None, **fields: Any) -> Site:
    """A site with one queue, given as a policy file would."""
    queue = {"name": "workq", "nodes": 4, "cpusPerNode": 8, "gpusPerNode": 4, **(queue or {})}
    document = {
        "name": "hpc1",
        "system": system,
        "workDir": "/scratch/{user}",
        "margin": 60,
        "queues": [queue],
        **fields,
    }
    return Site.model_validate(document)


def route(
    job: Workload,
    where: Site,
    *,
    account: str | None = None,
    project: str | None = None,
    directives: dict[str, str] | None = None,
) -> Route:
    """The route of a Workload to the site's first queue, as deciding would make it."""
    queue = where.queues[0]
    rule = Rule(name="all", hpc=(Choice(queue=queue.name),), directives=directives or {})
    profile = profile_of(job, where)
    laid_out = allocate(job, where, queue, profile=profile, defaults=rule.defaults, max_nodes=None, max_walltime=None)
    assert isinstance(laid_out, Allocation), laid_out
    laid_out = resources.asking(job, where, queue, laid_out)
    assert isinstance(laid_out, Allocation), laid_out
    entry = Account(users=("ada",), as_="ada", account=account, project=project)
    return Route(where, queue, Identity("ada", account, project, entry), laid_out, profile, rule)


def text_of(job: Workload, where: Site, **options: Any) -> str:
    """The script of a Workload on a site that can run it."""
    chosen = route(job, where, **options)
    assert script.unsupported(job, where, chosen.profile) == ()
    return script.render(job, chosen).text
