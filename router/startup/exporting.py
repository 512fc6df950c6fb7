"""Sends spans with OpenTelemetry's SDK: a queue in memory, one thread, OTLP over HTTP.

Shell (a thread, the network). Imported only where traces are on. Whoever ends a span only puts it into the queue: reviews and
agents never wait for a collector. If the queue is full, spans are dropped. OpenTelemetry's own log
lines become one line a minute at most of ours, without tracebacks.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_SCHEDULE_DELAY
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from router import __version__
from router.errors import ConfigError
from router.notation.traces import Place, Span
from router.startup.logs import LOGGER

QUIET_SECONDS: Final = 60.0
"""Time between two lines about spans that cannot be sent."""
CLOSE_SECONDS: Final = 3.0
"""Most time that a process which ends waits for its last spans to be sent."""
DELAY_SECONDS: Final = 1.0
"""How long a span waits in memory, where no variable says otherwise: shorter than the SDK's five seconds, as a process
that is killed loses what waits."""
_LONGEST_WORDS: Final = 300
_LONGEST_VALUE: Final = 1024
_SENDS: Final = ("opentelemetry.exporter", "opentelemetry.sdk.trace.export", "opentelemetry.sdk._shared_internal")
_READS_HEADERS: Final = "opentelemetry.util"
"""Logs a header whole that it does not understand: its value may be a token."""
_SCOPE: Final = "batchgate"
_PROPAGATOR: Final = TraceContextTextMapPropagator()

Attributes = Mapping[str, str | int | bool]


class Traces:
    """What sends the spans of one process. All methods but ``close`` return at once, and may be called by any thread.

    :param service: the ``service.name``, where no variable gives another
    :raises ConfigError: a variable of OpenTelemetry's has a value that its SDK refuses
    """

    def __init__(self, service: str) -> None:
        _quiet()
        self._ids = _Ids()
        resource = _resource(service)
        try:
            delay = None if OTEL_BSP_SCHEDULE_DELAY in os.environ else DELAY_SECONDS * 1000
            processor = BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay)
            self._provider = _provider(resource, processor, None, None)
            self._ended = _provider(resource, processor, ParentBased(ALWAYS_ON), self._ids)
        except ValueError as error:
            raise ConfigError(f"traces cannot be sent: a variable OTEL_… has a wrong value: {error}") from None
        self._tracer = self._provider.get_tracer(_SCOPE, __version__)
        self._telling = self._ended.get_tracer(_SCOPE, __version__)

    def begin(self, name: str, caller: str, began: float, *, follow: bool) -> ReviewSpan:
        """Begin a span of a server; whether it is sampled is up to ``OTEL_TRACES_SAMPLER``.

        :param caller: the ``traceparent`` of the request; may be anything
        :param began: seconds since 1970
        :param follow: whether the caller's span becomes its parent and decides on sampling; else it is only linked
        """
        found = trace.get_current_span(_PROPAGATOR.extract({"traceparent": caller}, Context())).get_span_context()
        theirs = _without_state(found) if found.is_valid else None
        parent = trace.set_span_in_context(trace.NonRecordingSpan(theirs), Context()) if theirs else Context()
        return ReviewSpan(
            self._tracer.start_span(
                name,
                context=parent if follow else Context(),
                kind=trace.SpanKind.SERVER,
                links=() if follow or theirs is None else (trace.Link(theirs),),
                start_time=_moment(began),
            )
        )

    def tell(self, span: Span) -> None:
        """Send a span that has ended, with the ids that it has."""
        above = trace.set_span_in_context(trace.NonRecordingSpan(_context(span.parent)), Context())
        self._ids.span_id = int(span.place.span_id, 16)
        made = self._telling.start_span(
            span.name,
            context=above,
            attributes=span.attributes,
            links=[trace.Link(_context(one)) for one in span.links],
            start_time=_moment(span.began),
        )
        if span.error:
            made.set_status(trace.StatusCode.ERROR, span.error)
        made.end(_moment(span.ended))

    def close(self) -> None:
        """Send what waits, for ``CLOSE_SECONDS`` at most, and end."""
        # The SDK's own limit is 30 seconds: a Pod that ends would not have these for a collector that is away.
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)


class ReviewSpan:
    """A span that has begun."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        context = span.get_span_context()
        sampled = context.is_valid and context.trace_flags.sampled
        self.traceparent = str(_place(context)) if sampled else ""
        """Its place for the Job's annotation; empty if it is not sampled."""

    def end(self, attributes: Attributes, error: str = "") -> None:
        """End it.

        :param error: why the work failed; empty if it did not
        """
        self._span.set_attributes(attributes)
        if error:
            self._span.set_status(trace.StatusCode.ERROR, error)
        self._span.end()


class _Ids(RandomIdGenerator, threading.local):
    """Gives a span the id that it must have, which its thread has set before."""

    span_id = 0

    def generate_span_id(self) -> int:
        return self.span_id


class _Quiet(logging.Handler):
    """Makes one line a minute of what OpenTelemetry logs, and counts the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._clock = clock
        self._next = 0.0
        self._left_out = 0

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        if now < self._next:
            self._left_out += 1
            return
        self._next = now + QUIET_SECONDS
        words = "".join([one if one.isprintable() else " " for one in record.getMessage()])[:_LONGEST_WORDS]
        if record.name.startswith(_READS_HEADERS):
            words = "a variable of OpenTelemetry's has a wrong value"
        fields = {"words": words, "left_out": self._left_out}
        self._left_out = 0
        said = "traces are not sent" if record.name.startswith(_SENDS) else "OpenTelemetry says"
        logging.getLogger(LOGGER).warning(said, extra={"fields": fields})


def _quiet() -> None:
    logger = logging.getLogger("opentelemetry")
    logger.handlers = [_Quiet()]
    logger.propagate = False


def _provider(
    resource: Resource, processor: BatchSpanProcessor, sampler: Sampler | None, ids: IdGenerator | None
) -> TracerProvider:
    limits = SpanLimits(max_attribute_length=_LONGEST_VALUE)
    # shutdown_on_exit would wait for a collector that is away.
    found = TracerProvider(sampler, resource, shutdown_on_exit=False, id_generator=ids, span_limits=limits)
    found.add_span_processor(processor)
    return found


def _resource(service: str) -> Resource:
    """Who sends: the name is that of the variables, if they give one."""
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    own = {} if named else {SERVICE_NAME: service}
    return Resource.create({**own, SERVICE_VERSION: __version__})


def _moment(seconds: float) -> int:
    """Nanoseconds since 1970, in whole microseconds, as a float holds no more."""
    return round(seconds * 1_000_000) * 1000


def _context(place: Place) -> trace.SpanContext:
    sampled = trace.TraceFlags(trace.TraceFlags.SAMPLED)
    return trace.SpanContext(int(place.trace_id, 16), int(place.span_id, 16), is_remote=True, trace_flags=sampled)


def _place(context: trace.SpanContext) -> Place:
    return Place(trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id))


def _without_state(context: trace.SpanContext) -> trace.SpanContext:
    """The caller's context without its ``tracestate``: text of others, which would go on to the collector."""
    return trace.SpanContext(context.trace_id, context.span_id, is_remote=True, trace_flags=context.trace_flags)
