"""When the page reads the cluster, and what a look after a pause gets."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from router.cli.cluster import Cluster
from router.kube.client import connect
from router.page import reader
from router.page.reader import Reader
from tests.agent.whole.waiting import until
from tests.page.apiserver import answering

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
