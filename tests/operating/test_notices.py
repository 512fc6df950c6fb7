"""What a site tells everybody: whole notices, their bound, what is never in them, and what callers are offered by them."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router import policy
from router.operating import notices
from router.operating.notices import LARGEST, notice, read
from router.operating.offers import ImageSource, Offer, image_sources, offers
from router.policy.decision import Requester
from router.policy.identity import identify
from router.policy.schema import Account
from router.site.schema import Site
from tests.policy.given import UNHURRIED

FILES = {
    "a": """
sites:
  - name: hpc1
    system: slurm
    host: ssh://SECRET-login
    access: own-keys
    keys: /SECRET/keys
    knownHosts: /SECRET/hosts
    workDir: /SECRET/{user}
    pre: [export SECRET=1]
    images: [{match: 'ghcr.io/lab/*', path: /SECRET/lab.sif}, {match: 'solver:*', path: /SECRET/solver.sif}]
    directives: {comment: SECRET}
    public: PUBLIC
    queues:
      - {name: batch, nodes: 4, cpusPerNode: 8, memoryPerNode: 32Gi, walltimeMax: 24h, walltimeDefault: 2h, directives: {qos: SECRET}}
      - {name: gpu, nodes: 1, cpusPerNode: 16, gpusPerNode: 4, gpuVendor: nvidia}
  - {name: other, system: slurm, workDir: '/w/{user}', queues: [{name: SECRET, nodes: 1, cpusPerNode: 4}]}
accounts:
  - {users: [ada], as: ada1, account: physics, directives: {reservation: SECRET}}
  - {groups: [chem], namespaces: ['lab-*'], as: chem, project: p1}
  - {users: ['system:kube-controller-manager'], controller: true}
  - {users: [SECRET], site: other, as: eve}
