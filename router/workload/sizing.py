"""Turns a Job's manifest into a Workload.

Pure. Combines what the modules beside it read: containers, resources, hints, launchers, obstacles. Knows the Job's own
fields, but no policy, queue or site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from router import names
from router.errors import JobError
from router.values import unchanging
from router.workload.cautions import judge_cautions
from router.workload.cluster import UNKNOWN_CLUSTER, Cluster
from router.workload.containers import (
    Figures,
    check_references,
    check_text,
    list_containers,
    read_container,
    read_name,
    read_volumes,
)
from router.workload.credentialfields import read_account
from router.workload.extended import Extended
from router.workload.fields import (
    INT64,
    Fields,
    Findings,
    flag,
    integer,
    mapping,
    string_map,
    text,
)
from router.workload.hints import Hints, read_hints
from router.workload.limits import judge_size
from router.workload.model import OWN_CONTROLLER, Container, Figure, GpuVendor, Sizes, Volume, Workload
from router.workload.mpi import Mpi, lift_launchers
from router.workload.nodedemand import NodeDemand
from router.workload.nodelabels import preferences_warning, read_demand
from router.workload.obstacles import (
    judge_container,
    judge_pod,
    judge_subdomain,
    judge_unknown,
    unhonoured_warning,
)
from router.workload.podhosts import judge_pod_hosts
from router.workload.resolving import read_naming
from router.workload.resources import (
    CPU,
    MEMORY,
    STORAGE,
    Amounts,
    Asked,
    amounts,
    are_alike,
    container_requests,
    pod_limits,
    pod_requests,
    sharing_warning,
    sizes,
    units,
    whole,
    written_requests,
)
from router.workload.scratch import judge_ephemeral
from router.workload.shellbudget import ShellBudget

DEFAULT_GRACE: Final = 30
_GPUS: Final[Mapping[str, GpuVendor]] = {"nvidia.com/gpu": GpuVendor.NVIDIA, "amd.com/gpu": GpuVendor.AMD}
_PLAIN: Final = frozenset([CPU, MEMORY, STORAGE])
_NO_GPUS: Final[Mapping[str, GpuVendor]] = {}


def workload_of(
    job: Mapping[str, object],
    *,
    namespace: str,
    cluster: Cluster = UNKNOWN_CLUSTER,
    gpu_resources: Mapping[str, GpuVendor] = _NO_GPUS,
    root: str = "",
) -> Workload:
    """The workload of a Job. Raises JobError, which names the field, if the Job is invalid.

    :param namespace: where the Job is created; its LimitRanges are taken from ``cluster``
    :param gpu_resources: resource names that are GPUs beside ``nvidia.com/gpu`` and ``amd.com/gpu``
    :param root: put before field paths, ``spec.jobTemplate.`` for the Job of a CronJob
    """
    findings = Findings()
    manifest = _open(job, namespace, root)
    gpus = {**_GPUS, **gpu_resources} if gpu_resources else _GPUS
    sized = _size_pod(manifest, cluster, gpus, findings)
    budget = ShellBudget()
    containers, mpi = lift_launchers(sized.containers, manifest.hints, budget, findings)
    pods = _at_once(counts := _counts(manifest.spec, manifest.path))
    if "parallelism" in manifest.spec:
        judge_pod_hosts(containers, pods, budget, findings)
    labels = string_map(manifest.metadata, "labels", manifest.metadata_path)
    judge_subdomain(manifest.pod, manifest.pod_path, pods, labels, findings)
    for container in containers:
        judge_size(container, findings)
    judge_cautions(manifest.pod, manifest.pod_path, containers, pods, sized.storage, findings)
    deadline = _deadline(manifest, findings)
    _judge_manager(manifest, findings)
    judge_unknown(manifest.spec, manifest.path, findings)
    findings.warnings.extend(manifest.hints.doubts)
    findings.warnings.extend(one for one in (unhonoured_warning(findings), preferences_warning(findings)) if one)
    naming = read_naming(manifest.pod, manifest.pod_path)
    workload = _assemble(manifest, sized, (containers, mpi, counts), deadline, findings)
    if naming:
        workload = replace(workload, naming=naming)
    if not (sized.extended or findings.shared or findings.privileged or findings.schedulers):
        return workload
    return replace(
        workload,
        extended=sized.extended,
        shared=tuple(findings.shared),
        privileged=tuple(findings.privileged),
        scheduler="".join(findings.schedulers),
    )


@unchanging
class _Manifest:
    """The parts of a Job that are read more than once, each with its path."""

    namespace: str
    metadata: Fields
    metadata_path: str
    spec: Fields
    path: str
    pod: Fields
    pod_path: str
    hints: Hints


@unchanging
class _Sized:
    """The Pod as it will be scheduled: its containers, volumes and figures."""

    containers: Sequence[Container]
    volumes: tuple[Volume, ...]
    requests: Sizes
    limits: Sizes
    storage: Figure | None
    extended: tuple[Extended, ...]
    gpus: Figure | None
    vendor: GpuVendor | None
    demand: NodeDemand


def _open(job: Mapping[str, object], namespace: str, root: str) -> _Manifest:
    metadata = mapping(job, "metadata", root.rstrip("."))
    metadata_path = f"{root}metadata"
    spec = mapping(job, "spec", root.rstrip("."))
    path = f"{root}spec"
    template = mapping(spec, "template", path)
    template_path = f"{path}.template"
    template_metadata = mapping(template, "metadata", template_path)
    hints = read_hints(
        string_map(metadata, "annotations", metadata_path),
        f"{metadata_path}.annotations",
        string_map(template_metadata, "annotations", f"{template_path}.metadata"),
        f"{template_path}.metadata.annotations",
    )
    pod = mapping(template, "spec", template_path)
    return _Manifest(namespace, metadata, metadata_path, spec, path, pod, f"{template_path}.spec", hints)


_Counts = tuple[Figure, Figure | None, bool]
"""Parallelism, completions, whether the Job is Indexed."""
_Lifted = tuple[tuple[Container, ...], Mpi, _Counts]


def _assemble(manifest: _Manifest, sized: _Sized, lifted: _Lifted, deadline: Figure | None, told: Findings) -> Workload:
    spec, pod, pod_path, (containers, mpi, counts) = manifest.spec, manifest.pod, manifest.pod_path, lifted
    labels = string_map(manifest.metadata, "labels", manifest.metadata_path)
    return Workload(
        manifest.namespace,
        _name(manifest.metadata, manifest.metadata_path),
        labels,
        containers,
        sized.volumes,
        *counts,
        *_course(manifest),
        account=read_account(pod, pod_path),
        cpu=sized.requests.cpu,
        memory=sized.limits.memory,
        requests=sized.requests,
        limits=sized.limits,
        ephemeral_storage=sized.storage,
        gpus=sized.gpus,
        gpu_vendor=sized.vendor,
        walltime_asked=manifest.hints.walltime or deadline,
        deadline=deadline,
        mpi=mpi.container,
        mpi_hinted=mpi.hinted,
        ranks=mpi.ranks,
        ranks_per_node=mpi.ranks_per_node,
        nodes=mpi.nodes,
        cores_per_rank=mpi.cores_per_rank,
        nodes_at_least=mpi.nodes_at_least,
        node_demand=sized.demand,
        results=manifest.hints.results,
        results_field=manifest.hints.results_field,
        route=manifest.hints.route,
        hints=tuple(sorted(manifest.hints.given)),
        kueue_queue=labels.get(names.KUEUE_QUEUE_NAME, ""),
        managed_by=text(spec, "managedBy", manifest.path),
        obstacles=tuple(told.obstacles),
        warnings=tuple(told.warnings),
    )


def _judge_manager(manifest: _Manifest, findings: Findings) -> None:
    """Note an obstacle for another controller: the guards admit only Pods of Kubernetes' own controller to HPC."""
    manager = text(manifest.spec, "managedBy", manifest.path)
    if manager not in ("", OWN_CONTROLLER):
        reason = f"names {manager[:80]!r}, and only Pods that Kubernetes' own Job controller makes can go there"
        findings.block(f"{manifest.path}.managedBy", reason)


