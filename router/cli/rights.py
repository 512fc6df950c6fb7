"""Asks the API server whether agents have the rights that the policy's sites need to bring Secrets and tokens.

Shell (the API). About an agent's account only who may create SubjectAccessReviews can ask; an agent may ask about itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from router import names
from router.cli.cluster import Cluster
from router.errors import ApiError
from router.kube.client import Api
from router.kube.clock import ask_who
from router.operating.jobs import JobFacts
from router.policy.identity import namespaces_of
from router.preflight import Line, credentials
from router.site import rights
from router.site.rights import Needed, Right
from router.site.schema import Site

if TYPE_CHECKING:
    from router.policy import Policy

HEAD: Final = ("SITE", "NAMESPACE", "AGENT MAY", "", "COMMAND THAT ALLOWS IT")
_WORDS: Final = {True: "yes", False: "no", None: "-"}


def look_at_rights(cluster: Cluster, policy: Policy, jobs: Sequence[JobFacts], site: str = "") -> tuple[Right, ...]:
    """The rights of the agents of one site, or of all, where the policy needs some.

    Looked at in the namespaces of the Jobs that went to a site, and of the accounts of the policy.
    """
    wanted: list[Needed] = []
    for one in policy.sites:
        if site in ("", one.name) and rights.brings(one):
            seen = {job.namespace for job in jobs if job.site == one.name} | namespaces_of(policy.accounts, one.name)
            wanted += rights.needed(one, seen, _account(cluster, one.name))
    return tuple(_asked(cluster, wanted[: rights.MOST]))


def _account(cluster: Cluster, site: str) -> str:
    """The account of a site's agents: its own, if ``site add`` has made one, else that of agents in the cluster."""
    own = names.agent_account(site)
    path = f"/api/v1/namespaces/{cluster.system}/serviceaccounts/{own}"
    there = cluster.one(f"the account of site {site}'s agents", path) is not None
    return rights.account_of(cluster.system, own if there else names.AGENT_ACCOUNT)


def _asked(cluster: Cluster, wanted: Iterable[Needed]) -> Iterator[Right]:
    allowed = True
    for one in wanted:
        answer = cluster.ask("the rights of agents", rights.ACCESS_REVIEWS, rights.review(one)) if allowed else None
        allowed = answer is not None
        yield rights.answered(one, answer)


def row(one: Right) -> tuple[str, ...]:
    """A right in the table under ``HEAD``."""
    return (one.site, one.namespace, one.right, _WORDS[one.allowed], one.change)


def own_lines(api: Api, site: Site, namespaces: Iterable[str]) -> Iterator[Line]:
    """The lines of ``site check``: the rights of the agent whose credentials are used."""
    if not rights.brings(site):
        return
    try:
        user = ask_who(api).user
        if not rights.is_account(user):
            yield credentials.unknown(f"not asked: {user} is no service account, so no agent")
            return
        seen = {*namespaces, *_namespaces_of_pods(api, site.name)}
        wanted = tuple(rights.needed(site, seen, user))[: rights.MOST]
        found = [rights.answered(one, api.create(rights.SELF_REVIEWS, rights.own_review(one))) for one in wanted]
    except ApiError as error:
        yield credentials.unknown(f"not asked: {error}")
        return
    yield from credentials.lines(found, user) if found else (credentials.nowhere(),)


def _namespaces_of_pods(api: Api, site: str) -> set[str]:
    pages = api.pages("/api/v1/pods", labelSelector=f"{names.KEY_SITE}={site}")
    return {str(pod["metadata"]["namespace"]) for page, _ in pages for pod in page}
