"""Maps a request's method and path to its target.

Pure. The paths are a subset of the kubelet's; its other paths give 404 here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from router.errors import RequestError


class Target(StrEnum):
    """The targets of requests."""

    LOGS = "containerLogs"
    EXEC = "exec"
    ATTACH = "attach"
    PODS = "pods"
    SUMMARY = "stats/summary"
    RESOURCES = "metrics/resource"
    HEALTH = "healthz"


@dataclass(frozen=True, slots=True)
class Route:
    """A target, and its container where it has one. ``uid`` is empty where the path does not name it."""

    target: Target
    namespace: str = ""
    pod: str = ""
    container: str = ""
    uid: str = ""


STREAMED: Final = frozenset({Target.EXEC, Target.ATTACH})
"""Targets with streams both ways, for which a connection changes its protocol."""
_PLAIN: Final = frozenset({Target.PODS, Target.SUMMARY, Target.RESOURCES, Target.HEALTH})
_STREAMS: Final[Mapping[str, str]] = {
    "run": "running a command in it",
    "portForward": "port-forward",
    "cri": "attaching to it",
}
_LENGTH: Final = 253
"""Characters of the longest name that Kubernetes knows (RFC 1123 subdomain)."""


def route(method: str, path: str) -> Route:
    """The route of a request.

    :param path: the URL's raw path, without the query
    :raises RequestError: 404 unknown path, 405 wrong method, 501 not possible for batch jobs
    """
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if parts[0] in _STREAMS:
        # No "name: value", which an API server up to 1.31 reads as YAML, and shows "unknown error" in its place.
        raise RequestError(
            501,
            f"{_STREAMS[parts[0]]} is not possible, as this Pod runs as a batch job on the nodes of an HPC site; "
            "kubectl logs and kubectl describe show what it does",
        )
    found = _found(parts)
    if found is None:
        raise RequestError(404, "404 page not found")
    if method != "GET" and not (method == "POST" and found.target in STREAMED):
        raise RequestError(405, "405: Method Not Allowed")
    return found


def _found(parts: list[str]) -> Route | None:
    whole = "/".join(parts)
    if whole in _PLAIN:
        return Route(Target(whole))
    if parts[0] not in {Target.LOGS, *STREAMED} or len(parts) not in {4, 5 if parts[0] in STREAMED else 4}:
        return None
    names = [unquote(part) for part in parts[1:]]
    if any(not name or "/" in name or len(name) > _LENGTH for name in names):
        return None
    return Route(Target(parts[0]), names[0], names[1], names[-1], names[2] if len(names) == 4 else "")