rules: [{name: rest, cloud: true}]
"""
}
NOW = "2026-03-01T12:00:00Z"
MOMENT = 1772366400
FIGURES = [
    {
        "site": "hpc1",
        "queue": "batch",
        "up": True,
        "freeNodes": 2,
        "queuedJobs": 3,
        "runningJobs": 1,
        "waitSeconds": 120,
    },
    {"site": "hpc1", "queue": "gpu", "up": False},
]
BATCH = {
    "name": "batch", "nodes": 4, "cpusPerNode": 8, "memoryPerNode": 32 * 1024**3, "gpusPerNode": 0, "walltimeDefault": 7200,
    "walltimeMax": 86400, "up": True, "freeNodes": 2, "queuedJobs": 3, "runningJobs": 1, "waitSeconds": 120,
}  # fmt: skip
GPU = {"name": "gpu", "nodes": 1, "cpusPerNode": 16, "gpusPerNode": 4, "gpuVendor": "nvidia", "up": False}
QUEUES = {"queues": [BATCH, GPU]}
IMAGES = {"images": ["ghcr.io/lab/*", "solver:*"], "pull": "host"}
ADA = {"users": ["ada"], "groups": [], "namespaces": [], "serviceAccounts": [], "user": "ada1", "account": "physics"}
CHEM = {
    "users": [],
    "groups": ["chem"],
    "namespaces": ["lab-*"],
    "serviceAccounts": [],
    "user": "chem",
    "project": "p1",
}
CONTROLLERS = {"users": ["system:kube-controller-manager"], "groups": [], "serviceAccounts": []}
ACCOUNTS = {"accounts": [ADA, CHEM], "controllers": CONTROLLERS}


def site(public: str) -> tuple[Site, tuple[Account, ...]]:
    loaded = policy.load({"a": FILES["a"].replace("PUBLIC", public)})
    return loaded.sites[0], loaded.accounts


@pytest.mark.parametrize(
    ("public", "told"),
    [
        ("[queues]", QUEUES),
        ("[images]", IMAGES),
        ("[accounts]", ACCOUNTS),
        ("[accounts, images, queues]", {**QUEUES, **IMAGES, **ACCOUNTS}),
    ],
)
def test_only_what_the_policy_names_is_told(public: str, told: dict[str, Any]) -> None:
    text = notice(*site(public), FIGURES, NOW)

    assert json.loads(text) == {"time": NOW, "site": "hpc1", "system": "slurm", "leftOut": 0, **told}
    assert "SECRET" not in text


def test_without_figures_the_limits_are_told() -> None:
    text = notice(*site("[queues]"), [], NOW)

    (queue, _) = json.loads(text)["queues"]
    assert queue == {key: value for key, value in BATCH.items() if key in list(BATCH)[:7]}


ACCOUNT = st.builds(
    Account,
    users=st.lists(st.text(min_size=1, max_size=400), max_size=5).map(tuple),
    groups=st.lists(st.text(min_size=1, max_size=400), max_size=5).map(tuple),
    as_=st.just("ada"),
)


@settings(UNHURRIED, max_examples=25)
@given(st.lists(ACCOUNT, max_size=8), st.integers(min_value=1, max_value=200))
def test_a_notice_is_bounded_and_says_what_it_leaves_out(accounts: list[Account], times: int) -> None:
    whole, _ = site("[queues, images, accounts]")
    many = accounts * times

    text = notice(whole, many, FIGURES, NOW)

    (found,), problems = read({"hpc1.json": text})
    assert (len(text.encode()) <= LARGEST, problems) == (True, [])
    assert found.accounts is not None
    assert found.images is not None
    assert len(found.accounts) + len(found.images) + found.left_out == len(many) + 2
    told = notices.entries(found)
    assert found.controllers == notices.ControllersNotice()
    assert [(one.users, one.groups) for one in told] == [(one.users, one.groups) for one in many[: len(told)]]


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        ("hpc1.json", "{", "document: Invalid JSON"),
        ("hpc1.json", "[]", "document: Input should be an object"),
        ("hpc1.json", '{"time": "t", "site": "hpc1", "system": "slurm", "queues": [{"name": "q"}]}', "queues.0.nodes: Field required"),
        ("hpc1.json", '{"time": "t", "site": "hpc2", "system": "slurm"}', "tells of site 'hpc2', which has another key"),
    ],
)  # fmt: skip
def test_a_notice_that_cannot_be_read_is_named(key: str, text: str, problem: str) -> None:
    good = notice(*site("[queues]"), FIGURES, NOW).replace('"hpc1"', '"other"')

    found, problems = read({key: text, "other.json": good})

    assert [one.site for one in found] == ["other"]
    assert [one.startswith(f"ConfigMap batchgate-public, {key}: {problem}") for one in problems] == [True], problems


def test_a_newer_agent_may_tell_more() -> None:
    text = json.dumps(
        {"time": NOW, "site": "hpc1", "system": "slurm", "weather": "fine", "queues": [{**GPU, "colour": "red"}]}
    )

    (found,), problems = read({"hpc1.json": text})

    assert problems == []
    assert found.queues is not None
    assert found.queues[0].gpus_per_node == 4


def offered(public: str, requester: Requester, now: float = MOMENT + 60) -> list[Offer]:
    found, problems = read({"hpc1.json": notice(*site(public), FIGURES, NOW)})
    assert problems == []
    return list(offers(found, requester, now))


ASKER = Requester("ada", ("staff",), "default")
OFFER = Offer(
    site="hpc1", queue="batch", state="open", reason="", free_nodes=2, queued_jobs=3, running_jobs=1, wait_seconds=120,
    nodes=4, cpus_per_node=8, memory_per_node=32 * 1024**3, gpus_per_node=0, gpu_vendor=None, walltime_max=86400,
    walltime_default=7200, user="ada1", account="physics", project=None, refusal="", age=60,
)  # fmt: skip
OLD = {
    "state": "unknown", "reason": "its agent has told nothing new for long", "free_nodes": None, "queued_jobs": None,
    "running_jobs": None, "wait_seconds": None, "age": 601,
}  # fmt: skip
NOBODY = {"user": "", "account": None, "refusal": "no account at site hpc1 is for user eve in namespace default"}
CHEMIST = {"user": "chem", "account": None, "project": "p1"}
UNTOLD = {"user": "", "account": None, "refusal": "the site does not tell who runs as whom"}
FOR_OTHERS = {
    "user": "", "account": None, "refusal": "no account at site hpc1 is for namespace default "
    "(system:kube-controller-manager asks for others, so only an account by namespace counts)",
}  # fmt: skip


@pytest.mark.parametrize(
    ("public", "requester", "now", "differs"),
    [
        ("[queues, accounts]", ASKER, MOMENT + 60, {}),
        ("[queues, accounts]", ASKER, MOMENT + 360, {"age": 360}),
        (
            "[queues, accounts]",
            ASKER,
            MOMENT + 420,
            {"age": 420, "reason": "these figures are 7m old: its agent may be away"},
        ),
        ("[queues, accounts]", ASKER, MOMENT + 601, OLD),
        ("[queues, accounts]", Requester("eve", (), "default"), MOMENT + 60, NOBODY),
        ("[queues, accounts]", Requester("eve", ("chem",), "lab-1"), MOMENT + 60, CHEMIST),
        ("[queues, accounts]", Requester("system:kube-controller-manager", (), "default"), MOMENT + 60, FOR_OTHERS),
        ("[queues]", ASKER, MOMENT + 60, UNTOLD),
    ],
)
def test_what_a_caller_is_offered(public: str, requester: Requester, now: float, differs: dict[str, Any]) -> None:
    batch, gpu = offered(public, requester, now)

    assert batch == dataclasses.replace(OFFER, **differs)
    assert gpu.state == ("closed" if not differs.get("state") else "unknown")


def test_a_site_without_queues_to_tell_offers_none() -> None:
    assert offered("[images]", ASKER) == []


@UNHURRIED
@given(st.sampled_from(["ada", "eve", "bob"]), st.sampled_from([(), ("chem",)]), st.sampled_from(["lab-1", "default"]))
def test_the_identity_is_the_one_that_the_policy_gives(user: str, groups: tuple[str, ...], namespace: str) -> None:
    requester = Requester(user, groups, namespace)
    found = identify(site("[queues]")[1], requester, "hpc1")

    (offer, _) = offered("[queues, accounts]", requester)

    assert offer.user == ("" if isinstance(found, str) else found.user)
    assert offer.refusal == (found if isinstance(found, str) else "")


def test_without_word_of_controllers_it_is_open_who_runs_as_whom() -> None:
    """As in the notice of an agent before the key, or of one with too many controllers."""
    told = json.loads(notice(*site("[queues, accounts]"), FIGURES, NOW))
    del told["controllers"]
    found, problems = read({"hpc1.json": json.dumps(told)})

    assert problems == []
    assert {(one.user, one.refusal) for one in offers(found, ASKER, MOMENT)} == {
        ("", "the site does not tell who creates Jobs for others, so it is open who runs as whom")
    }


def with_images(count: int) -> str:
    """The notice of a site with so many mapped images, ``lab/00000`` and so on."""
    whole, accounts = site("[queues, images, accounts]")
    mapped = tuple(whole.images[0].model_copy(update={"match": f"lab/{number:05}"}) for number in range(count))
    return notice(whole.model_copy(update={"images": mapped}), accounts, FIGURES, NOW)


def test_only_what_has_no_room_is_left_out() -> None:
    told = json.loads(with_images(20_000))

    kept = len(told["images"])
    assert told == {
        "time": NOW,
        "site": "hpc1",
        "system": "slurm",
        **QUEUES,
        **ACCOUNTS,
        "pull": "host",
        "images": [f"lab/{number:05}" for number in range(kept)],
        "leftOut": 20_000 - kept,
        "leftOutOf": {"images": 20_000 - kept},
    }
    one_more = told | {"images": [*told["images"], "lab/xxxxx"]}
    assert len(json.dumps(one_more, separators=(",", ":"))) > LARGEST


def test_of_two_lists_that_are_too_long_as_much_is_kept() -> None:
    whole, (first, *_) = site("[images, accounts]")
    mapped = tuple(whole.images[0].model_copy(update={"match": f"{n:05}" * 100}) for n in range(200))
    many = [first.model_copy(update={"users": (f"{n:05}" * 100,)}) for n in range(200)]

    told = json.loads(notice(whole.model_copy(update={"images": mapped}), many, FIGURES, NOW))
    images, accounts = (len(json.dumps(told[name], separators=(",", ":"))) for name in ("images", "accounts"))
    assert abs(images - accounts) < 700, "less than an entry: 500 characters with their keys"


def test_a_caller_without_an_account_is_told_so_though_images_were_left_out() -> None:
    found, _ = read({"hpc1.json": with_images(20_000)})

    assert {one.refusal for one in offers(found, Requester("eve", (), "default"), MOMENT)} == {NOBODY["refusal"]}


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("lab/00001", ImageSource("hpc1", "lab/00001", "site")),
        ("lab/19999", ImageSource("hpc1", "lab/19999", "unknown")),
    ],
)
@pytest.mark.parametrize("older", [False, True])
def test_an_image_that_may_be_among_those_left_out_is_of_an_unknown_source(
    image: str, expected: ImageSource, older: bool
) -> None:
    """An older agent counted what it left out of all lists together."""
    told = json.loads(with_images(20_000))
    if older:
        del told["leftOutOf"]
    found, problems = read({"hpc1.json": json.dumps(told)})

    assert (list(image_sources(found, image)), problems) == ([expected], [])
    assert list(image_sources(found))[-1] == ImageSource("hpc1", "*", "unknown")


def test_accounts_that_were_left_out_leave_images_known() -> None:
    whole, (first, *_) = site("[images, accounts]")
    found, _ = read({"hpc1.json": notice(whole, [first] * 10_000, FIGURES, NOW)})

    assert list(image_sources(found, "busybox")) == [ImageSource("hpc1", "busybox", "host")]


def test_controllers_are_told_whole_or_not_at_all() -> None:
    whole, accounts = site("[queues, images, accounts]")
    many = Account(users=tuple(f"robot-{number}" for number in range(10_000)), controller=True)

    (found,), _ = read({"hpc1.json": notice(whole, [many, *accounts], FIGURES, NOW)})

    assert (found.controllers, found.left_out) == (None, 1)
    assert [len(one or ()) for one in (found.accounts, found.queues, found.images)] == [2, 2, 2]


MAPPED = [ImageSource("hpc1", "ghcr.io/lab/*", "site"), ImageSource("hpc1", "solver:*", "site")]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("", [*MAPPED, ImageSource("hpc1", "*", "host")]),
        ("ghcr.io/lab/a:1", MAPPED[:1]),
        ("solver:2", MAPPED[1:]),
        ("busybox", [ImageSource("hpc1", "busybox", "host")]),
    ],
)
def test_where_images_come_from(image: str, expected: list[ImageSource]) -> None:
    found, _ = read({"hpc1.json": notice(*site("[images]"), FIGURES, NOW)})

    assert list(image_sources(found, image)) == expected
