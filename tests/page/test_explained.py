"""What a Job's page says under "If it came now": for whom it is judged, what is known, what differs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from router import names
from router.cli.cluster import Cluster
from router.page.app import create_app
from router.page.guard import guard
from router.page.models.explained import QueueLine, explained, states_now
from router.page.policysource import Policies
from router.page.reader import _look
from router.policy.decision import QueueState, QueueStates, Requester
from router.policy.loading import load
from tests.operating.objects import NOW
from tests.page.objects import KEY, Fixed, Told, judged, sight
from tests.policies import LARGE_GO_TO_HPC

FOR_A_GROUP = LARGE_GO_TO_HPC.replace("users: [admin, ada], as: ada", "groups: [physics], as: phys")
ADA = Requester("ada", ("physics",), "")


def made(name: str = "small", *, site: str = "", requester: str = "", **fields: Any) -> dict[str, Any]:
    """A Job that the queue has room for, in the cloud if it is not given a site."""
    found = judged(name, site=site, requester=requester, **fields)
    del found["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]  # the queue has no GPUs
    return found


def test_a_job_explained_by_the_policy_of_now() -> None:
    policy = load({"policy.yaml": LARGE_GO_TO_HPC})
    job = made("large", site="demo", requester="ada")
    closed = QueueStates({("demo", "batch"): QueueState("demo", "batch", up=False)})

    found, shut = (explained(job, policy, states, NOW) for states in (QueueStates(), closed))

    assert (found.target, found.rule, [one.name for one in found.rules]) == ("hpc", "large", ["large"])
    assert (found.queues, found.not_looked_at) == ((QueueLine("demo/batch", taken=True, why=""),), ("small",))
    assert (shut.target, shut.queues) == (
        "cloud",
        (QueueLine("demo/batch", taken=False, why="the queue is closed, down, or not in the batch system"),),
    )


TWO_QUEUES = LARGE_GO_TO_HPC.replace(
    "    queues:\n",
    "    queues:\n      - {name: long, nodes: 4, cpusPerNode: 8, memoryPerNode: 64Gi, walltimeMax: 240h}\n",
).replace("hpc: [{queue: batch}]", "hpc: [{queue: batch}, {queue: long}]")
SHUT = QueueStates({("demo", "batch"): QueueState("demo", "batch", up=False)})


@pytest.mark.parametrize(
    ("decided", "states", "expected"),
    [
        ({"rule": "large", "site": "demo"}, QueueStates(), ("demo/batch", ())),
        ({"rule": "large", "site": "demo"}, SHUT, ("demo/long", ("queue demo/long, was demo/batch",))),
        ({"rule": "large", "site": "old"}, QueueStates(), ("demo/batch", ("queue demo/batch, was old/batch",))),
        ({"rule": "big", "site": "demo"}, QueueStates(), ("demo/batch", ("rule large, was big",))),
        ({"rule": "rest", "site": ""}, SHUT, ("demo/long", ("target hpc, was cloud", "rule large, was rest"))),
        ({"as_": "ben"}, QueueStates(), ("demo/batch", ("HPC user ada, was ben", "account physics, was none"))),
    ],
)
def test_what_differs_from_the_decision_that_the_job_has(
    decided: dict[str, str], states: QueueStates, expected: tuple[str, tuple[str, ...]]
) -> None:
    chosen = {"rule": "large", "site": "demo", **decided}
    as_ = chosen.pop("as_", "")
    job = made("large", requester="ada", **chosen)
    account = {"user": as_} if as_ else {"user": "ada", "account": "physics"}
    job["metadata"]["annotations"][names.KEY_ACCOUNT] = json.dumps(account)

    found = explained(job, load({"policy.yaml": TWO_QUEUES}), states, NOW)

    assert (found.queue, found.differs) == expected


def test_the_page_says_what_differs(tmp_path: Path) -> None:
    """A Job that the webhook has not judged has no decision that could be the same."""
    job = made(requester="ada", rule="large", site="demo")
    job["metadata"]["annotations"][names.KEY_ACCOUNT] = json.dumps({"user": "ada", "account": "physics"})
    unjudged = made(requester="ada")
    unjudged["metadata"] |= {"labels": {}, "annotations": {}}

    same, other = (page_of(tmp_path, Told({JOB: one}), LARGE_GO_TO_HPC) for one in (job, unjudged))

    assert "The same: demo/batch, by rule large" in same
    assert "<strong>Another decision</strong> (target hpc, was none; rule large, was none): demo/batch" in other


@pytest.mark.parametrize(
    ("maker", "recorded", "reader", "expected"),
    [
        ("", None, ADA, ("ada", "hpc")),
        ("", None, Requester("ada", ("biology",), ""), ("ada", "cloud")),
        ("", "physics", Requester("ada", ("biology",), ""), ("ada", "cloud")),  # anybody may have written that
        ("ada", None, ADA, ("", "hpc")),
        ("ben", None, ADA, ("", "cloud")),
        ("ben", "physics\nall", Requester("ada", (), ""), ("", "hpc")),
        ("ada", "biology", ADA, ("", "cloud")),
    ],
)
def test_for_whom_a_job_is_explained(
    maker: str, recorded: str | None, reader: Requester, expected: tuple[str, str]
) -> None:
    """The account is for a group, which a Job in the cloud names as little as its maker."""
    job = made(requester=maker)
    if recorded is not None:
        job["metadata"]["annotations"][names.KEY_GROUPS] = recorded

    found = explained(job, load({"policy.yaml": FOR_A_GROUP}), QueueStates(), NOW, reader)

    assert (found.asker, found.target) == expected


def page_of(directory: Path, api: Told, policy: str) -> str:
    """The Job's page for ada, who is in the group physics, by this policy."""
    (directory / "policy.yaml").write_text(policy)
    found = Fixed(
        sight(user="ada", groups=("physics",)), Cluster(api, "default", named=False, system="batchgate-system")
    )
    app = create_app(lambda: found, Policies(directory), lambda one: guard(one, KEY))  # type: ignore[arg-type, return-value]
    client = app.test_client()
    client.set_cookie(KEY.cookie, KEY.secret, domain="localhost")
    return client.get("/jobs/default/small").text


