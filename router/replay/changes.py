"""Says in which way two policies differ about one Job.

Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from router.replay.outcomes import Outcome
from router.values import unchanging


class Kind(StrEnum):
    """The first of these in which two decisions differ. The values are those of ``--fail-on``."""

    DENIED = "denied"
    TARGET = "target"
    QUEUE = "queue"
    ACCOUNT = "account"
    RESOURCES = "resources"
    RETRIES = "retries"
    SCRIPT = "script"
    RULE = "rule"
    NONE = "none"


MEANING: Final = {
    Kind.DENIED: "denied now, and was not",
    Kind.TARGET: "between cloud and HPC, or denied no longer",
    Kind.QUEUE: "another site or queue",
    Kind.ACCOUNT: "as another HPC user, account or project",
    Kind.RESOURCES: "other resources of the batch system",
    Kind.RETRIES: "other retries, or another deadline of the whole Job",
    Kind.SCRIPT: "another script, where it was looked for",
    Kind.RULE: "the same by another rule",
    Kind.NONE: "the same",
}


@unchanging
class Change:
    """A change of decision, the same for all Jobs of a group. ``before`` and ``after`` say where to, in words."""

    kind: Kind
    before: str
    after: str
    rule_before: str
    rule_after: str
    place_before: str
    place_after: str

    @property
    def words(self) -> str:
        """``cloud to hpc/large``."""
        return f"{self.before} to {self.after}" if self.before != self.after else self.before


def change(before: Outcome, after: Outcome, script: str = "") -> Change:
    """How the second decision differs from the first.

    :param script: how the scripts differ; empty if they are equal or were not compared
    """
    kind = _kind(before, after)
    if script and kind in {Kind.RULE, Kind.NONE}:
        kind = Kind.SCRIPT
    return Change(
        kind,
        _where(before, kind),
        _where(after, kind),
        before.rule,
        after.rule,
        before.place,
        after.place,
    )


def _kind(before: Outcome, after: Outcome) -> Kind:
    if before.target != after.target:
        return Kind.DENIED if after.target == "deny" else Kind.TARGET
    for kind, differ in (
        (Kind.TARGET, bool(before.perhaps) != bool(after.perhaps)),
        (Kind.QUEUE, (before.queue, before.perhaps) != (after.queue, after.perhaps)),
        (Kind.ACCOUNT, before.account != after.account),
        (Kind.RESOURCES, before.resources != after.resources),
        (Kind.RETRIES, before.ends != after.ends),
        (Kind.RULE, before.rule != after.rule),
    ):
        if differ:
            return kind
    return Kind.NONE


def destination(outcome: Outcome) -> str:
    """Where a Job goes: ``cloud``, ``deny``, or the queue as ``site/queue``."""
    return outcome.queue or outcome.target


def _where(outcome: Outcome, kind: Kind) -> str:
    """The destination; with the identity if this is what differs, and both where it depends on who made the Job."""
    if outcome.perhaps:
        return f"{outcome.perhaps} or {outcome.target}"
    return f"{outcome.queue} as {outcome.account}" if kind is Kind.ACCOUNT else destination(outcome)
