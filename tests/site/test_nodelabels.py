"""Node selectors and required node affinities, answered by what a queue says of its nodes."""

from __future__ import annotations

import fnmatch
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import names
from router.site import nodelabels
from router.site.nodelabels import NodeChoice
from router.site.schema import Queue, Site
from router.workload import workload_of
from tests.policy.given import UNHURRIED
from tests.workload.manifests import job

Json = dict[str, Any]
POD = "spec.template.spec"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"{POD}.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
ZONE = "topology.kubernetes.io/zone"
PRODUCT = "nvidia.com/gpu.product"
STATED = {
    PRODUCT: {"A100": {"gpu-type": "a100"}, "H100-*": {"gpu-type": "h100"}},
    "disk": "ssd",
    "cpu": ["intel", "amd"],
    "cores": "64",
    "model": "EPYC-*",
    "node-role.kubernetes.io/worker": "",
    "net": {"ib": {"constraint": "ib"}},
    "isa": {"avx": {"constraint": "avx"}},
}
IGNORED = ["topology.kubernetes.io/*", "pool", "disk", "kubernetes.io/*"]


def site(labels: Json, ignored: list[str]) -> tuple[Site, Queue]:
    made = Site.model_validate(
        {
            "name": "hpc",
            "system": "slurm",
            "workDir": "/w",
            "ignoreNodeLabels": ignored,
            "queues": [{"name": "q", "nodes": 2, "cpusPerNode": 8, "nodeLabels": labels}],
        },
        by_alias=True,
        by_name=False,
    )
    return made, made.queues[0]


def terms(*expressions: list[Json], fields: list[Json] | None = None) -> Json:
    listed: list[Json] = [{"matchExpressions": one} for one in expressions]
    if fields:
        listed.append({"matchFields": fields})
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": listed}}}}


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def chosen(pod: Json, labels: Json, ignored: list[str]) -> tuple[NodeChoice, list[str]]:
    workload = workload_of(job(pod=pod), namespace="lab")
    choice, unmet = nodelabels.choose(workload, *site(labels, ignored))
    assert workload.obstacles == ()
    return choice, [str(one) for one in unmet]


