"""A whole Job becomes a Workload; what cannot be right is an error that names its field, and nothing else ever is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from router.errors import JobError
from router.workload import job_of, workload_of
from router.workload.credentials import PodAccount, SecretRef
from router.workload.model import Container, ContainerKind, EnvVar, Figure, Mount, Volume, Workload
from tests.workload.manifests import Manifest, annotated, asking, container, job

POD = "spec.template.spec"
MAIN = f"{POD}.containers[0]"


def size(manifest: Manifest, root: str = "") -> Workload:
    return workload_of(manifest, namespace="lab", root=root)


def error(manifest: Manifest, root: str = "") -> str:
    with pytest.raises(JobError) as caught:
        size(manifest, root)
    return str(caught.value)


def test_a_plain_job_as_a_whole():
    manifest = job(
        container(
            "main",
            command=["./solver"],
            args=["input"],
            workingDir="/data",
            imagePullPolicy="Always",
            env=[
                {"name": "A", "value": "1"},
                {"name": "B"},
                {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            envFrom=[{"secretRef": {"name": "t"}}],
            volumeMounts=[{"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True}],
            securityContext={"readOnlyRootFilesystem": True},
        ),
        pod={
            "initContainers": [container("first"), container("beside", restartPolicy="Always")],
            "volumes": [{"name": "data", "hostPath": {"path": "/srv"}}, {"name": "tmp"}],
            "serviceAccountName": "robot",
            "terminationGracePeriodSeconds": 60,
            "imagePullSecrets": [{"name": "registry"}],
        },
        parallelism=3,
        completions=10,
        completionMode="Indexed",
        suspend=True,
        activeDeadlineSeconds=600,
    )
    manifest["metadata"] = {"generateName": "run-", "labels": {"kueue.x-k8s.io/queue-name": "team-a"}}
    assert size(manifest) == Workload(
        namespace="lab",
        name="run-",
        labels={"kueue.x-k8s.io/queue-name": "team-a"},
        containers=(
            Container("first", ContainerKind.INIT, f"{POD}.initContainers[0]", "busybox:1.36"),
            Container("beside", ContainerKind.SIDECAR, f"{POD}.initContainers[1]", "busybox:1.36"),
            Container(
                "main",
                ContainerKind.MAIN,
                MAIN,
                "busybox:1.36",
                command=("./solver",),
                args=("input",),
                env=(EnvVar("A", "1"), EnvVar("B", ""), EnvVar("C", None, "secretKeyRef")),
                env_from=True,
                working_dir="/data",
                mounts=(Mount("data", "/data", "a", True),),
                read_only_root=True,
                secrets=(
                    SecretRef(f"{MAIN}.env[2].valueFrom.secretKeyRef", "s", "k"),
                    SecretRef(f"{MAIN}.envFrom[0].secretRef", "t"),
                ),
            ),
        ),
        volumes=(
            Volume("data", "hostPath", f"{POD}.volumes[0]", {"path": "/srv"}),
            Volume("tmp", "emptyDir", f"{POD}.volumes[1]"),
        ),
        parallelism=Figure(3, "spec.parallelism"),
        completions=Figure(10, "spec.completions"),
        indexed=True,
        suspended=True,
        restart_policy="Never",
        grace=60,
        account=PodAccount("robot", None, ("registry",)),
        deadline=Figure(600, "spec.activeDeadlineSeconds"),
        walltime_asked=Figure(600, "spec.activeDeadlineSeconds"),
        kueue_queue="team-a",
    )


@pytest.mark.parametrize(
    ("spec", "parallelism", "completions"),
    [
        ({}, Figure(1, "default"), Figure(1, "default")),
        ({"completions": 5}, Figure(1, "default"), Figure(5, "spec.completions")),
        # a work queue: no number of completions, and none is made up
        ({"parallelism": 5}, Figure(5, "spec.parallelism"), None),
        ({"parallelism": 0}, Figure(0, "spec.parallelism"), None),
    ],
)
def test_parallelism_and_completions_default_as_in_kubernetes(
    spec: Manifest, parallelism: Figure, completions: Figure | None
):
    found = size(job(**spec))
    assert (found.parallelism, found.completions) == (parallelism, completions)


def test_a_managed_job_names_its_controller():
    assert size(job(managedBy="kueue.x-k8s.io/multikueue")).managed_by == "kueue.x-k8s.io/multikueue"


TIME = "batchgate.dev/walltime"


@pytest.mark.parametrize(
    ("on_job", "hint", "pod_hint", "expected"),
    [
        ({}, None, None, None),
        ({"job": 60}, None, None, Figure(60, "spec.activeDeadlineSeconds")),
        ({"job": 60, "pod": 30}, None, None, Figure(30, f"{POD}.activeDeadlineSeconds")),
        ({"job": 60, "pod": 30}, "2:00:00", None, Figure(7200, f"metadata.annotations[{TIME}]")),
        ({}, "2:00:00", "1h", Figure(3600, f"spec.template.metadata.annotations[{TIME}]")),
    ],
)
def test_walltime_is_the_hint_else_the_pods_deadline_else_the_jobs(
    on_job: dict[str, int], hint: str | None, pod_hint: str | None, expected: Figure | None
):
    pod = {"activeDeadlineSeconds": on_job["pod"]} if "pod" in on_job else {}
    spec = {"activeDeadlineSeconds": on_job["job"]} if "job" in on_job else {}
    manifest = annotated(job(pod=pod, **spec), {TIME: hint} if hint else None, {TIME: pod_hint} if pod_hint else None)
    assert size(manifest).walltime_asked == expected


@pytest.mark.parametrize(
    ("hint", "warnings"),
    [
        ("2:00", (f"{TIME} 2:00 is 2m, minutes before the colon as in PBS; write 2m, or 2h if hours are meant.",)),
        ("2:00:00", ()),
        ("120", ()),
    ],
)
def test_a_time_that_two_people_read_in_two_ways_is_told(hint: str, warnings: tuple[str, ...]):
    assert size(annotated(job(), {TIME: hint})).warnings == warnings


def test_no_time_at_all_is_a_reason_to_stay():
    found = size(job(activeDeadlineSeconds=0))
    assert found.walltime_asked is None
    assert [str(obstacle) for obstacle in found.obstacles] == [
        "spec.activeDeadlineSeconds: is 0, which leaves no time to run"
    ]


# --- documents ------------------------------------------------------------------------------------------------------------


def test_a_field_of_a_cron_jobs_job_is_named_with_its_path():
    inner = job(asking(requests={"cpu": "1x"}))
    spec = {"schedule": "@daily", "jobTemplate": {"spec": inner["spec"]}}

    found = job_of({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})

    assert found is not None
    assert error(*found).startswith(f"spec.jobTemplate.{MAIN}.resources.requests.cpu: '1x' is not a quantity")


def test_a_job_is_itself():
    manifest = job()
    assert job_of(manifest) == (manifest, "")


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        "Job",
        {},
        {"kind": "Job"},
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "batch/v1", "kind": "JobList"},
        {"apiVersion": ["batch/v1"], "kind": {}},
    ],
)
def test_anything_else_is_no_job(document: object):
    assert job_of(document) is None


@pytest.mark.parametrize(("spec", "path"), [("x", "spec"), ({"jobTemplate": []}, "spec.jobTemplate")])
def test_a_broken_cron_job_is_an_error_with_a_path(spec: object, path: str):
    with pytest.raises(JobError) as caught:
        job_of({"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec})
    assert caught.value.path == path


# --- what cannot be right --------------------------------------------------------------------------------------------------

BAD = [
    ({}, f"{POD}.containers: is empty; a Pod needs at least one container"),
    ({"spec": None}, f"{POD}.containers: is empty"),
    ({"spec": []}, "spec: must be an object, and is a list"),
    ({"metadata": 5}, "metadata: must be an object, and is a number"),
    (job() | {"metadata": {"labels": {"a": 1}}}, "metadata.labels[a]: must be a string, and is a number"),
    ({"metadata": {"annotations": {"a": None}}}, "metadata.annotations[a]: must be a string, and is null"),
    (job(pod={"containers": []}), f"{POD}.containers: is empty"),
    (job(pod={"containers": {}}), f"{POD}.containers: must be a list, and is an object"),
    (job(pod={"containers": [None]}), f"{MAIN}: must be an object, and is null"),
    (job(*[container(f"c{n}") for n in range(1001)]), f"{POD}.containers: holds 1001 containers; at most 1000"),
    (job(container("")), f"{MAIN}.name: '' is not a name"),
    (job(container("../x")), f"{MAIN}.name: '../x' is not a name"),
    (job(container("a" * 64)), f"{MAIN}.name: "),
    (job(container("a\n")), f"{MAIN}.name: "),
    (job(container("a"), container("a")), f"{POD}.containers[1].name: 'a' is the name of an earlier container too"),
    (job(container("a", image=7)), f"{MAIN}.image: must be a string, and is a number"),
    (job(container(command="ls")), f"{MAIN}.command: must be a list, and is 'ls'"),
    (job(container(command=["ls", 5])), f"{MAIN}.command[1]: must be a string, and is a number"),
    (job(container(args=[None])), f"{MAIN}.args[0]: must be a string, and is null"),
    (job(container(command=["a\0b"])), f"{MAIN}.command[0]: has a NUL character"),
    (job(container(command=["\ud800"])), f"{MAIN}.command[0]: has half of a surrogate pair"),
    (job(container(env=[{"name": "A", "value": 1}])), f"{MAIN}.env[0].value: must be a string, and is a number"),
    (job(container(env=[{"value": "1"}])), f"{MAIN}.env[0].name: '' is not a variable's name"),
    (job(container(env=[{"name": "A=B", "value": "1"}])), f"{MAIN}.env[0].name: 'A=B' is not a variable's name"),
    (
        job(container(env=[{"name": "A", "value": "1", "valueFrom": {"fieldRef": {}}}])),
        f"{MAIN}.env[0].valueFrom: cannot stand beside a value",
    ),
    (
        job(container(env=[{"name": "A", "valueFrom": {"fieldRef": {}, "secretKeyRef": {}}}])),
        f"{MAIN}.env[0].valueFrom: must name exactly one source",
    ),
    (
        job(container(command=["x" * 700_000], env=[{"name": "A", "value": "y" * 700_000}])),
        f"{MAIN}: command, args and env of the Pod hold more than 1048576 characters",
    ),
    (
        job(*[container(f"c{n}", args=["x" * 300_000]) for n in range(4)]),
        f"{POD}.containers[3]: command, args and env of the Pod hold more than",
    ),
    (
        job(container(volumeMounts=[{"name": "v", "mountPath": "/v"}])),
        f"{MAIN}.volumeMounts[0].name: no volume is called 'v'",
    ),
    (
        job(container(volumeMounts=[{"name": "v"}]), pod={"volumes": [{"name": "v"}]}),
        f"{MAIN}.volumeMounts[0].mountPath: is empty",
    ),
    (
        job(pod={"volumes": [{"name": "v"}, {"name": "v"}]}),
        f"{POD}.volumes[1].name: 'v' is the name of an earlier volume",
    ),
    (
        job(pod={"volumes": [{"name": "v", "emptyDir": {}, "nfs": {}}]}),
        f"{POD}.volumes[0]: has several sources (emptyDir, nfs)",
    ),
    (job(pod={"restartPolicy": "Always"}), f"{POD}.restartPolicy: is 'Always', which a Job cannot have"),
    (
        job(pod={"restartPolicy": None}),
        f"{POD}.restartPolicy: is not set, which means Always; write Never or OnFailure",
    ),
    (job(pod={"terminationGracePeriodSeconds": -1}), f"{POD}.terminationGracePeriodSeconds: is negative"),
    (job(pod={"hostNetwork": "yes"}), f"{POD}.hostNetwork: must be true or false, and is 'yes'"),
    (job(parallelism=-1), "spec.parallelism: is negative, and must not be"),
    (job(parallelism=1.5), "spec.parallelism: must be a whole number, and is a number"),
    (job(parallelism=True), "spec.parallelism: must be a whole number, and is true"),
    (job(parallelism=2**31), "spec.parallelism: is larger than 2147483647"),
    (job(parallelism=-(10**5000)), "spec.parallelism: is negative"),
    (job(activeDeadlineSeconds=2**63), "spec.activeDeadlineSeconds: is larger than 9223372036854775807"),
    (job(completionMode="Sometimes"), "spec.completionMode: 'Sometimes' is neither NonIndexed nor Indexed"),
    (job(completionMode="Indexed"), "spec.completions: must be set if completionMode is Indexed"),
]


@pytest.mark.parametrize(("manifest", "expected"), BAD, ids=range(len(BAD)))
def test_a_job_that_cannot_be_right_is_an_error_that_names_the_field(manifest: Manifest, expected: str):
    assert error(manifest)[: len(expected)] == expected


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"env": [{"name": f"V{n}", "value": f"$(V{n - 1})" * 10 + "x"} for n in range(12)]},
            f"{MAIN}.env[5]: the variables up to this one may expand to more than 1048576 characters",
        ),
        (
            {"env": [{"name": "A", "value": "x" * 400_000}], "command": ["$(A)", "$(A)", "$(A)"]},
            f"{MAIN}: command and args may expand to more than 1048576 characters",
        ),
    ],
)
def test_references_that_multiply_are_an_error(fields: Manifest, expected: str):
    assert error(job(container(**fields))) == expected


def test_few_references_in_little_text_are_fine():
    env = [{"name": f"V{n}", "value": f"$(V{n - 1})" * 2 + "x"} for n in range(8)]
    assert size(job(container(env=env))).obstacles == ()


def test_a_thousand_containers_are_fine():
    assert len(size(job(*[container(f"c{n}") for n in range(1000)])).containers) == 1000


# --- any value in any field -------------------------------------------------------------------------------------------------

RICH = annotated(
    job(
        asking(
            "main",
            {"cpu": "1", "memory": "1Gi"},
            {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1},
            command=["sh", "-c", "mpirun -np $(NP) -x A ./solver $IN"],
            args=["a"],
            workingDir="/w",
            env=[
                {"name": "NP", "value": "4"},
                {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "F", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            envFrom=[{"configMapRef": {"name": "c"}}],
            ports=[{"containerPort": 80, "hostPort": 80}],
            volumeMounts=[
                {"name": "v", "mountPath": "/v", "mountPropagation": "None", "subPath": "x", "readOnly": True}
            ],
            securityContext={
                "runAsUser": 0,
                "privileged": False,
                "capabilities": {"add": ["A"], "drop": ["ALL"]},
                "seccompProfile": {"type": "RuntimeDefault"},
                "readOnlyRootFilesystem": True,
                "procMount": "Default",
            },
            lifecycle={"preStop": {"exec": {"command": ["x"]}}, "stopSignal": "SIGTERM"},
            livenessProbe={"httpGet": {"port": 8080, "httpHeaders": [{"name": "A", "value": "b"}]}},
            restartPolicyRules=[{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}],
            restartPolicy="OnFailure",
            terminationMessagePath="/x",
            imagePullPolicy="Always",
            tty=True,
        ),
        pod={
            "initContainers": [container("i"), container("s", restartPolicy="Always")],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
                        ]
                    },
                    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}],
                },
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "x"}]},
            },
            "topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}],
            "securityContext": {
                "fsGroup": 1,
                "runAsUser": 5,
                "sysctls": [{"name": "a"}],
                "appArmorProfile": {"type": "x"},
            },
            "tolerations": [{"operator": "Exists"}],
            "imagePullSecrets": [{"name": "p"}],
            "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "8"}},
            "overhead": {"cpu": "1"},
            "runtimeClassName": "kata",
            "os": {"name": "linux"},
            "schedulerName": "default-scheduler",
            "dnsPolicy": "None",
            "dnsConfig": {
                "nameservers": ["192.0.2.1"],
                "searches": ["a"],
                "options": [{"name": "ndots", "value": "2"}],
            },
            "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a"]}],
            "hostPID": True,
            "terminationGracePeriodSeconds": 5,
            "activeDeadlineSeconds": 10,
            "serviceAccountName": "sa",
        },
        parallelism=2,
        completions=2,
        completionMode="Indexed",
        suspend=False,
        managedBy="x/y",
        activeDeadlineSeconds=20,
    ),
    {TIME: "1h", "batchgate.dev/ranks": "4", "batchgate.dev/results": "out/*"},
    {"batchgate.dev/nodes": "2", "batchgate.dev/route": "hpc", "batchgate.dev/ranks-per-node": "2"},
)
RICH["metadata"]["labels"] = {"a": "b"}


def places(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value inside a manifest."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*place, key)
        yield from places(child, (*place, key))


PLACES = list(places(RICH))
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([-1, 0, 2**31, 2**63, 10**400, -(10**400)])
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["", "mpirun", "sh", "-c", "1e400", "$(A)", "Always", "\0", "\ud800", "0", "x" * 100, "../..", ":"]
    )
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def put(manifest: Manifest, place: tuple[Any, ...], value: object) -> Manifest:
    changed = copy.deepcopy(manifest)
    owner: Any = changed
    for key in place[:-1]:
        owner = owner[key]
    owner[place[-1]] = value
    return changed


def outcome_of(judge: Callable[[], object]) -> object:
    """What it returns, or the JobError that it raises."""
    try:
        return judge()
    except JobError as problem:
        return problem


def outcome(manifest: Manifest, root: str = "") -> object:
    return outcome_of(lambda: size(manifest, root))


def is_answer(found: object) -> bool:
    return isinstance(found, Workload) or (isinstance(found, JobError) and bool(found.path and found.message))


def test_the_rich_job_itself_is_right():
    assert size(RICH).mpi == "main"


@given(st.sampled_from(PLACES), JSON)
@settings(max_examples=500, deadline=None)
def test_any_value_in_any_field_gives_a_workload_or_an_error_with_a_path(place: tuple[Any, ...], value: object):
    assert is_answer(outcome(put(RICH, place, value)))


@pytest.mark.parametrize(
    "value", [None, True, 0, -1, 1.5, "", "x", [], [None], [[]], {}, {"": None}, 10**5000], ids=range(13)
)
def test_each_field_in_turn_with_each_kind_of_value(value: object):
    for place in PLACES:
        assert is_answer(outcome(put(RICH, place, value))), place


@given(JSON)
@settings(deadline=None)
def test_any_value_as_a_document_is_a_job_or_none(value: object):
    document = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": value}
    found = outcome_of(lambda: job_of(document))
    if isinstance(found, tuple):
        found = outcome(*found)
    assert is_answer(found)


# --- real manifests -----------------------------------------------------------------------------------------------------------

CORPUS = Path(__file__).parents[2] / ".." / "shared" / "corpus"
PLACEHOLDERS = ("$", "<", "{", "_NAME", "_")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real manifests is not beside this checkout")
def test_every_real_job_is_sized_or_refused_for_what_is_not_filled_in_yet():
    sized, refused = 0, []
    for file in sorted(CORPUS.rglob("*.y*ml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            try:
                found = job_of(document)
                if found is not None:
                    size(*found)
                    sized += 1
            except JobError as problem:
                refused.append(str(problem))
    assert sized > 100
    assert [problem for problem in refused if not any(mark in problem for mark in PLACEHOLDERS)] == []
