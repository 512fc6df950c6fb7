from __future__ import annotations

import pytest

from router.policy.checks import may_be_service_account
from router.site import globs

MATCHES = [
    ("*", "any/thing", True),
    ("*", "", True),
    ("lab", "lab", True),
    ("lab", "Lab", False),
    ("lab*", "labour", True),
    ("lab/*", "lab/a/b", True),
    ("lab-?", "lab-12", False),
    ("[ab]x", "bx", True),
    ("a.c", "abc", False),
    ("a*", "a\nb", True),
    ("*x", "a\nx", True),
    ("", "a", False),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), MATCHES)
def test_globs(pattern: str, text: str, matches: bool) -> None:
    assert globs.matches((pattern,), text) is matches
    assert globs.matches(("nothing", pattern), text) is matches


SERVICE_ACCOUNTS = [
    ("system:serviceaccount:lab:runner", True),
    ("system:serviceaccount:*", True),
    ("system:*", True),
    ("sys*", True),
    ("*", True),
    ("*:runner", True),
    ("ada", False),
    ("ada*", False),
    ("*@lab.org", False),
    ("system:kube-controller-manager", False),
    ("system:node:*", False),
]


@pytest.mark.parametrize(("pattern", "may"), SERVICE_ACCOUNTS)
def test_which_patterns_take_service_accounts(pattern: str, may: bool) -> None:
    assert may_be_service_account(pattern) is may
