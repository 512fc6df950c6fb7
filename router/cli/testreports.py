"""Words the results of a policy's tests: as text, JSON, JUnit's XML, TAP, and annotations of GitHub.

Pure. JUnit's XML is as Jenkins and GitLab read it (``testsuites``, ``testsuite``, ``testcase``, ``failure``). TAP is
version 14 (https://testanything.org/tap-version-14-specification.html). Annotations are workflow commands of GitHub
Actions (https://docs.github.com/actions/reference/workflow-commands-for-github-actions).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from xml.etree import ElementTree as ET

from router.cli.output import as_document, as_json
from router.errors import Problem
from router.policy.coverage import Coverage, RuleCoverage
from router.policy.selftests import TestResult


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one run.

    :param directory: of the policy, as the user named it
    :param digest: of the policy
    :param tell_coverage: whether the formats for people show the coverage; JSON always has it
    """

    directory: str
    digest: str
    results: tuple[TestResult, ...]
    coverage: Coverage
    tell_coverage: bool = False

    @property
    def failed(self) -> int:
        """How many tests failed."""
        return sum(not one.passed for one in self.results)

    def file(self, place: str) -> tuple[str, int]:
        """The path from where the user is, and the line, of a place within the directory."""
        name, _, line = place.rpartition(":")
        return f"{self.directory.rstrip('/')}/{name}", int(line)


def percent(shown: Coverage) -> str:
    """``85.7 %``, rounded down, so that only all branches are 100 %."""
    return f"{math.floor(shown.share * 10) / 10:g} %"


def _line(words: str) -> str:
    """One line without control characters, so that no name or reason makes a line of its own."""
    return "".join(char if char.isprintable() else " " for char in words)


# --- text -------------------------------------------------------------------------------------------------------

_STATES: Final = {
    "decided": "decided a test",
    "recorded": "recorded a test (mode: audit)",
    "lookedAt": "was only looked at",
    "never": "was never looked at",
}


def text(report: Report) -> str:
    """For people: a line for each test, the differences of those that failed, the sums."""
    lines = []
    for one in report.results:
        lines.append(f"{'pass' if one.passed else 'FAIL'}  {_line(one.name)}")
        if not one.passed:
            told = (one.place, f"expected {one.expected}", f"got      {one.got}")
            lines += [f"      {_line(words)}" for words in told]
    lines.append(f"{len(report.results) - report.failed} passed, {report.failed} failed")
    return "\n".join([*lines, *_coverage_lines(report)])


def _coverage_lines(report: Report) -> Iterator[str]:
    if not report.tell_coverage:
        return
    shown = report.coverage
    yield f"coverage: {percent(shown)}, {shown.taken} of {shown.counted} branches of {len(shown.rules)} rules"
    for rule in shown.rules:
        yield f"  {rule.rule} ({rule.place}) {_STATES[rule.state]}"
        for branch in rule.branches:
            if branch.tests or branch.counted:
                yield f"    {_times(len(branch.tests)):>7}  {branch}"


def _times(count: int) -> str:
    return {0: "never", 1: "1 test"}.get(count, f"{count} tests")


# --- JSON -------------------------------------------------------------------------------------------------------


def document(report: Report) -> str:
    """For programs; docs/policy-tests.md#for-machines describes its keys."""
    return as_json(
        {
            "directory": report.directory,
            "policy": report.digest,
            "passed": len(report.results) - report.failed,
            "failed": report.failed,
            "tests": [_test(report, one) for one in report.results],
            "coverage": {
                "percent": float(report.coverage.share),
                "branches": report.coverage.counted,
                "taken": report.coverage.taken,
                "rules": [_rule(report, one) for one in report.coverage.rules],
            },
        }
    )


def _test(report: Report, one: TestResult) -> dict[str, Any]:
    file, line = report.file(one.place)
    decision = one.decision
    return {
        "name": one.name,
        "file": file,
        "line": line,
        "passed": one.passed,
        "expected": one.expected,
        "got": one.got,
        "target": decision.target if decision else None,
        "rule": (decision.rule or None) if decision else None,
    }


def _rule(report: Report, one: RuleCoverage) -> dict[str, Any]:
    file, line = report.file(one.place)
    return {
        "name": one.rule,
        "file": file,
        "line": line,
        "audit": one.audit,
        "state": one.state,
        "branches": as_document(one.branches),
    }


# --- JUnit ------------------------------------------------------------------------------------------------------

_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, even escaped (https://www.w3.org/TR/xml/#charsets)."""


def _xml(words: str) -> str:
    return _NOT_XML.sub("�", words)


def junit(report: Report) -> str:
    """JUnit's XML: one suite, whose cases have the file of the test as class."""
    root, suite = _suite(report.directory, len(report.results), failures=report.failed)
    properties = ET.SubElement(suite, "properties")
    values = {"policy": report.digest, "coverage": percent(report.coverage).removesuffix(" %")}
    for name, value in values.items():
        ET.SubElement(properties, "property", {"name": name, "value": value})
    for one in report.results:
        file, line = report.file(one.place)
        where = {"classname": _xml(file), "file": _xml(file), "line": str(line)}
        case = ET.SubElement(suite, "testcase", {"name": _xml(one.name), "time": "0", **where})
        if not one.passed:
            failure = ET.SubElement(case, "failure", {"type": "decision", "message": _xml(f"expected {one.expected}")})
            failure.text = _xml(f"{file}:{line}\nexpected {one.expected}\ngot      {one.got}")
    if report.tell_coverage:
        ET.SubElement(suite, "system-out").text = _xml("\n".join(_coverage_lines(report)))
    return _written(root)


def _suite(directory: str, tests: int, *, failures: int = 0, errors: int = 0) -> tuple[ET.Element, ET.Element]:
    """A document of one suite, and that suite."""
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors), "skipped": "0"}
    root = ET.Element("testsuites", {"name": "batchgate policy test", **counts})
    return root, ET.SubElement(root, "testsuite", {"name": _xml(directory), **counts})


