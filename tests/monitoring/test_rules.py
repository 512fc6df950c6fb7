"""The alerts: well formed, each with a runbook and with cases in which it fires and does not, run by promtool."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.files import CASES, ROOT, RULES, alerts, windows

SCRAPE_SECONDS = 30
"""The chart's `monitoring.interval`."""
PAGE = ROOT / "docs" / "alerts.md"


@pytest.fixture(scope="module")
def promtool() -> str:
    """Prometheus' own judge of rules. Tests are skipped without it."""
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("there is no promtool; Debian's package prometheus has it")
    return found


def run(*argv: str | Path) -> str:
    """What a command prints; empty where it is content."""
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=False, timeout=300)
    return done.stdout + done.stderr if done.returncode else ""


def test_promtool_takes_the_rules(promtool: str) -> None:
    assert run(promtool, "check", "rules", "--lint-fatal", RULES) == ""


def test_every_case_is_as_told(promtool: str) -> None:
    assert run(promtool, "test", "rules", CASES) == ""


def test_every_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    found: dict[str, set[bool]] = {}
    for test in yaml.safe_load(CASES.read_text())["tests"]:
        for one in test["promql_expr_test"]:
            (name,) = re.findall(r'alertname="(\w+)"', one["expr"])
            found.setdefault(name, set()).update(_outcomes(test, one))

    assert found == {alert["alert"]: {True, False} for alert in alerts()}


def _outcomes(test: dict[str, Any], one: dict[str, Any]) -> set[bool]:
    """Whether a test has cases that fire and cases that do not; each of several sites is a case."""
    fired = one.get("exp_samples", [])
    sites = {
        site for series in test.get("input_series", []) for site in re.findall(r'site="([^"]+)"', series["series"])
    }
    return {True for _ in fired} | ({False} if len(fired) < max(1, len(sites)) else set())


def test_every_alert_has_a_section_in_the_runbook() -> None:
    anchors = [line.removeprefix("### ").lower() for line in PAGE.read_text().splitlines() if line.startswith("### ")]

    assert [alert["annotations"]["runbook_url"].rpartition("docs/alerts.md#")[2] for alert in alerts()] == anchors
    assert anchors == [alert["alert"].lower() for alert in alerts()]


@pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert["alert"])
def test_an_alert_is_told_well(alert: dict[str, Any]) -> None:
    assert re.fullmatch(r"Batchgate[A-Z]\w+", alert["alert"])
    assert alert["labels"].keys() == {"severity"}
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert alert["annotations"].keys() == {"summary", "description", "runbook_url"}
    assert all(text.strip() for text in alert["annotations"].values())
    # A rate needs scrapes to spare: one may fail, and two are needed.
    assert [one for one in windows(alert["expr"]) if one < 4 * SCRAPE_SECONDS] == []
    # Names of targets are anybody's who may make a ServiceMonitor, so namespaces count too.
    selectors = re.findall(r"\b(?:batchgate_\w+|up)\{([^}]*)\}", alert["expr"])
    assert all('namespace="batchgate-system"' in one and "job=" in one for one in selectors)
    assert len(selectors) == len(re.findall(r"\b(?:batchgate_\w+|up)\b", re.sub(r'"[^"]*"', "", alert["expr"])))