JOB = "/apis/batch/v1/namespaces/default/jobs/small"


def test_who_looks_is_read_with_their_groups(tmp_path: Path) -> None:
    api = Told({JOB: made()}, who={"username": "ada", "groups": ["physics"]})

    seen = _look(Cluster(api, "default", named=False, system="batchgate-system")).sight

    assert (seen.user, seen.groups) == ("ada", ("physics",))
    text = page_of(tmp_path, api, FOR_A_GROUP)
    assert ("judged for ada" in text, "no account" in text) == (True, False)


BY_LABEL = LARGE_GO_TO_HPC.replace(
    "when: job.cpus >= 2,", "when: \"'tier' in request.namespaceLabels && request.namespaceLabels['tier'] == 'hpc'\","
)
NAMESPACE = "/api/v1/namespaces/default"
HPC, CLOUD = (f"{place}, by rule {rule}" for place, rule in (("demo/batch", "large"), ("cloud", "small")))
UNKNOWN = "unknown here, so that the decision may be another: request.namespaceLabels."


@pytest.mark.parametrize(
    ("labels", "refused", "policy", "expected"),
    [
        ({"tier": "hpc"}, False, BY_LABEL, (HPC, False, True)),
        ({"tier": "web"}, False, BY_LABEL, (CLOUD, False, True)),
        ({}, False, BY_LABEL, (CLOUD, False, True)),
        ({"tier": "hpc"}, True, BY_LABEL, (CLOUD, True, True)),
        ({"tier": "hpc"}, True, LARGE_GO_TO_HPC, (HPC, False, False)),  # no rule reads them
    ],
)
def test_labels_of_the_namespace(
    tmp_path: Path, labels: dict[str, str], refused: bool, policy: str, expected: tuple[str, bool, bool]
) -> None:
    objects = {JOB: made(requester="ada"), NAMESPACE: {"metadata": {"name": "default", "labels": labels}}}
    api = Told(objects, *((NAMESPACE,) if refused else ()))

    text = page_of(tmp_path, api, policy)

    decided, unknown, asked = expected
    assert (decided in text, UNKNOWN in text, api.asked.count(NAMESPACE)) == (True, unknown, int(asked))
    assert "could not be looked at" not in text  # who reads no namespaces need not be told it on each page


