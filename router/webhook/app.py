"""The WSGI app: answers admission reviews, probes and metrics over HTTP.

``router.gate.review`` judges Jobs, ``router.gate.policyreview`` checks the policy. A body that is no review gets 400. An invalid Job gets a well-formed denial
(200). A bug of the webhook is 500, so that its ``failurePolicy`` decides about the Job. Each answer is one line of
JSON.

Werkzeug reads requests and writes answers. There is no framework above it: Flask would take a twentieth of a review's
time to find one of six paths.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from gunicorn.http.errors import ParseException
from werkzeug.exceptions import (
    HTTPException,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
    TooManyRequests,
)
from werkzeug.wrappers import Request, Response

from router.errors import ReviewError
from router.gate import policyreview
from router.webhook import reviewspan
from router.webhook.budget import Crowded, OverBudget
from router.webhook.metrics import CONTENT_TYPE
from router.webhook.service import LARGE_AT_ONCE, SentAnswer, Service

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    View = Callable[[Request], WSGIApplication]

JSON_TYPE: Final = "application/json"
LARGEST_IN_TURN: Final = 256 * 1024
"""The largest review, in bytes, that waits for its turn (``Service.turn``). A larger review has a queue of its own, as
it may take long and must not delay small ones. One large review is processed at a time and two wait; more would take
all time and threads. The next one gets 429 with ``Retry-After``. The API server's client then repeats it
(k8s.io/client-go/rest, up to ten times) within the webhook's ``timeoutSeconds``; after that its ``failurePolicy``
decides.
"""
RETRY_SECONDS: Final = 1
POLICY_WAIT_SECONDS: Final = 2.0
"""How long a review of the policy waits for the one before it; then it gets 429 as well."""
_POLICIES: Final = "another change of the policy is being checked; ask again"
REVIEWS: Final = frozenset({"/mutate", "/policy"})
"""The paths of reviews: of Jobs, and of the ConfigMap with the policy."""

_DRAINED: Final = 4
_KEPT: Final = frozenset({"allow", "retry-after"})


def _no_json(constant: str) -> NoReturn:
    raise ReviewError(f"the body is not JSON: {constant} is no number there")


# json.loads and json.dumps would make a new decoder and encoder for every review.
_DECODER: Final = json.JSONDecoder(parse_constant=_no_json)
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))
_NO_PATCH: Final = '"patch":""'


def create_app(service: Service) -> WSGIApplication:
    """The WSGI app for a service. One process may have several."""
    views = _views(service)

    def app(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = Request(environ)
        response: WSGIApplication
        try:
            response = _view(service, views, request)(request)
        except HTTPException as error:
            response = _refused(service, request, error)
        except ReviewError as error:
            response = _no_review(service, error)
        except Exception as error:  # noqa: BLE001 - one of the two places that catch every exception
            response = _bug(service, error)
        return response(environ, start_response)

    return app


def _views(service: Service) -> dict[str, dict[str, View]]:
    """The views by path and method."""
    read: dict[str, View] = {
        "/livez": lambda _: _json({"alive": service.alive}, 200 if service.alive else 503),
        "/readyz": lambda _: _json(service.status(), 200 if service.ready else 503),
        "/statusz": lambda _: _json(service.status(), 200),
        "/metrics": lambda _: Response(service.exposition(), content_type=CONTENT_TYPE),
    }
    sent: dict[str, View] = {
        "/mutate": partial(_admitted, service, _reviewed),
        "/policy": partial(_admitted, service, _policy_reviewed),
    }
    by_method: dict[str, dict[str, View]] = {path: {"POST": view} for path, view in sent.items()}
    return by_method | {path: {"GET": view, "HEAD": view, "OPTIONS": _options} for path, view in read.items()}


def _view(service: Service, views: Mapping[str, Mapping[str, View]], request: Request) -> View:
    """The view for a request. Raises NotFound, or MethodNotAllowed."""
    path = request.path
    if service.metrics_port is not None:
        here = request.environ["SERVER_PORT"] == str(service.metrics_port)
        if (path in REVIEWS and here) or (path == "/metrics" and not here):
            raise NotFound
    methods = views.get(path)
    if methods is None:
        raise NotFound
    view = methods.get(request.method)
    if view is None:
        raise MethodNotAllowed(valid_methods=[*methods])
    return view


def _options(_: Request) -> Response:
    response = Response(mimetype="text/html")  # it has no content
    response.allow.update(("GET", "HEAD", "OPTIONS"))
    return response


def _refused(service: Service, request: Request, error: HTTPException) -> Response:
    code = error.code or 500
    if code in (401, 403, 413):
        _drain(request, service.body_limit)
    if code in (401, 403):
        fields = {"client": request.remote_addr, "error": error.description}
        service.log.warning("refused a client", extra={"fields": fields})
    service.metrics.refused.labels(code=str(code)).inc()
    answer = _json({"error": _sentence(error, request, service)}, code)
    for name, value in error.get_headers():
        if name.lower() in _KEPT:
            answer.headers[name] = value
    return answer


def _no_review(service: Service, error: ReviewError) -> Response:
    service.metrics.refused.labels(code="400").inc()
    service.log.warning("refused a review", extra={"fields": {"error": str(error)}})
    return _json({"error": str(error)}, 400)


def _bug(service: Service, error: Exception) -> Response:
    """The answer to a review that met a bug.

    The body goes to the API server's log and to users, so it holds only a number, by which the traceback is found in
    the log.
    """
    number = secrets.token_hex(4)
    service.metrics.refused.labels(code="500").inc()
    service.log.error("a bug in Batchgate", exc_info=error, extra={"fields": {"bug": number}})
    return _json({"error": f"Batchgate failed on this review; its log tells more under bug={number}"}, 500)


def _admitted(
    service: Service, answer: Callable[[Service, Request], WSGIApplication], request: Request
) -> WSGIApplication:
    """The answer to a review, for a client that may send one."""
    if service.clients is not None:
        sock = request.environ.get("gunicorn.socket")
        service.clients.demand(None if sock is None else sock.getpeercert())
    with service.metrics.in_flight.track_inprogress():
        return answer(service, request)


def _reviewed(service: Service, request: Request) -> WSGIApplication:
    started = time.perf_counter()
    if request.mimetype != JSON_TYPE:
        return _unsupported(service, request)
    body = _body(request, service.body_limit)
    with _turn(service, len(body)) as slowed:
        answer = _traced(service, request, _parsed(body), slowed, started)
        written = _written(answer.response)
        seconds = time.perf_counter() - started
        _count(service, answer.record, seconds)
        service.log.info("decision", extra={"fields": {**answer.record, "ms": round(seconds * 1000, 2)}})
        service.keep(answer, len(body))
    return _sent(written)


def _policy_reviewed(service: Service, request: Request) -> Response:
    started = time.perf_counter()
    if request.mimetype != JSON_TYPE:
        return _unsupported(service, request)
    body = _body(request, service.body_limit)
    with _policy_turn(service):
        review = _parsed(body)
        try:
            answer = service.policy_budget.spend(lambda: policyreview.review(review), lambda: True)
        except OverBudget as error:
            answer = policyreview.over_budget(review, error.seconds)
    service.metrics.policy_reviews.labels(allowed="true" if answer.record["allowed"] else "false").inc()
    seconds = time.perf_counter() - started
    service.log.info("policy review", extra={"fields": {**answer.record, "ms": round(seconds * 1000, 2)}})
    return _json(answer.response, 200)


def _traced(
    service: Service, request: Request, review: object, slowed: Callable[[], bool], started: float
) -> SentAnswer:
    """The answer to a review, with a span if it is about a new Job and traces are on."""
    if service.trace is None or not reviewspan.wanted(review):
        return _answer(service, review, slowed, "")
    arrived = time.time() - (time.perf_counter() - started)
    span = service.trace(request.headers.get("traceparent", ""), arrived)
    record: Mapping[str, Any] | None = None
    try:
        answer = _answer(service, review, slowed, span.traceparent)
        record = answer.record
    finally:
        span.end(*reviewspan.told(record))
    return answer


def _answer(service: Service, review: object, slowed: Callable[[], bool], traceparent: str) -> SentAnswer:
    try:
        return service.budget.spend(lambda: service.review(review, traceparent), slowed)
    except Crowded:
        raise _no_place("takes long") from None
    except OverBudget as error:
        place = error.place
        answer = service.over_budget(review, place.step, place.field, error.seconds)
        service.metrics.over_budget.inc()
        told = {**answer.record, "step": place.step, "field": place.field, "cpu": error.seconds}
        service.log.warning("a review over its budget", extra={"fields": told})
        return answer


@contextlib.contextmanager
def _turn(service: Service, size: int) -> Iterator[Callable[[], bool]]:
    """A review's turn. Yields a function to call when the review takes long: it then counts as large. The function
    returns False if there is no place for a further large review.
    """
    if size <= LARGEST_IN_TURN:
        holding = [service.turn.release]
        service.turn.acquire()

        def slowed() -> bool:
            if not service.large_places.acquire(blocking=False):
                return False
            service.turn.release()
            holding[0] = service.large_places.release
            return True

        try:
            yield slowed
        finally:
            holding[0]()
        return
    if not service.large_places.acquire(blocking=False):
        raise _no_place(f"is larger than {LARGEST_IN_TURN // 1024} KiB")
    try:
        with service.large_turn:
            yield lambda: True
    finally:
        service.large_places.release()


@contextlib.contextmanager
def _policy_turn(service: Service) -> Iterator[None]:
    """The turn of a review of the policy: beside those of Jobs, one after the other. A second one waits briefly."""
    with contextlib.ExitStack() as held:
        if not service.policy_places.acquire(blocking=False):
            raise TooManyRequests(_POLICIES, retry_after=RETRY_SECONDS)
        held.callback(service.policy_places.release)
        if not service.policy_turn.acquire(timeout=POLICY_WAIT_SECONDS):
            raise TooManyRequests(_POLICIES, retry_after=RETRY_SECONDS)
        held.callback(service.policy_turn.release)
        yield


def _no_place(why: str) -> TooManyRequests:
    sentence = f"this review {why}, and {LARGE_AT_ONCE} that are large or take long are in hand already; ask again"
    return TooManyRequests(sentence, retry_after=RETRY_SECONDS)


def _written(review: Mapping[str, Any]) -> str:
    """An AdmissionReview as JSON.

    The base64 patch is longer than all the rest and has no characters that JSON escapes. So it is inserted unchanged:
    a search for such characters would cost as much as the decision.
    """
    patch = review["response"].get("patch")
    if not patch:
        return _ENCODER.encode(review)
    # A user's text cannot contain this, as a quote inside a JSON string has a backslash before it.
    rest = _ENCODER.encode({**review, "response": {**review["response"], "patch": ""}})
    before, place, after = rest.partition(_NO_PATCH)
    assert place  # noqa: S101 - it was just written
    return f'{before}"patch":"{patch}"{after}'


def _sent(review: str) -> WSGIApplication:
    """An answer with a review. Werkzeug's Response would take four times as long for these two headers."""
    body = review.encode()
    headers = [("Content-Type", JSON_TYPE), ("Content-Length", str(len(body)))]

    def answer(_environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        start_response("200 OK", headers)
        return [body]

    return answer


def _unsupported(service: Service, request: Request) -> Response:
    service.metrics.refused.labels(code="415").inc()
    return _json({"error": f"content type {request.mimetype or '(none)'!r}; reviews are {JSON_TYPE}"}, 415)


def _body(request: Request, limit: int) -> bytes:
    # Werkzeug's get_data would silently cut a chunked body that is too large.
    if (request.content_length or 0) > limit:
        raise RequestEntityTooLarge
    try:
        body: bytes = request.environ["wsgi.input"].read(limit + 1)
    except (OSError, ParseException) as error:
        raise ReviewError(f"the body broke off: {error}") from None
    if len(body) > limit:
        raise RequestEntityTooLarge
    return body


def _drain(request: Request, limit: int) -> None:
    # A client that writes its whole body before it reads would otherwise see a broken connection instead of the error.
    # So some of the body is read and dropped; the worker's time limit bounds the rest.
    body, left = request.environ["wsgi.input"], _DRAINED * limit
    with contextlib.suppress(OSError, ParseException):
        while left > 0 and (chunk := body.read(65536)):
            left -= len(chunk)


def _parsed(body: bytes) -> object:
    try:
        return _DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ReviewError(f"the body is not UTF-8: byte {error.start} is no part of it") from None
    except json.JSONDecodeError as error:
        raise ReviewError(f"the body is not JSON: {error.msg} at line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise ReviewError("the body is nested too deep to be a review") from None
    except ValueError as error:
        # Python refuses integers of more than 4300 digits; json raises its ValueError.
        raise ReviewError(f"the body is not JSON that we read: {error}") from None


def _count(service: Service, record: Mapping[str, Any], seconds: float) -> None:
    metrics = service.metrics
    metrics.seconds.observe(seconds)
    dry_run = "true" if record.get("dry_run") else "false"
    metrics.decisions.labels(str(record.get("target")), str(record.get("rule") or ""), dry_run).inc()
    for rule in record.get("audited", ()):
        metrics.audits.labels(str(rule)).inc()


def _sentence(error: HTTPException, request: Request, service: Service) -> str:
    sentences = {
        404: "no such path; reviews go to POST /mutate",
        405: f"{request.method} is not answered here; reviews are sent with POST to /mutate",
        413: f"the body is larger than {service.body_limit} bytes, the most that is read of a review",
    }
    return sentences.get(error.code or 500, (error.description or "").partition("\n")[0])


def _json(value: Mapping[str, Any], code: int) -> Response:
    return Response(json.dumps(value) + "\n", status=code, content_type=JSON_TYPE)
