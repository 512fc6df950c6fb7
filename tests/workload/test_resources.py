"""The figures of a Pod against the rules of Kubernetes' documentation, one row a rule or a mixture of rules.

The pages, by the short names used in the rows:

RES   kubernetes.io/docs/concepts/configuration/manage-resources-containers/
INIT  kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
SIDE  kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
OVER  kubernetes.io/docs/concepts/scheduling-eviction/pod-overhead/
POD   kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/
LIM   kubernetes.io/docs/concepts/policy/limit-range/
EXT   kubernetes.io/docs/concepts/configuration/manage-resources-containers/#extended-resources
QTY   kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from router.errors import JobError
from router.site import resources
from router.workload import workload_of
from router.workload.cluster import Cluster, LimitDefaults
from router.workload.model import GpuVendor, Workload
from tests.script.builders import site
from tests.workload.manifests import Manifest, asking, container, job

KI, MI, GI = 1024, 1024**2, 1024**3

ALWAYS = {"restartPolicy": "Always"}


class Asked(NamedTuple):
    """millicores, bytes, bytes of ephemeral storage, devices; None is "asked for nothing"."""

    cpu: int | None = None
    memory: int | None = None
    storage: int | None = None
    gpus: int | None = None


def figures(workload: Workload) -> Asked:
    return Asked(
        *(
            None if figure is None else figure.value
            for figure in (workload.cpu, workload.memory, workload.ephemeral_storage, workload.gpus)
        )
    )


def pod(*containers: Manifest, init: tuple[Manifest, ...] = (), **fields: object) -> Manifest:
    return job(*containers, pod={"initContainers": list(init), **fields})


def cpu(name: str, amount: str, **fields: Any) -> Manifest:
    return asking(name, {"cpu": amount}, **fields)


TABLE = [
    ("RES: no requests, no limits: nothing is asked for", pod(container()), Asked()),
    ("RES: empty resources are none", pod(container(resources={})), Asked()),
    ("RES: empty requests are none", pod(asking(requests={}, limits={})), Asked()),
    ("RES: a request of 0 is a request", pod(asking(requests={"cpu": "0"})), Asked(cpu=0)),
    ("RES: CPU in whole units", pod(asking(requests={"cpu": "2"})), Asked(cpu=2000)),
    ("RES: CPU as a number of JSON", pod(asking(requests={"cpu": 2})), Asked(cpu=2000)),
    ("RES: CPU as a fraction", pod(asking(requests={"cpu": 0.1})), Asked(cpu=100)),
    ("RES: 0.5 is 500m", pod(asking(requests={"cpu": "0.5"})), Asked(cpu=500)),
    ("RES: no finer than 1m: rounded up", pod(asking(requests={"cpu": "100u"})), Asked(cpu=1)),
    ("RES: each container is rounded to 1m", pod(cpu("a", "100u"), cpu("b", "100u")), Asked(cpu=2)),
    ("RES: memory in plain bytes", pod(asking(requests={"memory": "128974848"})), Asked(memory=128974848)),
    ("RES: 129e6 is 129M", pod(asking(requests={"memory": "129e6"})), Asked(memory=129_000_000)),
    ("RES: 129M is decimal", pod(asking(requests={"memory": "129M"})), Asked(memory=129_000_000)),
    ("RES: 123Mi is binary", pod(asking(requests={"memory": "123Mi"})), Asked(memory=123 * MI)),
    (
        "RES: 128974848000m is 128974848 bytes",
        pod(asking(requests={"memory": "128974848000m"})),
        Asked(memory=128974848),
    ),
    ("QTY: 400m of memory are 0.4 bytes: 1", pod(asking(requests={"memory": "400m"})), Asked(memory=1)),
    (
        "QTY: parts of bytes are summed before they are rounded up",
        pod(asking("a", {"memory": "400m"}), asking("b", {"memory": "400m"})),
        Asked(memory=1),
    ),
    ("QTY: 1.5Gi", pod(asking(requests={"memory": "1.5Gi"})), Asked(memory=1536 * MI)),
    ("QTY: a leading +", pod(asking(requests={"cpu": "+1"})), Asked(cpu=1000)),
    ("QTY: .5 and 2.", pod(cpu("a", ".5"), cpu("b", "2.")), Asked(cpu=2500)),
    (
        "RES: a Pod's request is the sum over its containers",
        pod(asking("a", {"cpu": "250m", "memory": "64Mi"}), asking("b", {"cpu": "250m", "memory": "64Mi"})),
        Asked(cpu=500, memory=128 * MI),
    ),
    ("RES: a container that asks for nothing adds nothing", pod(cpu("a", "1"), container("b")), Asked(cpu=1000)),
    (
        "RES: resources are summed one by one",
        pod(asking("a", {"cpu": "1"}), asking("b", {"memory": "1Gi"})),
        Asked(cpu=1000, memory=GI),
    ),
    (
        "RES: a limit without a request is the request",
        pod(asking(limits={"cpu": "2", "memory": "4Gi"})),
        Asked(2000, 4 * GI),
    ),
    ("RES: a request beside a limit counts", pod(asking(requests={"cpu": "1"}, limits={"cpu": "8"})), Asked(cpu=1000)),
    (
        "RES: limits fill in one by one",
        pod(asking(requests={"cpu": "1"}, limits={"cpu": "2", "memory": "2Gi"})),
        Asked(cpu=1000, memory=2 * GI),
    ),
    (
        "RES: a request of 0 beside a limit stays 0",
        pod(asking(requests={"cpu": "0"}, limits={"cpu": "2"})),
        Asked(cpu=0),
    ),
    ("RES: null is the quantity 0", pod(asking(requests={"cpu": None})), Asked(cpu=0)),
    (
        "RES: local ephemeral storage",
        pod(asking("a", {"ephemeral-storage": "2Gi"}), asking("b", limits={"ephemeral-storage": "2Gi"})),
        Asked(storage=4 * GI),
    ),
    ("INIT: the highest init request, when above the sum", pod(cpu("a", "1"), init=(cpu("i", "4"),)), Asked(cpu=4000)),
    ("INIT: the sum, when above every init request", pod(cpu("a", "3"), init=(cpu("i", "2"),)), Asked(cpu=3000)),
    ("INIT: init containers are not summed", pod(cpu("a", "1"), init=(cpu("i", "2"), cpu("j", "3"))), Asked(cpu=3000)),
    (
        "INIT: the maximum is taken resource by resource",
        pod(asking("a", {"cpu": "1", "memory": "4Gi"}), init=(asking("i", {"cpu": "2", "memory": "1Gi"}),)),
        Asked(cpu=2000, memory=4 * GI),
    ),
    ("INIT: only an init container asks", pod(container("a"), init=(cpu("i", "500m"),)), Asked(cpu=500)),
    (
        "INIT: its limit is its request too",
        pod(cpu("a", "1"), init=(asking("i", limits={"cpu": "2"}),)),
        Asked(cpu=2000),
    ),
    ("SIDE: a sidecar is added to the sum", pod(cpu("a", "1"), init=(cpu("s", "500m", **ALWAYS),)), Asked(cpu=1500)),
    (
        "SIDE: all sidecars are added",
        pod(cpu("a", "1"), init=(cpu("s", "500m", **ALWAYS), cpu("t", "250m", **ALWAYS))),
        Asked(cpu=1750),
    ),
    (
        "SIDE: an init container runs beside the sidecars before it",
        pod(cpu("a", "1"), init=(cpu("s", "1", **ALWAYS), cpu("i", "3"))),
        Asked(cpu=4000),
    ),
    (
        "SIDE: but not beside those after it",
        pod(cpu("a", "1"), init=(cpu("i", "3"), cpu("s", "1", **ALWAYS))),
        Asked(cpu=3000),
    ),
    (
        "SIDE: sidecar, init, sidecar, init",
        pod(cpu("a", "1"), init=(cpu("s", "1", **ALWAYS), cpu("i", "2"), cpu("t", "2", **ALWAYS), cpu("j", "2"))),
        Asked(cpu=5000),  # s + t + j = 5 is more than s + t + a = 4
    ),
    (
        "SIDE: an init container without a request still has the sidecars beside it",
        pod(container("a"), init=(cpu("s", "2", **ALWAYS), container("i"))),
        Asked(cpu=2000),
    ),
    (
        "POD: Pod-level requests stand in place of the sum",
        pod(cpu("a", "1"), cpu("b", "1"), resources={"requests": {"cpu": "4"}}),
        Asked(cpu=4000),
    ),
    (
        "POD: containers that ask for nothing are fine",
        pod(container(), resources={"requests": {"cpu": "4", "memory": "8Gi"}}),
        Asked(cpu=4000, memory=8 * GI),
    ),
    (
        "POD: what the Pod level leaves out comes from the containers",
        pod(asking("a", {"cpu": "1", "memory": "2Gi"}), resources={"requests": {"cpu": "4"}}),
        Asked(cpu=4000, memory=2 * GI),
    ),
    (
        "POD: a Pod-level limit is the request where nobody asks",
        pod(container(), resources={"limits": {"cpu": "4"}}),
        Asked(cpu=4000),
    ),
    (
        "POD: but the containers' requests come before it",
        pod(cpu("a", "1"), cpu("b", "1"), resources={"limits": {"cpu": "4"}}),
        Asked(cpu=2000),
    ),
    (
        "POD: init containers do not add to it",
        pod(cpu("a", "1"), init=(cpu("i", "4"),), resources={"requests": {"cpu": "4"}}),
        Asked(cpu=4000),
    ),
    (
        "POD: storage has no Pod level",
        pod(asking("a", {"ephemeral-storage": "1Gi"}), resources={"requests": {"cpu": "4"}}),
        Asked(cpu=4000, storage=GI),
    ),
    ("OVER: added to the sum", pod(cpu("a", "1"), runtimeClassName="kata"), Asked(cpu=1250, memory=120 * MI)),
    (
        "OVER: added after the maximum with init containers",
        pod(cpu("a", "1"), init=(cpu("i", "2"),), runtimeClassName="kata"),
        Asked(cpu=2250, memory=120 * MI),
    ),
    (
        "OVER: added to Pod-level requests as well",
        pod(container(), resources={"requests": {"cpu": "2"}}, runtimeClassName="kata"),
        Asked(cpu=2250, memory=120 * MI),
    ),
    (
        "OVER: a RuntimeClass that is not known adds nothing",
        pod(cpu("a", "1"), runtimeClassName="gvisor"),
        Asked(cpu=1000),
    ),
    ("OVER: as the template has it", pod(cpu("a", "1"), overhead={"cpu": "100m"}), Asked(cpu=1100)),
    ("EXT: GPUs are asked for as limits", pod(asking(limits={"nvidia.com/gpu": 2})), Asked(gpus=2)),
    (
        "EXT: and summed",
        pod(asking("a", limits={"nvidia.com/gpu": "1"}), asking("b", limits={"nvidia.com/gpu": "3"})),
        Asked(gpus=4),
    ),
    ("EXT: 0 GPUs were asked for", pod(asking(limits={"nvidia.com/gpu": "0"})), Asked(gpus=0)),
    ("EXT: GPUs of AMD", pod(asking(limits={"amd.com/gpu": 1})), Asked(gpus=1)),
    ("EXT: names that a site maps", pod(asking(limits={"nvidia.com/mig-1g.5gb": 1})), Asked(gpus=1)),
    (
        "INIT, EXT: GPUs take part in the maximum",
        pod(asking("a", limits={"nvidia.com/gpu": 1}), init=(asking("i", limits={"nvidia.com/gpu": 2}),)),
        Asked(gpus=2),
    ),
]

CLUSTER = Cluster(overheads={"kata": {"cpu": "250m", "memory": "120Mi"}})


@pytest.mark.parametrize(("manifest", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_pod_asks_for_what_the_scheduler_reserves(manifest: Manifest, expected: Asked):
    mapped = {"nvidia.com/mig-1g.5gb": GpuVendor.NVIDIA}
    assert figures(workload_of(manifest, namespace="lab", cluster=CLUSTER, gpu_resources=mapped)) == expected


def test_the_table_is_as_long_as_promised():
    assert len(TABLE) >= 40


# --- LimitRange defaults (LIM) -----------------------------------------------------------------------------------

LIMITS = LimitDefaults("LimitRange lab", requests={"cpu": "500m"}, limits={"cpu": "2", "memory": "1Gi"})

LIMIT_TABLE = [
    ("a container without resources gets both", (LIMITS,), pod(container()), Asked(500, GI)),
    ("a request stays", (LIMITS,), pod(asking(requests={"cpu": "1"})), Asked(1000, GI)),
    (
        "a limit without a request is the request, before defaultRequest",
        (LIMITS,),
        pod(asking(limits={"cpu": "3"})),
        Asked(3000, GI),
    ),
    ("each container gets its own", (LIMITS,), pod(container("a"), container("b")), Asked(1000, 2 * GI)),
    ("init containers too", (LIMITS,), pod(container("a"), init=(cpu("i", "4"),)), Asked(4000, GI)),
    ("sidecars too", (LIMITS,), pod(container("a"), init=(container("s", **ALWAYS),)), Asked(1000, 2 * GI)),
    (
        "of two LimitRanges the first that names a resource counts",
        (LimitDefaults("one", requests={"cpu": "1"}), LimitDefaults("two", requests={"cpu": "2", "memory": "2Gi"})),
        pod(container()),
        Asked(1000, 2 * GI),
    ),
    (
        "Pod-level requests stand in place of defaults as well",
        (LIMITS,),
        pod(container(), resources={"requests": {"cpu": "4", "memory": "8Gi"}}),
        Asked(4000, 8 * GI),
    ),
    ("another namespace's are not ours", (), pod(container()), Asked()),
]


@pytest.mark.parametrize(
    ("limits", "manifest", "expected"), [row[1:] for row in LIMIT_TABLE], ids=[row[0] for row in LIMIT_TABLE]
)
def test_limit_range_defaults_count_as_admission_adds_them(
    limits: tuple[LimitDefaults, ...], manifest: Manifest, expected: Asked
):
    cluster = Cluster(limits={"lab": limits, "other": (LimitDefaults("x", requests={"cpu": "9"}),)})
    assert figures(workload_of(manifest, namespace="lab", cluster=cluster)) == expected


# --- origins --------------------------------------------------------------------------------------------------------

MAIN = "spec.template.spec.containers[0].resources"


@pytest.mark.parametrize(
    ("manifest", "origin"),
    [
        (pod(asking(requests={"cpu": "1"})), f"{MAIN}.requests.cpu"),
        (pod(asking(limits={"cpu": "1"})), f"{MAIN}.limits.cpu, as there is no request"),
        (pod(cpu("a", "500m"), cpu("b", "1")), "sum over containers: a 500m + b 1"),
        (pod(cpu("a", "1"), init=(cpu("i", "2"),)), "while init container i runs, the largest moment of the Pod"),
        (
            pod(container(), resources={"limits": {"cpu": "1"}}),
            "spec.template.spec.resources.limits.cpu, as there is no request",
        ),
        (pod(cpu("a", "1"), runtimeClassName="kata"), f"{MAIN}.requests.cpu; plus the overhead of RuntimeClass kata"),
    ],
)
def test_each_figure_says_where_it_comes_from(manifest: Manifest, origin: str):
    found = workload_of(manifest, namespace="lab", cluster=CLUSTER).cpu
    assert found is not None
    assert found.origin == origin


def test_a_limit_range_is_named_as_the_origin():
    found = workload_of(pod(container()), namespace="lab", cluster=Cluster(limits={"lab": (LIMITS,)}))
    assert (found.cpu and found.cpu.origin, found.memory and found.memory.origin) == (
        "LimitRange lab, defaultRequest",
        "LimitRange lab, default",
    )


def test_each_container_keeps_its_own_requests():
    found = workload_of(pod(cpu("a", "1"), init=(asking("i", limits={"memory": "1Gi"}),)), namespace="lab")
    assert [
        (c.name, c.cpu and c.cpu.value, c.memory and c.memory.value, c.gpus and c.gpus.value) for c in found.containers
    ] == [("i", None, GI, None), ("a", 1000, None, None)]


# --- the two amounts of cpu and memory ---------------------------------------------------------------------------


class Both(NamedTuple):
    """Of cpu (millicores) and memory (bytes): the requests, then the limits."""

    cpu: tuple[int, int] | None = None
    memory: tuple[int, int] | None = None


def both(workload: Workload) -> Both:
    requests, limits = workload.requests, workload.limits
    return Both(
        (requests.cpu.value, limits.cpu.value) if requests.cpu and limits.cpu else None,
        (requests.memory.value, limits.memory.value) if requests.memory and limits.memory else None,
    )


def burst(name: str, request: str, limit: str, **fields: Any) -> Manifest:
    return asking(name, {"memory": request}, {"memory": limit}, **fields)


BOTH = [
    ("a limit above the request", pod(burst("a", "5Gi", "60Gi")), Both(memory=(5 * GI, 60 * GI))),
    ("cores likewise", pod(asking("a", {"cpu": "1"}, {"cpu": "8"})), Both(cpu=(1000, 8000))),
    ("a limit alone is both", pod(asking(limits={"memory": "4Gi"})), Both(memory=(4 * GI, 4 * GI))),
    ("a request alone is both", pod(asking(requests={"memory": "4Gi"})), Both(memory=(4 * GI, 4 * GI))),
    ("neither is none", pod(container()), Both()),
    (
        "a request stands in for the missing limit of one container",
        pod(burst("a", "1Gi", "4Gi"), asking("b", {"memory": "2Gi"}), container("c")),
        Both(memory=(3 * GI, 6 * GI)),
    ),
    (
        "INIT: an init container's limit may be the largest moment, where its request is not",
        pod(burst("a", "4Gi", "5Gi"), init=(burst("i", "1Gi", "8Gi"),)),
        Both(memory=(4 * GI, 8 * GI)),
    ),
    (
        "SIDE: a sidecar's limit counts beside the others'",
        pod(burst("a", "1Gi", "4Gi"), init=(burst("s", "1Gi", "2Gi", **ALWAYS), burst("i", "1Gi", "3Gi"))),
        Both(memory=(2 * GI, 6 * GI)),
    ),
    (
        "POD: a Pod-level limit stands in place of the sum",
        pod(burst("a", "1Gi", "4Gi"), resources={"limits": {"memory": "10Gi"}}),
        Both(memory=(GI, 10 * GI)),
    ),
    (
        "POD: the API server takes an init container's limit above it",
        pod(burst("a", "1Gi", "2Gi"), init=(burst("i", "1Gi", "9Gi"),), resources={"limits": {"memory": "3Gi"}}),
        Both(memory=(GI, 3 * GI)),
    ),
    (
        "POD: a Pod-level request without a limit holds, where the containers' limits are less",
        pod(burst("a", "1Gi", "4Gi"), resources={"requests": {"memory": "6Gi"}}),
        Both(memory=(6 * GI, 6 * GI)),
    ),
    (
        "POD: and where they are more, they hold",
        pod(burst("a", "1Gi", "8Gi"), resources={"requests": {"memory": "6Gi"}}),
        Both(memory=(6 * GI, 8 * GI)),
    ),
    (
        "OVER: added to both",
        pod(burst("a", "1Gi", "4Gi"), runtimeClassName="kata"),
        Both(cpu=(250, 250), memory=(GI + 120 * MI, 4 * GI + 120 * MI)),
    ),
    ("QTY: a limit of 0 limits nothing", pod(asking("a", {"memory": "0"}, {"memory": "0"})), Both(memory=(0, 0))),
]


@pytest.mark.parametrize(("manifest", "expected"), [row[1:] for row in BOTH], ids=[row[0] for row in BOTH])
def test_a_pod_has_requests_and_limits(manifest: Manifest, expected: Both):
    assert both(workload_of(manifest, namespace="lab", cluster=CLUSTER)) == expected


def test_a_limit_range_limits_a_container_that_names_none():
    limits = (LimitDefaults("LimitRange lab", limits={"memory": "8Gi", "cpu": "2"}),)
    manifest = pod(asking("a", {"memory": "1Gi", "cpu": "4"}), burst("b", "1Gi", "2Gi"))
    found = workload_of(manifest, namespace="lab", cluster=Cluster(limits={"lab": limits}))
    # Kubernetes refuses to make a Pod whose request is above the limit, so that limit is not counted.
    assert both(found) == Both(cpu=(6000, 6000), memory=(2 * GI, 10 * GI))


@pytest.mark.parametrize(
    ("manifest", "memory"),
    [
        (pod(burst("a", "5Gi", "60Gi")), f"{MAIN}.limits.memory (the request is 5Gi)"),
        (pod(asking(limits={"memory": "5Gi"})), f"{MAIN}.limits.memory, as there is no request"),
        (
            pod(burst("a", "1Gi", "4Gi"), asking("b", {"memory": "2Gi"})),
            "sum over limits of containers: a 4Gi + b 2Gi (request) (the request is 3Gi)",
        ),
        (
            pod(burst("a", "1Gi", "4Gi"), init=(burst("i", "1Gi", "8Gi"),)),
            "limits while init container i runs, the largest moment of the Pod (the request is 1Gi)",
        ),
    ],
)
def test_memory_is_the_limit_and_says_what_the_request_is(manifest: Manifest, memory: str):
    found = workload_of(manifest, namespace="lab").memory
    assert found is not None
    assert f"{found.origin}{found.aside}" == memory


SHARED = "no memory; on HPC all containers share the memory that the others name"


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        (pod(asking("a", {"memory": "1Gi"})), ()),
        (pod(container("a"), container("b")), ()),
        (
            pod(asking("a", {"memory": "1Gi"}), asking("b", {"cpu": "1"})),
            (f"spec.template.spec: container b names {SHARED}",),
        ),
        (pod(burst("a", "1Gi", "2Gi"), init=(container("i"),)), (f"spec.template.spec: container i names {SHARED}",)),
        (
            pod(asking("a", limits={"memory": "1Gi"}), *(container(name) for name in "bcde")),
            (f"spec.template.spec: containers b, c and 2 more name {SHARED}",),
        ),
        (pod(asking("a", {"memory": "1Gi"}), container("b"), resources={"limits": {"memory": "4Gi"}}), ()),
    ],
)
def test_who_shares_the_memory_that_others_name_is_told(manifest: Manifest, told: tuple[str, ...]):
    assert workload_of(manifest, namespace="lab").warnings == told


def test_cores_are_the_request_and_say_what_the_limit_is():
    found = workload_of(pod(asking("a", {"cpu": "1500m"}, {"cpu": "8"})), namespace="lab").cpu
    assert found is not None
    assert (found.value, found.beside) == (1500, "the limit is 8")


@pytest.mark.parametrize(
    ("limits", "vendor"),
    [
        ({"nvidia.com/gpu": 1}, GpuVendor.NVIDIA),
        ({"amd.com/gpu": 1}, GpuVendor.AMD),
        ({"nvidia.com/gpu": 0, "amd.com/gpu": 1}, GpuVendor.AMD),
        ({"nvidia.com/gpu": 0}, None),
        ({}, None),
    ],
)
def test_the_vendor_of_the_gpus_is_known(limits: Manifest, vendor: GpuVendor | None):
    assert workload_of(pod(asking(limits=limits)), namespace="lab").gpu_vendor == vendor


# --- what cannot be right -----------------------------------------------------------------------------------------------

BAD = [
    ({"requests": {"cpu": "1x"}}, f"{MAIN}.requests.cpu"),
    ({"requests": {"cpu": "-1"}}, f"{MAIN}.requests.cpu"),
    ({"requests": {"memory": "1e400"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "NaN"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": float("nan")}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": float("inf")}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "Infinity"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "1_000"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "9223372036854775808"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": ""}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "1 Gi"}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": "1" * 5000}}, f"{MAIN}.requests.memory"),
    ({"requests": {"memory": 10**5000}}, f"{MAIN}.requests.memory"),
    ({"requests": {"cpu": True}}, f"{MAIN}.requests.cpu"),
    ({"requests": {"cpu": ["1"]}}, f"{MAIN}.requests.cpu"),
    ({"requests": {"cpu": {"value": 1}}}, f"{MAIN}.requests.cpu"),
    ({"requests": ["cpu"]}, f"{MAIN}.requests"),
    ({"limits": {"cpu": "one"}}, f"{MAIN}.limits.cpu"),
    ({"limits": {"nvidia.com/gpu": "500m"}}, f"{MAIN}.limits[nvidia.com/gpu]"),
    ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, f"{MAIN}.requests.cpu"),
    ("2 CPUs", f"{MAIN}"),
]


@pytest.mark.parametrize(("resources", "path"), BAD, ids=range(len(BAD)))
def test_a_wrong_amount_is_an_error_that_names_the_field(resources: object, path: str):
    with pytest.raises(JobError) as caught:
        workload_of(job(container(resources=resources)), namespace="lab")
    assert caught.value.path == path


def test_only_what_kubernetes_takes_can_be_asked_for_at_pod_level():
    with pytest.raises(JobError) as caught:
        workload_of(pod(container(), resources={"requests": {"nvidia.com/gpu": "1"}}), namespace="lab")
    assert caught.value.path == "spec.template.spec.resources.requests[nvidia.com/gpu]"


LEVEL = "spec.template.spec.resources"
SMALLER = [  # an API server that does not know the field drops it, and the containers' figures are left
    (
        pod(cpu("a", "3"), cpu("b", "3"), resources={"requests": {"cpu": "4"}}),
        f"{LEVEL}.requests.cpu: is less than the 6 that the containers ask for; raise it",
    ),
    (
        pod(cpu("a", "1"), init=(cpu("i", "8"),), resources={"requests": {"cpu": "4"}}),
        f"{LEVEL}.requests.cpu: is less than the 8 that the containers ask for; raise it",
    ),
    (
        pod(asking("a", {"memory": "90Gi"}), resources={"limits": {"memory": "1Gi"}}),
        f"{LEVEL}.limits.memory: is less than the 90Gi that the containers ask for; raise it",
    ),
    (
        pod(asking("a", {"memory": "1Gi"}, limits={"memory": "90Gi"}), resources={"limits": {"memory": "2Gi"}}),
        f"{LEVEL}.limits.memory: is less than the limit of container a, 90Gi; raise it",
    ),
    (
        pod(asking("a", limits={"memory": "500Gi"}), resources={"limits": {"memory": 0}}),
        f"{LEVEL}.limits.memory: is less than the 500Gi that the containers ask for; raise it",
    ),
]


@pytest.mark.parametrize(("given", "error"), SMALLER, ids=range(len(SMALLER)))
def test_the_pod_level_is_no_way_to_ask_for_less_than_the_containers(given: Manifest, error: str):
    with pytest.raises(JobError) as caught:
        workload_of(given, namespace="lab")
    assert str(caught.value) == error


# --- what no batch job can have: told at the field that asks for it ---------------------------------------------------

TEMPLATE = "spec.template.spec"
FPGA = "asks for an extended resource (example.com/fpga), which no entry in resources of site hpc1 or its queue workq matches"
PAGES = "asks for huge pages (hugepages-2Mi), which no entry in resources of site hpc1 or its queue workq matches"
SECOND_VENDOR = "asks for GPUs of a second vendor, and one batch job has GPUs of one"


def fpga(name: str, **fields: Any) -> Manifest:
    return asking(name, limits={"example.com/fpga": 1}, **fields)


IN_THE_WAY = [
    (
        "each container",
        pod(fpga("a"), container("b"), fpga("c")),
        [(f"{TEMPLATE}.containers[{index}].resources.limits[example.com/fpga]", FPGA) for index in (0, 2)],
    ),
    (
        "an init container, at the largest moment",
        pod(container("a"), init=(asking("i", {"hugepages-2Mi": "4Mi"}, {"hugepages-2Mi": "4Mi"}),)),
        [(f"{TEMPLATE}.initContainers[0].resources.requests.hugepages-2Mi", PAGES)],
    ),
    ("none of it", pod(asking(limits={"example.com/fpga": 0, "hugepages-2Mi": "0"})), []),
    (
        "the Pod level",
        pod(container(), resources={"limits": {"hugepages-2Mi": "4Mi"}}),
        [(f"{TEMPLATE}.resources.limits.hugepages-2Mi", PAGES)],
    ),
    (
        "the template's overhead",
        pod(fpga("a"), overhead={"example.com/fpga": 1}),
        [
            (f"{TEMPLATE}.containers[0].resources.limits[example.com/fpga]", FPGA),
            (f"{TEMPLATE}.overhead[example.com/fpga]", FPGA),
        ],
    ),
    (
        "the overhead of a RuntimeClass",
        pod(container(), runtimeClassName="fast"),
        [(f"{TEMPLATE}.runtimeClassName", f"{FPGA}; added by the overhead of RuntimeClass fast")],
    ),
    (
        "GPUs of two vendors in one container",
        pod(asking(limits={"nvidia.com/gpu": 1, "amd.com/gpu": 1})),
        [(f"{MAIN}.limits[amd.com/gpu]", SECOND_VENDOR)],
    ),
    (
        "GPUs of a second vendor in several containers",
        pod(
            asking("a", limits={"nvidia.com/gpu": 1}),
            asking("b", limits={"amd.com/gpu": 1}),
            asking("c", limits={"amd.com/gpu": 1}),
        ),
        [(f"{TEMPLATE}.containers[{index}].resources.limits[amd.com/gpu]", SECOND_VENDOR) for index in (1, 2)],
    ),
]


def told(found: Workload) -> list[tuple[str, str]]:
    """What is in the way on a queue that maps no resource."""
    where = site()
    obstacles = (*found.obstacles, *resources.unmapped(found, where, where.queues[0]))
    return [(one.path, one.reason) for one in obstacles]


@pytest.mark.parametrize(("manifest", "expected"), [row[1:] for row in IN_THE_WAY], ids=[row[0] for row in IN_THE_WAY])
def test_what_no_site_has_is_told_at_each_field_that_asks_for_it(manifest: Manifest, expected: list[tuple[str, str]]):
    cluster = Cluster(overheads={"fast": {"example.com/fpga": "1"}})
    found = workload_of(manifest, namespace="lab", cluster=cluster)
    assert told(found) == expected


def test_what_a_limit_range_adds_is_told_at_the_containers_resources():
    limits = LimitDefaults("LimitRange lab", limits={"example.com/fpga": "1"})
    found = workload_of(pod(container("a")), namespace="lab", cluster=Cluster(limits={"lab": (limits,)}))
    assert told(found) == [
        (MAIN, f"{FPGA}; added by LimitRange lab, default"),
    ]


@pytest.mark.parametrize(
    ("manifest", "path"),
    [
        (
            pod(asking("a", limits={"nvidia.com/gpu": "500m"}), asking("b", limits={"nvidia.com/gpu": "500m"})),
            f"{MAIN}.limits[nvidia.com/gpu]",
        ),
        (pod(container(), overhead={"nvidia.com/gpu": "500m"}), f"{TEMPLATE}.overhead[nvidia.com/gpu]"),
    ],
)
def test_a_part_of_a_gpu_is_an_error_at_the_field_that_asks_for_it(manifest: Manifest, path: str):
    with pytest.raises(JobError) as caught:
        workload_of(manifest, namespace="lab")
    assert (caught.value.path, str(caught.value)) == (
        path,
        f"{path}: asks for a part of a GPU; GPUs are counted in whole numbers",
    )


def test_what_is_counted_is_shown_as_a_count():
    found = workload_of(
        pod(asking("a", limits={"nvidia.com/gpu": 1}), asking("b", limits={"nvidia.com/gpu": 1024})), namespace="lab"
    )
    assert found.gpus is not None
    assert found.gpus.origin == "sum over containers: a 1 + b 1024"
