"""A report as a table for people.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from router.replay.tally import Group, Hours, Report, Side, day

HEAD: Final = (
    "CHANGE",
    "KIND",
    "JOBS",
    "USERS",
    "NAMESPACES",
    "CORE-HOURS",
    "GPU-HOURS",
    "DAYS",
    "LAST",
    "RULE BEFORE",
    "RULE AFTER",
    "MISSING",
)


def rows(report: Report) -> list[tuple[str, ...]]:
    """A row under ``HEAD`` for each group."""
    return [_row(group) for group in report.groups]


def _row(group: Group) -> tuple[str, ...]:
    change = group.change
    return (
        change.words,
        change.kind,
        str(group.jobs),
        people(group.users),
        str(len(group.namespaces)),
        core_hours(group.hours),
        f"{group.hours.gpus:,.0f}",
        str(group.days or "-"),
        day(group.last),
        rule(change.rule_before, change.place_before),
        rule(change.rule_after, change.place_after),
        ", ".join(f"{fact} ({count})" for fact, count in group.missing.items()) or "-",
    )


def examples(report: Report) -> list[str]:
    """For each group a Job, why each policy decides so, and how its script differs."""
    return [line for group in report.groups for line in _example(group)]


def _example(group: Group) -> list[str]:
    one = group.example
    script = [f"    {line}" for line in one.script.splitlines()]
    return [
        f"{group.change.words}: such as {one.name} ({one.place})",
        f"  before: {one.before}",
        f"  after:  {one.after}",
        *script,
    ]


def people(users: Mapping[str, int]) -> str:
    """How many users there are: ``2``, ``2 and unknown`` or ``unknown``."""
    known = sum(1 for name in users if name)
    return " and ".join([*([str(known)] if known else []), *(["unknown"] if "" in users else [])])


def figures(group: Group) -> str:
    """The figures of a row, in a line."""
    hours = [f"{group.hours.cores:,.0f} core-hours", f"{group.hours.gpus:,.0f} GPU-hours"]
    unsized = [f"{jobs(group.hours.unsized)} without walltime"] if group.hours.unsized else []
    days = "1 day" if group.days == 1 else f"{group.days} days"
    seen = f"; on {days}, last on {day(group.last)}" if group.days else ""
    who = f"(users: {people(group.users)}, namespaces: {len(group.namespaces)})"
    return f"{jobs(group.jobs)} {who}, {', '.join([*hours, *unsized])}{seen}"


def core_hours(hours: Hours) -> str:
    """Core-hours, and how many Jobs name no walltime."""
    return f"{hours.cores:,.0f}" + (f" and {jobs(hours.unsized)} without walltime" if hours.unsized else "")


def rule(name: str, place: str) -> str:
    """A rule with its file and line."""
    return f"{name} ({place})" if place else name or "-"


def jobs(count: int) -> str:
    """``1 Job``, ``2,000 Jobs``."""
    return f"{count:,} Job" if count == 1 else f"{count:,} Jobs"


def head_line(report: Report) -> str:
    """One sentence about the whole."""
    span = f", {day(report.first)} to {day(report.last)}" if report.first is not None else ""
    return f"{jobs(report.judged)}{span}: {report.changed:,} would be decided otherwise"


def notes(report: Report) -> list[str]:
    """Sentences on what was left out, and on rules that no Job met."""
    found = left_out(report.skipped)
    if report.missing:
        told = ", ".join(f"{fact} ({jobs(count)})" for fact, count in report.missing.items())
        found.append(f"facts that rules or accounts read and that are unknown, so that decisions may be others: {told}")
    if report.unsure:
        found.append(unsure_note(report))
    if report.unlike:
        found.append(
            f"decided otherwise by {report.old.name} now than by the same policy then: {jobs(report.unlike)}, "
            f"such as {report.unlike_example}"
        )
    return [*found, *_unmet(report.old), *_unmet(report.new)]


def unsure_note(report: Report) -> str:
    """How many Jobs stay as they are only as far as is known."""
    return f"decided the same as far as is known, as facts are missing: {jobs(report.unsure)}"


def left_out(skipped: Mapping[str, tuple[int, str]]) -> list[str]:
    """For each reason how many lines and objects were no Job, with an example if there is one."""
    return [
        f"left out: {count:,} ({why}{f', such as {example}' if example else ''})"
        for why, (count, example) in skipped.items()
    ]


def _unmet(side: Side) -> list[str]:
    told = ", ".join(rule(name, side.places[name]) for name in side.unmet)
    return [f"rules of {side.name} that no Job met: {told}"] if told else []