def _name(metadata: Fields, path: str) -> str:
    return text(metadata, "name", path) or text(metadata, "generateName", path)


def _size_pod(manifest: _Manifest, cluster: Cluster, gpu_names: Mapping[str, GpuVendor], findings: Findings) -> _Sized:
    pod, path = manifest.pod, manifest.pod_path
    defaults = cluster.limits.get(manifest.namespace, ())
    listed = list_containers(pod, path)
    judge_pod(pod, path, findings)
    demand = read_demand(pod, path, findings)
    containers: list[Container] = []
    asked: list[Asked] = []
    host_network = flag(pod, "hostNetwork", path)
    for kind, here, fields in listed:
        judge_container(fields, here, findings, host_network=host_network)
        own = container_requests(fields, here, read_name(fields, here), kind, defaults)
        asked.append(own)
        figures = _own_figures(own.effective, gpu_names) if own.effective else (None, None, None)
        containers.append(read_container((kind, here, fields), own.name, figures, findings))
    check_text(containers)
    volumes = read_volumes(pod, path, cluster.claims, manifest.namespace)
    check_references(containers, volumes)
    judge_ephemeral(volumes, findings)
    level = mapping(pod, "resources", path)
    overhead = _overhead(manifest, cluster)
    total = pod_requests(asked, level, f"{path}.resources", overhead)
    most = total if are_alike(asked, level) else pod_limits(asked, level, f"{path}.resources", overhead)
    requests, limits = sizes(total, most)
    if told := sharing_warning(asked, most, level, path):
        findings.warnings.append(told)
    vendor = next((gpu_names[name] for name, figure in total.items() if name in gpu_names and figure.value), None)
    at_pod_level = written_requests(level, f"{path}.resources") if level else {}
    further: dict[str, list[tuple[str, str]]] = {}
    for amounts_there in (*[own.effective for own in asked], at_pod_level, overhead):
        _judge_resources(amounts_there, gpu_names, vendor, findings, further)
    extended = _extended(total, further, gpu_names)
    storage, gpus = units(total.get(STORAGE)), _devices(total, gpu_names)
    return _Sized(containers, volumes, requests, limits, storage, extended, gpus, vendor, demand)


