"""The dashboards: what Grafana needs of them, and that they show metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from router.agent import metrics as of_agent
from router.agent.leader.figures import Figures
from router.agent.records import SiteRecords
from router.startup.policyfiles import PolicyStore
from router.webhook import metrics as of_webhook
from tests.monitoring.files import DASHBOARDS, PAGE, Json, alerts, metrics, panels, queries

OTHERS = {"up", "ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"} | {
    f"apiserver_admission_webhook_{name}" for name in ("rejection_count", "fail_open_count", "request_total")
}
"""Metrics of Prometheus, of the client library and of the API server."""
UNSEEN = {"build_info", "policy_generation", "policy_loaded_timestamp_seconds", "queue_states"}
"""Metrics that no dashboard and no alert shows."""
TYPES = {"stat", "timeseries", "bargauge"}
UNITS = {"none", "s", "bytes", "reqps", "cps"}
"""Of Grafana: a number, seconds, bytes, requests a second, counts a second."""


def ours() -> set[str]:
    """The metrics that webhook and agent have."""
    webhook, agent = of_webhook.Metrics(), of_agent.Metrics()
    webhook.show((), PolicyStore("policies"))
    agent.show(Figures(SiteRecords(), (), float))
    agent.show_sources((), PolicyStore("policies"))
    return {
        one.name for made in (webhook, agent) for one in made.registry.collect() if one.name.startswith("batchgate_")
    }


def read(dashboard: Path) -> Json:
    found: Json = json.loads(dashboard.read_text())
    return found


def test_there_are_two_and_each_is_known_by_its_own_id() -> None:
    assert [(one.stem, read(one)["uid"]) for one in DASHBOARDS] == [
        ("operators", "batchgate-operators"),
        ("users", "batchgate-users"),
    ]


def test_every_metric_is_one_that_is_told_and_those_that_are_told_are_shown() -> None:
    shown = {name for query in queries() for name in metrics(query.expr)}
    asked = {name for alert in alerts() for name in metrics(alert["expr"])}

    assert (shown | asked) - OTHERS <= ours()
    assert ours() - shown - asked == {f"batchgate_{name}" for name in UNSEEN}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_can_be_used_anywhere(dashboard: Path) -> None:
    found = read(dashboard)
    variables = {one["name"]: one["type"] for one in found["templating"]["list"]}

    assert variables == {"datasource": "datasource", "site": "query", "queue": "query"}
    assert all(one["datasource"]["uid"] == "${datasource}" for one in found["templating"]["list"][1:])
    assert (found["title"] != "", found["description"] != "", found["schemaVersion"]) == (True, True, 39)
    assert "id" not in found, "Grafana gives the number, and takes a given one for another dashboard"
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(found["panels"])))
    assert used <= {*variables, "__rate_interval"}


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_says_what_it_shows(dashboard: Path) -> None:
    everything = read(dashboard)["panels"]
    ids = [one["id"] for one in everything]
    assert len(ids) == len(set(ids))
    for panel in panels(dashboard):
        assert panel["type"] in TYPES
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert {one["datasource"]["uid"] for one in (panel, *panel["targets"])} == {"${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == ["A", "B", "C"][: len(letters)]
        assert all(target["legendFormat"] for target in panel["targets"]), panel["title"]
    titles = [one["title"] for one in everything]
    assert "" not in titles


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_figures_are_legible(dashboard: Path) -> None:
    """Counts are whole numbers, a value has its name, and a rate has four scrapes also where Grafana knows no interval."""
    for panel in panels(dashboard):
        defaults, options = panel["fieldConfig"]["defaults"], panel["options"]
        if defaults["unit"] == "none" and panel["title"] != "Processor":
            assert defaults["decimals"] == 0, panel["title"]
        if panel["type"] == "stat" and "{{" in panel["targets"][0]["legendFormat"]:
            assert (options["textMode"], options["text"]["titleSize"]) == ("value_and_name", 12), panel["title"]
        for target in panel["targets"]:
            assert target.get("interval") == ("30s" if "$__rate_interval" in target["expr"] else None), panel["title"]
        assert all(link["url"] == PAGE for link in panel.get("links", ())), panel["title"]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_no_panel_lies_upon_another(dashboard: Path) -> None:
    cells = [
        (x, y)
        for one in read(dashboard)["panels"]
        for x in range(one["gridPos"]["x"], one["gridPos"]["x"] + one["gridPos"]["w"])
        for y in range(one["gridPos"]["y"], one["gridPos"]["y"] + one["gridPos"]["h"])
    ]

    assert len(cells) == len(set(cells))
    assert {x for x, _ in cells} == set(range(24))


def test_nobody_is_a_label() -> None:
    """A label with users or Jobs would make series without an end."""
    webhook, agent = of_webhook.Metrics(), of_agent.Metrics()
    agent.show(Figures(SiteRecords(), (), float))
    made = [*vars(webhook).values(), *vars(agent).values(), *agent.registry.collect()]
    labels = {label for one in made for label in getattr(one, "_labelnames", ())}
    grouped = {
        name.strip()
        for query in queries()
        for words in re.findall(r"by \(([^)]*)\)", query.expr)
        for name in words.split(",")
    }

    assert {"rule", "outcome", "reason", "state"} <= labels
    assert not (labels | grouped) & {"user", "pod", "job_name", "namespace", "name", "uid"}


def test_targets_of_other_namespaces_do_not_count() -> None:
    """Anybody who may make a ServiceMonitor can have metrics of these names scraped."""
    for path in DASHBOARDS:
        text = path.read_text().replace('\\"', '"')
        selectors = re.findall(r"\b(?:(?:batchgate|process)_\w+|up)\{[^}]*\}", text)
        assert [one for one in selectors if 'namespace="batchgate-system"' not in one] == []
        assert len(selectors) >= len(re.findall(r"\b(?:batchgate|process)_\w+\b", text)) > 0


def test_expressions_are_closed() -> None:
    for query in queries():
        assert "$" not in query.expr, query
        assert [query.expr.count(one) for one in "({["] == [query.expr.count(one) for one in ")}]"], query
