"""Requests to a real API server; servers that answer wrongly are sockets that do so."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
import urllib3

from router.controlplane.plane import ControlPlane
from router.kube.client import (
    JSON_PATCH,
    STRATEGIC,
    Api,
    ApiError,
    ApiUnavailable,
    Conflict,
    Gone,
    NotFound,
    connect,
)
from router.kube.credentials import Access
from tests.kube.wire import Wire


def config_map(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


@pytest.fixture
def path(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


def test_an_object_is_made_read_changed_and_deleted(api: Api, path: str) -> None:
    made = api.create(path, config_map("a", x="1"))
    assert (made["kind"], made["data"]) == ("ConfigMap", {"x": "1"})

    assert api.get(f"{path}/a")["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.replace(f"{path}/a", {**made, "data": {"x": "2"}})["data"] == {"x": "2"}
    assert api.patch(f"{path}/a", {"data": {"y": "3"}})["data"] == {"x": "2", "y": "3"}
    assert api.patch(f"{path}/a", {"data": {"x": None}}, STRATEGIC)["data"] == {"y": "3"}
    assert api.patch(f"{path}/a", [{"op": "replace", "path": "/data/y", "value": "4"}], JSON_PATCH)["data"]["y"] == "4"

    api.delete(f"{path}/a", uid=made["metadata"]["uid"])
    assert api.find(f"{path}/a") is None


def test_a_refusal_has_the_class_and_the_words_of_its_kind(api: Api, path: str) -> None:
    made = api.create(path, config_map("a"))
    stale = {**made, "data": {"x": "1"}}
    api.replace(f"{path}/a", stale)

    assert refusal(lambda: api.get(f"{path}/none")) == (NotFound, 404, "NotFound", 'configmaps "none" not found')
    assert refusal(lambda: api.create(path, config_map("a"))) == (
        Conflict,
        409,
        "AlreadyExists",
        'configmaps "a" already exists',
    )
    assert refusal(lambda: api.replace(f"{path}/a", stale))[:3] == (Conflict, 409, "Conflict")
    assert refusal(lambda: api.delete(f"{path}/a", uid="another"))[:3] == (Conflict, 409, "Conflict")
    kind, status, reason, words = refusal(lambda: api.create(path, config_map("Not A Name")))
    assert (kind, status, reason) == (ApiError, 422, "Invalid")
    assert "metadata.name" in words


def refusal(request: Callable[[], object]) -> tuple[type[ApiError], int, str, str]:
    with pytest.raises(ApiError) as caught:
        request()
    return type(caught.value), caught.value.status, caught.value.reason, caught.value.message


def test_what_may_not_be_asked_is_not_asked_again(plane: ControlPlane, path: str) -> None:
    eve = connect(str(plane.kubeconfig("eve")))

    kind, status, reason, words = refusal(lambda: eve.get(path))

    assert (kind, status, reason) == (ApiError, 403, "Forbidden")
    assert 'User "eve" cannot list resource "configmaps"' in words


@pytest.mark.parametrize(
    "name",
    [
        "../secrets/own",
        "../../../victim/secrets/own",
        ".",
        "..",
        "",
        "own?x=1",
        "own#x",
        "%2e%2e",
        "a b",
        "a\\\\b",
        "own/",
        "ö",
    ],
)
def test_a_name_that_would_be_another_path_is_not_there(api: Api, path: str, name: str) -> None:
    namespace = path.rsplit("/", 1)[0]
    with contextlib.suppress(Conflict):
        api.create(f"{namespace}/secrets", {"metadata": {"name": "own"}})
        api.create(path, config_map("own"))

    assert api.find(f"{path}/{name}") is None


def test_an_error_says_what_was_asked_and_what_was_answered(api: Api, path: str) -> None:
    with pytest.raises(NotFound) as caught:
        api.get(f"{path}/none")

    assert str(caught.value) == f'GET {path}/none: configmaps "none" not found (404 NotFound)'


def test_lists_come_in_pages_of_one_moment(api: Api, path: str) -> None:
    for name in "abcde":
        api.create(path, {"metadata": {"name": name, "labels": {"kept": "yes"}}})

    pages = api.pages(path, limit=2, labelSelector="kept=yes")
    first, version = next(pages)
    api.create(path, {"metadata": {"name": "f", "labels": {"kept": "yes"}}})
    rest = list(pages)

    assert [[one["metadata"]["name"] for one in page] for page in (first, *(page for page, _ in rest))] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]
    assert {version, *(other for _, other in rest)} == {version}


def test_pages_of_a_list_of_large_objects_are_small(api: Api, path: str) -> None:
    """An Event with 50,000 annotations is 1.2 MB, and of 500 in a page nobody's memory would be large enough."""
    for number in range(12):
        made = config_map(f"large-{number:02}", x="x" * 900_000)
        api.create(path, {**made, "metadata": {"name": f"large-{number:02}", "labels": {"large": "yes"}}})

    tracemalloc.start()
    pages = [[one["metadata"]["name"] for one in page] for page, _ in api.pages(path, labelSelector="large=yes")]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [name for page in pages for name in page] == [f"large-{number:02}" for number in range(12)]
    # Four of 0.9 MB fit, and the next size would be asked for in vain.
    assert [len(page) for page in pages] == [1, 2, 4, 4, 1]
    assert most < 3 * 4 * 1024 * 1024


