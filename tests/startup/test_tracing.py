"""Whether traces are wanted, by OpenTelemetry's variables; and what a process without them has of OpenTelemetry: nothing."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from router.errors import ConfigError
from router.pod.status import FAILED
from router.reconcile.spans import spans
from router.startup import tracing
from router.webhook import reviewspan
from tests.reconcile.given import PLAIN, facts, job, over

HTTP = "http://collector:4318"
BASE, OWN = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({BASE: ""}, False),
        ({BASE: "  "}, False),
        ({BASE: HTTP}, True),
        ({OWN: f"{HTTP}/v1/traces"}, True),
        ({BASE: "https://collector", "OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({BASE: HTTP, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({BASE: "collector:4317", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({BASE: HTTP, "OTEL_SDK_DISABLED": "true"}, False),
        ({BASE: HTTP, "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({BASE: HTTP, "OTEL_SDK_DISABLED": "1"}, True),
        ({BASE: HTTP, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x=, a-b = c,"}, True),
        ({BASE: HTTP, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, True),
        ({BASE: HTTP, "OTEL_TRACES_SAMPLER": "always_on", "OTEL_TRACES_SAMPLER_ARG": "unused"}, True),
        ({BASE: HTTP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        (
            {
                BASE: HTTP,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            True,
        ),
    ],
)
def test_an_endpoint_turns_traces_on(variables: dict[str, str], expected: bool) -> None:
    assert tracing.wanted(variables) is expected


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {BASE: HTTP, "OTEL_TRACES_EXPORTER": "console"},
            "OTEL_TRACES_EXPORTER is 'console'; traces are sent by otlp only, and none turns them off",
        ),
        (
            {BASE: HTTP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL is 'grpc'; traces are sent by http/protobuf only, mostly at port 4318",
        ),
        (
            {BASE: "user:secret@collector:4317"},
            f"{BASE} is 'collector:4317'; it must begin with http:// or https://",
        ),
        (
            {BASE: HTTP, "OTEL_EXPORTER_OTLP_HEADERS": "Authorization: Bearer s3cr3t"},
            "OTEL_EXPORTER_OTLP_HEADERS must be NAME=VALUE,NAME=VALUE, with blanks in a value as %20",
        ),
        (
            {BASE: HTTP, "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b,s3cr3t"},
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS must be NAME=VALUE,NAME=VALUE, with blanks in a value as %20",
        ),
        (
            {BASE: HTTP, "OTEL_TRACES_SAMPLER": "parentbased_ratio", "OTEL_TRACES_SAMPLER_ARG": "0.01"},
            f"OTEL_TRACES_SAMPLER is 'parentbased_ratio'; it must be one of {', '.join(tracing.SAMPLERS)}",
        ),
        (
            {BASE: HTTP, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1%"},
            "OTEL_TRACES_SAMPLER_ARG is '1%'; it must be a number from 0 to 1",
        ),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_served(variables: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        tracing.check(variables)

    assert str(caught.value) == message


def test_traces_without_opentelemetry_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec

    def without(name: str) -> ModuleSpec | None:
        if name.startswith("opentelemetry.sdk"):
            raise ModuleNotFoundError(name)
        return found(name)

    monkeypatch.setattr(importlib.util, "find_spec", without)

    with pytest.raises(ConfigError) as caught:
        tracing.start("batchgate-webhook", {BASE: HTTP})

    assert str(caught.value) == (
        f"traces are wanted, as {OWN} or {BASE} is set, but opentelemetry.sdk is not installed; "
        "install batchgate[tracing], or set OTEL_SDK_DISABLED=true"
    )


OFF = """
import os, sys, threading
import router.webhook.loading, router.agent.leader.program, router.cli
from router.startup import tracing
before = threading.active_count()
print(tracing.start("batchgate-webhook", os.environ), threading.active_count() - before)
print(sorted(name for name in sys.modules if name.partition(".")[0] == "opentelemetry"))
"""


def test_without_an_endpoint_nothing_of_opentelemetry_is_imported_and_no_thread_begins() -> None:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}

    run = subprocess.run([sys.executable, "-c", OFF], env=clean, capture_output=True, text=True, check=True)

    assert run.stdout == "None 0\n[]\n"


def test_a_value_that_the_sdk_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BASE, HTTP)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    before = threading.active_count()

    with pytest.raises(ConfigError, match=r"a variable OTEL_… has a wrong value: max_queue_size must be a positive"):
        tracing.start("batchgate-webhook", os.environ)

    assert threading.active_count() == before


def test_the_page_names_each_span_and_attribute_and_variable() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "tracing.md").read_text()
    rows = [line for line in page.partition("## What a trace shows")[2].splitlines() if line.startswith("| `")]
    attributes = set(re.findall(r"`((?:batchgate|k8s)\.[a-z_.]+)`", page.partition("## Where the id stands")[0]))
    status = replace(PLAIN.status, phase=FAILED, started=1)
    pod = replace(PLAIN, status=status, trace=f"00-{'1' * 32}-{'2' * 16}-01")
    told = spans(facts(pod, job(over(submitted=1))), (), 9)
    of_reviews = reviewspan.told(dict.fromkeys(("namespace", "target", "rule", "site", "queue", "dry_run"), "x"))[0]

    assert [line.split("`")[1] for line in rows] == [reviewspan.NAME, *(one.name for one in told)]
    assert attributes == {name for one in told for name in one.attributes} | set(of_reviews)
    assert [name for name in (*tracing.ENDPOINTS, tracing.EXPORTER, tracing.DISABLED) if name not in page] == []
