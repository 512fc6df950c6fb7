"""A report as JSON, as Markdown for a merge request, and as JUnit's XML for pipelines.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final
from xml.etree import ElementTree as ET

from router.notation import durations
from router.replay.changes import MEANING, Kind
from router.replay.rows import core_hours, figures, head_line, jobs, notes, rule, unsure_note
from router.replay.tally import Group, Hours, Report, Side, day
from router.replay.texts import code, plain

NOTHING_JUDGED: Final = "no Job was judged, so nothing was shown"
ANY: Final = "any"
MISSING: Final = "missing"
FAILING: Final = (*(str(kind) for kind in Kind if kind is not Kind.NONE), MISSING, ANY)
"""What a caller may fail on: a kind of change, any change, or a decision for which facts are missing."""


def fails(group: Group, on: Collection[str]) -> bool:
    """Whether a caller wants to fail on these Jobs."""
    return ANY in on or group.change.kind in on or (MISSING in on and bool(group.missing))


def fails_unsure(report: Report, on: Collection[str]) -> bool:
    """Whether a caller wants to fail as facts are missing without which it is open whether some Jobs change."""
    return MISSING in on and report.unsure > 0


# --- JSON -------------------------------------------------------------------------------------------------------


def document(report: Report) -> dict[str, Any]:
    """The whole report as JSON values."""
    return {
        "old": _side(report.old),
        "new": _side(report.new),
        "judged": report.judged,
        "changed": report.changed,
        "first": _moment(report.first),
        "last": _moment(report.last),
        "changes": [_group(group) for group in report.groups],
        "leftOut": listed("what", "count", report.skipped),
        "missing": dict(report.missing),
        "unsure": report.unsure,
        "unlike": {"jobs": report.unlike, "example": report.unlike_example},
    }


def listed(name: str, number: str, found: Mapping[str, tuple[int, str]]) -> list[dict[str, Any]]:
    """What was counted with an example, as JSON values with these keys."""
    return [{name: what, number: count, "example": example} for what, (count, example) in found.items()]


def _side(side: Side) -> dict[str, Any]:
    return {
        "policy": side.name,
        "digest": side.digest,
        "rules": [{"name": name, "place": side.places[name], "jobs": count} for name, count in side.jobs.items()],
        "destinations": [
            {"to": where, "jobs": count, **_hours(side.hours[where])} for where, count in side.destinations.items()
        ],
    }


def _hours(hours: Hours) -> Mapping[str, Any]:
    return {"coreHours": round(hours.cores, 2), "gpuHours": round(hours.gpus, 2), "withoutWalltime": hours.unsized}


def _moment(moment: float | None) -> str | None:
    return None if moment is None else durations.show_moment(moment)


def _group(group: Group) -> dict[str, Any]:
    change, example = group.change, group.example
    return {
        "kind": str(change.kind),
        "before": change.before,
        "after": change.after,
        "ruleBefore": {"name": change.rule_before, "place": change.place_before},
        "ruleAfter": {"name": change.rule_after, "place": change.place_after},
        "jobs": group.jobs,
        "users": dict(group.users),
        "namespaces": dict(group.namespaces),
        **_hours(group.hours),
        "days": group.days or None,
        "last": _moment(group.last),
        "missing": dict(group.missing),
        "example": {
            "job": example.name,
            "place": example.place,
            "before": example.before,
            "after": example.after,
            "script": example.script,
        },
    }


# --- Markdown ---------------------------------------------------------------------------------------------------

_HEAD: Final = ("change", "kind", "Jobs", "users", "namespaces", "core-hours", "GPU-hours", "days", "last", "rule before",
                "rule after", "facts that are missing")  # fmt: skip
_MOST_NAMED: Final = 5


def markdown(report: Report) -> str:
    """The report for a merge request."""
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield f"### {head_line(report)}"
    yield ""
    yield f"{code(report.old.name)} ({code(report.old.digest[:12])}) to {code(report.new.name)} ({code(report.new.digest[:12])})"
    yield ""
    if report.groups:
        yield f"| {' | '.join(_HEAD)} |"
        yield f"|{'---|' * len(_HEAD)}"
        yield from (f"| {' | '.join(_cells(group))} |" for group in report.groups)
        yield ""
    for group in report.groups:
        yield from _details(group)
    yield from (f"* {code(note)}" for note in notes(report))


def _cells(group: Group) -> tuple[str, ...]:
    change = group.change
    return (
        code(change.words),
        change.kind,
        f"{group.jobs:,}",
        _most(group.users),
        _most(group.namespaces),
        core_hours(group.hours),
        f"{group.hours.gpus:,.0f}",
        str(group.days or "-"),
        day(group.last),
        code(rule(change.rule_before, change.place_before)),
        code(rule(change.rule_after, change.place_after)),
        ", ".join(code(f"{fact} ({count})") for fact, count in group.missing.items()) or "-",
    )


def _most(counted: Mapping[str, int]) -> str:
    """Those with the most Jobs, and how many others there are."""
    shown = [code(name or "unknown") for name in list(counted)[:_MOST_NAMED]]
    rest = len(counted) - len(shown)
    return ", ".join([*shown, f"and {rest} more"] if rest else shown)


def _details(group: Group) -> Iterator[str]:
    example = group.example
    yield f"* {code(group.change.words)}: such as {code(example.name)} ({code(example.place)})"
    yield f"  * before: {code(example.before)}"
    yield f"  * after: {code(example.after)}"
    if example.script:
        yield ""
        yield from (f"        {plain(line)}" for line in example.script.splitlines())
        yield ""


# --- JUnit ------------------------------------------------------------------------------------------------------


def junit(report: Report, on: Collection[str]) -> str:
    """A suite with a case for each change; it fails if the caller wants to fail on it."""
    unsure = fails_unsure(report, on)
    failed = sum(fails(group, on) for group in report.groups) + unsure
    counts = {
        "tests": str(len(report.groups) + unsure or 1),
        "failures": str(failed),
        "errors": str(int(not report.judged)),
    }
    suite = ET.Element("testsuite", {"name": "batchgate policy diff", **counts})
    for group in report.groups:
        _case(suite, group, failing=fails(group, on))
    if unsure:
        told = unsure_note(report)
        case = ET.SubElement(suite, "testcase", {"classname": f"policy diff.{MISSING}", "name": "facts are missing"})
        ET.SubElement(case, "failure", {"message": told, "type": MISSING}).text = told
    elif not report.groups:
        case = ET.SubElement(suite, "testcase", {"classname": "policy diff", "name": head_line(report)})
        if not report.judged:
            ET.SubElement(case, "error", {"message": NOTHING_JUDGED}).text = NOTHING_JUDGED
    ET.SubElement(suite, "system-out").text = "\n".join(plain(one) for one in (head_line(report), *notes(report)))
    ET.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(suite, encoding="unicode")}\n'


def _case(suite: ET.Element, group: Group, *, failing: bool) -> None:
    change = group.change
    name = f"{change.words}, rule {rule(change.rule_before, change.place_before)} to {rule(change.rule_after, change.place_after)}"
    case = ET.SubElement(suite, "testcase", {"classname": f"policy diff.{change.kind}", "name": plain(name)})
    told = (
        f"{figures(group)}: {MEANING[change.kind]}",
        f"such as {group.example.name} ({group.example.place})",
        f"before: {group.example.before}",
        f"after: {group.example.after}",
        *(f"missing: {fact}, for {jobs(count)}" for fact, count in group.missing.items()),
    )
    text = "\n".join(plain(line) for line in told)
    if failing:
        ET.SubElement(case, "failure", {"message": plain(told[0]), "type": str(change.kind)}).text = text
    else:
        ET.SubElement(case, "system-out").text = text