def _extended(
    total: Amounts, further: Mapping[str, list[tuple[str, str]]], gpu_names: Mapping[str, GpuVendor]
) -> tuple[Extended, ...]:
    return tuple(
        [
            Extended(name, whole(total[name].value), tuple(asking), is_gpu=name in gpu_names)
            for name, asking in further.items()
        ]
    )


def _own_figures(asked: Amounts, gpu_names: Mapping[str, GpuVendor]) -> Figures:
    return asked.get(CPU), units(asked.get(MEMORY)), _devices(asked, gpu_names)


def _devices(found: Amounts, gpu_names: Mapping[str, GpuVendor]) -> Figure | None:
    """The devices of all GPU names together. ``_judge_resources`` refuses requests for parts of a GPU."""
    figures = [figure for name, figure in found.items() if name in gpu_names]
    if not figures:
        return None
    total = sum(figure.value for figure in figures) // 1000
    return Figure(total, "; ".join(figure.origin for figure in figures))


def _judge_resources(
    asked: Amounts,
    gpu_names: Mapping[str, GpuVendor],
    vendor: GpuVendor | None,
    findings: Findings,
    fields: dict[str, list[tuple[str, str]]],
) -> None:
    """Judge what one container, the Pod level or the overhead asks for, so that an obstacle names the single field.

    :param vendor: of the GPUs that the Pod has
    :param fields: gets each further resource with its path, and the clause that says where it comes from
    """
    for name, figure in asked.items():
        if name in _PLAIN or not figure.value:
            continue
        added = "" if figure.origin.startswith(figure.path) else f"; added by {figure.origin}"
        fields.setdefault(name, []).append((figure.path, added))
        if name not in gpu_names:
            continue
        if figure.value % 1000:
            raise JobError(figure.path, f"asks for a part of a GPU; GPUs are counted in whole numbers{added}")
        if gpu_names[name] is not vendor:
            reason = "asks for GPUs of a second vendor, and one batch job has GPUs of one"
            findings.block(figure.path, f"{reason}{added}")


