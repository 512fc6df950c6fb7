"""When the page reads the cluster, and what a look after a pause gets."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from router.cli.cluster import LEASES, Cluster
from router.kube.client import Json, connect
from router.page import reader
from router.page.reader import Reader
from tests.agent.whole.waiting import until
from tests.page.apiserver import answering
from tests.page.objects import Told

PAUSE = 780
"""Seconds."""


def pause(view: Reader) -> None:
    """As if nobody had looked for so long."""
    view._looked -= PAUSE
    view._turned -= PAUSE


def test_the_first_look_after_a_pause_waits_for_what_is_read_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "POLL_SECONDS", 1e6)
    monkeypatch.setattr(reader, "FRESH_SECONDS", 60.0)
    with answering() as server:
        view = Reader(server.cluster(tmp_path))
        view.start()
        until(view.sight, lambda seen: seen.known, what="for the first read")
        pause(view)
        came = time.time()

        found = view.sight()

        assert (found.read >= came, found.problem) == (True, "")
        view.stop()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_that_ends_its_thread_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "POLL_SECONDS", 0.01)
    with answering() as server:
        view = Reader(server.cluster(tmp_path))
        new = view.broken
        view.start()
        until(view.sight, lambda seen: seen.known, what="for the first read")
        going = view.broken

        server.misspeaks = True

        ended = until(view.sight, lambda seen: seen.problem, what="for the end of its thread")
        assert ended.problem == "what is here is read no longer, by a fault of this page; start it again"
        assert (new, going, view.broken) == (False, False, True)
        view.stop()


class Noting(Told):
    """Notes when it is asked for a list, by its path."""

    def __init__(self) -> None:
        super().__init__({})
        self.times: dict[str, float] = {}

    def pages(
        self, path: str, left: Callable[[int | None], None] = lambda _: None, /, *, limit: int = 500, **query: object
    ) -> Iterator[tuple[list[Json], str]]:
        self.times[path] = time.time()
        return super().pages(path, left, limit=limit, **query)


def test_leases_are_judged_by_when_they_were_read() -> None:
    """Whoever writes many Events decides how long those take."""
    api = Noting()

    found = reader._look(Cluster(api, "default", named=False, system="system"))

    leases, events = api.times[f"{LEASES}/system/leases"], api.times["/api/v1/events"]
    assert leases <= found.at <= events


def silence(directory: Path, listener: socket.socket) -> Cluster:
    """A cluster that takes connections and then says nothing."""
    file = directory / "kubeconfig"
    file.write_text(
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], "
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{listener.getsockname()[1]}'}}}}], "
        "users: [{name: u, user: {token: t}}]}"
    )
    return Cluster(connect(str(file)), "default", named=False, system="batchgate-system")


def test_looks_at_a_cluster_that_is_silent_wait_once_and_not_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "FRESH_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        view = Reader(silence(tmp_path, listener))
        view.start()
        pause(view)
        begun = time.monotonic()

        first = view.sight()
        waited = time.monotonic() - begun
        for _ in range(100):
            view.sight()

        assert (first.read, 1.0 <= waited < 20, time.monotonic() - begun - waited < 10) == (0, True, True)
        view.stop()
