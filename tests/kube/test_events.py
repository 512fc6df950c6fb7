"""Events: what they are, and how they reach a real API server."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.controlplane import installing
from router.controlplane.plane import ControlPlane
from router.kube import events
from router.kube.client import Api, connect
from router.kube.events import PendingEvent, Recorder, Reference, event_object, shortened
from tests.kube.wire import Wire, await_true

POD = Reference("Pod", "physics", "simulation-0", "11111111-2222")
NODE = Reference("Node", "", "main.local.batchgate", "33333333-4444")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("message", "limit", "expected"),
    [
        ("", 10, ""),
        ("0123456789", 10, "0123456789"),
        ("0123456789x", 10, "0123456…"),
        ("üüüüü", 10, "üüüüü"),
        ("üüüüüü", 10, "üüü…"),
        ("a€€€€", 10, "a€€…"),
        ("\udc80", 10, "?"),
    ],
)
def test_a_message_is_cut_between_characters(message: str, limit: int, expected: str) -> None:
    assert shortened(message, limit) == expected


@given(st.text(max_size=600))
def test_a_message_has_at_most_1024_bytes_of_utf8(message: str) -> None:
    short = shortened(message, 1024)

    assert len(short.encode()) <= 1024
    assert short == message or short.endswith("…") or "?" in short


def test_an_event_says_what_kubectl_shows() -> None:
    told = PendingEvent(POD, "Warning", "QueueFull", "qsub: would exceed limit", first=1.0, last=61.5, count=3)

    assert event_object(told, "agent-1_abcd") == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": told.name, "namespace": "physics"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "physics",
            "name": "simulation-0",
            "uid": "11111111-2222",
        },
        "type": "Warning",
        "reason": "QueueFull",
        "message": "qsub: would exceed limit",
        "source": {"component": "batchgate-agent"},
        "reportingComponent": "batchgate-agent",
        "reportingInstance": "agent-1_abcd",
        "firstTimestamp": "1970-01-01T00:00:01Z",
        "lastTimestamp": "1970-01-01T00:01:01Z",
        "count": 3,
    }


def test_events_of_what_has_no_namespace_lie_in_default() -> None:
    event = event_object(PendingEvent(NODE, "Normal", "A", "b", 0, 0), "x")

    assert event["metadata"]["namespace"] == "default"
    assert "namespace" not in event["involvedObject"]


def test_the_same_words_about_the_same_object_have_one_name() -> None:
    def named(about: Reference = POD, kind: events.Kind = "Normal", reason: str = "A", message: str = "b") -> str:
        return PendingEvent(about, kind, reason, message, 1, 2).name

    others = {
        named(Reference("Pod", "physics", "simulation-0", "another")),
        named(kind="Warning"),
        named(reason="B"),
        named(message="c"),
        named(reason="Ab", message=""),
    }

    assert named() == PendingEvent(POD, "Normal", "A", "b", 3, 4, 9).name
    assert named() not in others
    assert len(others) == 5


@given(st.from_regex(SUBDOMAIN, fullmatch=True).filter(lambda name: len(name) <= 253), st.text())
def test_a_name_is_one_that_the_api_takes(name: str, message: str) -> None:
    told = PendingEvent(Reference("Pod", "x", name, "uid"), "Normal", "A", message, 0, 0)

    assert len(told.name) <= 253
    assert SUBDOMAIN.fullmatch(told.name)


def test_programs_get_no_more_events_than_a_kubelet_would_write(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder(cast("Api", None), "agent-1")
    now = 1000.0
    monkeypatch.setattr("router.kube.events.time.monotonic", lambda: now)

    def allowed(uid: str, seconds: float) -> int:
        nonlocal now
        now += seconds
        return sum(recorder.allows(uid) for _ in range(100))

    assert [allowed("u", 0), allowed("other", 0), allowed("u", 299), allowed("u", 1), allowed("u", 86400)] == [
        25,
        25,
        0,
        1,
        25,
    ]


# --- against the real API server ----------------------------------------------------------------------------------


@pytest.fixture
def recorders() -> Iterator[list[Recorder]]:
    """Recorders that are ended with the test."""
    started: list[Recorder] = []
    yield started
    for recorder in started:
        recorder.stop(0)


def started(recorders: list[Recorder], api: Api) -> Recorder:
    recorder = Recorder(api, "agent-1")
    recorders.append(recorder)
    recorder.start()
    return recorder


@pytest.fixture
def pod(api: Api, namespace: str) -> Reference:
    """A Pod that waits for ever."""
    body = {
        "metadata": {"name": "waits"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "busybox"}]},
    }
    made = api.create(f"/api/v1/namespaces/{namespace}/pods", body)
    return Reference("Pod", namespace, "waits", made["metadata"]["uid"])


def ours(api: Api, namespace: str) -> list[dict[str, Any]]:
    found = api.get(f"/api/v1/namespaces/{namespace}/events")["items"]
    return [event for event in found if event["source"].get("component") == events.COMPONENT]


def test_kubectl_describes_what_was_told(
    plane: ControlPlane, api: Api, pod: Reference, recorders: list[Recorder]
) -> None:
    recorder = started(recorders, api)

    recorder.tell(pod, "Normal", "Submitted", "batch job 17.server in queue main")
    assert recorder.flush(60)

    shown = plane.kubectl("describe", "pod", "waits", "-n", pod.namespace).stdout
    (line,) = (line for line in shown.splitlines() if "Submitted" in line)
    assert line.split()[:2] == ["Normal", "Submitted"]
    assert "batchgate-agent" in line
    assert line.endswith("batch job 17.server in queue main")


def test_kubectl_describes_what_was_told_of_a_node(plane: ControlPlane, api: Api, recorders: list[Recorder]) -> None:
    node = api.create("/api/v1/nodes", {"metadata": {"name": "told"}})["metadata"]
    recorder = started(recorders, api)
    try:
        recorder.tell(Reference("Node", "", "told", node["uid"]), "Warning", "HPCUnavailable", "qstat does not answer")
        assert recorder.flush(60)

        assert "qstat does not answer" in plane.kubectl("describe", "node", "told").stdout
    finally:
        api.delete("/api/v1/nodes/told")


def test_repeats_are_counted_up_and_not_written_each_time(
    api: Api, pod: Reference, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = started(recorders, api)
    for _ in range(5):
        recorder.tell(pod, "Warning", "QueueFull", "later")
        assert recorder.flush(60)
    (event,) = ours(api, pod.namespace)
    assert event["count"] == 1

    monkeypatch.setattr(events, "REPEAT_SECONDS", 0.0)
    recorder.tell(pod, "Warning", "QueueFull", "later")
    assert recorder.flush(60)

    (event,) = ours(api, pod.namespace)
    assert event["count"] == 6
    assert event["lastTimestamp"] >= event["firstTimestamp"]


def test_a_process_after_this_one_counts_on(
    plane: ControlPlane, api: Api, pod: Reference, recorders: list[Recorder]
) -> None:
    agent = connect(str(installing.agent(plane)))  # which may write Events, and not read them
    for expected in (1, 2, 3):
        recorder = started(recorders, agent)
        recorder.tell(pod, "Normal", "Submitted", "batch job 17.server")
        assert recorder.flush(60)
        (event,) = ours(api, pod.namespace)
        assert (event["count"], recorder.dropped) == (expected, 0)


def test_an_event_that_has_expired_is_written_again(
    api: Api, pod: Reference, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "REPEAT_SECONDS", 0.0)
    recorder = started(recorders, api)
    recorder.tell(pod, "Normal", "Started", "on node 7")
    assert recorder.flush(60)
    (event,) = ours(api, pod.namespace)
    api.delete(f"/api/v1/namespaces/{pod.namespace}/events/{event['metadata']['name']}")

    recorder.tell(pod, "Normal", "Started", "on node 7")
    assert recorder.flush(60)

    (event,) = ours(api, pod.namespace)
    assert event["count"] == 1


def test_what_is_refused_is_dropped_and_the_others_are_written(
    api: Api, pod: Reference, recorders: list[Recorder], caplog: pytest.LogCaptureFixture
) -> None:
    recorder = started(recorders, api)
    for number in range(3):
        recorder.tell(Reference("Pod", "no-such-namespace", f"p{number}", "1"), "Normal", "Started", "x")
    recorder.tell(pod, "Normal", "Started", "x")
    assert recorder.flush(60)

    assert recorder.dropped == 3
    assert [event["message"] for event in ours(api, pod.namespace)] == ["x"]
    assert len([record for record in caplog.records if "are not written" in record.message]) == 1


def test_events_wait_for_a_server_that_is_away(
    plane: ControlPlane, wired: tuple[Wire, Api], pod: Reference, recorders: list[Recorder]
) -> None:
    wire, through = wired
    direct = connect(str(plane.kubeconfig()))
    wire.refuses = True
    recorder = started(recorders, through)
    for number in range(20):
        recorder.tell(pod, "Normal", "Started", f"run {number}")
        recorder.tell(pod, "Normal", "Started", "again")
    assert not recorder.flush(0.5)

    wire.mend()
    assert recorder.flush(90)

    written = {event["message"]: event["count"] for event in ours(direct, pod.namespace)}
    assert written == {"again": 20, **{f"run {number}": 1 for number in range(20)}}
    assert recorder.dropped == 0


def test_no_more_wait_than_there_is_room_for(
    wired: tuple[Wire, Api], pod: Reference, recorders: list[Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LONGEST_QUEUE", 5)
    wire, api = wired
    wire.refuses = True
    recorder = Recorder(api, "agent-1")
    recorders.append(recorder)
    for number in range(8):
        recorder.tell(pod, "Normal", "Started", f"run {number}")

    assert recorder.dropped == 3


def test_a_recorder_that_is_stopped_ends_its_thread(wired: tuple[Wire, Api], pod: Reference) -> None:
    wire, api = wired
    wire.refuses = True
    recorder = Recorder(api, "agent-1")
    recorder.start()
    recorder.tell(pod, "Normal", "Started", "x")

    recorder.stop(0.1)

    await_true(lambda: "events" not in {thread.name for thread in threading.enumerate()}, "its thread has ended")
