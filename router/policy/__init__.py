"""Reads and checks the policy files that admins write, and decides about Jobs by them.

Pure. The public names are imported only when they are used, for two reasons. Modules that this package builds on
(allocation, script) import ``schema`` and ``decision``. And commands that decide nothing save the time to load CEL.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from router.policy.deciding import decide
    from router.policy.leaving import match_condition
    from router.policy.loading import load
    from router.policy.model import CheckedRule, Policy
    from router.policy.schema import json_schema
    from router.policy.selftests import TestResult, run_tests
    from router.policy.states import age_problem, queue_states

__all__ = [
    "CheckedRule",
    "Policy",
    "TestResult",
    "age_problem",
    "decide",
    "json_schema",
    "load",
    "match_condition",
    "queue_states",
    "run_tests",
]

_HOME: Final = {
    "CheckedRule": "model",
    "Policy": "model",
    "TestResult": "selftests",
    "age_problem": "states",
    "decide": "deciding",
    "json_schema": "schema",
    "load": "loading",
    "match_condition": "leaving",
    "queue_states": "states",
    "run_tests": "selftests",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