def test_a_list_without_objects_is_one_empty_page(api: Api, path: str) -> None:
    pages = list(api.pages(path, labelSelector="nobody=has"))

    assert [page for page, _ in pages] == [[]]
    assert pages[0][1].isdigit()


def test_a_watch_shows_what_happened_after_a_version_and_ends_in_time(api: Api, path: str) -> None:
    _, version = next(api.pages(path))
    made = api.create(path, config_map("a", x="1"))
    api.patch(f"{path}/a", {"data": {"x": "2"}})
    api.delete(f"{path}/a")

    events = [event for event in api.watch(path, version, seconds=5) if event["type"] != "BOOKMARK"]

    assert [(event["type"], event["object"]["data"]) for event in events] == [
        ("ADDED", {"x": "1"}),
        ("MODIFIED", {"x": "2"}),
        ("DELETED", {"x": "2"}),
    ]
    assert {event["object"]["metadata"]["uid"] for event in events} == {made["metadata"]["uid"]}


def test_closing_a_watch_wakes_its_reader(api: Api, path: str) -> None:
    _, version = next(api.pages(path))
    for _ in range(20):
        stream = api.watch(path, version, seconds=600)
        events: list[object] = []
        reader = threading.Thread(target=lambda stream=stream, events=events: events.extend(stream))
        reader.start()
        stream.close()
        stream.close()
        reader.join(30)

        assert not reader.is_alive()
        assert events == []


def test_a_closed_watch_shows_nothing(api: Api, path: str) -> None:
    stream = api.watch(path, next(api.pages(path))[1], seconds=600)
    stream.close()

    assert list(stream) == []


def test_a_watch_that_is_cut_in_the_middle_of_an_event_says_so(wired: tuple[Wire, Api], path: str) -> None:
    wire, api = wired
    _, version = next(api.pages(path))
    api.create(path, config_map("large", x="x" * 500_000))  # many records of TLS
    wire.cut()
    wire.cut_after = 100_000

    with pytest.raises(ApiUnavailable, match="the watch was cut") as caught:
        list(api.watch(path, version, seconds=60))

    assert (caught.value.status, caught.value.retry_after) == (0, None)


def test_reading_is_repeated_where_an_idle_connection_was_cut(wired: tuple[Wire, Api], path: str) -> None:
    wire, api = wired
    api.get(path)
    wire.cut()

    assert api.get(path)["kind"] == "ConfigMapList"


def test_a_server_that_is_silent_is_given_up_in_time(wired: tuple[Wire, Api], path: str) -> None:
    wire, api = wired
    api.get(path)
    wire.stop()

    with pytest.raises(ApiUnavailable, match="timed out"):
        api.get(path, seconds=0.2)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    api = plain(port)

    with pytest.raises(ApiUnavailable) as caught:
        api.get("/version")

    assert caught.value.status == 0
    assert "refused" in str(caught.value)
    assert "0x" not in str(caught.value)


def test_threads_share_a_client(api: Api, path: str) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(10):
                api.create(path, config_map(f"thread-{number}", n=str(number)))
                assert api.get(f"{path}/thread-{number}")["data"] == {"n": str(number)}
                api.delete(f"{path}/thread-{number}")
        except (ApiError, AssertionError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)

    assert failures == []


