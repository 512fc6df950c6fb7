"""A webhook with traces on, and what a collector of them receives; the collector is a fake, its protocol is real."""

from __future__ import annotations

import base64
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonpatch
import pytest

from router import names
from router.notation import traces
from tests.collector import Collector, Received, collector
from tests.webhook.servers import Server, serving
from tests.webhook.test_command import Setup, job, review

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SERVER_SPAN = 2


def sent(server: Server, body: object, **headers: str) -> dict[str, Any]:
    with closing(server.connect()) as connection:
        connection.request("POST", "/mutate", json.dumps(body), {"Content-Type": "application/json", **headers})
        answer: http.client.HTTPResponse = connection.getresponse()
        assert answer.status == 200
        return dict(json.load(answer)["response"])


def annotated(response: dict[str, Any], before: dict[str, Any]) -> traces.Place | None:
    patch = json.loads(base64.b64decode(response["patch"]))
    after = jsonpatch.apply_patch(before, patch)
    return traces.read(after["metadata"]["annotations"].get(names.KEY_TRACEPARENT))


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Setup:
    return Setup(tmp_path_factory.mktemp("webhook"))


@pytest.fixture(scope="module")
def received() -> Iterator[Collector]:
    with collector() as found:
        yield found


def argv(setup: Setup) -> list[str]:
    return ["router", "webhook", *(word for pair in setup.options().items() for word in pair)]


def test_each_new_job_has_a_span_and_updates_have_none(setup: Setup, received: Collector) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": received.endpoint}
    with serving(argv(setup), setup.pki, setup.log, environment) as server:
        large, small = job("4"), job("1")
        hpc = annotated(sent(server, review(large), traceparent=CALLER), large)
        cloud = annotated(sent(server, review(small, dryRun=True)), small)
        sent(server, review(small, operation="UPDATE", oldObject=small))
        sent(server, review({**large, "spec": {}}))  # invalid: a span, and no patch
        assert server.terminate() == 0  # the last spans are sent before it ends

    assert hpc is not None
    assert cloud is not None
    briefs = [(one.name, one.parent_id, one.links, one.kind, one.attributes, one.error) for one in received.spans]
    where = {"k8s.namespace.name": "physics"}
    assert briefs == [
        ("review", "", ("00f067aa0ba902b7",), SERVER_SPAN, {
            **where, "batchgate.target": "hpc", "batchgate.rule": "large", "batchgate.site": "one",
            "batchgate.queue": "batch", "batchgate.dry_run": False,
        }, ""),
        ("review", "", (), SERVER_SPAN, {
            **where, "batchgate.target": "cloud", "batchgate.rule": "rest", "batchgate.dry_run": True
        }, ""),
        ("review", "", (), SERVER_SPAN, {**where, "batchgate.target": "invalid", "batchgate.dry_run": False}, ""),
    ]  # fmt: skip
    assert [traces.Place(one.trace_id, one.span_id) for one in received.spans[:2]] == [hpc, cloud]
    assert {one.service for one in received.spans} == {"batchgate-webhook"}
    assert all(one.began < one.ended < one.began + 60 for one in received.spans)
    assert _plain(received.spans).isdisjoint({"solve", "ada", "busybox:1.36"})


def _plain(spans: list[Received]) -> set[object]:
    return {value for one in spans for value in one.attributes.values()}


def test_without_a_collector_reviews_are_answered_as_ever(setup: Setup) -> None:
    nobody = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_BSP_SCHEDULE_DELAY": "10"}
    with serving(argv(setup), setup.pki, setup.log, nobody) as server:
        answers = [sent(server, review(job()))["allowed"] for _ in range(20)]
        assert server.terminate() == 0

    assert answers == [True] * 20
    assert len(server.logged("traces are not sent")) <= 1
    assert [line for line in server.lines() if "traceback" in line] == []


def test_what_cannot_be_sent_is_said_at_the_start(setup: Setup) -> None:
    run = subprocess.run(
        [sys.executable, "-m", *argv(setup)],
        env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        cwd=Path(__file__).parent.parent.parent,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (run.returncode, run.stdout, run.stderr) == (
        2,
        "",
        "Error: OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; traces are sent by http/protobuf only, mostly at port 4318\n",
    )
