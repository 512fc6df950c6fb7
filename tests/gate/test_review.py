"""Reviews and their answers, by the contract of ``admission.k8s.io/v1``."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import ReviewError
from router.gate.review import DEEPEST, LONGEST_WARNINGS, cut, review
from router.workload.cluster import Cluster
from router.workload.fields import LONGEST_WARNING
from tests.allowed import surplus
from tests.gates import gate, review_of, sized
from tests.placement.given import job_of

OURS = "batchgate.dev/"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


def nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


def patched(job: Any, response: dict[str, Any]) -> Any:
    return jsonpatch.apply_patch(job, json.loads(base64.b64decode(response["patch"])))


def test_the_answer_for_a_routed_job() -> None:
    job = job_of(pod=sized("3"))
    body = review_of(job)
    before = copy.deepcopy(body)

    answer = review(body, gate())

    assert body == before
    assert answer.response.keys() == {"apiVersion", "kind", "response"}
    assert (answer.response["apiVersion"], answer.response["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer.response["response"]
    assert response.keys() == {"uid", "allowed", "patchType", "patch", "warnings", "auditAnnotations"}
    assert (response["uid"], response["allowed"], response["patchType"]) == (UID, True, "JSONPatch")
    assert surplus(job, patched(job, response)) == []
    reason = response["auditAnnotations"]["reason"]
    assert response["auditAnnotations"].keys() == {"decision", "rule", "reason", "site", "queue", "audited"}
    assert response["auditAnnotations"]["audited"].startswith("seen: ")
    assert response["warnings"][0].startswith(f"This Job goes to HPC: {reason}; there ")
    assert answer.record == {
        "uid": UID,
        "operation": "CREATE",
        "namespace": "default",
        "name": "j",
        "user": "ada",
        "groups": ("system:authenticated",),
        "groups_left_out": 0,
        "dry_run": False,
        "allowed": True,
        "target": "hpc",
        "rule": "large",
        "reason": reason,
        "site": "hpc1",
        "queue": "small",
        "audited": ("seen",),
    }


def test_the_answer_for_a_job_that_stays() -> None:
    job = job_of(pod=sized("1"))

    response = review(review_of(job), gate()).response["response"]

    assert response.keys() == {"uid", "allowed", "patchType", "patch", "auditAnnotations"}
    assert patched(job, response)["metadata"]["labels"] == {OURS + "target": "cloud"}


def test_the_answer_for_a_job_that_is_as_it_should_be_holds_no_patch() -> None:
    job = job_of(pod=sized("1"))
    stored = patched(job, review(review_of(job), gate()).response["response"])

    response = review(review_of(stored), gate()).response["response"]

    assert response.keys() == {"uid", "allowed", "auditAnnotations"}


def test_the_answer_for_a_denied_job() -> None:
    answer = review(review_of(job_of(pod=sized("3", "2Ti"))), gate())

    assert answer.response["response"] == {
        "uid": UID,
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 403,
            "reason": "Forbidden",
            "message": "rule never denies this Job: nobody has that much memory",
        },
        "auditAnnotations": {"decision": "deny", "rule": "never", "reason": "nobody has that much memory"},
    }
    assert (answer.record["allowed"], answer.record["target"], answer.record["rule"]) == (False, "deny", "never")


def launching(*commands: tuple[str, ...]) -> dict[str, Any]:
    """A Pod with a container for each of these commands, which together ask for 3 CPUs."""
    (container,) = sized("3")["containers"]
    more = [{"name": f"c{place}", "image": "i", "command": [*words]} for place, words in enumerate(commands[1:], 1)]
    return {"containers": [{**container, "command": [*commands[0]]}, *more]}


COMMAND = "spec.template.spec.containers[0].command"


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (
            launching(("mpirun", "-np", "64", "./a")),
            f"queue workq of site hpc1: it needs 8 nodes for 64 ranks of 1 core; it may have 4 (asked for: mpirun -np 64 in {COMMAND})",
        ),
        (
            launching(("mpirun", "-np", "2", "./a"), ("tail", "-f", "log")),
            (
                f"{COMMAND}: starts mpirun in one of 2 containers, and only a Pod with one container can be spread over nodes; "
                "leave the others out or make them sidecars"
            ),
        ),
    ],
    ids=["ranks that no queue holds", "one of several containers"],
)
def test_an_mpi_job_that_can_run_nowhere_is_denied_with_the_field(pod: dict[str, Any], why: str) -> None:
    answer = review(review_of(job_of(pod=pod, namespace="strict"), namespace="strict"), gate())

    message = f"rule strict allows it only on HPC, but it cannot go there: {why}"
    assert answer.response["response"]["status"]["message"] == f"rule strict denies this Job: {message}"


@pytest.mark.parametrize(
    "script",
    [
        "mpirun -np 8 ./a | tee log",
        "for i in 1 2 3; do mpirun -np 8 ./a $i; done",
        "cd /x && mpirun -np 8 ./a",
    ],
)
def test_a_launcher_within_a_script_makes_an_mpi_job(script: str) -> None:
    response = review(review_of(job_of(pod=launching(("bash", "-c", script)))), gate()).response["response"]

    assert response["auditAnnotations"]["queue"] == "workq"
    assert [one for one in response["warnings"] if "one process" in one] == []


@pytest.mark.parametrize(
    ("job", "field"),
    [
        (job_of(pod={"containers": []}), "spec.template.spec.containers"),
        (job_of(pod=sized("1x")), "spec.template.spec.containers[0].resources.requests"),
        (job_of(pod=sized("-1")), "spec.template.spec.containers[0].resources.requests"),
        (job_of(pod=sized("1e400")), "spec.template.spec.containers[0].resources.requests"),
        (job_of(pod=sized("NaN")), "spec.template.spec.containers[0].resources.requests"),
        (job_of(pod=sized("3"), annotations={OURS + "walltime": "soon"}), "metadata.annotations"),
        (job_of(pod=sized("3"), annotations={OURS + "walltime": "0"}), "metadata.annotations"),
        (job_of(pod=sized("3"), annotations={OURS + "ranks": "-4"}), "metadata.annotations"),
        ({"kind": "Job", "metadata": {"name": "j"}}, "spec"),
        ({"kind": "Job", "metadata": [], "spec": {}}, "metadata"),
        ({}, "spec"),
    ],
)
def test_a_job_that_cannot_be_right_is_denied_with_the_field(job: Any, field: str) -> None:
    answer = review(review_of(job), gate())

    response = answer.response["response"]
    status = response["status"]
    assert response["allowed"] is False
    assert (status["code"], status["reason"]) == (422, "Invalid")
    (cause,) = status["details"]["causes"]
    assert cause["field"].startswith(field)
    assert status["message"] == f"{cause['field']}: {cause['message']}"
    assert answer.record["target"] == "invalid"


def test_ranks_that_no_queue_fits_stay_in_the_cloud_with_both_figures() -> None:
    job = job_of(pod=sized("3"), annotations={OURS + "ranks": "1000"})

    response = review(review_of(job), gate()).response["response"]

    assert response["auditAnnotations"]["decision"] == "cloud"
    assert ["1000" in one for one in response["warnings"][:3]] == [False, True, True]


@pytest.mark.parametrize(
    "body",
    [
        None,
        3,
        "x",
        [],
        {},
        {"kind": "AdmissionReview"},
        {**review_of({}), "apiVersion": "admission.k8s.io/v1beta1"},
        {**review_of({}), "kind": "Status"},
        {**review_of({}), "request": None},
        {**review_of({}), "request": []},
        review_of({}, uid=None),
        review_of({}, uid=""),
        review_of({}, uid=7),
        review_of({}, uid="\ud800"),
        review_of({}, kind={"group": "", "version": "v1", "kind": "Pod"}),
        review_of({}, kind={"group": "batch", "version": "v1beta1", "kind": "CronJob"}),
        review_of({}, kind="Job"),
        review_of({"kind": "Pod"}),
        review_of({"kind": "Job", "apiVersion": "batch/v2"}),
        review_of(None),
        review_of([]),
        review_of({}, operation="UPDATE"),
        review_of({}, operation=["CREATE"]),
        review_of({}, namespace=None),
        review_of({}, namespace=5),
        review_of({}, userInfo=None),
        review_of({}, userInfo={}),
        review_of({}, userInfo={"username": ["ada"]}),
        review_of({}, userInfo={"username": "ada", "groups": "physics"}),
        review_of({}, userInfo={"username": "ada", "groups": [None]}),
        review_of({}, name={}),
        review_of({"metadata": nested(DEEPEST)}),
        review_of({}, extra=nested(50_000)),
        review_of({"x": [[]] * 600_000}),
    ],
    ids=lambda body: None if isinstance(body, dict) else repr(body),
)
def test_what_is_no_review_is_refused(body: Any) -> None:
    with pytest.raises(ReviewError) as caught:
        review(body, gate())

    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_hundred_levels_are_read() -> None:
    job = job_of(pod=sized("1"))
    job["spec"]["template"]["spec"]["containers"][0]["x"] = nested(DEEPEST - 8)

    assert review(review_of(job), gate()).response["response"]["allowed"] is True
    job["spec"]["template"]["spec"]["containers"][0]["x"] = nested(DEEPEST - 7)
    with pytest.raises(ReviewError, match="more than 100 levels"):
        review(review_of(job), gate())


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "DELETE", "object": None, "oldObject": job_of()},
        {"operation": "CONNECT", "object": None},
        {"subResource": "status"},
        {"subResource": "scale", "kind": {"group": "autoscaling", "version": "v1", "kind": "Scale"}},
    ],
    ids=["delete", "connect", "status", "scale"],
)
def test_other_requests_are_allowed_untouched(request_: dict[str, Any]) -> None:
    answer = review({**review_of(job_of(pod=sized("3")), **request_)}, gate())

    assert answer.response["response"] == {"uid": UID, "allowed": True}
    assert answer.record["target"] == "untouched"


def test_a_dry_run_is_answered_like_any_other() -> None:
    job = job_of(pod=sized("3"))

    wet, dry = (review(review_of(job, dryRun=dry), gate()) for dry in (False, True))

    assert dry.response == wet.response
    assert dry.record == {**wet.record, "dry_run": True}


def test_who_asks_is_the_user_of_the_request() -> None:
    job = job_of(pod=sized("3"))
    group = {"username": "bob", "groups": ["physics"]}

    annotations = patched(job, review(review_of(job, userInfo=group), gate()).response["response"])["spec"]["template"][
        "metadata"
    ]["annotations"]

    assert annotations[OURS + "requester"] == "bob"
    assert annotations[OURS + "account"] == '{"user":"shared-phys"}'


def test_a_group_with_a_line_break_in_its_name_is_told_where_groups_count() -> None:
    asking = {"username": "ada", "groups": ["a\nphysics"]}

    answer = review(review_of(job_of(pod=sized("3")), userInfo=asking), gate())

    assert answer.response["response"]["status"]["message"] == (
        r"metadata: the name of group 'a\nphysics' holds a line break; the identity provider of the cluster must not give "
        "such names"
    )


def test_the_namespaces_labels_are_what_rules_read() -> None:
    rules = """
