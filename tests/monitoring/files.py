"""The files for Prometheus and Grafana, as they are in the chart.

Pure but for reading the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Json = dict[str, Any]
ROOT: Final = Path(__file__).parent.parent.parent
FOLDER: Final = ROOT / "charts" / "batchgate" / "monitoring"
RULES: Final = FOLDER / "rules.yaml"
PAGE: Final = "https://github.com/batchgate/batchgate/blob/main/docs/alerts.md"
"""Where alerts and dashboards link to, unless the chart's ``monitoring.runbooks`` names another page."""
CASES: Final = Path(__file__).parent / "rules.test.yaml"
DASHBOARDS: Final = tuple(sorted((FOLDER / "dashboards").glob("*.json")))

_GRAFANA: Final = {"$site": ".*", "$queue": ".*", "$__rate_interval": "2m"}
"""What Grafana puts in place of its variables: everything is chosen, and scrapes are 30 seconds apart."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query of a panel, with the variables filled in; ``letter`` tells it from the panel's others."""

    dashboard: str
    panel: str
    expr: str
    letter: str


def alerts() -> list[Json]:
    """The alerts, in their order."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels(dashboard: Path) -> list[Json]:
    """The panels of a dashboard that show something."""
    return [one for one in json.loads(dashboard.read_text())["panels"] if one["type"] != "row"]


def queries() -> Iterator[Query]:
    """Every query of every dashboard."""
    for dashboard in DASHBOARDS:
        for panel in panels(dashboard):
            for target in panel["targets"]:
                yield Query(dashboard.stem, panel["title"], filled(target["expr"]), target["refId"])


def variables() -> Iterator[tuple[str, str, str]]:
    """Of every variable of every dashboard that is asked of Prometheus: its name, its selector, the label it lists."""
    for dashboard in DASHBOARDS:
        for one in json.loads(dashboard.read_text())["templating"]["list"]:
            if one["type"] == "query":
                found = re.fullmatch(r"label_values\((.+), (\w+)\)", one["query"]["query"])
                assert found is not None, one
                assert one["definition"] == one["query"]["query"]
                yield one["name"], filled(found[1]), found[2]


def filled(expr: str) -> str:
    """A query as Grafana would ask it."""
    for name, value in _GRAFANA.items():
        expr = expr.replace(name, value)
    return expr


def windows(expr: str) -> list[int]:
    """The ranges of a query, in seconds."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    return [int(number) * units[unit] for number, unit in re.findall(r"\[(\d+)([smhd])\]", expr)]


def metrics(expr: str) -> set[str]:
    """The names of the metrics of a query, without what a histogram or counter adds to them."""
    bare = re.sub(r'"[^"]*"', "", expr)
    found = re.findall(r"\b(?:batchgate|apiserver|process)_[a-z_]+|\b(?:up|ALERTS)\b", bare)
    return {re.sub(r"_(bucket|count|total)$", "", name) if name.startswith("batchgate_") else name for name in found}
