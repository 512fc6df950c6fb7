"""``batchgate queues`` says as whom Jobs run what the webhook decides, for the same caller in the same namespace."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import policy
from router.gate.review import review
from router.names import SERVICE_ACCOUNT
from router.operating.notices import notice, read
from router.operating.offers import offers
from router.policy.decision import Requester
from router.policy.identity import identify
from router.policy.schema import Account
from router.site.schema import Site
from tests.gates import gate, review_of, sized
from tests.policy.given import UNHURRIED

PLACES = """
sites:
  - name: demo
    system: slurm
    host: ssh://login
    access: own-keys
    keys: /etc/batchgate/keys
    knownHosts: /etc/batchgate/known_hosts
    workDir: /scratch/{user}
    public: [queues, accounts]
    queues: [{name: batch, nodes: 4, cpusPerNode: 8, memoryPerNode: 64Gi}]
  - {name: elsewhere, system: slurm, workDir: "/w/{user}", queues: [{name: far, nodes: 1, cpusPerNode: 4}]}
accounts:
  - {serviceAccounts: [argo/wf], controller: true}
  - {users: [robot], groups: [robots], site: elsewhere, controller: true}
  - {users: [ada], as: ada1, account: physics}
  - {serviceAccounts: [argo/other], as: other, shared: true}
  - {groups: [chem], namespaces: ["lab-*"], as: chem, project: p1}
  - {users: [boss], site: elsewhere, as: boss}
  - {users: ["*"], namespaces: ["def*", argo], as: all, shared: true}
  - {namespaces: [nightly], as: labs, shared: true}
"""
LOADED = policy.load({"all.yaml": PLACES + "rules: [{name: all, hpc: [{queue: batch}]}]\n"})


def told(site: Site, accounts: tuple[Account, ...], requester: Requester) -> tuple[str, str]:
    """The HPC user, and else the refusal, of ``batchgate queues``."""
    found, _ = read({"demo.json": notice(site, accounts, (), "2026-03-01T12:00:00Z")})
    (offer,) = offers(found, requester, 0)
    return offer.user, offer.refusal


def decided(requester: Requester) -> tuple[str, str]:
    """The same of the webhook's decision about a Job, with its whole reason."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "solve"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", **sized("1")}}},
    }
    who: dict[str, Any] = {"username": requester.user, "groups": list(requester.groups)}
    asked = review_of(job, user=requester.user, namespace=requester.namespace, userInfo=who)
    evidence = review(asked, gate(policy=LOADED)).evidence
    assert evidence is not None
    route = evidence.decision.route
    return (route.identity.user, "") if route else ("", evidence.decision.reason)


WF = f"{SERVICE_ACCOUNT}argo:wf"
CRON = f"{SERVICE_ACCOUNT}kube-system:cronjob-controller"


@pytest.mark.parametrize(
    ("user", "groups", "namespace", "expected"),
    [
        (WF, (), "argo", ""),
        (WF, (), "nightly", "labs"),
        (f"{SERVICE_ACCOUNT}argo:other", (), "argo", "other"),
        ("ada", (), "argo", "ada1"),
        ("eve", (), "argo", "all"),
        ("eve", (), "default", "all"),
        ("eve", (), "lab-1", ""),
        ("eve", ("chem",), "lab-1", "chem"),
        ("robot", (), "default", ""),
        ("eve", ("robots",), "default", ""),
        ("eve", ("robots",), "nightly", "labs"),
        ("boss", (), "lab-1", ""),
        (CRON, (), "lab-1", ""),
        (CRON, (), "nightly", "labs"),
    ],
)
def test_it_is_the_webhook_s_decision(user: str, groups: tuple[str, ...], namespace: str, expected: str) -> None:
    requester = Requester(user, groups, namespace)
    hpc_user, refusal = told(LOADED.sites[0], LOADED.accounts, requester)
    other, reason = decided(requester)

    assert (hpc_user, other, refusal in reason) == (expected, expected, True)
    assert bool(refusal) is (not expected)


NAMES = st.sampled_from(["*", "ada", "eve", "e*", "argo/wf", "argo/*", "chem", "lab"])
LISTS = st.lists(NAMES, max_size=2).map(tuple)
ENTRY = st.builds(
    Account,
    users=LISTS,
    groups=LISTS,
    namespaces=LISTS,
    service_accounts=LISTS,
    site=st.sampled_from(["*", "demo", "other"]),
    as_=st.sampled_from(["one", "two"]),
)
CONTROLLER = st.builds(
    Account, users=LISTS, groups=LISTS, service_accounts=LISTS, site=st.sampled_from(["*", "other"]), controller=st.just(True)
)  # fmt: skip


@UNHURRIED
@given(
    st.lists(ENTRY | CONTROLLER, max_size=6).map(tuple),
    st.sampled_from(["ada", "eve", WF]),
    st.sampled_from([(), ("chem",)]),
    st.sampled_from(["argo", "lab", "default"]),
)
def test_of_any_accounts_it_is_what_the_policy_gives(
    accounts: tuple[Account, ...], user: str, groups: tuple[str, ...], namespace: str
) -> None:
    requester = Requester(user, groups, namespace)
    found = identify(accounts, requester, "demo")

    assert told(LOADED.sites[0], accounts, requester) == (("", found) if isinstance(found, str) else (found.user, ""))