@pytest.mark.parametrize(
    ("maker", "reader", "when", "expected"),
    [
        ("ada", ADA, "job.cpus >= 2", ()),
        ("ben", ADA, "job.cpus >= 2", ("request.groups",)),
        ("", Requester("", (), ""), "job.cpus >= 2", ("request.user", "request.groups")),
        ("ben", ADA, "queues['demo/batch'].freeNodes >= 0", ("queues['demo/batch'].freeNodes", "request.groups")),
    ],
)
def test_what_is_unknown_is_named(maker: str, reader: Requester, when: str, expected: tuple[str, ...]) -> None:
    policy = load({"policy.yaml": FOR_A_GROUP.replace("job.cpus >= 2", f'"{when}"')})

    assert explained(made(requester=maker), policy, QueueStates(), NOW, reader).unknown == expected


LIMIT_RANGES = "/api/v1/namespaces/default/limitranges"
RUNTIME_CLASS = "/apis/node.k8s.io/v1/runtimeclasses/kata"
CORES = {"metadata": {"name": "cores"}, "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "2"}}]}}
KATA = {"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "1"}}}
FULL = {"cpu": "1", "memory": "1Gi"}
DOUBT = "As far as is known here, another decision"
SURE = "<strong>Another decision</strong>"


def filled_in(resources: dict[str, Any], **pod: str) -> dict[str, Any]:
    """A Job that went to HPC, of one container."""
    job = made(requester="ada", rule="large", site="demo")
    job["metadata"]["annotations"][names.KEY_ACCOUNT] = json.dumps({"user": "ada", "account": "physics"})
    job["spec"]["template"]["spec"] |= pod
    job["spec"]["template"]["spec"]["containers"][0]["resources"] = resources
    return job


@pytest.mark.parametrize(
    ("job", "refused", "said", "unknown"),
    [
        (filled_in({}), "", "The same: demo/batch", ""),
        (filled_in({}), LIMIT_RANGES, DOUBT, "may be another: LimitRanges of the namespace."),
        (filled_in({"limits": FULL}), LIMIT_RANGES, SURE, ""),  # it leaves nothing open
        (filled_in({"limits": FULL}, runtimeClassName="kata"), "", "The same: demo/batch", ""),
        (filled_in({"limits": FULL}, runtimeClassName="kata"), RUNTIME_CLASS, DOUBT, "another: RuntimeClass kata."),
    ],
)
def test_what_the_cluster_fills_in_counts_and_is_named_where_it_is_unknown(
    tmp_path: Path, job: dict[str, Any], refused: str, said: str, unknown: str
) -> None:
    """The webhook has counted it, so without it the Job would seem to go elsewhere now."""
    api = Told({JOB: job, LIMIT_RANGES: {"items": [CORES]}, RUNTIME_CLASS: KATA}, refused)

    text = page_of(tmp_path, api, LARGE_GO_TO_HPC)

    assert [words in text for words in ("The same: demo/batch", DOUBT, SURE)] == [
        words == said for words in ("The same: demo/batch", DOUBT, SURE)
    ]
    assert ("unknown here" in text, unknown in text) == (bool(unknown), True)
    assert "could not be looked at" not in text  # who may not read them need not be told it on each page


def test_the_queue_states_of_now() -> None:
    good = sight().queues
    found = states_now({**good, "bad.json": "[", "more.json": "{}"}, NOW)

    assert found.states == {
        ("demo", "batch"): QueueState("demo", "batch", up=True, free_nodes=2, queued_jobs=5, running_jobs=4)
    }
    assert states_now(good, NOW + 3600).states == {}


@pytest.mark.parametrize(
    ("policies", "advice"),
    [
        (Policies(), "start batchgate page with --policy DIR to see it"),
        (Policies(shared=True), "it takes the right to get ConfigMap batchgate-policies of namespace batchgate-system"),
    ],
)
def test_who_may_not_read_the_policy_is_told_what_they_can_do(policies: Policies, advice: str) -> None:
    """Whoever looks at the page of others did not start it."""
    place = "/api/v1/namespaces/batchgate-system/configmaps/batchgate-policies"
    cluster = Cluster(Told({}, place), "default", named=False, system="batchgate-system")

    assert policies.find(cluster) == (None, f"no right to {place}; {advice}")
