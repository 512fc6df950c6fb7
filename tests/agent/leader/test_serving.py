"""Probes and metrics over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from router.agent.leader import serving
from router.agent.leader.serving import verdict
from router.agent.metrics import Metrics
from router.errors import ConfigError
from router.startup.settings import Address


class World:
    """What probes are told."""

    problem = ""


@pytest.fixture
def served() -> Iterator[tuple[str, World, Metrics]]:
    world, metrics = World(), Metrics()
    server = serving.serve(
        Address("127.0.0.1", 0),
        live=lambda: verdict(world.problem),
        ready=lambda: verdict("", leading=True),
        metrics=metrics.text,
    )
    yield f"http://127.0.0.1:{server.server_address[1]}", world, metrics
    server.shutdown()
    server.server_close()


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_probes(served: tuple[str, World, Metrics]) -> None:
    url, world, _ = served

    assert get(f"{url}/livez") == (200, '{"ok": true}\n')
    assert json.loads(get(f"{url}/readyz?verbose")[1]) == {"ok": True, "leading": True}
    world.problem = "ended: observer"
    code, text = get(f"{url}/livez")
    assert (code, json.loads(text)) == (503, {"ok": False, "problem": "ended: observer"})
    assert get(f"{url}/")[0] == 404


def test_metrics(served: tuple[str, World, Metrics]) -> None:
    url, _, metrics = served
    metrics.commands.labels("list", "ok").inc()
    metrics.show(lambda: {"Running": 3}, lambda: {"pods": 1.5})

    code, text = get(f"{url}/metrics")

    assert code == 200
    for line in (
        'batchgate_agent_commands_total{kind="list",outcome="ok"} 1.0',
        'batchgate_agent_jobs{state="Running"} 3.0',
        'batchgate_agent_informer_age_seconds{of="pods"} 1.5',
        "batchgate_agent_leading 0.0",
    ):
        assert line in text.splitlines()


def test_a_port_that_is_taken_is_one_sentence(served: tuple[str, World, Metrics]) -> None:
    port = int(served[0].rpartition(":")[2])

    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another --metrics"):
        serving.serve(
            Address("127.0.0.1", port), live=lambda: verdict(""), ready=lambda: verdict(""), metrics=lambda: b""
        )
