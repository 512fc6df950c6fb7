"""The state of queues on its way from the batch system into the webhook: by the programs themselves."""

from __future__ import annotations

import json
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from router import names
from tests.agent.whole.site import NARROW, SITE, WIDE
from tests.agent.whole.stack import Stack
from tests.agent.whole.waiting import until

pytestmark = pytest.mark.timeout(600)


def published(stack: Stack) -> dict[str, Any]:
    """The site's document; empty where there is none."""
    found = stack.admin.elsewhere(names.SYSTEM_NAMESPACE).get("configmap", names.QUEUES_CONFIG_MAP)
    read: dict[str, Any] = json.loads(((found or {}).get("data") or {}).get(f"{SITE}.json", "{}"))
    return read


def metric(stack: Stack, name: str) -> float:
    """One of the webhook's figures."""
    argv = list(stack.webhook.argv)
    (address,) = {
        json.loads(line)["address"] for line in stack.webhook.log.read_text().splitlines() if "listening" in line
    }
    ca = Path(argv[argv.index("--cert") + 1]).parent / "ca.crt"
    url = f"https://localhost:{address.rpartition(':')[2]}/metrics"
    with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=str(ca)), timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"{name} ")))


def test_the_webhook_knows_the_queues_of_a_running_agent(stack: Stack) -> None:
    document = until(lambda: published(stack), what="for the state of the queues")

    assert [(one["site"], one["queue"], one["up"]) for one in document["queues"]] == [
        (SITE, WIDE, True),
        (SITE, NARROW, True),
    ]
    assert all({"freeNodes", "queuedJobs", "runningJobs"} <= one.keys() for one in document["queues"])
    until(lambda: metric(stack, "batchgate_queue_states"), lambda count: count == 2, what="for the webhook to know")
    assert metric(stack, 'batchgate_source_broken{source="queues"}') == 0
