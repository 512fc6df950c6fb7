from __future__ import annotations

import pytest

from router.errors import RequestError
from router.kubelet.routes import Route, Target, route

WHY = "this Pod runs as a batch job on the nodes of an HPC site; kubectl logs and kubectl describe show what it does"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/containerLogs/ns/pod/main", Route(Target.LOGS, "ns", "pod", "main")),
        ("/containerLogs/ns/pod%2Eone/main/", Route(Target.LOGS, "ns", "pod.one", "main")),
        ("/exec/ns/pod/main", Route(Target.EXEC, "ns", "pod", "main")),
        ("/exec/ns/pod/uid/main", Route(Target.EXEC, "ns", "pod", "main", "uid")),
        ("/attach/ns/pod/main", Route(Target.ATTACH, "ns", "pod", "main")),
        ("/pods", Route(Target.PODS)),
        ("/pods/", Route(Target.PODS)),
        ("/stats/summary", Route(Target.SUMMARY)),
        ("/metrics/resource", Route(Target.RESOURCES)),
        ("/healthz", Route(Target.HEALTH)),
    ],
)
def test_what_a_path_asks_for(path: str, expected: Route) -> None:
    assert route("GET", path) == expected


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("POST", "/portForward/ns/pod", 501, f"port-forward is not possible, as {WHY}"),
        ("POST", "/run/ns/pod/main", 501, f"running a command in it is not possible, as {WHY}"),
        ("GET", "/cri/exec/token", 501, f"attaching to it is not possible, as {WHY}"),
        ("POST", "/containerLogs/ns/pod/main", 405, "405: Method Not Allowed"),
        ("DELETE", "/pods", 405, "405: Method Not Allowed"),
        ("HEAD", "/healthz", 405, "405: Method Not Allowed"),
        ("GET", "/", 404, "404 page not found"),
        ("GET", "", 404, "404 page not found"),
        ("GET", "//pods", 404, "404 page not found"),
        ("PUT", "/exec/ns/pod/main", 405, "405: Method Not Allowed"),
        ("POST", "/exec/ns/pod", 404, "404 page not found"),
        ("POST", "/exec/ns/pod/uid/main/more", 404, "404 page not found"),
        ("GET", "/containerLogs/ns/pod", 404, "404 page not found"),
        ("GET", "/containerLogs/ns//main", 404, "404 page not found"),
        ("GET", "/containerLogs/ns/pod/main/more", 404, "404 page not found"),
        ("GET", "/containerLogs/ns/..%2Fpod/main", 404, "404 page not found"),
        ("GET", "/containerLogs/ns/pod/" + "a" * 254, 404, "404 page not found"),
        ("GET", "/logs/messages", 404, "404 page not found"),
        ("GET", "/configz", 404, "404 page not found"),
        ("GET", "/runningpods/", 404, "404 page not found"),
        ("GET", "/metrics", 404, "404 page not found"),
        ("POST", "/checkpoint/ns/pod/main", 404, "404 page not found"),
    ],
)
def test_what_is_not_there_or_not_possible(method: str, path: str, status: int, text: str) -> None:
    with pytest.raises(RequestError) as refused:
        route(method, path)

    assert (refused.value.status, refused.value.text) == (status, text)