# --- answers that no API server gives by itself ------------------------------------------------------------------


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """A port where every connection gets these bytes and is closed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, contextlib.suppress(OSError):
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


def plain(port: int) -> Api:
    return Api(lambda: Access(f"http://127.0.0.1:{port}", urllib3.PoolManager(), lambda: None))


def http_answer(status: str, body: bytes, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def chunked(*chunks: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


BUSY = (
    b'{"kind":"Status","reason":"TooManyRequests","message":"slow down","details":{"retryAfterSeconds":3},"code":429}'
)
EVENT = b'{"type":"ADDED","object":{"metadata":{"resourceVersion":"7"}}}\n'
OLD = (
    b'{"type":"ERROR","object":{"kind":"Status","reason":"Expired","message":"too old resource version","code":410}}\n'
)


@pytest.mark.parametrize(
    ("answer", "kind", "status", "words", "after"),
    [
        (http_answer("429 Busy", BUSY), ApiUnavailable, 429, "slow down", 3),
        (http_answer("429 Busy", BUSY, "Retry-After: 7"), ApiUnavailable, 429, "slow down", 7),
        (http_answer("503 No", b"maintenance", "Retry-After: 3600"), ApiUnavailable, 503, "maintenance", 60),
        (http_answer("500 Oops", b"apiserver panic'd"), ApiUnavailable, 500, "apiserver panic'd", None),
        (http_answer("503 No", b"<html>\n no  upstream</html>"), ApiUnavailable, 503, "no upstream", None),
        (http_answer("504 No", b'["no object"]'), ApiUnavailable, 504, "no object", None),
        (http_answer("410 Gone", b'{"reason":"Expired","message":"old"}'), Gone, 410, "old", None),
        (http_answer("302 Found", b"", "Location: http://127.0.0.1:1/"), ApiError, 302, "no message", None),
        (http_answer("200 OK", b"<html>log in</html>"), ApiUnavailable, 0, "a proxy in between", None),
        (http_answer("200 OK", b"[]"), ApiUnavailable, 0, "a proxy in between", None),
        (http_answer("200 OK", b"{}")[:-1], ApiUnavailable, 0, "IncompleteRead", None),
        (b"SSH-2.0-OpenSSH\r\n", ApiUnavailable, 0, "", None),
        (b"", ApiUnavailable, 0, "", None),
    ],
)
def test_any_answer_becomes_one_of_our_errors(
    answer: bytes, kind: type[ApiError], status: int, words: str, after: float | None
) -> None:
    with answering(answer) as port, pytest.raises(ApiError) as caught:
        plain(port).get("/version")

    error = caught.value
    assert (type(error), error.status, error.retry_after) == (kind, status, after)
    assert words in str(error)


@pytest.mark.parametrize(
    ("answer", "events", "kind"),
    [
        (chunked(EVENT, b""), 1, None),
        (chunked(EVENT[:9], EVENT[9:] + EVENT, EVENT, b""), 3, None),
        (chunked(EVENT, EVENT[:30]), 1, ApiUnavailable),
        (chunked(EVENT, EVENT)[:-20], 1, ApiUnavailable),
        (chunked(EVENT), 1, ApiUnavailable),
        (b"HTTP/1.0 200 OK\r\n\r\n" + EVENT + EVENT, 2, None),
        (b"HTTP/1.0 200 OK\r\n\r\n" + EVENT + EVENT[:30], 1, ApiUnavailable),
        (chunked(EVENT, OLD, EVENT, b""), 1, Gone),
        (chunked(b"[]\n", b""), 0, ApiUnavailable),
        (chunked(EVENT, b'{"type":"ERROR","object":{"code":{}}}\n', b""), 1, ApiError),
        (chunked(EVENT, b"[" * 100_000 + b"\n", b""), 1, ApiUnavailable),
    ],
)
def test_a_watch_is_whole_events_and_then_an_end_or_an_error(
    answer: bytes, events: int, kind: type[ApiError] | None
) -> None:
    seen: list[object] = []
    with answering(answer) as port, contextlib.ExitStack() as stack:
        if kind is not None:
            stack.enter_context(pytest.raises(kind))
        for event in plain(port).watch("/api/v1/pods", "1", seconds=5):
            seen.append(event)  # noqa: PERF402 - what came before an error counts

    assert len(seen) == events


def test_a_writing_request_is_sent_once() -> None:
    """Whether it was done is not known when its connection is cut."""
    served = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            nonlocal served
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        connection.recv(65536)
                        served += 1

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        with pytest.raises(ApiUnavailable):
            plain(listener.getsockname()[1]).create("/api/v1/nodes", {})
        writes = served
        with pytest.raises(ApiUnavailable):
            plain(listener.getsockname()[1]).get("/api/v1/nodes")
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)

    assert (writes, served) == (1, 3)


def test_importing_the_client_does_not_import_the_large_library() -> None:
    """It takes most of a second, and only ``connect`` needs it."""
    program = (
        "import sys, router.kube.client, router.kube.watching, router.kube.events; print('kubernetes' in sys.modules)"
    )

    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "False\n"
