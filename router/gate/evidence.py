"""Holds what a decision or a denial rests on, for whoever writes it down.

Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from router.gate.judging import Gate
from router.policy.decision import Decision, Requester
from router.values import unchanging
from router.workload.model import Workload


@unchanging
class Evidence:
    """A decision about a Job, and all that it rests on.

    :param metadata: of the Job as it came
    :param requester: without the time, which is the gate's ``issued_at``
    """

    metadata: Mapping[str, Any]
    requester: Requester
    workload: Workload
    decision: Decision
    gate: Gate


@unchanging
class Refusal:
    """A denial that no rule has decided, and what is known of its Job.

    :param kind: why, in words that hold nothing of the Job
    :param metadata: of the Job as it came; empty if it is no mapping
    """

    kind: str
    metadata: Mapping[str, Any]
    gate: Gate
