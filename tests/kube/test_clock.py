"""The API server's clock."""

from __future__ import annotations

import time

import pytest

from router.controlplane.plane import ControlPlane
from router.kube.client import connect
from router.kube.clock import server_time


@pytest.mark.parametrize("user", ["admin", "eve"])
def test_everybody_is_told_the_servers_time(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    api = connect(str(plane.kubeconfig(user)))
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)

    assert abs(server_time(api) - now) < 60
