"""What is too much of a Job is refused by the name of its field, before anything looks into it."""

from __future__ import annotations

from typing import Any

import pytest

from router.errors import JobError
from router.placement import signing
from router.workload import workload_of
from router.workload.bounds import check_bounds
from router.workload.model import ContainerKind, Figure
from router.workload.resources import Asked, pod_requests
from tests.gates import KEY
from tests.workload.manifests import Manifest, annotated, asking, container, job

POD = "spec.template.spec"
MAIN = f"{POD}.containers[0]"
MANY = 1001


def listed(count: int, **fields: Any) -> list[Manifest]:
    return [{"name": f"n{index}", **fields} for index in range(count)]


def named(count: int, value: Any = "1") -> Manifest:
    return {f"x{index}": value for index in range(count)}


TOO_MUCH = [
    (job(container(env=listed(MANY, value="x"))), f"{MAIN}.env", "1001 entries; at most 1000"),
    (job(container(volumeMounts=listed(MANY))), f"{MAIN}.volumeMounts", "1001 entries"),
    (job(pod={"volumes": listed(MANY)}), f"{POD}.volumes", "1001 entries"),
    (job(pod={"tolerations": listed(MANY)}), f"{POD}.tolerations", "1001 entries"),
    (job(pod={"imagePullSecrets": listed(MANY)}), f"{POD}.imagePullSecrets", "1001 entries"),
    (job(pod={"nodeSelector": named(MANY)}), f"{POD}.nodeSelector", "1001 entries"),
    (job(pod=named(MANY)), POD, "1003 entries"),
    (job(container(**named(MANY))), MAIN, "1003 entries"),
    (job(podFailurePolicy={"rules": [{}] * MANY}), "spec.podFailurePolicy.rules", "1001 entries"),
    (job(asking(requests=named(101))), f"{MAIN}.resources.requests", "101 entries; at most 100"),
    (job(asking(limits=named(101))), f"{MAIN}.resources.limits", "101 entries; at most 100"),
    (job(container(command=["x"] * 10_001)), f"{MAIN}.command", "words to 10001; at most 10000"),
    (job(container(args=["x"] * 6000), container("b", args=["x"] * 6000)), f"{POD}.containers[1].args", "12000"),
    (job(*[container(f"c{n}", env=listed(700)) for n in range(30)]), f"{POD}.containers[28].env", "at most 20000"),
    (job(container(image="i" * 65_537)), f"{MAIN}.image", "65537 characters; at most 65536"),
    (job(container(lifecycle={"x": ["i" * 65_537]})), f"{MAIN}.lifecycle.x[0]", "65537 characters"),
    (job(pod={"volumes": [{"hostPath": {"path": "/" * 4097}}]}), f"{POD}.volumes[0].hostPath.path", "4097 bytes long"),
    (job(pod={"volumes": [{"nfs": {"server": "é" * 2049}}]}), f"{POD}.volumes[0].nfs.server", "4098 bytes long"),
    (job(container(workingDir="/" * 4097)), f"{MAIN}.workingDir", "longest path that Linux takes has 4096"),
    (job(container(terminationMessagePath="/" * 4097)), f"{MAIN}.terminationMessagePath", "4097 bytes long"),
    (job(container(volumeMounts=[{"mountPath": "😀" * 1025}])), f"{MAIN}.volumeMounts[0].mountPath", "4100 bytes"),
    (job(container(volumeMounts=[{"subPath": "x" * 4097}])), f"{MAIN}.volumeMounts[0].subPath", "4097 bytes long"),
    (annotated(job(), named(MANY)), "metadata.annotations", "1001 entries"),
    (annotated(job(), {}, named(MANY)), "spec.template.metadata.annotations", "1001 entries"),
    (annotated(job(), {"a": "é" * 131_072}), "metadata.annotations", "262145 bytes"),
    (annotated(job(), {}, {"a": "x" * 262_144}), "spec.template.metadata.annotations", "262145 bytes"),
    ({**job(), "metadata": {"labels": named(MANY)}}, "metadata.labels", "1001 entries"),
]


