"""What an agent needs in the cluster, how it is asked, and what is told."""

from __future__ import annotations

from typing import Any

import pytest

from router.policy.identity import namespaces_of
from router.policy.schema import Account
from router.preflight import Line, Mark, credentials
from router.site import rights
from router.site.rights import Needed, Right
from router.site.schema import Site

ACCOUNT = "system:serviceaccount:batchgate-system:batchgate-agent"
SECRETS = Needed("hpc", "physics", "batchgate-secrets", ACCOUNT)
TOKENS = Needed("hpc", "physics", "batchgate-tokens", ACCOUNT)
BIND = (
    "kubectl -n physics create rolebinding batchgate-agent-tokens --clusterrole batchgate-tokens "
    "--serviceaccount batchgate-system:batchgate-agent"
)


def site(**given: str) -> Site:
    queue = {"name": "q", "nodes": 1, "cpusPerNode": 1}
    return Site.model_validate({"name": "hpc", "system": "slurm", "workDir": "/w/{user}", "queues": [queue], **given})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"secrets": "pull"}, []),
        ({"secrets": "stage"}, [SECRETS]),
        ({"tokens": "stage", "apiServer": "https://k.example.org"}, [TOKENS]),
        ({"secrets": "stage", "tokens": "stage", "apiServer": "https://k.example.org"}, [SECRETS, TOKENS]),
    ],
)
def test_what_a_site_needs(given: dict[str, str], expected: list[Needed]) -> None:
    assert list(rights.needed(site(**given), ["physics", "physics"], ACCOUNT)) == expected
    assert rights.brings(site(**given)) is bool(expected)


def test_the_account_is_asked_about_with_its_groups() -> None:
    asked = {"namespace": "physics", "version": "v1", "verb": "get", "resource": "secrets"}
    groups = ["system:serviceaccounts", "system:serviceaccounts:batchgate-system", "system:authenticated"]
    kinds = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}

    assert rights.review(SECRETS) == {
        **kinds,
        "spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": asked},
    }
    assert rights.own_review(TOKENS) == {
        **kinds,
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "namespace": "physics",
                "version": "v1",
                "verb": "create",
                "resource": "serviceaccounts",
                "subresource": "token",
            }
        },
    }


@pytest.mark.parametrize(
    ("answer", "allowed", "change"),
    [
        ({"status": {"allowed": True}}, True, ""),
        ({"status": {"allowed": False}}, False, BIND),
        ({"status": {"allowed": True, "denied": True}}, False, BIND),
        ({}, False, BIND),
        (None, None, ""),
    ],
)
def test_what_an_answer_says(answer: Any, allowed: bool | None, change: str) -> None:
    assert rights.answered(TOKENS, answer) == Right("hpc", "physics", "create tokens", allowed, change)


@pytest.mark.parametrize(
    ("user", "expected"), [(ACCOUNT, True), ("ada", False), ("system:serviceaccount:a", False), (f"{ACCOUNT}:x", False)]
)
def test_which_users_are_agents(user: str, expected: bool) -> None:
    assert rights.is_account(user) is expected


def test_which_namespaces_accounts_name() -> None:
    accounts = [
        Account.model_validate({"namespaces": ["physics", "lab-*"], "as": "phys"}),
        Account.model_validate({"serviceAccounts": ["argo/runner", "*/x"], "as": "argo", "site": "h*"}),
        Account.model_validate({"namespaces": ["biology"], "as": "bio", "site": "other"}),
        Account.model_validate({"users": ["ada"], "as": "ada"}),
    ]

    assert namespaces_of(accounts, "hpc") == {"physics", "argo"}


def test_the_lines_of_a_check() -> None:
    found = [Right("hpc", "physics", "read Secrets", allowed=True), rights.answered(TOKENS, {})]

    assert list(credentials.lines(found, ACCOUNT)) == [
        Line("rights/physics", "", Mark.OK, f"{ACCOUNT} may read Secrets", "the agent may read Secrets there"),
        Line(
            "rights/physics",
            "",
            Mark.WARNING,
            f"{ACCOUNT} may not create tokens, unless a Role names single ones",
            "the agent may create tokens there",
            BIND,
        ),
    ]
