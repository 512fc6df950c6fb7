"""Probes and metrics over HTTP."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from router.agent.leader import serving
from router.agent.leader.serving import verdict
from router.agent.metrics import Metrics
from router.errors import ConfigError
from router.hpc import QueueReport
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


class Known:
    """Figures that a leader could have."""

    def jobs(self) -> Mapping[tuple[str, str], int]:
        return {("workq", "Running"): 3}

    def stuck(self) -> Mapping[tuple[str, str], int]:
        return {("", "Held"): 1}

    def queues(self) -> Mapping[str, QueueReport]:
        return {"workq": QueueReport("workq", enabled=True, started=False, queued=7, waited=90)}

    def ages(self) -> Mapping[str, float]:
        return {"pods": 1.5}


class Broken(Known):
    def jobs(self) -> Mapping[tuple[str, str], int]:
        return {("workq", "Running"): 1 // 0}


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
    metrics.show(Known())

    code, text = get(f"{url}/metrics")

    assert code == 200
    for line in (
        'batchgate_agent_commands_total{kind="list",outcome="ok"} 1.0',
        'batchgate_agent_jobs{queue="workq",state="Running"} 3.0',
        'batchgate_agent_stuck_pods{queue="",reason="Held"} 1.0',
        'batchgate_agent_queue_open{queue="workq"} 0.0',
        'batchgate_agent_queue_jobs{queue="workq",state="queued"} 7.0',
        'batchgate_agent_queue_wait_seconds{queue="workq"} 90.0',
        'batchgate_agent_informer_age_seconds{of="pods"} 1.5',
        "batchgate_agent_leading 0.0",
    ):
        assert line in text.splitlines()
    # What the batch system does not say has no figure.
    assert "batchgate_agent_queue_free_nodes{" not in text
    assert 'batchgate_agent_queue_jobs{queue="workq",state="running"}' not in text


@pytest.mark.parametrize("first", [b"", b"GET /metrics HTTP/1.1\r\nHost: "], ids=["idle", "half a request"])
def test_a_flood_takes_few_threads_and_no_probe_waits(
    served: tuple[str, World, Metrics],
    first: bytes,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serving._Handler, "timeout", 60)  # a probe must not wait for that
    port = int(served[0].rpartition(":")[2])
    before = threading.active_count()
    codes, seconds, threads = [], [], []
    with ExitStack() as stack:
        for _ in range(10):
            for _ in range(40):
                client = stack.enter_context(
                    socket.create_connection(("127.0.0.1", port), 60, source_address=("127.0.0.2", 0))
                )
                client.sendall(first)
            started = time.monotonic()
            codes += [get(f"{served[0]}/livez")[0], get(f"{served[0]}/metrics")[0]]
            seconds.append(time.monotonic() - started)
            threads.append(threading.active_count() - before)

    assert set(codes) == {200}
    assert max(seconds) < 30
    assert max(threads) <= serving.THREADS
    assert capfd.readouterr() == ("", "")


def test_a_client_that_asks_nothing_is_closed(
    served: tuple[str, World, Metrics], capfd: pytest.CaptureFixture[str]
) -> None:
    port = int(served[0].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        assert client.recv(1) == b""
    assert capfd.readouterr() == ("", "")


def test_a_client_that_resets_leaves_no_traceback(
    served: tuple[str, World, Metrics], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    port = int(served[0].rpartition(":")[2])
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")

    assert get(f"{served[0]}/livez")[0] == 200
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""


def test_a_page_that_fails_is_a_line_of_the_log(
    served: tuple[str, World, Metrics], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    url, _, metrics = served
    metrics.show(Broken())

    with pytest.raises(ConnectionError):
        get(f"{url}/metrics")

    assert get(f"{url}/livez")[0] == 200
    assert capfd.readouterr() == ("", "")
    assert [record.getMessage() for record in caplog.records] == [
        "an answer on the port of probes and metrics failed: ZeroDivisionError: integer division or modulo by zero"
    ]


def test_a_port_that_is_taken_is_one_sentence(served: tuple[str, World, Metrics]) -> None:
    port = int(served[0].rpartition(":")[2])

    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*; choose another --metrics"):
        serving.serve(
            Address("127.0.0.1", port), live=lambda: verdict(""), ready=lambda: verdict(""), metrics=lambda: b""
        )
