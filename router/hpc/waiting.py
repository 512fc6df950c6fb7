"""Why a job waits, in plain words to stand beside those of the batch system.

Pure. Only words that are known are put plainly: a reason that matches nothing here keeps its own words alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_SLURM: Final = {
    r"Priority": "jobs of higher priority come first",
    r"Resources": "what it asks for is in use by other jobs",
    r"Dependency": "it waits for another job to end",
    r"DependencyNeverSatisfied": "the job that it waits for has ended otherwise than it demands",
    r"BeginTime": "its earliest start is still to come",
    r"JobHeldUser": "its owner holds it",
    r"JobHoldMaxRequeue": "it is held, as it was started too often",
    r"JobHeldAdmin": "an admin of the batch system holds it",
    r"ReqNodeNotAvail.*": "nodes that it could use are down, drained or reserved",
    r"NodeDown": "a node that it needs is down",
    r"PartitionDown|PartitionInactive": "its partition is closed",
    r"PartitionNodeLimit": "it asks for more nodes than its partition allows",
    r"PartitionTimeLimit": "it asks for more time than its partition allows",
    r"MaxMemPerLimit": "it asks for more memory of a node or core than is allowed",
    r"BadConstraints": "no node has what it asks for",
    r"Licenses": "licences that it asks for are in use",
    r"Reservation": "its reservation is still to begin, or is full",
    r"Prolog": "its nodes are being prepared",
    r"Cleaning": "what its last run left is being cleaned up",
    r"AccountNotAllowed|InvalidAccount": "its account may not use the partition",
    r"QOSNotAllowed|InvalidQOS": "its quality of service (QOS) may not be used there",
    r"(?:QOS)?Max\w*PerUser\w*": "its user has reached a limit of the quality of service (QOS)",
    r"(?:QOS)?Max\w*PerAccount\w*": "its account has reached a limit of the quality of service (QOS)",
    r"QOSMax\w*Per(?:Job|Node)\w*": "it asks for more than its quality of service (QOS) allows one job",
    r"QOSUsageThreshold": "its user's share is used up further than the quality of service (QOS) allows",
    r"QOSJobLimit": "as many jobs as the quality of service (QOS) allows are there already",
    r"QOSGrp\w*|QOSResourceLimit|QOSTimeLimit": "all users of its quality of service (QOS) together have reached a limit",
    r"QOSMin\w*": "it asks for less than its quality of service (QOS) demands",
    r"AssocGrp\w*|Association(?:Job|Resource|Time)Limit": "all jobs of its account together have reached a limit",
    r"AssocMax\w*Per(?:Job|Node)\w*": "it asks for more than its account allows one job",
    r"AssocMaxJobsLimit": "as many jobs of its user run as its account allows at once",
}
"""Reasons of squeue(1). Source of their meaning: https://slurm.schedmd.com/job_reason_codes.html."""

_TURN: Final = frozenset({"Resources", "Priority", "None"})
"""Slurm's reasons of jobs that wait only for their turn."""

_NEVER: Final = re.compile(
    r"(?:DependencyNeverSatisfied|PartitionNodeLimit|PartitionTimeLimit|MaxMemPerLimit|BadConstraints|AccountNotAllowed"
    r"|InvalidAccount|QOSNotAllowed|InvalidQOS|QOSMax\w*Per(?:Job|Node)\w*|QOSMin\w*|AssocMax\w*Per(?:Job|Node)\w*)(?=[ ;]|$)"
)
"""Those that stay until somebody changes the job, its account or the site."""

_FIGURES: Final = r"Insufficient amount of (?:queue |server )?resource:? (?P<name>[\w.]+) \(R: (?P<asked>\S+) A: (?P<free>\S+) T: (?P<all>\S+)\).*"
_PBS: Final = {
    rf"Can Never Run: {_FIGURES}": r"it asks for \g<asked> of \g<name>, and there are \g<all>: it stays until the site or the Job changes",
    r"Can Never Run: .*": "it asks for more than there is: it stays until the site or the Job changes",
    rf"Not Running: {_FIGURES}": r"it asks for \g<asked> of \g<name>, and \g<free> of \g<all> are free",
    r"Not Running: Not enough (?:free nodes|of the right type of nodes(?: are)?) available\.?": "the nodes that it could use are busy",
    r"Not Running: Job would (?:conflict with reservation or|interfere with a) top job": "a start now would delay a job that comes first",
    r"Not Running: Job would interfere with a (?:confirmed )?reservation": "its nodes are reserved before it would end",
    r"Not Running: Job would break strict sorted order": "jobs before it start first",
    r"Not Running: Queue not started\.?": "its queue is stopped",
    r"Not Running: .*(?:User has reached|per-user|limit reached for user).*": "its user has reached a limit",
    r"Not Running: .*(?:Group has reached|per-group|limit reached for group).*": "its group has reached a limit",
    r"Not Running: .*(?:Project has reached|per-project|limit reached for project).*": "its project has reached a limit",
    r"Not Running: (?:Queue|Server) .*job limit.*": "as many jobs run as may run at once",
    r"Not Running: .*(?:primetime|dedicated time).*": "it would run into a time that is kept for other jobs",
    r"Not Running: Draining system to allow starving job to run": "nodes are kept free for a job that has waited long",
}
"""Comments of the schedulers of OpenPBS and TORQUE. Source: their messages, in both projects' ``src/scheduler*``."""


def of_slurm(reason: str) -> str:
    """What Slurm's reason for a waiting job means; empty if it is not known."""
    return _plain(_SLURM, reason)


def of_pbs(comment: str) -> str:
    """What a PBS scheduler's comment on a waiting job means; empty if it is not known."""
    return _plain(_PBS, " ".join(comment.split()))


def aside_at_slurm(reason: str) -> bool:
    """Whether a job that waits for Slurm's reason, or for several joined by commas, waits for more than its turn."""
    return not all(part.strip() in _TURN for part in reason.split(","))


def aside_at_pbs(state: str, comment: str) -> bool:
    """Whether a queued job waits for more than its turn: for a date (state ``W``), or for what never comes."""
    return state == "W" or never_runs(comment)


def never_runs(reason: str) -> bool:
    """Whether the batch system says that the job can never run as things are (OpenPBS and TORQUE)."""
    return reason.lstrip().startswith("Can Never Run")


def never_starts(words: str) -> bool:
    """Whether a job that waits with these words, a reason and more behind it, can never start as things are."""
    return never_runs(words) or _NEVER.match(words) is not None


def _plain(table: Mapping[str, str], reason: str) -> str:
    found = ((re.fullmatch(pattern, reason), text) for pattern, text in table.items())
    return next((match.expand(text) for match, text in found if match), "")
