"""How the script of a Job differs between two policies.

Pure.
"""

from __future__ import annotations

import difflib
from typing import Final

from router.errors import JobError
from router.gate.judging import Gate, judge
from router.policy.model import Policy
from router.replay.cases import Case

_MOST_LINES: Final = 60


def difference(old: Policy, new: Policy, case: Case) -> str:
    """A unified diff of the Job's own part of the scripts; empty if they are the same or the manifest is unknown."""
    if case.manifest is None:
        return ""
    before, after = (_script(policy, case) for policy in (old, new))
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm=""))
    rest = len(lines) - _MOST_LINES
    return "\n".join([*lines[:_MOST_LINES], f"and {rest} more lines"] if rest > 0 else lines)


def _script(policy: Policy, case: Case) -> str:
    """The Job's own part of its script; empty if it gets none."""
    assert case.manifest is not None  # noqa: S101 - ``difference`` has asked
    job, root = case.manifest
    gate = Gate(policy, case.cluster, case.states, None, int(case.requester.time or 0))
    try:
        judgement = judge(job, requester=case.requester, gate=gate, root=root)
    except JobError as error:
        return f"none: {error}"
    return judgement.script.own if judgement.script else ""
