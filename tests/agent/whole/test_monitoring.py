"""Every query of the alerts and dashboards, asked of a real Prometheus that scrapes everything while Jobs run."""

from __future__ import annotations

import base64
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.agent.whole.jobs import unique
from tests.agent.whole.site import SITE, WATCHED, WIDE
from tests.agent.whole.stack import Stack, await_webhook
from tests.agent.whole.waiting import until
from tests.monitoring.files import alerts, queries, variables
from tests.monitoring.prometheus import LACKING, PROGRAM, Prometheus, prometheus

pytestmark = [pytest.mark.timeout(600), pytest.mark.skipif(PROGRAM is None, reason=LACKING)]
SYSTEM = {"namespace": "batchgate-system"}

EMPTY = {
    ("operators", "Alerts that fire", "A"): "no alert fires while all is well; the panel's other query is a line at 0",
    ("operators", "As the API server sees it", "A"): "the API server counts failed calls only where one has failed",
}
"""Queries that have no sample while all is well, and why. The first has some once an alert fires."""
PASSING = {"BatchgateReviewsSlow", "BatchgateReviewsNearTimeout", "BatchgateAgentStepsFail"}
"""Alerts that only mean something when they last, which they need not do here."""


@pytest.fixture
def watched(stack: Stack, tmp_path: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the webhook, the agent and the API server as an operator's does."""
    scrapes = [_webhook(stack), _agent(stack), _api_server(stack, tmp_path)]
    with prometheus(tmp_path / "prometheus", scrapes) as found:
        until(found.targets, lambda known: set(known.values()) == {"up"}, what="for every target to be scraped")
        yield found


def _webhook(stack: Stack) -> dict[str, Any]:
    ca_file = stack.signing_key.parent / "ca.crt"
    target = await_webhook(stack.webhook, ca_file).removeprefix("https://")
    return {
        "job_name": "batchgate-webhook-metrics",
        "scheme": "https",
        "tls_config": {"ca_file": str(ca_file)},
        "static_configs": [{"targets": [target], "labels": SYSTEM}],
    }


def _agent(stack: Stack) -> dict[str, Any]:
    targets = [until(lambda: _listening(stack), what="for the agent's metrics")]
    return {
        "job_name": "batchgate-agent-metrics",
        "static_configs": [{"targets": targets, "labels": SYSTEM | {"site": SITE}}],
    }


def _listening(stack: Stack) -> str:
    """Where the agent shows its metrics; empty as long as its log has only the address of the one before."""
    address: str = stack.agent.logged("metrics")[-1]["address"]
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError:
        return ""
    return address


def _api_server(stack: Stack, directory: Path) -> dict[str, Any]:
    plane = stack.plane
    (user,) = yaml.safe_load(plane.kubeconfig().read_text())["users"]
    files = {}
    for what, key in (("cert_file", "client-certificate-data"), ("key_file", "client-key-data")):
        files[what] = str(directory / key)
        (directory / key).write_bytes(base64.b64decode(user["user"][key]))
    return {
        "job_name": "apiserver",
        "scheme": "https",
        "tls_config": {"ca_file": str(plane.ca_file), **files},
        "static_configs": [{"targets": [plane.server.removeprefix("https://")]}],
    }


def test_every_panel_shows_what_happens_and_alerts_fire_for_what_breaks(stack: Stack, watched: Prometheus) -> None:
    waits, ends = unique(WATCHED), unique("ends")
    stack.user.apply(stack.runs.job(waits, stack.waiting(waits)), stack.runs.job(ends))
    assert stack.await_end(ends) == ["Complete"]
    stack.await_running(waits)

    until(lambda: _any(watched, _expr("Audit rules")), what="for the audit rule that the Job has met")
    running = f'batchgate_agent_jobs{{site="{SITE}",queue="{WIDE}",state="Running"}}'
    until(lambda: watched.value(running), lambda count: count == 1, what="for the running Pod")
    until(lambda: _without_data(watched), lambda found: found <= EMPTY.keys(), what="for every query to have data")
    for variable, *asked in variables():
        assert {"site": SITE, "queue": WIDE}[variable] in watched.label_values(*asked)
    called = 'count(apiserver_admission_webhook_request_total{name="jobs.batchgate.dev"})'
    until(lambda: watched.value(called), what="for the API server's own count")
    until(lambda: _alarms(watched), lambda found: found == {}, what="for all to be well")
    assert {rule["name"]: rule["health"] for rule in watched.rules()} == {one["alert"]: "ok" for one in alerts()}

    with stack.site.faulty("unreachable=on"):
        words = f"The agent of site {SITE} does not reach its batch system."
        until(lambda: _alarms(watched), lambda found: found == {"BatchgateSiteUnreachable": words}, what="for an alert")
        until(lambda: _any(watched, _expr("Alerts that fire")), what="for the alert to be shown")
        until(lambda: _any(watched, _expr("Commands that failed")), what="for failures to be shown")

    stack.agent.kill()
    words = f"No agent of site {SITE} leads."
    until(lambda: _alarms(watched), lambda found: found == {"BatchgateAgentSilent": words}, what="for an alert")
    stack.let_go(waits)


def test_each_query_that_may_be_empty_is_one_of_a_panel() -> None:
    assert EMPTY.keys() <= {(one.dashboard, one.panel, one.letter) for one in queries()}


def _expr(panel: str) -> str:
    """The first query of the operators' panel of that title."""
    return next(one.expr for one in queries() if (one.dashboard, one.panel) == ("operators", panel))


def _any(watched: Prometheus, expr: str) -> bool:
    """Whether a sample is above 0."""
    return any(float(sample["value"][1]) > 0 for sample in watched.query(expr))


def _alarms(watched: Prometheus) -> dict[str, str]:
    """The alerts that fire, but for those of a busy machine and of steps that were tried again."""
    return {name: words for name, words in watched.firing().items() if name not in PASSING}


def _without_data(watched: Prometheus) -> set[tuple[str, str, str]]:
    """The queries without a sample; each must be one that Prometheus takes."""
    return {(one.dashboard, one.panel, one.letter) for one in queries() if not watched.query(one.expr)}
