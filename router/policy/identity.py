"""Finds the HPC user of a Job on a site: the first entry of ``accounts`` that matches. Without a match, no HPC.

Pure. Only the requester (``request.userInfo``) and the namespace decide. The Job's own ``runAsUser``, service account
and annotations are ignored. An entry's users, groups and service accounts are alternatives; its namespaces narrow them.
For a controller, which creates Jobs for others, only entries with nothing but namespaces count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from router.names import SERVICE_ACCOUNT
from router.policy.decision import Identity, Requester
from router.policy.schema import Account
from router.site import globs

_NAMESPACE: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_AUTHENTICATED: Final = "system:authenticated"
CRONJOB_CONTROLLERS: Final[Mapping[str, tuple[str, ...]]] = {
    f"{SERVICE_ACCOUNT}kube-system:cronjob-controller": (
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        _AUTHENTICATED,
    ),
    "system:kube-controller-manager": (_AUTHENTICATED,),
}
"""The users that create the Jobs of CronJobs, with their groups.

The first is used with the controller manager's option --use-service-account-credentials, the second without it
(kubernetes.io/docs/reference/access-authn-authz/rbac/#controller-roles).
"""


def identify(accounts: tuple[Account, ...], requester: Requester, site: str) -> Identity | str:
    """The identity to use at a site, or one clause that says why there is none."""
    by_namespace = acts_for_others(accounts, requester)
    for entry in accounts:
        if entry.as_ is None or not globs.matches((entry.site,), site):
            continue
        if _matches(entry, requester, by_namespace=by_namespace):
            return Identity(user=entry.as_, account=entry.account, project=entry.project, entry=entry)
    if by_namespace:
        return (
            f"no account at site {site} is for namespace {requester.namespace} "
            f"({requester.user} asks for others, so only an account by namespace counts)"
        )
    if requester.user in CRONJOB_CONTROLLERS:
        return (
            f"no account at site {site} is for namespace {requester.namespace}, and accounts do not list {requester.user} "
            "as a controller"
        )
    who = f"user {requester.user}" if requester.user else "an unknown user"
    return f"no account at site {site} is for {who} in namespace {requester.namespace}"


def cronjob_controller(accounts: tuple[Account, ...], namespace: str, labels: Mapping[str, str] | None) -> Requester:
    """The user that creates the Jobs of a CronJob: of the two possible, the listed controller, else the first."""
    both = [Requester(user, groups, namespace, labels) for user, groups in CRONJOB_CONTROLLERS.items()]
    return next((one for one in both if acts_for_others(accounts, one)), both[0])


def acts_for_others(accounts: tuple[Account, ...], requester: Requester) -> bool:
    """Whether the requester is listed as a controller."""
    return any(entry.controller and _is_one_of(entry, requester) for entry in accounts)


def _matches(entry: Account, requester: Requester, *, by_namespace: bool) -> bool:
    if entry.namespaces and not globs.matches(entry.namespaces, requester.namespace):
        return False
    if names_people(entry):
        return not by_namespace and _is_one_of(entry, requester)
    return bool(entry.namespaces)


def names_people(entry: Account) -> bool:
    """Whether an entry names users, groups or service accounts."""
    return bool(entry.users or entry.groups or entry.service_accounts)


def namespaces_of(accounts: Iterable[Account], site: str) -> frozenset[str]:
    """The namespaces that accounts of a site name, of users and of service accounts; those that only globs name are left
    out.
    """
    own = [entry for entry in accounts if entry.as_ is not None and globs.matches((entry.site,), site)]
    found = {name for entry in own for name in entry.namespaces}
    found |= {name.partition("/")[0] for entry in own for name in entry.service_accounts}
    return frozenset(name for name in found if _NAMESPACE.fullmatch(name))


def _is_one_of(entry: Account, requester: Requester) -> bool:
    if globs.matches(entry.users, requester.user):
        return True
    if entry.groups and any(globs.matches(entry.groups, group) for group in requester.groups):
        return True
    account = requester.user.removeprefix(SERVICE_ACCOUNT)
    if account == requester.user or not entry.service_accounts:
        return False
    return globs.matches(entry.service_accounts, account.replace(":", "/", 1))
