"""Holds what a decision rests on, for whoever writes it down.

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
