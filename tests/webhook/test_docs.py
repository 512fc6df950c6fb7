"""docs/operating.md names every option, metric and source, and none that is not there."""

from __future__ import annotations

import re

from click import Option

from router.notation import durations
from router.startup.policyfiles import PolicyStore
from router.startup.settings import (
    BODY_LIMIT,
    EXCHANGE_SECONDS,
    GRACE_SECONDS,
    KEEPALIVE_SECONDS,
    QUEUES_MAX_AGE,
    THREADS,
    WATCH_SECONDS,
)
from router.webhook.command import webhook
from router.webhook.metrics import Metrics
from tests.webhook.servers import ROOT

PAGE = (ROOT / "docs" / "operating.md").read_text()


def _section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_option_is_in_the_table() -> None:
    options = {parameter.opts[0] for parameter in webhook.params if isinstance(parameter, Option)}
    table = "\n".join(line for line in _section("Settings").splitlines() if line.startswith("| `"))

    assert set(re.findall(r"--[a-z-]+", table.replace("--all-namespaces", ""))) == options


def test_every_metric_is_in_the_table() -> None:
    metrics = Metrics()
    metrics.show((), PolicyStore("policies"))
    names = {f"{one.name}_total" if one.type == "counter" else one.name for one in metrics.registry.collect()}
    ours = {name for name in names if name.startswith("batchgate_")}
    table = [line for line in _section("Metrics").splitlines() if line.startswith("| `batchgate_")]

    assert {re.findall(r"batchgate_[a-z_]+", line)[0] for line in table} == ours


def test_the_figures_are_those_of_the_code() -> None:
    assert f"| {THREADS} |" in PAGE
    assert f"| {BODY_LIMIT} |" in PAGE
    assert f"| `{durations.show(QUEUES_MAX_AGE)}` |" in PAGE
    assert f"kept for {KEEPALIVE_SECONDS} seconds" in PAGE
    assert f"a client has {EXCHANGE_SECONDS} seconds" in PAGE
    assert f"(at most {GRACE_SECONDS} seconds)" in PAGE
    assert f"every {WATCH_SECONDS:g} seconds" in PAGE