MET: list[tuple[Json, NodeChoice]] = [
    ({}, NodeChoice()),
    ({"nodeSelector": {}}, NodeChoice()),
    ({"nodeSelector": {"kubernetes.io/os": "linux"}}, NodeChoice(met=("kubernetes.io/os=linux",))),
    ({"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}}, NodeChoice(met=("beta.kubernetes.io/arch=amd64",))),
    ({"nodeSelector": {"disk": "ssd"}}, NodeChoice(met=("disk=ssd",))),
    ({"nodeSelector": {"model": "EPYC-9654"}}, NodeChoice(met=("model=EPYC-9654",))),
    (
        {"nodeSelector": {"node-role.kubernetes.io/worker": ""}},
        NodeChoice(met=("node-role.kubernetes.io/worker=''",)),
    ),
    ({"nodeSelector": {ZONE: "a", "pool": "x"}}, NodeChoice(ignored=(f"{ZONE}=a", "pool=x"))),
    ({"nodeSelector": {"kubernetes.io/hostname": "n1"}}, NodeChoice(ignored=("kubernetes.io/hostname=n1",))),
    ({"nodeSelector": {PRODUCT: "A100"}}, NodeChoice((("gpu-type", "a100"),), met=(f"{PRODUCT}=A100",))),
    ({"nodeSelector": {PRODUCT: "H100-80GB"}}, NodeChoice((("gpu-type", "h100"),), met=(f"{PRODUCT}=H100-80GB",))),
    (
        {"nodeSelector": {PRODUCT: "A100", "net": "ib"}},
        NodeChoice((("gpu-type", "a100"), ("constraint", "ib")), met=(f"{PRODUCT}=A100", "net=ib")),
    ),
    (
        terms([expression(PRODUCT, "NotIn", "A100")]),
        NodeChoice((("gpu-type", "h100"),), met=(f"{PRODUCT} other than A100",)),
    ),
    (
        terms([expression(PRODUCT, "Exists"), expression(PRODUCT, "In", "T4", "H100-x")]),
        NodeChoice((("gpu-type", "h100"),), met=(f"the label {PRODUCT}", f"{PRODUCT} in T4, H100-x")),
    ),
    (terms([expression("cpu", "In", "arm", "amd", "intel")]), NodeChoice(met=("cpu in arm, amd, intel",))),
    (terms([expression("cpu", "NotIn", "arm")]), NodeChoice(met=("cpu other than arm",))),
    (terms([expression("spot", "NotIn", "true")]), NodeChoice(met=("spot other than true",))),
    (terms([expression("spot", "DoesNotExist")]), NodeChoice(met=("nodes without spot",))),
    (terms([expression("cores", "Gt", "63"), expression("cores", "Lt", "65")]), NodeChoice(met=("cores > 63", "cores < 65"))),
    (terms([expression("gone", "Exists")], [expression("disk", "Exists")]), NodeChoice(met=("the label disk",))),
    (terms([expression(ZONE, "In", "a", "b")]), NodeChoice(ignored=(f"{ZONE} in a, b",))),
    (terms([expression(names.KEY_QUEUE, "In", "q")]), NodeChoice(met=("batchgate.dev/queue=q",))),
    (terms([expression(names.KEY_QUEUE, "NotIn", "w")]), NodeChoice(met=("batchgate.dev/queue other than w",))),
    (
        terms(fields=[expression("metadata.name", "NotIn", "n1")]),
        NodeChoice(met=("a node other than n1",)),
    ),
    (
        terms(fields=[expression("metadata.name", "In", "q.hpc.batchgate")]),
        NodeChoice(met=("the node q.hpc.batchgate",)),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pod", "expected"), MET, ids=range(len(MET)))
def test_what_a_queue_meets(pod: Json, expected: NodeChoice) -> None:
    assert chosen(pod, STATED, IGNORED) == (expected, [])


SELECTOR = f"{POD}.nodeSelector"
FIRST = f"{TERMS}[0].matchExpressions[0]"
UNMET: list[tuple[Json, list[str]]] = [
    (
        {"nodeSelector": {"shelf": "3"}},
        [
            (
                f"{SELECTOR}.shelf: asks for shelf=3, which nodeLabels of queue q or ignoreNodeLabels of site hpc would have to "
                "answer"
            )
        ],
    ),
    (  # also if a glob ignores the key: what the queue states counts
        {"nodeSelector": {"disk": "hdd"}},
        [f"{SELECTOR}.disk: asks for disk=hdd, and nodeLabels of queue q say ssd"],
    ),
    (
        {"nodeSelector": {"kubernetes.io/arch": "arm64"}},
        [
            (
                f"{SELECTOR}[kubernetes.io/arch]: asks for kubernetes.io/arch=arm64, and nodes of queue q have amd64 unless its "
                "nodeLabels say otherwise"
            )
        ],
    ),
    (
        {"nodeSelector": {"kubernetes.io/os": "windows"}},
        [f"{SELECTOR}[kubernetes.io/os]: asks for kubernetes.io/os=windows, and the virtual node of queue q has linux"],
    ),
    (
        {"nodeSelector": {"cpu": "amd"}},
        [
            (
                f"{SELECTOR}.cpu: asks for cpu=amd, and nodeLabels of queue q have nodes of each of intel, amd, without "
                "directives to choose"
            )
        ],
    ),
    (
        {"nodeSelector": {PRODUCT: "T4"}},
        [f"{SELECTOR}[{PRODUCT}]: asks for {PRODUCT}=T4, and nodeLabels of queue q choose among A100, H100-*"],
    ),
    (
        terms([expression("type", "NotIn", "virtual-kubelet")]),
        [f"{FIRST}: asks for type other than virtual-kubelet, and the virtual node of queue q has virtual-kubelet"],
    ),
    (
        terms([expression("type", "DoesNotExist")]),
        [f"{FIRST}: asks for nodes without type, and the virtual node of queue q has virtual-kubelet"],
    ),
    (
        terms([expression("batchgate.dev/nodes", "Gt", "1")]),
        [f"{FIRST}: asks for batchgate.dev/nodes > 1, a label that Batchgate changes as it likes; take it out"],
    ),
    (
        terms([expression("batchgate.dev/any", "DoesNotExist")]),
        [f"{FIRST}: asks for nodes without batchgate.dev/any, a label that Batchgate changes as it likes; take it out"],
    ),
    (  # others have left nothing to choose
        {"nodeSelector": {PRODUCT: "A100"}, **terms([expression(PRODUCT, "In", "H100-80")])},
        [f"{FIRST}: asks for {PRODUCT}=H100-80, and the Job's other demands on it leave A100 of queue q"],
    ),
    (
        terms([expression(names.KEY_QUEUE, "In", "w", "v")]),
        [f"{FIRST}: asks for batchgate.dev/queue in w, v, and the virtual node of queue q has q"],
    ),
    (  # each alternative is told, as meeting any of them is enough
        terms([expression("a", "Exists"), expression("disk", "Exists")], [expression("b", "In", "1", "2")]),
        [
            f"{FIRST}: asks for the label a, which nodeLabels of queue q or ignoreNodeLabels of site hpc would have to answer",
            (
                f"{TERMS}[1].matchExpressions[0]: asks for b in 1, 2, which nodeLabels of queue q or ignoreNodeLabels of site hpc "
                "would have to answer"
            ),
        ],
    ),
    (
        terms([expression("model", "Gt", "1")]),
        [f"{FIRST}: asks for model > 1, and nodeLabels of queue q say EPYC-*"],
    ),
    (
        terms([expression("model", "NotIn", "EPYC-9654")]),
        [f"{FIRST}: asks for model other than EPYC-9654, and nodeLabels of queue q say EPYC-*"],
    ),
    (
        terms(fields=[expression("metadata.name", "In", "n1")]),
        [f"{TERMS}[0].matchFields[0]: asks for the node n1, and on queue q it would be q.hpc.batchgate"],
    ),
]


@pytest.mark.parametrize(("pod", "expected"), UNMET, ids=range(len(UNMET)))
def test_what_a_queue_does_not_meet_names_key_value_and_the_setting(pod: Json, expected: list[str]) -> None:
    assert chosen(pod, STATED, IGNORED) == (NodeChoice(), expected)


def test_a_queue_may_have_another_architecture_which_its_node_shows() -> None:
    arm = {"kubernetes.io/arch": "arm64"}

    assert chosen({"nodeSelector": arm}, arm, [])[1] == []
    assert [nodelabels.architecture(site(labels, [])[1]) for labels in (arm, {})] == ["arm64", "amd64"]


def test_two_labels_that_need_one_directive_contradict_each_other() -> None:
    choice, unmet = chosen({"nodeSelector": {"net": "ib", "isa": "avx"}}, STATED, [])

    assert unmet == []
    assert nodelabels.contradictions(choice, []) == [
        "its nodes would be chosen by the directive constraint, which is ib and avx (nodeLabels)"
    ]


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([{}, {}], []),
        ([{"qos": "high"}, {"constraint": "ib"}], []),
        ([{"constraint": "bigmem"}], ["its nodes would be chosen by the directive constraint, which is bigmem and ib (nodeLabels)"]),
    ],
)  # fmt: skip
def test_a_directive_of_account_or_rule_is_not_overruled(others: list[dict[str, str]], told: list[str]) -> None:
    choice, _ = chosen({"nodeSelector": {"net": "ib"}}, STATED, [])

    assert nodelabels.contradictions(choice, others) == told


MALFORMED: list[tuple[Json, str]] = [
    (expression("a b", "Exists"), "has 'a b', which is not a label's key, so no node matches it"),
    (expression("a", "In"), "has no values for In, so no node matches it"),
    (expression("a", "Exists", "x"), "has values for Exists, so no node matches it"),
    (expression("a", "NotIn", "-x"), "has '-x', which is not a label's value, so no node matches it"),
    (expression("a", "Gt", "many"), "has no single whole number for Gt, so no node matches it"),
    (expression("a", "Lt", "1", "2"), "has no single whole number for Lt, so no node matches it"),
    (expression("a", "Gt", "9223372036854775808"), "has no single whole number for Gt, so no node matches it"),
    (expression("a", "Like", "x"), "has the operator 'Like', which is not known to Batchgate, so no node matches it"),
]


def test_a_host_name_of_the_cluster_is_told_as_one() -> None:
    _, told = chosen({"nodeSelector": {"kubernetes.io/hostname": "worker-3"}}, {}, [])

    (only,) = told
    assert only == (
        f"{SELECTOR}[kubernetes.io/hostname]: asks for kubernetes.io/hostname=worker-3, and on queue q it would be "
        "q.hpc.batchgate; only ignoreNodeLabels of site hpc could pass it over"
    )


@pytest.mark.parametrize(
    ("key", "value", "path", "told"),
    [
        ("disk", "a\nb", f"{SELECTOR}.disk", "has 'a\\nb', which is not a label's value, so no node matches it"),
        ("disk", "A100-*", f"{SELECTOR}.disk", "has 'A100-*', which is not a label's value, so no node matches it"),
        ("a\n#b", "c", SELECTOR, "has 'a\\n#b', which is not a label's key, so no node matches it"),
    ],
)
def test_a_selector_that_no_node_matches_keeps_the_job(key: str, value: str, path: str, told: str) -> None:
    found = workload_of(job(pod={"nodeSelector": {key: value}}), namespace="lab")

    assert ([(one.path, one.reason) for one in found.obstacles], found.node_demand.selector) == ([(path, told)], ())


@pytest.mark.parametrize(("one", "told"), MALFORMED, ids=range(len(MALFORMED)))
def test_a_term_that_no_node_matches_keeps_the_job(one: Json, told: str) -> None:
    (obstacle,) = workload_of(job(pod=terms([one])), namespace="lab").obstacles

    assert (obstacle.path, obstacle.reason) == (FIRST, told)


# --- held against Kubernetes' rules ---------------------------------------------------------------------------------

KEYS = ["a", "b", "c", "kubernetes.io/os"]
VALUES = ["", "x", "y", "z", "3", "10", "linux"]


def kubernetes_matches(node: dict[str, str], one: Json) -> bool:
    """One expression on one node's labels, as the reference of ``nodeSelectorTerms`` states it."""
    has, value, values = one["key"] in node, node.get(one["key"], ""), one.get("values", [])
    if one["operator"] == "In":
        return has and value in values
    if one["operator"] == "NotIn":
        return not (has and value in values)
    if one["operator"] == "Exists":
        return has
    if one["operator"] == "DoesNotExist":
        return not has
    if not (has and value.isdigit() and len(values) == 1 and values[0].isdigit()):
        return False
    return int(value) > int(values[0]) if one["operator"] == "Gt" else int(value) < int(values[0])


def nodes_of(labels: Json) -> list[dict[str, str]]:
    """Every node that a queue with these labels may have."""
    nodes = [{"kubernetes.io/os": "linux"}]
    for key, values in labels.items():
        nodes = [{**node, key: value} for node in nodes for value in ([values] if isinstance(values, str) else values)]
    return nodes


expressions = st.one_of(
    st.builds(
        lambda key, operator, values: expression(key, operator, *values),
        st.sampled_from(KEYS), st.sampled_from(["In", "NotIn"]), st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
    ),
    st.builds(expression, st.sampled_from(KEYS), st.sampled_from(["Exists", "DoesNotExist"])),
    st.builds(expression, st.sampled_from(KEYS), st.sampled_from(["Gt", "Lt"]), st.sampled_from(["3", "5", "10"])),
)  # fmt: skip
stated = st.dictionaries(
    st.sampled_from(["a", "b", "c"]),
    st.one_of(st.sampled_from(VALUES), st.lists(st.sampled_from(VALUES), min_size=1, max_size=3, unique=True)),
)
selectors = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=2)


@UNHURRIED
@given(stated, selectors, st.lists(st.lists(expressions, min_size=1, max_size=3), max_size=3))
def test_a_queue_meets_what_all_its_nodes_match(
    labels: Json, selector: dict[str, str], listed: list[list[Json]]
) -> None:
    pod = {"nodeSelector": selector, **(terms(*listed) if listed else {})}
    alike = [expression(key, "In", value) for key, value in selector.items()]
    alternatives = [[*alike, *one] for one in listed] or [alike]

    _, unmet = chosen(pod, labels, [])

    assert (unmet == []) is any(
        all(kubernetes_matches(node, one) for node in nodes_of(labels) for one in term) for term in alternatives
    )


@UNHURRIED
@given(stated, st.lists(expressions, min_size=1, max_size=4))
def test_directives_choose_a_value_that_matches_exactly_if_there_is_one(labels: Json, term: list[Json]) -> None:
    several = {key: [values] if isinstance(values, str) else values for key, values in labels.items()}
    mapped = {key: {value: {"comment": value or "empty"} for value in values} for key, values in several.items()}

    _, unmet = chosen(terms(term), mapped, [])

    assert (unmet == []) is any(all(kubernetes_matches(node, one) for one in term) for node in nodes_of(several))


@UNHURRIED
@given(
    st.text("xyz310?*", min_size=1, max_size=3),
    st.sampled_from(["In", "NotIn"]),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=3),
)
def test_a_glob_is_each_of_its_values_for_in_and_all_of_them_for_not_in(
    pattern: str, operator: str, values: list[str]
) -> None:
    concrete = [value for value in values if fnmatch.fnmatchcase(value, pattern)]

    _, unmet = chosen(terms([expression("a", operator, *values)]), {"a": pattern}, [])

    assert (unmet == []) is (bool(concrete) if operator == "In" else not concrete)


@UNHURRIED
@given(stated, st.lists(expressions, min_size=1, max_size=4))
def test_an_ignored_key_is_as_if_it_were_not_there(labels: Json, term: list[Json]) -> None:
    kept = [one for one in term if one["key"] != "c" or "c" in labels]

    with_it, without = chosen(terms(term), labels, ["c"])[1], chosen(terms(kept), labels, [])[1] if kept else []

    assert len(with_it) == len(without)
