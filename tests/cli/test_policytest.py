"""``batchgate policy test``: each format as a whole, what is run, what is demanded, and the exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from router import policy
from router.cli import commands, testreports
from router.cli.testreports import Report
from router.policy.coverage import Coverage
from router.policy.selftests import TestResult
from tests.policy.given import ACCOUNTS, SITES, UNHURRIED, job

LARGE, SMALL = json.dumps(job({"cpu": "6"})), json.dumps(job({"cpu": "1"}))
RULES = """\
rules:
  - {name: large, when: job.cpus > 4, hpc: [{queue: big}]}
  - {name: rest, cloud: true}
"""
TESTS = f"""\
tests:
  - {{name: "six, #1", job: {LARGE}, request: {{user: ada}}, expect: {{target: hpc}}}}
  - {{name: one, job: {SMALL}, expect: {{target: deny}}}}
"""
KEPT = "cloud by rule rest: rule rest keeps it in the cloud: it asks for 1 core"


@pytest.fixture
def directory(tmp_path: Path) -> str:
    (tmp_path / "10.yaml").write_text(SITES + ACCOUNTS)
    (tmp_path / "30.yaml").write_text(RULES)
    (tmp_path / "90.yaml").write_text(TESTS)
    return str(tmp_path)


def run(directory: str, *arguments: str) -> Result:
    return CliRunner().invoke(commands, ["policy", "test", directory, *arguments])


TEXT = f"""\
pass  six, #1
FAIL  one
      90.yaml:3
      expected deny
      got      {KEPT}
1 passed, 1 failed
"""
COVERED = """\
coverage: 100 %, 4 of 4 branches of 2 rules
  large (30.yaml:2) decided a test
     1 test  holds
     1 test  does not hold
     1 test  queue pbs/big
  rest (30.yaml:3) decided a test
     1 test  holds
"""
UNCOVERED = """\
coverage: 50 %, 2 of 4 branches of 2 rules
  large (30.yaml:2) decided a test
     1 test  holds
      never  does not hold
     1 test  queue pbs/big
  rest (30.yaml:3) was never looked at
      never  holds
"""
TAP = f"""\
TAP version 14
1..2
ok 1 - six, \\#1
not ok 2 - one
  ---
  at: "DIR/90.yaml:3"
  expected: "deny"
  got: "{KEPT}"
  ...