def _written(root: ET.Element) -> str:
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode")


# --- TAP --------------------------------------------------------------------------------------------------------


def tap(report: Report) -> str:
    """TAP 14, with a YAML block for each failure."""
    return "\n".join(["TAP version 14", f"1..{len(report.results)}", *_tap_lines(report)])


def _tap_lines(report: Report) -> Iterator[str]:
    for number, one in enumerate(report.results, start=1):
        yield f"{'ok' if one.passed else 'not ok'} {number} - {_described(one.name)}"
        if not one.passed:
            file, line = report.file(one.place)
            values = {"at": f"{file}:{line}", "expected": one.expected, "got": one.got}
            # JSON is YAML.
            yield from ["  ---", *(f"  {key}: {json.dumps(value)}" for key, value in values.items()), "  ..."]
    yield from (f"# {line}" for line in _coverage_lines(report))


def _described(name: str) -> str:
    """A name on one line, in which no ``#`` begins a directive."""
    return _line(name).replace("\\", "\\\\").replace("#", "\\#")


# --- GitHub -----------------------------------------------------------------------------------------------------


def github(report: Report) -> str:
    """The text, and an annotation for each failure and for each rule that no test decided."""
    failed = [
        _command("error", report.file(one.place), f"{one.name}: policy test", f"expected {one.expected}\ngot {one.got}")
        for one in report.results
        if not one.passed
    ]
    untested = [
        _command("warning", report.file(one.place), f"rule {one.rule}: coverage", f"rule {one.rule} {_missing(one)}")
        for one in report.coverage.rules
        if report.tell_coverage and one.missing
    ]
    return "\n".join([text(report), *failed, *untested])


def _missing(rule: RuleCoverage) -> str:
    return f"{_STATES[rule.state]}; no test shows: {', '.join(map(str, rule.missing))}"


def _command(kind: str, place: tuple[str, int], title: str, message: str, *, column: int = 0) -> str:
    file, line = place
    known = {"file": file, "line": line, "col": column, "title": title}
    properties = ",".join(f"{key}={_property(str(value))}" for key, value in known.items() if value)
    return f"::{kind} {properties}::{_data(message)}"


def _data(words: str) -> str:
    return words.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(words: str) -> str:
    return _data(words).replace(":", "%3A").replace(",", "%2C")


# --- a policy that does not check -------------------------------------------------------------------------------

_CHECK: Final = "policy check"
_TESTS: Final = "policy test"


def broken(output: str, directory: str, problems: Sequence[Problem]) -> str:
    """What a format has in place of results for a policy with these problems; empty for text."""
    match output:
        case "github":
            return "\n".join(_annotated(directory, problems))
        case "junit":
            return _junit_broken(directory, problems)
        case "json":
            return as_json({"directory": directory, "problems": [_problem(directory, one) for one in problems]})
        case "tap":
            said = (_line(str(replace(one, excerpt=""))) for one in problems)
            return "\n".join(["TAP version 14", *(f"# {line}" for line in said), "Bail out! The policy does not check"])
    return ""


def without_tests(output: str, report: Report, why: str) -> str:
    """What a format has for a policy that lacks the tests which it must have.

    :param why: the rest of a sentence behind the directory
    """
    match output:
        case "github":
            return "\n".join(
                [github(report), _command("error", (report.directory, 0), _TESTS, f"{report.directory} {why}")]
            )
        case "junit":
            root, suite = _suite(report.directory, 1, errors=1)
            case = ET.SubElement(suite, "testcase", {"name": _TESTS, "classname": _xml(report.directory), "time": "0"})
            ET.SubElement(case, "error", {"type": "tests", "message": _xml(f"{report.directory} {why}")})
            return _written(root)
        case "tap":
            return "\n".join(["TAP version 14", f"Bail out! {_line(report.directory)} {why}"])
    return FORMATS[output](report)


def _sentence(one: Problem) -> str:
    return f"{one.where}: {one.message}" if one.where else one.message


def _file(directory: str, one: Problem) -> str:
    return f"{directory.rstrip('/')}/{one.file}"


def _annotated(directory: str, problems: Iterable[Problem]) -> Iterator[str]:
    for one in problems:
        yield _command("error", (_file(directory, one), one.line), _CHECK, _sentence(one), column=one.column)


def _problem(directory: str, one: Problem) -> dict[str, Any]:
    place = {"file": _file(directory, one), "line": one.line, "column": one.column}
    return {**place, "where": one.where, "message": one.message}


def _junit_broken(directory: str, problems: Sequence[Problem]) -> str:
    """One suite, in which each problem is an error with its file and line."""
    root, suite = _suite(directory, len(problems), errors=len(problems))
    for one in problems:
        file, words = _xml(_file(directory, one)), _xml(_sentence(one))
        where = {"classname": file, "file": file, "line": str(one.line)}
        case = ET.SubElement(suite, "testcase", {"name": _CHECK, "time": "0", **where})
        ET.SubElement(case, "error", {"type": "policy", "message": words}).text = _xml(str(one))
    return _written(root)


FORMATS: Final[Mapping[str, Callable[[Report], str]]] = {
    "text": text,
    "json": document,
    "junit": junit,
    "github": github,
    "tap": tap,
}
