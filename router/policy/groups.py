"""Finds whether a policy's decisions depend on the requester's groups.

Pure. Where they do, a Job records the groups that it was judged by (``names.KEY_GROUPS``). The webhook answers whoever
reaches it, for any groups that its review names. A guard knows those of who really sends the Job.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from router.policy.conditions import Condition
from router.policy.model import Policy

_ROOT: Final = "request"
_FIELD: Final = "groups"


@lru_cache(maxsize=16)
def reads_groups(policy: Policy) -> bool:
    """Whether a rule's condition may read the requester's groups, or an account is for groups."""
    return any(entry.groups for entry in policy.accounts) or any(_reads(rule.condition) for rule in policy.rules)


def _reads(condition: Condition) -> bool:
    return _ROOT in condition.whole or _FIELD in condition.fields(_ROOT)