def _overhead(manifest: _Manifest, cluster: Cluster) -> Amounts:
    """The overhead that the RuntimeClass adds: from the template, else from the cluster's RuntimeClass."""
    pod, path = manifest.pod, manifest.pod_path
    if own := mapping(pod, "overhead", path):
        return amounts(own, f"{path}.overhead")
    name = text(pod, "runtimeClassName", path)
    fixed = cluster.overheads.get(name) if name else None
    if not fixed:
        return {}
    origin = f"the overhead of RuntimeClass {name}"
    named = f"{path}.runtimeClassName"
    return {key: Figure(figure.value, origin, named) for key, figure in amounts(fixed, origin).items()}


def _counts(spec: Fields, path: str) -> _Counts:
    parallelism = integer(spec, "parallelism", path)
    completions = integer(spec, "completions", path)
    mode = text(spec, "completionMode", path)
    if mode not in ("", "NonIndexed", "Indexed"):
        raise JobError(f"{path}.completionMode", f"{mode[:40]!r} is neither NonIndexed nor Indexed")
    done = Figure(completions, f"{path}.completions") if completions is not None else None
    if done is None and parallelism is None:
        done = Figure(1, "default")
    if mode == "Indexed" and completions is None:
        raise JobError(f"{path}.completions", "must be set if completionMode is Indexed")
    together = Figure(1, "default") if parallelism is None else Figure(parallelism, f"{path}.parallelism")
    return together, done, mode == "Indexed"


def _course(manifest: _Manifest) -> tuple[bool, str, int]:
    """Whether it is suspended, its restartPolicy, its grace period."""
    pod, path = manifest.pod, manifest.pod_path
    return flag(manifest.spec, "suspend", manifest.path), _restart_policy(pod, path), _grace(pod, path)


def _at_once(counts: _Counts) -> int:
    """How many Pods there are at once."""
    together, done, _ = counts
    return together.value if done is None else min(together.value, done.value)


def _restart_policy(pod: Fields, path: str) -> str:
    policy = text(pod, "restartPolicy", path)
    if policy not in ("Never", "OnFailure"):
        shown = f"{policy[:40]!r}, which a Job cannot have" if policy else "not set, which means Always"
        raise JobError(f"{path}.restartPolicy", f"is {shown}; write Never or OnFailure")
    return policy


def _grace(pod: Fields, path: str) -> int:
    grace = integer(pod, "terminationGracePeriodSeconds", path, most=INT64)
    return DEFAULT_GRACE if grace is None else grace


def _deadline(manifest: _Manifest, findings: Findings) -> Figure | None:
    """The containers' deadline: the Pod template's, else the Job's. On HPC the hint replaces both."""
    for fields, path in ((manifest.pod, manifest.pod_path), (manifest.spec, manifest.path)):
        deadline = integer(fields, "activeDeadlineSeconds", path, most=INT64)
        if deadline is not None:
            here = f"{path}.activeDeadlineSeconds"
            if deadline == 0:
                if manifest.hints.walltime is None:
                    findings.block(here, "is 0, which leaves no time to run")
                return None
            return Figure(deadline, here)
    return None
