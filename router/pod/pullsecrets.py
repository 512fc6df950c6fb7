"""Reads registry credentials from Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg.

Pure. A kubelet's rule decides which of them are for an image (pkg/credentialprovider/keyring.go). Host and port must
match (each part of the host between dots may be a glob), and the image's path must begin with the entry's path. Longer
entries come first.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any, Final

from router.site import images

_HUB: Final = "docker.io"
_HUBS: Final = frozenset({_HUB, "index.docker.io", "registry-1.docker.io", "registry.hub.docker.com"})
_OLD: Final = ("kubernetes.io/dockercfg", ".dockercfg")
_NEW: Final = ("kubernetes.io/dockerconfigjson", ".dockerconfigjson")
MOST: Final = 20
"""Most pairs that are tried for one image: each may cost a request to the registry."""

MOST_ENTRIES: Final = 200
"""Entries that are read of one Secret."""
LONGEST_KEY: Final = 512
"""Most characters of a key: a key is a pattern, and one process compares those of all users."""

Pair = tuple[str, str]


def credentials(secrets: Iterable[Mapping[str, Any]], image: str) -> tuple[Pair, ...]:
    """User names and passwords for an image, each once, in the order in which they are tried.

    Secrets of other types, or with invalid JSON, are ignored, as by a kubelet.

    :param secrets: as the API serves them, in the Pod's order
    """
    registry, path = _place(image)
    entries = [(_without_scheme(key), pair) for secret in secrets for key, pair in _entries(secret)]
    entries.sort(key=lambda entry: entry[0], reverse=True)
    found = dict.fromkeys(pair for key, pair in entries if _matches(key, registry, path))
    return tuple(found)[:MOST]


def _place(image: str) -> tuple[str, str]:
    """Host with port, and path, of an image as a Job writes it."""
    name = image.partition("@")[0]
    host = images.host_of(name)
    path = name[len(host) + 1 :]
    if not host:
        host, path = _HUB, name if "/" in name else f"library/{name}"
    return (_HUB if host in _HUBS else host), path


def _entries(secret: Mapping[str, Any]) -> Iterator[tuple[str, Pair]]:
    kind, data = secret.get("type"), secret.get("data") or {}
    if kind == _NEW[0]:
        entries = _json(data.get(_NEW[1])).get("auths")
    elif kind == _OLD[0]:
        entries = _json(data.get(_OLD[1]))
    else:
        return
    for key, entry in islice(entries.items(), MOST_ENTRIES) if isinstance(entries, dict) else ():
        if len(key) <= LONGEST_KEY and isinstance(entry, dict) and (pair := _pair(entry)) is not None:
            yield key, pair


def _json(text: object) -> dict[str, Any]:
    try:
        found = json.loads(base64.b64decode(str(text), validate=True))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _pair(entry: Mapping[str, Any]) -> Pair | None:
    auth = entry.get("auth")
    if isinstance(auth, str) and auth:
        try:
            user, colon, password = base64.b64decode(auth).decode().partition(":")
        except ValueError:
            return None
        return (user, password) if colon else None
    name, word = entry.get("username"), entry.get("password")
    return (name, word) if isinstance(name, str) and isinstance(word, str) and name else None


def _without_scheme(key: str) -> str:
    return key.partition("://")[2] or key


def _matches(key: str, registry: str, path: str) -> bool:
    """Whether an entry is for an image. ``index.docker.io/v1/`` is how Docker writes its own registry."""
    host, _, below = key.partition("/")
    if below.rstrip("/") in {"v1", "v2"}:
        below = ""
    host = _HUB if host in _HUBS else host
    wanted, port = _split(host)
    given, given_port = _split(registry)
    if port != given_port or len(wanted) != len(given):
        return False
    return path.startswith(below) and all(map(_fits, given, wanted))


def _fits(part: str, pattern: str) -> bool:
    return fnmatchcase(part, pattern) if any(sign in pattern for sign in "*?[") else part == pattern


def _split(host: str) -> tuple[list[str], str]:
    name, _, port = host.partition(":")
    return name.split("."), port
