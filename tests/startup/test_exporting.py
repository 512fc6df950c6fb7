"""Spans as a collector receives them, and what happens where there is none."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from router import __version__
from router.notation import traces
from router.notation.traces import Place, Span
from router.startup import exporting, tracing
from router.startup.exporting import Traces
from router.startup.logs import LOGGER
from tests.collector import Collector, Received, collector

SERVICE = "batchgate-test"
CALLER = Place("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7")
NOT_SAMPLED = str(CALLER).removesuffix("01") + "00"
T = 1_700_000_000.25


@contextlib.contextmanager
def sending(monkeypatch: pytest.MonkeyPatch, endpoint: str, **variables: str) -> Iterator[Traces]:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, **variables}.items():
        monkeypatch.setenv(name, value)
    before = set(threading.enumerate())
    found = tracing.start(SERVICE, os.environ)
    assert found is not None
    yield found
    found.close()
    # The SDK's threads use the random module, which another test's hypothesis takes for a fault of that test.
    for one in set(threading.enumerate()) - before:
        one.join(60)
        assert not one.is_alive(), one.name


@pytest.fixture
def received() -> Iterator[Collector]:
    with collector() as found:
        yield found


def test_spans_of_a_review_and_of_a_pod_make_one_trace(monkeypatch: pytest.MonkeyPatch, received: Collector) -> None:
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20t0ken"}
    with sending(monkeypatch, received.endpoint, **headers) as sender:
        review = sender.begin("review", "", T, follow=False)
        place = traces.read(review.traceparent)
        assert place is not None
        pod, before, run = (traces.of_pod(place.trace_id, *one) for one in (("u", "pod"), ("v", "pod"), ("u", "run")))
        sender.tell(Span("pod", pod, place, T + 1, T + 9, {"batchgate.site": "hpc"}, (before,), "OOMKilled"))
        sender.tell(Span("run", run, pod, T + 2, T + 8, {"batchgate.exit_code": 137}, error="OOMKilled"))
        review.end({"batchgate.target": "hpc", "batchgate.dry_run": False})

    at, ended = place.trace_id, received.spans[-1].ended
    told = {"batchgate.site": "hpc"}
    assert received.spans == [
        Received(SERVICE, "pod", at, pod.span_id, place.span_id, T + 1, T + 9, told, (before.span_id,), "OOMKilled", 1),
        Received(
            SERVICE, "run", at, run.span_id, pod.span_id, T + 2, T + 8, {"batchgate.exit_code": 137}, (), "OOMKilled", 1
        ),
        Received(
            SERVICE, "review", at, place.span_id, "", T, ended,
            {"batchgate.target": "hpc", "batchgate.dry_run": False}, (), "", 2,
        ),
    ]  # fmt: skip
    assert {one["authorization"] for one in received.headers} == {"Bearer t0ken"}
    assert received.strange == []


@pytest.mark.parametrize(
    ("caller", "follow", "sampler", "expected"),
    [
        # Without follow a caller is linked: it decides neither on the trace nor on sampling.
        (str(CALLER), False, "", ("new", "", (CALLER.span_id,))),
        (NOT_SAMPLED, False, "", ("new", "", (CALLER.span_id,))),
        (str(CALLER), False, "always_off", None),
        (str(CALLER), False, "parentbased_always_off", None),
        ("", False, "", ("new", "", ())),
        ("00-x'; drop", False, "", ("new", "", ())),
        ("x" * 100_000, False, "", ("new", "", ())),
        # With it, a caller's trace goes on, and its sampling with the samplers that are based on the parent.
        (str(CALLER), True, "", (CALLER.trace_id, CALLER.span_id, ())),
        (str(CALLER), True, "parentbased_always_off", (CALLER.trace_id, CALLER.span_id, ())),
        (NOT_SAMPLED, True, "", None),
        (NOT_SAMPLED, True, "always_on", (CALLER.trace_id, CALLER.span_id, ())),
        ("00-x'; drop", True, "", ("new", "", ())),
        ("", True, "", ("new", "", ())),
    ],
)
def test_what_a_caller_decides(
    monkeypatch: pytest.MonkeyPatch,
    received: Collector,
    caller: str,
    follow: bool,
    sampler: str,
    expected: tuple[str, str, tuple[str, ...]] | None,
) -> None:
    variables = {"OTEL_TRACES_SAMPLER": sampler} if sampler else {}
    with sending(monkeypatch, received.endpoint, **variables) as sender:
        span = sender.begin("review", caller, T, follow=follow)
        span.end({})

    found = [(one.trace_id, one.parent_id, one.links) for one in received.spans]
    if expected is None:
        assert (found, span.traceparent) == ([], "")
        return
    ((trace_id, parent, links),) = found
    assert (trace_id if trace_id == CALLER.trace_id else "new", parent, links) == expected
    assert span.traceparent == f"00-{trace_id}-{received.spans[0].span_id}-01"


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, SERVICE),
        ({"OTEL_SERVICE_NAME": "gate"}, "gate"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=gate,deployment.environment=test"}, "gate"),
    ],
)
def test_who_sends(monkeypatch: pytest.MonkeyPatch, received: Collector, variables: dict[str, str], name: str) -> None:
    with sending(monkeypatch, received.endpoint, **variables) as sender:
        sender.begin("review", "", T, follow=False).end({})

    assert [one.service for one in received.spans] == [name]


def test_a_sampler_of_the_agents_does_not_cut_a_trace_that_a_review_began(
    monkeypatch: pytest.MonkeyPatch, received: Collector
) -> None:
    with sending(monkeypatch, received.endpoint, OTEL_TRACES_SAMPLER="always_off") as sender:
        sender.tell(Span("pod", traces.of_pod(CALLER.trace_id, "u", "pod"), CALLER, T, T))

    assert [one.name for one in received.spans] == ["pod"]


@contextlib.contextmanager
def lines() -> Iterator[list[logging.LogRecord]]:
    """What our log gets meanwhile."""
    found: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    logger, kept = logging.getLogger(LOGGER), Kept()
    logger.addHandler(kept)
    yield found
    logger.removeHandler(kept)


@pytest.mark.parametrize("silent", [False, True])
def test_a_collector_that_is_away_holds_nobody_up_and_gets_one_line(
    monkeypatch: pytest.MonkeyPatch, silent: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(exporting, "CLOSE_SECONDS", 0.5)
    small = {"OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4", "OTEL_BSP_SCHEDULE_DELAY": "20"}
    # A port that takes connections and never answers, or one that nobody listens at.
    with socket.create_server(("127.0.0.1", 0)) as listener, lines() as told:
        port = listener.getsockname()[1]
        if not silent:
            listener.close()
        with sending(monkeypatch, f"http://127.0.0.1:{port}", OTEL_EXPORTER_OTLP_TIMEOUT="1", **small) as sender:
            for number in range(200):
                sender.tell(Span("pod", traces.of_pod(CALLER.trace_id, f"{number}", "pod"), CALLER, T, T))
            until = time.monotonic() + 30
            while not told and time.monotonic() < until:
                time.sleep(0.05)

    (one,) = told
    assert (one.levelname, one.getMessage(), one.exc_info) == ("WARNING", "traces are not sent", None)
    assert capfd.readouterr().err == ""


def test_lines_are_a_minute_apart_and_count_what_was_left_out() -> None:
    now = [1000.0]
    handler = exporting._Quiet(lambda: now[0])
    with lines() as told:
        for seconds in (0, 1, 58, 0.9, 0.2, 30):
            now[0] += seconds
            error = ValueError("secret")
            handler.handle(
                logging.LogRecord("o", logging.ERROR, "", 0, "failed\nat %s", ("x" * 1000,), (ValueError, error, None))
            )

    assert [(one.fields["left_out"], len(one.fields["words"])) for one in told] == [(0, 300), (3, 300)]  # type: ignore[attr-defined]
    assert [one.exc_info for one in told] == [None, None]
    assert told[0].fields["words"].startswith("failed at xxx")  # type: ignore[attr-defined]


def test_the_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    assert exporting._resource(SERVICE).attributes["service.version"] == __version__
