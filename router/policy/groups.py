"""Finds whether a policy's decisions depend on the requester's groups, or on labels of the namespace.

Pure. Where they do, a Job records the groups that it was judged by (``names.KEY_GROUPS``). The webhook answers whoever
reaches it, for any groups that its review names. A guard knows those of who really sends the Job.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from router.policy.conditions import Condition
from router.policy.model import Policy

_ROOT: Final = "request"
_GROUPS: Final = "groups"
_LABELS: Final = "namespaceLabels"


@lru_cache(maxsize=16)
def reads_groups(policy: Policy) -> bool:
    """Whether a rule's condition may read the requester's groups, or an account is for groups."""
    return any(entry.groups for entry in policy.accounts) or any(
        _reads(rule.condition, _GROUPS) for rule in policy.rules
    )


@lru_cache(maxsize=16)
def reads_labels(policy: Policy) -> bool:
    """Whether a rule's condition may read the labels of the Job's namespace."""
    return any(_reads(rule.condition, _LABELS) for rule in policy.rules)


def _reads(condition: Condition, field: str) -> bool:
    return _ROOT in condition.whole or field in condition.fields(_ROOT)
