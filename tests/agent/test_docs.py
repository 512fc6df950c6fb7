"""docs/agent.md names every option and metric of the agent, and none that is not there."""

from __future__ import annotations

import re
from pathlib import Path

from click import Option

from router.agent.leader.figures import Figures
from router.agent.metrics import Metrics
from router.agent.records import SiteRecords
from router.cli.agent import agent
from router.startup.policyfiles import PolicyStore

PAGE = (Path(__file__).parent.parent.parent / "docs" / "agent.md").read_text()


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_option_is_in_the_table() -> None:
    options = {parameter.opts[0] for parameter in agent.params if isinstance(parameter, Option)}
    table = [line for line in _section("Settings").splitlines() if line.startswith("| `--")]

    assert {re.findall(r"--[a-z-]+", line)[0] for line in table} == options


def test_every_metric_is_in_the_table() -> None:
    metrics = Metrics()
    metrics.show(Figures(SiteRecords(), (), float))
    metrics.show_sources((), PolicyStore("policies"))
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in metrics.registry.collect()}
    table = [line for line in _section("Metrics").splitlines() if line.startswith("| `batchgate_")]

    ours = {name for name in names if name.startswith("batchgate_")}
    assert {re.findall(r"batchgate_[a-z_]+", line)[0] for line in table} == ours