@pytest.mark.parametrize(("manifest", "path", "message"), TOO_MUCH)
def test_too_much_is_refused_with_its_field(manifest: Manifest, path: str, message: str) -> None:
    with pytest.raises(JobError) as caught:
        check_bounds(manifest, "spec.jobTemplate.")

    assert caught.value.path.removeprefix("spec.jobTemplate.") == path
    assert caught.value.path.startswith("spec.jobTemplate.")
    assert message in caught.value.message


WITHIN = [
    job(container(env=listed(1000, value="x"), volumeMounts=listed(1000))),
    job(pod={"volumes": listed(1000), "tolerations": listed(1000), "nodeSelector": named(1000)}),
    job(asking(requests=named(100), limits=named(100))),
    job(container(command=["sh", "-c", "x" * 1_000_000], args=["x"] * 9_997)),
    job(container(env=[{"name": "A", "value": "x" * 1_000_000}])),
    job(*[container(f"c{n}", command=["x"] * 10) for n in range(1000)]),
    annotated(job(), {"a": "x" * 262_143}, named(1000)),
    job(container(workingDir="/" * 4096, volumeMounts=[{"mountPath": "é" * 2048, "subPath": "x" * 4096}])),
]


@pytest.mark.parametrize("manifest", WITHIN)
def test_what_kubernetes_runs_is_within(manifest: Manifest) -> None:
    check_bounds(manifest)


@pytest.mark.parametrize("wrong", [None, [], "text", 3, {"template": 3}, {"template": {"metadata": 3, "spec": [1]}}])
def test_wrong_types_are_left_to_whoever_reads_them(wrong: object) -> None:
    check_bounds({"metadata": wrong, "spec": wrong})


def test_a_path_stays_short_whatever_keys_there_are() -> None:
    with pytest.raises(JobError) as caught:
        check_bounds(job(pod={"k" * 900_000: {"i": "x" * 70_000}}))

    assert len(caught.value.path) < 200


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ("a\n" * 101, "names 101 results; at most 100"),
        ("é" * 6145, "is 12290 bytes long; at most 12288"),
        ("out/a\n" + "**/" * 32 + "x", "has more than 32 parts between /"),
        ("x" * 513, "has more than 512 characters between two /"),
        ("a/" * 450_000, "is 900000 bytes long; at most 12288"),
        (" \n" * 450_000, "is 900000 bytes long; at most 12288"),
    ],
)
def test_results_are_no_more_than_a_signature_holds(results: str, message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        workload_of(annotated(job(), {"batchgate.dev/results": results}), namespace="default")
    assert caught.value.path == "metadata.annotations[batchgate.dev/results]"


def test_the_most_results_that_are_taken_fit_into_a_signature() -> None:
    results = "/".join(["\N{GRINNING FACE}" * 511] * 6)
    workload = workload_of(annotated(job(), {"batchgate.dev/results": results}), namespace="default")
    texts = ("n" * 63, "u" * 256, "s" * 63, "q" * 63, "a" * 256)
    claims = signing.Claims(0, *texts, workload.results, "0" * 64, "0" * 64, "u" * 36)

    assert (
        signing.verify(signing.sign(claims, KEY), claims, {signing.key_id(KEY.public_key()): KEY.public_key()})
        == claims
    )


def test_figures_are_added_up_by_name_and_not_every_name_for_every_container() -> None:
    looked_at = []

    class Counted(dict[str, Figure]):
        def get(self, key: Any, default: Any = None) -> Any:
            looked_at.append(key)
            return super().get(key, default)

    asked = [
        Asked(f"c{n}", ContainerKind.MAIN, {}, Counted({f"a.b/c{n}-{i}": Figure(1000, "x") for i in range(10)}), {})
        for n in range(100)
    ]

    assert len(pod_requests(asked, {}, "p", {})) == 1000
    assert len(looked_at) <= 2000
