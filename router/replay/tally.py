"""Counts what changes, while Jobs are judged one after the other: no Job itself is kept, however many there are.

Pure, with a state: ``Tally`` is filled, then ``report`` makes a value of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from router.policy.model import Policy
from router.replay import scripts
from router.replay.cases import Case, Skipped, count
from router.replay.changes import Change, Kind, change, destination
from router.replay.outcomes import Outcome, outcome, unknown_gpus
from router.values import unchanging
from router.workload.model import Workload

_HOUR = 3600


@unchanging
class Hours:
    """Hours of cores and GPUs that Jobs ask for; ``unsized``: how many Jobs without a walltime count as nothing."""

    cores: float = 0.0
    gpus: float = 0.0
    unsized: int = 0

    def plus(self, other: Hours) -> Hours:
        """The sum."""
        return Hours(self.cores + other.cores, self.gpus + other.gpus, self.unsized + other.unsized)


def hours_of(workload: Workload) -> Hours:
    """What a Job asks for: of one Pod, times its Pods (completions, else parallelism), times its walltime."""
    walltime = workload.walltime_asked
    if walltime is None:
        return Hours(unsized=1)
    pods = (workload.completions or workload.parallelism).value
    each = pods * walltime.value / _HOUR
    cores = workload.cpu.value / 1000 if workload.cpu else 0.0
    return Hours(cores * each, (workload.gpus.value if workload.gpus else 0) * each)


@unchanging
class Example:
    """One Job of a group, why each policy decides so, and how its script differs where that was looked for."""

    name: str
    place: str
    before: str
    after: str
    script: str = ""


@unchanging
class Group:
    """The Jobs whose decision changes in the same way.

    :param users: how many users, and Jobs of each
    :param days: days on which such a Job was created (UTC); 0 if the times are unknown, as ``last`` is None
    :param missing: facts that a decision about some of the Jobs lacks, and for how many
    """

    change: Change
    jobs: int
    users: Mapping[str, int]
    namespaces: Mapping[str, int]
    hours: Hours
    days: int
    last: float | None
    missing: Mapping[str, int]
    example: Example


@unchanging
class Side:
    """One of the two policies.

    :param jobs: how many Jobs each of its rules decides, in the rules' order; audit rules: how many they would
    :param places: file and line of each rule
    :param hours: by destination
    """

    name: str
    digest: str
    jobs: Mapping[str, int]
    places: Mapping[str, str]
    hours: Mapping[str, Hours]
    destinations: Mapping[str, int]

    @property
    def unmet(self) -> tuple[str, ...]:
        """The rules that no Job met."""
        return tuple(rule for rule, count in self.jobs.items() if not count)


@unchanging
class Cell:
    """Jobs of about one size: the powers of two below their cores and walltime (hours), and whether they change."""

    cores: int
    walltime: int
    kind: Kind


@unchanging
class Report:
    """All that changes.

    :param groups: the largest first; without Jobs whose decision stays
    :param skipped: how many lines and objects were no Job to judge, by reason, and an example or an empty text
    :param unlike: Jobs that OLD decides otherwise than it did then, with an example; its digest was the same
    :param sizes: how many Jobs are of about one size
    :param missing: facts that a decision lacks, and for how many of all Jobs
    :param unsure: how many Jobs stay as they are only as far as is known, as facts are missing
    """

    old: Side
    new: Side
    judged: int
    groups: tuple[Group, ...]
    skipped: Mapping[str, tuple[int, str]]
    first: float | None
    last: float | None
    unlike: int
    unlike_example: str
    sizes: Mapping[Cell, int]
    missing: Mapping[str, int]
    unsure: int = 0

    @property
    def changed(self) -> int:
        """How many Jobs change."""
        return sum(group.jobs for group in self.groups)


@dataclass(slots=True)
class _Counts:
    jobs: int = 0
    users: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    hours: Hours = field(default_factory=Hours)
    days: set[int] = field(default_factory=set)
    last: float | None = None
    missing: Counter[str] = field(default_factory=Counter)
    example: Example | None = None


@dataclass(slots=True)
class _Side:
    name: str
    policy: Policy
    rules: Counter[str] = field(default_factory=Counter)
    hours: dict[str, Hours] = field(default_factory=dict)
    destinations: Counter[str] = field(default_factory=Counter)

    def add(self, found: Outcome, hours: Hours) -> None:
        self.rules.update((found.rule, *found.audited))
        where = destination(found)
        self.destinations[where] += 1
        self.hours[where] = self.hours.get(where, Hours()).plus(hours)

    def told(self) -> Side:
        jobs = {rule.name: self.rules[rule.name] for rule in self.policy.rules}
        places = {rule.name: rule.place for rule in self.policy.rules}
        return Side(self.name, self.policy.digest, jobs, places, self.hours, dict(self.destinations))


class Tally:
    """Judges Jobs by two policies and counts what differs.

    :param with_scripts: whether to compare the scripts as well, of Jobs whose manifest is known
    """

    def __init__(
        self, old: Policy, new: Policy, names: tuple[str, str] = ("OLD", "NEW"), *, with_scripts: bool = False
    ) -> None:
        self._scripts = with_scripts
        self._old, self._new = _Side(names[0], old), _Side(names[1], new)
        self._groups: dict[Change, _Counts] = {}
        self._skipped: dict[str, tuple[int, str]] = {}
        self._judged = 0
        self._first: float | None = None
        self._last: float | None = None
        self._unlike = 0
        self._unlike_example = ""
        self._sizes: Counter[Cell] = Counter()
        self._missing: Counter[str] = Counter()
        self._unsure = 0

    def skip(self, one: Skipped) -> None:
        """Count what was no Job to judge."""
        count(self._skipped, one.why, one.example)

    def add(self, case: Case) -> Change:
        """Judge a Job by both policies; returns what changes."""
        resized = case.resized or case.workload
        before, after = (outcome(self._old.policy, case, case.workload), outcome(self._new.policy, case, resized))
        script = scripts.difference(self._old.policy, self._new.policy, case) if self._compares(before, after) else ""
        hours, found = hours_of(case.workload), change(before, after, script)
        self._judged += 1
        self._old.add(before, hours)
        self._new.add(after, hours)
        self._compare(case, before)
        self._see(case, found)
        gpus = unknown_gpus(self._old.policy, self._new.policy, case)
        missing = tuple(dict.fromkeys((*before.missing, *after.missing, *gpus)))
        self._missing.update(missing)
        if found.kind is not Kind.NONE:
            example = Example(case.name, case.place, before.reason, after.reason, script)
            self._group(case, found, missing, example, hours)
        elif missing and self._old.policy.digest != self._new.policy.digest:
            self._unsure += 1
        return found

    def _compares(self, before: Outcome, after: Outcome) -> bool:
        return self._scripts and bool(before.queue) and bool(after.queue)

    def _group(self, case: Case, found: Change, missing: tuple[str, ...], example: Example, hours: Hours) -> None:
        counts = self._groups.setdefault(found, _Counts())
        counts.jobs += 1
        counts.users[case.requester.user] += 1
        counts.namespaces[case.requester.namespace] += 1
        counts.hours = counts.hours.plus(hours)
        counts.missing.update(missing)
        if case.requester.time is not None:
            counts.days.add(int(case.requester.time // 86400))
            counts.last = max(counts.last or 0.0, case.requester.time)
        counts.example = counts.example or example

    def _compare(self, case: Case, before: Outcome) -> None:
        """Whether the first policy decides as it did then. Both are asked the same way, so a difference is only told."""
        then = case.recorded
        if then is None or then.digest != self._old.policy.digest:
            return
        queue = f"{then.site}/{then.queue}" if then.queue else ""
        if (then.target, then.rule, queue) != (before.target, before.rule, before.queue):
            self._unlike += 1
            self._unlike_example = (
                self._unlike_example
                or f"{case.name} ({case.place}): {_by(queue or then.target, then.rule)}, now {_by(destination(before), before.rule)}"
            )

    def _see(self, case: Case, found: Change) -> None:
        moment, workload = case.requester.time, case.workload
        if moment is not None:
            self._first = moment if self._first is None else min(self._first, moment)
            self._last = moment if self._last is None else max(self._last, moment)
        if workload.cpu and workload.cpu.value and workload.walltime_asked:
            cores, walltime = workload.cpu.value / 1000, workload.walltime_asked.value / _HOUR
            self._sizes[Cell(math.floor(math.log2(cores)), math.floor(math.log2(walltime)), found.kind)] += 1

    def report(self) -> Report:
        """What was counted."""
        groups = sorted(
            (_told(found, counts) for found, counts in self._groups.items()),
            key=lambda group: (list(Kind).index(group.change.kind), -group.jobs, group.change.words),
        )
        return Report(
            old=self._old.told(),
            new=self._new.told(),
            judged=self._judged,
            groups=tuple(groups),
            skipped=dict(self._skipped),
            first=self._first,
            last=self._last,
            unlike=self._unlike,
            unlike_example=self._unlike_example,
            sizes=dict(self._sizes),
            missing=dict(self._missing.most_common()),
            unsure=self._unsure,
        )


def _by(where: str, rule: str) -> str:
    return f"{where} by rule {rule}" if rule else where


def _told(found: Change, counts: _Counts) -> Group:
    assert counts.example is not None  # noqa: S101 - each group has a Job
    return Group(
        found,
        counts.jobs,
        dict(counts.users.most_common()),
        dict(counts.namespaces.most_common()),
        counts.hours,
        len(counts.days),
        counts.last,
        dict(counts.missing.most_common()),
        counts.example,
    )


def day(moment: float | None) -> str:
    """A day for people; ``-`` if unknown."""
    return "-" if moment is None else datetime.fromtimestamp(moment, UTC).date().isoformat()