"""
GITHUB = f"""\
{TEXT}::error file=DIR/90.yaml,line=3,title=one%3A policy test::expected deny%0Agot {KEPT}
"""
GITHUB_UNCOVERED = """\
::warning file=DIR/30.yaml,line=2,title=rule large%3A coverage::rule large decided a test; no test shows: does not hold
::warning file=DIR/30.yaml,line=3,title=rule rest%3A coverage::rule rest was never looked at; no test shows: holds
"""
PRINTED = [
    ((), 1, TEXT),
    (("--coverage",), 1, TEXT + COVERED),
    (("--run", "six*"), 0, "pass  six, #1\n1 passed, 0 failed\n"),
    (("--run", "six*", "--run", "?ne"), 1, TEXT),
    (("--run", "six*", "--coverage"), 0, "pass  six, #1\n1 passed, 0 failed\n" + UNCOVERED),
    (("-o", "tap"), 1, TAP),
    (("-o", "tap", "--coverage"), 1, TAP + "".join(f"# {line}\n" for line in COVERED.splitlines())),
    (("-o", "github"), 1, GITHUB),
    (
        ("-o", "github", "--coverage", "--run", "six*"),
        0,
        "pass  six, #1\n1 passed, 0 failed\n" + UNCOVERED + GITHUB_UNCOVERED,
    ),
]


@pytest.mark.parametrize(("arguments", "code", "printed"), PRINTED)
def test_what_is_printed(directory: str, arguments: tuple[str, ...], code: int, printed: str) -> None:
    result = run(directory, *arguments)

    assert (result.exit_code, result.stdout, result.stderr) == (code, printed.replace("DIR", directory), "")


def test_junit(directory: str) -> None:
    result = run(directory, "-o", "junit")

    (suite,) = ET.fromstring(result.stdout)
    properties, passed, failed = suite
    where = {"classname": f"{directory}/90.yaml", "file": f"{directory}/90.yaml", "time": "0"}
    counts = {"tests": "2", "failures": "1", "errors": "0", "skipped": "0"}
    assert result.exit_code == 1
    assert suite.attrib == {"name": directory, **counts}
    assert {one.attrib["name"]: one.attrib["value"] for one in properties} == {
        "policy": policy.load({"10.yaml": SITES + ACCOUNTS, "30.yaml": RULES, "90.yaml": TESTS}).digest,
        "coverage": "100",
    }
    assert (passed.attrib, list(passed)) == ({"name": "six, #1", "line": "2", **where}, [])
    assert failed.attrib == {"name": "one", "line": "3", **where}
    assert (failed[0].tag, failed[0].attrib) == ("failure", {"type": "decision", "message": "expected deny"})
    assert failed[0].text == f"{directory}/90.yaml:3\nexpected deny\ngot      {KEPT}"


def branch(outcome: str, *tests: str, queue: str = "", counted: bool = True) -> dict[str, Any]:
    return {"outcome": outcome, "queue": queue, "tests": list(tests), "counted": counted}


def test_json(directory: str) -> None:
    result = run(directory, "-o", "json")

    file = f"{directory}/90.yaml"
    found = json.loads(result.stdout)
    digest, six = found.pop("policy"), found["tests"][0].pop("got")
    assert (result.exit_code, len(digest)) == (1, 64)
    assert six.startswith("hpc by rule large in queue big of site pbs: ")
    assert found == {
        "directory": directory,
        "passed": 1,
        "failed": 1,
        "tests": [
            {"name": "six, #1", "file": file, "line": 2, "passed": True, "expected": "hpc", "target": "hpc", "rule": "large"},
            {"name": "one", "file": file, "line": 3, "passed": False, "expected": "deny", "got": KEPT, "target": "cloud", "rule": "rest"},
        ],
        "coverage": {
            "percent": 100.0,
            "branches": 4,
            "taken": 4,
            "rules": [
                {"name": "large", "file": f"{directory}/30.yaml", "line": 2, "audit": False, "state": "decided", "branches": [
                    branch("held", "six, #1"), branch("notHeld", "one"), branch("queue", "six, #1", queue="pbs/big"),
                    branch("notRoutable", counted=False), branch("notEvaluated", counted=False)]},
                {"name": "rest", "file": f"{directory}/30.yaml", "line": 3, "audit": False, "state": "decided", "branches": [
                    branch("held", "one"), branch("notEvaluated", counted=False)]},
            ],
        },
    }  # fmt: skip


NOT_TAKEN = """\
Error: the tests take 50 % of the rules' branches (2 of 4), and --require-coverage asks for 50.1 %. Not taken:
  30.yaml:2: rule large: does not hold
  30.yaml:3: rule rest: holds
