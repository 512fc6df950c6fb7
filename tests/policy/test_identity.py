from __future__ import annotations

import pytest

from router.policy.decision import Identity, Requester
from router.policy.identity import CRONJOB_CONTROLLERS, cronjob_controller, identify
from router.policy.schema import Account

CRON = "system:serviceaccount:kube-system:cronjob-controller"
MANAGER = "system:kube-controller-manager"
ENTRIES = tuple(
    Account.model_validate(entry)
    for entry in [
        {"users": [CRON, MANAGER, "system:serviceaccount:argo:*"], "controller": True},
        {"users": ["ada"], "namespaces": ["secret"], "as": "ada-secret"},
        {"users": ["ada", "ad*"], "as": "ada", "account": "acc"},
        {"groups": ["physicists"], "site": "pbs*", "as": "phys", "project": "p"},
        {"serviceAccounts": ["lab/*"], "as": "lab-robot", "shared": True},
        {"namespaces": ["lab", "lab-*"], "as": "lab", "shared": True},
        {"users": ["*"], "namespaces": ["open"], "as": "anyone", "shared": True},
    ]
)

WHO = [
    ("ada", (), "x", "s", "ada"),
    ("ada", (), "secret", "s", "ada-secret"),  # the first that matches
    ("adam", (), "secret", "s", "ada"),  # users and namespaces narrow each other
    ("Ada", (), "x", "s", None),  # case counts
    ("bo", ("staff", "physicists"), "x", "pbs1", "phys"),
    ("bo", ("physicists",), "x", "slurm", None),  # not at this site
    ("system:serviceaccount:lab:runner", (), "x", "s", "lab-robot"),
    ("system:serviceaccount:lab2:runner", (), "x", "s", None),
    ("system:serviceaccount:lab2:runner", (), "lab-7", "s", "lab"),
    ("eve", (), "lab", "s", "lab"),
    ("eve", (), "labour", "s", None),
    ("eve", (), "open", "s", "anyone"),
    (CRON, (), "lab", "s", "lab"),  # a controller counts by namespace alone
    (MANAGER, ("physicists",), "lab", "pbs1", "lab"),
    (CRON, (), "open", "s", None),  # an entry with users is not one by namespace
    ("system:serviceaccount:argo:server", (), "lab-7", "s", "lab"),
    ("eve", (), "x", "s", None),
]


@pytest.mark.parametrize(("user", "groups", "namespace", "site", "expected"), WHO)
def test_the_first_entry_that_matches(
    user: str, groups: tuple[str, ...], namespace: str, site: str, expected: str | None
) -> None:
    found = identify(ENTRIES, Requester(user, groups, namespace), site)

    assert (found.user if isinstance(found, Identity) else None) == expected


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((CRON, MANAGER), CRON), ((MANAGER,), MANAGER), ((), CRON), (("system:serviceaccount:kube-system:*",), CRON)],
)
def test_who_creates_the_jobs_of_a_cronjob(listed: tuple[str, ...], expected: str) -> None:
    """Kubernetes has two names for it, and the one that the admins list is the cluster's."""
    accounts = (Account(users=listed, controller=True),) if listed else ()

    assert cronjob_controller(accounts, "lab", {"a": "b"}) == Requester(
        expected, CRONJOB_CONTROLLERS[expected], "lab", {"a": "b"}
    )


def test_an_identity_is_whole() -> None:
    found = identify(ENTRIES, Requester("ada", (), "x"), "s")

    assert found == Identity(user="ada", account="acc", project=None, entry=ENTRIES[2])


def test_the_reason_names_who_and_where() -> None:
    assert identify(ENTRIES, Requester("eve", (), "x"), "s") == "no account at site s is for user eve in namespace x"
    assert identify(ENTRIES, Requester(CRON, (), "x"), "s") == (
        f"no account at site s is for namespace x ({CRON} asks for others, so only an account by namespace counts)"
    )
    for user in (CRON, MANAGER):
        assert identify((), Requester(user, (), "x"), "s") == (
            f"no account at site s is for namespace x, and accounts do not list {user} as a controller"
        )
    assert identify((), Requester("eve", (), "x"), "s") == "no account at site s is for user eve in namespace x"
    assert identify((), Requester("", (), "x"), "s") == "no account at site s is for an unknown user in namespace x"