rules:
  - {name: tier, when: "has(request.namespaceLabels) && request.namespaceLabels['tier'] == 'hpc'", hpc: [{queue: workq}]}
  - {name: rest, cloud: true}
"""
    known = Cluster(namespaces={"default": {"tier": "hpc"}})

    answer = review(review_of(job_of(pod=sized("1"))), gate(rules, cluster=known))

    assert answer.record["rule"] == "tier"


def test_a_generated_name_is_shown_as_such() -> None:
    job = job_of(pod=sized("1"))
    job["metadata"] = {"generateName": "run-"}

    assert review(review_of(job), gate()).record["name"] == "run-*"


@pytest.mark.parametrize(
    ("warnings", "expected"),
    [
        ([], []),
        (["a b"], ["a b"]),
        (["a\nb\tc\x00\x7f"], ["a b c  "]),
        (["half \ud800"], ["half ?"]),
        (["é"], ["é"]),
        (["x" * 256], ["x" * 256]),
        (["x" * 257], ["x" * 255 + "…"]),
        (["word " * 60], ["word " * 50 + "word…"]),
    ],
)
def test_warnings_are_cut_to_what_reaches_the_user(warnings: list[str], expected: list[str]) -> None:
    assert cut(warnings) == expected


@given(st.lists(st.text(st.characters(exclude_categories=()), max_size=600), max_size=40))
def test_warnings_of_any_text_are_lines_within_the_limits(warnings: list[str]) -> None:
    shown = cut(warnings)

    assert sum(map(len, shown)) <= LONGEST_WARNINGS
    assert all(len(one) <= LONGEST_WARNING and one.isprintable() for one in shown)
    json.dumps(shown, ensure_ascii=False).encode()


def test_ten_thousand_containers_have_an_answer() -> None:
    pod = sized("1m", "1Ki")
    pod["containers"] = [{**pod["containers"][0], "name": f"c{index}"} for index in range(10_000)]

    response = review(review_of(job_of(pod=pod)), gate()).response["response"]

    assert response["uid"] == UID


# --- anything ----------------------------------------------------------------------------------------------------

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from(["1", "-1", "1Gi", "Always", "Never", "mpirun", "$(X)"]),
    lambda below: (
        st.lists(below, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["name", "image", "command", "args", "env", "value", "resources", "requests", "cpu", "memory"]
            )
            | st.text(max_size=5),
            below,
            max_size=4,
        )
    ),
    max_leaves=20,
)


def spoil(draw: st.DrawFn, document: Any, deepest: int) -> None:
    """Put something else in one place of a document, at any depth."""
    parent = document
    for _ in range(draw(st.integers(0, deepest))):
        below = [key for key in keys_of(parent) if isinstance(parent[key], dict | list) and parent[key]]
        if not below:
            break
        parent = parent[draw(st.sampled_from(below))]
    parent[draw(st.sampled_from(keys_of(parent)))] = draw(ANYTHING)


def keys_of(parent: Any) -> list[Any]:
    return sorted(parent) if isinstance(parent, dict) else list(range(len(parent)))


def rich_job(*, suspend: bool = False) -> dict[str, Any]:
    pod = sized("3", volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "k"}])
    pod["containers"][0] |= {"env": [{"name": "A", "value": "b"}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = {"activeDeadlineSeconds": 60, "suspend": suspend}
    return job_of(spec, pod, labels={"a": "b"}, annotations={OURS + "ranks": "2"})


@st.composite
def spoiled_creations(draw: st.DrawFn) -> Any:
    body = review_of(rich_job())
    spoil(draw, body, 10)
    return body


@st.composite
def spoiled_updates(draw: st.DrawFn) -> Any:
    """Updates of Jobs that were sent to HPC, or not, in which one place of either Job holds something else."""
    stored = rich_job(suspend=draw(st.booleans()))
    if draw(st.booleans()):
        stored = patched(stored, review(review_of(stored), gate()).response["response"])
    new = copy.deepcopy(stored)
    spoil(draw, draw(st.sampled_from([new, new, stored])), 8)
    return review_of(new, stored=stored)


@given(spoiled_creations() | spoiled_updates() | ANYTHING)
def test_anything_gets_an_answer_or_is_no_review(body: Any) -> None:
    try:
        answer = review(body, gate())
    except ReviewError:
        return
    json.dumps(answer.response, allow_nan=False)
    assert answer.response["response"]["uid"] == body["request"]["uid"]


def test_a_record_holds_names_of_sane_lengths() -> None:
    long = "n" * 900_000
    answer = review(review_of(job_of(name=long), user=long, namespace=long), gate())

    lengths = {name: len(answer.record[name]) for name in ("uid", "namespace", "name", "user")}
    assert lengths == {"uid": 36, "namespace": 63, "name": 253, "user": 256}
    assert len(json.dumps(answer.record)) < 8192


def test_a_record_holds_a_hundred_groups_and_says_that_there_are_more() -> None:
    """With user, groups and namespace the same question can be put to ``batchgate explain``."""

    def recorded(*groups: str) -> dict[str, Any]:
        asking = {"username": "ada", "groups": list(groups)}
        return review(review_of(job_of(), userInfo=asking), gate()).record

    few, many = recorded("physicists", "g" * 900), recorded(*[f"g{number}" for number in range(250)])

    assert (few["groups"][0], len(few["groups"][1]), few["groups_left_out"]) == ("physicists", 256, 0)
    assert (many["groups"], many["groups_left_out"]) == (tuple(f"g{number}" for number in range(100)), 150)


def test_operations_and_names_of_other_requests_are_cut_too() -> None:
    answer = review(review_of(job_of(), operation="o" * 900_000, name="n" * 900_000), gate())

    assert len(json.dumps(answer.record)) < 1024


def test_path_and_message_of_a_denial_are_bounded() -> None:
    key = "k" * 900_000
    answer = review(review_of(job_of(labels={key: 3})), gate())

    status = answer.response["response"]["status"]
    assert len(status["details"]["causes"][0]["field"]) <= 512
    assert "must be a string" in status["message"]
    assert len(json.dumps(answer.response)) < 4096