"""
DEMANDS = [
    (("--run", "six*", "--require-coverage", "50"), 0, ""),
    (("--run", "six*", "--require-coverage", "50.1"), 1, NOT_TAKEN),
    (("--run", "seven*", "--run", "one"), 2, "Error: no test has a name like 'seven*' (--run); the tests are:\n  six, #1\n  one\n"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "said"), DEMANDS)
def test_what_is_demanded(directory: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    result = run(directory, *arguments)

    assert (result.exit_code, result.stderr) == (code, said)


def test_no_number_is_no_percentage(directory: str) -> None:
    result = run(directory, "--require-coverage", "nan")

    assert (result.exit_code, "'nan' is no number, and it needs one such as 2" in result.stderr) == (2, True)


@pytest.mark.parametrize(("arguments", "code"), [((), 1), (("--require-tests",), 1), (("--no-require-tests",), 0)])
def test_a_policy_may_lack_tests_only_if_that_is_said(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    (tmp_path / "all.yaml").write_text("rules: [{name: rest, cloud: true}]\n")

    result = run(str(tmp_path), *arguments)

    assert (result.exit_code, result.stdout) == (code, "0 passed, 0 failed\n")


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        ("tap", r"TAP version 14\nBail out! DIR has no test, so nothing was shown; .*\n"),
        (
            "github",
            r"0 passed, 0 failed\n::error file=DIR,title=policy test::DIR has no test, so nothing was shown; .*\n",
        ),
        ("junit", r'(?s).* tests="1" failures="0" errors="1" .*<error type="tests" message="DIR has no test, .*'),
    ],
)
def test_no_format_passes_a_policy_that_lacks_the_tests_it_must_have(tmp_path: Path, output: str, printed: str) -> None:
    (tmp_path / "all.yaml").write_text("rules: [{name: rest, cloud: true}]\n")

    result = run(str(tmp_path), "-o", output)

    assert result.exit_code == 1
    assert re.fullmatch(printed.replace("DIR", re.escape(str(tmp_path))), result.stdout), result.stdout


@pytest.mark.parametrize("command", ["test", "check"])
def test_what_is_wrong_with_a_policy_is_annotated(tmp_path: Path, command: str) -> None:
    (tmp_path / "all.yaml").write_text("rules: [{name: rest, clod: true}]\n")

    result = CliRunner().invoke(commands, ["policy", command, f"{tmp_path}/", "-o", "github"])

    head = f"::error file={tmp_path}/all.yaml,line=1,col=22,title=policy check::rule rest: unknown key 'clod'"
    assert (result.exit_code, result.stdout.startswith(head), result.stdout.count("\n")) == (2, True, 1), result.stdout
    assert result.stderr.startswith("Error: all.yaml:1:22: rule rest: unknown key 'clod'")


@pytest.mark.parametrize("output", ["text", "junit", "json", "tap"])
def test_no_format_is_empty_where_the_policy_is_broken(tmp_path: Path, output: str) -> None:
    """Who reads the file then sees what is wrong. An empty one says nothing, or that all is well."""
    (tmp_path / "all.yaml").write_text("rules: [{name: rest, clod: true}]\n")
    file = f"{tmp_path}/all.yaml"

    result = run(f"{tmp_path}/", "-o", output)

    said = result.stderr.splitlines()[0].partition("rule rest: ")[2]
    assert (result.exit_code, said[:18]) == (2, "unknown key 'clod'")
    match output:
        case "text":
            assert result.stdout == ""
        case "tap":
            lines = ["TAP version 14", f"# all.yaml:1:22: rule rest: {said}", "Bail out! The policy does not check"]
            assert result.stdout.splitlines() == lines
        case "json":
            one = {"file": file, "line": 1, "column": 22, "where": "rule rest", "message": said}
            assert json.loads(result.stdout) == {"directory": f"{tmp_path}/", "problems": [one]}
        case "junit":
            ((case,),) = ET.fromstring(result.stdout)
            where = {"classname": file, "file": file, "line": "1", "time": "0"}
            assert case.attrib == {"name": "policy check", **where}
            assert [one.attrib for one in case] == [{"type": "policy", "message": f"rule rest: {said}"}]


EMPTY = Coverage(())


def reported(name: str, got: str) -> Report:
    return Report("policies", "d", (TestResult(name, passed=False, expected="deny", got=got, place="a.yaml:1"),), EMPTY)


@UNHURRIED
@given(st.text(), st.text())
def test_no_name_or_reason_breaks_a_format(name: str, got: str) -> None:
    report = reported(name, got)

    found = ET.fromstring(testreports.junit(report).encode("utf-8", "surrogatepass"))
    assert [len(list(suite.iter("failure"))) for suite in found] == [1]
    lines = testreports.tap(report).splitlines()
    assert [line.partition(" - ")[0] for line in lines if not line.startswith("  ")] == [
        "TAP version 14",
        "1..1",
        "not ok 1",
    ]
    assert yaml.safe_load("\n".join(lines[4:-1])).keys() == {"at", "expected", "got"}
    shown = testreports.github(report).split("\n")
    assert [line.lstrip().startswith("::") for line in shown] == [False] * 5 + [True]
    assert json.loads(testreports.document(report))["tests"][0]["name"] == name
